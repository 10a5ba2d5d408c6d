"""A document as its author wants to see it first: the cells on one side, the payload they became on the other, problems between.

Owns: which cells and fields stand on one line, and what is said of cells that fill nothing. Knows no terminal.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from loadsheet.mapping import Document
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping_tools.diff import flat
from loadsheet.mapping_tools.explain import Cell, Explanation, Made, explain
from loadsheet.problems import Problem, Where
from loadsheet.reading import Table, fold


@dataclass(frozen=True, slots=True)
class Preview:
    """A document: operation, key, its rows as `table: numbers`, its values in the payload's order, the cells that fill no field (of a
    refused document: all cells of its first rows), and its problems.
    """

    operation: str
    key: str
    rows: tuple[str, ...]
    values: tuple[Explanation, ...]
    unused: tuple[Cell, ...]
    problems: tuple[Problem, ...]


def preview(mapping: CompiledMapping, document: Document, tables: Mapping[str, Table]) -> Preview:
    """The preview of one document that was read from these tables (by the mapping's names)."""

    def place(table: str, row: int, column: int | None) -> Where:
        return tables[table].where(row, column)

    columns = {name: table.columns for name, table in tables.items()}
    headers = {name: table.header for name, table in tables.items()}
    made = Made(document.payload, document.rows, document.items, mapping.lineage, columns, headers, place)
    values = tuple(explain(made, list(flat(document.payload)), None))
    numbers: dict[str, list[str]] = {}
    for row in document.rows:
        numbers.setdefault(row.table, []).append(str(row.number))
    rows = tuple(f"{table}: {', '.join(found)}" for table, found in numbers.items())
    unused = tuple(_unused(mapping, document, tables))
    return Preview(document.operation, document.key, rows, values, unused, document.problems)


def _unused(mapping: CompiledMapping, document: Document, tables: Mapping[str, Table]) -> list[Cell]:
    """Cells of the document's first rows whose column fills no field of any record, with the header's own words; of a refused
    document all of them.
    """
    lineage = mapping.lineage if document.payload else {}
    used = {fold(source.label) for sources in lineage.values() for source in sources}
    for table in mapping.plan.tables:  # under an alias a column is the same column
        for column in table.columns:
            own = {fold(label) for label in (column.label, *column.spec.aliases)}
            used |= own if own & used else set()
    found = []
    for name, source in tables.items():
        row = next((row for row in document.rows if row.table == name), None)
        for position, label in enumerate(source.header):
            filled = row is not None and position < len(row.cells) and row.cells[position].strip()
            if row is not None and filled and label.strip() and fold(label) not in used:
                found.append(Cell(source.where(row.number, position), label, row.cells[position]))
    return found

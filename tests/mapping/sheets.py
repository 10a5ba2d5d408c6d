"""Small mappings and tables for the tests of the room: real mapping files on disk, tables as reading hands them over."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec

from loadsheet.contract import Assumptions
from loadsheet.mapping import Document, Ignored, load, translate
from loadsheet.reading.tables import Row, Table

ASSUMED = Assumptions()
NOW = datetime(2026, 3, 6, tzinfo=UTC)
decode = msgspec.json.Decoder(float_hook=Decimal).decode
EXAMPLES = Path(__file__).parent / "examples"


def load_text(folder, text, assumptions=ASSUMED, **lookups):
    """A mapping from its text; `lookups` are the code tables' texts by file name without .csv."""
    for name, content in lookups.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
    path = folder / "mapping.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, assumptions)


def table(plan, rows, *, sheet="", file="drop.csv", problems=None, header=None):
    """A table under the labels of the plan's columns. `rows` are lists of cells; row numbers count from 2."""
    header = tuple(column.label for column in plan.columns) if header is None else tuple(header)
    columns = {column.name: header.index(column.label) for column in plan.columns if column.label in header}
    kept = [Row(number, tuple(cells), (problems or {}).get(number)) for number, cells in enumerate(rows, 2)]
    return Table(plan.name, file, sheet, header, 1, columns, lambda: iter(kept), {})


def run(mapping, *tables_of_rows, now=NOW, **options):
    """Documents and ignored rows of a drop; one list of rows for each table of the mapping."""
    plans = mapping.plan.tables
    names = [plan.name for plan in plans]
    files = names if len(names) > 1 else ["drop"]
    tables = {
        plan.name: rows if isinstance(rows, Table) else table(plan, rows, file=f"{file}.csv")
        for plan, rows, file in zip(plans, tables_of_rows, files, strict=True)
    }
    return list(translate(mapping, tables, now=now, **options))


def documents(mapping, *tables_of_rows, **options):
    return [found for found in run(mapping, *tables_of_rows, **options) if isinstance(found, Document)]


def accounted(found):
    """Every row that came out, as (table, row number), in documents and ignored."""
    rows = [row for item in found if isinstance(item, Document) for row in item.rows]
    rows += [item.row for item in found if isinstance(item, Ignored)]
    return sorted((row.table, row.number) for row in rows)


def codes(document):
    return [problem.code for problem in document.problems]

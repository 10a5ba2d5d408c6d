"""Translates a drop and counts its rows while they are read; its headings and cells are checked on the way.

The row count is compared with what the ledger received. It does not depend on the mapping, so it cannot share the mapping's faults.

A row of a sheet that several mappings read counts once, whatever they make of it. Rows are compared by their number, so the mappings may
find different headings and leave out different rows. The first document with a row counts it, later ones share it. A row is ignored only
if no mapping makes anything of it. Its rule is that of the first mapping.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache

from loadsheet.heading_checks import HeadingNotes, column_uses, headings_of, rows_in_doubt
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.documents import COUNTED_IN, Document, Ignored, TableNotes, part_of_table
from loadsheet.mapping.rows import source_row
from loadsheet.mapping.translator import keys_on_several_sheets, translate
from loadsheet.reading import DamageChecks, Row, Table
from loadsheet.reading.tables import STRUCK_OUT
from loadsheet.workbook_marks import table_of

_MIXED_STYLES = frozenset({"R225", "R227"})


class DropTranslation:
    """The translation of a drop. Rows are counted when a table is read to its end, and checked for damage. Rows and notes are known after
    the last document.
    """

    def __init__(self, mapping: CompiledMapping, tables: Mapping[str, Table], now: datetime) -> None:
        self._rows: Counter[str] = Counter()
        self._mapping, self._read, self._now = mapping, tables, now
        self._counted_in = counting_tables(tables)
        self._numbers = {counting: RowNumbers() for counting in self._counted_in.values()}
        uses = column_uses(mapping)
        self._damage_checks = {
            name: DamageChecks(table, uses.get(table_of(name), {})) for name, table in tables.items()
        }
        self._tables = {name: replace(table, rows=self._counting(table)) for name, table in tables.items()}
        self.headings = cache(self._headings_of)
        """The headings of a table that are unused or missing, known after its rows were read."""

    def rows(self) -> Mapping[str, int]:
        """The number of rows read, by table."""
        return self._rows

    def documents(self) -> Iterator[Document | Ignored]:
        """The documents and ignored rows, in order. Raises what reading raises."""
        if not self._mapping.parts:
            return self._documents_of(self._mapping)
        return self._documents_of_parts()

    def _documents_of(self, mapping: CompiledMapping) -> Iterator[Document | Ignored]:
        """The documents of one mapping. If it reads several sheets, a record ends with its sheet."""
        sheets = list(_by_sheet(mapping, self._tables))
        uncounted = _by_sheet(mapping, self._read) if len(sheets) > 1 else ()
        several = keys_on_several_sheets(mapping, uncounted, now=self._now)
        for tables in sheets:
            yield from translate(mapping, tables, now=self._now, on_several_sheets=several)

    def _documents_of_parts(self) -> Iterator[Document | Ignored]:
        rows = SharedRows(self._read)
        for part in self._mapping.parts:
            yield from rows.once(self._documents_of(part))
        yield from rows.ignored()

    def notes(self) -> Mapping[str, TableNotes]:
        """The notes on each table, known after its rows were read. What several mappings find in one sheet is noted once."""
        found = {
            name: self._notes_on(self._read[name], damage_checks) for name, damage_checks in self._damage_checks.items()
        }
        for name, counting in self._counted_in.items():
            if counting != name:
                known = found[counting].problems
                found[name] = TableNotes(tuple(problem for problem in found[name].problems if problem not in known))
        return found

    def _notes_on(self, table: Table, damage_checks: DamageChecks) -> TableNotes:
        # The original of a fix file was checked; beside the texts of a CSV file it has the sender's numbers and dates.
        if table.fix_positions:
            found = damage_checks.problems()
            kept = [problem for problem in found if problem.code not in _MIXED_STYLES]
            return TableNotes((*rows_in_doubt(table, STRUCK_OUT), *kept))
        headings = self.headings(table.name)
        return TableNotes(
            (*headings.problems, *damage_checks.problems()), tuple(headings.unused.values()), damage_checks.blank_rows
        )

    def _headings_of(self, name: str) -> HeadingNotes:
        table = self._read[name]
        place = (table.file, table.sheet, table.header)
        same_sheet = [other for other in self._read.values() if (other.file, other.sheet, other.header) == place]
        return headings_of(self._mapping, table, same_sheet, self._damage_checks[name].filled)

    def _counting(self, table: Table) -> Callable[[], Iterator[Row]]:
        damage_checks, counting = self._damage_checks[table.name], self._counted_in.get(table.name)

        def counted() -> Iterator[Row]:
            count = 0
            rows = damage_checks.watch(table.rows())
            if counting is None:
                for count, row in enumerate(rows, start=1):  # noqa: B007 (the count is needed)
                    yield row
                self._rows[table.name] = count
            else:
                yield from self._numbers[counting].collect(rows)
                self._rows[table.name] = 0
                self._rows[counting] = len(self._numbers[counting])

        return counted


def _by_sheet(mapping: CompiledMapping, tables: Mapping[str, Table]) -> Iterator[Mapping[str, Table]]:
    """The tables to translate together, by the mapping's names: those of each sheet if it reads several, else all."""
    sources = {plan.source for plan in mapping.plan.tables}
    if len(sources) > 1:
        yield tables
    else:
        yield from ({table_of(name): table} for name, table in tables.items() if table_of(name) in sources)


# ---- rows of sheets that several mappings read ----


class RowNumbers:
    """A set of row numbers of a sheet, each with a small number, in two bytes a row."""

    def __init__(self) -> None:
        self._values = array("H")  # by row number; 0: not in the set
        self._count = 0

    def add(self, number: int, value: int = 1) -> bool:
        """Add a row. Returns whether it is new."""
        values = self._values
        if number >= len(values):
            values.frombytes(
                bytes(2 * max(number + 1 - len(values), len(values)))
            )  # doubles, so that few rows extend it
        if values[number]:
            return False
        values[number] = value
        self._count += 1
        return True

    def collect(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, unchanged. Their numbers are added."""
        for row in rows:
            self.add(row.number)
            yield row

    def has_rows_not_in(self, other: "RowNumbers") -> bool:
        """Whether a row is here but not there."""
        return any(value and not other[number] for number, value in enumerate(self._values))

    def __getitem__(self, number: int) -> int:
        """The small number of a row; 0 if the row is not in the set."""
        return self._values[number] if number < len(self._values) else 0

    def __len__(self) -> int:
        return self._count


def with_counting_tables(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables of a drop. A table on a sheet that a mapping before reads names in its notes the table there that counts the rows."""
    first: dict[tuple[str, str], Table] = {}
    marked = {}
    for name, table in tables.items():
        counting = first.setdefault((table.file, table.sheet), table)
        is_shared = part_of_table(counting.name) != part_of_table(name)
        marked[name] = (
            replace(table, reading_notes={**table.reading_notes, COUNTED_IN: counting.name}) if is_shared else table
        )
    return marked


def counting_tables(tables: Mapping[str, Table]) -> dict[str, str]:
    """The table that counts the rows of each table on a sheet that several mappings read."""
    found = {
        name: table.reading_notes[COUNTED_IN] for name, table in tables.items() if COUNTED_IN in table.reading_notes
    }
    return {counting: counting for counting in found.values()} | found


class SharedRows:
    """Counts the rows that the documents of all mappings of a drop are made from."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables, self._counted_in = tables, counting_tables(tables)
        self._used = {counting: RowNumbers() for counting in self._counted_in.values()}
        self._ignored = {counting: RowNumbers() for counting in self._used}  # with the number of the rule
        self._rules: dict[str, int] = {}

    def once(self, items: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        """The documents of one mapping; those that share rows with earlier ones say so. Ignored rows of shared sheets come at the end."""
        for item in items:
            if isinstance(item, Document):
                yield self._counted_once(item)
            elif (counting := self._counted_in.get(item.row.table)) is None:
                yield item
            else:
                self._ignored[counting].add(item.row.number, self._rules.setdefault(item.rule, len(self._rules) + 1))

    def ignored(self) -> Iterator[Ignored]:
        """The rows of shared sheets that no mapping made anything of, after the last document. Reads their sheets again."""
        rules = dict(zip(self._rules.values(), self._rules, strict=True))
        for name, counting in self._counted_in.items():
            table, ignored, used = self._tables[name], self._ignored[counting], self._used[counting]
            for row in table.rows() if ignored.has_rows_not_in(used) else ():
                if ignored[row.number] and used.add(row.number):
                    yield Ignored(source_row(table, row), rules[ignored[row.number]])

    def _counted_once(self, document: Document) -> Document:
        before = document.links.shared
        shared = []
        for index, row in enumerate(document.rows):
            counting = self._counted_in.get(row.table)
            if counting is None:
                shared += [index] if index in before else []
            elif not self._used[counting].add(row.number):
                shared.append(index)
        if tuple(shared) == before:
            return document
        return replace(document, links=replace(document.links, shared=tuple(shared)))

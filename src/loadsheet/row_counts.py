"""The translation of a drop: its rows are counted while they are read, and its headings and cells are checked for damage.

The row count is compared with what the ledger received. It does not depend on the mapping, so it cannot share the mapping's faults.

A row of a sheet that several mappings read counts once, whatever they make of it. Rows are compared by their number, so the mappings may
find different headings and leave out different rows. The first document with a row counts it, later ones share it. A row is ignored only
if no mapping makes anything of it. Its rule is that of the first mapping.

Unused columns are information. A heading that looks like a misspelling of a missing column gives a warning, as does a missing column
beside unused ones, which may be it under a new heading, and a control character in a heading. `drop_checks` compares them with earlier files.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import NamedTuple

from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.conversion import NUMBERS
from loadsheet.mapping.documents import COUNTED_IN, SHARED, Document, Ignored, TableNotes, part_of_table
from loadsheet.mapping.layouts import columns_by_heading, wanted_columns
from loadsheet.mapping.notations import format_reader
from loadsheet.mapping.plans import ColumnPlan, TablePlan
from loadsheet.mapping.rows import View, source_row
from loadsheet.mapping.translator import keys_on_several_sheets, translate
from loadsheet.problems import Problem, column_letters
from loadsheet.reading import DamageChecks, Row, Table
from loadsheet.reading.header import fold_label
from loadsheet.reading.tables import (
    ABSENT,
    ALIKE_NOT_READ,
    CONTROL,
    HIDDEN_READ,
    STRUCK_OUT,
    ColumnUse,
    WantedColumn,
)
from loadsheet.similar_text import one_typo_away, short_list
from loadsheet.workbook_marks import table_of


class DropTranslation:
    """The translation of a drop. Rows are counted when a table is read to its end, and checked for damage. Rows and notes are known after
    the last document.
    """

    def __init__(self, mapping: CompiledMapping, tables: Mapping[str, Table], now: datetime) -> None:
        self._rows: Counter[str] = Counter()
        self._mapping, self._read, self._now = mapping, tables, now
        self._counted_in = counting_tables(tables)
        self._numbers = {counting: RowMarks() for counting in self._counted_in.values()}
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
        if table.at:
            found = damage_checks.problems()
            kept = [problem for problem in found if problem.code not in _MIXED_STYLES]
            return TableNotes((*_rows_in_doubt(table, STRUCK_OUT), *kept))
        headings = self.headings(table.name)
        return TableNotes(
            (*headings.problems, *damage_checks.problems()), tuple(headings.unused.values()), damage_checks.blank_rows
        )

    def _headings_of(self, name: str) -> "HeadingNotes":
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
                yield from self._numbers[counting].watch(rows)
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


class RowMarks:
    """A mark for each row of a sheet, by the row's number (0: none), in two bytes a row. Its length is the number of marked rows."""

    def __init__(self) -> None:
        self._marks = array("H")
        self._count = 0

    def add(self, number: int, mark: int = 1) -> bool:
        """Mark a row that has no mark. Returns whether it had none."""
        marks = self._marks
        if number >= len(marks):
            marks.frombytes(bytes(2 * max(number + 1 - len(marks), len(marks))))  # doubles, so that few rows extend it
        if marks[number]:
            return False
        marks[number] = mark
        self._count += 1
        return True

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, unchanged. They are marked."""
        for row in rows:
            self.add(row.number)
            yield row

    def has_others(self, than: "RowMarks") -> bool:
        """Whether a row is marked here but not there."""
        return any(mark and not than[number] for number, mark in enumerate(self._marks))

    def __getitem__(self, number: int) -> int:
        return self._marks[number] if number < len(self._marks) else 0

    def __len__(self) -> int:
        return self._count


def with_counting_tables(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables of a drop. A table on a sheet that a mapping before reads names, in `found`, the table there that counts the rows."""
    first: dict[tuple[str, str], Table] = {}
    marked = {}
    for name, table in tables.items():
        counting = first.setdefault((table.file, table.sheet), table)
        is_shared = part_of_table(counting.name) != part_of_table(name)
        marked[name] = replace(table, found={**table.found, COUNTED_IN: counting.name}) if is_shared else table
    return marked


def counting_tables(tables: Mapping[str, Table]) -> dict[str, str]:
    """The table that counts the rows of each table on a sheet that several mappings read."""
    found = {name: table.found[COUNTED_IN] for name, table in tables.items() if COUNTED_IN in table.found}
    return {counting: counting for counting in found.values()} | found


class SharedRows:
    """Counts the rows that the documents of all mappings of a drop are made from."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables, self._counted_in = tables, counting_tables(tables)
        self._used = {counting: RowMarks() for counting in self._counted_in.values()}
        self._left = {counting: RowMarks() for counting in self._used}  # marked with the number of the rule
        self._rules: dict[str, int] = {}

    def once(self, items: Iterable[Document | Ignored]) -> Iterator[Document | Ignored]:
        """The documents of one mapping; those that share rows with earlier ones say so. Ignored rows of shared sheets come at the end."""
        for item in items:
            if isinstance(item, Document):
                yield self._counted_once(item)
            elif (counting := self._counted_in.get(item.row.table)) is None:
                yield item
            else:
                self._left[counting].add(item.row.number, self._rules.setdefault(item.rule, len(self._rules) + 1))

    def ignored(self) -> Iterator[Ignored]:
        """The rows of shared sheets that no mapping made anything of, after the last document. Reads their sheets again."""
        rules = dict(zip(self._rules.values(), self._rules, strict=True))
        for name, counting in self._counted_in.items():
            table, left, used = self._tables[name], self._left[counting], self._used[counting]
            for row in table.rows() if left.has_others(used) else ():
                if left[row.number] and used.add(row.number):
                    yield Ignored(source_row(table, row), rules[left[row.number]])

    def _counted_once(self, document: Document) -> Document:
        before = document.items.get(SHARED, ())
        shared = []
        for index, row in enumerate(document.rows):
            counting = self._counted_in.get(row.table)
            if counting is None:
                shared += [index] if index in before else []
            elif not self._used[counting].add(row.number):
                shared.append(index)
        if tuple(shared) == before:
            return document
        items = {name: indexes for name, indexes in document.items.items() if name != SHARED}
        return replace(document, items={**items, SHARED: tuple(shared)} if shared else items)


# ---- headings ----

_MOMENTS = frozenset({"date", "datetime", "time"})
_BRACKETED = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_WORDS = {
    "%Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%b": "month", "%B": "month", "%a": "weekday", "%A": "weekday", "%H": "hh", "%I": "hh", "%M": "mm", "%S": "ss",
    "%f": "fraction", "%p": "AM/PM", "%z": "zone", "%s": "seconds since 1970", "%E": "day number", "%%": "%",
}  # fmt: skip
_MIXED_STYLES = frozenset({"R225", "R227"})
_IN_DOUBT = {STRUCK_OUT: "R252", HIDDEN_READ: "R256"}
_RENAMED = (
    "if one of these is that column under a new heading, correct the heading, or add it to the aliases of the column"
)
_CORRECT = "if so, correct the heading; if not, there is nothing to do"


class HeadingNotes(NamedTuple):
    """The unused columns of a table: heading or letter by position. The missing ones for which nothing else gives a value, each as the
    headings that it may have. The warnings about headings.
    """

    unused: Mapping[int, str]
    missing: Sequence[tuple[str, ...]]
    problems: tuple[Problem, ...]


def column_uses(mapping: CompiledMapping) -> dict[str, dict[str, ColumnUse]]:
    """How a mapping reads the columns of each table, by their names in the table's layout."""
    uses: dict[str, dict[str, ColumnUse]] = {}
    for plan in mapping.plan.tables:
        own = {column.name: _column_use(column, is_key=column.slot.index in plan.key) for column in plan.columns}
        found = {wanted.name: own[column.name] for wanted, column in columns_by_heading(plan)}
        uses.setdefault(plan.source, {}).update(found)
    return uses


def headings_of(
    mapping: CompiledMapping, table: Table, same_sheet: Sequence[Table], filled: frozenset[int]
) -> HeadingNotes:
    """Check the headings of a table. `same_sheet` are the tables read from its sheet, this one among them; `filled` are the positions of
    columns that have values but no heading.
    """
    used = {place for other in same_sheet for place in other.columns.values()}
    for other in same_sheet:
        used |= {
            place
            for plan in mapping.plan.tables
            if plan.source == table_of(other.name)
            for place in _by_number(plan, other)
        }
    plans = [plan for plan in mapping.plan.tables if plan.source == table_of(table.name)]
    free = {place: _clean(label) for place, label in enumerate(table.header) if place not in used}
    shown = {
        place: label or f"column {column_letters(place)}" for place, label in free.items() if label or place in filled
    }
    missing = [column for plan in plans for column in wanted_columns(plan) if column.name not in table.columns]
    labels = {fold_label(label): column.labels[0] for column in missing for label in column.labels}
    lacking = _without_value(plans, missing)
    misspelt = list(_misspelt_headings(table, shown, labels))
    renamed = _renamed_columns(table, shown, [label for label, *_ in lacking], misspelt)
    problems = [*_control_characters(table), *misspelt, *renamed, *_sheets_not_read(table)]
    problems += _rows_in_doubt(table, STRUCK_OUT, HIDDEN_READ)
    return HeadingNotes(shown, lacking, tuple(problems))


def sheets_to_read(table: Table, them: str) -> str:
    """How to have sheets read that are not. If the mapping reads several, these lack a heading or have other names."""
    if table_of(table.name) != table.name:
        return "correct the headings and the name of the sheet, as the mapping has them"
    return f'have the mapping read {them} (sheet: "*", or source.shared)'


def _column_use(column: ColumnPlan, *, is_key: bool) -> ColumnUse:
    kind = column.spec.type
    pad = column.spec.pad_left
    changes = (
        pad,
        column.spec.case,
        column.spec.one_of,
        column.spec.lookup,
        column.spec.split,
        column.spec.convert,
        column.spec.pattern,
    )
    return ColumnUse(
        "number" if kind in NUMBERS else "moment" if kind in _MOMENTS else "text",
        pad.to if pad is not None else 0,
        tuple(
            # a readable format such as `DD.MM.YYYY hh:mm`
            (re.sub("%.", lambda found: _WORDS.get(found[0], found[0]), format_), format_reader(format_, column.locale))
            for format_ in column.formats
        ),
        is_key and kind == "text" and not any(changes),
        tuple(word for word in ABSENT if kind == "text" and column.convert(word) == word),
    )


def _by_number(plan: TablePlan, table: Table) -> Iterator[int]:
    """The positions read by number, or by a column set beyond the last one."""
    view = View(plan, table)
    yield from (place for place in view.positions.values() if place is not None)
    yield from view.further


def _clean(label: str) -> str:
    return " ".join(CONTROL.sub("\N{REPLACEMENT CHARACTER}", label).split())


def _control_characters(table: Table) -> Iterator[Problem]:
    for place, label in enumerate(table.header):
        if found := CONTROL.search(label):
            values = {"character": ord(found[0])}
            hint = "remove the character from the heading"
            yield Problem("R209", table.where(table.header_row, place), _clean(label), values, hint, "warning")


def _misspelt_headings(table: Table, unused: Mapping[int, str], labels: Mapping[str, str]) -> Iterator[Problem]:
    """A warning for each unused column whose heading is similar to a missing label."""
    for place, shown in unused.items():
        heading = table.header[place]
        bare = fold_label(CONTROL.sub("", heading))
        like = next(
            (form for form in (bare, fold_label(_BRACKETED.sub("", bare))) if form in labels), ""
        ) or one_typo_away(bare, labels)
        if heading.strip() and like in labels:
            at = table.where(table.header_row, place)
            cell = at.cell or f"column {column_letters(place)}"
            values = {"heading": shown, "cell": cell, "meant": labels[like]}
            yield Problem("R241", at, shown, values, _CORRECT, "warning")


def _without_value(plans: Sequence[TablePlan], missing: Iterable[WantedColumn]) -> list[tuple[str, ...]]:
    """The labels of missing columns for which nothing else gives a value. Sets may be fewer than the mapping can read."""
    given = {
        f"{plan.prefix}{column.name}" for plan in plans for column in plan.columns if column.spec.default is not None
    }
    labels = (tuple(column.labels) for column in missing if "#" not in column.name and column.name not in given)
    return list(dict.fromkeys(labels))


def _renamed_columns(
    table: Table, unused: Mapping[int, str], missing: Sequence[str], misspelt: Sequence[Problem]
) -> Iterator[Problem]:
    """A warning if columns are missing and others, not misspelt ones of them, are not read: one may be the other under a new heading."""
    known = {problem.values[name] for problem in misspelt for name in ("heading", "meant")}
    lacks = [label for label in missing if label not in known]
    others = [shown for place, shown in unused.items() if table.header[place].strip() and shown not in known]
    if lacks and others:
        values = {"missing": short_list(lacks, 5), "unused": short_list(others, 5)}
        yield Problem("R250", table.where(table.header_row), "", values, _RENAMED, "warning")


def _sheets_not_read(table: Table) -> Iterator[Problem]:
    if sheets := table.found.get(ALIKE_NOT_READ):
        hint = f"hide or delete them, or {sheets_to_read(table, 'them')}"
        yield Problem("R245", table.where(table.header_row), "", {"sheets": sheets}, hint, "warning")


def _rows_in_doubt(table: Table, *notes: str) -> Iterator[Problem]:
    """A warning for each of these notes that names rows, because they may not be meant."""
    hint = "if they are not meant to be sent, delete them, and cancel what was already sent"
    for note in notes:
        if rows := table.found.get(note):
            first, *others = [table.where(int(row)) for row in rows.split(", ") if row.isdigit()]
            yield Problem(_IN_DOUBT[note], first, "", {"rows": rows}, hint, "warning", also=tuple(others))

"""The tables that a mapping reads from a file (which, under which headings, in which notation), and rows of the file as rows of a table.

`View` finds the cells of a compiled table in one file: rows of one kind among others, one row for each filled set of columns, cells from
above. It maps rows back to the file. Where a row of the table differs from the row of the file, cells are appended to it (cells from
above, cells of the set, the set's word and number). So it can be sorted on disk like any other row, and its problems find their cells.
Knows no value, no document and no payload.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from loadsheet.mapping.documents import Ignored, SourceRow
from loadsheet.mapping.plans import (
    ColumnPlan,
    KindPlan,
    TablePlan,
    in_every_set,
)
from loadsheet.mapping.schema import SET, Source, TableSpec, part_of
from loadsheet.mapping.texts import bare
from loadsheet.problems import Problem
from loadsheet.reading.header import fold
from loadsheet.reading.tables import Layout, Row, RowFilters, Table, WantedColumn
from loadsheet.similar_text import near, some

KIND = "(kind)"
"""The layout's name for the column with the kind of row."""

_NO_AMOUNT = re.compile(r"[\s0.,-]*")  # a blank, a zero, a dash


def layouts_of(source: Source, tables: tuple[TablePlan, ...], main_role: str) -> dict[str, tuple[Layout, ...]]:
    """By role, the tables to read from that file, in the order of the mapping."""
    found: dict[str, list[Layout]] = {}
    repeated = _repeated(tables)
    for name in dict.fromkeys(table.source for table in tables):
        spec = source.tables[name]
        columns = [column for table in tables if table.source == name for column in wanted_columns(table, repeated)]
        base, marks = Layout(name, tuple(columns)), marks_of(source)
        layout = Layout(
            base.name,
            base.columns,
            tuple(spec.sheet or ()),
            spec.header_row,
            tuple(source.encoding or base.encodings),
            tuple(source.delimiter or (usual for usual in base.delimiters if usual not in marks)),
            *marks,
            header_rows=spec.header_rows,
            row_filters=_row_filters(spec),
        )
        found.setdefault(spec.file or main_role, []).append(layout)
    return {role: tuple(layouts) for role, layouts in found.items()}


def _row_filters(spec: TableSpec) -> RowFilters:
    totals, footer = (tuple(rule.begins_with) if rule else () for rule in (spec.totals, spec.footer))
    return RowFilters(
        spec.units_row, spec.comment or "", totals, footer, spec.stop_at_blank, spec.hidden_rows, spec.hidden_columns
    )


def marks_of(source: Source) -> tuple[str, str]:
    """The quote and the escape character of the text files; empty: none."""
    quote = '"' if source.quote is None else source.quote
    return "" if quote == "none" else quote, source.escape or ""


def wanted_columns(plan: TablePlan, repeated: Mapping[tuple[str, str], int] | None = None) -> list[WantedColumn]:
    """The headings that a compiled table needs in its file. A required column of the sets is required in the first set only. `repeated`
    says how often the tables of a sheet read each heading that repeats (see `_repeated`; default: only this table reads it).
    """
    found = []
    repeated = _repeated([plan]) if repeated is None else repeated
    for column in plan.columns:
        if column.spec.whereabouts():
            continue
        name, required = f"{plan.prefix}{column.name}", column.spec.required
        labels = (column.plain_label, *column.spec.aliases)
        if plan.sets is None or not in_every_set(column):
            occurrence = column.spec.occurrence or 0
            count = repeated[plan.source, fold(column.plain_label)] if occurrence else 0
            found.append(WantedColumn(name, labels, required, occurrence, count))
            continue
        sets, count = plan.sets, len(plan.sets.words)
        for number in range(count):
            own = tuple(sets.heading(label, 0 if sets.repeated else number) for label in labels)
            repeats = (number + 1, count, True) if sets.repeated else (0, 0, False)
            found.append(WantedColumn(f"{name}#{number}", own, required and not number, *repeats))
    if plan.kind is not None and plan.kind.others is not None:
        found.append(WantedColumn(KIND, (plan.kind.label,)))
    return found


def heading_clashes(tables: Sequence[TablePlan]) -> Iterator[tuple[str, str, str]]:
    """The columns that do not say which column of a repeated heading they read: table, column, and what is wrong."""
    numbered = set(_repeated(tables))
    in_sets = {
        (table.source, fold(table.sets.heading(column.plain_label, 0))): table.name
        for table in tables
        if table.sets is not None and table.sets.repeated
        for column in table.sets.columns
    }
    for table in tables:
        for column in table.columns:
            place = table.source, fold(column.plain_label)
            if column.spec.whereabouts() or in_every_set(column):
                continue
            if place in in_sets:
                text = f"repeats as a heading of the sets of {in_sets[place]}, and only they can read it"
                yield table.name, column.name, f"{column.plain_label} {text}"
            elif place in numbered and not column.spec.occurrence:
                yield table.name, column.name, f"{column.plain_label} repeats: give this column its occurrence"


def _repeated(tables: Iterable[TablePlan]) -> dict[tuple[str, str], int]:
    """How often each heading with an occurrence is read, by the table whose sheet has it and the folded label."""
    found: dict[tuple[str, str], int] = {}
    for table in tables:
        for column in (column for column in table.columns if column.spec.occurrence):
            place = table.source, fold(column.plain_label)
            found[place] = max(found.get(place, 0), column.spec.occurrence or 0)
    return found


class SetRow(NamedTuple):
    """A row made from one column set, with the set's number (-1: a refused row, whose sets are not read)."""

    number: int
    row: Row


class UnknownKindRow(NamedTuple):
    """A row of no known kind, with its problem. If lines take their key from the row above, it belongs to the record of that key: the
    record may not be sent without it. Otherwise it belongs to no record.
    """

    row: Row


class View:
    """A compiled table bound to a file: `positions` says for each column where its cell is in a row of the table, None if the file
    has no such column; `constants` are the cells that are the same in every row. `source` gives the file's row as documents keep it.
    """

    def __init__(self, plan: TablePlan, table: Table) -> None:
        self._plan, self._table, self.source = plan, table, partial(source_row, table)
        self._width = len(table.header)
        above = plan.kind.above if plan.kind is not None else ()
        self._start = self._width + len(above)
        self._places = (
            [
                [table.columns.get(f"{plan.prefix}{column.name}#{number}") for column in plan.sets.columns]
                for number in range(len(plan.sets.words))
            ]
            if plan.sets is not None
            else []
        )
        self.further = self._places_of_further_set()
        wholes = {column.name: column for column in plan.columns}
        self.positions: dict[int, int | None] = {}
        self.constants: dict[int, str] = {}
        for column in plan.columns:
            whole = wholes.get(column.cells, column)  # a part of a split column has the cells of that column
            self.positions[column.slot.index] = self._position(whole)
            if whole.spec.file is not None:
                name = table.first_name or table.file
                self.constants[column.slot.index] = part_of(name, whole.spec.file, plan.patterns)

    def _position(self, column: ColumnPlan) -> int | None:
        plan, spec = self._plan, column.spec
        if spec.place is not None:
            return spec.place - 1 if spec.place <= self._width else None
        if spec.above is not None and plan.kind is not None:
            return self._width + next(i for i, (_, above) in enumerate(plan.kind.above) if above == spec.above)
        if plan.sets is not None and (spec.from_set or in_every_set(column)):
            own = [other.name for other in plan.sets.columns]
            return self._start + (len(own) if spec.from_set else own.index(column.name))
        return self._table.columns.get(f"{plan.prefix}{column.name}")

    def _places_of_further_set(self) -> tuple[int, ...]:
        """The columns of the numbered set after the last one: data there would be lost."""
        sets, table = self._plan.sets, self._table
        if (
            sets is None
            or sets.repeated
            or any(word != str(number) for number, (word, _) in enumerate(sets.words, start=1))
        ):
            return ()
        labels = (label for column in sets.columns for label in column.labels)
        wanted = {fold(label.replace(SET, str(len(sets.words) + 1))) for label in labels if SET in label}
        used = set(table.columns.values())
        return tuple(place for place, head in enumerate(table.header) if fold(head) in wanted and place not in used)

    # ---- rows ----

    def rows(self) -> Iterator[Row | UnknownKindRow | Ignored]:
        """The rows of the file that belong to this table, before sets are expanded; rows of no kind with their problem, or ignored."""
        return self._table.rows() if self._plan.kind is None else self._of_kind(self._plan.kind)

    def _of_kind(self, kind: KindPlan) -> Iterator[Row | UnknownKindRow | Ignored]:
        table = self._table
        place = table.columns[KIND]
        positions = [table.columns.get(name) for _, name in kind.above]
        last = [""] * len(kind.above)
        for row in table.rows():
            if row.ignored:
                if kind.others is not None:  # reported once, by the first of the tables that share these rows
                    yield row
                continue
            kind_text = row.cells[place].strip()
            meant = near(kind_text, kind.known) if kind.is_strict and kind_text not in kind.known else kind_text
            for number, (kinds, _) in enumerate(kind.above):
                position = positions[number]
                if (
                    meant in kinds and position is not None
                ):  # rows below a misspelt head are not those of the head before it
                    last[number] = row.cells[position] if meant == kind_text else ""
            problem = row.problem
            if problem is not None and problem.code == "R205" and problem.number("cells") <= problem.number("columns"):
                problem = None  # other kinds of rows are longer
            if kind_text in kind.own:
                yield Row(row.number, (*row.cells, *last), problem)
            elif kind_text not in kind.known and kind.is_strict:
                values = {"expected": some(kind.known), "column": kind.label}
                hint = f"did you mean {meant}?" if meant else ""
                problem = problem or Problem("C306", table.where(row.number, place), kind_text, values, hint)
                yield UnknownKindRow(Row(row.number, (*row.cells, *last), problem))
            elif kind_text not in kind.known and kind.others == "ignore":
                yield Ignored(self.source(row), "others: ignore (unused kind of row)")

    def expand(self, row: Row) -> Iterator[SetRow]:
        """The rows made from the filled column sets of a row; one blank row for a refused row."""
        sets = self._plan.sets
        if sets is None:
            return
        if (problem := row.problem or self._in_further_set(row)) is not None:
            yield SetRow(-1, Row(row.number, (*row.cells, *[""] * len(sets.columns), ""), problem))
            return
        for number, places in enumerate(self._places):
            cells = [row.cells[place] if place is not None else "" for place in places]
            if any(cells[place].strip() for place in sets.filled_by) or any(
                not _NO_AMOUNT.fullmatch(cells[place]) for place in sets.required
            ):
                yield SetRow(number, Row(row.number, (*row.cells, *cells, sets.words[number][1])))

    def _in_further_set(self, row: Row) -> Problem | None:
        filled = [place for place in self.further if row.cells[place].strip()]
        if not filled:
            return None
        place, *others = filled
        where = self._table.where(row.number, place)
        also = tuple(self._table.where(row.number, other) for other in others)
        hint = "put it into a row of its own, or have the mapping read more sets"
        return Problem("C317", where, row.shown[place], {"count": len(self._places)}, hint, also=also)

    # ---- back to the file ----

    def position(self, index: int, row: Row) -> int | None:
        """The position of a column's cell in the file's row; None if it has none there."""
        position = self.positions.get(index)
        if position is None or position < self._width:
            return position
        number = set_number(row) if self._plan.sets is not None else -1
        column = position - self._start
        return self._places[number][column] if number >= 0 and 0 <= column < len(self._places[number]) else None

    def shown(self, row: Row) -> tuple[str, ...]:
        """The cells of the file's row as texts, as the shipper sees them."""
        if self._table.sheet:
            return row.shown[: self._width]
        return row.cells if len(row.cells) == self._width else row.cells[: self._width]


def source_row(table: Table, row: Row) -> SourceRow:
    """The file's row of a table, as documents keep it."""
    width = len(table.header)
    if not table.sheet:
        return SourceRow(table.name, row.number, row.cells if len(row.cells) == width else row.cells[:width])
    natives = tuple([cell for cell in row.natives if cell[0] < width])
    return SourceRow(table.name, row.number, row.shown[:width], natives)


def with_set_number(part: SetRow, count: int) -> Row:
    """The row with its set's number, and how many rows came before it from the same file row, in an extra cell."""
    return Row(part.row.number, (*part.row.cells, f"{part.number}/{count}"), part.row.problem)


def set_number(row: Row) -> int:
    """The number of the set that a row was made from."""
    return int(row.cells[-1].partition("/")[0])


def is_first(row: Row) -> bool:
    """Whether this is the first row made from its file row."""
    return row.cells[-1].endswith("/0")


class FillDown:
    """Fills blank cells from above: the key always, other columns while the key stays the same. Without a key, all of them always. Create
    one for each reading of a file.
    """

    def __init__(self, plan: TablePlan, view: View) -> None:
        by = plan.columns_behind(plan.key or plan.fills_by)
        self._always: list[int] = []
        self._within: list[int] = []
        for column in plan.columns:
            place = view.positions[column.slot.index] if column.spec.fill_down else None
            if place is not None:
                (self._always if column.slot.index in by or not by else self._within).append(place)
        self._keys = [place for index in sorted(by) if (place := view.positions[index]) is not None]
        self._last: dict[int, str] = {}
        self._key: list[str] = []

    def filled(self, row: Row) -> Row:
        """The row with its blank cells filled."""
        cells = list(row.cells)
        self._fill(cells, self._always)
        if self._within and self._key == [cells[place].strip() for place in self._keys]:
            self._fill(cells, self._within)
        return Row(row.number, tuple(cells), row.problem)

    def _fill(self, cells: list[str], places: Iterable[int]) -> None:
        for place in places:
            if not bare(cells[place]):
                cells[place] = self._last.get(place, "")

    def remember(self, row: Row) -> None:
        """Remember the cells of this row for the rows below."""
        for place in (*self._always, *self._within):
            self._last[place] = row.cells[place]
        self._key = [row.cells[place].strip() for place in self._keys]

"""Rows of a file as rows of a table, and their cells as values: converted cells, steps that need the whole row, derived values.

`TableView` finds the cells of a compiled table in one file: rows of one kind among others, one row for each filled set of columns, cells from
above. It maps rows back to the file. Where a row of the table differs from the row of the file, cells are appended to it (cells from
above, cells of the set, the set's word and number). So it can be sorted on disk like any other row, and its problems find their cells.

`RowReader` converts. Converted texts are cached, with a limit: each distinct text is converted once. Typed cells are kept apart from texts
that look the same. Knows no document and no payload.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from loadsheet.mapping.documents import Ignored, SourceRow
from loadsheet.mapping.file_patterns import SHEET, common_placeholders, name_part
from loadsheet.mapping.layouts import KIND
from loadsheet.mapping.notations import localize
from loadsheet.mapping.plans import (
    CALCULATION_ERRORS,
    CONSEQUENCE,
    CellProblem,
    ColumnPlan,
    DerivedPlan,
    Expression,
    FoundRow,
    Frame,
    KindPlan,
    RowStepPlan,
    TablePlan,
    ValueWithWarning,
    in_every_set,
    reason_text,
)
from loadsheet.mapping.schema import SET
from loadsheet.problems import Problem
from loadsheet.reading.header import fold_label
from loadsheet.reading.row_filters import says_nothing
from loadsheet.reading.tables import Native, Row, Table
from loadsheet.similar_text import one_typo_away, proposal_of, short_list, skeleton

_REMEMBERED = 4_096  # distinct texts a column
_WORD_MIN = 5  # letters; shorter kinds of rows are codes
_NO_AMOUNT = re.compile(r"[\s0.,-]*")  # a blank, a zero, a dash


class SetRow(NamedTuple):
    """A row made from one column set, with the set's number (-1: a refused row, whose sets are not read)."""

    number: int
    row: Row


class UnknownKindRow(NamedTuple):
    """A row of no known kind, with its problem. If lines take their key from the row above, it belongs to the record of that key: the
    record may not be sent without it. Otherwise it belongs to no record.
    """

    row: Row


class TableView:
    """A compiled table bound to a file: `positions` says for each column where its cell is in a row of the table, None if the file
    has no such column; `constants` are the cells that are the same in every row. `source` gives the file's row as documents keep it.
    """

    def __init__(self, plan: TablePlan, table: Table) -> None:
        self._plan, self._table, self.source = plan, table, partial(source_row, table)
        self._width = len(table.header)
        above = plan.kind.above if plan.kind is not None else ()
        self._start = self._width + len(above)
        columns, count = ((), 0) if plan.sets is None else (plan.sets.columns, len(plan.sets.words))
        names = [f"{plan.prefix}{column.name}" for column in columns]
        self._places = [[table.columns.get(f"{name}#{n}") for name in names] for n in range(count)]
        self.overflow_positions = self._overflow_positions()
        wholes = {column.name: column for column in plan.columns}
        self.positions: dict[int, int | None] = {}
        self.constants: dict[int, str] = {}
        for column in plan.columns:
            whole = wholes.get(column.cells, column)  # a part of a split column has the cells of that column
            self.positions[column.slot.index] = self._position(whole)
            if whole.spec.file is not None:
                name, part = table.first_name or table.file, whole.spec.file
                is_sheet = part == SHEET and SHEET not in common_placeholders(plan.patterns)
                title = table.first_sheet or table.sheet
                self.constants[column.slot.index] = title if is_sheet else name_part(name, part, plan.patterns)

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

    def _overflow_positions(self) -> tuple[int, ...]:
        """The columns of the numbered set after the last one: data there would be lost."""
        sets, table = self._plan.sets, self._table
        if (
            sets is None
            or sets.repeated
            or any(word != str(number) for number, (word, _) in enumerate(sets.words, start=1))
        ):
            return ()
        labels = (label for column in sets.columns for label in column.labels)
        wanted = {fold_label(label.replace(SET, str(len(sets.words) + 1))) for label in labels if SET in label}
        used = set(table.columns.values())
        return tuple(
            place for place, head in enumerate(table.header) if fold_label(head) in wanted and place not in used
        )

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
            is_known = kind_text in kind.known
            meant = kind_text if is_known else _kind_meant(kind_text, kind.known, any_typo=kind.is_strict)
            for number, (kinds, _) in enumerate(kind.above):
                position = positions[number]
                if meant in kinds and position is not None:
                    # rows below a misspelt head are not those of the head before it
                    last[number] = row.cells[position] if is_known else ""
            problem = row.problem
            if problem is not None and problem.code == "R205" and problem.number("cells") <= problem.number("columns"):
                problem = None  # other kinds of rows are longer
            if kind_text in kind.own:
                yield Row(row.number, (*row.cells, *last), problem)
            elif not is_known and (meant or kind.is_strict):
                values = {"expected": short_list(kind.known), "column": kind.label}
                where = table.where(row.number, place)
                problem = problem or Problem("C306", where, kind_text, values, proposal_of(meant))
                yield UnknownKindRow(Row(row.number, (*row.cells, *last), problem))
            elif not is_known and kind.others == "ignore":
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
        filled = [place for place in self.overflow_positions if row.cells[place].strip()]
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

    def has_nothing(self, row: Row) -> bool:
        """Whether all cells of the row that the mapping reads are blank, and the others say nothing. Formulas that are filled in beforehand
        make such rows. A text there may say what the row is about.
        """
        read = {*self._table.columns.values(), *(place for place in self.positions.values() if place is not None)}
        return not any(row.cells[place].strip() for place in read if place < len(row.cells)) and all(
            not cell.strip() or says_nothing(cell) for cell in self.shown(row)
        )

    def shown(self, row: Row) -> tuple[str, ...]:
        """The cells of the file's row as texts, as the shipper sees them."""
        if self._table.sheet:
            return row.shown[: self._width]
        return row.cells if len(row.cells) == self._width else row.cells[: self._width]


@lru_cache(maxsize=_REMEMBERED)
def _kind_meant(text: str, known: tuple[str, ...], *, any_typo: bool) -> str:
    """The kind of row that a misspelt one means, or an empty text. Without `any_typo` a short word with another letter is another kind, as
    UNH and UNT are.
    """
    meant = one_typo_away(text, known)
    return meant if any_typo or len(meant) >= _WORD_MIN or skeleton(meant) == skeleton(text) else ""


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


_LEFT_OUT_MAX = 300_000  # keys
_SPECIAL = frozenset({CellProblem, ValueWithWarning})
_BY_OTHERS = frozenset({"C305", "C306", "C307", "C320", "C321"})
"""Problems that a value may have because of other columns."""


class ReadRow(NamedTuple):
    """A row and its values; `refused` are the problems of refused values by index (their values are None), `warnings` the warnings. `found`
    are the rows of other tables that the row looks up, by the index of the value; two if they contradict each other.
    """

    row: Row
    values: list[Any]
    refused: dict[int, CellProblem]
    warnings: dict[int, CellProblem]
    found: dict[int, tuple["ReadRow", ...]]


_NOTHING: dict[int, CellProblem] = {}
_NO_ROWS: dict[int, tuple[ReadRow, ...]] = {}


class _Memory(dict[str, Any]):
    """A column's converted texts; a new text is converted on access. Cleared at the limit."""

    def __init__(self, convert: Callable[[str], Any]) -> None:
        super().__init__()
        self._convert = convert

    def __missing__(self, text: str) -> Any:
        if len(self) >= _REMEMBERED:
            self.clear()
        value = self[text] = self._convert(text)
        return value


class _Absent(dict[str, Any]):
    """The values of a column that the file lacks: every cell is blank, or the same text."""

    def __init__(self, convert: Callable[[str], Any], text: str) -> None:
        super().__init__()
        self._always = convert(text)

    def __missing__(self, text: str) -> Any:
        return self._always


class _BoundColumn(NamedTuple):
    """One column bound to a file: its index among the values, the position of its cells, and the caches."""

    value_index: int
    position: int
    texts: dict[str, Any]
    typed: dict[Any, Any]
    convert: Callable[[str], Any]


class RowReader:
    """The compiled columns of a table, bound to their positions in one file. `references` find rows of other tables, by the lookup's name.
    `left_out` has the keys of the records whose rows a rule leaves out, each with the rule; None if nobody asks for them.
    """

    def __init__(self, plan: TablePlan, table: Table, frame: Frame) -> None:
        self.plan = plan
        self.table = table
        self.references: Mapping[str, Callable[[Sequence[Any]], FoundRow]] = {}
        self.left_out: dict[str, str] | None = None
        self._frame = frame
        self.view = TableView(plan, table)
        self._cells = tuple(self._bind(column) for column in plan.columns)
        self._derived: list[Any] = [None] * len(plan.derived)
        self._is_typed = bool(table.sheet)  # cells of text files are texts
        self._zoned = tuple(column for column in plan.columns if column.zoned)

    def _bind(self, column: ColumnPlan) -> _BoundColumn:
        position = self.view.positions[column.slot.index]
        constant = self.view.constants.get(column.slot.index, "")
        texts = _Memory(column.convert) if position is not None else _Absent(column.convert, constant)
        return _BoundColumn(column.slot.index, position or 0, texts, {}, column.convert)

    def read(self, row: Row) -> ReadRow:
        """All values of a row. Problems of refused values are in `refused`; nothing is raised."""
        values, refused, warnings = self._convert(row.cells, self._cells)
        values += self._derived
        found = ReadRow(row, values, refused, warnings, _NO_ROWS)
        if self.plan.row_steps or self.plan.derived:
            found = ReadRow(row, values, dict(refused), dict(warnings), {} if self.references else _NO_ROWS)
            for step in self.plan.row_steps:
                self._apply_row_step(step, found)
            for derived in self.plan.derived:
                self._derive(derived, found)
        return found

    def reader_of_columns(self, indexes: Iterable[int]) -> Callable[[Row], tuple[list[Any], dict[int, CellProblem]]]:
        """A function that reads only these columns (and the row's time zone); the other values are None."""
        needed = {*indexes, *([self.plan.zone] if self.plan.zone is not None else [])}
        row_steps = [it for it in self.plan.row_steps if it.column.slot.index in needed and it.column.reference is None]
        needed.update(other for step in row_steps for other in step.others)
        cells = tuple(cell for cell in self._cells if cell.value_index in needed)
        blank = [None] * len(self._cells)

        def read(row: Row) -> tuple[list[Any], dict[int, CellProblem]]:
            found, refused, _ = self._convert(row.cells, cells)
            values: list[Any] = blank.copy()
            for cell, value in zip(cells, found, strict=True):
                values[cell.value_index] = value
            part = ReadRow(row, values, dict(refused), {}, _NO_ROWS)
            for step in row_steps:
                self._apply_row_step(step, part)
            return values, part.refused

        def read_texts(row: Row) -> tuple[list[Any], dict[int, CellProblem]]:
            values: list[Any] = blank.copy()
            for slot, position, texts, _, _ in cells:
                value = texts[row.cells[position]]
                if type(value) in _SPECIAL:
                    return read(row)
                values[slot] = value
            return values, _NOTHING

        return read if self._is_typed or self._zoned or row_steps else read_texts

    def holds(self, rule: Expression, needs: Iterable[int], values: list[Any], refused: dict[int, CellProblem]) -> bool:
        """Whether a rule about rows of the file holds for these values. A rule that reads an invalid cell never does."""
        if refused and any(is_invalid(refused, index) for index in needs):
            return False
        self._frame.row = values
        try:
            return bool(rule.evaluate(self._frame))
        except CALCULATION_ERRORS:
            return False

    def ignoring_rule(self, row: Row, values: list[Any], refused: dict[int, CellProblem]) -> str:
        """The rule by which a row with these values is left out; empty if it is not."""
        rule = self.plan.ignore
        if rule is None or row.problem is not None or not self.holds(rule, self.plan.ignore_needs, values, refused):
            return ""
        return f"ignore_rows: {rule.text}"

    def remember_left_out(self, key: str | None, rule: str) -> None:
        """Remember that a rule leaves out a row with the key of this record."""
        if self.left_out is not None and key is not None and len(self.left_out) < _LEFT_OUT_MAX:
            self.left_out[key] = rule

    def deciding_columns(self, index: int, refused: CellProblem) -> Sequence[int]:
        """The other columns involved in a refused value: the sources of a derived value, the further keys of a code table, the unit, or the
        time zone of a moment.
        """
        if index >= len(self.plan.columns):
            return (index,)
        if refused.code in ("C314", "C315") and self.plan.zone is not None:
            return (self.plan.zone,)
        found = next((step for step in self.plan.row_steps if step.column.slot.index == index), None)
        return found.others if found is not None and refused.code in _BY_OTHERS else ()

    def _convert(
        self, row: Sequence[str], cells: Sequence[_BoundColumn]
    ) -> tuple[list[Any], dict[int, CellProblem], dict[int, CellProblem]]:
        """The values of these columns in their order, the refused ones as None."""
        if self._is_typed:
            values = [_value(row[cell.position], cell) for cell in cells]
        else:
            values = [cell.texts[row[cell.position]] for cell in cells]
        refused, warnings = _NOTHING, _NOTHING
        if not _SPECIAL.isdisjoint(map(type, values)):
            by_slot = [(cell.value_index, value) for cell, value in zip(cells, values, strict=True)]
            refused = {slot: value for slot, value in by_slot if type(value) is CellProblem}
            warnings = {slot: value.warning for slot, value in by_slot if type(value) is ValueWithWarning}
            values = [
                None if type(value) is CellProblem else value.value if type(value) is ValueWithWarning else value
                for value in values
            ]
        if self._zoned:
            refused = self._localize(values, refused, cells)
        return values, refused, warnings

    def _localize(
        self, values: list[Any], refused: dict[int, CellProblem], cells: Sequence[_BoundColumn]
    ) -> dict[int, CellProblem]:
        """Converts the moments of a row to the time zone in the row's own column."""
        places, found = {cell.value_index: place for place, cell in enumerate(cells)}, dict(refused)
        name = values[places[self.plan.zone]] if self.plan.zone in places else None
        zone = ZoneInfo(name) if name is not None else self.plan.default_zone or ZoneInfo("UTC")
        for column in self._zoned:
            place = places.get(column.slot.index)
            moment = values[place] if place is not None else None
            if place is None or moment is None:
                continue
            is_date = column.spec.type == "date"
            localized = moment.replace(tzinfo=zone) if is_date else localize(moment, zone, self.plan.fold)
            if isinstance(localized, CellProblem):
                values[place], found[column.slot.index] = None, localized
            else:
                values[place] = localized
        return found

    def _apply_row_step(self, plan: RowStepPlan, row: ReadRow) -> None:
        index, rule, values = plan.column.slot.index, plan.column.row_step, row.values
        text, reference = values[index], plan.column.reference
        if text is None or rule is None:
            return
        if not row.refused.keys().isdisjoint(plan.others):
            values[index], row.refused[index] = None, CONSEQUENCE
            return
        self._frame.row = values
        try:
            if plan.when is not None and plan.needs.isdisjoint(row.refused) and plan.when.evaluate(self._frame):
                text = text.rjust(rule.to, rule.letter)
            others = ["" if (key := values[other]) is None else key for other in plan.others]
            value = rule.apply(text, others)
        except CALCULATION_ERRORS as error:
            value = CellProblem(
                "G407", {"target": f"pad_left.when of {plan.column.label}", "reason": reason_text(error)}
            )
        if isinstance(value, CellProblem):
            row.refused[index], value = value, None
        elif isinstance(value, ValueWithWarning):
            value, row.warnings[index] = value
        if reference is not None and value is not None:
            value, row.found[index] = self.references[reference.name]((value, *others))
            if isinstance(value, CellProblem):
                row.refused[index], value = value, None
        values[index] = value

    def _derive(self, derived: DerivedPlan, row: ReadRow) -> None:
        if not derived.needs.isdisjoint(row.refused):
            row.refused[derived.index] = CONSEQUENCE
            return
        self._frame.row = row.values
        try:
            row.values[derived.index] = derived.expression.evaluate(self._frame)
        except CALCULATION_ERRORS as error:
            row.refused[derived.index] = CellProblem("G407", {"target": derived.name, "reason": reason_text(error)})


def is_invalid(refused: Mapping[int, CellProblem], index: int) -> bool:
    """Whether a value was refused for another reason than a blank cell."""
    return index in refused and refused[index].code != "C301"


def _value(cell: str, column: _BoundColumn) -> Any:
    """The value of a cell that may be typed. A typed cell differs from a text that looks the same."""
    if not isinstance(cell, Native):
        return column.texts[cell]
    key = (str(cell), cell.kind, cell.without_currency, cell.displayed)
    if key not in column.typed:
        if len(column.typed) >= _REMEMBERED:
            column.typed.clear()
        column.typed[key] = column.texts[""] if isinstance(column.texts, _Absent) else column.convert(cell)
    return column.typed[key]

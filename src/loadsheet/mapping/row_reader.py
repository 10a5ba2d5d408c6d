"""The cells of a row as values: its cells, steps that need the whole row, derived values.

Converted texts are cached, with a limit: each distinct text is converted once. Typed cells are kept apart from texts that look the same.
Knows no document and no payload.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from loadsheet.mapping.notations import localize
from loadsheet.mapping.plans import (
    CALCULATION_ERRORS,
    CONSEQUENCE,
    CellProblem,
    ColumnPlan,
    DerivedPlan,
    Expression,
    FinishPlan,
    FoundRow,
    Frame,
    TablePlan,
    ValueWithWarning,
    reason,
)
from loadsheet.mapping.rows import View
from loadsheet.reading.tables import Native, Row, Table

_REMEMBERED = 4_096  # distinct texts a column
_SPECIAL = frozenset({CellProblem, ValueWithWarning})
_BY_OTHERS = frozenset(
    {"C305", "C306", "C307", "C320", "C321"}
)  # problems that a value may have because of other columns


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

    def __init__(self, convert: Callable[[str], Any], text: str = "") -> None:
        super().__init__()
        self._always = convert(text)

    def __missing__(self, text: str) -> Any:
        return self._always


class _Cell(NamedTuple):
    """One column bound to a file: its index among the values, the position of its cells, and the caches."""

    slot: int
    position: int
    texts: dict[str, Any]
    typed: dict[Any, Any]
    convert: Callable[[str], Any]


class RowReader:
    """The compiled columns of a table, bound to their positions in one file. `references` find rows of other tables, by the lookup's name."""

    def __init__(self, plan: TablePlan, table: Table, frame: Frame) -> None:
        self.plan = plan
        self.table = table
        self.references: Mapping[str, Callable[[Sequence[Any]], FoundRow]] = {}
        self._frame = frame
        self.view = View(plan, table)
        self._cells = tuple(self._bind(column) for column in plan.columns)
        self._all_texts = _texts_of(self._cells)
        self._derived: list[Any] = [None] * len(plan.derived)
        self._is_typed = bool(table.sheet)  # cells of text files are texts
        self._zoned = tuple(column for column in plan.columns if column.zoned)
        self._read_ignored = self.some(plan.ignore_needs)

    def _bind(self, column: ColumnPlan) -> _Cell:
        position = self.view.positions[column.slot.index]
        constant = self.view.constants.get(column.slot.index, "")
        texts = _Memory(column.convert) if position is not None else _Absent(column.convert, constant)
        return _Cell(column.slot.index, position or 0, texts, {}, column.convert)

    def read(self, row: Row) -> ReadRow:
        """All values of a row. Problems of refused values are in `refused`; nothing is raised."""
        values, refused, warnings = self._convert(row.cells, self._cells)
        values += self._derived
        found = ReadRow(row, values, refused, warnings, _NO_ROWS)
        if self.plan.finishes or self.plan.derived:
            found = ReadRow(row, values, dict(refused), dict(warnings), {} if self.references else _NO_ROWS)
            for finish in self.plan.finishes:
                self._finish(finish, found)
            for derived in self.plan.derived:
                self._derive(derived, found)
        return found

    def some(self, indexes: Iterable[int]) -> Callable[[Row], tuple[list[Any], dict[int, CellProblem]]]:
        """A function that reads only these columns (and the row's time zone); the other values are None."""
        needed = {*indexes, *([self.plan.zone] if self.plan.zone is not None else [])}
        finishes = [it for it in self.plan.finishes if it.column.slot.index in needed and it.column.reference is None]
        needed.update(other for finish in finishes for other in finish.others)
        cells = tuple(cell for cell in self._cells if cell.slot in needed)
        blank = [None] * len(self._cells)

        def read(row: Row) -> tuple[list[Any], dict[int, CellProblem]]:
            found, refused, _ = self._convert(row.cells, cells)
            values: list[Any] = blank.copy()
            for cell, value in zip(cells, found, strict=True):
                values[cell.slot] = value
            part = ReadRow(row, values, dict(refused), {}, _NO_ROWS)
            for finish in finishes:
                self._finish(finish, part)
            return values, part.refused

        def read_texts(row: Row) -> tuple[list[Any], dict[int, CellProblem]]:
            values: list[Any] = blank.copy()
            for slot, position, texts, _, _ in cells:
                value = texts[row.cells[position]]
                if type(value) in _SPECIAL:
                    return read(row)
                values[slot] = value
            return values, _NOTHING

        return read if self._is_typed or self._zoned or finishes else read_texts

    def holds(self, rule: Expression, needs: Iterable[int], values: list[Any], refused: dict[int, CellProblem]) -> bool:
        """Whether a rule about rows of the file holds for these values. A rule that reads an invalid cell never does."""
        if refused and any(is_invalid(refused, index) for index in needs):
            return False
        self._frame.row = values
        try:
            return bool(rule.evaluate(self._frame))
        except CALCULATION_ERRORS:
            return False

    def leaves_out(self, row: Row) -> bool:
        """Whether `ignore_rows` leaves out a row made from another table's row. Other rows are decided in `grouping`."""
        rule = self.plan.ignore
        if rule is None or row.problem is not None:
            return False
        values, refused = self._read_ignored(row)
        return self.holds(rule, self.plan.ignore_needs, values, refused)

    def deciding_columns(self, index: int, refused: CellProblem) -> Sequence[int]:
        """The other columns involved in a refused value: the sources of a derived value, the further keys of a code table, the unit, or the
        time zone of a moment.
        """
        if index >= len(self.plan.columns):
            return (index,)
        if refused.code in ("C314", "C315") and self.plan.zone is not None:
            return (self.plan.zone,)
        finish = next((step for step in self.plan.finishes if step.column.slot.index == index), None)
        return finish.others if finish is not None and refused.code in _BY_OTHERS else ()

    def _convert(
        self, row: Sequence[str], cells: Sequence[_Cell]
    ) -> tuple[list[Any], dict[int, CellProblem], dict[int, CellProblem]]:
        """The values of these columns in their order, the refused ones as None."""
        if self._is_typed:
            values = [_value(row[cell.position], cell) for cell in cells]
        else:
            values = (
                self._all_texts(row) if cells is self._cells else [cell.texts[row[cell.position]] for cell in cells]
            )
        refused, warnings = _NOTHING, _NOTHING
        if not _SPECIAL.isdisjoint(map(type, values)):
            by_slot = [(cell.slot, value) for cell, value in zip(cells, values, strict=True)]
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
        self, values: list[Any], refused: dict[int, CellProblem], cells: Sequence[_Cell]
    ) -> dict[int, CellProblem]:
        """Converts the moments of a row to the time zone in the row's own column."""
        places, found = {cell.slot: place for place, cell in enumerate(cells)}, dict(refused)
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

    def _finish(self, plan: FinishPlan, row: ReadRow) -> None:
        index, rule, values = plan.column.slot.index, plan.column.finish, row.values
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
            value = rule.finish(text, others)
        except CALCULATION_ERRORS as error:
            value = CellProblem("G407", {"target": f"pad_left.when of {plan.column.label}", "reason": reason(error)})
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
            row.refused[derived.index] = CellProblem("G407", {"target": derived.name, "reason": reason(error)})


def is_invalid(refused: Mapping[int, CellProblem], index: int) -> bool:
    """Whether a value was refused for another reason than a blank cell."""
    return index in refused and refused[index].code != "C301"


def _texts_of(cells: Sequence[_Cell]) -> Callable[[Sequence[str]], list[Any]]:
    """A generated function for all values of a row of texts. A list literal is twice as fast as a loop."""
    given = {f"texts{place}": cell.texts for place, cell in enumerate(cells)}
    values = ", ".join(f"texts{place}[row[{cell.position}]]" for place, cell in enumerate(cells))
    found: Callable[[Sequence[str]], list[Any]] = eval(f"lambda row: [{values}]", given)  # noqa: S307 (contains only numbers)
    return found


def _value(cell: str, column: _Cell) -> Any:
    """The value of a cell that may be typed. A typed cell differs from a text that looks the same."""
    if not isinstance(cell, Native):
        return column.texts[cell]
    key = (str(cell), cell.kind, cell.shown, cell.priced)
    if key not in column.typed:
        if len(column.typed) >= _REMEMBERED:
            column.typed.clear()
        column.typed[key] = column.texts[""] if isinstance(column.texts, _Absent) else column.convert(cell)
    return column.typed[key]

"""One table as rows with the key of their record, in the order of the file.

Fills cells from above, leaves out rows by rule, expands column sets, checks stated totals, and makes the key. Every row of the file comes
out at least once. A file without the totals it should state is refused after its last row. Knows no other table.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from loadsheet.mapping.calculation import CALCULATION_ERRORS
from loadsheet.mapping.conversion_errors import CellProblem
from loadsheet.mapping.documents import Ignored
from loadsheet.mapping.plans import TotalsPlan
from loadsheet.mapping.rows import RowReader
from loadsheet.mapping.scopes import Expression, Frame
from loadsheet.mapping.views import SetRow, UnknownKindRow, fill_down, with_set_number
from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading.tables import Row

BETWEEN = "\N{SYMBOL FOR UNIT SEPARATOR}"  # joins the parts of a key; no trimmed cell holds it alone


class KeyedRow(NamedTuple):
    """A row with the key of its record (None: no key) and the text it is sorted by."""

    row: Row
    key: str | None
    order: str


class KeyedTable:
    """One table as keyed rows. Each iteration reads the rows again."""

    def __init__(self, reader: RowReader, frame: Frame) -> None:
        self._reader = reader
        self._frame = frame
        self._plan = plan = reader.plan
        totals = () if plan.totals is None else (*plan.totals.needs, *plan.totals.sums)
        self._read = reader.some({*plan.key, *plan.order, *plan.ignore_needs, *totals})
        is_simple = len(plan.key) == 1 and not plan.order and plan.ignore is None
        self._read_key = reader.key(plan.key[0]) if is_simple else None
        self.is_keyed = bool(plan.key)
        self.is_sorted = bool(plan.order)

    def __iter__(self) -> Iterator[KeyedRow | Ignored]:
        plan = self._plan
        if plan.is_view or plan.totals is not None or plan.fills:
            return self._expanded_rows()
        return self._plain_rows(self._reader.table.rows())

    def _plain_rows(self, rows: Iterator[Row]) -> Iterator[KeyedRow | Ignored]:
        read, plan, read_key = self._read, self._plan, self._read_key
        for row in rows:
            if row.ignored:
                yield self._left_out(row, row.ignored)
                continue
            if read_key is not None and (key := read_key(row)) is not None:
                yield KeyedRow(row, key, "")
                continue
            values, refused = read(row)
            if plan.ignore is not None and row.problem is None and self._holds(plan.ignore, values, refused):
                yield self._left_out(row, f"ignore_rows: {plan.ignore.text}")
                continue
            yield self._keyed(row, values)

    def _keyed(self, row: Row, values: list[Any]) -> KeyedRow:
        plan = self._plan
        order = BETWEEN.join([_sortable(values[index]) for index in plan.order]) if plan.order else ""
        return KeyedRow(row, self._key(values) if plan.key else str(row.number), order)

    def _left_out(self, row: Row, rule: str) -> Ignored:
        return Ignored(self._reader.view.source(row), rule)

    def _holds(self, rule: Expression, values: list[Any], refused: dict[int, CellProblem]) -> bool:
        """Whether a rule leaves out a row. A rule that reads an invalid cell never does."""
        if refused and any(index in refused and refused[index].code != "C301" for index in self._plan.ignore_needs):
            return False
        self._frame.row = values
        try:
            return bool(rule.evaluate(self._frame))
        except CALCULATION_ERRORS:
            return False

    def _key(self, values: list[Any]) -> str | None:
        parts = [values[index] for index in self._plan.key]
        if len(parts) == 1:
            return None if parts[0] is None else str(parts[0])
        return None if None in parts else BETWEEN.join(map(str, parts))

    # ---- rows that are not simply rows of the file ----

    def _expanded_rows(self) -> Iterator[KeyedRow | Ignored]:
        plan, view = self._plan, self._reader.view
        fill = fill_down(plan, view)
        sums = _RunningTotals(plan.totals, self._reader) if plan.totals is not None else None
        for found in view.rows():
            if isinstance(found, Ignored):
                yield found
                continue
            if isinstance(found, UnknownKindRow):
                yield KeyedRow(
                    with_set_number(SetRow(-1, found.row), 0) if plan.sets is not None else found.row, None, ""
                )
                continue
            if found.ignored:
                yield self._left_out(found, found.ignored)
                continue
            row = fill.filled(found) if fill is not None else found
            if sums is not None and (totals_row := self._totals(sums, row)) is not None:
                yield totals_row
                continue
            items = list(self._parts(row) if plan.sets is not None else self._whole(row))
            yield from items
            if fill is not None and not isinstance(items[0], Ignored):
                fill.remember(row)
        if sums is not None:
            sums.finish()

    def _whole(self, row: Row) -> Iterator[KeyedRow | Ignored]:
        rule = self._plan.ignore
        values, refused = self._read(row)
        is_left_out = rule is not None and row.problem is None and self._holds(rule, values, refused)
        yield self._left_out(row, f"ignore_rows: {rule.text}") if rule and is_left_out else self._keyed(row, values)

    def _parts(self, row: Row) -> Iterator[KeyedRow | Ignored]:
        rule, why, count = self._plan.ignore, self._reader.view.unfilled, 0
        for part in self._reader.view.expand(row):
            values, refused = self._read(part.row)
            if rule is not None and part.row.problem is None and self._holds(rule, values, refused):
                why = f"ignore_rows: {rule.text}"
                continue
            keyed = self._keyed(with_set_number(part, count), values)
            yield keyed if self.is_keyed else keyed._replace(key=f"{keyed.key}/{count}")
            count += 1
        if not count:
            yield self._left_out(row, why)

    def _totals(self, sums: "_RunningTotals", row: Row) -> KeyedRow | Ignored | None:
        """The result for a row that states totals; None for any other row, which is added to the sums."""
        if row.problem is not None:
            sums.mark_unknown()
            return None
        values, refused = self._read(row)
        rule = self._plan.ignore
        if self._states_totals(sums.plan, values, refused):
            problem = sums.compare(row, values, refused)
            if problem is None:
                return self._left_out(row, f"totals: {sums.plan.where.text}")
            return KeyedRow(Row(row.number, row.cells, problem), None, "")
        if rule is None or not self._holds(rule, values, refused):
            sums.add(values, refused)
        return None

    def _states_totals(self, plan: TotalsPlan, values: list[Any], refused: dict[int, CellProblem]) -> bool:
        if any(index in refused and refused[index].code != "C301" for index in plan.needs):
            return False
        self._frame.row = values
        try:
            return bool(plan.where.evaluate(self._frame))
        except CALCULATION_ERRORS:
            return False


def _sortable(value: object) -> str:
    """A text that sorts like the value: moments by instant. Types other than text and moments are refused at load."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value or "")


class _RunningTotals:
    """The sums of some columns over the rows read so far."""

    def __init__(self, plan: TotalsPlan, reader: RowReader) -> None:
        self.plan = plan
        self._reader = reader
        self._sums = dict.fromkeys(plan.sums, Decimal(0))
        self._unknown: set[int] = set()
        self._rows, self._stated = 0, False

    def add(self, values: Sequence[Any], refused: dict[int, CellProblem]) -> None:
        """Adds the cells of one row. A refused cell makes the sum unknown."""
        self._rows += 1
        for index in self.plan.sums:
            self._sums[index] += values[index] or 0
        self._unknown.update(index for index in self.plan.sums if index in refused and refused[index].code != "C301")

    def mark_unknown(self) -> None:
        """Marks all sums as unknown, after a row that reading refused."""
        self._unknown.update(self.plan.sums)

    def compare(self, row: Row, values: Sequence[Any], refused: dict[int, CellProblem]) -> Problem | None:
        """The problem of the first stated total that differs. Blank and unknown totals are not compared."""
        problem, self._stated = None, True
        for index in self.plan.sums:
            if index in refused and refused[index].code != "C301":
                problem = problem or self._problem(row, index, refused[index].code, refused[index].values)
            elif values[index] is not None and index not in self._unknown and values[index] != self._sums[index]:
                problem = problem or self._problem(row, index, "G408", {"sum": self._shown(row, index, values[index])})
        if self.plan.by_block:
            self._sums = dict.fromkeys(self.plan.sums, Decimal(0))
            self._unknown.clear()
        return problem

    def finish(self) -> None:
        """Raises FileRefused if the file states no totals though it should: a file cut off at the end of a row looks complete. With totals by
        block, a file without rows needs none.
        """
        if self.plan.sums and not self._stated and (self._rows or not self.plan.by_block):
            rule, table = self.plan.where.text, self._reader.table
            hint = "send the whole file again; if it is meant to have no totals, take them out of the mapping"
            raise FileRefused(Problem("G409", Where(table.file, table.sheet), values={"rule": rule}, hint=hint))

    def _shown(self, row: Row, index: int, stated: Decimal) -> str:
        """The sum as text; a quantity with its unit, and the stated total in that unit."""
        total, unit = format(self._sums[index], "f"), self._reader.plan.columns[index].spec.unit
        return f"{total} {unit} ({self._cell(row, index)} = {stated:f} {unit})" if unit is not None else total

    def _cell(self, row: Row, index: int) -> str:
        position = self._reader.position(index, row)
        return self._reader.view.shown(row)[position] if position is not None else ""

    def _problem(self, row: Row, index: int, code: str, values: object) -> Problem:
        position, found = self._reader.position(index, row), self._cell(row, index)
        values = {"column": self._reader.plan.label(index), **(values if isinstance(values, dict) else {})}
        return Problem(code, self._reader.table.where(row.number, position), found, values)

"""Blank cells take the cells above, as in sheets with merged cells.

Rows that a rule leaves out count as cells above, so that a cancelled order is left out whole. If the rule reads the key, the row may be one
of a carried sum as well as one of a record: then nothing below is filled, because its rows could come into another record.
"""

from collections.abc import Iterable

from loadsheet.mapping.plans import TablePlan
from loadsheet.mapping.rows import View
from loadsheet.mapping.texts import bare
from loadsheet.reading.tables import Row


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
        self._rule_reads_key = not by.isdisjoint(plan.ignore_needs)
        self._last: dict[int, str] = {}
        self._key: list[str] = []

    def filled(self, row: Row) -> Row:
        """The row with its blank cells filled."""
        cells = list(row.cells)
        self._fill(cells, self._always)
        if self._within and self._key == self._key_of(Row(row.number, tuple(cells))):
            self._fill(cells, self._within)
        return Row(row.number, tuple(cells), row.problem)

    def remember(self, row: Row, *, left_out: bool = False) -> None:
        """Remember the cells of this filled row for the rows below; forget all of them where its rule reads a key that changes there."""
        key = self._key_of(row)
        if left_out and self._rule_reads_key:
            if key != self._key:
                self._last, self._key = {}, []
            return
        for place in (*self._always, *self._within):
            self._last[place] = row.cells[place]
        self._key = key

    def _fill(self, cells: list[str], places: Iterable[int]) -> None:
        for place in places:
            if not bare(cells[place]):
                cells[place] = self._last.get(place, "")

    def _key_of(self, row: Row) -> list[str]:
        return [row.cells[place].strip() for place in self._keys]

"""The problems of one document, each with the cell it belongs to.

A problem is added for a cell (table, row, column) or for a payload path. It knows where the value stands in its file and what the
shipper wrote there. Decides nothing about what is wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadsheet.mapping.documents import Lineage, SourceRow
from loadsheet.mapping.grouping import Group
from loadsheet.mapping.lineage import Trace, trace
from loadsheet.mapping.names import Draft
from loadsheet.mapping.rows import RowReader
from loadsheet.mapping.views import SetRow, columns_behind, with_set_number
from loadsheet.problems import Level, Problem, Where
from loadsheet.reading.tables import Row

_ALSO_MAX = 1_000

Cell = tuple[int, Row, int]
"""A value of a row: the position of its table, the row, and the value's place among those of the row."""


class DocumentProblems:
    """The problems of the current document, in `found`. `begin` starts the next document; `source` are its rows."""

    def __init__(
        self, readers: Sequence[RowReader], lineage: Lineage, draft: Draft, one_value: Iterable[int] = ()
    ) -> None:
        """`one_value` are the values of the main table that must be equal in all rows of a record."""
        self._readers = readers
        self._one_value = frozenset(one_value)
        self._lineage = lineage
        self._draft = draft
        self._group = Group(None, ())
        self.source: tuple[SourceRow, ...] = ()
        self.found: list[Problem] = []

    def begin(self, group: Group) -> None:
        """Start the next document."""
        self._group, self.found = group, []

    @property
    def has_errors(self) -> bool:
        """Whether any problem is worse than a warning."""
        return any(problem.level == "error" for problem in self.found)

    def add(
        self,
        code: str,
        position: int,
        row: Row,
        index: int | None,
        *,
        values: Mapping[str, Any],
        hint: str = "",
        level: Level = "error",
        also: Iterable[Cell] = (),
    ) -> None:
        """Add a problem of the value `index` in a row of the table at `position`; without `index`, of the whole row. `also` are the other
        values involved.
        """
        reader = self._readers[position]
        column = reader.position(index, row) if index is not None else None
        where = reader.table.where(row.number, column)
        if column is None and index is not None:
            where = Where(where.file, where.sheet, where.row, reader.plan.label(index))
        found = self.cell(position, row, index)
        if index is not None and index < len(reader.plan.columns) and reader.plan.columns[index].spec.place is not None:
            values = {
                "column": reader.plan.label(index),
                **values,
            }  # the heading there names something else
        others = self._others(where, also) if level == "error" else ()
        self.found.append(Problem(code, where, found, dict(values), hint, level, others))

    def add_at(self, path: str, code: str, values: Mapping[str, Any], *, level: Level = "error") -> None:
        """Add a problem of a payload path, at the first cell that the value comes from."""
        found = trace(self._lineage, self.source, self._draft.items, path)
        table = self._readers[0].table
        row, column, text = self.source[0], None, ""
        if found:
            row = self.source[found[0].row]
            reader = self._reader(found[0].source.table)
            slot = reader.plan.shape.slots.get(found[0].source.column)
            table = reader.table
            if slot is not None:
                column, text = self._placed(reader, found[0].nth, slot.index, row)
        where = table.where(row.number, column, path)
        others = self._others(where, self._traced(found)) if level == "error" else ()
        self.found.append(Problem(code, where, text, {"found": text, **values}, "", level, others))

    def cell(self, position: int, row: Row, index: int | None) -> str:
        """The cell as the shipper wrote it; empty for derived values and missing columns."""
        reader = self._readers[position]
        column = reader.position(index, row) if index is not None else None
        if column is None:
            return reader.view.constants.get(index, "") if index is not None else ""
        return row.shown[column]

    def to_fill(self, position: int) -> Iterable[Cell]:
        """The cells of the first column set, for a table made from column sets that has no row: filling them makes one."""
        reader = self._readers[position]
        sets, of = reader.plan.sets, reader.plan.made_of
        if sets is None or of is None or self._group.rows[position]:
            return
        for row in self._group.rows[of]:
            blank = with_set_number(
                SetRow(0, Row(row.number, (*row.cells, *("",) * len(sets.columns), sets.words[0][1]))), 0
            )
            for place in sets.filled_by:
                yield position, blank, sets.columns[place].slot.index

    def _reader(self, table: str) -> RowReader:
        return next(reader for reader in self._readers if reader.plan.name == table)

    def _traced(self, found: Iterable[Trace]) -> Iterable[Cell]:
        for trace_ in found:
            reader = self._reader(trace_.source.table)
            slot = reader.plan.shape.slots.get(trace_.source.column)
            rows = self._group.rows[reader.plan.position]
            if slot is not None and trace_.nth < len(rows):
                yield reader.plan.position, rows[trace_.nth], slot.index

    def _others(self, where: Where, also: Iterable[Cell]) -> tuple[Where, ...]:
        """The places of values in the files, each once and without `where`. A derived value counts as the cells it is computed from."""
        here = replace(where, path="")
        found: dict[Where, None] = {}
        for position, row, index in also:
            reader = self._readers[position]
            for column in sorted(columns_behind(reader.plan, (index,))):
                for one in self._stating(position, row, column):
                    place = reader.position(column, one)
                    if place is not None:
                        found[reader.table.where(one.number, place)] = None
            if len(found) > _ALSO_MAX:
                break
        found.pop(here, None)
        return tuple(found)

    def _stating(self, position: int, row: Row, index: int) -> Sequence[Row]:
        """The rows that hold a value: all rows of the record if they must agree in it, else the row itself."""
        if position or index not in self._one_value:
            return (row,)
        return [one for one in self._group.rows[0] if one is row or self.cell(0, one, index).strip()]

    def _placed(self, reader: RowReader, nth: int, index: int, source: SourceRow) -> tuple[int | None, str]:
        """The column of a value in its row of the file, and its text."""
        rows = self._group.rows[reader.plan.position]
        column = reader.position(index, rows[nth]) if nth < len(rows) else None
        return column, source.cells[column] if column is not None else ""

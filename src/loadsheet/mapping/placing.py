"""Every problem of a document at its cell: known by its table, row and column, or by the payload path that the cell fills.

Owns: where a value stands in its file and what its sender wrote there. Decides nothing about what is wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from loadsheet.mapping.documents import Lineage, SourceRow
from loadsheet.mapping.gather import Group
from loadsheet.mapping.lineage import trace
from loadsheet.mapping.names import Draft
from loadsheet.mapping.rows import RowReader
from loadsheet.problems import Level, Problem, Where
from loadsheet.reading.tables import Row


class Places:
    """The problems of one document after the other; `begin` starts the next. `source` are the rows of the document."""

    def __init__(self, readers: Sequence[RowReader], lineage: Lineage, draft: Draft) -> None:
        self._readers = readers
        self._lineage = lineage
        self._draft = draft
        self._group = Group(None, ())
        self.source: tuple[SourceRow, ...] = ()
        self.problems: list[Problem] = []

    def begin(self, group: Group) -> None:
        """Forget the document before."""
        self._group, self.problems = group, []

    def say(
        self,
        code: str,
        position: int,
        row: Row,
        index: int | None,
        *,
        values: Mapping[str, Any],
        hint: str = "",
        level: Level = "error",
    ) -> None:
        """A problem of the value at place `index` in a row of the table at `position`; without `index`, of the whole row."""
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
            }  # what heads that place is the name of something else
        self.problems.append(Problem(code, where, found, dict(values), hint, level))

    def say_at(self, path: str, code: str, values: Mapping[str, Any], *, level: Level = "error") -> None:
        """A problem known by its payload path, placed at the first cell that the value comes from."""
        found = trace(self._lineage, self.source, self._draft.items, path)
        table = self._readers[0].table
        row, column, text = self.source[0], None, ""
        if found:
            row = self.source[found[0].row]
            reader = next(reader for reader in self._readers if reader.plan.name == found[0].source.table)
            slot = reader.plan.shape.slots.get(found[0].source.column)
            table = reader.table
            if slot is not None:
                column, text = self._placed(reader, found[0].nth, slot.index, row)
        where = table.where(row.number, column, path)
        self.problems.append(Problem(code, where, text, {"found": text, **values}, "", level))

    def cell(self, position: int, row: Row, index: int | None) -> str:
        """The cell as its sender wrote it; empty for derived values and missing columns."""
        reader = self._readers[position]
        column = reader.position(index, row) if index is not None else None
        if column is None:
            return reader.view.constants.get(index, "") if index is not None else ""
        return row.shown[column]

    def _placed(self, reader: RowReader, nth: int, index: int, source: SourceRow) -> tuple[int | None, str]:
        """Where in its row of the file a value stands, and its text."""
        rows = self._group.rows[reader.plan.position]
        column = reader.position(index, rows[nth]) if nth < len(rows) else None
        return column, source.cells[column] if column is not None else ""

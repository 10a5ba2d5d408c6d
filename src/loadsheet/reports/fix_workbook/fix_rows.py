"""The rows of a fix workbook in source order, with their remarks and marks.

Assigns each problem to a cell and numbers the rows (see `fix_marks.RowMark`). Rows and remarks are spooled while
entries pass, so memory does not grow with the cells. A row shared by several documents appears once, with all
remarks. Texts are passed in.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec

from loadsheet.fix_marks import RowMark
from loadsheet.ledger import Drop, Entry, SourceTable
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import Level, Problem
from loadsheet.reports.report_files import Spool

_encode = msgspec.json.Encoder().encode


class Remark(NamedTuple):
    """A remark on a row or one of its cells (position from 0, and heading): what is wrong and what to do."""

    position: int | None
    column: str
    level: Level
    text: str
    todo: str
    code: str


@dataclass(frozen=True, slots=True)
class FixRow:
    """One row: its source number, its cells and native values from the ledger, its mark, the key of its document, and
    its remarks.
    """

    number: int
    cells: tuple[str, ...]
    natives: tuple[tuple[int, str, str], ...]
    mark: str
    key: str
    remarks: tuple[Remark, ...]

    @property
    def is_wrong(self) -> bool:
        """Whether the row has something to fix."""
        return any(remark.level == "error" for remark in self.remarks)


class Place(NamedTuple):
    """The place of a problem: table, row, and the position of the cell, if any."""

    table: SourceTable
    row: SourceRow
    position: int | None


class _Record(NamedTuple):
    cells: tuple[str, ...]
    natives: tuple[tuple[int, str, str], ...]
    mark: str
    key: str


_records = msgspec.json.Decoder(_Record)
_remarks = msgspec.json.Decoder(Remark)


class FixRows:
    """The rows of one drop by table: `add` entries, then read each table with `of`."""

    def __init__(self, drop: Drop, stack: ExitStack) -> None:
        self._spools = {table.name: Spool(stack) for table in drop.tables}
        self._taken = {table.name: bytearray() for table in drop.tables}
        self.count = 0

    def holds(self, entry: Entry) -> bool:
        """Whether an earlier entry already added one of this entry's rows."""
        return any(self._has(row) for row in entry.rows)

    def add(self, entry: Entry, remarks: Sequence[tuple[Place, Remark]]) -> None:
        """Add the new rows of an entry, and the remarks on any of its rows."""
        fresh = [row for row in dict.fromkeys(entry.rows) if not self._has(row)]
        for number, row in enumerate(fresh, start=1):
            self._take(row)
            mark = str(RowMark(entry.id, number, len(fresh)))
            self._spools[row.table].add(row.number, b"R" + _encode(_Record(row.cells, row.natives, mark, entry.key)))
        self.count += len(fresh)
        for place, remark in remarks:
            self._spools[place.row.table].add(place.row.number, b"S" + _encode(remark))

    def of(self, table: str) -> Iterator[FixRow]:
        """The rows of a table in source order."""
        for number, lines in groupby(self._spools[table].lines(), key=itemgetter(0)):
            encoded = [line for _, line in lines]
            record = next(_records.decode(line[1:]) for line in encoded if line[:1] == b"R")
            remarks = dict.fromkeys(_remarks.decode(line[1:]) for line in encoded if line[:1] == b"S")
            yield FixRow(number, *record[:4], remarks=tuple(remarks))

    def numbers(self, table: str) -> list[int]:
        """The row numbers of a table, in order."""
        taken = self._taken[table]
        return [number for number, is_here in enumerate(taken) if is_here]

    def _has(self, row: SourceRow) -> bool:
        taken = self._taken[row.table]
        return row.number < len(taken) and bool(taken[row.number])

    def _take(self, row: SourceRow) -> None:
        taken = self._taken[row.table]
        if row.number >= len(taken):
            taken.extend(bytes(row.number + 1 - len(taken) + len(taken) // 2))
        taken[row.number] = 1


def place_of(problem: Problem, entry: Entry, tables: Mapping[str, SourceTable]) -> Place:
    """The row and cell of a problem; the entry's first row if the problem names none. `tables` are the drop's, by name."""
    where, best = problem.where, Place(tables[entry.rows[0].table], entry.rows[0], None)
    for row in entry.rows if where.row else ():
        table = tables[row.table]
        if (row.number, table.file, table.sheet) == (where.row, where.file, where.sheet):
            best = Place(table, row, table.position(where))
            if best.position is not None or not where.column:
                break
    return best


def also_of(problem: Problem, entry: Entry, tables: Mapping[str, SourceTable]) -> list[Place]:
    """The other cells that are part of a problem."""
    if not problem.also:
        return []
    rows = {(tables[row.table].file, tables[row.table].sheet, row.number): row for row in entry.rows}
    found = ((where, rows.get((where.file, where.sheet, where.row))) for where in problem.also)
    return [
        Place(tables[row.table], row, position)
        for where, row in found
        if row is not None and (position := tables[row.table].position(where)) is not None
    ]


def placed_at(problem: Problem, place: Place) -> Problem:
    """The problem with its place completed: the row it is shown at, if it names none."""
    if problem.where.row == place.row.number and problem.where.file:
        return problem
    label = "" if place.position is None else place.table.header[place.position]
    return replace(problem, where=place.table.where(place.row.number, label, problem.where.path))

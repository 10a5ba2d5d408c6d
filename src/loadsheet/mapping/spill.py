"""Rows on disk, sorted by DuckDB: groups whose rows do not stand together, in bounded memory.

Each row is one JSON line: cells as text, typed cells with their kind. Knows no mapping.
"""

import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from loadsheet.problems import Problem
from loadsheet.reading.tables import Native, Row

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MEMORY = "200MB"
_FETCHED = 2_000  # rows at a time

_SORTED = """
    with rows as (
        select * from read_json(?, format = 'newline_delimited', maximum_object_size = 67108864,
            columns = {t: 'INTEGER', n: 'BIGINT', k: 'VARCHAR', o: 'VARCHAR', r: 'VARCHAR'})
    ), groups as (
        select k, min(n) filter (where t = 0) as first, arg_min(o, n) filter (where t = 0) as o, min(n) as any_first
        from rows group by k
    )
    select rows.k, rows.t, rows.r
    from rows join groups using (k)
    order by groups.first is null, groups.o, groups.first, groups.any_first, rows.k, rows.t, rows.n
"""


class Spilled(NamedTuple):
    """A row to sort: the position of its table, the key of its group, the text that groups are sorted by, the row."""

    table: int
    key: str
    order: str
    row: Row


class Spill:
    """One sort in a folder of its own, which is removed at the end."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="loadsheet-", dir=folder)
        self._path = Path(self._folder.name) / "rows.ndjson"
        self._file = self._path.open("wb")
        self._encode = msgspec.json.Encoder().encode
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._folder.cleanup()

    def add(self, item: Spilled) -> None:
        """Writes one row."""
        self._count += 1
        row = self._encode(_plain(item.row)).decode()
        line = {"t": item.table, "n": self._count, "k": item.key, "o": item.order, "r": row}
        self._file.write(self._encode(line) + b"\n")

    def groups(self, tables: int) -> Iterator[tuple[str, tuple[list[Row], ...]]]:
        """The rows of each key by table, in the order of the keys' first rows in the main table (or sorted by `order`)."""
        import duckdb  # noqa: PLC0415 (most files need no sort on disk)

        self._file.close()
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": self._folder.name,
            "threads": 1,
        }
        with duckdb.connect(str(self._path.with_suffix(".db")), config=settings) as database:
            sorted_rows = _fetched(database.execute(_SORTED, [str(self._path)]))
            for key, found in groupby(sorted_rows, itemgetter(0)):
                rows: tuple[list[Row], ...] = tuple([] for _ in range(tables))
                for _, table, row in found:
                    rows[table].append(_row(row))
                yield key, rows


def _fetched(result: "DuckDBPyConnection") -> Iterator[Sequence[Any]]:
    while found := result.fetchmany(_FETCHED):
        yield from found


def _plain(row: Row) -> list[Any]:
    cells = [[str(cell), cell.kind, str(cell.shown)] if isinstance(cell, Native) else cell for cell in row.cells]
    return [row.number, cells, row.problem.to_json() if row.problem else None]


def _row(stored: str) -> Row:
    number, cells, problem = msgspec.json.decode(stored)
    return Row(
        number,
        tuple(cell if isinstance(cell, str) else Native(cell[0], cell[1], cell[2]) for cell in cells),
        Problem.from_json(problem) if problem else None,
    )

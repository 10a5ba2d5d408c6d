"""SQL statements, each written once for both databases; streams of rows; the named values of the table `meta`; the database's clock.

Owns: how values and lists of values are written in a statement. Does not know the purpose of any statement.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, func, select

FETCH = 500
"""The number of rows read at once, and of values in a list."""

T = TypeVar("T")
_SIZES = (0, 1, 16, 48, 128, 512)  # of lists: few sizes, so that SQLite compiles few statements
_LIST = re.compile(r"(not )?in \(:(\w+)\)")
_VALUE = re.compile(r":(\w+)")


class Statement:
    """A statement that both databases understand: `:name` stands for a value, `in (:name)` for one of a list of values."""

    def __init__(self, sql: str) -> None:
        self._sqlite = sql

    @cached_property
    def _postgres(self) -> str:
        lists = _LIST.sub(lambda match: f"{'<> all' if match[1] else '= any'}(:{match[2]})", self._sqlite)
        return _VALUE.sub(r"%(\1)s", lists)

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Run it once for each row of values, at least one. Returns the number of affected database rows."""
        sql = self._sqlite if connection.dialect.name == "sqlite" else self._postgres
        return int(connection.exec_driver_sql(sql, list(rows)).rowcount)

    def rows(self, connection: Connection, **values: Any) -> list[Any]:
        """The rows for these values. A list may have a few hundred items at most."""
        if connection.dialect.name != "sqlite":
            return list(connection.exec_driver_sql(self._postgres, values).all())
        sizes = []
        for name, value in tuple(values.items()):
            if isinstance(value, list):
                size = _size(len(value))
                sizes.append((name, size))
                for place, item in enumerate([*value, *value[-1:] * (size - len(value))]):
                    values[f"{name}_{place}"] = item
                del values[name]
        sql = _with_lists(self._sqlite, tuple(sizes)) if sizes else self._sqlite
        return list(connection.exec_driver_sql(sql, values).all())

    def rows_of(self, connection: Connection, wanted: Sequence[Any]) -> list[Any]:
        """The rows for a list `wanted` of any length, the only value, in no particular order."""
        rows: list[Any] = []
        for part in map(list, chunks(wanted)):
            if connection.dialect.name == "sqlite":
                size = _size(len(part))
                padded = (*part, *part[-1:] * (size - len(part)))
                rows += connection.exec_driver_sql(_with_marks(self._sqlite, size), padded).all()
            else:
                rows += connection.exec_driver_sql(self._postgres, {"wanted": part}).all()
        return rows


def _size(count: int) -> int:
    """The size to which a list of this length is padded."""
    return _SIZES[bisect_left(_SIZES, count)]


@lru_cache(maxsize=128)
def _with_marks(sql: str, size: int) -> str:
    """The SQL with `size` placeholders for the list `wanted`."""
    return sql.replace("(:wanted)", f"({', '.join('?' * size)})")


@lru_cache(maxsize=128)
def _with_lists(sql: str, sizes: tuple[tuple[str, int], ...]) -> str:
    """The SQL for lists of these sizes."""
    for name, size in sizes:
        sql = sql.replace(f"(:{name})", f"({', '.join(f':{name}_{place}' for place in range(size))})")
    return sql


def streamed(engine: Engine, query: Select[Any]) -> Iterator[Any]:
    """The rows of a query, a few hundred at a time. All rows are as of the first fetch, however long the caller takes."""
    with engine.connect() as connection:
        yield from streamed_within(connection, query)


def streamed_within(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    """The same in a transaction."""
    with connection.execute(
        query, execution_options={"yield_per": FETCH}
    ) as rows:  # a server keeps the rest until this is closed
        for partition in rows.partitions():
            yield from partition


def at_one_moment(engine: Engine) -> Engine:
    """The engine for reading snapshots: a transaction sees the data as of its start. SQLite always does."""
    return engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="REPEATABLE READ")


def chunks(wanted: Sequence[T]) -> Iterator[Sequence[T]]:
    """A list in parts that are small enough for one query."""
    for start in range(0, len(wanted), FETCH):
        yield wanted[start : start + FETCH]


DATABASE_TIME = func.extract("epoch", func.clock_timestamp())
"""The current time of PostgreSQL's clock as an SQL expression, in seconds since 1970. It advances within a transaction."""


def database_time(connection: Connection) -> float:
    """The current time of PostgreSQL's clock, on which several machines agree, in seconds since 1970."""
    return float(connection.scalar(select(DATABASE_TIME)) or 0.0)


def stored_value(connection: Connection, name: str) -> str:
    """The value with this name in the ledger's table `meta`. Empty if there is none."""
    return next((row.value for row in _STORED.rows(connection, name=name)), "")


def store_value(connection: Connection, name: str, value: str) -> None:
    """Store a value under this name in the table `meta`, replacing the previous one."""
    _STORE.run(connection, [{"name": name, "value": value}])


_STORED = Statement("select value from meta where name = :name")
_STORE = Statement(
    "insert into meta (name, value) values (:name, :value) on conflict (name) do update set value = excluded.value"
)

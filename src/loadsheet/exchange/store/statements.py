"""The writer's own statements as texts, made once from SQLAlchemy's for the kind of database at hand, and how they get there.

Owns: how many rows and keys one text is for, and which statements leave together. To put such a statement together anew for
every group of calls, and to ask for each on its own whether it arrived, would cost more than all that the database does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, bindparam, insert, make_url, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import ClauseElement

from loadsheet.exchange.store.schema import COUNTERS, owner_of

Values = tuple[Any, ...]
Run = Callable[[str, Values], Any]

# The sizes are few, so that the database and its driver know every text again; psycopg forgets those of 50 parameters and more.
_KEYS = {"sqlite": (1, 8, 64), "postgresql": (1, 8, 40)}
_ROWS = {"sqlite": (64, 32, 16, 8, 4, 2, 1), "postgresql": (8, 4, 2, 1)}
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_STYLES = {"sqlite": "qmark", "postgresql": "format"}  # of parameters that are told apart by their place alone

# The row locks make writers of several processes wait for each other where the database does not lock as a whole; all take
# them in one order, so that none waits for another in a circle.
_COUNTS = select(COUNTERS.c.name, COUNTERS.c.last, COUNTERS.c.held).order_by(COUNTERS.c.name).with_for_update()
_SET_COUNTS = (
    update(COUNTERS).values(last=bindparam("to"), held=bindparam("holding")).where(COUNTERS.c.name == bindparam("of"))
)


def counts(connection: Connection) -> Sequence[Values]:
    """Name, last number and number of records of every table, locked until the transaction ends."""
    with _driver(connection) as run:
        rows: Sequence[Values] = run(_counts(connection.dialect.name), ()).fetchall()
    return rows


def find(connection: Connection, table: Table, owners: tuple[str, ...]) -> Sequence[Values]:
    """The rows of a table that are about these orders or tenders."""
    kind = connection.dialect.name
    sizes, found = _KEYS[kind], list[Values]()
    with _driver(connection) as run:
        for start in range(0, len(owners), sizes[-1]):
            some = owners[start : start + sizes[-1]]
            size = next(size for size in sizes if size >= len(some))
            filled = (*some, *some[-1:] * (size - len(some)))
            found += run(_find(kind, table, size), filled).fetchall()
    return found


def add(connection: Connection, added: Mapping[Table, Sequence[Values]], counted: Sequence[Values]) -> None:
    """Insert rows, their values in the order of their table's columns, and set the counts: last number, records, name."""
    kind = connection.dialect.name
    with _driver(connection, together=True) as run:
        for table, rows in added.items():
            start = 0
            for size in _ROWS[kind]:
                while len(rows) - start >= size:
                    run(_add(kind, table, size), tuple(value for row in rows[start : start + size] for value in row))
                    start += size
        for count in counted:
            run(_set_counts(kind), count)


@contextmanager
def _driver(connection: Connection, *, together: bool = False) -> Iterator[Run]:
    """Runs statements on the driver's own connection; `together`: to a server they go in one message, and none is asked for
    rows. Raises DBAPIError as SQLAlchemy does.
    """
    own: Any = connection.connection.driver_connection
    dialect = connection.dialect
    driver: Any = dialect.loaded_dbapi
    try:
        with own.pipeline() if together and hasattr(own, "pipeline") else nullcontext():
            yield own.execute
    except driver.Error as error:
        gone = dialect.is_disconnect(error, own, None)
        if gone:
            connection.invalidate(error)
        raise DBAPIError.instance(
            None, None, error, driver.Error, connection_invalidated=gone, dialect=dialect
        ) from error


@cache
def _counts(kind: str) -> str:
    return _text(kind, _COUNTS)


@cache
def _set_counts(kind: str) -> str:
    return _text(kind, _SET_COUNTS)


@cache
def _find(kind: str, table: Table, keys: int) -> str:
    wanted: list[Any] = [bindparam(f"key_{place}") for place in range(keys)]
    return _text(kind, select(table).where(owner_of(table).in_(wanted)))


@cache
def _add(kind: str, table: Table, rows: int) -> str:
    values = [
        {column.name: bindparam(f"{column.name}_{place}", type_=column.type) for column in table.c}
        for place in range(rows)
    ]
    return _text(kind, insert(table).values(values))


def _text(kind: str, statement: ClauseElement) -> str:
    dialect: Any = make_url(f"{_DRIVERS[kind]}://").get_dialect()
    return str(statement.compile(dialect=dialect(paramstyle=_STYLES[kind])))

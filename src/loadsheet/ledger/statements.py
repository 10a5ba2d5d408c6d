"""Statements over many rows, as fast as the driver is: each is written once in SQLAlchemy Core, turned into SQL once for each
kind of database, and run with plain tuples.

Owns: how a statement's parameters are ordered. Refuses to know what any statement is for.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Dialect, Engine, Insert, Select, Table, Update, bindparam, insert, literal_column

from loadsheet.problems import LedgerError

FETCH = 500
"""So many rows are read at once."""

_SIZES = (1, 16, 48, 128, 512)  # of lists in conditions: few, so that SQLite reads few texts


class Many(NamedTuple):
    """A statement that is run once for each of many rows, and the names of its parameters in the order of the rows' values."""

    statement: Insert | Update
    names: tuple[str, ...]

    def run(self, connection: Any, rows: Sequence[tuple[Any, ...]]) -> int:
        """Run it over the rows, at least one; returns how many rows of the database were touched."""
        text, positional = _text(self.statement, self.names, connection.dialect)
        values: Any = rows if positional else [dict(zip(self.names, row, strict=True)) for row in rows]
        return int(connection.exec_driver_sql(text, values).rowcount)


class Chosen(NamedTuple):
    """A query for the rows whose column is one of a list of values; `statement(size)` takes a list of that size."""

    query: Select[Any]
    column: Any

    def rows(self, connection: Any, wanted: Sequence[Any]) -> list[Any]:
        """The rows for these values, in no order."""
        found: list[Any] = []
        most = _SIZES[-1]
        for start in range(0, len(wanted), most):
            part = tuple(wanted[start : start + most])
            size = next(size for size in _SIZES if size >= len(part))
            text, names = _chosen_text(self.query, self.column, size, connection.dialect)
            values = part + part[-1:] * (size - len(part))
            given: Any = values if not names else dict(zip(names, values, strict=True))
            found += connection.exec_driver_sql(text, given).all()
        return found


class Asked(NamedTuple):
    """A query that is asked again and again. What it takes each time is named; a list in it is `fixed`, or there is none."""

    query: Select[Any]

    def rows(self, connection: Any, **values: Any) -> list[Any]:
        """The rows for these values, in the order of the query."""
        text, constants, places = _asked_text(self.query, frozenset(values), connection.dialect)
        named = {**constants, **values}
        given: Any = named if places is None else tuple(named[name] for name in places)
        return list(connection.exec_driver_sql(text, given).all())


def streamed(engine: Engine, query: Select[Any]) -> Iterator[Any]:
    """The rows of a query, a few hundred at a time, as they are at the moment of the first, however long it takes to use them."""
    with engine.connect() as connection:
        yield from streamed_within(connection, query)


def streamed_within(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    """The same within a transaction."""
    with connection.execute(
        query, execution_options={"yield_per": FETCH}
    ) as found:  # a server keeps the rest until it is closed
        for partition in found.partitions():
            yield from partition


def at_one_moment(engine: Engine) -> Engine:
    """The engine for reading: all that a transaction reads is of the moment at which it began. SQLite never has it otherwise."""
    return engine if engine.dialect.name == "sqlite" else engine.execution_options(isolation_level="REPEATABLE READ")


def fixed(*texts: str) -> list[Any]:
    """Texts of the program itself (names of states and operations) as they stand in SQL, for conditions that never change."""
    return [literal_column(f"'{text}'") for text in texts]


def insert_many(table: Table, *left_out: str) -> Many:
    """The insert of whole rows into a table, their values in the order of its columns, without those `left_out`."""
    names = tuple(column.name for column in table.columns if column.name not in left_out)
    return Many(insert(table).values({name: bindparam(name) for name in names}), names)


@lru_cache(maxsize=64)
def _text(statement: Insert | Update, names: tuple[str, ...], dialect: Dialect) -> tuple[str, bool]:
    compiled: Any = statement.compile(dialect=dialect, for_executemany=True)
    return _checked(compiled, names)


@lru_cache(maxsize=64)
def _asked_text(
    query: Select[Any], names: frozenset[str], dialect: Dialect
) -> tuple[str, dict[str, Any], tuple[str, ...] | None]:
    """The SQL, those of its values that never change, and which of all stands where; None if it takes them by name."""
    compiled: Any = query.compile(dialect=dialect)
    wanted = {name for name, bound in compiled.binds.items() if bound.required}
    if wanted != names:
        raise _wrong(sorted(wanted), sorted(names))
    constants = {name: value for name, value in compiled.params.items() if name not in names}
    return str(compiled), constants, tuple(compiled.positiontup) if compiled.positional else None


@lru_cache(maxsize=64)
def _chosen_text(query: Select[Any], column: Any, size: int, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    """The SQL for a list of this size, and the names of its values; none if it takes them by place."""
    names = tuple(f"one_{place}" for place in range(size))
    compiled: Any = query.where(column.in_([bindparam(name) for name in names])).compile(dialect=dialect)
    text, positional = _checked(compiled, names)
    return text, () if positional else names


def _checked(compiled: Any, names: tuple[str, ...]) -> tuple[str, bool]:
    """The SQL, and whether it takes its values by place. A wrong order would write values into the wrong columns."""
    places = compiled.positiontup if compiled.positional else sorted(compiled.params)
    if list(places) != (list(names) if compiled.positional else sorted(names)):
        raise _wrong(places, names)
    return str(compiled), compiled.positional


def _wrong(places: Sequence[str], names: Sequence[str]) -> LedgerError:
    return LedgerError(f"a statement takes {places}, not {names}: a fault of loadsheet's own")

"""Loads the unit of work for a group of calls, and writes its changes, in one transaction.

Owns: which parts of the unit of work are read and written, and their order (SQLAlchemy Core, the same statements for every
database). The writer's statements are compiled to text once for each kind of database. To compile them for every group of calls,
and to wait for each answer, would cost more than all work of the database.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, insert, make_url, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import ClauseElement

from loadsheet.contract import Action, is_acceptance
from loadsheet.exchange.database import (
    CONFIRMATIONS,
    COUNTERS,
    EVENTS,
    ORDERS,
    PARTIES,
    QUOTES,
    TENDERS,
    owner_of,
)
from loadsheet.exchange.effects import AppendedRows, Call, Held, Key, RecordSet, UnitOfWork
from loadsheet.exchange.wire import stored

Values = tuple[Any, ...]
Run = Callable[[str, Values], Any]

# Only a few sizes, so that the database and its driver can cache every statement. psycopg does not cache 50 parameters or more.
_KEYS = {"sqlite": (1, 8, 64), "postgresql": (1, 8, 40)}
_ROWS = {"sqlite": (64, 32, 16, 8, 4, 2, 1), "postgresql": (8, 4, 2, 1)}
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_STYLES = {"sqlite": "qmark", "postgresql": "format"}  # of positional parameters

# The row locks make writers of several processes wait for each other if the database has no global lock. All take them in the
# same order, which prevents deadlocks.
_COUNTS = select(COUNTERS.c.name, COUNTERS.c.last, COUNTERS.c.held).order_by(COUNTERS.c.name).with_for_update()
_SET_COUNTS = (
    update(COUNTERS).values(last=bindparam("to"), held=bindparam("holding")).where(COUNTERS.c.name == bindparam("of"))
)

_RECORD_TABLES = (TENDERS, ORDERS, QUOTES)
_SET_CONTENT = {
    table: update(table)
    .where(table.c.number == bindparam("at"))
    .values({name: bindparam(f"new_{name}") for name in (*PARTIES, "content") if name in table.c})
    for table in _RECORD_TABLES
}
_REMOVE = {table: delete(table).where(table.c.number == bindparam("at")) for table in _RECORD_TABLES}
_CLEAR = {
    table: delete(table).where(owner_of(table) == bindparam("owner")) for table in (QUOTES, CONFIRMATIONS, EVENTS)
}
_CLEAR_DECISIONS = delete(CONFIRMATIONS).where(
    CONFIRMATIONS.c.tender == bindparam("tender"), CONFIRMATIONS.c.carrier == bindparam("carrier")
)


class Count(NamedTuple):
    """The counts of a table: the last number used, and the number of records (tenders and orders only)."""

    last: int
    held: int


Counts = Mapping[str, Count]


def lock_counts(connection: Connection) -> Counts:
    """The counts, locked against other writers until the transaction ends."""
    with _driver(connection) as run:
        rows = run(_counts_text(connection.dialect.name), ()).fetchall()
    return {name: Count(last, held) for name, last, held in rows}


def load_work(connection: Connection, counts: Counts, calls: Sequence[Call]) -> UnitOfWork:
    """The unit of work with every record that the calls refer to."""
    about_quotes = [call for call in calls if call.operation.action in (Action.QUOTE, Action.CONFIRM)]
    work = UnitOfWork(
        tenders=RecordSet(counts[TENDERS.name].last),
        orders=RecordSet(counts[ORDERS.name].last),
        quotes=RecordSet(counts[QUOTES.name].last),
        confirmations=AppendedRows(counts[CONFIRMATIONS.name].last),
        events=AppendedRows(counts[EVENTS.name].last),
    )
    _fill(connection, TENDERS, work.tenders, (call for call in calls if call.operation.subject == "tender"))
    _fill(connection, ORDERS, work.orders, (call for call in calls if call.operation.subject == "order"))
    _fill(connection, QUOTES, work.quotes, about_quotes)
    work.decisions.update(_decisions(connection, about_quotes))
    return work


def write_work(connection: Connection, counts: Counts, work: UnitOfWork) -> None:
    """Write the changes of the calls."""
    # Deletions first: a record that is deleted and created again in one group would have the same key twice.
    _clear(connection, (QUOTES, CONFIRMATIONS), work.cleared_tenders)
    _clear(connection, (EVENTS,), work.cleared_orders)
    if work.cleared_quotes:
        connection.execute(
            _CLEAR_DECISIONS, [{"tender": tender, "carrier": carrier} for tender, carrier in work.cleared_quotes]
        )
    record_sets = ((TENDERS, work.tenders), (ORDERS, work.orders), (QUOTES, work.quotes))
    appended = ((CONFIRMATIONS, work.confirmations), (EVENTS, work.events))
    for table, record_set in record_sets:
        _save_changes(connection, table, record_set)
    added = {table: _new(table, record_set) for table, record_set in record_sets}
    added |= {table: [(held.number, *key, held.content) for key, held in journal.added] for table, journal in appended}
    # The last numbers include records that the group itself deleted, because their numbers were used.
    after = {table.name: Count(journal.last, 0) for table, journal in appended}
    after |= {table.name: _count(counts[table.name], table, record_set) for table, record_set in record_sets}
    counted = [(*count, name) for name, count in after.items() if count != counts[name]]
    _add(connection, added, counted)


def _count(before: Count, table: Table, record_set: RecordSet) -> Count:
    return Count(
        record_set.last, before.held + len(record_set.held) - len(record_set.found) if _has_parties(table) else 0
    )


def _fill(connection: Connection, table: Table, record_set: RecordSet, calls: Iterable[Call]) -> None:
    owners = tuple({owner for call in calls for owner in call.owners})
    sides = len(PARTIES) if _has_parties(table) else 0
    for number, *rest, content in _find(connection, table, owners):
        key, parties = tuple(rest[: len(rest) - sides]), tuple(rest[len(rest) - sides :])
        record_set.held[key] = Held(number, content, parties)
        record_set.found[key] = number


def _decisions(connection: Connection, calls: Sequence[Call]) -> dict[Key, bool]:
    """For each quote, whether the latest decision accepts it."""
    owners = tuple({owner for call in calls for owner in call.owners})
    latest = sorted(_find(connection, CONFIRMATIONS, owners), key=itemgetter(0))
    return {(tender, carrier): is_acceptance(stored(content)) for _, tender, carrier, content in latest}


def _clear(connection: Connection, tables: Iterable[Table], owners: Collection[str]) -> None:
    if owners:
        for table in tables:
            connection.execute(_CLEAR[table], [{"owner": owner} for owner in owners])


def _save_changes(connection: Connection, table: Table, record_set: RecordSet) -> None:
    kept = {key: held for key, held in record_set.held.items() if held.number == record_set.found.get(key)}
    gone = [{"at": number} for key, number in record_set.found.items() if key not in kept]
    if gone:
        connection.execute(_REMOVE[table], gone)
    changed = [kept[key] for key in record_set.changed if key in kept]
    if changed:
        values = [{"at": held.number, **_named(table, held)} for held in changed]
        connection.execute(_SET_CONTENT[table], values)


def _new(table: Table, record_set: RecordSet) -> list[tuple[Any, ...]]:
    """The rows of the records that are new or have a new number."""
    new = [(key, held) for key, held in record_set.held.items() if held.number != record_set.found.get(key)]
    if _has_parties(table):
        return [(held.number, *key, *held.parties, held.content) for key, held in new]
    return [(held.number, *key, held.content) for key, held in new]


def _named(table: Table, held: Held) -> dict[str, str]:
    """The new content and, if the table has them, the new parties, by parameter name."""
    named = {"new_content": held.content}
    if _has_parties(table):
        named |= {f"new_{side}": party for side, party in zip(PARTIES, held.parties, strict=True)}
    return named


def _has_parties(table: Table) -> bool:
    return PARTIES[0] in table.c


def _find(connection: Connection, table: Table, owners: tuple[str, ...]) -> Sequence[Values]:
    """The rows of a table for these orders or tenders."""
    kind = connection.dialect.name
    sizes, found = _KEYS[kind], list[Values]()
    with _driver(connection) as run:
        for start in range(0, len(owners), sizes[-1]):
            group = owners[start : start + sizes[-1]]
            size = next(size for size in sizes if size >= len(group))
            filled = (*group, *group[-1:] * (size - len(group)))
            found += run(_select_text(kind, table, size), filled).fetchall()
    return found


def _add(connection: Connection, added: Mapping[Table, Sequence[Values]], counted: Sequence[Values]) -> None:
    """Insert rows, their values in the order of their table's columns, and set the counts: last number, records, name."""
    kind = connection.dialect.name
    with _driver(connection, together=True) as run:
        for table, rows in added.items():
            start = 0
            for size in _ROWS[kind]:
                while len(rows) - start >= size:
                    run(
                        _insert_text(kind, table, size),
                        tuple(value for row in rows[start : start + size] for value in row),
                    )
                    start += size
        for count in counted:
            run(_set_counts_text(kind), count)


@contextmanager
def _driver(connection: Connection, *, together: bool = False) -> Iterator[Run]:
    """Runs statements on the driver's own connection. `together` sends them to a server in one message; they return no rows. Raises
    DBAPIError like SQLAlchemy.
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
def _counts_text(kind: str) -> str:
    return _text(kind, _COUNTS)


@cache
def _set_counts_text(kind: str) -> str:
    return _text(kind, _SET_COUNTS)


@cache
def _select_text(kind: str, table: Table, keys: int) -> str:
    wanted: list[Any] = [bindparam(f"key_{place}") for place in range(keys)]
    return _text(kind, select(table).where(owner_of(table).in_(wanted)))


@cache
def _insert_text(kind: str, table: Table, rows: int) -> str:
    values = [
        {column.name: bindparam(f"{column.name}_{place}", type_=column.type) for column in table.c}
        for place in range(rows)
    ]
    return _text(kind, insert(table).values(values))


def _text(kind: str, statement: ClauseElement) -> str:
    dialect: Any = make_url(f"{_DRIVERS[kind]}://").get_dialect()
    return str(statement.compile(dialect=dialect(paramstyle=_STYLES[kind])))

"""Loads the unit of work for a group of calls, and writes its changes, in one transaction.

Owns: which parts of the unit of work are read and written, and their order (SQLAlchemy Core, the same statements for every
database).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Table, bindparam, delete, insert, select, update

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
from loadsheet.exchange.effects import AppendedRows, Call, Held, RecordSet, UnitOfWork
from loadsheet.exchange.wire import stored

_KEYS_MAX = 1000  # in one statement

# The row locks make writers of several processes wait for each other if the database has no global lock. All take them in the
# same order, which prevents deadlocks.
_COUNTS = select(COUNTERS.c.name, COUNTERS.c.last, COUNTERS.c.held).order_by(COUNTERS.c.name).with_for_update()
_SET_COUNTS = (
    update(COUNTERS).values(last=bindparam("to"), held=bindparam("holding")).where(COUNTERS.c.name == bindparam("of"))
)

_FIND = {
    table: select(table).where(owner_of(table).in_(bindparam("owners", expanding=True)))
    for table in (TENDERS, ORDERS, QUOTES, CONFIRMATIONS)
}
_PARTIES_OF = {TENDERS: PARTIES, ORDERS: PARTIES, QUOTES: ()}  # the columns of each table of records
_SET_CONTENT = {
    table: update(table)
    .where(table.c.number == bindparam("at"))
    .values({name: bindparam(f"new_{name}") for name in (*parties, "content")})
    for table, parties in _PARTIES_OF.items()
}
_REMOVE = {table: delete(table).where(table.c.number == bindparam("at")) for table in _PARTIES_OF}
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
    return {name: Count(last, held) for name, last, held in connection.execute(_COUNTS)}


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
    for row in sorted(_find(connection, CONFIRMATIONS, about_quotes), key=itemgetter(0)):  # the latest decision counts
        work.decisions[row.tender, row.carrier] = is_acceptance(stored(row.content))
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
    for table, rows in added.items():
        if rows:
            connection.execute(insert(table), [dict(zip(table.c.keys(), row, strict=True)) for row in rows])
    # The last numbers include records that the group itself deleted, because their numbers were used.
    after = {table.name: Count(journal.last, 0) for table, journal in appended}
    for table, record_set in record_sets:
        more = len(record_set.held) - len(record_set.found) if _PARTIES_OF[table] else 0
        after[table.name] = Count(record_set.last, counts[table.name].held + more)
    if counted := [
        {"of": name, "to": count.last, "holding": count.held} for name, count in after.items() if count != counts[name]
    ]:
        connection.execute(_SET_COUNTS, counted)


def _fill(connection: Connection, table: Table, record_set: RecordSet, calls: Iterable[Call]) -> None:
    sides = len(_PARTIES_OF[table])
    for row in _find(connection, table, calls):
        number, *rest, content = tuple(row)
        key, parties = tuple(rest[: len(rest) - sides]), tuple(rest[len(rest) - sides :])
        record_set.held[key] = Held(number, content, parties)
        record_set.found[key] = number


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
        sides = [f"new_{name}" for name in _PARTIES_OF[table]]
        connection.execute(
            _SET_CONTENT[table],
            [
                {"at": held.number, "new_content": held.content, **dict(zip(sides, held.parties, strict=False))}
                for held in changed
            ],
        )


def _new(table: Table, record_set: RecordSet) -> list[tuple[Any, ...]]:
    """The rows of the records that are new or have a new number."""
    sides = len(_PARTIES_OF[table])
    return [
        (held.number, *key, *held.parties[:sides], held.content)
        for key, held in record_set.held.items()
        if held.number != record_set.found.get(key)
    ]


def _find(connection: Connection, table: Table, calls: Iterable[Call]) -> list[Row[Any]]:
    """The rows of a table for the orders or tenders of these calls."""
    owners = list({owner for call in calls for owner in call.owners})
    found: list[Row[Any]] = []
    for start in range(0, len(owners), _KEYS_MAX):
        found += connection.execute(_FIND[table], {"owners": owners[start : start + _KEYS_MAX]})
    return found

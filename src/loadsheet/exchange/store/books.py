"""Opening the books for a group of calls, and writing down what the calls changed: one transaction.

Owns: the statements that read and change records (SQLAlchemy Core, none is written for one database alone).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update

from loadsheet.contract import Action
from loadsheet.exchange.effects import Books, Call, Held, Journal, Key, Shelf
from loadsheet.exchange.store.schema import (
    CONFIRMATIONS,
    COUNTERS,
    EVENTS,
    ORDERS,
    PARTIES,
    QUOTES,
    TENDERS,
    owner_of,
)

KEYS_MAX = 500  # keys in one question; databases bound the number of parameters

# The row locks make writers of several processes wait for each other where the database does not lock as a whole; all take
# them in one order, so that none waits for another in a circle.
_COUNTS = select(COUNTERS.c.name, COUNTERS.c.last, COUNTERS.c.held).order_by(COUNTERS.c.name).with_for_update()
_SET_COUNTS = (
    update(COUNTERS).where(COUNTERS.c.name == bindparam("of")).values(last=bindparam("to"), held=bindparam("holding"))
)
_SHELVES = (TENDERS, ORDERS, QUOTES)
_FIND = {table: select(table).where(owner_of(table).in_(bindparam("owners", expanding=True))) for table in _SHELVES}
_SET_CONTENT = {
    table: update(table)
    .where(table.c.number == bindparam("at"))
    .values({name: bindparam(f"new_{name}") for name in (*PARTIES, "content") if name in table.c})
    for table in _SHELVES
}
_REMOVE = {table: delete(table).where(table.c.number == bindparam("at")) for table in _SHELVES}
_CLEAR = {
    table: delete(table).where(owner_of(table) == bindparam("owner")) for table in (QUOTES, CONFIRMATIONS, EVENTS)
}


class Count(NamedTuple):
    """Of one table: the last number given out, and how many records are there (tenders and orders only)."""

    last: int
    held: int


Counts = Mapping[str, Count]


def lock_counts(connection: Connection) -> Counts:
    """The counts, which no other writer can change until the transaction ends."""
    return {name: Count(last, held) for name, last, held in connection.execute(_COUNTS)}


def open_books(connection: Connection, counts: Counts, calls: Sequence[Call]) -> Books:
    """The books with every record that the calls are about."""
    about_quotes = [call for call in calls if call.operation.action in (Action.QUOTE, Action.CONFIRM)]
    books = Books(
        tenders=Shelf(counts[TENDERS.name].last),
        orders=Shelf(counts[ORDERS.name].last),
        quotes=Shelf(counts[QUOTES.name].last),
        confirmations=Journal(counts[CONFIRMATIONS.name].last),
        events=Journal(counts[EVENTS.name].last),
    )
    _fill(connection, TENDERS, books.tenders, (call for call in calls if call.operation.subject == "tender"))
    _fill(connection, ORDERS, books.orders, (call for call in calls if call.operation.subject == "order"))
    _fill(connection, QUOTES, books.quotes, about_quotes)
    return books


def close_books(connection: Connection, counts: Counts, books: Books) -> None:
    """Write down what the calls changed."""
    # Deletions first: a record deleted and created anew in one group has the same key twice for a moment.
    _clear(connection, (QUOTES, CONFIRMATIONS), books.cleared_tenders)
    _clear(connection, (EVENTS,), books.cleared_orders)
    shelves = ((TENDERS, books.tenders), (ORDERS, books.orders), (QUOTES, books.quotes))
    journals = ((CONFIRMATIONS, books.confirmations), (EVENTS, books.events))
    for table, shelf in shelves:
        _save_changes(connection, table, shelf)
        _insert(connection, table, [row for row in shelf.held.items() if row[1].number != shelf.found.get(row[0])])
    for table, journal in journals:
        _insert(connection, table, journal.added)
    # The last numbers also of records that the group itself has deleted again: they were handed out.
    after = {table.name: Count(journal.last, 0) for table, journal in journals}
    after |= {table.name: _count(counts[table.name], table, shelf) for table, shelf in shelves}
    if changed := [(name, count) for name, count in after.items() if count != counts[name]]:
        connection.execute(
            _SET_COUNTS, [{"of": name, "to": count.last, "holding": count.held} for name, count in changed]
        )


def _count(before: Count, table: Table, shelf: Shelf) -> Count:
    counted = all(name in table.c for name in PARTIES)
    return Count(shelf.last, before.held + len(shelf.held) - len(shelf.found) if counted else 0)


def _fill(connection: Connection, table: Table, shelf: Shelf, calls: Iterable[Call]) -> None:
    owners = iter({owner for call in calls for owner in call.owners})
    sides = sum(name in table.c for name in PARTIES)
    while some := list(islice(owners, KEYS_MAX)):
        for number, *rest, content in connection.execute(_FIND[table], {"owners": some}):
            key, parties = tuple(rest[: len(rest) - sides]), tuple(rest[len(rest) - sides :])
            shelf.held[key] = Held(number, content, parties)
            shelf.found[key] = number


def _clear(connection: Connection, tables: Iterable[Table], owners: Collection[str]) -> None:
    if owners:
        for table in tables:
            connection.execute(_CLEAR[table], [{"owner": owner} for owner in owners])


def _save_changes(connection: Connection, table: Table, shelf: Shelf) -> None:
    kept = {key: held for key, held in shelf.held.items() if held.number == shelf.found.get(key)}
    gone = [{"at": number} for key, number in shelf.found.items() if key not in kept]
    if gone:
        connection.execute(_REMOVE[table], gone)
    changed = [kept[key] for key in shelf.changed if key in kept]
    if changed:
        values = [{"at": held.number, **_named(table, held, "new_")} for held in changed]
        connection.execute(_SET_CONTENT[table], values)


def _insert(connection: Connection, table: Table, rows: Iterable[tuple[Key, Held]]) -> None:
    if values := [
        {"number": held.number, **dict(zip(table.c.keys()[1:], key, strict=False)), **_named(table, held)}
        for key, held in rows
    ]:
        connection.execute(insert(table), values)


def _named(table: Table, held: Held, prefix: str = "") -> dict[str, str]:
    """Content and, where the table has them, parties by the names of their columns."""
    named = {f"{prefix}content": held.content}
    if PARTIES[0] in table.c:
        named |= {f"{prefix}{side}": party for side, party in zip(PARTIES, held.parties, strict=True)}
    return named

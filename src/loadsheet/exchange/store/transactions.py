"""Opening the books for a group of calls, and writing down what the calls changed: one transaction.

Owns: what of the books is read and written, and in which order (SQLAlchemy Core, no statement is written for one database
alone).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, update

from loadsheet.contract import Action, is_acceptance
from loadsheet.exchange.effects import Books, Call, Held, Journal, Key, Shelf
from loadsheet.exchange.store import statements
from loadsheet.exchange.store.schema import (
    CONFIRMATIONS,
    EVENTS,
    ORDERS,
    PARTIES,
    QUOTES,
    TENDERS,
    owner_of,
)
from loadsheet.exchange.wire import stored

_SHELVES = (TENDERS, ORDERS, QUOTES)
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
_CLEAR_DECISIONS = delete(CONFIRMATIONS).where(
    CONFIRMATIONS.c.tender == bindparam("tender"), CONFIRMATIONS.c.carrier == bindparam("carrier")
)


class Count(NamedTuple):
    """Of one table: the last number given out, and how many records are there (tenders and orders only)."""

    last: int
    held: int


Counts = Mapping[str, Count]


def lock_counts(connection: Connection) -> Counts:
    """The counts, which no other writer can change until the transaction ends."""
    return {name: Count(last, held) for name, last, held in statements.counts(connection)}


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
    books.decisions.update(_decisions(connection, about_quotes))
    return books


def close_books(connection: Connection, counts: Counts, books: Books) -> None:
    """Write down what the calls changed."""
    # Deletions first: a record deleted and created anew in one group has the same key twice for a moment.
    _clear(connection, (QUOTES, CONFIRMATIONS), books.cleared_tenders)
    _clear(connection, (EVENTS,), books.cleared_orders)
    if books.cleared_quotes:
        connection.execute(
            _CLEAR_DECISIONS, [{"tender": tender, "carrier": carrier} for tender, carrier in books.cleared_quotes]
        )
    shelves = ((TENDERS, books.tenders), (ORDERS, books.orders), (QUOTES, books.quotes))
    journals = ((CONFIRMATIONS, books.confirmations), (EVENTS, books.events))
    for table, shelf in shelves:
        _save_changes(connection, table, shelf)
    added = {table: _new(table, shelf) for table, shelf in shelves}
    added |= {table: [(held.number, *key, held.content) for key, held in journal.added] for table, journal in journals}
    # The last numbers also of records that the group itself has deleted again: they were handed out.
    after = {table.name: Count(journal.last, 0) for table, journal in journals}
    after |= {table.name: _count(counts[table.name], table, shelf) for table, shelf in shelves}
    counted = [(*count, name) for name, count in after.items() if count != counts[name]]
    statements.add(connection, added, counted)


def _count(before: Count, table: Table, shelf: Shelf) -> Count:
    return Count(shelf.last, before.held + len(shelf.held) - len(shelf.found) if _has_parties(table) else 0)


def _fill(connection: Connection, table: Table, shelf: Shelf, calls: Iterable[Call]) -> None:
    owners = tuple({owner for call in calls for owner in call.owners})
    sides = len(PARTIES) if _has_parties(table) else 0
    for number, *rest, content in statements.find(connection, table, owners):
        key, parties = tuple(rest[: len(rest) - sides]), tuple(rest[len(rest) - sides :])
        shelf.held[key] = Held(number, content, parties)
        shelf.found[key] = number


def _decisions(connection: Connection, calls: Sequence[Call]) -> dict[Key, bool]:
    """By quote, whether the latest decision on it accepts it."""
    owners = tuple({owner for call in calls for owner in call.owners})
    latest = sorted(statements.find(connection, CONFIRMATIONS, owners), key=itemgetter(0))
    return {(tender, carrier): is_acceptance(stored(content)) for _, tender, carrier, content in latest}


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
        values = [{"at": held.number, **_named(table, held)} for held in changed]
        connection.execute(_SET_CONTENT[table], values)


def _new(table: Table, shelf: Shelf) -> list[tuple[Any, ...]]:
    """The rows of the records that were not found, or not under the number that they have now."""
    new = [(key, held) for key, held in shelf.held.items() if held.number != shelf.found.get(key)]
    if _has_parties(table):
        return [(held.number, *key, *held.parties, held.content) for key, held in new]
    return [(held.number, *key, held.content) for key, held in new]


def _named(table: Table, held: Held) -> dict[str, str]:
    """The new content and, where the table has them, the new parties, by the names of their parameters."""
    named = {"new_content": held.content}
    if _has_parties(table):
        named |= {f"new_{side}": party for side, party in zip(PARTIES, held.parties, strict=True)}
    return named


def _has_parties(table: Table) -> bool:
    return PARTIES[0] in table.c

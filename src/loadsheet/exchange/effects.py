"""What each write operation does, as functions on the books: what the exchange holds, as far as a batch of calls touches it.

Owns: the effects and the settable answers to them (register of assumptions: Errors, States and transitions). Knows no SQL,
no HTTP and no thread: the store opens the books, applies calls one after the other, and writes down what changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from loadsheet.contract import Action, Assumptions, Fault, Operation, order_change, tender_change
from loadsheet.exchange.wire import encode, stored

Key = tuple[str, ...]  # (order or tender,) or (tender, carrier): identifiers as texts, so that 7 and "7" are the same
Payload = dict[str, Any]

_EXISTS = "exists already"
_UNKNOWN = "is not known"


@dataclass(frozen=True, slots=True)
class Call:
    """One authorised request with the records that the contract finds no fault with.

    Batched operations carry several records, each with its index in `places`, and the faults of the others.
    """

    operation: Operation
    records: tuple[Payload, ...]
    places: tuple[int, ...] = ()
    faults: tuple[Fault, ...] = ()

    @property
    def owners(self) -> Iterable[str]:
        """The orders or tenders that the call is about."""
        name = self.operation.record.key[0]
        return (str(record[name]) for record in self.records)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call did: refused for `faults`, or done; `number` is the exchange's own number of the record (0: none)."""

    faults: tuple[Fault, ...] = ()
    number: int = 0


@dataclass(slots=True)
class Held:
    """A record as the exchange holds it: its number, given once and never again, and its content as JSON text."""

    number: int
    content: str


@dataclass(slots=True)
class Shelf:
    """The records of one table by key: as they were found, and as the calls leave them."""

    last: int
    held: dict[Key, Held] = field(default_factory=dict)
    found: dict[Key, int] = field(default_factory=dict)
    changed: set[Key] = field(default_factory=set)

    def put(self, key: Key, content: str) -> int:
        """Add a record under a new number, or replace the content of the one that is there; the number."""
        if held := self.held.get(key):
            held.content = content
            self.changed.add(key)
            return held.number
        self.last += 1
        self.held[key] = Held(self.last, content)
        return self.last

    def merge(self, key: Key, more: Payload) -> None:
        """Set the fields of `more` in a record that is there; its other fields stay."""
        self.put(key, _text({**stored(self.held[key].content), **more}))


@dataclass(slots=True)
class Journal:
    """Rows that are only ever added, each under the key of what it belongs to."""

    last: int
    added: list[tuple[Key, Held]] = field(default_factory=list)

    def add(self, key: Key, content: str) -> None:
        """Add a row under a new number."""
        self.last += 1
        self.added.append((key, Held(self.last, content)))


@dataclass(slots=True)
class Books:
    """All that a batch of calls may read and change. `cleared` names deleted tenders and orders: what belonged to them goes."""

    tenders: Shelf
    orders: Shelf
    quotes: Shelf
    confirmations: Journal
    events: Journal
    cleared_tenders: set[str] = field(default_factory=set)
    cleared_orders: set[str] = field(default_factory=set)

    def subjects(self, operation: Operation) -> Shelf:
        """The tenders or the orders, whichever the operation is about."""
        return self.tenders if operation.subject == "tender" else self.orders


def apply(books: Books, call: Call, assumptions: Assumptions) -> Effect:
    """Carry out one call on the books. A refusal changes nothing, but for `status_on_400: partial`."""
    return _EFFECTS[call.operation.action](books, call, assumptions)


def _create(books: Books, call: Call, assumptions: Assumptions) -> Effect:
    shelf, key, record = _subject(books, call)
    held = shelf.held.get(key)
    if held and assumptions.create_existing == "reject":
        return _refused(call, _EXISTS)
    if held and assumptions.create_existing == "accept":
        return Effect(number=held.number)
    return Effect(number=shelf.put(key, _text(record)))


def _update(books: Books, call: Call, assumptions: Assumptions) -> Effect:
    shelf, key, record = _subject(books, call)
    held = shelf.held.get(key)
    if held:
        shelf.merge(key, record)
        return Effect(number=held.number)
    if assumptions.update_unknown == "reject":
        return _refused(call, _UNKNOWN)
    return Effect(number=shelf.put(key, _text(record)) if assumptions.update_unknown == "replace" else 0)


def _delete(books: Books, call: Call, assumptions: Assumptions) -> Effect:
    shelf, key, _ = _subject(books, call)
    if key not in shelf.held:
        return _refused(call, _UNKNOWN) if assumptions.delete_unknown == "reject" else Effect()
    del shelf.held[key]
    if shelf is books.orders:
        books.cleared_orders.add(key[0])
        books.events.added = [row for row in books.events.added if row[0] != key]
    else:
        books.cleared_tenders.add(key[0])
        books.confirmations.added = [row for row in books.confirmations.added if row[0][0] != key[0]]
        books.quotes.held = {quote: held for quote, held in books.quotes.held.items() if quote[0] != key[0]}
    return Effect()


def _quote(books: Books, call: Call, assumptions: Assumptions) -> Effect:
    tender, quote, record = _quote_keys(call)
    if tender not in books.tenders.held and assumptions.quote_unknown == "reject":
        return _refused(call, _UNKNOWN)
    if quote in books.quotes.held and assumptions.quote_existing == "reject":
        return _refused(call, "has quoted for this tender already", key_field=1)
    return Effect(number=books.quotes.put(quote, _text(record)))


def _confirm(books: Books, call: Call, assumptions: Assumptions) -> Effect:
    tender, quote, record = _quote_keys(call)
    if quote not in books.quotes.held and assumptions.confirm_unknown == "reject":
        if tender not in books.tenders.held:
            return _refused(call, _UNKNOWN)
        return _refused(call, "has not quoted for this tender", key_field=1)
    books.confirmations.add(quote, _text(record))
    change = tender_change(record, assumptions)
    if change and tender in books.tenders.held:
        books.tenders.merge(tender, change)
    return Effect()


def _status(books: Books, call: Call, assumptions: Assumptions) -> Effect:
    events = [((owner,), record) for owner, record in zip(call.owners, call.records, strict=True)]
    name = call.operation.record.key[0]
    unknown = tuple(
        Fault(name, _UNKNOWN, place)
        for place, (key, _) in zip(call.places, events, strict=True)
        if key not in books.orders.held and assumptions.status_unknown == "reject"
    )
    faults = tuple(sorted(call.faults + unknown, key=lambda fault: fault.index or 0))
    if faults and assumptions.status_on_400 == "atomic":
        return Effect(faults)
    for key, record in events:
        held = key in books.orders.held
        if not held and assumptions.status_unknown == "reject":
            continue
        books.events.add(key, _text(record))
        if held and (change := order_change(record, assumptions)):
            books.orders.merge(key, change)
    return Effect(faults)


_EFFECTS: dict[Action, Callable[[Books, Call, Assumptions], Effect]] = {
    Action.CREATE: _create,
    Action.UPDATE: _update,
    Action.DELETE: _delete,
    Action.QUOTE: _quote,
    Action.CONFIRM: _confirm,
    Action.STATUS: _status,
}


def _subject(books: Books, call: Call) -> tuple[Shelf, Key, Payload]:
    (record,) = call.records
    (owner,) = call.owners
    return books.subjects(call.operation), (owner,), record


def _quote_keys(call: Call) -> tuple[Key, Key, Payload]:
    (record,) = call.records
    tender, carrier = (str(record[name]) for name in call.operation.record.key)
    return (tender,), (tender, carrier), record


def _refused(call: Call, text: str, *, key_field: int = 0) -> Effect:
    return Effect((Fault(call.operation.record.key[key_field], text),))


def _text(record: Payload) -> str:
    return encode(record).decode()

"""The effects of write operations, as functions on the unit of work: the records that a batch of calls reads and changes.

Owns: the effects and the settable answers to them (register of assumptions: Errors, States and transitions). Knows no SQL,
no HTTP and no thread: the store opens the unit of work, applies the calls one after the other, and writes the changes.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadsheet.contract import (
    PARTY_FIELDS,
    Action,
    Assumptions,
    Fault,
    Operation,
    carrier_of,
    is_acceptance,
    offered_to,
    order_change,
    parties_of,
    tender_change,
)
from loadsheet.exchange.wire import decode_stored, encode

Key = tuple[str, ...]  # (order or tender,) or (tender, carrier): identifiers as texts, so that 7 and "7" are the same
Payload = dict[str, Any]

KEY_LENGTH_MAX = 125  # characters of an identifier that is its own key; PostgreSQL indexes at most 2,700 bytes a row

_HASHED = "sha256:"
_EXISTS = "already exists"
_UNKNOWN = "is not known"
_NOT_FOR_YOU = "accepts quotes only from invited carriers, each for itself"
_NOT_YOUR_DECISION = "can only be decided by the sender of the tender"
_QUOTE_ACCEPTED = "already has an accepted quote for this tender"
_DECIDED = "has a quote that was already {}"
_OTHER_PARTIES = "can only be changed with an operator's token"
_NOT_YOURS = "sender or receiver must be the party of your token"


class Call(NamedTuple):
    """One authorised request with its valid records.

    Batched operations carry several records, with their indexes in `places`, and the faults of the others. `body` is the request
    body as received, for the truth log. `party` is the key of the caller's party; empty for an operator, who may do everything.
    """

    operation: Operation
    records: tuple[Payload, ...]
    places: tuple[int, ...] = ()
    faults: tuple[Fault, ...] = ()
    body: bytes = b""
    party: str = ""

    @property
    def owners(self) -> Iterable[str]:
        """The keys of the call's orders or tenders."""
        name = self.operation.record.key[0]
        return (key_text(record[name]) for record in self.records)

    def may_see(self, stored: "StoredRecord | None") -> bool:
        """Whether the record exists and the caller is one of its parties."""
        return stored is not None and (not self.party or self.party in stored.parties)

    def is_named_in(self, record: Mapping[str, Any]) -> bool:
        """Whether the record names the caller as sender or receiver."""
        return not self.party or self.party in _parties(record)


class Change(NamedTuple):
    """One change by a call: the key of the record, the effect, and the record's number."""

    key: Key
    effect: str
    number: int


class Effect(NamedTuple):
    """The result of a call: refused for `faults`, or done. `number` is the exchange's own number of the record (0: none).

    `changes` lists every change; it is empty for a refusal and for a 200 without effect.
    """

    faults: tuple[Fault, ...] = ()
    number: int = 0
    changes: tuple[Change, ...] = ()


@dataclass(slots=True)
class StoredRecord:
    """A stored record: its number, which is never reused, its content as JSON text, and for tenders and orders the keys of sender
    and receiver.
    """

    number: int
    content: str
    parties: tuple[str, ...] = ()


@dataclass(slots=True)
class RecordSet:
    """The records of one table by key: `numbers_before` are those before the calls, `records` what there is after them."""

    last: int
    records: dict[Key, StoredRecord] = field(default_factory=dict)
    numbers_before: dict[Key, int] = field(default_factory=dict)
    changed: set[Key] = field(default_factory=set)

    def put(self, key: Key, record: Payload) -> int:
        """Add a record under a new number, or replace the content of an existing one; returns the number."""
        content, parties = _text(record), _parties(record)
        if stored := self.records.get(key):
            stored.content, stored.parties = content, parties
            self.changed.add(key)
            return stored.number
        self.last += 1
        self.records[key] = StoredRecord(self.last, content, parties)
        return self.last

    def merge(self, key: Key, more: Payload) -> None:
        """Set the fields of `more` in an existing record; its other fields stay."""
        self.put(key, {**decode_stored(self.records[key].content), **more})


@dataclass(slots=True)
class AppendedRows:
    """Append-only rows, each under the key of its record."""

    last: int
    added: list[tuple[Key, StoredRecord]] = field(default_factory=list)

    def add(self, key: Key, content: str) -> int:
        """Add a row under a new number and return the number."""
        self.last += 1
        self.added.append((key, StoredRecord(self.last, content)))
        return self.last


@dataclass(slots=True)
class UnitOfWork:
    """The records that a batch of calls may read and change. The rows of `cleared` tenders, orders and quotes are deleted."""

    tenders: RecordSet
    orders: RecordSet
    quotes: RecordSet
    confirmations: AppendedRows
    events: AppendedRows
    decisions: dict[Key, bool] = field(default_factory=dict)  # by quote: whether it was accepted
    cleared_tenders: set[str] = field(default_factory=set)
    cleared_orders: set[str] = field(default_factory=set)
    cleared_quotes: set[Key] = field(default_factory=set)  # quotes that are undecided again

    def subjects(self, operation: Operation) -> RecordSet:
        """The tenders or the orders, depending on the operation."""
        return self.tenders if operation.subject == "tender" else self.orders


def key_text(identifier: object) -> str:
    """The text under which an identifier is stored and found: the identifier itself, or its SHA-256 if a database cannot index it
    (too long, or with U+0000, which PostgreSQL cannot store).
    """
    text = str(identifier)
    if len(text) <= KEY_LENGTH_MAX and "\0" not in text and not text.startswith(_HASHED):
        return text
    return _HASHED + hashlib.sha256(text.encode()).hexdigest()


def apply(work: UnitOfWork, call: Call, assumptions: Assumptions) -> Effect:
    """Apply one call to the unit of work. A refusal changes nothing, except with `status_on_400: partial`.

    Records of other parties are answered as unknown, but their identifiers cannot be used again.
    """
    return _EFFECTS[call.operation.action](work, call, assumptions)


def _create(work: UnitOfWork, call: Call, assumptions: Assumptions) -> Effect:
    record_set, key, record = _subject(work, call)
    if not call.is_named_in(record):
        return _not_yours()
    stored = record_set.records.get(key)
    if stored and (assumptions.create_existing == "reject" or not call.may_see(stored)):
        return _refused(call, _EXISTS)
    if stored and assumptions.create_existing == "accept":
        return Effect(number=stored.number)
    if stored and (others := _other_parties(call, decode_stored(stored.content), record)):
        return Effect(others)
    return _put(record_set, key, record, "replaced" if stored else "created")


def _update(work: UnitOfWork, call: Call, assumptions: Assumptions) -> Effect:
    record_set, key, record = _subject(work, call)
    stored = record_set.records.get(key)
    if stored and call.may_see(stored):
        if others := _other_parties(call, decode_stored(stored.content), record):
            return Effect(others)
        record_set.merge(key, record)
        return Effect(number=stored.number, changes=(Change(key, "updated", stored.number),))
    if assumptions.update_unknown == "accept":
        return Effect()
    if stored or assumptions.update_unknown == "reject":  # another party's record cannot be stored as new
        return _refused(call, _UNKNOWN)
    return _put(record_set, key, record, "created") if call.is_named_in(record) else _not_yours()


def _delete(work: UnitOfWork, call: Call, assumptions: Assumptions) -> Effect:
    record_set, key, _ = _subject(work, call)
    if not call.may_see(record_set.records.get(key)):
        return _refused(call, _UNKNOWN) if assumptions.delete_unknown == "reject" else Effect()
    change = Change(key, "deleted", record_set.records.pop(key).number)
    if record_set is work.orders:
        work.cleared_orders.add(key[0])
        work.events.added = [row for row in work.events.added if row[0] != key]
    else:
        work.cleared_tenders.add(key[0])
        work.confirmations.added = [row for row in work.confirmations.added if row[0][0] != key[0]]
        work.decisions = {quote: accepted for quote, accepted in work.decisions.items() if quote[0] != key[0]}
        work.quotes.records = {quote: stored for quote, stored in work.quotes.records.items() if quote[0] != key[0]}
    return Effect(changes=(change,))


def _quote(work: UnitOfWork, call: Call, assumptions: Assumptions) -> Effect:
    tender, quote, record = _quote_keys(call)
    if not call.is_named_in(record) and call.party != quote[1]:
        return _not_yours()
    stored = work.tenders.records.get(tender)
    allowed = _may_quote(call, stored, quote, assumptions)
    if not allowed and call.may_see(stored):
        return _refused(call, _NOT_FOR_YOU)
    if not (stored and allowed) and assumptions.quote_unknown == "reject":
        return _refused(call, _UNKNOWN)
    if not allowed:
        return Effect()
    if stays := _why_a_quote_stays(work, quote, assumptions):
        return _refused(call, stays, key_field=1)
    if work.decisions.pop(quote, None) is not None:
        work.cleared_quotes.add(quote)
        work.confirmations.added = [row for row in work.confirmations.added if row[0] != quote]
    return _put(work.quotes, quote, record, "quoted")


def _why_a_quote_stays(work: UnitOfWork, quote: Key, assumptions: Assumptions) -> str:
    """The reason why an existing quote cannot be replaced; empty if it can."""
    if quote in work.quotes.records and assumptions.quote_existing == "reject":
        return "has already quoted for this tender"
    accepted = work.decisions.get(quote) and assumptions.quote_accepted == "reject"
    return _QUOTE_ACCEPTED if accepted else ""


def _may_quote(call: Call, tender: StoredRecord | None, quote: Key, assumptions: Assumptions) -> bool:
    """Whether the caller may add or change this quote; an invited carrier only its own."""
    if not call.party:
        return True
    if assumptions.quote_by == "parties":
        return call.may_see(tender) or (tender is None and call.party == quote[1])
    if call.party != quote[1]:
        return False
    if tender is None or assumptions.quote_by == "any":
        return True
    invited = map(key_text, offered_to(decode_stored(tender.content)))
    return call.party in (tender.parties[-1], *invited)


def _confirm(work: UnitOfWork, call: Call, assumptions: Assumptions) -> Effect:
    tender, quote, record = _quote_keys(call)
    stored = work.tenders.records.get(tender)
    hidden = bool(call.party) and not call.may_see(stored)
    rejects_unknown = assumptions.confirm_unknown == "reject"
    if rejects_unknown and (hidden or (not stored and quote not in work.quotes.records)):
        return _refused(call, _UNKNOWN)
    if hidden and stored:
        return Effect()
    if stored and call.party and assumptions.confirm_by == "sender" and call.party != stored.parties[0]:
        return _refused(call, _NOT_YOUR_DECISION)
    if rejects_unknown and quote not in work.quotes.records:
        return _refused(call, "has not quoted for this tender", key_field=1)
    accepted, before = is_acceptance(record), work.decisions.get(quote)
    if before is not None and assumptions.confirm_decided != "replace":
        same = before == accepted and assumptions.confirm_decided == "same"
        decided = _DECIDED.format("accepted" if before else "rejected")
        return Effect() if same else _refused(call, decided, key_field=1)
    work.decisions[quote] = accepted
    number = work.confirmations.add(quote, _text(record))
    change = tender_change(record, assumptions)
    if change and stored:
        work.tenders.merge(tender, change)
    return Effect(changes=(Change(quote, "confirmed", number),))


def _status(work: UnitOfWork, call: Call, assumptions: Assumptions) -> Effect:
    events = [((owner,), record) for owner, record in zip(call.owners, call.records, strict=True)]
    name = call.operation.record.key[0]
    unknown = tuple(
        Fault(name, _UNKNOWN, place)
        for place, (key, _) in zip(call.places, events, strict=True)
        if not call.may_see(work.orders.records.get(key)) and assumptions.status_unknown == "reject"
    )
    faults = tuple(sorted(call.faults + unknown, key=lambda fault: fault.index or 0))
    if faults and assumptions.status_on_400 != "partial":
        return Effect(faults)
    changes = []
    for key, record in events:
        stored = work.orders.records.get(key)
        if not call.may_see(stored) and (stored or assumptions.status_unknown == "reject"):
            continue
        changes.append(Change(key, "reported", work.events.add(key, _text(record))))
        if stored and (change := order_change(record, assumptions)):
            work.orders.merge(key, change)
    return Effect(faults, changes=tuple(changes))


_EFFECTS: dict[Action, Callable[[UnitOfWork, Call, Assumptions], Effect]] = {
    Action.CREATE: _create,
    Action.UPDATE: _update,
    Action.DELETE: _delete,
    Action.QUOTE: _quote,
    Action.CONFIRM: _confirm,
    Action.STATUS: _status,
}


def _subject(work: UnitOfWork, call: Call) -> tuple[RecordSet, Key, Payload]:
    (record,) = call.records
    (owner,) = call.owners
    return work.subjects(call.operation), (owner,), record


def _put(record_set: RecordSet, key: Key, record: Payload, effect: str) -> Effect:
    number = record_set.put(key, record)
    return Effect(number=number, changes=(Change(key, effect, number),))


def _quote_keys(call: Call) -> tuple[Key, Key, Payload]:
    (record,) = call.records
    (tender,) = call.owners
    return (tender,), (tender, key_text(carrier_of(record))), record


def _parties(record: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(key_text, parties_of(record)))


def _other_parties(call: Call, stored: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Faults for parties that the record would change: a party cannot hand a record over or take it over."""
    if not call.party:
        return ()
    return tuple(
        Fault(name, _OTHER_PARTIES)
        for name, before, after in zip(PARTY_FIELDS, _parties(stored), _parties({**stored, **record}), strict=True)
        if before != after
    )


def _not_yours() -> Effect:
    return Effect(tuple(Fault(name, _NOT_YOURS) for name in PARTY_FIELDS))


def _refused(call: Call, text: str, *, key_field: int = 0) -> Effect:
    return Effect((Fault(call.operation.record.key[key_field], text),))


def _text(record: Payload) -> str:
    return encode(record).decode()

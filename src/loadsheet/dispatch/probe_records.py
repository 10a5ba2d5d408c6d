"""The records of the probe: the required fields of an operation, and variants with one change.

Finds the field for each question by its kind, never by its name. Knows no exchange and makes no call.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loadsheet.contract import (
    BY_NAME,
    Action,
    Assumptions,
    Field,
    Kind,
    Operation,
    Record,
    When,
    example_record,
    order_change,
)
from loadsheet.contract.records import ORDER, REFERENCE, TENDER

Payload = dict[str, Any]

CHANGED = "LSPROBE changed"


@dataclass(frozen=True, slots=True)
class ProbeRecords:
    """Makes records. `given` are values that take the place of our own in every record which has a field of that name, such as
    the parties that a tenant knows.
    """

    given: Mapping[str, str]

    def minimal(self, operation: Operation, key: str) -> Payload:
        """The fields that an operation requires, about the order or tender of this key."""
        record = operation.record
        example = {**example_record(operation), **self._created(operation)}  # an update of ours changes nothing
        needed = [field.name for field in record.fields if _needed(field, operation)]
        given = {name: value for name, value in self.given.items() if record.field(name)}
        return {**{name: example[name] for name in needed}, **given, record.key[0]: key}

    def changed(self, operation: Operation, key: str) -> Payload:
        """The same with one text that is not in the first."""
        return {**self.minimal(operation, key), shared_text(): CHANGED}

    def carrier(self, operation: Operation, key: str, carrier: str) -> Payload:
        """A quote, or a decision on one, of this carrier."""
        return {**self.minimal(operation, key), operation.record.key[1]: carrier}

    def _created(self, operation: Operation) -> Payload:
        return example_record(BY_NAME[f"{operation.subject}.create"]) if operation.action is Action.UPDATE else {}


def shared_text() -> str:
    """A free text that orders require and tenders may have."""
    return next(
        field.name
        for field in _free_texts(ORDER)
        if field.when is When.ON_CREATE and TENDER.field(field.name) is not None
    )


def optional_text() -> str:
    """A free text that an order may have."""
    return next(field.name for field in _free_texts(ORDER) if field.when is When.OPTIONAL)


def listing_only(record: Record) -> str:
    """A field that the interface shows in listings only."""
    return next(field.name for field in record.fields if field.when is When.LISTED)


def unnamed_values(payload: Payload, record: Record) -> Payload:
    """The record with a value that the interface does not name wherever it names some."""
    return {**payload, **{field.name: "LSPROBE" for field in record.fields if field.known and field.name in payload}}


def decided(payload: Payload, word: str) -> Payload:
    """A decision on a quote in this word."""
    name = next(field.name for field in BY_NAME["tender.confirm"].record.fields if field.known)
    return {**payload, name: word}


def other_zone(payload: Payload, record: Record) -> Payload:
    """The record in a time zone that does not exist."""
    name = next(field.name for field in record.fields if field.kind is Kind.TIMEZONE)
    return {**payload, name: "Mars/Phobos"}


def flagged(payload: Payload, record: Record, word: str) -> Payload:
    """The record with this word in a flag."""
    return {**payload, next(field.name for field in record.fields if field.kind is Kind.FLAG): word}


def number_as_text(payload: Payload, record: Record) -> Payload:
    """An order with a number in a text."""
    return {**payload, next(field.name for field in record.fields if field.kind is Kind.NUMERIC): "2"}


def number_as_number(payload: Payload, operation: Operation) -> Payload:
    """A tender with a number that is one, in a list since a tender itself holds none."""
    holders = (
        (field, inner)
        for field in operation.record.fields
        if field.record is not None
        for inner in field.record.fields
        if inner.kind is Kind.NUMERIC
    )
    field, inner = next(holders)
    element = example_record(operation)[field.name][0]
    needed = [part.name for part in field.record.fields if part.when is When.ALWAYS] if field.record else []
    return {**payload, field.name: [{**{name: element[name] for name in needed}, inner.name: 2}]}


def referenced(payload: Payload, record: Record, mark: str) -> tuple[Payload, str]:
    """The record with this mark as a reference, and the name of the field that carries it."""
    name = next(field.name for field in record.fields if field.record is REFERENCE)
    return {
        **payload,
        name: [dict(zip((part.name for part in REFERENCE.fields), ("LSPROBE", mark), strict=True))],
    }, name


def status_marks() -> dict[str, tuple[str, str]]:
    """For each way in which a status record may set a field of its order: that field, and the one that it is set from."""
    names = {field.name: field.name for field in BY_NAME["order.status"].record.fields}
    ways = {way: order_change(names, Assumptions(status_sets_order_status=way)) for way in ("code", "name")}
    return {way: next(iter(change.items())) for way, change in ways.items()}


def _needed(field: Field, operation: Operation) -> bool:
    return field.when is When.ALWAYS or (field.when is When.ON_CREATE and operation.creates)


def _free_texts(record: Record) -> Iterator[Field]:
    return (field for field in record.fields if field.kind is Kind.STRING and not field.known)

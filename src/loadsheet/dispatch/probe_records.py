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
    """Creates records. `given` values replace ours in every record that has a field of that name, such as the parties
    that a tenant knows.
    """

    given: Mapping[str, str]

    def minimal(self, operation: Operation, key: str) -> Payload:
        """The required fields of an operation, for the order or tender with this key."""
        record = operation.record
        example = {**example_record(operation), **self._created(operation)}  # our updates change nothing
        needed = [field.name for field in record.fields if _needed(field, operation)]
        given = {name: value for name, value in self.given.items() if record.field(name)}
        return {**{name: example[name] for name in needed}, **given, record.key[0]: key}

    def changed(self, operation: Operation, key: str) -> Payload:
        """The minimal record with one changed text."""
        return {**self.minimal(operation, key), shared_text(): CHANGED}

    def carrier(self, operation: Operation, key: str, carrier: str) -> Payload:
        """A quote of this carrier, or a decision on one."""
        return {**self.minimal(operation, key), operation.record.key[1]: carrier}

    def _created(self, operation: Operation) -> Payload:
        return example_record(BY_NAME[f"{operation.subject}.create"]) if operation.action is Action.UPDATE else {}


def shared_text() -> str:
    """A free-text field that orders require and tenders may have."""
    return next(
        field.name
        for field in _free_texts(ORDER)
        if field.when is When.ON_CREATE and TENDER.field(field.name) is not None
    )


def optional_text() -> str:
    """A free-text field that an order may have."""
    return next(field.name for field in _free_texts(ORDER) if field.when is When.OPTIONAL)


def listing_only(record: Record) -> str:
    """A field that only listings show."""
    return next(field.name for field in record.fields if field.when is When.LISTED)


def unnamed_values(payload: Payload, record: Record) -> Payload:
    """The record with an unlisted value in every field that has listed values."""
    return {**payload, **{field.name: "LSPROBE" for field in record.fields if field.known and field.name in payload}}


def decided(payload: Payload, word: str) -> Payload:
    """A decision on a quote with this word."""
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
    """An order with a number as text."""
    return {**payload, next(field.name for field in record.fields if field.kind is Kind.NUMERIC): "2"}


def number_as_number(payload: Payload, operation: Operation) -> Payload:
    """A tender with a number as number, in a list, because a tender itself has none."""
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
    """For each way in which a status record may set a field of its order: the order's field and the status's field."""
    names = {field.name: field.name for field in BY_NAME["order.status"].record.fields}
    ways = {way: order_change(names, Assumptions(status_sets_order_status=way)) for way in ("code", "name")}
    return {way: next(iter(change.items())) for way, change in ways.items()}


def _needed(field: Field, operation: Operation) -> bool:
    return field.when is When.ALWAYS or (field.when is When.ON_CREATE and operation.creates)


def _free_texts(record: Record) -> Iterator[Field]:
    return (field for field in record.fields if field.kind is Kind.STRING and not field.known)

"""Summaries of records for people, independent of field names.

Owns: which fields make up a route, a status, an offer, a moment of a journey. All values are texts, empty if missing. Invalid
records do not raise errors here.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from loadsheet.contract.kinds import Kind, plain
from loadsheet.contract.operations import is_acceptance
from loadsheet.contract.records import Field, Record, When


class Stop(NamedTuple):
    """One end of a route."""

    company: str
    city: str
    country: str
    postal_code: str
    street: str
    early: str
    late: str


class Overview(NamedTuple):
    """An order or a tender in a line."""

    key: str
    sender: str
    receiver: str
    status: str
    pickup: Stop
    delivery: Stop
    mode: str
    packages: int


class Moment(NamedTuple):
    """One point of a journey; `history` holds the earlier points in the same report."""

    code: str
    name: str
    when: str
    place: str
    text: str
    history: "tuple[Moment, ...]" = ()


class Offer(NamedTuple):
    """A quote, or the decision on one: `accepted` is None for the quote itself."""

    carrier: str
    rate: str
    currency: str
    when: str
    accepted: bool | None


class Shown(NamedTuple):
    """A field with its displayed value: a text, or the fields of each inner record."""

    name: str
    meaning: str
    text: str
    inner: "tuple[tuple[Shown, ...], ...]" = ()


def overview_of(record: Record, content: Mapping[str, Any]) -> Overview:
    """An order or a tender in a line."""
    status = next(field.name for field in record.fields if field.name in ("tender_status", "order_status"))
    packages = content.get("packages")
    return Overview(
        key=_text(content.get(record.key[0])),
        sender=_text(content.get("sender_id")),
        receiver=_text(content.get("receiver_id")),
        status=_text(content.get(status)),
        pickup=_stop("pickup", content),
        delivery=_stop("delivery", content),
        mode=_text(content.get("transport_mode")),
        packages=len(packages) if isinstance(packages, list) else 0,
    )


def moment(event: Mapping[str, Any]) -> Moment:
    """The summary of a status record, with its history."""
    history = event.get("statusHistory")
    items = history if isinstance(history, list) else []
    return Moment(
        code=_text(event.get("status_code")),
        name=_text(event.get("status_name")),
        when=_text(event.get("status_datetime")).replace("T", " "),
        place=_text(event.get("status_location") or event.get("current_location")),
        text=_text(event.get("status_description")),
        history=tuple(_past(item) for item in items if isinstance(item, Mapping)),
    )


def offer(content: Mapping[str, Any]) -> Offer:
    """The summary of a quote or a quote confirmation."""
    return Offer(
        carrier=_text(content.get("carrier_id")),
        rate=_text(content.get("tenderRate")),
        currency=_text(content.get("currency")),
        when=_text(content.get("response_datetime")).replace("T", " ").replace("Z", " UTC"),
        accepted=is_acceptance(content) if "status" in content else None,
    )


def shown(record: Record, content: Mapping[str, Any]) -> tuple[Shown, ...]:
    """Every field with a value, in the order of the interface, with inner records; a unit is appended to its number."""
    fields: list[Shown] = []
    before = ""
    for field in record.fields:
        name = next((name for name in (field.name, *field.spellings) if name in content), None)
        if name is not None and content[name] not in ("", None, []) and field.when is not When.LISTED:
            item = _shown(field, name, content[name])
            if name.endswith("_uom") and fields and fields[-1].name == before:
                fields[-1] = fields[-1]._replace(text=f"{fields[-1].text} {item.text}")
            else:
                fields.append(item)
        before = field.name
    return tuple(fields)


def _shown(field: Field, name: str, value: Any) -> Shown:
    if field.record is None:
        return Shown(name, field.meaning, _text(value))
    values = value if field.kind is Kind.ARRAY else [value]
    inner = tuple(shown(field.record, item) for item in values if isinstance(item, Mapping))
    return Shown(name, field.meaning, "", inner)


def _stop(prefix: str, content: Mapping[str, Any]) -> Stop:
    def of(name: str) -> str:
        return _text(content.get(f"{prefix}_{name}"))

    street = ", ".join(line for line in (of("address1"), of("address2")) if line)
    return Stop(of("company"), of("city"), of("country"), of("pincode"), street, of("startdatetime"), of("enddatetime"))


def _past(item: Mapping[str, Any]) -> Moment:
    location = item.get("location")
    place = location.get("city") if isinstance(location, Mapping) else ""
    return Moment(
        code=_text(item.get("statusCode")),
        name=_text(item.get("statusName")),
        when=f"{_text(item.get('statusDate'))} {_text(item.get('statusTime'))}".strip(),
        place=_text(place),
        text=_text(item.get("status_description") or item.get("status-description")),
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return plain(value) if isinstance(value, Decimal) else str(value)

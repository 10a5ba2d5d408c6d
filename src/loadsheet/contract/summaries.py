"""What people and reports take from records: figures that add up, and an order, a quote or an event in a line.

Owns: the field names behind control totals and tolerances (the settings define the size of a tolerance), and which fields make up a route,
a status, an offer, a moment of a journey. All texts of summaries are empty if missing; invalid records do not raise errors here.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation, localcontext
from enum import StrEnum
from typing import Any, NamedTuple

from loadsheet.contract.kinds import FieldKind, is_calculable, plain_digits
from loadsheet.contract.operations import Action, Operation, is_acceptance
from loadsheet.contract.records import Field, Record, When

_DIGITS = 1_000  # more than the sum of any two numbers of a workbook has


class Scale(StrEnum):
    """The kind of a figure, which decides its tolerance."""

    COUNT = "count"
    WEIGHT = "weight"  # weights and volumes
    MONEY = "money"


class Measure(NamedTuple):
    """A figure that adds up: its name in reports, its scale, its field, the field of its unit or currency (empty: none), and the
    array whose items hold both (empty: the record itself).
    """

    name: str
    scale: Scale
    field: str
    unit: str = ""
    items: str = ""


MEASURES: dict[str, tuple[Measure, ...]] = {
    # by subject; a tender create has no totals, so its packages are added up
    "order": (
        Measure("packages", Scale.COUNT, "total_packages"),
        Measure("weight", Scale.WEIGHT, "total_weight", "gross_weight_uom"),
        Measure("volume", Scale.WEIGHT, "total_volume", "volume_uom"),
        Measure("goods value", Scale.MONEY, "goods_value", "currency"),
    ),
    "tender": (
        Measure("packages", Scale.COUNT, "quantity", items="packages"),
        Measure("weight", Scale.WEIGHT, "weight", "weight_uom", "packages"),
        Measure("volume", Scale.WEIGHT, "volume", "volume_uom", "packages"),
    ),
}

_SCALES = {
    **dict.fromkeys(("weight", "volume", "total_weight", "chargeable_weight", "total_volume"), Scale.WEIGHT),
    **dict.fromkeys(("goods_value", "freight_cost", "service_price", "tenderRate"), Scale.MONEY),
}
_UNITS = {
    **{measure.field: measure.unit for measure in MEASURES["order"]},
    **{name: "currency" for name, scale in _SCALES.items() if scale is Scale.MONEY},
}


def measures_of(operation: Operation) -> tuple[Measure, ...]:
    """The figures in records of this operation: those of its subject for creates and updates, none for others."""
    return MEASURES[operation.subject] if operation.action in (Action.CREATE, Action.UPDATE) else ()


@contextmanager
def exact_sums() -> Iterator[None]:
    """Within this context, sums and differences of figures keep all digits. Python's default of 28 would round them and fail for
    longer figures. Also works as a decorator.
    """
    with localcontext(prec=_DIGITS):
        yield


def fields_of(measures: tuple[Measure, ...]) -> tuple[str, ...]:
    """The fields of a record that hold these figures and their units."""
    names = ([item.items] if item.items else [item.field, item.unit] for item in measures)
    return tuple(dict.fromkeys(name for pair in names for name in pair if name))


def figures_only(measures: tuple[Measure, ...], record: dict[str, Any]) -> dict[str, Any]:
    """The part of a decoded record that its `amounts` need."""
    kept: dict[str, Any] = {}
    for _, _, field, unit, items in measures:
        names = (field, unit)
        if not items:
            kept |= {name: record[name] for name in names if name in record}
            continue
        holders = record.get(items)
        if isinstance(holders, list | tuple):
            kept.setdefault(items, [{} for _ in holders])
            for known, holder in zip(kept[items], holders, strict=True):
                if isinstance(holder, dict):
                    known |= {name: holder[name] for name in names if name in holder}
    return kept


def units_in(measures: tuple[Measure, ...], record: dict[str, Any]) -> dict[str, str]:
    """The units and currencies that a decoded record names for its own figures, by field."""
    own = (measure.unit for measure in measures if not measure.items)
    return {unit: str(record[unit]) for unit in own if record.get(unit)}


def units_lacking(measures: tuple[Measure, ...], record: dict[str, Any]) -> tuple[str, ...]:
    """The fields of units and currencies that are missing beside a decoded record's own figures."""
    own = (measure for measure in measures if measure.unit and not measure.items)
    figures = (measure for measure in own if _number(record.get(measure.field)) is not None)
    return tuple(measure.unit for measure in figures if not record.get(measure.unit))


def amounts(measures: tuple[Measure, ...], record: dict[str, Any]) -> Iterator[tuple[Measure, str, Decimal]]:
    """Each figure of a decoded record with its unit (empty: none given). Figures that are missing or not numbers are left out."""
    for measure in measures:
        _, _, field, unit, items = measure
        if not items:
            figure = _number(record.get(field))
            if figure is not None:
                yield measure, str(record.get(unit) or "") if unit else "", figure
            continue
        holders = record.get(items)
        for holder in holders if isinstance(holders, list | tuple) else ():
            figure = _number(holder.get(field)) if isinstance(holder, dict) else None
            if figure is not None:
                yield measure, str(holder.get(unit) or "") if unit else "", figure


def unit_field(name: str) -> str:
    """The field for the unit or currency of this field, which not every record has."""
    return _UNITS.get(name, f"{name}_uom")


def scale_of(path: str) -> Scale | None:
    """The scale of the number at a payload path, such as weight for `packages[0].weight`; None: no tolerance."""
    return _SCALES.get(path.rpartition(".")[2])


def _number(value: object) -> Decimal | None:
    if isinstance(value, Decimal):
        return value if is_calculable(value) else None  # a listing may hold 1E+999999999
    if type(value) is int:
        return Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if is_calculable(number) else None


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


class StatusReport(NamedTuple):
    """One point of a journey; `history` holds the earlier points in the same report."""

    code: str
    name: str
    when: str
    place: str
    text: str
    history: "tuple[StatusReport, ...]" = ()


class QuoteSummary(NamedTuple):
    """A quote, or the decision on one: `accepted` is None for the quote itself."""

    carrier: str
    rate: str
    currency: str
    when: str
    accepted: bool | None


class DisplayedField(NamedTuple):
    """A field with its displayed value: a text, or the fields of each inner record."""

    name: str
    meaning: str
    text: str
    inner: "tuple[tuple[DisplayedField, ...], ...]" = ()


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


def status_report(event: Mapping[str, Any]) -> StatusReport:
    """The summary of a status record, with its history."""
    history = event.get("statusHistory")
    items = history if isinstance(history, list) else []
    return StatusReport(
        code=_text(event.get("status_code")),
        name=_text(event.get("status_name")),
        when=_text(event.get("status_datetime")).replace("T", " "),
        place=_text(event.get("status_location") or event.get("current_location")),
        text=_text(event.get("status_description")),
        history=tuple(_earlier_report(item) for item in items if isinstance(item, Mapping)),
    )


def quote_summary(content: Mapping[str, Any]) -> QuoteSummary:
    """The summary of a quote or a quote confirmation."""
    return QuoteSummary(
        carrier=_text(content.get("carrier_id")),
        rate=_text(content.get("tenderRate")),
        currency=_text(content.get("currency")),
        when=_text(content.get("response_datetime")).replace("T", " ").replace("Z", " UTC"),
        accepted=is_acceptance(content) if "status" in content else None,
    )


def fields_shown(record: Record, content: Mapping[str, Any]) -> tuple[DisplayedField, ...]:
    """Every field with a value, in the order of the interface, with inner records; a unit is appended to its number."""
    fields: list[DisplayedField] = []
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


def _shown(field: Field, name: str, value: Any) -> DisplayedField:
    if field.record is None:
        return DisplayedField(name, field.meaning, _text(value))
    values = value if field.kind is FieldKind.ARRAY else [value]
    inner = tuple(fields_shown(field.record, item) for item in values if isinstance(item, Mapping))
    return DisplayedField(name, field.meaning, "", inner)


def _stop(prefix: str, content: Mapping[str, Any]) -> Stop:
    def of(name: str) -> str:
        return _text(content.get(f"{prefix}_{name}"))

    street = ", ".join(line for line in (of("address1"), of("address2")) if line)
    return Stop(of("company"), of("city"), of("country"), of("pincode"), street, of("startdatetime"), of("enddatetime"))


def _earlier_report(item: Mapping[str, Any]) -> StatusReport:
    location = item.get("location")
    place = location.get("city") if isinstance(location, Mapping) else ""
    return StatusReport(
        code=_text(item.get("statusCode")),
        name=_text(item.get("statusName")),
        when=f"{_text(item.get('statusDate'))} {_text(item.get('statusTime'))}".strip(),
        place=_text(place),
        text=_text(item.get("status_description") or item.get("status-description")),
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    return plain_digits(value) if isinstance(value, Decimal) else str(value)

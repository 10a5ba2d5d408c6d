"""Every record of the interface with every field: name, kind, when it is required, known values and meaning.

Owns: the spelling of the interface's field names (interface: Resources and their fields). They are not repeated elsewhere in the
source. Records and fields have the order of the interface.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache, partial
from typing import Any

import msgspec

from loadsheet.contract.kinds import FieldKind, NumberForm

decode_value = msgspec.json.Decoder(float_hook=Decimal).decode
decode_record = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode
encode_record = msgspec.json.Encoder(decimal_format="number").encode
encode_sorted = msgspec.json.Encoder(decimal_format="number", order="deterministic").encode
"""Records and other JSON values, and their bytes: numbers stay exact."""


def values_by_path(payload: bytes) -> Iterator[tuple[str, Any]]:
    """The values of a payload, each with its path (`packages[0].weight`), empty lists and objects too; none for an empty payload."""
    yield from _leaves(decode_value(payload), "") if payload else ()


def scalars_by_path(payload: bytes) -> Iterator[tuple[str, Any]]:
    """The same without the empty lists and objects."""
    return ((path, value) for path, value in values_by_path(payload) if not isinstance(value, (dict, list)))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


class When(StrEnum):
    """When a field is required."""

    ALWAYS = "always"
    ON_CREATE = "on create"
    OPTIONAL = "optional"
    LISTED = "listing only"  # the interface shows it in listing answers only


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a record: its exact name, its meaning as help text, when it is required, and its kind.

    `known` are the values that the interface names. The list is open, unless the assumption `closed_by` closes it. `spellings` are
    alternative names of the same field in the interface. `note` states a contradiction in the interface, and our decision.
    """

    name: str
    meaning: str
    when: When = When.OPTIONAL
    kind: FieldKind = FieldKind.STRING
    record: "Record | None" = None
    known: tuple[str, ...] = ()
    closed_by: str = "known_values"
    spellings: tuple[str, ...] = ()
    note: str = ""

    @property
    def description(self) -> str:
        """Meaning and note."""
        return ". ".join(text.rstrip(".") for text in (self.meaning, self.note) if text)

    def is_required(self, *, creates: bool) -> bool:
        """Whether the field is required, in an operation that creates its record or in another."""
        return self.when is When.ALWAYS or (creates and self.when is When.ON_CREATE)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A named tuple of fields, with the form of its numbers on the wire. `key` names the identifying fields."""

    name: str
    fields: tuple[Field, ...]
    numbers: NumberForm
    key: tuple[str, ...] = ()

    def field(self, name: str) -> Field | None:
        """The field with this name or alternative spelling, or None."""
        return _by_name(self).get(name)

    def walk(self, path: str = "") -> Iterator[tuple[str, Field]]:
        """Every field with its path pattern, nested ones included: `packages[].weight`, `estimatedPickup.startDate`."""
        for field in self.fields:
            here = f"{path}.{field.name}" if path else field.name
            yield here, field
            if field.record is not None:
                yield from field.record.walk(f"{here}[]" if field.kind is FieldKind.ARRAY else here)


@cache
def _by_name(record: Record) -> dict[str, Field]:
    return {name: field for field in record.fields for name in (field.name, *field.spellings)}


PACKAGE_KINDS = ("Bag", "Box", "Carton/Piece", "Crate", "Drum", "Pallet/Skid", "Roll", "Tube")
TRANSPORT_MODES = ("ROAD", "AIR", "SEA", "RAIL")
WEIGHT_UNITS = ("KG", "Ton")
CHARGEABLE_WEIGHT_UNITS = ("G", "KG", "Ton")
VOLUME_UNITS = ("CBM",)
DECISION_WORDS = ("accept", "reject")


_ident = partial(Field, kind=FieldKind.STRING_OR_NUMERIC)
_number = partial(Field, kind=FieldKind.NUMERIC)
_flag = partial(Field, kind=FieldKind.FLAG)


def _array(name: str, meaning: str, record: Record) -> Field:
    return Field(name, meaning, kind=FieldKind.ARRAY, record=record)


def _parties() -> tuple[Field, ...]:
    return (
        _ident("sender_id", "Sender identification", When.ALWAYS),
        _ident("receiver_id", "Receiver identification", When.ALWAYS),
    )


def _stop(prefix: str, when: When) -> tuple[Field, ...]:
    """Window and location of the pickup or the delivery: nine fields with this prefix."""
    return (
        Field(f"{prefix}_startdatetime", f"Early {prefix}", when, kind=FieldKind.DATETIME),
        Field(f"{prefix}_enddatetime", f"Late {prefix}", when, kind=FieldKind.DATETIME),
        Field(f"{prefix}_company", f"{prefix.capitalize()} company", when),
        Field(f"{prefix}_country", f"{prefix.capitalize()} country", when),
        Field(f"{prefix}_city", f"{prefix.capitalize()} city", when),
        Field(f"{prefix}_province", f"{prefix.capitalize()} province", when),
        _ident(f"{prefix}_pincode", f"{prefix.capitalize()} postal code", when),
        Field(f"{prefix}_address1", f"{prefix.capitalize()} address, first line", when),
        Field(f"{prefix}_address2", f"{prefix.capitalize()} address, second line", when),
    )


def _sizes() -> tuple[Field, ...]:
    return tuple(
        field
        for side in ("length", "width", "height")
        for field in (_number(side, side.capitalize()), Field(f"{side}_uom", f"Unit of the {side}"))
    )


_POSTCODE = "pincode"
RATE_FIELD = "tenderRate"
_ENDS = ("_startdatetime", "_enddatetime")
FIRST_PICKUP, LAST_DELIVERY = "pickup_startdatetime", "delivery_enddatetime"
"""The fields between which a shipment is on its way."""


def country_field(postcode: str) -> str:
    """The field with the country of the address whose postal code this field holds; empty if it holds none."""
    return f"{postcode.removesuffix(_POSTCODE)}country" if postcode.endswith(_POSTCODE) else ""


def other_end(name: str) -> str:
    """The field with the other end of the window of which this field has one; empty if it has none."""
    pairs = zip(_ENDS, reversed(_ENDS), strict=True)
    return next((name.removesuffix(own) + other for own, other in pairs if name.endswith(own)), "")


def _address() -> tuple[Field, ...]:
    return (
        Field("email", "Mail address"),
        Field("contact_number", "Telephone number"),
        Field("country", "Country"),
        Field("city", "City"),
        Field("province", "Province"),
        Field("address_area1", "Address, first line"),
        Field("address_area2", "Address, second line"),
    )


def _package(name: str, numbers: NumberForm, *more: Field) -> Record:
    stackable_note = "The tender package summary says Numeric; description and samples use a string flag, and so do we."
    return Record(
        name,
        (
            Field("package_type", "Kind of package", When.ALWAYS, known=PACKAGE_KINDS),
            Field("item_name", "Item name", When.ALWAYS),
            Field("description", "Description"),
            _number("quantity", "Quantity (the interface names it for tender packages)"),
            _number("weight", "Weight"),
            Field("weight_uom", "Unit of the weight", known=WEIGHT_UNITS),
            _number("volume", "Volume"),
            Field("volume_uom", "Unit of the volume", known=VOLUME_UNITS),
            *_sizes(),
            _flag("stackable", "Whether it may be stacked", note=stackable_note),
            _flag("hazardous", "Whether it is hazardous"),
            *more,
        ),
        numbers,
    )


INNER_CARGO = Record(
    "InnerCargo",
    (
        Field("cargo_type", "Type of cargo"),
        Field("item_name", "Item name"),
        Field("goods_description", "Description of the goods"),
        _number("quantity", "Quantity"),
        _number("scanned_quantity", "Quantity scanned"),
        _number("weight", "Weight"),
        Field("weight_uom", "Unit of the weight", known=WEIGHT_UNITS),
        _number("volume", "Volume"),
        Field("volume_uom", "Unit of the volume", known=VOLUME_UNITS),
        *_sizes(),
        _flag("stackable", "Whether it may be stacked"),
    ),
    NumberForm.JSON_NUMBER,
)

TENDER_PACKAGE = _package("Tender package", NumberForm.JSON_STRING)
ORDER_PACKAGE = _package(
    "Order package",
    NumberForm.JSON_NUMBER,
    _flag("allow_mixed_freight", "Whether mixed freight is allowed"),
    _array("inner_cargos", "Contents; may be an empty array", INNER_CARGO),
)

REFERENCE = Record(
    "Reference", (Field("name", "Reference name"), Field("value", "Reference value")), NumberForm.JSON_STRING
)

CARRIER = Record(
    "Carrier",
    (
        Field("carrier_company", "Company of the carrier"),
        *_address(),
        _ident(
            "pincode",
            "Postal code",
            note="Numeric in the summary, a string in samples: both are accepted, we send a string.",
        ),
    ),
    NumberForm.JSON_STRING,
)

INVOLVED_PARTY = Record(
    "Involved party",
    (
        Field("party_type", "Role of the party", known=("Shipper", "Consignee", "Freight Payer", "Carrier")),
        Field("party_name", "Name of the contact"),
        Field("party_company", "Company"),
        *_address(),
        _ident("pincode", "Postal code"),
    ),
    NumberForm.JSON_NUMBER,
)

TENDER = Record(
    "Tender",
    (
        _ident("tender_id", "Customer tender reference number", When.ALWAYS),
        *_parties(),
        _ident("customer_id", "Customer identification"),
        Field("timezone", "Country time zone, zone-name form", kind=FieldKind.TIMEZONE),
        Field("timeoffset", "Time zone offset in hours", kind=FieldKind.OFFSET_HOURS),
        _ident("order_id", "Customer order reference"),
        Field("tender_type", "Type of tender"),
        Field("tender_status", "Status of tender", When.ALWAYS),
        *_stop("pickup", When.OPTIONAL),
        *_stop("delivery", When.OPTIONAL),
        Field("currency", "Currency code"),
        Field("transport_mode", "Mode of transport", known=TRANSPORT_MODES),
        Field("vehicle_type", "Expected or required vehicle type"),
        Field("createdon", "Transaction datetime", kind=FieldKind.DATETIME),
        _flag("dedicated_vehicle", "Whether a dedicated vehicle is required"),
        Field("order_status", "Current order status", known=("OPEN", "ACTIVE")),
        _array("packages", "Packages", TENDER_PACKAGE),
        _array("tender_references", "References", REFERENCE),
        _array("involved_carriers", "Carriers the tender is offered to", CARRIER),
        *(
            Field(name, meaning, When.LISTED)
            for name, meaning in (
                ("dangerousGoods", "Whether there are dangerous goods"),
                ("temperatureRequirements", "Temperature requirements"),
                ("priceNegotiable", "Whether the price is negotiable"),
                ("datesNegotiable", "Whether the dates are negotiable"),
                ("package_count", "Number of packages"),
                ("total_weight", "Total weight"),
                ("gross_weight_uom", "Unit of the total weight"),
                ("total_volume", "Total volume"),
                ("volume_uom", "Unit of the total volume"),
                ("goods_value", "Goods cost"),
                ("freight_cost", "Freight cost"),
                ("tender_expiration", "When the tender expires"),
                ("tender_instructions", "Instructions"),
            )
        ),
    ),
    NumberForm.JSON_STRING,
    key=("tender_id",),
)

ORDER = Record(
    "Order",
    (
        _ident("order_id", "Customer order reference", When.ALWAYS),
        *_parties(),
        Field("timezone", "Time zone, zone-name form", When.ON_CREATE, kind=FieldKind.TIMEZONE),
        Field("timeoffset", "Offset in hours", When.ON_CREATE, kind=FieldKind.OFFSET_HOURS),
        *_stop("pickup", When.ON_CREATE),
        *_stop("delivery", When.ON_CREATE),
        _number("total_packages", "Number of packages", When.ON_CREATE),
        _number("total_weight", "Total weight", When.ON_CREATE),
        Field("gross_weight_uom", "Unit of the total weight", When.ON_CREATE, known=WEIGHT_UNITS),
        _number("chargeable_weight", "Chargeable weight", When.ON_CREATE),
        Field("chargeable_weight_uom", "Unit of the chargeable weight", When.ON_CREATE, known=CHARGEABLE_WEIGHT_UNITS),
        _number("total_volume", "Total volume", When.ON_CREATE),
        Field("volume_uom", "Unit of the total volume", When.ON_CREATE, known=VOLUME_UNITS),
        _number("goods_value", "Goods cost", When.ON_CREATE),
        Field("currency", "Currency code", When.ON_CREATE),
        Field("transport_mode", "Mode of transport", When.ON_CREATE, known=TRANSPORT_MODES),
        _flag("dedicated_vehicle", "Whether a dedicated vehicle is required"),
        Field("vehicle_type", "Vehicle type"),
        Field("order_status", "Current status"),
        Field("createdon", "Transaction datetime", kind=FieldKind.DATETIME),
        _array("packages", "Packages", ORDER_PACKAGE),
        _array("order_references", "References", REFERENCE),
        _array("involved_parties", "Parties", INVOLVED_PARTY),
    ),
    NumberForm.JSON_NUMBER,
    key=("order_id",),
)

ADDITIONAL_SERVICE = Record(
    "Additional service",
    (Field("service_name", "Name of the service"), _ident("service_price", "Price of the service")),
    NumberForm.JSON_STRING,
)


def _quote(name: str, *more: Field) -> Record:
    return Record(
        name,
        (
            _ident("tender_id", "Tender reference", When.ALWAYS),
            *_parties(),
            Field("timezone", "Time zone, for example a GMT-offset form"),
            Field("timeoffset", "Offset in minutes", kind=FieldKind.OFFSET_MINUTES),
            _ident(RATE_FIELD, "Quoted rate", When.ALWAYS),
            Field("currency", "Currency code"),
            Field("response_datetime", "Response datetime", kind=FieldKind.DATETIME_ISO),
            _ident("carrier_id", "Carrier identification", When.ALWAYS),
            *more,
        ),
        NumberForm.JSON_STRING,
        key=("tender_id", "carrier_id"),
    )


QUOTE = _quote("Carrier quote", _array("additional_services", "Additional services", ADDITIONAL_SERVICE))
CONFIRMATION = _quote(
    "Quote confirmation", Field("status", "The decision", When.ALWAYS, known=DECISION_WORDS, closed_by="decision_words")
)

_WINDOW = Record(
    "Estimated window",
    (
        Field("startDate", "Date of the early end", kind=FieldKind.DATE),
        Field("startTime", "Time of the early end", kind=FieldKind.TIME),
        Field("endDate", "Date of the late end", kind=FieldKind.DATE),
        Field("endTime", "Time of the late end", kind=FieldKind.TIME),
    ),
    NumberForm.JSON_STRING,
)
_LOCATION = Record(
    "Location",
    (
        Field("line", "Address line"),
        Field("city", "City"),
        Field("state", "State"),
        Field("postalCode", "Postal code"),
        Field("country", "Country"),
        Field("latitude", "Latitude"),
        Field("longitude", "Longitude"),
    ),
    NumberForm.JSON_STRING,
)
STATUS_HISTORY = Record(
    "Status history item",
    (
        Field("statusCode", "Status code"),
        Field("statusName", "Status name"),
        Field("statusDate", "Date of the status"),
        Field("statusTime", "Time of the status"),
        _number("quantity", "Quantity"),
        Field("packageType", "Kind of package"),
        Field("packageDescription", "Description of the package"),
        Field("location", "Where it happened", record=_LOCATION, kind=FieldKind.OBJECT),
        Field(
            "status_description",
            "Description",
            spellings=("status-description",),
            note="The parameter table spells it with a hyphen, the sample with an underscore: both are accepted.",
        ),
    ),
    NumberForm.JSON_STRING,
)

ORDER_STATUS = Record(
    "Order status update",
    (
        _ident("order_id", "Customer order reference", When.ALWAYS),
        Field("order_type", "Type of order"),
        Field("origin", "Origin of the order"),
        Field("destination", "Destination of the order"),
        Field("status_code", "Current status code"),
        Field("status_name", "Status name"),
        Field("status_location", "Location of the status"),
        Field("status_datetime", "Datetime of the status", kind=FieldKind.DATETIME_T),
        Field("status_description", "Description"),
        Field("current_location", "Current location"),
        Field("current_location_datetime", "Datetime of the location update", kind=FieldKind.DATETIME_T),
        Field("latitude", "Current latitude"),
        Field("longitude", "Current longitude"),
        Field("pickupDate", "Pickup date", kind=FieldKind.DATE),
        Field("deliveryDate", "Delivery date", kind=FieldKind.DATE),
        Field("pickupTime", "Pickup time", kind=FieldKind.TIME),
        Field("deliveryTime", "Delivery time", kind=FieldKind.TIME),
        Field("estimatedPickup", "Estimated pickup window", record=_WINDOW, kind=FieldKind.OBJECT),
        Field("estimatedDelivery", "Estimated delivery window", record=_WINDOW, kind=FieldKind.OBJECT),
        _number("totalWeight", "Total weight"),
        _number("totalQuantity", "Total quantity"),
        _number("totalPackages", "Total number of packages"),
        _array("statusHistory", "Status history", STATUS_HISTORY),
    ),
    NumberForm.JSON_STRING,
    key=("order_id",),
)

TENDER_DELETE = Record(
    "Tender delete",
    (_ident("tender_id", "Tender reference", When.ALWAYS), _ident("order_id", "Customer order reference")),
    NumberForm.JSON_STRING,
    key=("tender_id",),
)
ORDER_DELETE = Record(
    "Order delete",
    (_ident("order_id", "Customer order reference", When.ALWAYS),),
    NumberForm.JSON_STRING,
    key=("order_id",),
)

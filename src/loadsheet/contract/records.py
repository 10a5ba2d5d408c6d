"""Every record of the interface with every field: name, kind, when it is required, known values and meaning.

Owns: the spelling of the interface's field names (interface: Resources and their fields). They are not repeated elsewhere in the
source. Records and fields have the order of the interface.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from loadsheet.contract.kinds import Kind, NumberForm


class When(StrEnum):
    """When a field is required."""

    ALWAYS = "always"
    ON_CREATE = "on create"
    OPTIONAL = "optional"
    LISTED = "listing only"  # the interface shows it in listing answers only


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a record: its exact name, its kind, its meaning as help text, and when it is required.

    `known` are the values that the interface names. The list is open, unless the assumption `closed_by` closes it. `spellings` are
    alternative names of the same field in the interface. `note` states a contradiction in the interface, and our decision.
    """

    name: str
    kind: Kind
    meaning: str
    when: When = When.OPTIONAL
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
        return next((field for field in self.fields if name == field.name or name in field.spellings), None)

    def walk(self, path: str = "") -> Iterator[tuple[str, Field]]:
        """Every field with its path pattern, nested ones included: `packages[].weight`, `estimatedPickup.startDate`."""
        for field in self.fields:
            here = f"{path}.{field.name}" if path else field.name
            yield here, field
            if field.record is not None:
                yield from field.record.walk(f"{here}[]" if field.kind is Kind.ARRAY else here)


PACKAGE_KINDS = ("Bag", "Box", "Carton/Piece", "Crate", "Drum", "Pallet/Skid", "Roll", "Tube")
TRANSPORT_MODES = ("ROAD", "AIR", "SEA", "RAIL")
WEIGHT_UNITS = ("KG", "Ton")
CHARGEABLE_WEIGHT_UNITS = ("G", "KG", "Ton")
VOLUME_UNITS = ("CBM",)
DECISIONS = ("accept", "reject")


def _text(name: str, meaning: str, when: When = When.OPTIONAL, **more: Any) -> Field:
    return Field(name, Kind.STRING, meaning, when, **more)


def _ident(name: str, meaning: str, when: When = When.OPTIONAL, **more: Any) -> Field:
    return Field(name, Kind.STRING_OR_NUMERIC, meaning, when, **more)


def _number(name: str, meaning: str, when: When = When.OPTIONAL, **more: Any) -> Field:
    return Field(name, Kind.NUMERIC, meaning, when, **more)


def _flag(name: str, meaning: str, **more: Any) -> Field:
    return Field(name, Kind.FLAG, meaning, **more)


def _array(name: str, meaning: str, record: Record) -> Field:
    return Field(name, Kind.ARRAY, meaning, record=record)


def _parties() -> tuple[Field, ...]:
    return (
        _ident("sender_id", "Sender identification", When.ALWAYS),
        _ident("receiver_id", "Receiver identification", When.ALWAYS),
    )


def _stop(prefix: str, when: When) -> tuple[Field, ...]:
    """Window and location of the pickup or the delivery: nine fields with this prefix."""
    return (
        Field(f"{prefix}_startdatetime", Kind.DATETIME, f"Early {prefix}", when),
        Field(f"{prefix}_enddatetime", Kind.DATETIME, f"Late {prefix}", when),
        _text(f"{prefix}_company", f"{prefix.capitalize()} company", when),
        _text(f"{prefix}_country", f"{prefix.capitalize()} country", when),
        _text(f"{prefix}_city", f"{prefix.capitalize()} city", when),
        _text(f"{prefix}_province", f"{prefix.capitalize()} province", when),
        _ident(f"{prefix}_pincode", f"{prefix.capitalize()} postal code", when),
        _text(f"{prefix}_address1", f"{prefix.capitalize()} address, first line", when),
        _text(f"{prefix}_address2", f"{prefix.capitalize()} address, second line", when),
    )


def _sizes() -> tuple[Field, ...]:
    return tuple(
        field
        for side in ("length", "width", "height")
        for field in (_number(side, side.capitalize()), _text(f"{side}_uom", f"Unit of the {side}"))
    )


_POSTCODE = "pincode"


def country_field(postcode: str) -> str:
    """The field with the country of the address whose postal code this field holds; empty if it holds none."""
    return f"{postcode.removesuffix(_POSTCODE)}country" if postcode.endswith(_POSTCODE) else ""


def _address() -> tuple[Field, ...]:
    return (
        _text("email", "Mail address"),
        _text("contact_number", "Telephone number"),
        _text("country", "Country"),
        _text("city", "City"),
        _text("province", "Province"),
        _text("address_area1", "Address, first line"),
        _text("address_area2", "Address, second line"),
    )


def _package(name: str, numbers: NumberForm, *more: Field) -> Record:
    stackable_note = "The tender package summary says Numeric; description and samples use a string flag, and so do we."
    return Record(
        name,
        (
            _text("package_type", "Kind of package", When.ALWAYS, known=PACKAGE_KINDS),
            _text("item_name", "Item name", When.ALWAYS),
            _text("description", "Description"),
            _number("quantity", "Quantity (the interface names it for tender packages)"),
            _number("weight", "Weight"),
            _text("weight_uom", "Unit of the weight", known=WEIGHT_UNITS),
            _number("volume", "Volume"),
            _text("volume_uom", "Unit of the volume", known=VOLUME_UNITS),
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
        _text("cargo_type", "Type of cargo"),
        _text("item_name", "Item name"),
        _text("goods_description", "Description of the goods"),
        _number("quantity", "Quantity"),
        _number("scanned_quantity", "Quantity scanned"),
        _number("weight", "Weight"),
        _text("weight_uom", "Unit of the weight", known=WEIGHT_UNITS),
        _number("volume", "Volume"),
        _text("volume_uom", "Unit of the volume", known=VOLUME_UNITS),
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
    "Reference", (_text("name", "Reference name"), _text("value", "Reference value")), NumberForm.JSON_STRING
)

CARRIER = Record(
    "Carrier",
    (
        _text("carrier_company", "Company of the carrier"),
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
        _text("party_type", "Role of the party", known=("Shipper", "Consignee", "Freight Payer", "Carrier")),
        _text("party_name", "Name of the contact"),
        _text("party_company", "Company"),
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
        Field("timezone", Kind.TIMEZONE, "Country time zone, zone-name form"),
        Field("timeoffset", Kind.OFFSET_HOURS, "Time zone offset in hours"),
        _ident("order_id", "Customer order reference"),
        _text("tender_type", "Type of tender"),
        _text("tender_status", "Status of tender", When.ALWAYS),
        *_stop("pickup", When.OPTIONAL),
        *_stop("delivery", When.OPTIONAL),
        _text("currency", "Currency code"),
        _text("transport_mode", "Mode of transport", known=TRANSPORT_MODES),
        _text("vehicle_type", "Expected or required vehicle type"),
        Field("createdon", Kind.DATETIME, "Transaction datetime"),
        _flag("dedicated_vehicle", "Whether a dedicated vehicle is required"),
        _text("order_status", "Current order status", known=("OPEN", "ACTIVE")),
        _array("packages", "Packages", TENDER_PACKAGE),
        _array("tender_references", "References", REFERENCE),
        _array("involved_carriers", "Carriers the tender is offered to", CARRIER),
        *(
            _text(name, meaning, When.LISTED)
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
        Field("timezone", Kind.TIMEZONE, "Time zone, zone-name form", When.ON_CREATE),
        Field("timeoffset", Kind.OFFSET_HOURS, "Offset in hours", When.ON_CREATE),
        *_stop("pickup", When.ON_CREATE),
        *_stop("delivery", When.ON_CREATE),
        _number("total_packages", "Number of packages", When.ON_CREATE),
        _number("total_weight", "Total weight", When.ON_CREATE),
        _text("gross_weight_uom", "Unit of the total weight", When.ON_CREATE, known=WEIGHT_UNITS),
        _number("chargeable_weight", "Chargeable weight", When.ON_CREATE),
        _text("chargeable_weight_uom", "Unit of the chargeable weight", When.ON_CREATE, known=CHARGEABLE_WEIGHT_UNITS),
        _number("total_volume", "Total volume", When.ON_CREATE),
        _text("volume_uom", "Unit of the total volume", When.ON_CREATE, known=VOLUME_UNITS),
        _number("goods_value", "Goods cost", When.ON_CREATE),
        _text("currency", "Currency code", When.ON_CREATE),
        _text("transport_mode", "Mode of transport", When.ON_CREATE, known=TRANSPORT_MODES),
        _flag("dedicated_vehicle", "Whether a dedicated vehicle is required"),
        _text("vehicle_type", "Vehicle type"),
        _text("order_status", "Current status"),
        Field("createdon", Kind.DATETIME, "Transaction datetime"),
        _array("packages", "Packages", ORDER_PACKAGE),
        _array("order_references", "References", REFERENCE),
        _array("involved_parties", "Parties", INVOLVED_PARTY),
    ),
    NumberForm.JSON_NUMBER,
    key=("order_id",),
)

ADDITIONAL_SERVICE = Record(
    "Additional service",
    (_text("service_name", "Name of the service"), _ident("service_price", "Price of the service")),
    NumberForm.JSON_STRING,
)


def _quote(name: str, *more: Field) -> Record:
    return Record(
        name,
        (
            _ident("tender_id", "Tender reference", When.ALWAYS),
            *_parties(),
            _text("timezone", "Time zone, for example a GMT-offset form"),
            Field("timeoffset", Kind.OFFSET_MINUTES, "Offset in minutes"),
            _ident("tenderRate", "Quoted rate", When.ALWAYS),
            _text("currency", "Currency code"),
            Field("response_datetime", Kind.DATETIME_ISO, "Response datetime"),
            _ident("carrier_id", "Carrier identification", When.ALWAYS),
            *more,
        ),
        NumberForm.JSON_STRING,
        key=("tender_id", "carrier_id"),
    )


QUOTE = _quote("Carrier quote", _array("additional_services", "Additional services", ADDITIONAL_SERVICE))
CONFIRMATION = _quote(
    "Quote confirmation", _text("status", "The decision", When.ALWAYS, known=DECISIONS, closed_by="decision_words")
)

_WINDOW = Record(
    "Estimated window",
    (
        Field("startDate", Kind.DATE, "Date of the early end"),
        Field("startTime", Kind.TIME, "Time of the early end"),
        Field("endDate", Kind.DATE, "Date of the late end"),
        Field("endTime", Kind.TIME, "Time of the late end"),
    ),
    NumberForm.JSON_STRING,
)
_LOCATION = Record(
    "Location",
    (
        _text("line", "Address line"),
        _text("city", "City"),
        _text("state", "State"),
        _text("postalCode", "Postal code"),
        _text("country", "Country"),
        _text("latitude", "Latitude"),
        _text("longitude", "Longitude"),
    ),
    NumberForm.JSON_STRING,
)
STATUS_HISTORY = Record(
    "Status history item",
    (
        _text("statusCode", "Status code"),
        _text("statusName", "Status name"),
        _text("statusDate", "Date of the status"),
        _text("statusTime", "Time of the status"),
        _number("quantity", "Quantity"),
        _text("packageType", "Kind of package"),
        _text("packageDescription", "Description of the package"),
        Field("location", Kind.OBJECT, "Where it happened", record=_LOCATION),
        _text(
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
        _text("order_type", "Type of order"),
        _text("origin", "Origin of the order"),
        _text("destination", "Destination of the order"),
        _text("status_code", "Current status code"),
        _text("status_name", "Status name"),
        _text("status_location", "Location of the status"),
        Field("status_datetime", Kind.DATETIME_T, "Datetime of the status"),
        _text("status_description", "Description"),
        _text("current_location", "Current location"),
        Field("current_location_datetime", Kind.DATETIME_T, "Datetime of the location update"),
        _text("latitude", "Current latitude"),
        _text("longitude", "Current longitude"),
        Field("pickupDate", Kind.DATE, "Pickup date"),
        Field("deliveryDate", Kind.DATE, "Delivery date"),
        Field("pickupTime", Kind.TIME, "Pickup time"),
        Field("deliveryTime", Kind.TIME, "Delivery time"),
        Field("estimatedPickup", Kind.OBJECT, "Estimated pickup window", record=_WINDOW),
        Field("estimatedDelivery", Kind.OBJECT, "Estimated delivery window", record=_WINDOW),
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

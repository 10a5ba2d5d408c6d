"""What the second translations share: what has to come of a drop, the records that they write, and the files that they read."""

import csv
import io
from dataclasses import dataclass, field
from datetime import UTC
from decimal import ROUND_HALF_UP, Decimal

import openpyxl
from cells import FaultError


@dataclass
class Expected:
    """What has to come of a drop. A place is (file, sheet, row)."""

    sent: list = field(default_factory=list)  # (operation, key, payload)
    wrong: list = field(
        default_factory=list
    )  # for each record that may not go: (all its places, [the places of each fault])
    ignored: set = field(default_factory=set)


@dataclass
class Record:
    """One record on its way: its places, and what is wrong with it."""

    places: set = field(default_factory=set)
    faults: list = field(default_factory=list)

    def read(self, place, reader, *cell, **options):
        """What a reader makes of a cell; None where it refuses, which is noted."""
        self.places.add(place)
        try:
            return reader(*cell, **options)
        except FaultError:
            self.faults.append({place})
            return None

    def demand(self, holds, places):
        """Note a fault of these places unless it holds."""
        if not holds:
            self.faults.append(set(places))

    def end(self, expected, operation, key, payload):
        """Put it where it belongs; `payload` makes the record, and is asked only where nothing is wrong."""
        if self.faults:
            expected.wrong.append((self.places, self.faults))
        else:
            expected.sent.append((operation, key, payload()))


# ---- what is written ----


def at(when):
    return when.strftime("%Y-%m-%d %H:%M:%S")


def hours(when):
    """The offset from UTC in hours, as short as it can be."""
    return f"{Decimal(int(when.utcoffset().total_seconds())) / 3600:f}".removesuffix(".0") if when.utcoffset() else "0"


def later(when, delta):
    """So many hours of real time later, on the clock of the zone."""
    return (when.astimezone(UTC) + delta).astimezone(when.tzinfo)


def rounded(value, places):
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def filled(record):
    """The fields that hold something, in lists and objects as well."""
    return {key: value for key, value in record.items() if value is not None}


def digits(value):
    """A number as a text without needless zeros; None stays None."""
    if value is None or not value % 1:
        return None if value is None else f"{int(value)}"
    return f"{value:f}".rstrip("0").rstrip(".")


def order(key, sender, zone, *, pickup, deliver, depot, to, totals, **more):
    """The record of a new order. `pickup` and `deliver` are (start, end), `depot` and `to` are (company, country, city, province, postal
    code, street), `totals` are (packages, weight, chargeable weight, volume); `more` are other fields.
    """
    found = {
        "order_id": key,
        "sender_id": sender,
        "receiver_id": "C1",
        "timezone": zone,
        "timeoffset": hours(pickup[0]),
    }
    for side, times, place in (("pickup", pickup, depot), ("delivery", deliver, to)):
        names = ("company", "country", "city", "province", "pincode", "address1")
        found |= {f"{side}_{name}": value for name, value in zip(names, place, strict=True)}
        found |= {f"{side}_startdatetime": at(times[0]), f"{side}_enddatetime": at(times[1]), f"{side}_address2": ""}
    names = ("total_packages", "total_weight", "chargeable_weight", "total_volume")
    found |= dict(zip(names, totals, strict=True))
    units = {"gross_weight_uom": "KG", "chargeable_weight_uom": "KG", "volume_uom": "CBM"}
    return filled({**found, **units, "currency": "EUR", "transport_mode": "ROAD", **more})


# ---- files ----


def lines(raw, encoding, delimiter, quote='"'):
    """The records of a text file as (number of their first line, cells)."""
    content = raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    reader = csv.reader(io.StringIO(content), delimiter=delimiter, quotechar=quote)
    found, before = [], 0
    for cells in reader:
        found.append((before + 1, cells))
        before = reader.line_num
    return found


def sheet(raw, title):
    """The rows of a sheet as (number, cells): texts, Decimals, datetimes, flags; blanks are empty texts."""
    rows = openpyxl.load_workbook(io.BytesIO(raw))[title].iter_rows()
    return [(number, [_cell(cell) for cell in row]) for number, row in enumerate(rows, 1)]


def _cell(cell):
    if cell.value is None:
        return ""
    if isinstance(cell.value, int | float) and not isinstance(cell.value, bool):
        return Decimal(f"{cell.value:.15g}") if isinstance(cell.value, float) else Decimal(cell.value)
    return cell.value


def is_blank(cells):
    return not any(str(cell).strip() for cell in cells)

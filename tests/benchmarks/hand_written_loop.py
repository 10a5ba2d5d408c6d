"""What one would write for one layout without loadsheet, the measure for `translation`: csv.reader, a merge join, pydantic.

    python -m tests.benchmarks.hand_written_loop FOLDER

Prints one JSON line for each order. It neither says where a wrong cell stands nor accounts for rows.
"""

import csv
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field, PlainSerializer

ZONE = ZoneInfo("Europe/Berlin")
KINDS = {"PLT": "Pallet/Skid", "BOX": "Box"}
MODES = {"Road": "ROAD", "Sea": "SEA"}
FLAGS = {"yes": "yes", "no": "no"}
Number = Annotated[Decimal, Field(ge=0), PlainSerializer(float, when_used="json")]
Text = Annotated[str, Field(min_length=1)]


class Package(BaseModel):
    package_type: Text
    item_name: Text
    description: str | None
    quantity: int
    weight: Number
    weight_uom: str
    volume: Number
    volume_uom: str
    length: Number
    length_uom: str
    width: Number
    width_uom: str
    height: Number
    height_uom: str
    stackable: str
    hazardous: str


class Reference(BaseModel):
    name: str
    value: str


class Party(BaseModel):
    party_type: str
    party_company: str
    email: str
    city: str


class Order(BaseModel):
    order_id: Text
    sender_id: Text
    receiver_id: Text
    timezone: str
    timeoffset: str
    pickup_startdatetime: str
    pickup_enddatetime: str
    pickup_company: Text
    pickup_country: Text
    pickup_city: Text
    pickup_province: str
    pickup_pincode: Text
    pickup_address1: Text
    pickup_address2: str
    delivery_startdatetime: str
    delivery_enddatetime: str
    delivery_company: Text
    delivery_country: Text
    delivery_city: Text
    delivery_province: str
    delivery_pincode: Text
    delivery_address1: Text
    delivery_address2: str
    total_packages: int
    total_weight: Number
    gross_weight_uom: str
    chargeable_weight: Number
    chargeable_weight_uom: str
    total_volume: Number
    volume_uom: str
    goods_value: Number
    currency: Text
    transport_mode: str
    dedicated_vehicle: str
    vehicle_type: str | None
    packages: list[Package]
    order_references: list[Reference] | None
    involved_parties: list[Party]


def moment(text):
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=ZONE)


def weight(text):
    number, _, unit = text.partition(" ")
    return Decimal(number) * {"kg": Decimal(1), "lb": Decimal("0.45359237"), "": Decimal(1)}[unit]


def order_of(row, rows):
    """The record of an order from its row and the rows of its packages, each by heading."""
    begin, end = moment(row["Ready from"]), moment(row["Ready until"])
    deliver, until = moment(row["Deliver from"]), moment(row["Deliver until"])
    if end < begin or until < deliver:
        raise ValueError(row["Order"])
    packages = [package_of(each) for each in rows]
    total = sum((package["weight"] for package in packages), Decimal(0))
    reference = row["Reference"]
    return {
        "order_id": row["Order"], "sender_id": row["Sender"], "receiver_id": row["Receiver"], "timezone": "Europe/Berlin",
        "timeoffset": f"{begin.utcoffset().total_seconds() / 3600:g}",
        "pickup_startdatetime": f"{begin:%Y-%m-%d %H:%M:%S}", "pickup_enddatetime": f"{end:%Y-%m-%d %H:%M:%S}",
        "delivery_startdatetime": f"{deliver:%Y-%m-%d %H:%M:%S}", "delivery_enddatetime": f"{until:%Y-%m-%d %H:%M:%S}",
        **stop("pickup", "Pickup", row), **stop("delivery", "Delivery", row),
        "total_packages": len(packages), "total_weight": total, "gross_weight_uom": "KG", "chargeable_weight": total,
        "chargeable_weight_uom": "KG", "total_volume": sum((package["volume"] for package in packages), Decimal(0)),
        "volume_uom": "CBM", "goods_value": Decimal(row["Value"]), "currency": row["Currency"],
        "transport_mode": MODES[row["Mode"]], "dedicated_vehicle": FLAGS[row["Dedicated"]], "vehicle_type": row["Vehicle"] or None,
        "packages": packages,
        "order_references": [{"name": "Customer reference", "value": reference}] if reference else None,
        "involved_parties": [
            {"party_type": "Freight Payer", "party_company": row["Payer"], "email": row["Payer mail"], "city": row["Payer city"]}
        ],
    }  # fmt: skip


def stop(prefix, title, row):
    return {
        f"{prefix}_company": row[f"{title} name"],
        f"{prefix}_country": row[f"{title} country"],
        f"{prefix}_city": row[f"{title} city"],
        f"{prefix}_province": row[f"{title} state"],
        f"{prefix}_pincode": row[f"{title} zip"],
        f"{prefix}_address1": row[f"{title} street"],
        f"{prefix}_address2": row[f"{title} more"],
    }


def package_of(row):
    sizes = {}
    for side in ("Length", "Width", "Height"):
        sizes |= {side.lower(): Decimal(row[side]), f"{side.lower()}_uom": "CM"}
    return {
        "package_type": KINDS[row["Kind"]], "item_name": row["Item"], "description": row["Description"] or None,
        "quantity": int(row["Quantity"]), "weight": weight(row["Weight"]), "weight_uom": "KG", "volume": Decimal(row["Volume"]),
        "volume_uom": "CBM", **sizes, "stackable": FLAGS[row["Stackable"]], "hazardous": FLAGS[row["Hazardous"]],
    }  # fmt: skip


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader)
        for cells in reader:
            yield dict(zip(header, cells, strict=True))


def merged(orders, packages):
    waiting = next(packages, None)
    for row in orders:
        mine = []
        while waiting is not None and waiting["Order"] == row["Order"]:
            mine.append(waiting)
            waiting = next(packages, None)
        yield row, mine


def main():
    folder = Path(sys.argv[1])
    for row, rows in merged(rows_of(folder / "orders.csv"), rows_of(folder / "packages.csv")):
        made = Order.model_validate(order_of(row, rows))
        sys.stdout.write(made.model_dump_json(exclude_none=True) + "\n")


if __name__ == "__main__":
    main()

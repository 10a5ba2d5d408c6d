"""What one would write for one layout without loadsheet; the measures for `translation`. Each writes one JSON line for each order.

    python -m tests.benchmarks.translation_scripts pandas|loop|nest FOLDER OUT [--sorted]

`pandas`: read_csv as text, groupby, pydantic. `loop`: csv.reader, a merge join (or a dictionary where rows are shuffled), pydantic.
`nest`: DuckDB SQL that only nests what the cells say, and checks nothing. None says where a wrong cell stands, none accounts for rows.
"""

import csv
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

ZONE = ZoneInfo("Europe/Berlin")
KINDS = {"PLT": "Pallet/Skid", "BOX": "Box"}
MODES = {"Road": "ROAD", "Sea": "SEA"}
FLAGS = {"yes": "yes", "no": "no"}


def models():
    """The pydantic model of an order; built here, so that `nest` need not import pydantic."""
    from typing import Annotated

    from pydantic import BaseModel, Field, PlainSerializer

    number = Annotated[Decimal, Field(ge=0), PlainSerializer(float, when_used="json")]
    text = Annotated[str, Field(min_length=1)]

    class Package(BaseModel):
        package_type: text
        item_name: text
        description: str | None
        quantity: int
        weight: number
        weight_uom: str
        volume: number
        volume_uom: str
        length: number
        length_uom: str
        width: number
        width_uom: str
        height: number
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
        order_id: text
        sender_id: text
        receiver_id: text
        timezone: str
        timeoffset: str
        pickup_startdatetime: str
        pickup_enddatetime: str
        pickup_company: text
        pickup_country: text
        pickup_city: text
        pickup_province: str
        pickup_pincode: text
        pickup_address1: text
        pickup_address2: str
        delivery_startdatetime: str
        delivery_enddatetime: str
        delivery_company: text
        delivery_country: text
        delivery_city: text
        delivery_province: str
        delivery_pincode: text
        delivery_address1: text
        delivery_address2: str
        total_packages: int
        total_weight: number
        gross_weight_uom: str
        chargeable_weight: number
        chargeable_weight_uom: str
        total_volume: number
        volume_uom: str
        goods_value: number
        currency: text
        transport_mode: str
        dedicated_vehicle: str
        vehicle_type: str | None
        packages: list[Package]
        order_references: list[Reference] | None
        involved_parties: list[Party]

    return Order


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


def by_pandas(folder, out, *, in_order):
    import pandas as pd

    order = models()
    as_text = {"dtype": str, "keep_default_na": False, "na_filter": False}
    orders = pd.read_csv(folder / "orders.csv", **as_text).to_dict("records")
    packages = pd.read_csv(folder / "packages.csv", **as_text)
    groups = {key: frame.to_dict("records") for key, frame in packages.groupby("Order", sort=False)}
    with out.open("w", encoding="utf-8") as target:
        for row in orders:
            made = order.model_validate(order_of(row, groups[row["Order"]]))
            target.write(made.model_dump_json(exclude_none=True) + "\n")


def by_loop(folder, out, *, in_order):
    order = models()
    with (
        (folder / "orders.csv").open(newline="", encoding="utf-8") as orders,
        (folder / "packages.csv").open(newline="", encoding="utf-8") as packages,
        out.open("w", encoding="utf-8") as target,
    ):
        joined = (
            merged(rows_of(orders), rows_of(packages)) if in_order else looked_up(rows_of(orders), rows_of(packages))
        )
        for row, rows in joined:
            made = order.model_validate(order_of(row, rows))
            target.write(made.model_dump_json(exclude_none=True) + "\n")


def rows_of(file):
    reader = csv.reader(file)
    header = next(reader)
    return (dict(zip(header, cells, strict=True)) for cells in reader)


def merged(orders, packages):
    waiting = next(packages, None)
    for row in orders:
        mine = []
        while waiting is not None and waiting["Order"] == row["Order"]:
            mine.append(waiting)
            waiting = next(packages, None)
        yield row, mine


def looked_up(orders, packages):
    groups = {}
    for each in packages:
        groups.setdefault(each["Order"], []).append(each)
    return ((row, groups[row["Order"]]) for row in orders)


def by_nest(folder, out, *, in_order):
    import duckdb

    duckdb.sql("set threads = 1")
    read = "read_csv('{}', all_varchar = true, header = true)"
    orders, packages = read.format(folder / "orders.csv"), read.format(folder / "packages.csv")
    duckdb.sql(f"""
        copy (
            select o.*, p.packages from {orders} o join (
                select "Order" as key, list(struct_pack(kind := "Kind", item := "Item", description := "Description",
                    quantity := "Quantity", weight := "Weight", volume := "Volume", length := "Length", width := "Width",
                    height := "Height", stackable := "Stackable", hazardous := "Hazardous")) as packages
                from {packages} group by "Order"
            ) p on p.key = o."Order"
        ) to '{out}' (format json)
    """)


SCRIPTS = {"pandas": by_pandas, "loop": by_loop, "nest": by_nest}

if __name__ == "__main__":
    SCRIPTS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]), in_order="--sorted" in sys.argv)

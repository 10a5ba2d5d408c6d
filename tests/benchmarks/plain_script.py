"""What one would write without loadsheet: pandas, pydantic and requests, no ledger, no report; the measure for `whole_run`.

    python -m tests.benchmarks.plain_script FOLDER URL [--connections 8]

It reads orders.csv and packages.csv, builds and validates every order, and posts them from a pool of threads with a session each.
It neither knows after a crash what was sent, nor looks anything up, nor tells anybody what became of a row. Prints one JSON line.
"""

import argparse
import json
import resource
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import requests
from pydantic import BaseModel

ZONE = ZoneInfo("Europe/Berlin")
KINDS = {"PLT": "Pallet/Skid", "BOX": "Box"}
MODES = {"Road": "ROAD", "Sea": "SEA"}


class Package(BaseModel):
    package_type: str
    item_name: str
    weight: float
    weight_uom: str
    volume: float
    volume_uom: str


class Reference(BaseModel):
    name: str
    value: str


class Order(BaseModel):
    order_id: str
    sender_id: str
    receiver_id: str
    timezone: str
    timeoffset: str
    pickup_startdatetime: str
    pickup_enddatetime: str
    pickup_company: str
    pickup_country: str
    pickup_city: str
    pickup_province: str
    pickup_pincode: str
    pickup_address1: str
    pickup_address2: str
    delivery_startdatetime: str
    delivery_enddatetime: str
    delivery_company: str
    delivery_country: str
    delivery_city: str
    delivery_province: str
    delivery_pincode: str
    delivery_address1: str
    delivery_address2: str
    total_packages: int
    total_weight: float
    gross_weight_uom: str
    chargeable_weight: float
    chargeable_weight_uom: str
    total_volume: float
    volume_uom: str
    goods_value: float
    currency: str
    transport_mode: str
    packages: list[Package]
    order_references: list[Reference]


def moment(text):
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=ZONE)


def shown(when):
    return when.strftime("%Y-%m-%d %H:%M:%S")


def build(row, packages):
    pickup, deliver = moment(row["Pickup"]), moment(row["Deliver"])
    made = [
        Package(
            package_type=KINDS[package["Kind"]],
            item_name=package["Item"],
            weight=float(package["Weight"]),
            weight_uom="KG",
            volume=float(package["Volume"]),
            volume_uom="CBM",
        )
        for package in packages
    ]
    references = [Reference(name="Customer reference", value=row["Reference"])] if row["Reference"] else []
    weight, volume = sum(one.weight for one in made), sum(one.volume for one in made)
    return Order(
        order_id=row["Order"],
        sender_id="BENCH",
        receiver_id="CARRIER1",
        timezone="Europe/Berlin",
        timeoffset=f"{pickup.utcoffset().total_seconds() / 3600:g}",
        pickup_startdatetime=shown(pickup),
        pickup_enddatetime=shown(pickup + timedelta(hours=2)),
        pickup_company="Bench GmbH",
        pickup_country="DE",
        pickup_city="Köln",
        pickup_province="NW",
        pickup_pincode="50668",
        pickup_address1="Hafenstr. 12",
        pickup_address2="",
        delivery_startdatetime=shown(deliver),
        delivery_enddatetime=shown(deliver + timedelta(hours=4)),
        delivery_company=row["Consignee"],
        delivery_country=row["Country"],
        delivery_city=row["City"],
        delivery_province="",
        delivery_pincode=row["Zip"],
        delivery_address1=row["Street"],
        delivery_address2="",
        total_packages=len(made),
        total_weight=round(weight, 3),
        gross_weight_uom="KG",
        chargeable_weight=round(max(weight, volume * 250), 3),
        chargeable_weight_uom="KG",
        total_volume=round(volume, 4),
        volume_uom="CBM",
        goods_value=float(row["Value"]),
        currency=row["Currency"],
        transport_mode=MODES[row["Mode"]],
        packages=made,
        order_references=references,
    )


class Poster:
    """Posts orders from many threads, each with a session of its own."""

    def __init__(self, url, token):
        self.url, self.token, self.mine = f"{url}/tmsapi/createOrder", token, threading.local()

    def __call__(self, order):
        if not hasattr(self.mine, "session"):
            self.mine.session = requests.Session()
            self.mine.session.headers["Authorization"] = f"Bearer {self.token}"
        body = order.model_dump_json()
        reply = self.mine.session.post(
            self.url, data=body.encode(), headers={"Content-Type": "application/json"}, timeout=60
        )
        return reply.status_code == 200 and reply.json().get("status") is True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--token", default="token-of-the-tests")
    given = parser.parse_args()
    began, cpu = time.perf_counter(), time.process_time()
    orders = pd.read_csv(given.folder / "orders.csv", dtype=str, keep_default_na=False)
    packages = pd.read_csv(given.folder / "packages.csv", dtype=str, keep_default_na=False)
    by_order = {}
    for package in packages.to_dict("records"):
        by_order.setdefault(package["Order"], []).append(package)
    with ThreadPoolExecutor(given.connections) as pool:
        made = (build(row, by_order[row["Order"]]) for row in orders.to_dict("records"))
        good = sum(pool.map(Poster(given.url, given.token), made))
    told = {
        "orders": len(orders),
        "good": good,
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()

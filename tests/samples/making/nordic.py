"""nordic/2026-03-04: a Swedish mill's nightly export, orders.csv (Windows-1252, from the order system) and packages.csv (UTF-8
with byte order mark, from the warehouse), semicolons, decimal comma, blanks between thousands, pounds and cubic feet.

Honest mistakes: the package of 00883 was keyed as 00833, so one file has an order without package and the other a package
without order; order 00895 announces one package more than came; 00902 names a site that does not exist; one gross weight
of 00905 is written "4O8,5" with a letter O.
"""

import csv
import io
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from making.dice import Dice, at
from making.shipments import Shipment

BATCH = "2026-03-04"
ORDER_COLUMNS = (
    "OrderID", "Site", "Mode", "Consignee", "Street", "Zip", "City", "Country", "Pickup", "Deliver", "Value", "Currency",
    "Packages",
)  # fmt: skip
PACKAGE_COLUMNS = ("OrderID", "Line", "Type", "Goods", "GrossLb", "Cuft")
WRONG = {"00883", "00895", "00902", "00905"}
KRONOR = {"": 1.0, "SEK": 1.0, "NOK": 1.04, "DKK": 0.66, "EUR": 0.0885}
SITES = {"NRV": "Norrköping", "HLM": "Hallstavik", "SKB": "Skövde"}


class Consignee(NamedTuple):
    name: str
    street: str
    zip: str
    city: str
    country: str  # blank at home
    currency: str
    mode: str
    days: int


class Goods(NamedTuple):
    kind: str
    name: str
    lb: float
    cuft: float
    sek: int


CONSIGNEES = (
    Consignee("Mälartryck AB", "Kungsängsvägen 17", "753 23", "Uppsala", "", "", "", 1),
    Consignee("Bokbinderiet i Växjö AB", "Liedbergsgatan 40", "352 32", "Växjö", "", "", "Road", 1),
    Consignee("Göta Kuvert AB", "Exportgatan 28", "422 46", "Hisings Backa", "", "SEK", "Road", 1),
    Consignee("Öresund Emballage AB", "Stenyxegatan 9", "213 76", "Malmö", "Sverige", "SEK", "", 1),
    Consignee("Norrlands Skrivvaror AB", "Björkgatan 3", "903 27", "Umeå", "", "", "Rail", 2),
    Consignee("Akershus Trykkeri AS", "Ole Deviks vei 34", "0668", "Oslo", "Norge", "NOK", "Road", 2),
    Consignee("Bryggen Papir AS", "Minde allé 48", "5068", "Bergen", "Norge", "NOK", "Road", 3),
    Consignee("Sydhavnens Kartonnage ApS", "Sluseholmen 2", "2450", "København SV", "Danmark", "DKK", "Road", 2),
    Consignee("Limfjord Emballage A/S", "Håndværkervej 11", "9000", "Aalborg", "Danmark", "DKK", "", 2),
    Consignee("Aurajoen Paino Oy", "Rydöntie 24", "20360", "Turku", "Finland", "EUR", "Sea", 3),
    Consignee("Vantaan Pakkaus Oy", "Tikkurilantie 140", "01530", "Vantaa", "Finland", "EUR", "Sea", 3),
    Consignee("Tallinna Trükiladu OÜ", "Peterburi tee 71", "11415", "Tallinn", "Estland", "EUR", "Sea", 3),
    Consignee(
        "Elbkai Papiergroßhandel GmbH", "Andreas-Meyer-Str. 35", "22113", "Hamburg", "Tyskland", "EUR", "Rail", 3
    ),
    Consignee("Weesp Druk B.V.", "Nijverheidslaan 6", "1382 LJ", "Weesp", "Nederländerna", "EUR", "Road", 3),
)
GOODS = (
    Goods("RLL", "Tidningspapper 45 g, rulle 125 cm", 2315.0, 57.5, 9_840),
    Goods("RLL", "Kraftliner 125 g, rulle 140 cm", 1985.5, 52.25, 11_260),
    Goods("PLL", "Kopieringspapper A4 80 g, 200 ris", 1124.0, 48.0, 14_900),
    Goods("PLL", "Bokpapper 90 g crème, ark 64x90", 1432.5, 44.5, 21_350),
    Goods("PLL", "Kartong 300 g, ark 72x102", 1378.0, 42.75, 23_480),
    Goods("CTN", "Kuvert C5, 10 000 st", 96.5, 4.75, 2_190.5),
    Goods("CTN", "Etikettpapper, 12 rullar", 61.25, 3.5, 1_745),
    Goods("PLL", "Hushållspapper, 96 förpackningar", 412.0, 71.5, 6_120),
)


class Order(NamedTuple):
    number: str
    site: str
    to: Consignee
    pickup: datetime
    deliver: datetime
    packages: list[Goods]


def make(folder: Path) -> list[Shipment]:
    """Writes both files; gives the orders that are free of mistakes."""
    dice = Dice(871)
    orders = [_order(dice, 871 + index) for index in range(40)]
    order_rows = [_order_row(order) for order in orders]
    package_rows = [row for order in orders for row in _package_rows(dice, order)]
    _spoil(order_rows, package_rows)
    batch = folder / "nordic" / BATCH
    batch.mkdir(parents=True, exist_ok=True)
    (batch / "orders.csv").write_bytes(_text(ORDER_COLUMNS, order_rows).encode("cp1252"))
    (batch / "packages.csv").write_bytes(_text(PACKAGE_COLUMNS, package_rows).encode("utf-8-sig"))
    return [
        Shipment(
            order.number,
            SITES[order.site],
            order.to.city,
            order.pickup,
            order.deliver,
            "Europe/Stockholm",
            len(order.packages),
        )
        for order in orders
        if order.number not in WRONG
    ]


def _order(dice: Dice, number: int) -> Order:
    to = CONSIGNEES[(number * 5) % len(CONSIGNEES)]
    pickup = at(dice.pick(("03-04", "03-04", "03-05", "03-06")), dice.pick((6, 8, 10, 12, 14)), dice.pick((0, 30)))
    arrive = pickup.replace(hour=dice.pick((8, 10, 13)), minute=0) + timedelta(days=to.days)
    if arrive.weekday() >= 5:
        arrive += timedelta(days=7 - arrive.weekday())
    packages = [dice.pick(GOODS) for _ in range(dice.pick((1, 1, 2, 2, 3, 3, 4, 5)))]
    packages = packages[:1] if number == 883 else packages
    return Order(f"{number:05}", dice.pick(tuple(SITES)), to, pickup, arrive, packages)


def _order_row(order: Order) -> list[str]:
    value = sum(goods.sek for goods in order.packages) * KRONOR[order.to.currency]
    # a quarter of the exports leave the count of packages blank
    count = "" if int(order.number) % 4 == 0 else str(len(order.packages))
    to = order.to
    return [
        order.number, order.site, to.mode, to.name, to.street, to.zip, to.city, to.country,
        f"{order.pickup:%Y-%m-%d %H:%M}", f"{order.deliver:%Y-%m-%d %H:%M}", _swedish(value, 2), to.currency, count,
    ]  # fmt: skip


def _package_rows(dice: Dice, order: Order) -> list[list[str]]:
    return [
        [
            order.number,
            str(line),
            goods.kind,
            goods.name,
            _swedish(dice.near(goods.lb, 0.04), 1),
            _swedish(goods.cuft, 2),
        ]
        for line, goods in enumerate(order.packages, start=1)
    ]


def _swedish(value: float, places: int) -> str:
    return f"{value:_.{places}f}".replace(".", ",").replace("_", " ")


def _spoil(orders: list[list[str]], packages: list[list[str]]) -> None:
    order = {row[0]: row for row in orders}
    first = {row[0]: row for row in reversed(packages)}
    first["00883"][0] = "00833"
    order["00883"][12] = ""
    order["00895"][12] = str(int(order["00895"][12]) + 1)
    order["00902"][1] = "NVR"
    first["00905"][4] = "4O8,5"
    # exports write thousands with a plain blank; the warehouse, for a while, with a no-break space
    for row in packages[:30]:
        row[4] = row[4].replace(" ", "\N{NO-BREAK SPACE}")


def _text(labels: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";", lineterminator="\r\n")
    writer.writerow(labels)
    writer.writerows(rows)
    return out.getvalue()

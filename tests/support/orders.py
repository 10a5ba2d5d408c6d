"""Makes orders.csv and packages.csv of any length for benchmarks and acceptance tests; read by `tests/benchmarks/mappings`."""

import csv
from pathlib import Path

MAPPINGS = Path(__file__).parents[1] / "benchmarks" / "mappings"
PACKAGES_EACH = 3

_CITIES = (
    ("50668", "Köln", "DE"),
    ("1012 AB", "Amsterdam", "NL"),
    ("75001", "Paris", "FR"),
    ("01067", "Dresden", "DE"),
)
_ORDER_HEAD = [
    "Order",
    "Pickup",
    "Deliver",
    "Consignee",
    "Street",
    "Zip",
    "City",
    "Country",
    "Value",
    "Currency",
    "Mode",
    "Reference",
]
_PACKAGE_HEAD = ["Order", "Kind", "Item", "Weight", "Volume"]


def write_orders(folder: Path, count: int, *, first: int = 0, wrong_every: int = 0) -> None:
    """Write `count` orders with three packages each; every `wrong_every`-th has a weight that is no number."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / "orders.csv").open("w", newline="", encoding="utf-8") as orders,
        (folder / "packages.csv").open("w", newline="", encoding="utf-8") as packages,
    ):
        order_rows, package_rows = csv.writer(orders), csv.writer(packages)
        order_rows.writerow(_ORDER_HEAD)
        package_rows.writerow(_PACKAGE_HEAD)
        for number in range(first, first + count):
            wrong = bool(wrong_every) and number % wrong_every == 0
            order_rows.writerow(_order(number))
            package_rows.writerows(_packages(number, wrong=wrong))


def order_id(number: int) -> str:
    """The id of the n-th order, with a leading zero that must survive."""
    return f"0{number:07}"


def _order(number: int) -> list[str]:
    zip_code, city, country = _CITIES[number % len(_CITIES)]
    day, hour = 1 + number % 27, number % 9 + 8
    return [
        order_id(number),
        f"2026-03-{day:02} {hour:02}:00",
        f"2026-03-{day + 1:02} {hour:02}:30",
        f"Empfänger {number % 997}",
        f"Hauptstraße {number % 211}",
        zip_code,
        city,
        country,
        f"{number % 5000}.50",
        "EUR",
        "Road",
        f"PO-{number}" if number % 2 else "",
    ]


def _packages(number: int, *, wrong: bool) -> list[list[str]]:
    return [
        [
            order_id(number),
            "PLT" if piece else "BOX",
            f"Item {piece}",
            "heavy" if wrong and not piece else f"{10 + (number + piece) % 300}.{piece}",
            f"0.{1 + piece}2",
        ]
        for piece in range(PACKAGES_EACH)
    ]

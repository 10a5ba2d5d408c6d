"""`make bench`: CPU for each order and peak memory of `check`, beside a hand-written loop and on dirty files.

40 columns of orders joined with 15 of packages, three packages an order. loadsheet's payloads are compared with those of the loop, all of
them. In the dirty files every twentieth row has a problem, and dates come in five styles. Compare the ratios, not the absolute figures
of one machine.
"""

import argparse
import csv
import json
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from tests.benchmarks.measuring import Contender, compare, head, scratch

WIDE = Path(__file__).parent / "wide"
PACKAGES_EACH = 3
ORDER_HEAD = [
    "Order", "Sender", "Receiver", "Ready from", "Ready until", "Deliver from", "Deliver until",
    *(f"{side} {part}" for side in ("Pickup", "Delivery") for part in ("name", "country", "city", "state", "zip", "street", "more")),
    "Value", "Currency", "Mode", "Dedicated", "Vehicle", "Reference", "Payer", "Payer mail", "Payer city",
    *(f"Remark {number}" for number in range(1, 11)),
]  # fmt: skip
PACKAGE_HEAD = [
    "Order", "Kind", "Item", "Description", "Quantity", "Weight", "Volume", "Length", "Width", "Height", "Stackable", "Hazardous",
    "Shelf", "Picker", "Batch",
]  # fmt: skip


def order_row(number):
    day, hour = 1 + number % 27, number % 9 + 8
    stops = [
        "Bench GmbH", "DE", "Köln", "NW", "50668", f"Hafenstr. {number % 90}", "",
        f"Empfänger {number % 997}", ("DE", "NL", "FR")[number % 3], "Dresden", "", f"{number % 99999:05}", "Weg 1", "Tor 3",
    ]  # fmt: skip
    times = [f"2026-03-{day:02} {hour:02}:00", f"2026-03-{day:02} {hour + 2:02}:00"]
    times += [f"2026-03-{day + 1:02} {hour:02}:30", f"2026-03-{day + 1:02} {hour + 3:02}:30"]
    others = [f"{number % 5000}.5", "EUR", ("Road", "Sea")[number % 2], ("yes", "no")[number % 2], "", f"PO-{number}"]
    return [
        f"0{number:07}",
        "BENCH",
        "CARRIER1",
        *times,
        *stops,
        *others,
        "Payer AG",
        "pay@example.com",
        "Bern",
        *["-"] * 10,
    ]


def package_rows(number):
    for piece in range(PACKAGES_EACH):
        weight = f"{10 + (number + piece) % 300}.{piece + 1}"
        sizes = [str(100 + piece), "80", f"{60 + number % 7}.5"]
        flags = [("yes", "no")[piece % 2], "no"]
        yield [
            f"0{number:07}", ("PLT", "BOX")[piece % 2], f"Item {piece}", "as ordered", "4", f"{weight} kg", f"0.{1 + piece}2",
            *sizes, *flags, "S1", "P2", "B3",
        ]  # fmt: skip


def write(folder, count):
    """The two files."""
    write_rows(folder / "orders.csv", ORDER_HEAD, map(order_row, range(count)))
    write_rows(folder / "packages.csv", PACKAGE_HEAD, (row for number in range(count) for row in package_rows(number)))


def write_rows(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


DATE_STYLES = ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%d-%b-%y %H:%M", "%Y%m%d %H:%M"]
DIRTY_EVERY = 20  # a row in so many has a problem
DIRTY_CELLS = {
    "Value": "1.2.3",
    "Currency": "EURO",
    "Mode": "Raod",
    "Dedicated": "maybe",
    "Delivery country": "Deutschlnd",
}
DIRTY_PACKAGE_CELLS = {"Kind": "PALETTE", "Weight": "12 stone", "Volume": "-", "Quantity": "2 1/2"}


def write_dirty(folder):
    """The files of `folder` made dirty in `folder/dirty`, with a mapping there that takes all five date styles."""
    target = folder / "dirty"
    target.mkdir()
    mapping = (WIDE / "bench-wide.yaml").read_text(encoding="utf-8")
    (target / "bench-wide.yaml").write_text(
        mapping.replace('dates: ["%Y-%m-%d %H:%M"]', f"dates: {json.dumps(DATE_STYLES)}"), encoding="utf-8"
    )
    for name, wrong in (("orders", DIRTY_CELLS), ("packages", DIRTY_PACKAGE_CELLS)):
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as source:
            rows = list(csv.DictReader(source))
        for number, row in enumerate(rows):
            for heading in ("Ready from", "Ready until", "Deliver from", "Deliver until"):
                if heading in row:
                    moment = datetime.strptime(row[heading], DATE_STYLES[0])
                    row[heading] = moment.strftime(DATE_STYLES[number % len(DATE_STYLES)])
            if number % DIRTY_EVERY == 0:
                heading = list(wrong)[number // DIRTY_EVERY % len(wrong)]
                row[heading] = wrong[heading]
        write_rows(target / f"{name}.csv", list(rows[0]), [row.values() for row in rows])


def check(title, folder, mappings, *words, status=0, aim=""):
    """`loadsheet check` of the two files in a folder."""
    files = [folder / "orders.csv", folder / "packages.csv"]
    command = [sys.executable, "-m", "loadsheet", "check", *words, "--mappings", mappings, *files]
    return Contender(title, command, status, aim)


def payloads(path):
    """Each order's record by its key, as a JSON reader with exact decimals gives it; of loadsheet's lines the payload."""
    found = {}
    with path.open(encoding="utf-8") as lines:
        for text in lines:
            told = json.loads(text, parse_float=lambda number: Decimal(number).normalize(), parse_int=Decimal)
            record = told.get("payload", told)
            found[record["order_id"]] = hash(json.dumps(record, sort_keys=True, default=lambda number: f"{number:f}"))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"{given.orders:,} orders with {PACKAGES_EACH} packages each (two CSV files)")
    head("order")
    with scratch() as folder:
        write(folder, given.orders)
        write_dirty(folder)
        loop = Contender("loop", [sys.executable, "-m", "tests.benchmarks.hand_written_loop", folder])
        ours = check("check --payloads", folder, WIDE, "--payloads", aim="aim: at most 1.3")
        compare([loop, ours], given.orders, rounds=given.rounds, folder=folder)
        assert payloads(folder / "loop.out") == payloads(folder / "check --payloads.out")
        dirty = check("check, dirty", folder / "dirty", folder / "dirty", status=1, aim="aim: at most 1.5")
        compare([check("check, clean", folder, WIDE), dirty], given.orders, rounds=given.rounds, folder=folder)


if __name__ == "__main__":
    main()

"""`make bench`: us CPU for each order and peak memory of `check --payloads`, beside what one would write for that one layout.

40 columns of orders joined with 15 of packages, three packages an order; rows in the order of their keys, and shuffled. Every line
is a process of its own, measured by the operating system with all its children. loadsheet's payloads are compared with the
hand-written loop's, all of them. At the end, dirty files beside clean ones: every twentieth row has a problem, and dates come in five
styles. Compare the ratios, not the absolute figures of one machine.
"""

import argparse
import csv
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from decimal import Decimal
from pathlib import Path

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
AIMS = {"loop": "aim: at most 1.5", "pandas": "aim: at most 0.33", "nest": "aim: at most 3"}


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


def write(folder, count, shuffled):
    """The two files."""
    orders = [order_row(number) for number in range(count)]
    packages = [row for number in range(count) for row in package_rows(number)]
    if shuffled:
        random.Random(7).shuffle(orders)
        random.Random(8).shuffle(packages)
    for name, head, rows in (("orders", ORDER_HEAD, orders), ("packages", PACKAGE_HEAD, packages)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *rows])


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
    """The files of `folder` made dirty in `folder/dirty`, with a mapping that takes all five date styles; returns both paths."""
    target = folder / "dirty"
    (target / "mappings").mkdir(parents=True)
    mapping = (WIDE / "bench-wide.yaml").read_text(encoding="utf-8")
    (target / "mappings" / "bench-wide.yaml").write_text(
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
        with (target / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return target, target / "mappings"


def compare_dirty(count):
    """Measure `check` on clean and on dirty files; prints a line each."""
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        write(folder, count, shuffled=False)
        dirty, mappings = write_dirty(folder)
        print(f"\n{count:,} orders, `loadsheet check`")
        check = [sys.executable, "-m", "loadsheet", "check", "--mappings"]
        clean_cpu = 0.0
        for title, place, read_by in (("clean", folder, WIDE), ("dirty", dirty, mappings)):
            command = [*check, str(read_by), str(place / "orders.csv"), str(place / "packages.csv")]
            cpu, peak = measured(command, folder / "said", status=int(title == "dirty"))
            clean_cpu = clean_cpu or cpu
            ratio = f"{cpu / clean_cpu:.2f} of the clean files' CPU (aim: at most 1.5)" if title == "dirty" else ""
            print(f"{title:30}{cpu / count * 1e6:12.0f}{peak:10.0f}  {ratio}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def commands(folder, *, shuffled):
    """Who takes part: name, what is said of it, and its command; the output goes to OUT."""
    script = [sys.executable, "-m", "tests.benchmarks.translation_scripts"]
    places = {name: [str(folder), str(folder / f"{name}.json"), *([] if shuffled else ["--sorted"])] for name in AIMS}
    files = [str(folder / "orders.csv"), str(folder / "packages.csv")]
    yield "loadsheet", "loadsheet check --payloads", [
        *(sys.executable, "-m", "loadsheet", "check", "--payloads", "--mappings", str(WIDE)), *files
    ]  # fmt: skip
    yield "loop", "csv.reader, join, pydantic", [*script, "loop", *places["loop"]]
    yield "pandas", "pandas, pydantic", [*script, "pandas", *places["pandas"]]
    yield "nest", "DuckDB SQL that only nests", [*script, "nest", *places["nest"]]
    if miller := shutil.which("mlr"):
        words = [
            "--icsv",
            "--ojson",
            "join",
            *([] if not shuffled else ["-u"]),
            "-j",
            "Order",
            "-f",
            files[0],
            files[1],
        ]
        yield "miller", "Miller, which only joins", [miller, *words]


def measured(command, out, *, status=0):
    """CPU seconds of a command with all its children, and the largest of them in MB. It must end with `status`."""
    with out.open("wb") as target:
        child = subprocess.Popen(command, stdout=target, stderr=subprocess.PIPE)
        said = child.stderr.read()
        _, ended, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(ended)
        child.stderr.close()
    assert child.returncode == status, said.decode()
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def compare(count, *, shuffled):
    """Measure everybody on the same files; prints a line each."""
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        writing = multiprocessing.get_context("spawn").Process(target=write, args=(folder, count, shuffled))
        writing.start()  # what it holds in memory would be counted as everybody's: they are forked from this process
        writing.join()
        print(f"\n{count:,} orders, rows {'shuffled' if shuffled else 'in the order of their keys'}")
        ours = 0.0
        for name, title, command in commands(folder, shuffled=shuffled):
            out = folder / f"{name}.said"
            cpu, peak = measured(command, out)
            if name == "loadsheet":
                ours = cpu
            ratio = "" if name == "loadsheet" else f"loadsheet takes {ours / cpu:.2f} of its CPU"
            aim = f" ({AIMS[name]})" if name in AIMS else ""
            print(f"{title:30}{cpu / count * 1e6:12.0f}{peak:10.0f}  {ratio}{aim}", flush=True)
        assert payloads(folder / "loop.json") == payloads(folder / "loadsheet.said")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def payloads(path):
    """Each order's record by its key, as a JSON reader with exact decimals gives it; of loadsheet's lines the payload."""
    found = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            told = json.loads(line, parse_float=lambda text: Decimal(text).normalize(), parse_int=Decimal)
            record = told.get("payload", told)
            found[record["order_id"]] = hash(json.dumps(record, sort_keys=True, default=lambda number: f"{number:f}"))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--rows", choices=["sorted", "shuffled"], action="append")
    given = parser.parse_args()
    print(f"{'':30}{'us CPU/order':>12}{'peak MB':>10}")
    for rows in given.rows or ["sorted", "shuffled"]:
        compare(given.orders, shuffled=rows == "shuffled")
    compare_dirty(given.orders)


if __name__ == "__main__":
    main()

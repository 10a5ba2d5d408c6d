"""`python -m tests.benchmarks.scale`: whole runs of 1,000 to 1,000,000 orders on one machine: what an order costs, and whether it stays so.

Each run is a fresh process against the bare sink, with three packages an order from two CSV files. `--write` makes the table and the
picture of `docs/performance.md` anew. State is the size of the ledger.
"""

import argparse
import os
import platform
from pathlib import Path

import leather
from orders import write_orders
from tests.benchmarks.measuring import head, line, scratch
from tests.benchmarks.whole_run import one_run, served

SIZES = [1_000, 10_000, 100_000, 1_000_000]
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
PICTURE = PAGE.parent / "pictures" / "scale.svg"
BEGIN, END = "<!-- scale -->\n", "<!-- end of scale -->\n"


def measure(count):
    """One run over `count` orders: CPU in microseconds an order, peak memory in MB, state in KB an order."""
    with scratch() as folder, served("sink", folder) as url:
        write_orders(folder / "inbox", count)
        cost = one_run(folder, url)["all"]
        state = sum(file.stat().st_size for file in (folder / "state").glob("ledger.db*"))
    line(f"{count:,} orders, {state / count:.0f} bytes an order", [cost], count)
    return cost.cpu_s / count * 1e6, cost.peak_mb, state / count / 1000


def table(rows):
    """The rows as Markdown."""
    lines = [
        "| Orders | Rows | CPU an order, µs | Peak memory, MB | Ledger, KB an order |",
        "|---:|---:|---:|---:|---:|",
    ]
    for count, (cpu, peak, state) in rows.items():
        lines.append(f"| {count:,} | {count * 4:,} | {cpu:.0f} | {peak:.0f} | {state:.2f} |")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return "\n".join([*lines, "", f"Measured on {machine}.", ""])


def draw(rows):
    """The CPU of an order by the number of orders, as a picture."""
    chart = leather.Chart("CPU of an order (µs), by the number of orders in a run")
    chart.add_columns([(f"{count:,}", round(cpu)) for count, (cpu, _, _) in rows.items()])
    chart.to_svg(str(PICTURE), width=640, height=320)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    head("order")
    rows = {count: measure(count) for count in given.orders}
    if given.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + table(rows) + END + rest.partition(END)[2], encoding="utf-8")
        draw(rows)


if __name__ == "__main__":
    main()

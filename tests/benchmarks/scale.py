"""`python -m tests.benchmarks.scale`: whole runs of 1,000 to 1,000,000 orders on one machine: what an order costs, and whether it stays so.

Each run is a fresh process against the bare sink, with three packages an order from two CSV files. `--write` makes the table and the
picture of `docs/performance.md` anew. CPU is that of loadsheet alone, with the processes that read files for it. State is the ledger's size.
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import leather
from orders import write_orders
from tests.benchmarks.whole_run import in_its_own_process, served

SIZES = [1_000, 10_000, 100_000, 1_000_000]
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
PICTURE = PAGE.parent / "pictures" / "scale.svg"
BEGIN, END = "<!-- scale -->\n", "<!-- end of scale -->\n"
CONNECTIONS, WINDOW = 8, 256


def measure(count):
    """One run over `count` orders: wall seconds, CPU in microseconds an order, peak memory in MB, state in bytes an order."""
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        write_orders(folder / "inbox", count)
        with served("sink", folder) as url:
            one = ("tests.benchmarks.whole_run", "--one", folder, url, CONNECTIONS, WINDOW, count, "--no-alone")
            found = in_its_own_process(*one)
        wall, cpu = (sum(stage[place] for stage in found["stages"]) for place in (1, 2))
        state = sum(file.stat().st_size for file in (folder / "state").glob("ledger.db*"))
        return wall, cpu / count * 1e6, found["peak_mb"], state / count
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(rows):
    """The rows as Markdown."""
    lines = [
        "| Orders | Rows | CPU an order, µs | Peak memory, MB | Ledger, KB an order |",
        "|---:|---:|---:|---:|---:|",
    ]
    for count, (_, cpu, peak, state) in rows.items():
        lines.append(f"| {count:,} | {count * 4:,} | {cpu:.0f} | {peak:.0f} | {state / 1000:.2f} |")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return "\n".join([*lines, "", f"Measured on {machine}.", ""])


def draw(rows):
    """The CPU of an order by the number of orders, as a picture."""
    chart = leather.Chart("CPU of an order (µs), by the number of orders in a run")
    chart.add_columns([(f"{count:,}", round(cpu)) for count, (_, cpu, _, _) in rows.items()])
    chart.to_svg(str(PICTURE), width=640, height=320)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, nargs="+", default=SIZES)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = {}
    for count in given.orders:
        rows[count] = measure(count)
        print(
            f"{count:>10,} orders {rows[count][0]:9.1f} s {rows[count][1]:7.0f} us/order {rows[count][2]:6.0f} MB {rows[count][3]:7.0f} B/order",
            flush=True,
        )
    if given.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + table(rows) + END + rest.partition(END)[2], encoding="utf-8")
        draw(rows)


if __name__ == "__main__":
    main()

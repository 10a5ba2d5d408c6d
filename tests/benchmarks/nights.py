"""`python -m tests.benchmarks.nights [--orders N]`: the stages of three nights: clean files, files with problems, and files sent before.

Each order has three packages. In the second night every twentieth order has a weight that is not a number. The third night brings the
files of a clean night again with other line ends: every document is unchanged. Each run is a fresh process against a sink that lists.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from tests.benchmarks.whole_run import in_its_own_process, line, served, write_orders

NIGHTS = {"clean": 0, "dirty": 20, "unchanged": 0}  # one order in so many has a problem
CONNECTIONS, WINDOW = 8, 256


def change_line_ends(inbox):
    """Gives files other bytes with the same rows."""
    for file in inbox.glob("*.csv"):
        file.write_bytes(file.read_bytes().replace(b"\r\n", b"\n"))


def measure(night, count):
    """One night; prints its stages and its peak memory."""
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        with served("sink", folder) as url:
            one = ("tests.benchmarks.whole_run", "--one", folder, url, CONNECTIONS, WINDOW, count, "--no-alone")
            write_orders(folder / "inbox", count, wrong_every=NIGHTS[night])
            found = in_its_own_process(*one)
            if night == "unchanged":
                write_orders(folder / "inbox", count)
                change_line_ends(folder / "inbox")
                found = in_its_own_process(*one)
        print(f"\n{night}")
        for stage in found["stages"]:
            line(f"  {stage[0]}", *stage[1:], count)
        print(f"  peak memory {found['peak_mb']:.0f} MB", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=20_000)
    given = parser.parse_args()
    print(f"{given.orders} orders with 3 packages each (two CSV files)")
    print(f"{'':34}{'wall s':>9}{'CPU us/order':>15}{'orders/s':>11}")
    for night in NIGHTS:
        measure(night, given.orders)


if __name__ == "__main__":
    main()

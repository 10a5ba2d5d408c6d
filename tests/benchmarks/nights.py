"""`python -m tests.benchmarks.nights [--orders N]`: the stages of three nights: clean files, files with problems, and files sent before.

Each order has three packages. In the second night every twentieth order has a weight that is not a number. The third night brings the
files of a clean night again with other line ends: every document is unchanged. Each run is a fresh process against a sink that lists.
"""

import argparse

from orders import write_orders
from tests.benchmarks.measuring import head, line, scratch
from tests.benchmarks.whole_run import one_run, served

NIGHTS = {"clean": 0, "dirty": 20, "unchanged": 0}  # one order in so many has a problem


def measure(night, count, folder):
    """One night; prints its stages and its peak memory."""
    inbox = folder / "inbox"
    with served("sink", folder) as url:
        write_orders(inbox, count, wrong_every=NIGHTS[night])
        found = one_run(folder, url)
        if night == "unchanged":
            write_orders(inbox, count)
            for file in inbox.glob("*.csv"):
                file.write_bytes(file.read_bytes().replace(b"\r\n", b"\n"))
            found = one_run(folder, url)
    for stage, cost in found["stages"].items():
        line(f"{night}: {stage}", [cost], count)
    line(f"{night}, the whole run", [found["all"]], count)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=20_000)
    given = parser.parse_args()
    print(f"{given.orders} orders with 3 packages each (two CSV files)")
    head("order")
    for night in NIGHTS:
        with scratch() as folder:
            measure(night, given.orders, folder)


if __name__ == "__main__":
    main()

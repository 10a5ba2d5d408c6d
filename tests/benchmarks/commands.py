"""`make bench`: the commands that people wait for: help, the list of runs, a draft of 10,000 rows of 30 columns, a check of 100,000 rows.

`--check-orders 2500000` checks 10,000,000 rows: four for each order, in two CSV files.
"""

import argparse
import sys

from orders import MAPPINGS, write_orders
from tests.benchmarks.measuring import head, line, measured, scratch
from tests.mapping_tools.layouts.made_layouts import wide

WORDS = {  # and the aim for its CPU
    "--help": (["--help"], "aim: 0.1 s"),
    "runs": (["runs"], "aim: 0.3 s"),
    "mapping suggest": (["mapping", "suggest", "wide.csv"], "aim: 3 s"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check-orders", type=int, default=25_000)
    given = parser.parse_args()
    head("call")
    with scratch() as folder:
        wide(given.rows).write(folder)
        measured([sys.executable, "-m", "loadsheet", "init"], cwd=folder)
        measured([sys.executable, "-m", "loadsheet", "run", "--settle", "0", "--exchange", "embedded"], cwd=folder)
        for title, (words, aim) in WORDS.items():
            command = [sys.executable, "-m", "loadsheet", *words]
            line(title, [measured(command, cwd=folder) for _ in range(given.rounds)], 1, aim=aim)

        write_orders(folder / "checked", given.check_orders)
        check = [sys.executable, "-m", "loadsheet", "check", *(folder / "checked").iterdir(), "--mappings", MAPPINGS]
        line(f"check, {given.check_orders * 4:,} rows", [measured(check)], 1, aim="aim: 8 s for 100,000 rows")


if __name__ == "__main__":
    main()

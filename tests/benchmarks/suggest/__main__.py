"""`python -m tests.benchmarks.suggest`: how good the drafts of `loadsheet mapping suggest` are for labelled sheets.

Prints a line for each layout and the totals; `--json FILE` writes every column with its verdict, `--name N` scores these layouts only,
`--wrong` lists the columns that are not right, `--cost` measures CPU and memory for 10,000 rows of 30 columns.

The scores before `suggest` was rebuilt (commit 8715d9d) and after, in percent of 772 columns and of 50 drafts. Nobody looked at the layouts
held out while it was rebuilt. The last form that was not refused, one of those held out, was looked at afterwards.

                               before                 after
                           all   open  held out   all   open  held out   aim
columns right             69.2   73.5      51.3  93.7   96.9      80.3    80
columns wrong, marked     14.4   11.0      28.3   1.6    1.1       3.3
columns wrong, unmarked    2.3    2.1       3.3   0.3    0.0       1.3   at most 5
columns missing           14.1   13.4      17.1   4.5    1.9      15.1
target right              32.0   37.5      10.0  98.0  100.0      90.0
key right                 78.0   82.5      60.0  96.0  100.0      80.0
group right               76.0   75.0      80.0  92.0   92.5      90.0
all rows translate        72.0   75.0      60.0  94.0   95.0      90.0
refused by lint              0      0         0     0      0         0     0
drafts that lose rows        2      2         0     0      0         0     0
order of files matters       4      4         0     0      0         0     0
forms not refused            2      1         1     0      0         0     0
"""

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from .draft_scores import RIGHT, cost, score
from .summary import LAYOUTS, summary, table


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--name", action="append")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--cost", action="store_true")
    chosen = parser.parse_args()
    scores = [_scored(one) for one in LAYOUTS if not chosen.name or one.name in chosen.name]
    totals = summary(scores)
    if chosen.cost:
        with tempfile.TemporaryDirectory() as folder:
            totals["cost"] = cost(Path(folder))
    print(table(scores))
    for found in scores if chosen.wrong else ():
        print("\n".join(_wrong(found)))
    print(json.dumps(totals, indent=2))
    if chosen.json:
        details = {"totals": totals, "layouts": [asdict(found) for found in scores]}
        chosen.json.write_text(json.dumps(details, indent=1), encoding="utf-8")


def _scored(one):
    with tempfile.TemporaryDirectory() as folder:
        return score(one, Path(folder))


def _wrong(found):
    for heading, (verdict, fills) in found.columns.items():
        if verdict != RIGHT and not found.held_out:
            yield f"{found.name}\t{verdict}\t{heading}\t{', '.join(fills)}"
    yield from (
        f"{found.name}\t{text}"
        for text in (*found.findings, *found.problems, found.error)
        if text and not found.held_out
    )


if __name__ == "__main__":
    main()

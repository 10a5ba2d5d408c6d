"""`python -m tests.benchmarks.suggest`: how good the drafts of `loadsheet mapping suggest` are for labelled sheets.

Prints a line for each layout and the totals; `--json FILE` writes every column with its verdict, `--name N` scores these layouts only,
`--wrong` lists the columns that are not right, `--cost` measures CPU and memory for 10,000 rows of 30 columns.

The scores when `suggest` was rebuilt (commit 88e78bd6) and after the stumbles of a newcomer were mended, in percent of 825 columns and of 55
drafts. Five layouts were added for these stumbles (`newcomer_layouts`). Nobody looked at the layouts held out, but for one that was a form.
The first version (commit 8715d9d) had 69.2 % of the columns of the other 50 drafts right, 32 % of the targets and 78 % of the keys.

                               before                 after
                           all   open  held out   all   open  held out   aim
columns right             92.6   95.4      80.3  94.1   97.0      80.9    80
columns wrong, marked      1.8    1.5       3.3   1.6    1.2       3.3
columns wrong, unmarked    0.4    0.1       1.3   0.2    0.0       1.3   at most 5
columns missing            5.2    3.0      15.1   4.1    1.8      14.5
target right              98.2  100.0      90.0  98.2  100.0      90.0
key right                 94.5   97.8      80.0  98.2  100.0      90.0
group right               90.9   91.1      90.0  92.7   93.3      90.0
all rows translate        94.5   95.6      90.0  96.4   95.6     100.0
refused by lint              0      0         0     0      0         0     0
drafts that lose rows        0      0         0     0      0         0     0
order of files matters       1      1         0     0      0         0     0
forms not refused            0      0         0     0      0         0     0
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

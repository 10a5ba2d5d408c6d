"""`python -m tests.benchmarks.suggest`: how good the drafts of `loadsheet mapping suggest` are for labelled sheets.

Prints a line for each layout and the totals; `--json FILE` writes every column with its verdict, `--name N` scores these layouts only,
`--wrong` lists the columns that are not right, `--cost` measures CPU and memory for 10,000 rows of 30 columns.
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

"""`python -m tests.benchmarks.suggest`: how good the drafts of `loadsheet mapping suggest` are for labelled sheets.

Prints a line for each layout and the totals. `--name N` scores these layouts only; `--wrong` also lists what is not right, but not for the
layouts held out, to which nobody tunes `suggest`.
"""

import argparse
import json
import tempfile
from pathlib import Path

from .draft_scores import FAULTS, RIGHT, VERDICTS, score
from .layouts import LAYOUTS


def totals(scores):
    """The percentage of columns by verdict, and the number of layouts with each fault: of all layouts, open ones and those held out."""
    parts = {"all": scores}
    for part, held_out in (("open", False), ("held out", True)):
        parts[part] = [found for found in scores if found.held_out is held_out]
    return {part: _totals(own) for part, own in parts.items() if own}


def _totals(scores):
    columns = [verdict for found in scores for verdict, _ in found.columns.values()]
    share = {verdict: round(100 * columns.count(verdict) / max(1, len(columns)), 1) for verdict in VERDICTS}
    faults = {fault: sum(fault in found.faults for found in scores) for fault in FAULTS}
    return {"layouts": len(scores), "columns": len(columns), **share, **faults}


def line(found):
    """The line of a layout."""
    counts = "".join(f"{found.counts[verdict]:5}" for verdict in VERDICTS)
    return f"{found.name:20}{' *' if found.held_out else '  '}{counts}  {', '.join(sorted(found.faults))}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", action="append")
    parser.add_argument("--wrong", action="store_true")
    chosen, scores = parser.parse_args(), []
    for one in LAYOUTS:
        if chosen.name and one.name not in chosen.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            scores.append(score(one, Path(folder)))
        print(line(scores[-1]), flush=True)
        if chosen.wrong and not one.held_out:
            for heading, (verdict, fills) in scores[-1].columns.items():
                if verdict != RIGHT:
                    print(f"    {verdict}: {heading}: {', '.join(fills)}")
            print("".join(f"    {note}\n" for note in scores[-1].notes if note), end="")
    print(json.dumps(totals(scores), indent=2))


if __name__ == "__main__":
    main()

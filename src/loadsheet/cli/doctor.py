"""`loadsheet doctor`: checks whether everything is in place, and says what to do if not. Owns the display of findings."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadsheet.cli.access import clock
from loadsheet.cli.options import CONFIG, EXCHANGE, INBOX, JSON, MAPPINGS, OUTBOX, STATE, load_each, together
from loadsheet.cli.output import print_json, print_table

if TYPE_CHECKING:
    from loadsheet.cli.doctor_checks import Finding

A_TEST = "This is a test: loadsheet doctor --notify sent it."
_WORST_FIRST = ("wrong", "warning", "ok")


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option("--quick", is_flag=True, help="Only fast, local checks: no calls, and the ledger is not read completely.")
@click.option(
    "--notify",
    metavar="[TEXT]",
    is_flag=False,
    flag_value=A_TEST,
    help="Send the findings as a notice, after this text (default: a note that this is a test).",
)
@JSON
def doctor(*, config: Path | None, quick: bool, notify: str | None, as_json: bool, **given: Any) -> int:
    """Check folders, disk, mappings, ledger, time zones, token, exchange, clock and notices, and say what to do about each problem.

    Exits with 1 if anything is wrong; warnings alone exit with 0. Checks all declared shippers, or the one given by --shipper.
    Sends a notice only with --notify.
    """
    from loadsheet.cli.doctor_examination import examine_all

    found = examine_all(load_each(config, **given), clock(), quick=quick, notice=notify)
    _show(found, as_json=as_json)
    return int(any(finding.level == "wrong" for findings in found.values() for finding in findings))


def _show(found: Mapping[str, list["Finding"]], *, as_json: bool) -> None:
    rows = [(shipper, finding) for shipper, findings in found.items() for finding in findings]
    if as_json:
        print_json(
            [
                {
                    "shipper": shipper,
                    "check": finding.check,
                    "level": finding.level,
                    "ok": finding.level != "wrong",
                    "finding": finding.text,
                    "do": finding.todo,
                }
                for shipper, finding in rows
            ]
        )
        return
    names = ["Shipper", "Check", "", "Finding", "What to do"]
    shown = [(shipper, finding) for shipper, findings in found.items() for finding in _folded(findings)]
    shown.sort(key=lambda one: _WORST_FIRST.index(one[1].level))
    cells = [[shipper, finding.check, finding.level, finding.text, finding.todo] for shipper, finding in shown]
    first = int(len(found) == 1)  # without the column of shippers
    print_table(names[first:], [row[first:] for row in cells])


def _folded(findings: Sequence["Finding"]) -> Iterator["Finding"]:
    """The findings, with all that are ok about several things of one kind, such as mappings, as one."""
    fine = Counter(finding.check for finding in findings if finding.level == "ok")
    folded: set[str] = set()
    for finding in findings:
        count = fine[finding.check]
        if finding.level != "ok" or count == 1:
            yield finding
        elif finding.check not in folded:
            folded.add(finding.check)
            yield replace(finding, text=f"{count:,} ok (--json lists them)", todo="")

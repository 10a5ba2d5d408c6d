"""`loadsheet doctor`: checks whether everything is in place, and says what to do if not.

Owns: the checks and their order, and the display of findings.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from loadsheet.cli.doctor import folder_checks, ledger_checks, remote_checks
from loadsheet.cli.doctor.findings import Finding, checked, wrong
from loadsheet.cli.doctor.remote_checks import A_TEST, notices, send
from loadsheet.cli.ledger_access import clock as clock_of_this_command
from loadsheet.cli.options import CONFIG, EXCHANGE, INBOX, JSON, MAPPINGS, OUTBOX, STATE, load_each, together
from loadsheet.cli.output import print_json, print_table
from loadsheet.ledger import Clock, utc_now
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings


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
    every = load_each(config, **given)
    now = clock_of_this_command()
    machine = [*ledger_checks.versions(), *folder_checks.user()]
    found = {name: list(_examined(settings, now, quick=quick)) for name, settings in every.items()}
    found = {"": machine + found.pop("", [])} | found
    if notify is not None:
        sound = [settings for settings in every.values() if isinstance(settings, Settings)]
        found[""] += send(sound, notify, [finding for findings in found.values() for finding in findings], now())
    _show(found, as_json=as_json)
    return int(any(finding.level == "wrong" for findings in found.values() for finding in findings))


def _examined(settings: Settings | SettingsError, clock: Clock, *, quick: bool) -> Iterator[Finding]:
    if isinstance(settings, SettingsError):
        yield wrong("settings", str(settings))
    else:
        yield from examine(settings, clock, quick=quick)


def examine(settings: Settings, clock: Clock, *, ours: Clock = utc_now, quick: bool = False) -> Iterator[Finding]:
    """Every finding about one set of settings. `clock` gives the time for ages, `ours` the time of this machine's clock (both aware,
    UTC).
    """
    yield from folder_checks.settings_file(settings)
    yield from folder_checks.folders(settings)
    yield from folder_checks.free_space(settings)
    yield from checked("mappings", lambda: ledger_checks.mappings(settings))
    yield from checked("ledger", lambda: ledger_checks.ledger(settings, clock(), quick=quick))
    yield from checked("token", lambda: remote_checks.token(settings))
    if not quick:
        yield from checked("exchange", lambda: remote_checks.exchange(settings, ours))
        yield from notices(settings)


def _show(found: Mapping[str, list[Finding]], *, as_json: bool) -> None:
    rows = [(shipper, finding) for shipper, findings in found.items() for finding in findings]
    if as_json:
        print_json([_plain(shipper, finding) for shipper, finding in rows])
        return
    several = len(found) > 1
    heads = [*(["Shipper"] if several else []), "Check", "", "Finding", "What to do"]
    print_table(
        heads,
        [
            [*([shipper] if several else []), finding.check, finding.level, finding.text, finding.todo]
            for shipper, finding in rows
        ],
    )


def _plain(shipper: str, finding: Finding) -> dict[str, object]:
    return {
        "shipper": shipper,
        "check": finding.check,
        "level": finding.level,
        "ok": finding.level != "wrong",
        "finding": finding.text,
        "do": finding.todo,
    }

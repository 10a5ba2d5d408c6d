"""`loadsheet report`: rebuilds the reports of a run, or of all runs of a day together, from the ledger."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from loadsheet import exit_codes
from loadsheet.cli.options import (
    CONFIG,
    EXCHANGE,
    JSON,
    OUTBOX,
    STATE,
    combined_options,
    grouped,
    held_ledger,
    ledger_to_read,
    load,
    run_names,
)
from loadsheet.cli.output import print_lines, print_raw_json, say
from loadsheet.display_text import count_of
from loadsheet.errors import FolderError
from loadsheet.places import write_privately

if TYPE_CHECKING:
    from loadsheet import reconcile, reports
    from loadsheet.dispatch import Listings
    from loadsheet.ledger import Drop, Ledger, Run
    from loadsheet.ledger.queries import LedgerQueries
    from loadsheet.settings import Settings

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LATEST_RUNS = 100


class Selection(NamedTuple):
    """The subject of the reports: a run, or one that combines all runs of a day; the runs themselves, oldest first, and their drops."""

    run: "Run"
    runs: "tuple[Run, ...]"
    drops: "tuple[Drop, ...]"


class ReportOptions(NamedTuple):
    """The run or day to report (neither: the last run), whether the exchange is asked now, and whether a report is opened."""

    name: str | None
    day: str | None
    ask: bool
    opening: bool


@click.command()
@click.option(
    "--run",
    "name",
    metavar="N",
    shell_complete=run_names,
    help="The run, such as 2026-03-04-01 (default: the last one).",
)
@click.option("--day", metavar="D", help="Report all runs of a day, such as 2026-03-04 in local time, as one.")
@click.option("--ask", is_flag=True, help="Query the exchange's listings now, instead of showing what the run saw.")
@click.option("--open", "opening", is_flag=True, help="Open the page or the workbook.")
@click.option(
    "--schema",
    type=click.Choice(["run", "ack"]),
    is_flag=False,
    flag_value="run",
    help="Print the JSON Schema of run.json or of the acknowledgements, and nothing else.",
)
@combined_options(OUTBOX, STATE, EXCHANGE, CONFIG, JSON)
@grouped(options=ReportOptions)
def report(*, options: ReportOptions, schema: str | None, as_json: bool, config: Path | None, **given: Any) -> int:
    """Rebuild the reports of a run from the current ledger, in the folder of the run.

    They show what the run itself saw at the exchange. An entry that has changed since then is not verifiable, unless --ask queries
    the exchange now. Nothing is sent. Only the analyst's entries in the replaced workbook are recorded, so another run may be in
    progress. The exit code is 0 if the run, or all of the day, ended with 0 as the reports show it, and 1 if not. Other codes are
    failures of this command.
    """
    from loadsheet import reports

    if schema:
        print_raw_json(reports.acknowledgement_schema() if schema == "ack" else reports.schema())
        return 0
    name, day, ask, opening = options
    _check(name, day)
    settings = load(config, **given)
    write_privately(say, allow_root=True)
    with ledger_to_read(settings) as ledger:
        selection = _select(ledger.queries, name, day)
        if selection is None:
            missing = f"there was no run on {day}" if day else f"there is no run {name or 'yet'}"
            say(f"{missing}; `loadsheet runs` lists the runs")
            return exit_codes.NOTHING_USABLE
        selection = _with_progress(selection, ledger.queries, settings)
        _keep_annotations(settings, ledger, selection.run.name)
        written, found = _write(ledger.queries, selection, settings, ask=ask)
    if written.incomplete is not None:
        raise written.incomplete
    if not day and reports.missing_reports(selection.run):
        with held_ledger(settings) as ours:
            opened = [status for status in found.exceptions.statuses if status.run == selection.run.name]
            ours.record_late_reports(selection.run, written.in_ledger, opened)
    if as_json:
        print_raw_json(written.summary.to_json())
    else:
        print_lines(written.lines())
    if opening:  # the page, or the workbook if there is none
        path = next(path for path in written.paths if path.suffix in (".html", ".xlsx"))
        if click.launch(str(path.absolute())):
            say(f"no program on this machine could open {path}")
    return exit_codes.DONE if written.summary.exit_code == exit_codes.DONE else exit_codes.NEEDS_SOMEONE


def _check(name: str | None, day: str | None) -> None:
    if name and day:
        raise click.UsageError("--run and --day exclude each other")
    if day is not None and not _is_date(day):
        raise click.BadParameter(f"{day} is not a date; write it as 2026-03-04", param_hint="--day")
    if name is not None and _DAY.fullmatch(name):
        raise click.BadParameter(f"{name} is a date; write --day {name}", param_hint="--run")


def _is_date(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text) and date.fromisoformat(text))
    except ValueError:
        return False


def _select(queries: "LedgerQueries", name: str | None, day: str | None) -> Selection | None:
    """The subject of the reports; None if there is none. A day begins with its first run and ends as its last."""
    if not name and not day:
        latest = queries.runs(_LATEST_RUNS)
        chosen = next((run for run in latest if queries.listing_snapshot(run)), next(iter(latest), None))
        runs = [chosen] if chosen else []
    else:
        runs = queries.runs_of_day(day) if day else [run for run in queries.runs_named(name or "") if run.name == name]
    if not runs:
        return None
    first, last = runs[0], runs[-1]
    if not day:
        return Selection(last, tuple(runs), tuple(queries.drops_of(*runs)))
    run = replace(last, name=day, started_at=first.started_at, parts=tuple(one.name for one in runs))
    return Selection(run, tuple(runs), tuple(queries.drops_of(*runs)))


def _with_progress(selection: Selection, queries: "LedgerQueries", settings: "Settings") -> Selection:
    """The selection; if a process works on its last run now, that run is in progress. Says so, or what to do if it did not finish."""
    from loadsheet.ledger import State, reported_by
    from loadsheet.run_resources import holder_of

    last = selection.runs[-1]
    if last.finished_at or reported_by(last):
        return selection
    holder = holder_of(settings)
    if not holder:
        say(f"run {last.name} did not finish: `loadsheet run` resumes and reports it")
        return selection
    sending = queries.count_in(State.SENDING)
    say(
        f"run {last.name} is in progress, by {holder}: {count_of(sending, 'document')} being sent now, outcome not known yet"
    )
    return selection._replace(run=replace(selection.run, in_progress=True))


def _keep_annotations(settings: "Settings", ledger: "Ledger", folder: str) -> None:
    """Import the analyst's entries before the workbook is replaced. Raises LedgerBusy if a run holds the ledger, and FolderError if the
    workbook cannot be read.
    """
    from loadsheet.annotations import import_annotations
    from loadsheet.places import place_text

    if not _unread_annotations(folder, settings, ledger):
        return
    with held_ledger(settings) as ours:
        import_annotations(settings, ours)
        for name in _unread_annotations(folder, settings, ours):
            text = f"{place_text(settings.outbox / name)} was changed and cannot be read now"
            raise FolderError(f"{text}; nothing was written: close it or move it away, then try again")


def _unread_annotations(folder: str, settings: "Settings", ledger: "Ledger") -> list[str]:
    from loadsheet.annotations import unread_workbooks

    return [name for name in unread_workbooks(settings, ledger) if name.startswith(f"{folder}/")]


def _write(
    queries: "LedgerQueries", selection: Selection, settings: "Settings", *, ask: bool
) -> "tuple[reports.Written, reconcile.Reconciliation]":
    from loadsheet import reconcile, reports

    recalled = reconcile.RecordedListings([(run, queries.listing_snapshot(run)) for run in selection.runs])
    seen = _listings(selection.drops, settings) if ask else recalled
    found = reconcile.reconcile_run(queries, seen, selection.run, settings, drops=selection.drops)
    remarks = recalled.notes.remarks
    if selection.run.in_progress:
        remarks = (*remarks, "The run is in progress: what is being sent now counts as waiting to be sent.")
    found = replace(found, notes=recalled.notes._replace(remarks=remarks))
    return reports.write(queries, found, selection.run, settings), found


def _listings(drops: Sequence["Drop"], settings: "Settings") -> "Listings":
    """The current listings for the subjects of these drops; raises ExchangeUnreachable and TokenRefused."""
    from loadsheet.contract import BY_NAME
    from loadsheet.dispatch import fetch_listings
    from loadsheet.run_resources import exchange_client

    operations = [BY_NAME[name] for drop in drops for name in drop.operations]
    subjects = {operation.subject for operation in operations if operation.proved_by}
    if not subjects:
        return {}
    with exchange_client(settings) as client:
        return fetch_listings(client, subjects)

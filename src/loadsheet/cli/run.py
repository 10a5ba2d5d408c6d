"""`loadsheet run`: processes every finished file in the inbox once; for several shippers, one after the other.

Owns: the output of a run, and the combined exit code of several shippers. A failure of one shipper does not stop the others.
"""

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from loadsheet import exit_codes
from loadsheet.cli import Failed, attempt_action
from loadsheet.cli.options import (
    CONFIG,
    EXCHANGE,
    INBOX,
    JSON,
    MAPPINGS,
    OUTBOX,
    STATE,
    any_allows_root,
    clock,
    combined_options,
    grouped,
    held_ledger,
    is_quiet,
    ledger_to_read,
    load_each,
    serves_all,
    settings_or_raise,
)
from loadsheet.cli.output import print_json, print_lines, print_raw_json, progress, say
from loadsheet.display_text import count_of
from loadsheet.errors import FolderError, LedgerMissing, LoadsheetError, SettingsError, TokenRefused
from loadsheet.internal_errors import Terminated, failed_steps_text, isolated, stop_signals
from loadsheet.places import write_privately

if TYPE_CHECKING:
    from loadsheet import inbox
    from loadsheet.forecasts import Forecast
    from loadsheet.ledger import Ledger
    from loadsheet.pipeline import Result
    from loadsheet.run_resources import RunResources
    from loadsheet.settings import Settings

_STAGES = {
    "learn": "looking up earlier calls",
    "intake": "waiting for complete files",
    "one drop": "reading {file}",
    "sending": "sending",
    "reconcile": "reconciling",
    "reports": "writing reports",
}
_STRAYS_SHOWN = 5
_UNITS = (("h", 3600), ("min", 60), ("s", 1))


def _parse_time(_ctx: click.Context, _option: click.Parameter, text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text is not None else None
    except ValueError:
        raise click.BadParameter(f"{text} is not a valid date or time; write 2026-03-04 or 2026-03-04T21:30") from None
    return found.astimezone() if found else None


class OutputOptions(NamedTuple):
    """The output options of a run."""

    as_json: bool
    exit_zero: bool
    quiet: bool
    verbose: bool


@click.command()
@combined_options(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option("--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must be unchanged (default: 5).")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Send at most N entries; the rest stay ready.")
@click.option(
    "--since", callback=_parse_time, metavar="WHEN", help="Process only files changed since this date or time."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be sent. Nothing is moved, stored or sent.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 instead of 1 or 65 if rows need someone.")
@click.option("--quiet", is_flag=True, help="Print nothing unless something needs someone, as in a pipe.")
@click.option(
    "--verbose", is_flag=True, help="Print events as they happen, even in a pipe or if the settings say quiet."
)
@JSON
@grouped(output=OutputOptions)
def run(
    *,
    output: OutputOptions,
    limit: int | None,
    since: datetime | None,
    dry_run: bool,
    config: Path | None,
    **given: Any,
) -> int:
    """Process every finished file in the inbox, submit what is ready, and report the outcome of every row.

    If shippers are declared and none is named, each of them is processed, one after the other. The exit code is then the worst one
    (70, 78, 77, 75, 65, 1, 0).
    """
    given |= {"run_entries_max": limit, "arrived_since": since, "log_level": "info" if output.verbose else None}
    found = load_each(config, **given)
    silent = any(not isinstance(settings, SettingsError) and is_quiet(settings) for settings in found.values())
    write_privately(say, allow_root=output.quiet or silent or any_allows_root(found.values()))
    return run_shippers(config, found, output, dry_run=dry_run)


class ShipperOutcome(NamedTuple):
    """The outcome of one shipper's run: exit code, lines, JSON (empty if it failed), and the reason why it failed or stopped."""

    exit_code: int
    lines: tuple[str, ...] = ()
    json: bytes = b""
    stopped: str = ""


Show = Callable[[ShipperOutcome], None]
Action = Callable[["Settings", OutputOptions, Show], ShipperOutcome]
"""Runs one shipper, or forecasts its run, and shows the outcome."""


def run_shippers(
    config: Path | None, found: "dict[str, Settings | SettingsError]", output: OutputOptions, *, dry_run: bool
) -> int:
    """Run these shippers, or forecast their runs; returns the exit code. `config` is the settings file that declares them."""
    action = _dry_run if dry_run else _run_shipper
    with _terminable():
        outside_code = (
            exit_codes.NEEDS_SOMEONE
            if report_files_outside(config, found) and not output.exit_zero
            else exit_codes.DONE
        )
        if len(found) == 1:
            return _run_one(next(iter(found.values())), action, output) or outside_code
        return _run_each(found, action, output, outside_code)


def _run_one(settings: "Settings | SettingsError", action: Action, output: OutputOptions) -> int:
    def show(outcome: ShipperOutcome) -> None:
        if output.as_json:
            print_raw_json(outcome.json)
        else:
            print_lines(outcome.lines)
        if outcome.stopped:
            say(f"loadsheet: {outcome.stopped}")

    return action(settings_or_raise(settings), output, show).exit_code


def _run_each(
    found: "dict[str, Settings | SettingsError]",
    action: Action,
    output: OutputOptions,
    outside_code: int,
) -> int:
    """Run several shippers independently; returns the worst exit code. `outside_code` is that of files outside their folders."""
    outcomes: dict[str, ShipperOutcome] = {}
    for name, settings in found.items():
        done = attempt_action(partial(_act_on, settings, action, output))
        outcome = ShipperOutcome(done.exit_code, stopped=done.why) if isinstance(done, Failed) else done
        outcomes[name] = outcome
        if outcome.lines and not output.as_json:
            print_lines([f"{name}:", *outcome.lines])
        if outcome.stopped:
            say(f"loadsheet: {name}: {outcome.stopped}")
    worst = exit_codes.worst([outside_code, *(outcome.exit_code for outcome in outcomes.values())])
    if output.as_json:
        shippers = {
            name: {
                "exit_code": outcome.exit_code,
                "stopped": outcome.stopped or None,
                "summary": msgspec.Raw(outcome.json or b"null"),
            }
            for name, outcome in outcomes.items()
        }
        print_json({"exit_code": worst, "shippers": shippers})
    return worst


def _act_on(settings: "Settings | SettingsError", action: Action, output: OutputOptions) -> ShipperOutcome:
    """The outcome of one of several shippers, which is printed after its run."""
    return action(settings_or_raise(settings), output, lambda _outcome: None)


def _run_shipper(settings: "Settings", output: OutputOptions, show: Show) -> ShipperOutcome:
    from loadsheet import inbox
    from loadsheet.inbox import make_inbox
    from loadsheet.ledger.ledger_opening import is_there
    from loadsheet.mapping.mapping_folder import load_folder
    from loadsheet.operations.run_hooks import RunWithHooks

    if not settings.mappings.is_dir() and not settings.is_shared and not is_there(settings.database_url):
        # Raises: a first run in a wrong folder leaves nothing behind.
        load_folder(settings.mappings, settings.assumptions)
    make_inbox(settings)
    with RunWithHooks(settings, lambda: held_ledger(settings), clock=clock(), say=say) as whole:
        result = whole.run(partial(_resources, settings))
        faults: dict[str, str] = {}
        with isolated("the summary", faults):
            lines = tuple(result.reports.lines(verbose=output.verbose))
        result = whole.correct_if_changed(result.with_failed_steps(faults))
        outcome = _outcome(settings, output, result, () if faults else lines)
        show(outcome)
    answer_check_folder(settings, inbox.scan)
    return outcome


def answer_check_folder(
    settings: "Settings", scan: "Callable[[Settings], inbox.Scan]", say: Callable[[str], None] = say
) -> None:
    """Answer the files of the check folder. A failure is reported and has no other effect: the next run tries again."""
    if settings.check_folder is None:
        return
    from loadsheet.forecasts import report_on_check_folder

    faults: dict[str, str] = {}
    with isolated("the check folder", faults):
        try:
            with ledger_to_read(settings) as ledger:
                for answer in report_on_check_folder(settings, ledger, scan):
                    say(f"checked: {answer.folder}: {answer.summary}")
        except LoadsheetError as error:
            say(f"files to be checked are not answered: {error}")
    if faults:
        say(f"files to be checked are not answered: {failed_steps_text(faults)}")


def _outcome(settings: "Settings", output: OutputOptions, result: "Result", lines: tuple[str, ...]) -> ShipperOutcome:
    """The outcome of a run for stdout; prints the messages for stderr."""
    silent = (output.quiet or is_quiet(settings)) and not output.verbose and not result.exit_code
    for problem in result.inbox_problems:
        if not silent:
            say(str(problem))
    if result.late:
        say(result.late)
    summary, limit = result.reports.summary, settings.dispatch.run_entries_max
    if limit and summary.ready and result.stopped is None and not silent:
        say(f"{count_of(summary.ready, 'document')} left for the next run: a run sends at most {limit:,}")
    code = exit_codes.without_rows(result.exit_code) if output.exit_zero else result.exit_code
    return ShipperOutcome(code, () if silent else lines, summary.to_json(), _stop_reason(result.stopped, settings))


def _stop_reason(stopped: LoadsheetError | None, settings: "Settings") -> str:
    """Why a run ended early and what to do; empty if it did not."""
    if stopped is None:
        return ""
    from loadsheet.credentials import source
    from loadsheet.settings import EMBEDDED

    if isinstance(stopped, TokenRefused) and settings.exchange != EMBEDDED:
        todo = f"replace the token ({source(settings)}), then run again"
        return f"{stopped.found}; unsent entries are still ready: {todo}"
    return str(stopped)


@contextmanager
def _resources(settings: "Settings") -> "Iterator[RunResources]":
    """What a run works with."""
    from loadsheet import run_log
    from loadsheet.run_resources import RunResources, dispatcher_for

    with held_ledger(settings) as ledger, dispatcher_for(settings, say) as dispatcher, progress("preparing") as bar:
        if bar is None:
            yield RunResources(ledger, dispatcher)
            return
        run_log.tell_stages(lambda stage, fields: bar.begin(_STAGES[stage].format_map(fields)))
        yield RunResources(ledger, dispatcher, bar.advance)


def _dry_run(settings: "Settings", output: OutputOptions, show: Show) -> ShipperOutcome:
    from loadsheet.dispatch.circuit_breaker import LastLimit
    from loadsheet.forecasts import forecast_run
    from loadsheet.mapping.mapping_folder import load_folder

    mappings = load_folder(settings.mappings, settings.assumptions)
    with _ledger_or_empty(settings) as ledger:
        forecast = forecast_run(settings, ledger, mappings)
        last = LastLimit(ledger, settings.exchange.rstrip("/")).read()
    code = exit_codes.without_rows(forecast.exit_code) if output.exit_zero else forecast.exit_code
    for problem in forecast.inbox_problems:
        say(str(problem))
    lines = (
        *_forecast_lines(forecast, settings.dispatch.run_entries_max),
        *_time_line(forecast, settings, last.per_second if last else 0.0),
    )
    outcome = ShipperOutcome(code, lines, msgspec.json.encode(forecast.to_json()))
    show(outcome)
    return outcome


@contextmanager
def _ledger_or_empty(settings: "Settings") -> "Iterator[Ledger]":
    """The ledger for reading; a temporary empty one if there is none."""
    from loadsheet.ledger import open_ledger

    with ExitStack() as stack:
        try:
            ledger = stack.enter_context(ledger_to_read(settings))
        except LedgerMissing:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="loadsheet-"))
            ledger = stack.enter_context(open_ledger(f"sqlite:///{Path(folder, 'ledger.db')}"))
        yield ledger


def _forecast_lines(forecast: "Forecast", limit: int) -> Iterator[str]:
    """The forecast as text; `limit` is the number of records that one run sends (0: no limit)."""
    from loadsheet.cli.check import describe_cause
    from loadsheet.forecasts import STATE_WORDS

    for drop in forecast.drops:
        records = drop["records"]
        counts = [f"{records[name]:,} {words}" for name, words in STATE_WORDS.items() if records.get(name)]
        yield f"{' + '.join(drop['files'])} ({drop['mapping']}): {', '.join(counts) or 'no record'}"
    for name, problem in forecast.aside.items():
        yield f"{name}: would be set aside: {problem.text}"
    for cause in forecast.causes.ranked():
        yield from describe_cause(cause).splitlines()
    earlier, unknown = forecast.already["ready"], forecast.already["unknown"]
    ready = forecast.states["ready"] + earlier
    counts = [f"{count_of(ready, 'record')} would be sent"]
    if earlier:
        counts.append(f"{earlier:,} of them ready since earlier runs")
    if limit and ready > limit:
        counts.append(f"{limit:,} of them by this run, the rest by later runs")
    if unknown:
        counts.append(f"{count_of(unknown, 'unknown record')} of earlier runs would be verified first")
    yield "; ".join(counts) + ". Nothing was moved, stored or sent"


def _time_line(forecast: "Forecast", settings: "Settings", per_second: float) -> Iterator[str]:
    """How long sending would take at the rate of the last run at this exchange; nothing if that is unknown."""
    ready, limit = forecast.states["ready"] + forecast.already["ready"], settings.dispatch.run_entries_max
    count = min(ready, limit) if limit else ready
    if not (count and per_second):
        return
    seconds = count / per_second
    amount, unit = next((seconds / size, name) for name, size in _UNITS if seconds >= size or size == 1)
    rate = f"{per_second:,.0f} documents a second" if per_second >= 1 else f"{per_second * 3600:,.0f} documents an hour"
    yield f"At the rate of the last run at this exchange ({rate}), sending takes about {amount:,.0f} {unit}"


def report_files_outside(config: Path | None, shippers: "Mapping[str, Settings | SettingsError]") -> bool:
    """Report the files in the shared inbox that are outside the shippers' folders, because no run processes them; only if `shippers` are
    all that are declared. For a shipper with wrong settings, its default folder counts. Returns whether there are any.
    """
    from loadsheet.inbox import files_outside
    from loadsheet.places import place_text as place_shown
    from loadsheet.settings import Settings

    if not serves_all(shippers):
        return False
    try:
        shared = Settings.load(config)
        own = [found.inbox if isinstance(found, Settings) else shared.inbox / name for name, found in shippers.items()]
        own = [folder for folder in own if folder.is_relative_to(shared.inbox)]
        names = files_outside(shared, own) if shared.inbox_address or shared.inbox.is_dir() else []
    except (FolderError, SettingsError) as error:
        say(f"loadsheet: {error}")
        return False
    if names:
        named = ", ".join(names[:_STRAYS_SHOWN]) + (" ..." if len(names) > _STRAYS_SHOWN else "")
        count, them = ("1 file is", "it") if len(names) == 1 else (f"{len(names)} files are", "them")
        say(f"{count} in {place_shown(shared.inbox)}, outside the shippers' folders: no run processes {them}: {named}")
    return bool(names)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, or a terminal that closes, ends a run like Ctrl-C: locks are released and the exit code is 143. Calls in progress are
    finished first (see `dispatch.sending`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        raise Terminated

    before = {number: signal.signal(number, end) for number in stop_signals() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

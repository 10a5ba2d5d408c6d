"""`loadsheet watch`: starts a run whenever files are finished, until it is stopped; for several shippers, in one process.

Owns: the resources held for each shipper. An error ends only the watch of its shipper.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
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
    MAPPINGS,
    OUTBOX,
    STATE,
    any_allows_root,
    clock,
    combined_options,
    held_ledger,
    ledger_to_read,
    load_each,
    settings_or_raise,
)
from loadsheet.cli.output import print_lines, say
from loadsheet.cli.run import answer_check_folder, report_files_outside
from loadsheet.display_text import count_of
from loadsheet.errors import LoadsheetError, ReportsIncomplete, SettingsError
from loadsheet.internal_errors import failed_steps_text
from loadsheet.places import write_privately

if TYPE_CHECKING:
    from loadsheet.cluster.timetable import SharedTimetable, Timetable
    from loadsheet.dispatch import Dispatcher
    from loadsheet.inbox_watch import Watch, WatchedRun
    from loadsheet.ledger import Ledger
    from loadsheet.operations.health import WatchStatus
    from loadsheet.pipeline import Result
    from loadsheet.run_resources import RunResources
    from loadsheet.settings import Settings


@click.command()
@combined_options(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option("--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must be unchanged (default: 5).")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON on stdout for each run.")
def watch(*, config: Path | None, as_json: bool, **given: Any) -> int:
    """Keep running, and start a run whenever files are finished or entries are ready to be sent or verified.

    A watch holds an SQLite ledger, so a `loadsheet run` beside it exits with 75. With a ledger on PostgreSQL and a live worker, the
    worker does the runs; otherwise the watch does them. SIGTERM ends it with 0 once the calls in flight are finished; the next
    start continues. Temporary failures are retried after growing pauses. A wrong mapping or setting (78), a refused token (77) or
    an internal error (70) ends the watch.

    If shippers are declared and none is named, all are watched, one run after the other. If the watch of one shipper ends, the
    others continue. When none is left, the watch exits with the worst exit code.
    """
    found = load_each(config, **given)
    write_privately(say, allow_root=any_allows_root(found.values()))
    return watch_shippers(config, found, as_json=as_json)


def watch_shippers(config: Path | None, found: "dict[str, Settings | SettingsError]", *, as_json: bool) -> int:
    """Watch these shippers until a signal, or until none is left; returns the exit code. `config` is the settings file that declares them."""
    from loadsheet.inbox_watch import WakeEvents
    from loadsheet.inbox_watch import watch as run_watches
    from loadsheet.operations.health import serve_status
    from loadsheet.places import place_text as place_shown
    from loadsheet.settings import Settings

    with ExitStack() as stack:
        several = len(found) > 1
        held = {name: _hold_or_report(name, settings, stack, several=several) for name, settings in found.items()}
        missing = {name: code for name, code in held.items() if isinstance(code, int)}
        codes = list(missing.values())  # of the shippers that are not or no longer watched
        if len(missing) == len(held):
            return exit_codes.worst(codes)
        (first, *more) = found.values()
        shared = Settings.load(config) if more or isinstance(first, SettingsError) else first
        status = stack.enter_context(serve_status(shared, say))
        for name, code in missing.items():
            status.ended(name, code, "it is not watched")
        ours = [shipper for shipper in held.values() if isinstance(shipper, _HeldShipper)]
        wake_events = stack.enter_context(WakeEvents([shipper.settings for shipper in ours], _warn))
        context = _WatchContext(status, as_json, several, codes, stopping=wake_events.signals)
        watches = [_ShipperWatch(shipper, context).watch for shipper in ours]
        say(f"watching {', '.join(place_shown(shipper.settings.inbox) for shipper in ours)}", level="info")
        report_files_outside(config, found)
        try:
            stopped_by = run_watches(watches, wake_events, on_turn=status.checked)
        except LoadsheetError as error:
            if not codes:
                raise
            _warn(str(error))
            return exit_codes.worst([*codes, error.exit_code])
    say("stopped; the next start continues", level="info")
    return exit_codes.INTERRUPTED if stopped_by == signal.SIGINT else 0


class _WatchContext(NamedTuple):
    """The values that the watches of all shippers share; `stopping` holds the signals received so far."""

    status: "WatchStatus"
    as_json: bool
    several: bool
    codes: list[int]
    stopping: Sequence[int]


class _HeldShipper(NamedTuple):
    """The resources held for one shipper until `stack` is closed, and its timetable. With a shared ledger each run makes its own dispatcher
    (None here).
    """

    settings: "Settings"
    ledger: "Ledger"
    dispatcher: "Dispatcher | None"
    stack: ExitStack
    warn: Callable[[str], None]
    timetable: "Timetable | SharedTimetable"


def _hold_or_report(
    name: str, settings: "Settings | SettingsError", stack: ExitStack, *, several: bool
) -> _HeldShipper | int:
    """Open the resources of one shipper. If that fails and there are other shippers, report it and return the exit code."""
    if not several:
        return _hold(settings_or_raise(settings), stack, _warn)
    own = stack.enter_context(ExitStack())
    held = attempt_action(lambda: _hold(settings_or_raise(settings), own, lambda text: _warn(f"{name}: {text}")))
    if isinstance(held, Failed):
        _warn(f"{name}: {held.why}; this shipper is not watched")
        own.close()
        return held.exit_code
    return held


def _hold(settings: "Settings", stack: ExitStack, warn: Callable[[str], None]) -> _HeldShipper:
    """The resources of one shipper. A shared ledger is only read here: each run holds it for itself, and other processes may run in between."""
    from loadsheet.cluster.timetable import SharedTimetable, Timetable
    from loadsheet.inbox import make_inbox
    from loadsheet.ledger.ledger_opening import create_on_server, holder_name
    from loadsheet.mapping.mapping_folder import load_folder
    from loadsheet.run_resources import check_exchange, dispatcher_for

    for broken in load_folder(settings.mappings, settings.assumptions).broken:  # reported at once, not by the first run
        warn(str(broken.problem))
    make_inbox(settings)
    if settings.is_shared:
        create_on_server(settings.database_url)
        ledger = stack.enter_context(ledger_to_read(settings))
        check_exchange(settings)
        return _HeldShipper(settings, ledger, None, stack, warn, SharedTimetable(settings, holder_name()))
    ledger = stack.enter_context(held_ledger(settings))
    dispatcher = stack.enter_context(dispatcher_for(settings, say))
    return _HeldShipper(settings, ledger, dispatcher, stack, warn, Timetable(settings, ledger, clock()))


class _ShipperWatch:
    """Does the runs of one shipper. With several shippers, an internal error ends the watch of this one only."""

    def __init__(self, held: _HeldShipper, context: _WatchContext) -> None:
        self._held, self._context, self._settings = held, context, held.settings
        self._warned = ""
        self._prefix = f"{held.settings.shipper}: " if context.several else ""

    @property
    def watch(self) -> "Watch":
        """The watch with these runs."""
        from loadsheet import inbox
        from loadsheet.cluster.timetable import is_run_pending
        from loadsheet.inbox_watch import Watch
        from loadsheet.ledger import State

        settings, ledger = self._settings, self._held.ledger
        return Watch(
            settings,
            self._run_isolated if self._context.several else self._run,
            lambda: ledger.queries.count_in(State.READY, State.SENDING, State.UNKNOWN),
            self._held.warn,
            self._close,
            lambda: due_s(settings, ledger),
            self._held.timetable.due_s,
            partial(is_run_pending, settings) if settings.is_shared else lambda: False,
            partial(answer_check_folder, settings, inbox.scan_without_waiting, self._warn_once),
        )

    def _warn_once(self, text: str) -> None:
        """Report, unless the last report said the same: a failure would repeat itself at every scan."""
        if text != self._warned:
            self._warned = text
            self._held.warn(text)

    def _close(self, why: LoadsheetError) -> None:
        self._context.codes.append(why.exit_code)
        self._held.stack.close()

    def _run_isolated(self) -> "WatchedRun":
        ended = attempt_action(self._run)
        if isinstance(ended, Failed):
            error = LoadsheetError(ended.why)
            error.exit_code = ended.exit_code
            raise error
        return ended

    def _run(self) -> "WatchedRun":
        from loadsheet.cluster.timetable import enqueue_run
        from loadsheet.inbox_watch import WatchedRun
        from loadsheet.operations.run_hooks import RunWithHooks

        settings, timetable = self._settings, self._held.timetable
        status, began = self._context.status, clock()()
        if settings.is_shared and enqueue_run(settings, began):
            timetable.record_run(began)
            return WatchedRun(0, None, queued=True)
        if late := timetable.late():
            say(f"{self._prefix}catching up: {late}")
        with RunWithHooks(settings, self._ledger_for_corrections, clock=clock(), say=say) as whole:
            result = whole.run(self._resources, status)
            result = whole.correct_if_changed(result)
            self._print(result)
        if result.undone:
            status.ended(settings.shipper, result.exit_code, failed_steps_text(result.undone))
        stopped = result.stopped
        if isinstance(stopped, ReportsIncomplete):  # what was sent is recorded: the watch continues
            say(f"loadsheet: {stopped}")
            stopped = None
        if stopped is None:
            timetable.record_run(began)
        return WatchedRun(result.exit_code, stopped, result.inbox_problems)

    @contextmanager
    def _resources(self) -> "Iterator[RunResources]":
        """What one run works with: the held ledger and dispatcher, or new ones with a shared ledger."""
        from loadsheet.run_resources import RunResources, dispatcher_for

        stopping, progress = self._context.stopping, self._context.status.progress
        if self._held.dispatcher is not None:
            # a signal may come long before anything is sent
            yield RunResources(self._held.ledger, self._held.dispatcher._replace(stopping=stopping), progress)
            return
        with held_ledger(self._settings) as ledger, dispatcher_for(self._settings, say, stopping) as dispatcher:
            yield RunResources(ledger, dispatcher, progress)

    def _ledger_for_corrections(self) -> "AbstractContextManager[Ledger]":
        """The ledger for corrections after the end of a run."""
        return held_ledger(self._settings) if self._settings.is_shared else nullcontext(self._held.ledger)

    def _print(self, result: "Result") -> None:
        from loadsheet.places import place_text as place_shown

        for problem in result.inbox_problems:
            say(str(problem))
        summary = result.reports.summary
        if self._context.as_json:
            summary_json = msgspec.Raw(summary.to_json())
            shipper = {"shipper": self._settings.shipper, "summary": summary_json}
            line = msgspec.json.encode(shipper if self._context.several else summary_json)
            print_lines([msgspec.json.format(line, indent=-1).decode()])
            return
        files = count_of(sum(len(drop.files) for drop in summary.drops), "file")
        end = f"exit code {summary.exit_code}, reports in {place_shown(result.reports.place)}"
        print_lines([f"{self._prefix}{summary.finished_at} run {summary.run}: {files}, {summary.counts_text}; {end}"])


def due_s(settings: "Settings", ledger: "Ledger") -> float | None:
    """Seconds until the next expected file is due after the last check. The run after that reports it if it is late."""
    from loadsheet.operations.expected_files import next_due

    now, (_, checked) = clock()(), ledger.queries.first_and_last_start()
    due = next_due(settings, datetime.fromisoformat(checked) if checked else now)
    return None if due is None else (due - now).total_seconds()


def _warn(text: str) -> None:
    say(f"loadsheet: {text}")

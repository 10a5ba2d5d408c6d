"""`loadsheet run`: everything that is finished in the inbox, once; of every shipper, one after the other, where several are declared.

Owns: what a run says, and to which exit code the runs of several shippers add up. One shipper's failure stops no other.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from loadsheet import pipeline
from loadsheet.cli import Terminated, ending
from loadsheet.cli.connections import dispatcher_for, held_ledger, say_strays
from loadsheet.cli.dry_run import foretell
from loadsheet.cli.moments import clock
from loadsheet.cli.options import (
    CONFIG,
    EXCHANGE,
    INBOX,
    JSON,
    MAPPINGS,
    OUTBOX,
    STATE,
    any_allows_root,
    load_each,
    serves_all,
    sound,
    together,
    worst_of,
)
from loadsheet.cli.output import print_json, print_lines, print_raw_json, progress, say
from loadsheet.cli.run_end import RunEnd
from loadsheet.credentials import source
from loadsheet.file_modes import write_privately
from loadsheet.inbox import make_inbox
from loadsheet.internal_errors import isolated
from loadsheet.ledger import State
from loadsheet.operations.run_hooks import run_with_hooks
from loadsheet.problems import LoadsheetError, SettingsError, TokenRefused
from loadsheet.settings import EMBEDDED, Settings
from loadsheet.stages import Result

_NEEDS_SOMEONE = (1, 65)


class Told(NamedTuple):
    """What a shipper's run came to: its exit code, its sentences, its JSON (none if it broke), and why it broke or stopped."""

    exit_code: int
    lines: tuple[str, ...] = ()
    json: bytes = b""
    stopped: str = ""


Show = Callable[[Told], None]


class Manner(NamedTuple):
    """How a run speaks."""

    as_json: bool
    exit_zero: bool
    quiet: bool
    verbose: bool


Act = Callable[[Settings, Manner, Show], Told]


def _moment(_ctx: click.Context, _option: click.Parameter, text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text is not None else None
    except ValueError:
        raise click.BadParameter(f"{text} is no moment; write 2026-03-04 or 2026-03-04T21:30") from None
    return found.astimezone() if found else None


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option(
    "--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must have been quiet (default: 5)."
)
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Send so many entries at most; the rest stays ready."
)
@click.option(
    "--since", callback=_moment, metavar="WHEN", help="Take only files last changed since this day or moment."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be taken and sent; nothing is moved, kept or sent.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 also if rows need someone (instead of 1 or 65).")
@click.option("--quiet", is_flag=True, help="Say nothing unless something needs someone, as schedulers want it.")
@click.option("--verbose", is_flag=True, help="Say what happens as it happens, also where the settings say quiet.")
@JSON
def run(
    *,
    limit: int | None,
    since: datetime | None,
    dry_run: bool,
    exit_zero: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    config: Path | None,
    **given: Any,
) -> int:
    """Take in every finished file of the inbox, submit what is ready, and report what became of every row.

    Where shippers are declared and none is named, this is done for each of them, one after the other; the exit code is the worst
    (70, 78, 77, 75, 65, 1, 0).
    """
    given |= {"run_entries_max": limit, "arrived_since": since, "log_level": "info" if verbose else None}
    found = load_each(config, **given)
    write_privately(say, allow_root=quiet or any_allows_root(found.values()))
    manner = Manner(as_json=as_json, exit_zero=exit_zero, quiet=quiet, verbose=verbose)
    act = _foretold if dry_run else _ran
    with _terminable():
        code = _alone(next(iter(found.values())), act, manner) if len(found) == 1 else _each(found, act, manner)
        if serves_all(found):
            say_strays(config, found)
        return code


def _alone(settings: Settings | SettingsError, act: Act, manner: Manner) -> int:
    def show(told: Told) -> None:
        if manner.as_json:
            print_raw_json(told.json)
        else:
            print_lines(told.lines)
        if told.stopped:
            say(f"loadsheet: {told.stopped}")

    return act(sound(settings), manner, show).exit_code


def _each(
    found: dict[str, Settings | SettingsError],
    act: Act,
    manner: Manner,
) -> int:
    """The same for several shippers, each for itself."""
    all_told: dict[str, Told] = {}
    for name, settings in found.items():
        told = all_told[name] = _guarded(settings, lambda settings: act(settings, manner, _nobody))
        if told.lines and not manner.as_json:
            print_lines([f"{name}:", *told.lines])
        if told.stopped:
            say(f"loadsheet: {name}: {told.stopped}")
    worst = worst_of([told.exit_code for told in all_told.values()])
    if manner.as_json:
        shippers = {
            name: {
                "exit_code": told.exit_code,
                "stopped": told.stopped or None,
                "summary": msgspec.Raw(told.json or b"null"),
            }
            for name, told in all_told.items()
        }
        print_json({"exit_code": worst, "shippers": shippers})
    return worst


def _guarded(settings: Settings | SettingsError, act: Callable[[Settings], Told]) -> Told:
    """What one shipper's run comes to, also if it breaks."""
    why: list[str] = []
    told: list[Told] = []

    def do() -> int:
        told.append(act(sound(settings)))
        return 0

    code = ending(do, why.append)
    return told[0] if told else Told(code, stopped=why[0])


def _nobody(_told: Told) -> None:
    """What is told of one of several shippers is shown when its run is over."""


def _ran(settings: Settings, manner: Manner, show: Show) -> Told:
    make_inbox(settings)
    left_ready: list[int] = []
    with RunEnd(settings, lambda: held_ledger(settings)) as end:
        result = run_with_hooks(settings, lambda: _once(settings, left_ready, end), clock=clock(), say=say)
        faults: dict[str, str] = {}
        with isolated("the summary", faults):
            lines = tuple(result.reports.sentences)
        result = end.agree(result.without(faults))
        told = _told(settings, manner, result, () if faults else lines, left_ready)
        show(told)
    return told


def _told(
    settings: Settings, manner: Manner, result: Result, lines: tuple[str, ...], left_ready: Sequence[int]
) -> Told:
    """What is told of a run on stdout; what belongs to stderr is said."""
    silent = (manner.quiet or settings.quiet) and not manner.verbose and not result.exit_code
    for problem in result.left:
        if not silent:
            say(str(problem))
    if result.late:
        say(result.late)
    if left_ready and left_ready[0] and not silent:
        limit = f"a run sends {settings.run_entries_max} at most"
        say(f"{left_ready[0]} entries stay ready ({limit}); the next run goes on from there")
    code = 0 if manner.exit_zero and result.exit_code in _NEEDS_SOMEONE else result.exit_code
    return Told(code, () if silent else lines, result.reports.summary.to_json(), _why(result.stopped, settings))


def _why(stopped: LoadsheetError | None, settings: Settings) -> str:
    """Why a run ended early and what to do, in words; empty if it did not."""
    if isinstance(stopped, TokenRefused) and settings.exchange != EMBEDDED:
        todo = f"replace the token ({source(settings)}), and run again"
        return f"{stopped.found}; what was not sent is still ready: {todo}"
    return str(stopped) if stopped else ""


def _once(settings: Settings, left_ready: list[int], end: RunEnd) -> Result:
    with held_ledger(settings) as ledger, dispatcher_for(settings) as dispatcher, progress("sending") as advance:
        result = end.wind_up(ledger, pipeline.run(settings, ledger, dispatcher, progress=advance))
        if settings.run_entries_max and result.stopped is None:
            left_ready.append(ledger.queries.count_in(State.READY))
        return result


def _foretold(settings: Settings, manner: Manner, show: Show) -> Told:
    found = foretell(settings)
    code = 0 if manner.exit_zero and found.exit_code in _NEEDS_SOMEONE else found.exit_code
    for line in found.remarks:
        say(line)
    told = Told(code, found.lines, found.json)
    show(told)
    return told


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: what is held is let go, and the exit code is 143. While calls are under way, it waits for
    them (see `dispatch.sending`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""Attending: a run with what an operator needs around it. The health ping before it; after it what is late, metrics and notices.

Owns: the order of these, and that none of them changes what became of a row: what goes wrong here is said, and tried again next time.
A fault of our own in one of them makes the exit code of the run 70, and stands in its result.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from loadsheet import run_log
from loadsheet.internal_errors import isolated
from loadsheet.ledger import open_ledger
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations import expected_files, monitoring, notifications
from loadsheet.problems import LedgerError, LoadsheetError, SettingsError
from loadsheet.run_outcome import Night
from loadsheet.settings import Settings
from loadsheet.settings.places import shown
from loadsheet.stages import Result

Clock = Callable[[], datetime]


def attend(
    settings: Settings,
    run: Callable[[], Result],
    *,
    clock: Clock,
    say: Callable[[str], None],
    board: monitoring.Board | None = None,
) -> Result:
    """Run, and see to it that whoever should know of it does; `say` takes what goes wrong with that, `board` shows the run to whoever
    looks at the watch. Returns what `run` returns and raises what it raises. Raises SettingsError if traces are asked for and cannot be.
    """
    beat = board.alive if board else None
    with monitoring.traced(settings, say) as spans, run_log.opened(settings, clock=clock, spans=spans, beat=beat):
        return _attended(settings, run, clock, say, board)


def _attended(
    settings: Settings,
    run: Callable[[], Result],
    clock: Clock,
    say: Callable[[str], None],
    board: monitoring.Board | None,
) -> Result:
    began = clock()
    faults: dict[str, str] = {}
    with isolated("notice of the beginning", faults):
        notifications.began(settings, say)
    try:
        with run_log.stage("run"), ExitStack() as stack:
            stack.push(partial(_on_fault, settings, began, clock, say, board))
            result = run()
    except LoadsheetError as error:
        run_log.error("the run could not go on", said=True, exit_code=error.exit_code, reason=str(error))
        _after(settings, Night(settings.shipper, began, clock(), error.exit_code, error), say, board)
        raise
    if result.stopped:
        run_log.warning("the run stopped early", said=True, exit_code=result.exit_code, reason=str(result.stopped))
    summary, folder = result.reports.summary, result.reports.folder
    night = Night(settings.shipper, began, clock(), result.exit_code, result.stopped, summary, folder, result.left)
    if settings.outbox_address:
        night = replace(night, place=shown(settings.outbox / summary.run))
    return result.without(faults | _after(settings, night, say, board))


def _on_fault(
    settings: Settings,
    began: datetime,
    clock: Clock,
    say: Callable[[str], None],
    board: monitoring.Board | None,
    *raised: object,
) -> None:
    """A fault of ours that ends a run is told like a failed run; it goes on to where it becomes an exit code."""
    kind = raised[0]
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, LoadsheetError):
        fault = LoadsheetError(f"a fault of our own ({kind.__name__})")
        _after(settings, Night(settings.shipper, began, clock(), fault.exit_code, fault), say, board)


def _after(
    settings: Settings, night: Night, say: Callable[[str], None], board: monitoring.Board | None
) -> dict[str, str]:
    """What is late, metrics and notices, each for itself; returns what a fault of our own kept from being done."""
    faults: dict[str, str] = {}
    with _queries(settings) as found:
        queries, late = None, None
        with isolated("what is late", faults):
            late = _late(settings, found, night.began, say)
            queries = None if late is None else found
        with isolated("metrics", faults):
            monitoring.measure(settings, night, queries, late or (), say, board=board)
        with isolated("notices", faults):
            notifications.tell(settings, night, queries, late or (), say)
    return faults


def _late(
    settings: Settings, queries: LedgerQueries | None, began: datetime, say: Callable[[str], None]
) -> Sequence[expected_files.Late] | None:
    """What is late; None, and said, if the ledger cannot be read."""
    try:
        return expected_files.overdue(settings, queries, began)
    except LedgerError as error:
        say(f"what is late cannot be told: {error}")
        return None


@contextmanager
def _queries(settings: Settings) -> Iterator[LedgerQueries | None]:
    """What the ledger knows, for reading; None if there is none yet, or if it cannot be read."""
    with ExitStack() as stack:
        try:
            queries = stack.enter_context(
                open_ledger(settings.database_url, exclusive=False, state=settings.state)
            ).queries
        except (LedgerError, SettingsError):
            queries = None
        yield queries

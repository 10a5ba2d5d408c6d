"""The hooks around a run: traces, run log and health ping; afterwards overdue files, metrics and notifications.

No hook changes what becomes of a row. A hook that fails is reported and runs again next time. An internal error in a hook makes the exit
code of the run 70 and is in its result.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from loadsheet import run_log
from loadsheet.internal_errors import isolated
from loadsheet.ledger import read_ledger
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations import expected_files, monitoring, notifications
from loadsheet.problems import LedgerError, LoadsheetError, SettingsError
from loadsheet.run_outcome import RunOutcome
from loadsheet.settings import Settings
from loadsheet.settings.places import shown
from loadsheet.stages import Result

Clock = Callable[[], datetime]


def run_with_hooks(
    settings: Settings,
    run: Callable[[], Result],
    *,
    clock: Clock,
    say: Callable[[str], None],
    watch_status: monitoring.WatchStatus | None = None,
) -> Result:
    """Call `run` with all hooks around it. `say` takes failures of hooks; `watch_status` shows the run at the health endpoint.

    Returns what `run` returns and raises what it raises. Raises SettingsError if traces are set but cannot be made.
    """
    beat = watch_status.heartbeat if watch_status else None
    with monitoring.traced(settings, say) as spans, run_log.opened(settings, clock=clock, spans=spans, beat=beat):
        return _attended(settings, run, clock, say, watch_status)


def _attended(
    settings: Settings,
    run: Callable[[], Result],
    clock: Clock,
    say: Callable[[str], None],
    watch_status: monitoring.WatchStatus | None,
) -> Result:
    began = clock()
    faults: dict[str, str] = {}
    with isolated("notice of the beginning", faults):
        notifications.ping_start(settings, say)
    try:
        with run_log.stage("run"), ExitStack() as stack:
            stack.push(partial(_on_fault, settings, began, clock, say, watch_status))
            result = run()
    except LoadsheetError as error:
        run_log.error("the run could not go on", printed=True, exit_code=error.exit_code, reason=str(error))
        _after(settings, RunOutcome(settings.shipper, began, clock(), error.exit_code, error), say, watch_status)
        raise
    if result.stopped:
        run_log.warning("the run stopped early", printed=True, exit_code=result.exit_code, reason=str(result.stopped))
    summary, folder = result.reports.summary, result.reports.folder
    outcome = RunOutcome(
        settings.shipper, began, clock(), result.exit_code, result.stopped, summary, folder, result.left
    )
    if settings.outbox_address:
        outcome = replace(outcome, address=shown(settings.outbox / summary.run))
    return result.without(faults | _after(settings, outcome, say, watch_status))


def _on_fault(
    settings: Settings,
    began: datetime,
    clock: Clock,
    say: Callable[[str], None],
    watch_status: monitoring.WatchStatus | None,
    *raised: object,
) -> None:
    """Run the hooks of a failed run if an internal error ended it; the error itself goes on to become an exit code."""
    kind = raised[0]
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, LoadsheetError):
        fault = LoadsheetError(f"an internal error ({kind.__name__})")
        _after(settings, RunOutcome(settings.shipper, began, clock(), fault.exit_code, fault), say, watch_status)


def _after(
    settings: Settings, outcome: RunOutcome, say: Callable[[str], None], watch_status: monitoring.WatchStatus | None
) -> dict[str, str]:
    """Check for overdue files, update metrics, send notifications; returns the hooks that an internal error ended, each with the error."""
    faults: dict[str, str] = {}
    with _queries(settings) as opened:
        queries, late = None, None
        with isolated("what is late", faults):
            late = _overdue(settings, opened, outcome.began, say)
            queries = None if late is None else opened
        with isolated("metrics", faults):
            monitoring.update_metrics(settings, outcome, queries, late or (), say, watch_status=watch_status)
        with isolated("notices", faults):
            notifications.send_notifications(settings, outcome, queries, late or (), say)
    return faults


def _overdue(
    settings: Settings, queries: LedgerQueries | None, began: datetime, say: Callable[[str], None]
) -> Sequence[expected_files.Overdue] | None:
    """The overdue files and runs; None, with a warning, if the ledger cannot be read."""
    try:
        return expected_files.overdue(settings, queries, began)
    except LedgerError as error:
        say(f"what is late cannot be told: {error}")
        return None


@contextmanager
def _queries(settings: Settings) -> Iterator[LedgerQueries | None]:
    """The ledger's queries; None if there is no ledger yet or it cannot be read."""
    with ExitStack() as stack:
        try:
            queries = stack.enter_context(read_ledger(settings.database_url, settings.state)).queries
        except (LedgerError, SettingsError):
            queries = None
        yield queries

"""A whole run: the pipeline with its hooks around it, then its capsule and the retention, and its recorded end.

The hooks are traces, run log and health ping; afterwards overdue files, metrics and notifications.

No hook changes the outcome of a row. A failed hook is reported and runs again next time. An internal error in a hook makes the exit code
of the run 70 and is in its result. The ledger, `run.json` and the exit code agree about the end of a run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from loadsheet import extras, pipeline, reports, run_log
from loadsheet.errors import LedgerError, LoadsheetError, SettingsError
from loadsheet.internal_errors import exit_code_of_error, failed_steps_text, isolated
from loadsheet.ledger import Clock, Ledger, read_ledger
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations import expected_files
from loadsheet.operations.retention import apply_retention
from loadsheet.pipeline import Result
from loadsheet.places import place_text
from loadsheet.reports.run_document import RunOutcome
from loadsheet.run_resources import RunResources
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from loadsheet.operations.health import WatchStatus


Say = Callable[[str], None]

_AFTER_THE_END = "its last steps"


class RunWithHooks:
    """A run with all that belongs to it, and the context in which it ends. `ledger` opens the ledger for corrections of the end, `say` takes
    messages. An exception that leaves the block after the end was recorded is recorded as well and raised on.
    """

    def __init__(
        self, settings: Settings, ledger: Callable[[], AbstractContextManager[Ledger]], *, clock: Clock, say: Say
    ) -> None:
        self._settings, self._ledger, self._clock, self._say = settings, ledger, clock, say
        self._recorded: Result | None = None  # None before the end is recorded

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        if error is not None and self._recorded is not None:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            undone = {**self._recorded.undone, _AFTER_THE_END: why}
            self._record(self._recorded, replace(self._recorded, exit_code=exit_code_of_error(error), undone=undone))

    def run(
        self,
        resources: Callable[[], AbstractContextManager[RunResources]],
        watch_status: "WatchStatus | None" = None,
    ) -> Result:
        """Do the run: `resources` opens what it needs, within the hooks; `watch_status` shows the run at the health endpoint.

        Returns the result with the failed steps. Raises what `pipeline.run` raises, and SettingsError if a library that the settings need is
        not installed.
        """

        def work() -> Result:
            with resources() as (ledger, dispatcher, progress):
                result = pipeline.run(self._settings, ledger, dispatcher, progress=progress)
                return self._archive_and_purge(ledger, result)

        return run_with_hooks(self._settings, work, clock=self._clock, say=self._say, watch_status=watch_status)

    def _archive_and_purge(self, ledger: Ledger, result: Result) -> Result:
        """After the end of the run, while its ledger is held: write its capsule and apply the retention. Returns the result with the failures."""
        self._recorded = result
        faults: dict[str, str] = {}
        if self._settings.run_archive.capsules == "each" or self._settings.run_archive.capsule_days:
            with isolated("the capsule", faults):
                from loadsheet.run_archive import seal_after_run

                seal_after_run(self._settings, ledger.queries, result.reports.summary.run, self._clock(), self._say)
        with isolated("retention", faults):
            apply_retention(self._settings, ledger, self._clock(), self._say)
        return result.with_failed_steps(faults)

    def correct_if_changed(self, result: Result) -> Result:
        """Report and record the result if it differs from the recorded one. Returns it with the corrected reports."""
        before = self._recorded
        if before is None or (before.exit_code, before.undone) == (result.exit_code, result.undone):
            return result
        new = {step: why for step, why in result.undone.items() if step not in before.undone}
        run = result.reports.summary.run
        self._say(
            f"loadsheet: run {run} is recorded; these steps failed with an internal error: {failed_steps_text(new)}"
        )
        return self._record(before, result)

    def _record(self, before: Result, result: Result) -> Result:
        written = result.reports.with_failed_steps(result.exit_code, result.undone)
        self._recorded = recorded = replace(result, reports=written)
        with self._report_failure("the ledger", before), self._ledger() as ledger:
            ledger.maintenance.correct_end(written.summary.run, exit_code=result.exit_code, summary=written.in_ledger)
        with self._report_failure(reports.SUMMARY, before):
            reports.rewrite_summary(written, self._settings)
        return recorded

    @contextmanager
    def _report_failure(self, where: str, before: Result) -> Iterator[None]:
        """Report if the result of a run cannot be recorded in this place."""
        why: dict[str, str] = {}
        try:
            with isolated(where, why):
                yield
        except LoadsheetError as error:
            why[where] = str(error)
        if why:
            run = before.reports.summary.run
            self._say(f"loadsheet: {where} still shows exit code {before.exit_code} for run {run}: {why[where]}")


def run_with_hooks(
    settings: Settings,
    run: Callable[[], Result],
    *,
    clock: Clock,
    say: Say,
    watch_status: "WatchStatus | None" = None,
) -> Result:
    """Call `run` with all hooks around it. `say` receives failures of hooks; `watch_status` shows the run at the health endpoint.

    Returns what `run` returns and raises what it raises. Raises SettingsError if a library that the settings need is not installed.
    """
    extras.check(settings)
    heartbeat = watch_status.heartbeat if watch_status else None
    with (
        _traced(settings, say) as spans,
        run_log.opened(settings, clock=clock, spans=spans, heartbeat=heartbeat),
    ):
        return _Hooks(settings, clock, say, watch_status, clock()).around(run)


class _Hooks(NamedTuple):
    """The hooks of one run that began at `began`."""

    settings: Settings
    clock: Clock
    say: Say
    watch_status: "WatchStatus | None"
    began: datetime

    def around(self, run: Callable[[], Result]) -> Result:
        settings, faults = self.settings, dict[str, str]()
        if settings.notifications.ping_url is not None:
            with isolated("the notice of the start", faults):
                from loadsheet.operations.notifications import ping_start

                ping_start(settings, self.say)
        try:
            with run_log.stage("run"), ExitStack() as stack:
                stack.push(self._internal_error)
                result = run()
        except LoadsheetError as error:
            run_log.error("the run could not continue", printed=True, exit_code=error.exit_code, reason=str(error))
            self._failed(error)
            raise
        if stopped := result.stopped:
            run_log.warning("the run stopped early", printed=True, exit_code=result.exit_code, reason=str(stopped))
        summary, folder = result.reports.summary, result.reports.folder
        outcome = RunOutcome(
            settings.shipper,
            self.began,
            self.clock(),
            result.exit_code,
            stopped,
            summary,
            folder,
            result.inbox_problems,
        )
        if settings.outbox_address:
            outcome = replace(outcome, address=place_text(settings.outbox / summary.run))
        return result.with_failed_steps(faults | self._after(outcome))

    def _internal_error(self, kind: type[BaseException] | None, *_: object) -> None:
        """Run the hooks if an internal error ended the run; the error itself becomes the exit code."""
        if kind is not None and issubclass(kind, Exception) and not issubclass(kind, LoadsheetError):
            self._failed(LoadsheetError(f"an internal error ({kind.__name__})"))

    def _failed(self, error: LoadsheetError) -> None:
        self._after(RunOutcome(self.settings.shipper, self.began, self.clock(), error.exit_code, error))

    def _after(self, outcome: RunOutcome) -> dict[str, str]:
        """Check for overdue files, update metrics, send notifications; returns the hooks that failed internally, each with its error."""
        settings, say, faults = self.settings, self.say, dict[str, str]()
        with _queries(settings) as opened:
            queries, late = None, None
            with isolated("the check for overdue files", faults):
                late = _overdue(settings, opened, outcome.began, say)
                queries = None if late is None else opened
            with isolated("metrics", faults):
                self.update_metrics(outcome, queries, late or ())
            if not settings.notifications.are_off:
                with isolated("notices", faults):
                    from loadsheet.operations.notifications import send_notifications

                    send_notifications(settings, outcome, queries, late or (), say)
        return faults

    def update_metrics(
        self, outcome: RunOutcome, queries: LedgerQueries | None, late: Sequence[expected_files.Overdue]
    ) -> None:
        """Update the metrics in the file and at the health endpoint, as far as they are configured. A failure to write them is reported."""
        settings, status, file = self.settings, self.watch_status, self.settings.monitoring.metrics_file
        if status is not None:
            status.ended(outcome.shipper, outcome.exit_code, str(outcome.stopped or ""))
        if not file and not (status is not None and settings.monitoring.health_address):
            return
        from loadsheet.operations import metrics

        try:
            measured = metrics.collect_metrics(settings, outcome, queries, late)
        except LedgerError as error:
            self.say(f"loadsheet: the metrics lack the figures of the ledger ({error})")
            measured = metrics.collect_metrics(settings, outcome, None, late)
        if status is not None:
            status.set_metrics(outcome.shipper, measured)
        if file:
            path = metrics.metrics_path(file, outcome.shipper)
            try:
                metrics.write(path, measured)
            except OSError as error:
                self.say(f"loadsheet: the metrics file {path} cannot be written ({error.strerror})")
            metrics.write_cluster_metrics(settings, self.say)


@contextmanager
def _traced(settings: Settings, say: Say) -> Iterator[run_log.Spans | None]:
    """A recorder that sends the stages and calls of a run to `monitoring.otlp_endpoint` as a trace; None if that setting is empty."""
    if not settings.monitoring.otlp_endpoint:
        yield None
        return
    try:
        from loadsheet.operations.tracing import tracing
    except ImportError:
        raise SettingsError(
            "monitoring.otlp_endpoint: traces need OpenTelemetry, which is not installed; pip install 'loadsheet[otel]', or leave it empty"
        ) from None
    with tracing(settings.monitoring.otlp_endpoint, say) as spans:
        yield spans


def _overdue(
    settings: Settings, queries: LedgerQueries | None, began: datetime, say: Say
) -> Sequence[expected_files.Overdue] | None:
    """The overdue files and runs; None, with a warning, if the ledger cannot be read."""
    try:
        return expected_files.overdue(settings, queries, began)
    except LedgerError as error:
        say(f"cannot determine which files are overdue: {error}")
        return None


@contextmanager
def _queries(settings: Settings) -> Iterator[LedgerQueries | None]:
    """The ledger's queries; None if there is no ledger or it cannot be read."""
    with ExitStack() as stack:
        try:
            queries = stack.enter_context(read_ledger(settings.database_url, settings.state)).queries
        except (LedgerError, SettingsError):
            queries = None
        yield queries

"""The end of a run: its capsule and the retention while the ledger is held, and that ledger, `run.json` and exit code agree about it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from loadsheet import reports
from loadsheet.internal_errors import exit_code_of, fault_summary, isolated
from loadsheet.ledger import Clock, Ledger
from loadsheet.operations.retention import keep
from loadsheet.pipeline import Result
from loadsheet.problems import LoadsheetError
from loadsheet.run_archive import seal_after_run
from loadsheet.settings import Settings

Say = Callable[[str], None]

_AFTER_THE_END = "its last steps"


class RunEnd:
    """The context in which a run ends. `result` is the recorded result, None before the end is recorded. `ledger` opens the ledger for
    changes, `say` takes messages. An exception that leaves the block later is recorded and raised on.
    """

    def __init__(
        self, settings: Settings, ledger: Callable[[], AbstractContextManager[Ledger]], *, clock: Clock, say: Say
    ) -> None:
        self._settings, self._ledger, self._clock, self._say = settings, ledger, clock, say
        self.result: Result | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        if error is not None and self.result is not None:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            ended = replace(
                self.result, exit_code=exit_code_of(error), undone={**self.result.undone, _AFTER_THE_END: why}
            )
            self._record(self.result, ended)

    def archive_and_purge(self, ledger: Ledger, result: Result) -> Result:
        """After the end of the run, while its ledger is held: write its capsule and apply the retention. Returns the result with the failures."""
        self.result = result
        faults: dict[str, str] = {}
        with isolated("the capsule", faults):
            seal_after_run(self._settings, ledger.queries, result.reports.summary.run, self._clock(), self._say)
        with isolated("keeping", faults):
            keep(self._settings, ledger, self._clock(), self._say)
        return result.without(faults)

    def correct_if_changed(self, result: Result) -> Result:
        """Report and record the result if it differs from the recorded one. Returns it with the corrected reports."""
        before = self.result
        if before is None or (before.exit_code, before.undone) == (result.exit_code, result.undone):
            return result
        new = {step: why for step, why in result.undone.items() if step not in before.undone}
        run = result.reports.summary.run
        self._say(f"loadsheet: run {run} is recorded; these steps failed with an internal error: {fault_summary(new)}")
        return self._record(before, result)

    def _record(self, before: Result, result: Result) -> Result:
        written = result.reports.with_failed_steps(result.exit_code, result.undone)
        self.result = replace(result, reports=written)
        with self._report_failure("the ledger", before), self._ledger() as ledger:
            ledger.maintenance.correct_end(written.summary.run, exit_code=result.exit_code, summary=written.in_ledger)
        with self._report_failure(reports.SUMMARY, before):
            reports.rewrite_summary(written, self._settings)
        return self.result

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

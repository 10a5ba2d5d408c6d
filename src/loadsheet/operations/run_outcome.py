"""The outcome of one run for metrics and notifications, whether it succeeded, stopped early or never began.

`run_hooks` creates it.
"""

import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from loadsheet.problems import LoadsheetError, Problem
from loadsheet.reports.run_document import RunSummary


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a run. Times are aware, in UTC; `shipper` is empty if the settings declare none. A run that could
    not begin (the ledger is locked, a mapping is wrong) has no `summary` and no `folder`. `stopped` is the reason why it
    ended early or did not begin.
    """

    shipper: str
    began: datetime
    ended: datetime
    exit_code: int
    stopped: LoadsheetError | None = None
    summary: RunSummary | None = None
    folder: Path | None = None
    left: tuple[Problem, ...] = ()
    address: str = ""  # where people find the folder, if it is in an object store

    @property
    def title(self) -> str:
        """The beginning of the title of a notice: `loadsheet`, or `loadsheet acme`."""
        return f"loadsheet {self.shipper}".rstrip()

    @property
    def run(self) -> str:
        """The name of the run; empty if the run could not begin."""
        return self.summary.run if self.summary else ""

    def report(self, name: str) -> str:
        """Where people find a report: its address in the object store, else its run; empty if there are no reports. Never a
        path of this machine, which says nothing to those who read mail elsewhere.
        """
        if self.folder is None:
            return ""
        return f"{self.address}/{name}" if self.address else f"{name} of run {self.folder.name}"

    def command(self, words: str) -> str:
        """A command to type, with `--shipper` if there is one."""
        return f"loadsheet {words}" + (f" --shipper {shlex.quote(self.shipper)}" if self.shipper else "")


def verdict_of(outcome: RunOutcome) -> str:
    """The verdict on the run for a notice, then whether it balances; empty if the run could not begin."""
    if outcome.summary is None:
        return ""
    verdict = outcome.summary.headline
    return f"Run {outcome.run}: {' · '.join((verdict.text, *verdict.details))}\n{verdict.balance}".rstrip()


def todo_of(outcome: RunOutcome) -> str:
    """What people have to do after the run, as a list for a notice; empty if there is nothing."""
    todo = outcome.summary.headline.todo if outcome.summary else ()
    return "\n".join(("To do:", *(f"- {line}" for line in todo))) if todo else ""

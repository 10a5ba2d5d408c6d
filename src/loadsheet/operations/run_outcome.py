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

    def report(self, name: str = "") -> str:
        """The address or path of a report, or of the report folder; empty if there is none."""
        if self.folder is None:
            return ""
        folder = self.address or str(self.folder.absolute())
        return f"{folder}/{name}" if name else folder

    def command(self, words: str) -> str:
        """A command to type, with `--shipper` if there is one."""
        return f"loadsheet {words}" + (f" --shipper {shlex.quote(self.shipper)}" if self.shipper else "")

"""A night: one attended run as the rooms around it see it, whatever it came to.

Owns: the value. `attending` makes it; `arrivals`, `telling` and `seeing` read it.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from loadsheet.problems import LoadsheetError, Problem
from loadsheet.reports.run_document import RunSummary


@dataclass(frozen=True, slots=True)
class Night:
    """What a run came to. Moments are aware, in UTC; `shipper` is empty where the settings declare none. A run that could not begin
    (the ledger is held, a mapping is wrong) has no `summary` and no `folder`; `stopped` says why a run ended early, or did not begin.
    """

    shipper: str
    began: datetime
    ended: datetime
    exit_code: int
    stopped: LoadsheetError | None = None
    summary: RunSummary | None = None
    folder: Path | None = None
    left: tuple[Problem, ...] = ()
    place: str = ""  # where people find the folder, if that is in an object store

    @property
    def run(self) -> str:
        """The name of the run; empty if it could not begin."""
        return self.summary.run if self.summary else ""

    def report(self, name: str = "") -> str:
        """Where people find a report of this name, or all; empty if there is none."""
        if self.folder is None:
            return ""
        found = self.place or str(self.folder.absolute())
        return f"{found}/{name}" if name else found

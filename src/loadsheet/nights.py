"""A night: one attended run as the rooms around it see it, whatever it came to.

Owns: the value. `attending` makes it; `arrivals`, `telling` and `seeing` read it.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from loadsheet.problems import LoadsheetError, Problem
from loadsheet.reports.told import RunSummary


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

    @property
    def run(self) -> str:
        """The name of the run; empty if it could not begin."""
        return self.summary.run if self.summary else ""

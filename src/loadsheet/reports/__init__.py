"""Stage 7: reports. What became of every row, for the shipper, the analyst and the machine.

`write` is the verb: results files, the reconciliation workbook and `run.json`, in one pass over the ledger. Reads the ledger and
the reconciliation, never a source file and never the network. Equal ledgers give equal bytes.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from loadsheet.ledger import Run
from loadsheet.ledger.history import History
from loadsheet.problems import Problem
from loadsheet.reconcile import Reconciliation
from loadsheet.reports.placing import placed
from loadsheet.reports.results import DropResults, results_names
from loadsheet.reports.sentences import sentences
from loadsheet.reports.sheets import ROWS_MAX, open_book
from loadsheet.reports.summary import Gathering, RunSummary, summarise
from loadsheet.reports.workbook import NAME as WORKBOOK
from loadsheet.reports.workbook import ReconciliationWorkbook
from loadsheet.settings import Settings

SUMMARY = "run.json"

__all__ = ["SUMMARY", "WORKBOOK", "RunSummary", "Written", "sentences", "write"]


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the folder of the run's reports, the names of the files in it, and the summary that they tell; `state` is
    the folder of the ledger that knows more.
    """

    folder: Path
    names: tuple[str, ...]
    summary: RunSummary
    state: Path

    @property
    def paths(self) -> list[Path]:
        """Every report."""
        return [self.folder / name for name in self.names]

    @property
    def sentences(self) -> list[str]:
        """The summary for the terminal, a line each."""
        return sentences(self.summary, self.folder, self.state)


def write(
    history: History,
    reconciliation: Reconciliation,
    run: Run,
    settings: Settings,
    *,
    sheet_rows_max: int = ROWS_MAX,
    remarks: Sequence[Problem] = (),
    forecast: str = "",
) -> Written:
    """Write all reports of a run into `outbox/RUN/`, replacing earlier ones of the same run; each appears whole or not at all.

    `run` carries the exit code and the end that will be recorded for it, as far as they are known. A reconciliation that does
    not balance is written all the same, and says so. `remarks` concern the run and no file, `forecast` says what is left to send and
    when that would be done: both for `run.json`. Raises LoadsheetError if a report cannot be written.
    """
    folder = settings.outbox / run.name
    drops = history.drops_of(run)
    names = results_names(drops, run)
    gathered = Gathering()
    written: list[str] = []
    with open_book(folder / WORKBOOK, title=f"Reconciliation {run.name}", footer=f"loadsheet run {run.name}") as book:
        workbook = ReconciliationWorkbook(book, folder, rows_max=sheet_rows_max)
        for drop in drops:
            gathered.open(drop)
            workbook.open(drop)
            with ExitStack() as spools:
                results = DropResults(drop, folder, names[drop.id], spools)
                for entry in history.entries_of(drop.id):
                    match = reconciliation.matches[entry.id]
                    gathered.add(entry, match)
                    results.add(entry, match)
                    workbook.add(entry, match)
                for row in history.ignored_of(drop.id):
                    results.leave_out(row)
                written += results.finish()
        reports = [WORKBOOK, *written, SUMMARY]
        summary = summarise(run, drops, reconciliation, gathered, settings, results=names, reports=reports)
        beyond = workbook.finish(summary, reconciliation.only_listed)
        said = tuple(map(str, remarks))
        summary = replace(summary, reports=(*reports, *beyond), remarks=said, forecast=forecast)
    with placed(folder / SUMMARY) as part:
        part.write_bytes(summary.to_json())
    return Written(folder, summary.reports, summary, settings.state)

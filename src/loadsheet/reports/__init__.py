"""Stage 7: reports. What became of every row, for the shipper, the analyst and the machine.

`write` is the verb: results files, fix files, acknowledgements, the reconciliation workbook, the page and `run.json`, in one pass over
the ledger; then the index of all runs. Reads the ledger and the reconciliation, never a source file and never the network, and puts what
it wrote into the outbox if that is in an object store. Equal ledgers give equal bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from loadsheet.ledger import Drop, Entry, Run
from loadsheet.ledger.history import History
from loadsheet.problems import Problem
from loadsheet.reconcile import Match, Reconciliation
from loadsheet.reports.acknowledgement import Acknowledgements, acknowledgement_schema
from loadsheet.reports.fixing import Fixes
from loadsheet.reports.placing import check_writable, placed, told_in
from loadsheet.reports.publishing import SUMMARY, bring_reports, bring_summaries, publish, publish_index
from loadsheet.reports.reconciliation import NAME as WORKBOOK
from loadsheet.reports.reconciliation import ReconciliationWorkbook, free_name, other_name
from loadsheet.reports.results import DropResults, results_names
from loadsheet.reports.sentences import sentences
from loadsheet.reports.sheets import ROWS_MAX, open_book
from loadsheet.reports.summary import Gathering, RunSummary, left_in_inbox, summarise
from loadsheet.reports.told import schema
from loadsheet.reports.web import PAGE, RunPage, fleet_seen, write_index
from loadsheet.settings import Settings

__all__ = [
    "SUMMARY",
    "WORKBOOK",
    "RunSummary",
    "Written",
    "acknowledgement_schema",
    "bring_reports",
    "check_writable",
    "left_in_inbox",
    "publish_index",
    "schema",
    "sentences",
    "told_in",
    "write",
]


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the folder of the run's reports, the names of the files in it, and the summary that they tell; `state` is
    the folder of the ledger that knows more, `shipper` whose run it was, if shippers are declared. `place` is where others find the
    folder: itself, or a place in a store.
    """

    folder: Path
    names: tuple[str, ...]
    summary: RunSummary
    state: Path
    shipper: str = ""
    place: Path | None = None

    @property
    def paths(self) -> list[Path]:
        """Every report."""
        return [self.folder / name for name in self.names]

    @property
    def sentences(self) -> list[str]:
        """The summary for the terminal, a line each."""
        return sentences(self.summary, self.place or self.folder, self.state, self.shipper)


class _Taker(Protocol):
    """What takes the entries of a run with the verdicts on them, one after the other."""

    def add(self, entry: Entry, match: Match) -> None: ...


def write(
    history: History,
    reconciliation: Reconciliation,
    run: Run,
    settings: Settings,
    *,
    sheet_rows_max: int = ROWS_MAX,
    remarks: Sequence[Problem | str] = (),
    forecast: str = "",
    inbox: Mapping[str, Any] = MappingProxyType({}),
    drops: Sequence[Drop] | None = None,
    allowed: Callable[[], None] = lambda: None,
) -> Written:
    """Write all reports of a run into `outbox/RUN/`, replacing earlier ones of the same run; each appears whole or not at all.

    `run` carries the exit code and the end that will be recorded for it, as far as they are known. A reconciliation that does
    not balance is written all the same, and says so. `remarks` concern the run and no file, `forecast` says what is left to send and
    when that would be done, `inbox` what `left_in_inbox` made of the files that stay there. `drops` are told of if they are not the
    run's. `allowed` is asked before the first is written and before they are published; it raises if somebody else writes them now.
    Raises LoadsheetError if a report cannot be written.
    """
    allowed()
    folder = settings.outbox_here / run.name
    drops = history.drops_of(run) if drops is None else drops
    names = results_names(drops, run)
    gathered = Gathering()
    written: list[str] = []
    page = RunPage(history, documents_max=settings.page_documents_max)
    acknowledgements = Acknowledgements(history, run, folder, drops)
    fixes = Fixes(history, run, folder, settings)
    workbook_name = free_name(folder)
    title = f"Reconciliation {run.name}"
    with open_book(folder / workbook_name, title=title, footer=f"loadsheet run {run.name}") as book:
        workbook = ReconciliationWorkbook(book, folder, history, reconciliation, rows_max=sheet_rows_max)
        for drop in drops:
            gathered.open(drop)
            workbook.open(drop)
            page.open(drop)
            with ExitStack() as spools:
                results = DropResults(drop, folder, names[drop.id], spools)
                fixes.open(drop, spools)
                acknowledgements.open(drop, spools)
                takers = (gathered, results, workbook, page, acknowledgements)
                for entry in history.entries_of(drop.id):
                    fixes.add(entry)
                    _give(takers, entry, reconciliation.matches[entry.id])
                for row in history.ignored_of(drop.id):
                    results.leave_out(row)
                written += (*results.finish(), *fixes.finish(), *acknowledgements.finish())
        reports = [PAGE, workbook_name, *written, SUMMARY]
        tell = partial(summarise, results=names, reports=reports, fixes=fixes.names, inbox=inbox)
        summary = tell(run, drops, reconciliation, gathered, settings)
        beyond = workbook.finish(summary, run, settings)
        said = (*map(str, remarks), *other_name(workbook_name))
        summary = replace(summary, reports=(*reports, *beyond), remarks=said, forecast=forecast)
    _finish(folder, page, summary)
    allowed()
    _publish(history, run, reconciliation, settings, summary.reports)
    whose, place = settings.shipper if settings.shippers else "", settings.outbox / run.name
    return Written(folder, summary.reports, summary, settings.state, whose, place)


def _finish(folder: Path, page: RunPage, summary: RunSummary) -> None:
    with placed(folder / SUMMARY) as part:
        part.write_bytes(summary.to_json())
    page.finish(folder, summary)


def _publish(
    history: History, run: Run, reconciliation: Reconciliation, settings: Settings, names: Sequence[str]
) -> None:
    """Put the reports where others see them, and the index that leads to them."""
    publish(settings, run.name, names)
    shown, fleet = settings.index_runs_max, fleet_seen(settings)
    bring_summaries(settings, shown)
    write_index(settings.outbox_here, history, run, reconciliation.exceptions, runs_max=shown, fleet=fleet)
    publish_index(settings)


def _give(takers: Sequence[_Taker], entry: Entry, match: Match) -> None:
    for one in takers:
        one.add(entry, match)

"""Stage 7: reports. They show what became of every row: to the shipper, the analyst and other programs.

`write` writes results files, fix files, acknowledgements, the reconciliation workbook, the page and `run.json` in one pass over the
ledger, then the index of all runs. It reads the ledger and the reconciliation, never a source file and never the network. If the outbox is
in an object store, it uploads the reports. Equal ledgers give equal bytes.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

import msgspec

from loadsheet.contract import exactly
from loadsheet.file_modes import close_one, close_to_others
from loadsheet.internal_errors import Fault, fault_summary, isolated, log_fault, raising_fault
from loadsheet.ledger import Drop, Entry, MissingRecords, Run
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problem_groups import Causes
from loadsheet.problems import Problem, ReportsIncomplete
from loadsheet.reconcile import Match, Reconciliation
from loadsheet.reports.acknowledgement import Acknowledgements, acknowledgement_schema
from loadsheet.reports.atomic_files import check_writable, placed, run_folders
from loadsheet.reports.fallback import write_fallback_reports
from loadsheet.reports.fix_workbook import Fixes
from loadsheet.reports.optional import ACKNOWLEDGEMENTS, CAUSES, FIXES, Optional
from loadsheet.reports.optional import INDEX as INDEX_OF
from loadsheet.reports.optional import PAGE as PAGE_OF
from loadsheet.reports.optional import WORKBOOK as WORKBOOK_OF
from loadsheet.reports.publishing import INDEX, SUMMARY, bring_reports, bring_summaries, publish, publish_index
from loadsheet.reports.reconciliation import NAME as WORKBOOK
from loadsheet.reports.reconciliation import ReconciliationWorkbook, free_name, other_name
from loadsheet.reports.results import DropResults, results_names
from loadsheet.reports.run_document import MissingReport, schema
from loadsheet.reports.run_summary import RunSummary, RunTally, failed_steps, left_in_inbox, summarise
from loadsheet.reports.sentences import sentences
from loadsheet.reports.sheets import ROWS_MAX, open_book
from loadsheet.reports.web import PAGE, RunPage, fleet_status, write_index
from loadsheet.settings import Settings

__all__ = [
    "ALL",
    "SUMMARY",
    "WORKBOOK",
    "RunSummary",
    "Written",
    "acknowledgement_schema",
    "bring_reports",
    "check_writable",
    "close_reports",
    "left_in_inbox",
    "missing_reports",
    "publish_index",
    "rewrite_summary",
    "run_folders",
    "schema",
    "sentences",
    "write",
    "write_fallback",
]


ALL = "all but the results"
"""Stands for all missing reports of a run that has only the fallback reports."""


@dataclass(frozen=True, slots=True)
class Written:
    """The reports of one run: their folder, file names and summary.

    `state` is the folder of the ledger. `shipper` is empty unless shippers are declared. `place` is where other people find the folder:
    the folder itself, or an address in an object store.
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

    @property
    def in_ledger(self) -> dict[str, Any]:
        """What the ledger stores about the run (JSON values)."""
        summary: dict[str, Any] = {"entries": dict(self.summary.entries), "verdicts": dict(self.summary.verdicts)}
        if self.summary.missing:
            summary["missing"] = [one.report for one in self.summary.missing]
        if self.summary.undone:
            summary["undone"] = {one.what: one.why for one in self.summary.undone}
        return summary

    def with_failed_steps(self, exit_code: int, undone: Mapping[str, str]) -> Self:
        """The same with another exit code, because these steps failed after the end of the run. `undone` maps each step to its reason."""
        return replace(self, summary=replace(self.summary, exit_code=exit_code, undone=failed_steps(undone)))

    @property
    def incomplete(self) -> ReportsIncomplete | None:
        """The error for missing reports: what was sent, which reports are missing and why, and what to do. None if no report is missing."""
        summary = self.summary
        if not summary.missing:
            return None
        counts = ", ".join(f"{count:,} {state}" for state, count in summary.entries.items()) or "nothing to send"
        missing_reports = fault_summary({one.report: one.why for one in summary.missing})
        log = self.state / "logs" / f"{summary.run}.jsonl"
        return ReportsIncomplete(
            f"run {summary.run}: {counts}; an internal error kept reports from being written: {missing_reports}",
            todo=f"the details are in {log}; `loadsheet report --run {summary.run}` makes them, after an upgrade if need be",
        )


@exactly()
def write(
    queries: LedgerQueries,
    reconciliation: Reconciliation,
    run: Run,
    settings: Settings,
    *,
    sheet_rows_max: int = ROWS_MAX,
    remarks: Sequence[Problem | str] = (),
    forecast: str = "",
    inbox: Mapping[str, Any] = MappingProxyType({}),
    missing_records: Mapping[int, MissingRecords] = MappingProxyType({}),
    drops: Sequence[Drop] | None = None,
    allowed: Callable[[], None] = lambda: None,
) -> Written:
    """Write all reports of a run into `outbox/RUN/`, replacing earlier ones of the same run; each appears whole or not at all.

    `run` carries the exit code and the end that will be recorded for it, as far as they are known. A reconciliation that does
    not balance is written all the same, and says so. `remarks` concern the run and no file, `forecast` says what is left to send and
    when that would be done, `inbox` what `left_in_inbox` made of the files that stay there, `missing_records` by drop what the
    last version of its file had and it has not. `drops` are told of if they are not the run's. `allowed` is asked before the first is written and before they are published; it raises if somebody else writes them now.
    Raises LoadsheetError if a report cannot be written.
    """
    allowed()
    drops = queries.drops_of(run) if drops is None else drops
    without: dict[str, str] = {}
    while True:
        try:
            additions = _Additions(
                remarks, forecast, inbox, missing_records, tuple(MissingReport(*one) for one in without.items())
            )
            summary = _write(
                queries, reconciliation, run, settings, drops=drops, additions=additions, sheet_rows_max=sheet_rows_max
            )
            allowed()
            _publish(queries, run, reconciliation, settings, summary)
            break
        except Fault as fault:
            without[fault.what] = log_fault(fault.what, fault.cause)
            run = replace(run, exit_code=ReportsIncomplete.exit_code)
    shipper, place = settings.shipper if settings.shippers else "", settings.outbox / run.name
    return Written(settings.outbox_here / run.name, summary.reports, summary, settings.state, shipper, place)


def write_fallback(queries: LedgerQueries, run: Run, settings: Settings, *, missing: Mapping[str, str]) -> Written:
    """Write the fallback reports of a run (see `fallback`). `missing` maps each missing report to its reason. Raises FolderError."""
    drops: list[Drop] = []
    known = dict(missing)
    with isolated("results", known):
        drops += queries.drops_of(run)
    summary = write_fallback_reports(queries, run, drops, settings.outbox_here, known)
    publish(settings, run.name, summary.reports)
    shipper, place = settings.shipper if settings.shippers else "", settings.outbox / run.name
    return Written(settings.outbox_here / run.name, summary.reports, summary, settings.state, shipper, place)


def rewrite_summary(written: Written, settings: Settings) -> None:
    """Rewrite only `run.json`, for a run that ended differently than its reports say. Raises FolderError."""
    with placed(written.folder / SUMMARY) as part:
        part.write_bytes(written.summary.to_json())
    close_reports(written.folder, settings)
    publish(settings, written.summary.run, [SUMMARY])


def missing_reports(run: Run) -> str:
    """Describe the missing reports of a run, from the ledger. Empty if none is missing."""
    missing = msgspec.json.decode(run.summary).get("missing", []) if run.summary else []
    return "has only minimal reports" if ALL in missing else f"has no {', '.join(missing)}" if missing else ""


class _Additions(NamedTuple):
    """What the reports show besides the ledger and the reconciliation."""

    remarks: Sequence[Problem | str]
    forecast: str
    inbox: Mapping[str, Any]
    missing_records: Mapping[int, MissingRecords]
    missing: tuple[MissingReport, ...]

    @property
    def without(self) -> Container[str]:
        """The optional reports to skip."""
        return {one.report for one in self.missing}


def _write(
    queries: LedgerQueries,
    reconciliation: Reconciliation,
    run: Run,
    settings: Settings,
    *,
    drops: Sequence[Drop],
    additions: _Additions,
    sheet_rows_max: int,
) -> RunSummary:
    """Write all reports except the skipped ones, in one pass over the ledger. Raises Fault if an optional report fails."""
    folder, names, without = settings.outbox_here / run.name, results_names(drops, run), additions.without
    tally = RunTally(folding=cast("Causes", Optional(CAUSES, Causes, without)))
    written: list[str] = []
    fix_names: dict[int, tuple[str, ...]] = {}
    page = Optional(PAGE_OF, lambda: RunPage(queries, documents_max=settings.reports.page_documents_max), without)
    acknowledgements = Optional(ACKNOWLEDGEMENTS, lambda: Acknowledgements(queries, run, folder, drops), without)
    fixes = Optional(FIXES, lambda: Fixes(queries, run, folder, settings), without)
    with ExitStack() as books:
        name = free_name(folder)

        def new_workbook() -> ReconciliationWorkbook:
            title = f"Reconciliation {run.name}"
            book = books.enter_context(open_book(folder / name, title=title, footer=f"loadsheet run {run.name}"))
            return ReconciliationWorkbook(book, folder, queries, reconciliation, rows_max=sheet_rows_max)

        workbook = Optional(WORKBOOK_OF, new_workbook, without)
        for drop in drops:
            tally.open(drop)
            workbook.open(drop)
            page.open(drop)
            with ExitStack() as spools:
                results = DropResults(drop, folder, names[drop.id], spools)
                fixes.open(drop, spools)
                acknowledgements.open(drop, spools)
                writers = [one.add for one in (tally, results, workbook, page, acknowledgements)]
                fix = fixes.add
                for entry in queries.entries_of(drop.id):
                    fix(entry)
                    _add_to_all(writers, entry, reconciliation.matches[entry.id])
                for row in queries.ignored_of(drop.id):
                    results.leave_out(row)
                written += results.finish()
                fix_names[drop.id] = fixes.finish()
                written += (*fix_names[drop.id], *acknowledgements.finish())
        reports = [*([PAGE] * (PAGE_OF not in without)), *([name] * (WORKBOOK_OF not in without)), *written, SUMMARY]
        summarise_run = partial(summarise, results=names, reports=reports, fixes=fix_names, inbox=additions.inbox)
        summarise_run = partial(summarise_run, missing_records=additions.missing_records)
        summary = replace(summarise_run(run, drops, reconciliation, tally, settings), missing=additions.missing)
        overflow = workbook.finish(summary, run, settings)
        remarks = (*map(str, additions.remarks), *other_name(name))
        summary = replace(summary, reports=(*reports, *overflow), remarks=remarks, forecast=additions.forecast)
        raising_fault(WORKBOOK_OF, books.close)  # now it is in its place
    page.finish(folder, summary)
    with placed(folder / SUMMARY) as part:  # the last: where it stands, the others do
        part.write_bytes(summary.to_json())
    return summary


def _publish(
    queries: LedgerQueries, run: Run, reconciliation: Reconciliation, settings: Settings, summary: RunSummary
) -> None:
    """Publish the reports and the index that links to them."""
    close_reports(settings.outbox_here / run.name, settings)
    publish(settings, run.name, summary.reports)
    if INDEX_OF in {one.report for one in summary.missing}:
        return
    shown, fleet = settings.reports.index_runs_max, raising_fault(INDEX_OF, fleet_status, settings)
    bring_summaries(settings, shown)
    raising_fault(
        INDEX_OF,
        write_index,
        settings.outbox_here,
        queries,
        run,
        reconciliation.exceptions,
        runs_max=shown,
        fleet=fleet,
    )
    close_reports(settings.outbox_here / INDEX, settings)
    publish_index(settings)


def close_reports(place: Path, settings: Settings) -> None:
    """Set the file modes of reports as the settings ask."""
    with suppress(OSError):  # some file systems know no modes
        if settings.outbox_group:
            close_one(settings.outbox_here, settings.outbox_group)
        close_to_others(place, settings.outbox_group)


def _add_to_all(writers: Sequence[Callable[[Entry, Match], object]], entry: Entry, match: Match) -> None:
    counted = entry if entry.state is match.state else entry._replace(state=match.state)
    for add in writers:
        add(counted, match)

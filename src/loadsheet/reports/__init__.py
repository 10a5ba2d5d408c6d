"""Stage 7: reports. They show the outcome of every row to the shipper, the analyst and other programs.

`write` makes one pass over the ledger. It writes results files, fix files, acknowledgements, the reconciliation
workbook, the page and `run.json`, then the index of all runs. It reads the ledger and the reconciliation, but no
source file and no network. Equal ledgers give equal bytes. If the outbox is in an object store, it uploads each
report, `run.json` last. A report that cannot be uploaded stays on this machine. The next write of that run, or
`loadsheet report`, uploads it.
"""

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self, cast

import msgspec

from loadsheet import exit_codes, object_storage
from loadsheet.contract import exact_sums
from loadsheet.errors import ReportsIncomplete
from loadsheet.internal_errors import (
    InternalError,
    failed_steps_text,
    isolated,
    log_internal_error,
    raising_internal_error,
)
from loadsheet.ledger import Drop, Entry, Run
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.run_queries import reported_at
from loadsheet.places import address_of, close_one, close_to_others, place_text
from loadsheet.problem_groups import Causes
from loadsheet.reconcile import ONLY_CHECKED, Exceptions, Match, Reconciliation
from loadsheet.reports.acknowledgement import Acknowledgements, acknowledgement_schema
from loadsheet.reports.fallback_reports import write_fallback_reports
from loadsheet.reports.fix_workbook import Fixes, placing, words_for
from loadsheet.reports.headline import RunPlaces, exit_code_shown, terminal_lines, with_headline
from loadsheet.reports.html_pages import INDEX, PAGE, cluster_summary, write_index
from loadsheet.reports.reconciliation import ReconciliationWorkbook, free_name, other_name
from loadsheet.reports.reconciliation.worklist import SourceLinks
from loadsheet.reports.report_files import check_writable, run_folders, written_atomically
from loadsheet.reports.results import DropResults, results_names
from loadsheet.reports.run_document import SUMMARY, MissingReport, RunSummary, is_day, schema, title_of
from loadsheet.reports.run_page import RunPage
from loadsheet.reports.run_summary import (
    ReportNames,
    RunTally,
    failed_steps,
    left_in_inbox,
    open_since_earlier,
    summarise,
)
from loadsheet.reports.sheets import open_book
from loadsheet.settings import Settings

__all__ = [
    "ALL",
    "SUMMARY",
    "RunSummary",
    "Written",
    "acknowledgement_schema",
    "check_writable",
    "download_reports",
    "left_in_inbox",
    "missing_reports",
    "read_written",
    "renew_index",
    "rewrite_summary",
    "run_folders",
    "schema",
    "write",
    "write_fallback",
]


ALL = "all but the results"
"""Stands for all missing reports of a run that has only the fallback reports."""

_RUN = re.compile(r"\d{4}-\d\d-\d\d(-\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Written:
    """The reports of one run: their folder and summary.

    `state` is the folder of the ledger, `mappings` that of the mappings. `shipper` is empty unless shippers are declared. `place` is
    where others find the folder: the folder itself, or its address in an object store. `reported_at` is when the reports were complete
    for the first time (ISO 8601 UTC; empty: not known).
    """

    folder: Path
    summary: RunSummary
    place: Path
    state: Path
    mappings: Path
    shipper: str
    reported_at: str = ""

    @property
    def paths(self) -> list[Path]:
        """Every report."""
        return [self.folder / name for name in self.summary.reports]

    def lines(self, *, verbose: bool = False) -> list[str]:
        """The summary for the terminal, line by line; `verbose` lists every file and every kind of problem."""
        return terminal_lines(
            self.summary,
            RunPlaces(self.place, self.state, self.mappings, self.shipper, self.reported_at),
            verbose=verbose,
        )

    @property
    def in_ledger(self) -> dict[str, Any]:
        """What the ledger stores about the run (JSON values)."""
        verdict = self.summary.headline
        summary: dict[str, Any] = {"entries": dict(self.summary.entries), "verdicts": dict(self.summary.verdicts)}
        if self.reported_at:
            summary["reported_at"] = self.reported_at
        if self.summary.settled:
            summary["settled"] = dict(self.summary.settled)
        summary["headline"] = " · ".join((verdict.text, *verdict.details))
        if self.summary.missing:
            summary["missing"] = [one.report for one in self.summary.missing]
        if self.summary.undone:
            summary["undone"] = {one.what: one.why for one in self.summary.undone}
        return summary

    def with_failed_steps(self, exit_code: int, undone: Mapping[str, str]) -> Self:
        """Return a copy with another exit code, because steps failed after the run ended. `undone` maps each step to its reason."""
        changed = replace(self.summary, exit_code=exit_code, undone=failed_steps(undone))
        return replace(self, summary=with_headline(changed))

    @property
    def incomplete(self) -> ReportsIncomplete | None:
        """Return the error for missing reports: what was sent, which are missing, why, and what to do. None if none is missing."""
        summary = self.summary
        if not summary.missing:
            return None
        missing_reports = failed_steps_text({one.report: one.why for one in summary.missing})
        log = self.state / "logs" / f"{summary.run}.jsonl"
        return ReportsIncomplete(
            f"run {summary.run}: {summary.counts_text}; an internal error prevented these reports: {missing_reports}",
            todo=f"see {log} for details, then run `loadsheet report --run {summary.run}`, after an upgrade if needed",
        )


@exact_sums()
def write(
    queries: LedgerQueries,
    reconciliation: Reconciliation,
    run: Run,
    settings: Settings,
    *,
    check_still_held: Callable[[], None] = lambda: None,
) -> Written:
    """Write all reports of a run into `outbox/RUN/` and replace earlier ones. Each file is written atomically.

    `run` carries the exit code and the end that the ledger will record, as far as they are known. A reconciliation
    that does not balance is written too, and says so. `check_still_held` is called before the first report is written and
    again before they are published. It raises if another process is writing them. If a report fails with an
    internal error, all reports are written again without it.
    Raises LoadsheetError if a report cannot be written.
    """
    check_still_held()
    missing: dict[str, str] = {}
    while True:
        try:
            summary = _write(queries, reconciliation, run, settings, missing)
            check_still_held()
            _set_modes_and_publish(settings, run.name, summary.reports)
            if _INDEX not in missing:
                _download_summaries(settings)
                raising_internal_error(_INDEX, renew_index, settings, queries, run, reconciliation.exceptions)
        except InternalError as fault:
            missing[fault.what] = log_internal_error(fault.what, fault.cause)
            run = replace(run, exit_code=exit_codes.INTERNAL_ERROR)
        else:
            return _written(settings, summary, reported_at(run))


def write_fallback(queries: LedgerQueries, run: Run, settings: Settings, *, missing: Mapping[str, str]) -> Written:
    """Write the fallback reports of a run (see `results`). `missing` maps each missing report to its reason. Raises FolderError."""
    drops: list[Drop] = []
    known = dict(missing)
    with isolated("results", known):
        drops += queries.drops_of(run)
    summary = write_fallback_reports(queries, run, drops, settings.outbox_here, known)
    _publish(settings, run.name, summary.reports)
    return _written(settings, summary)


def rewrite_summary(written: Written, settings: Settings) -> None:
    """Rewrite only `run.json`, for a run whose end differs from what its reports say. Raises FolderError."""
    with written_atomically(written.folder / SUMMARY) as part:
        part.write_bytes(written.summary.to_json())
    _set_modes_and_publish(settings, written.summary.run, [SUMMARY])


def renew_index(settings: Settings, queries: LedgerQueries, run: Run, exceptions: Exceptions) -> None:
    """Write the index that links to all reports as of this run, and publish it. Raises FolderError."""
    write_index(settings, queries, run, exceptions, fleet=cluster_summary(settings))
    _set_modes(settings.outbox_here / INDEX, settings)
    if settings.outbox_address:
        _put(settings, INDEX)


def missing_reports(run: Run) -> str:
    """Describe the missing reports of a run, from the ledger. Empty if none is missing."""
    missing = msgspec.json.decode(run.summary).get("missing", []) if run.summary else []
    return "has only minimal reports" if ALL in missing else f"has no {', '.join(missing)}" if missing else ""


def _written(settings: Settings, summary: RunSummary, reported_at: str = "") -> Written:
    shipper = settings.shipper if settings.shippers else ""
    folder, place = settings.outbox_here / summary.run, settings.outbox / summary.run
    return Written(folder, summary, place, settings.state, settings.mappings, shipper, reported_at)


# What a report is called where an internal error prevented it.
_CAUSES = "causes"
_FIXES = "fix files"
_ACKNOWLEDGEMENTS = "acknowledgements"
_WORKBOOK = "workbook"
_PAGE = "page"
_INDEX = "index of runs"


class Isolated:
    """An optional report, made by `make`. If it fails, the others are still written. Its methods raise InternalError.
    If the report is among the `missing`, they do nothing.
    """

    def __init__(self, report: str, make: Callable[[], Any], missing: Container[str]) -> None:
        self._report = report
        self._made = None if report in missing else raising_internal_error(report, make)

    def add_all(self, found: Iterable[tuple[Entry, Match]]) -> None:
        """Add these entries with their matches."""
        if self._made is not None:
            raising_internal_error(self._report, _add_all, self._made, found)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if self._made is None:
            return lambda *_words: ()
        return partial(raising_internal_error, self._report, getattr(self._made, verb))


def _with_matches(
    entries: Iterator[Entry], reconciliation: Reconciliation
) -> Iterator[tuple[list[Entry], list[tuple[Entry, Match]]]]:
    """Entries in parts; each part also with its matches and the states that decided them."""
    while some := list(islice(entries, _ENTRIES_AT_ONCE)):
        found = []
        for entry in some:
            match = reconciliation.matches[entry.id]
            found.append((entry if entry.state is match.state else entry._replace(state=match.state), match))
        yield some, found


def _add_each(fixes: Any, entries: Iterable[Entry]) -> None:
    add = fixes.add
    for entry in entries:
        add(entry)


def _add_all(report: Any, found: Iterable[tuple[Entry, Match]]) -> None:
    for entry, match in found:
        report.add(entry, match)


def _write(
    queries: LedgerQueries, reconciliation: Reconciliation, run: Run, settings: Settings, missing: Mapping[str, str]
) -> RunSummary:
    """Write all reports but the `missing`, in one pass over the ledger. Raises InternalError if an optional report fails."""
    folder, drops = settings.outbox_here / run.name, reconciliation.drops
    names = ReportNames(results_names(drops, run, settings.reports.results), {}, [PAGE] * (_PAGE not in missing))
    resolved, folding = reconciliation.exceptions.resolved, cast("Causes", Isolated(_CAUSES, Causes, missing))
    before = queries.accepted_before(run, drops)
    tally = RunTally(folding=folding, resolved=resolved, is_day=is_day(run.name), accepted_before=before)
    page = Isolated(_PAGE, lambda: RunPage(queries, settings.reports.page_documents_max, resolved), missing)
    is_check = reconciliation.notes.stopped == ONLY_CHECKED
    left_out = {*missing, _ACKNOWLEDGEMENTS} if is_check else missing
    acknowledgements = Isolated(_ACKNOWLEDGEMENTS, lambda: Acknowledgements(queries, run, folder, drops), left_out)
    fixes = Isolated(_FIXES, lambda: Fixes(queries, run, folder, settings, is_check=is_check), missing)
    with ExitStack() as books:
        name = free_name(folder)
        names.reports.extend([name] * (_WORKBOOK not in missing))

        def new_workbook() -> ReconciliationWorkbook:
            title = f"Reconciliation {run.name}"
            book = books.enter_context(open_book(folder / name, title=title, footer=f"loadsheet {title_of(run.name)}"))
            links = SourceLinks(archive_from(settings, run.name), settings.archive_path)
            return ReconciliationWorkbook(book, folder, queries, reconciliation, links)

        workbook = Isolated(_WORKBOOK, new_workbook, missing)
        for drop in drops:
            tally.open(drop)
            workbook.open(drop)
            page.open(drop)
            with ExitStack() as spools:
                words = words_for(drop, settings)
                results = DropResults(drop, folder, names.results[drop.id], words, spools)
                place = placing(queries, words)
                fixes.open(drop, spools)
                acknowledgements.open(drop, spools)
                for some, found in _with_matches(queries.entries_of(drop.id), reconciliation):
                    _add_each(fixes, (entry for entry in some if entry.id not in resolved))
                    _add_all(tally, found)
                    _add_all(results, ((place(entry), match) for entry, match in found))
                    for report in (workbook, page, acknowledgements):
                        report.add_all(found)
                for row in queries.ignored_of(drop.id):
                    results.leave_out(row)
                names.reports.extend(results.finish())
                names.fixes[drop.id] = fixes.finish()
                names.reports.extend((*names.fixes[drop.id], *acknowledgements.finish()))
        names.reports.append(SUMMARY)
        summary = summarise(run, reconciliation, tally, settings, names)
        lacking = tuple(MissingReport(*one) for one in missing.items())
        keys = tuple(queries.keys_of(open_since_earlier(reconciliation)[:_OPEN_KEYS_MAX]).values())
        remarks = (*summary.remarks, *other_name(name))
        summary = with_headline(replace(summary, remarks=remarks, missing=lacking, open_keys=keys))
        summary = replace(summary, exit_code=exit_code_shown(summary))
        summary = replace(summary, reports=(*summary.reports, *workbook.finish(summary, run, settings)))
        raising_internal_error(_WORKBOOK, books.close)  # renames the finished workbook to its final name
    page.finish(folder, summary)
    _remove_fallback_reports(folder, results_names(drops, run), summary)
    with written_atomically(folder / SUMMARY) as part:  # last: where it exists, all other reports do too
        part.write_bytes(summary.to_json())
    return summary


def _remove_fallback_reports(
    folder: Path, results: Mapping[int, Mapping[tuple[str, str], str]], summary: RunSummary
) -> None:
    """Remove the results files of minimal reports: they are CSV where those of this summary are workbooks."""
    for stale in {name for mine in results.values() for name in mine.values()} - {*summary.reports}:
        (folder / stale).unlink(missing_ok=True)


_PARENTS_MAX = 4
_ENTRIES_AT_ONCE = 500
_OPEN_KEYS_MAX = 3


def archive_from(settings: Settings, run: str) -> str:
    """The folder of originals relative to the report folder of a run; empty if one of them is in an object store, or if they
    have no parent in common near by, so that a replayed capsule could not make the same links.
    """
    if settings.outbox_address or address_of(settings.archive_place):
        return ""
    folder = settings.outbox_here.absolute() / run
    archive = os.path.relpath(settings.archive_place.absolute(), folder).replace(os.sep, "/")
    return archive if archive.count("../") <= _PARENTS_MAX else ""


def _set_modes_and_publish(settings: Settings, run: str, names: Sequence[str]) -> None:
    _set_modes(settings.outbox_here / run, settings)
    _publish(settings, run, names)


def _set_modes(place: Path, settings: Settings) -> None:
    """Set the file modes from the settings."""
    with suppress(OSError):  # some file systems have no modes
        if settings.outbox_group:
            close_one(settings.outbox_here, settings.outbox_group)
        close_to_others(place, settings.outbox_group)


def _publish(settings: Settings, run: str, names: Iterable[str]) -> None:
    """Upload these reports of a run, if the outbox is in an object store. Raises FolderError."""
    if settings.outbox_address:
        object_storage.in_parallel(
            lambda name: _put(settings, f"{run}/{name}"), [name for name in names if name != SUMMARY]
        )
        _put(settings, f"{run}/{SUMMARY}")


def _download_summaries(settings: Settings) -> None:
    """Download `run.json` of the newest runs of other machines, if the outbox is in an object store. Raises FolderError."""
    if settings.outbox_address:
        runs = [name for name in object_storage.names_in(settings.outbox_address) if _RUN.fullmatch(name)]
        newest = sorted(runs, key=lambda run: (run[:10], int(run[11:] or 0)))[-settings.reports.index_runs_max :]
        object_storage.in_parallel(lambda run: _download(settings, f"{run}/{SUMMARY}"), newest)


class _Names(msgspec.Struct):
    reports: tuple[str, ...] = ()


def named_reports(summary: bytes) -> tuple[str, ...]:
    """The names of a run's reports in the content of its `run.json`; none if it cannot be read."""
    try:
        return msgspec.json.decode(summary, type=_Names).reports
    except msgspec.MsgspecError:
        return ()


def download_reports(settings: Settings, run: str) -> tuple[str, ...]:
    """The names of a run's reports, from its `run.json`. If the outbox is in an object store, missing files are
    downloaded. Raises FolderError.
    """
    if settings.outbox_address:
        _download(settings, f"{run}/{SUMMARY}")
    try:
        names = named_reports((settings.outbox_here / run / SUMMARY).read_bytes())
    except OSError:
        return ()
    if settings.outbox_address:
        object_storage.in_parallel(lambda name: _download(settings, f"{run}/{name}"), names)
    return names


def read_written(settings: Settings, run: str) -> Written | None:
    """The reports of a run, from its `run.json`; None if it is gone or cannot be read. Raises FolderError."""
    download_reports(settings, run)
    try:
        text = (settings.outbox_here / run / SUMMARY).read_bytes()
        return _written(settings, msgspec.json.decode(text, type=RunSummary))
    except (OSError, msgspec.MsgspecError):
        return None


def _put(settings: Settings, name: str) -> None:
    object_storage.put(settings.outbox_here / name, place_text(settings.outbox / name))


def _download(settings: Settings, name: str) -> None:
    target = settings.outbox_here / name
    if not target.is_file() and (found := object_storage.find_object(place_text(settings.outbox / name))):
        object_storage.fetch(found, target)

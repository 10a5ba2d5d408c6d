"""The fallback reports: results files and `run.json`, written by the simplest possible code when the others fail.

Reads only the ledger: no verdicts, causes, workbook or page. A drop that cannot be reported is left out and named.
`loadsheet report` replaces these reports.
"""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

from loadsheet.internal_errors import isolated
from loadsheet.ledger import NEEDS_SOMEONE, Drop, Entry, Run, SourceFile, SourceTable, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.documents import own_rows
from loadsheet.problems import Problem
from loadsheet.reconcile import IGNORED
from loadsheet.reports.report_files import csv_row, placed
from loadsheet.reports.results import SET_ASIDE, Place, results_names
from loadsheet.reports.run_document import (
    SUMMARY,
    BalanceSummary,
    DropSummary,
    FileSummary,
    MissingReport,
    NeedsSomeone,
    RunSummary,
    TableSummary,
)

_HEAD = ("row", "outcome", "problem", "what to do", "operation", "key", "service order")


@dataclass
class _Counts:
    """The totals of some drops' entries."""

    entries: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Counter[str]] = field(default_factory=dict)  # by table
    first: str = ""

    def add(self, entry: Entry) -> None:
        self.entries[entry.state.value] += 1
        if entry.state in NEEDS_SOMEONE and not self.first:
            self.first = entry.key
        for table, _, _, _ in own_rows(entry.rows, entry.items):
            self.rows.setdefault(table, Counter())[entry.state.value] += 1


def write_fallback_reports(
    queries: LedgerQueries, run: Run, drops: Sequence[Drop], outbox: Path, missing: Mapping[str, str]
) -> RunSummary:
    """Write the results files and `run.json` of a run into `outbox/RUN/`. `missing` maps each missing report to its
    reason. Raises FolderError.
    """
    lacking, summaries, written = dict(missing), list[DropSummary](), list[str]()
    names = results_names(drops, run)
    entries, fates, read, first = Counter[str](), Counter[str](), 0, ""
    for drop in drops:
        with isolated(f"results of {drop.name}", lacking):
            counts = _write_results(queries, drop, outbox / run.name, names[drop.id])
            summaries.append(_drop(drop, counts, names[drop.id]))
            entries.update(counts.entries)
            fates.update(sum(counts.rows.values(), start=Counter[str]()))
            written += names[drop.id].values()
            read += sum(table.rows for table in drop.tables)
            first = first or counts.first
    balances = read == fates.total() and len(summaries) == len(drops)
    summary = RunSummary(
        run=run.name,
        started_at=run.started_at,
        finished_at=run.finished_at,
        exit_code=run.exit_code,
        balance=BalanceSummary(balances, read, dict(fates), () if balances else ("see the missing reports",)),
        entries={state.value: entries[state] for state in State if entries[state]},
        verdicts={},
        groups={},
        only_at_exchange=0,
        needs_someone=NeedsSomeone(_needing(entries), _needing(fates), first),
        legs=(),
        totals=(),
        problems=(),
        drops=tuple(summaries),
        reports=(*written, SUMMARY),
        settings={},
        deviations=(),
        versions={"loadsheet": version("loadsheet"), "python": platform.python_version()},
        missing=tuple(MissingReport(*one) for one in lacking.items()),
    )
    with placed(outbox / run.name / SUMMARY) as part:
        part.write_bytes(summary.to_json())
    return summary


def _needing(counts: Counter[str]) -> int:
    return sum(counts[state] for state in NEEDS_SOMEONE)


def _write_results(queries: LedgerQueries, drop: Drop, folder: Path, names: Mapping[Place, str]) -> _Counts:
    """Write the results files of a drop, one per file and sheet, with rows in ledger order."""
    counts = _Counts()
    with ExitStack() as files:
        lines = {place: _opened(folder / name, drop, place, files) for place, name in names.items()}
        by_table = {table.name: lines[table.file, table.sheet] for table in drop.tables}
        for file in drop.files:
            for problem in file.problems:
                row = str(problem.where.row or "")
                lines[file.name, ""].write(csv_row((row, SET_ASIDE, _problem_text(problem), problem.hint)))
        for entry in queries.entries_of(drop.id):
            counts.add(entry)
            text = "; ".join(_problem_text(problem) for problem in entry.problems) or entry.reason
            todo = "; ".join(dict.fromkeys(problem.hint for problem in entry.problems if problem.hint))
            for table, number, cells, _ in entry.rows:
                line = (str(number), entry.state.value, text, todo, entry.operation, entry.key, entry.receipt, *cells)
                by_table[table].write(csv_row(line))
        for left_out in queries.ignored_of(drop.id):
            counts.rows.setdefault(left_out.table, Counter())[IGNORED] += 1
            line = (str(left_out.number), IGNORED, left_out.rule, "", "", "", "", *left_out.cells)
            by_table[left_out.table].write(csv_row(line))
    return counts


def _opened(path: Path, drop: Drop, place: Place, files: ExitStack) -> TextIO:
    part = files.enter_context(placed(path))
    target = files.enter_context(part.open("w", encoding="utf-8-sig", newline="", errors="replace"))
    header = next((table.header for table in drop.tables if (table.file, table.sheet) == place), ())
    target.write(csv_row((*_HEAD, *header)))
    return target


def _problem_text(problem: Problem) -> str:
    """A problem in words; its raw parts if its text cannot be filled."""
    try:
        return f"{problem.text_for_its_sender} [{problem.code}]"
    except (KeyError, ValueError, IndexError):
        return f"{problem.where} {problem.found} [{problem.code}]".strip()


def _drop(drop: Drop, counts: _Counts, names: Mapping[Place, str]) -> DropSummary:
    entries = {state.value: counts.entries[state] for state in State if counts.entries[state]}
    files = tuple(_file(file, drop, counts, names) for file in drop.files)
    return DropSummary(drop.run, drop.mapping, drop.mapping_version, drop.operation, entries, files)


def _file(file: SourceFile, drop: Drop, counts: _Counts, names: Mapping[Place, str]) -> FileSummary:
    tables = tuple(_table(table, counts) for table in drop.tables if table.file == file.name)
    results = tuple(name for (mine, _), name in names.items() if mine == file.name)
    aside = tuple(f"{file.name}: {_problem_text(problem)}" for problem in file.problems)
    file_fields = (file.name, file.role, file.sha256, file.size, file.arrived, file.kept_as)
    return FileSummary(*file_fields, aside, tables, results)


def _table(table: SourceTable, counts: _Counts) -> TableSummary:
    fates = counts.rows.get(table.name, Counter())
    return TableSummary(table.name, table.sheet, table.rows, dict(fates), table.rows == fates.total(), table.found)

"""Fallback reports: results files and `run.json` by the simplest possible code, if other reports fail. CSV in English.

They read only the ledger: no verdicts, causes, workbook or page. A drop that cannot be reported is left out and named.
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
from loadsheet.ledger import STATES_THAT_NEED_SOMEONE, Drop, Entry, Run, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import Problem
from loadsheet.reconcile import IGNORED
from loadsheet.reports.headline import with_headline
from loadsheet.reports.report_files import csv_row, written_atomically
from loadsheet.reports.results import LEADING, SET_ASIDE, TRAILING, Place, results_names
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


@dataclass
class _Counts:
    """The totals of a drop's entries."""

    drop: Drop
    entries: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Counter[str]] = field(default_factory=dict)  # by table
    first: str = ""

    def __post_init__(self) -> None:
        self._counted_in = self.drop.counted_in

    def add(self, entry: Entry) -> None:
        self.entries[entry.state.value] += 1
        if entry.state in STATES_THAT_NEED_SOMEONE and not self.first:
            self.first = entry.key
        for table, _, _, _ in entry.links.own(entry.rows):
            self.count(table, entry.state.value)

    def count(self, table: str, fate: str) -> None:
        self.rows.setdefault(self._counted_in.get(table, table), Counter())[fate] += 1


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
        needs_someone=NeedsSomeone(
            sum(entries[state] for state in STATES_THAT_NEED_SOMEONE),
            sum(fates[state] for state in STATES_THAT_NEED_SOMEONE),
            first,
        ),
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
    with isolated("headline", lacking):
        summary = with_headline(summary)
    with written_atomically(outbox / run.name / SUMMARY) as part:
        part.write_bytes(summary.to_json())
    return summary


def _write_results(queries: LedgerQueries, drop: Drop, folder: Path, names: Mapping[Place, str]) -> _Counts:
    """Write the results files of a drop, one per file and sheet, with rows in ledger order."""
    counts = _Counts(drop)
    with ExitStack() as files:
        lines = {place: _opened(folder / name, drop, place, files) for place, name in names.items()}
        by_table = {table.name: lines[table.file, table.sheet] for table in drop.tables}
        for file in drop.files:
            for problem in file.problems:
                row = str(problem.where.row or "")
                lines[file.name, ""].write(csv_row((row, SET_ASIDE, _raw_problem_text(problem), problem.hint)))
        for entry in queries.entries_of(drop.id):
            counts.add(entry)
            text = "; ".join(_raw_problem_text(problem) for problem in entry.problems) or entry.reason
            todo = "; ".join(dict.fromkeys(problem.hint for problem in entry.problems if problem.hint))
            for table, number, cells, _ in entry.rows:
                line = (
                    str(number),
                    entry.state.value,
                    text,
                    todo,
                    entry.operation,
                    entry.key,
                    entry.service_order,
                    *cells,
                )
                by_table[table].write(csv_row(line))
        for left_out in queries.ignored_of(drop.id):
            counts.count(left_out.table, IGNORED)
            line = (str(left_out.number), IGNORED, left_out.rule, "", "", "", "", *left_out.cells)
            by_table[left_out.table].write(csv_row(line))
    return counts


def _opened(path: Path, drop: Drop, place: Place, files: ExitStack) -> TextIO:
    part = files.enter_context(written_atomically(path))
    target = files.enter_context(part.open("w", encoding="utf-8-sig", newline="", errors="replace"))
    header = next((table.header for table in drop.tables if (table.file, table.sheet) == place), ())
    # without the verdict
    target.write(csv_row((*LEADING, *TRAILING[:-1], *header)))
    return target


def _raw_problem_text(problem: Problem) -> str:
    """A problem in words; its raw parts if its text cannot be filled."""
    try:
        return f"{problem.text_for_its_sender} [{problem.code}]"
    except (KeyError, ValueError, IndexError):
        return f"{problem.where} {problem.found} [{problem.code}]".strip()


def _drop(drop: Drop, counts: _Counts, names: Mapping[Place, str]) -> DropSummary:
    entries = {state.value: counts.entries[state] for state in State if counts.entries[state]}
    files = []
    for file in drop.files:
        tables = []
        for table in (one for one in drop.tables if one.file == file.name):
            fates = counts.rows.get(table.name, Counter())
            balances = table.rows == fates.total()
            tables.append(TableSummary(table.name, table.sheet, table.rows, dict(fates), balances, table.reading_notes))
        results = tuple(name for (mine, _), name in names.items() if mine == file.name)
        aside = tuple(f"{file.name}: {_raw_problem_text(problem)}" for problem in file.problems)
        head = (file.name, file.role, file.sha256, file.size, file.arrived, file.kept_as)
        files.append(FileSummary(*head, aside, tuple(tables), results))
    return DropSummary(drop.run, drop.meant_for, drop.mapping_version, drop.operation, entries, tuple(files))

"""The results of a source file: its own rows in source order, each with its outcome. One CSV per file and sheet.

Owns the layout and names of results files. Rows arrive in entry order and are spooled. Sixteen bytes a row are kept to
sort them at the end, so memory does not grow with the cells.

If other reports fail, `write_fallback_reports` writes results files and `run.json` by the simplest possible code. It
reads only the ledger: no verdicts, causes, workbook or page. A drop that cannot be reported is left out and named.
`loadsheet report` replaces these reports.
"""

import codecs
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

from loadsheet.internal_errors import isolated
from loadsheet.languages import known_language, words_in
from loadsheet.ledger import NEEDS_SOMEONE, Drop, Entry, IgnoredRow, Run, SourceTable, State
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.documents import LOOKED_UP, SourceRow, own_rows
from loadsheet.problems import Problem
from loadsheet.reconcile import IGNORED, Match
from loadsheet.reports.fix_workbook.wording import word_problem
from loadsheet.reports.headline import with_headline
from loadsheet.reports.report_files import Spool, csv_row, distinct_name, placed, safe_name
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

SUFFIX = ".results.csv"
SET_ASIDE = "set aside"

LEADING = ("row", "outcome", "problem", "what to do")
TRAILING = ("operation", "key", "service order", "verdict")

Place = tuple[str, str]
"""File and sheet."""


class DropResults:
    """The results files of one drop. Add all entries and ignored rows, then call `finish`."""

    def __init__(self, drop: Drop, folder: Path, names: Mapping[Place, str], stack: ExitStack) -> None:
        """`names` are the file names in `folder` by source file and sheet; `stack` closes the spools."""
        self._drop = drop
        self._looked_up: set[tuple[str, int, tuple[str, str, str]]] = set()
        self._tables = {table.name: table for table in drop.tables}
        self._titles = {table.name: table.sheet or table.file for table in drop.tables}
        self._files = {place: _ResultsFile(folder / names[place], stack) for place in places_of(drop)}
        self._by_table = {table.name: self._files[table.file, table.sheet] for table in drop.tables}
        for table in reversed(drop.tables):  # if a sheet holds several tables, the first header wins
            self._files[table.file, table.sheet].head(table.header)
        for file in drop.files:
            if file.problems:
                aside = self._files[file.name, ""]
                aside.head(())
                for problem in file.problems:
                    leading = (str(problem.where.row or ""), SET_ASIDE, _problem_text(problem), self._todo(problem))
                    aside.put(problem.where.row, csv_row((*leading, "", "", "", "")))

    def add(self, entry: Entry, match: Match) -> None:
        """Write the rows of an entry."""
        tail = (entry.operation, entry.key, entry.receipt, match.verdict)
        looked_up = frozenset(entry.items.get(LOOKED_UP, ()))
        if not entry.problems and entry.state not in NEEDS_SOMEONE:
            for position, row in enumerate(entry.rows):
                write = self._write_looked_up if position in looked_up else self._write
                write(row.table, row.number, (entry.state, "", ""), row.cells, tail)
            return
        by_row = _problems_by_row(entry, self._tables)
        cause = next(
            (number for number, problems in enumerate(by_row) if any(p.level == "error" for p in problems)), None
        )
        for position, row in enumerate(entry.rows):
            texts = [_problem_text(problem) for problem in by_row[position]]
            if entry.state in NEEDS_SOMEONE and not any(problem.level == "error" for problem in by_row[position]):
                texts.append(self._reason_of_row(entry, row, cause))
            todo = dict.fromkeys(self._todo(problem, entry) for problem in by_row[position])
            if not todo and cause is not None:
                todo = {f"See row {entry.rows[cause].number}": None}
            write = self._write_looked_up if position in looked_up else self._write
            write(row.table, row.number, (entry.state, "; ".join(texts), "; ".join(todo)), row.cells, tail)

    def _todo(self, problem: Problem, entry: Entry | None = None) -> str:
        """What the sender of the file can do about a problem of an entry, or of the file."""
        where = problem.where
        own = [self._tables[row.table] for row in entry.rows] if entry is not None else []
        tables = (*own, *self._tables.values())  # several mappings may read one sheet
        table = next((one for one in tables if (one.file, one.sheet) == (where.file, where.sheet)), None)
        guide = self._drop.guide.get(table.name, {}).get(where.column) if table is not None else None
        if guide is not None and known_language(self._drop.language) != "en":
            guide = replace(guide, takes="")
        return word_problem(problem, words_in("en"), self._titles, guide).todo

    def leave_out(self, row: IgnoredRow) -> None:
        """Write a row that a rule ignored."""
        self._write(row.table, row.number, (IGNORED, row.rule, ""), row.cells, ("", "", "", ""))

    def finish(self) -> list[str]:
        """Move the files to their final places and return their names."""
        return [file.finish() for file in self._files.values()]

    def _reason_of_row(self, entry: Entry, row: SourceRow, cause: int | None) -> str:
        """Why a row without an error of its own shares the fate of its entry."""
        if cause is None:
            return entry.reason
        other, here = entry.rows[cause], self._tables[row.table]
        there = self._tables[other.table]
        place = (
            "" if (here.file, here.sheet) == (there.file, there.sheet) else f"{there.file} {there.sheet}".strip() + " "
        )
        word = State.HELD if entry.state is State.INVALID else entry.state
        return f"{word} with {place}row {other.number}"

    def _write_looked_up(
        self, table: str, number: int, leading: tuple[str, str, str], cells: Sequence[str], trailing: Sequence[str]
    ) -> None:
        """Write a row that many entries may look up: once for each outcome, without an entry."""
        if (table, number, leading) not in self._looked_up:
            self._looked_up.add((table, number, leading))
            self._write(table, number, leading, cells, ("",) * len(trailing))

    def _write(
        self, table: str, number: int, leading: Sequence[str], cells: Sequence[str], trailing: Sequence[str]
    ) -> None:
        cells = cells or ("",) * len(self._tables[table].header)  # removed by retention
        self._by_table[table].put(number, csv_row((str(number), *leading, *cells, *trailing)))


def places_of(drop: Drop) -> list[Place]:
    """The files and sheets of a drop with results: all tables read, and files set aside."""
    read = [(table.file, table.sheet) for table in drop.tables]
    return list(dict.fromkeys(read + [(file.name, "") for file in drop.files if file.problems]))


def results_names(drops: Iterable[Drop], run: Run) -> dict[int, dict[Place, str]]:
    """The name of every results file of a run, by drop: the file's name with folders flattened. Duplicates are numbered."""
    names: dict[int, dict[Place, str]] = {}
    taken: set[str] = set()
    for drop in drops:
        places = places_of(drop)
        mine = names[drop.id] = {}
        for file, sheet in places:
            several = sum(other == file for other, _ in places) > 1
            earlier = "" if run.holds(drop.run) else f".of-{drop.run}"
            base = safe_name(file) + (f".{safe_name(sheet)}" if several else "") + earlier
            mine[file, sheet] = distinct_name(base, SUFFIX, taken)
    return names


def _problems_by_row(entry: Entry, tables: dict[str, SourceTable]) -> list[list[Problem]]:
    """The problems of an entry by row; those that name none of its rows go to the first."""
    positions: dict[tuple[str, str, int], int] = {}
    for position, row in enumerate(entry.rows):
        table = tables[row.table]
        positions.setdefault((table.file, table.sheet, row.number), position)
    by_row: list[list[Problem]] = [[] for _ in entry.rows]
    for problem in entry.problems:
        where = problem.where
        by_row[positions.get((where.file, where.sheet, where.row), 0)].append(problem)
    return by_row


def _problem_text(problem: Problem) -> str:
    place = " ".join(part for part in (problem.where.cell, problem.where.column) if part)
    warning, text = "warning: " if problem.level == "warning" else "", problem.text_for_its_sender
    return f"{warning}{place}: {text} [{problem.code}]" if place else f"{warning}{text} [{problem.code}]"


class _ResultsFile:
    """One CSV file whose lines come in any order: UTF-8 with BOM, commas, CRLF (RFC 4180)."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self._path = path
        self._head = ""
        self._spool = Spool(stack)

    def head(self, header: Sequence[str]) -> None:
        own = {name.casefold() for name in header}
        leading, trailing = ([f"{n} (loadsheet)" if n in own else n for n in names] for names in (LEADING, TRAILING))
        self._head = csv_row((*leading, *header, *trailing))

    def put(self, number: int, line: str) -> None:
        self._spool.add(number, line.encode(errors="replace"))

    def finish(self) -> str:
        with placed(self._path) as part, part.open("wb") as target:
            target.write(codecs.BOM_UTF8 + self._head.encode(errors="replace"))
            self._spool.pour(target)
        return self._path.name


_HEAD = ("row", "outcome", "problem", "what to do", "operation", "key", "service order")


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
        if entry.state in NEEDS_SOMEONE and not self.first:
            self.first = entry.key
        for table, _, _, _ in own_rows(entry.rows, entry.items):
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
            sum(entries[state] for state in NEEDS_SOMEONE), sum(fates[state] for state in NEEDS_SOMEONE), first
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
    with placed(outbox / run.name / SUMMARY) as part:
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
                line = (str(number), entry.state.value, text, todo, entry.operation, entry.key, entry.receipt, *cells)
                by_table[table].write(csv_row(line))
        for left_out in queries.ignored_of(drop.id):
            counts.count(left_out.table, IGNORED)
            line = (str(left_out.number), IGNORED, left_out.rule, "", "", "", "", *left_out.cells)
            by_table[left_out.table].write(csv_row(line))
    return counts


def _opened(path: Path, drop: Drop, place: Place, files: ExitStack) -> TextIO:
    part = files.enter_context(placed(path))
    target = files.enter_context(part.open("w", encoding="utf-8-sig", newline="", errors="replace"))
    header = next((table.header for table in drop.tables if (table.file, table.sheet) == place), ())
    target.write(csv_row((*_HEAD, *header)))
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
            tables.append(TableSummary(table.name, table.sheet, table.rows, dict(fates), balances, table.found))
        results = tuple(name for (mine, _), name in names.items() if mine == file.name)
        aside = tuple(f"{file.name}: {_raw_problem_text(problem)}" for problem in file.problems)
        head = (file.name, file.role, file.sha256, file.size, file.arrived, file.kept_as)
        files.append(FileSummary(*head, aside, tuple(tables), results))
    return DropSummary(drop.run, drop.mapping, drop.mapping_version, drop.operation, entries, tuple(files))

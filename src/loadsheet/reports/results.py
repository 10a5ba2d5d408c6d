"""The results of a source file: its own rows in source order, each with its outcome. One CSV per file and sheet.

Owns the layout and names of results files. Rows arrive in entry order and are spooled. Sixteen bytes a row are kept to
sort them at the end, so memory does not grow with the cells.
"""

import codecs
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from loadsheet.ledger import NEEDS_SOMEONE, Drop, Entry, IgnoredRow, Run, SourceTable, State
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import Problem
from loadsheet.reconcile import IGNORED, Match
from loadsheet.reports.fix_workbook.texts_en import ENGLISH
from loadsheet.reports.fix_workbook.wording import word_problem
from loadsheet.reports.report_files import Spool, csv_row, distinct_name, placed, safe_name

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
        self._tables = {table.name: table for table in drop.tables}
        self._titles = {table.name: table.sheet or table.file for table in drop.tables}
        self._files = {place: _ResultsFile(folder / names[place], stack) for place in places_of(drop)}
        self._by_table = {table.name: self._files[table.file, table.sheet] for table in drop.tables}
        for table in reversed(drop.tables):  # if a sheet holds several tables, the first header wins
            self._files[table.file, table.sheet].head(table.header)
        for file in drop.files:
            if file.problems:
                self._set_aside(self._files[file.name, ""], file.problems)

    def add(self, entry: Entry, match: Match) -> None:
        """Write the rows of an entry."""
        tail = (entry.operation, entry.key, entry.receipt, match.verdict)
        if not entry.problems and entry.state not in NEEDS_SOMEONE:
            for row in entry.rows:
                self._write(row.table, row.number, (entry.state, "", ""), row.cells, tail)
            return
        by_row = _problems_by_row(entry, self._tables)
        cause = next(
            (number for number, problems in enumerate(by_row) if any(p.level == "error" for p in problems)), None
        )
        for position, row in enumerate(entry.rows):
            texts = [_problem_text(problem) for problem in by_row[position]]
            if entry.state in NEEDS_SOMEONE and not any(problem.level == "error" for problem in by_row[position]):
                texts.append(self._reason_of_row(entry, row, cause))
            todo = dict.fromkeys(self._todo(problem) for problem in by_row[position])
            if not todo and cause is not None:
                todo = {f"See row {entry.rows[cause].number}": None}
            self._write(row.table, row.number, (entry.state, "; ".join(texts), "; ".join(todo)), row.cells, tail)

    def _todo(self, problem: Problem) -> str:
        """What the sender of the file can do about a problem."""
        where = problem.where
        table = next((one for one in self._tables.values() if (one.file, one.sheet) == (where.file, where.sheet)), None)
        guide = self._drop.guide.get(table.name, {}).get(where.column) if table is not None else None
        if guide is not None and self._drop.language.startswith("de"):
            guide = replace(guide, takes="")
        return word_problem(problem, ENGLISH, self._titles, guide).todo

    def leave_out(self, row: IgnoredRow) -> None:
        """Write a row that a rule ignored."""
        self._write(row.table, row.number, (IGNORED, row.rule, ""), row.cells, ("", "", "", ""))

    def finish(self) -> list[str]:
        """Move the files to their final places and return their names."""
        return [file.finish() for file in self._files.values()]

    def _set_aside(self, file: "_ResultsFile", problems: Sequence[Problem]) -> None:
        file.head(())
        for problem in problems:
            leading = (str(problem.where.row or ""), SET_ASIDE, _problem_text(problem), self._todo(problem))
            file.put(problem.where.row, csv_row((*leading, "", "", "", "")))

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

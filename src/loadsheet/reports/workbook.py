"""The reconciliation workbook: Summary, then one sheet for each question an analyst asks next.

Owns: which sheets there are and what their columns hold. Entries stream through `add`, so memory does not grow with them; the
front page is filled last, when everything is known.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from loadsheet.contract import Difference
from loadsheet.ledger import Drop, Entry, SourceTable, State
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import NOWHERE, Problem, Where
from loadsheet.reconcile import AGREES, NEEDS_SOMEONE, Match, OnlyListed, Verdict
from loadsheet.reports.front import FATES_SHOWN, FRONT_WIDTHS, fates_shown, write_front
from loadsheet.reports.page import Cell, Page
from loadsheet.reports.sentences import fates_of
from loadsheet.reports.sheets import Book, Column, Kind, TableSheet, Tone, Value
from loadsheet.reports.summary import RunSummary

NAME = "reconciliation.xlsx"

_ORDERS = (
    Column("Key", width=12, width_max=30),
    Column("Operation", width=13),
    Column("Verdict", width=20),
    Column("Service order", width=12),
    Column("State", width=9),
    Column("Reason", width=30, width_max=60, wrap=True),
    Column("File", width=16, width_max=40),
    Column("Rows", width=8, width_max=24, wrap=True),
)
_PROBLEMS = (
    Column("Key", width=12, width_max=30),
    Column("File", width=16, width_max=40),
    Column("Sheet", width_max=24),
    Column("Row", Kind.COUNT, width=7),
    Column("Cell", width=7),
    Column("Column", width=12, width_max=30),
    Column("Value", width=12, width_max=30, wrap=True),
    Column("Level", width=8),
    Column("Code", width=7),
    Column("Problem", width=30, width_max=55, wrap=True),
    Column("What to do", width=20, width_max=45, wrap=True),
)
_DIFFERENCES = (
    Column("Key", width=12, width_max=30),
    Column("Operation", width=13),
    Column("Field", width=18, width_max=40),
    Column("Sent", width=16, width_max=40, wrap=True),
    Column("At exchange", width=16, width_max=40, wrap=True),
    Column("Says", width=20),
    Column("File", width=16, width_max=40),
    Column("Rows", width=8, width_max=24, wrap=True),
)
_ONLY = (
    Column("Key", width=16, width_max=40),
    Column("Record", width=10),
    Column("What the ledger knows", width=40, width_max=70, wrap=True),
)
_FILES = (
    Column("File", width=20, width_max=50),
    Column("Read in run", width=14),
    Column("Mapping", width=12, width_max=30),
    Column("Version", width=9),
    Column("Operation", width=13),
    Column("Documents", Kind.COUNT, width=11),
    Column("Rows read", Kind.COUNT, width=9),
    *(Column(fate.capitalize(), Kind.COUNT, width=10) for fate in FATES_SHOWN),
    Column("Set aside because", width=18, width_max=40, wrap=True),
    Column("Read as", width=18, width_max=40, wrap=True),
    Column("Results", width=16, width_max=36),
    Column("Arrived (UTC)", Kind.MOMENT, width=19),
    Column("Bytes", Kind.COUNT, width=11),
    Column("SHA-256", width=16, width_max=20),
)


_FACTS = (Column("Name"), Column("Value"))
_RUN_WIDTHS = (40, 50, 30)
_SHOWN = 3
_LEVELS = {"error": Tone.BAD, "warning": Tone.NOTE}


class ReconciliationWorkbook:
    """The workbook under way. Open each drop, add its entries, then `finish`."""

    def __init__(self, book: Book, folder: Path, *, rows_max: int) -> None:
        """`folder` takes the CSV files for rows beyond `rows_max`, the most that a sheet can hold."""

        def table(title: str, columns: Sequence[Column]) -> TableSheet:
            beside = folder / f"reconciliation.{title.lower().replace(' ', '-')}.csv"
            return TableSheet(book, title, columns, rows_max=rows_max, overflow=beside)

        self._front = Page(book, "Summary", FRONT_WIDTHS)
        self._orders = table("Orders", _ORDERS)
        self._problems = table("Problems", _PROBLEMS)
        self._differences = table("Differences", _DIFFERENCES)
        self._only = table("Only at exchange", _ONLY)
        self._files = table("Files", _FILES)
        self._run = Page(book, "Run", _RUN_WIDTHS)
        self._tables: dict[str, SourceTable] = {}

    def open(self, drop: Drop) -> None:
        """Begin with a drop; why files were set aside is told at once, and what looks damaged in its tables."""
        self._tables = {table.name: table for table in drop.tables}
        for file in drop.files:
            for problem in file.problems:
                self._problem("", problem, Where(file.name))
        for source in drop.tables:
            for problem in source.problems:
                self._problem("", problem, Where(source.file, source.sheet))

    def add(self, entry: Entry, match: Match) -> None:
        """Write an entry to the sheets that tell of it."""
        files, rows = _origin(entry.rows, self._tables)
        told = (
            entry.key,
            entry.operation,
            match.verdict,
            entry.receipt,
            entry.state,
            _reason(entry, match),
            files,
            rows,
        )
        self._orders.add(told, {2: _tone(match.verdict)})
        for problem in entry.problems:
            self._problem(entry.key, problem, self._beginning(entry))
        for found, says, tone in _found(match):
            difference = (entry.key, entry.operation, found.path, found.sent, found.held, says, files, rows)
            self._differences.add(difference, {5: tone})

    def finish(self, summary: RunSummary, only_listed: Sequence[OnlyListed]) -> list[str]:
        """Write what is known only now. Returns the names of the CSV files beside it that hold further rows."""
        for record in only_listed:
            self._only.add((record.key, record.subject, record.note))
        for line in _file_lines(summary):
            self._files.add(line)
        sheets = {
            self._orders: "no documents in this run",
            self._problems: "no problems",
            self._differences: "no differences",
            self._only: "nothing, or the exchange was not asked",
            self._files: "no files in this run",
        }
        beyond = [name for sheet, nothing in sheets.items() if (name := sheet.finish(nothing))]
        notes = [
            f"Some rows did not fit into their sheet; they go on in {name} beside this workbook." for name in beyond
        ]
        write_front(self._front, summary, notes)
        _write_run(self._run, summary)
        return beyond

    def _beginning(self, entry: Entry) -> Where:
        """The place of an entry's first row: where a problem stands that names no place of its own."""
        if not entry.rows:
            return NOWHERE
        table = self._tables[entry.rows[0].table]
        return Where(table.file, table.sheet, entry.rows[0].number)

    def _problem(self, key: str, problem: Problem, otherwise: Where) -> None:
        where = problem.where if problem.where.file else otherwise
        place = (where.file, where.sheet, where.row or None, where.cell, where.column)
        said = (problem.found, problem.level, problem.code, problem.text, problem.hint)
        self._problems.add((key, *place, *said), {7: _LEVELS[problem.level]})


def _found(match: Match) -> Iterator[tuple[Difference, str, Tone]]:
    for difference in match.differences:
        yield difference, "different", Tone.BAD
    for difference in match.tolerated:
        yield difference, "within tolerance", Tone.NOTE


def _tone(verdict: Verdict) -> Tone:
    return Tone.GOOD if verdict in AGREES else Tone.BAD if verdict in NEEDS_SOMEONE else Tone.NOTE


def _reason(entry: Entry, match: Match) -> str:
    """Why it is as it is: its problems, or else the ledger's reason, and what the exchange shows otherwise."""
    reason = "" if entry.state is State.ACCEPTED else entry.reason
    said = [problem.text for problem in entry.problems if problem.level == "error"] or [reason]
    said += [
        f"{found.path}: sent {found.sent or 'nothing'}, at exchange {found.held or 'nothing'}"
        for found in match.differences
    ]
    shown = [text for text in dict.fromkeys(said) if text]
    more = len(shown) - _SHOWN
    return "; ".join([*shown[:_SHOWN], f"and {more} more"] if more > 0 else shown)


def _origin(rows: Sequence[SourceRow], tables: dict[str, SourceTable]) -> tuple[str, str]:
    """The files of an entry, and its rows with runs shortened: `3, 5-7`, and for each file where there are several."""
    numbers: dict[str, list[int]] = {}
    for row in rows:
        table = tables[row.table]
        numbers.setdefault(f"{table.file} {table.sheet}".strip(), []).append(row.number)
    ranges = [_ranges(sorted(found)) for found in numbers.values()]
    return "; ".join(numbers), "; ".join(ranges)


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number <= runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _file_lines(summary: RunSummary) -> Iterator[Sequence[Value]]:
    for drop in summary.drops:
        documents: int | None = sum(drop.entries.values())
        for file in drop.files:
            fates = fates_of(file)
            read = sum(table.rows for table in file.tables)
            yield (
                file.name,
                drop.run,
                drop.mapping,
                drop.mapping_version,
                drop.operation,
                documents,  # they belong to all files of the drop; told once, so that the column adds up
                read,
                *fates_shown(fates),
                "; ".join(file.set_aside),
                "; ".join(f"{what}: {how}" for table in file.tables for what, how in table.found.items()),
                "; ".join(file.results),
                datetime.fromisoformat(file.arrived),
                file.size,
                file.sha256,
            )
            documents = None


def _write_run(page: Page, summary: RunSummary) -> None:
    page.line(f"Run {summary.run}", height=30, font_size=14, bold=True, valign="vcenter", indent=0)
    facts = {
        "started (UTC)": summary.started_at,
        "finished (UTC)": summary.finished_at,
        "exit code": "" if summary.exit_code is None else str(summary.exit_code),
        "report schema": summary.schema,
        **{f"{name} version": number for name, number in summary.versions.items()},
    }
    page.section("This run")
    page.table("tblRun", _FACTS, [[Cell(name), Cell(value)] for name, value in facts.items()])
    page.section("Settings that bear on the result")
    page.table("tblSettings", _FACTS, [[Cell(name), Cell(value)] for name, value in summary.settings.items()])
    page.section("Assumptions about the interface that are not at their default")
    changed = [[Cell(one.setting), Cell(one.value), Cell(one.default)] for one in summary.deviations]
    page.table("tblAssumptions", (*_FACTS, Column("Default")), changed)

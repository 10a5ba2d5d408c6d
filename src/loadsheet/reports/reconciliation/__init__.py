"""The reconciliation workbook: Summary, then one sheet for each question an analyst asks next.

Owns which sheets exist and which of them lists an entry: each document of the run is on one of Exceptions, Closed,
Matched and Not verifiable; documents of one record that need attention are one exception. Entries stream through
`add`, so memory does not grow with them. The front page is filled last. If an analyst has the workbook open, the next
one of the same run gets another name.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path

from xlsxwriter.utility import xl_range_abs  # type: ignore[import-untyped]  # has annotations but no py.typed

from loadsheet.ledger import Drop, Entry, Run, SourceTable, State
from loadsheet.ledger.models import UNUSED
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import NOWHERE, Problem, Where
from loadsheet.reconcile import AGREES, IN_ORDER, MEANINGS, VERDICTS_THAT_NEED_SOMEONE, Match, Reconciliation, Verdict
from loadsheet.reconcile.exception_rules import replacements
from loadsheet.reports.reconciliation.summary_sheets import (
    CONTROL,
    CONTROL_WIDTHS,
    FATES_SHOWN,
    FRONT_WIDTHS,
    SIGNOFF,
    SIGNOFF_WIDTHS,
    FrontPageData,
    RunCounts,
    TrendCells,
    fates_shown,
    trend,
    write_control,
    write_front,
    write_signoff,
)
from loadsheet.reports.reconciliation.worklist import (
    AGEING,
    AGEING_WIDTHS,
    CLOSED,
    CLOSED_COLUMNS,
    Ages,
    SourceLinks,
    WorkList,
    exception_columns,
    write_ageing,
)
from loadsheet.reports.run_document import RunSummary
from loadsheet.reports.run_summary import fates_of, name_of, place_for_people, rows_by_place, with_missing_records
from loadsheet.reports.sheets import Book, Cell, Column, Kind, Page, TableSheet, Tone, Value
from loadsheet.settings import Settings
from loadsheet.workbook_marks import SHEET

NAME = "reconciliation.xlsx"
_OTHER_NAMES_MAX = 99
_BATCH = 500

_KEY = Column("Key", width=12, width_max=30)
_OPERATION, _VERDICT = Column("Operation", width=13), Column("Verdict", width=20)
_RECEIPT = Column("Service order", width=12)
_FILE = Column("File", width=16, width_max=40)
_ROWS = Column("Rows", width=8, width_max=24, wrap=True)
_MATCHED = (
    *(_KEY, _OPERATION, _VERDICT, _RECEIPT, Column("Settled (UTC)", Kind.MOMENT, width=19), _FILE, _ROWS),
    Column("Replaced by", width=14, width_max=34),
    Column("Replaced values", width=16, width_max=40, wrap=True),
)
_UNVERIFIED = (
    *(_KEY, _OPERATION, _VERDICT, _RECEIPT),
    Column("State", width=9),
    Column("Why", width=30, width_max=60, wrap=True),
    *(_FILE, _ROWS),
)
_FIELDS = (
    Column("Field", width=24, width_max=44),
    Column("Record", width=8),
    Column("Compared", Kind.COUNT, width=10),
    Column("Equal", Kind.COUNT, width=10),
    Column("Within tolerance", Kind.COUNT, width=10),
    Column("Different", Kind.COUNT, width=10),
    Column("Match", Kind.SHARE, width=8),
    Column("Largest difference", Kind.AMOUNT, width=12),
    Column("For example", width=24, width_max=60),
)
_PROBLEMS = (
    *(_KEY, _FILE),
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
    *(_KEY, _OPERATION),
    Column("Field", width=18, width_max=40),
    Column("Sent", width=16, width_max=40, wrap=True),
    Column("At exchange, or by a later call", width=16, width_max=40, wrap=True),
    Column("Says", width=20, width_max=40, wrap=True),
    *(_FILE, _ROWS),
)
_ONLY = (
    Column("Key", width=16, width_max=40),
    Column("Record", width=10),
    Column("What the ledger knows", width=40, width_max=70, wrap=True),
)
_MISSING = (
    Column("File", width=20, width_max=50),
    Column("Missing record", width=16, width_max=40),
    Column("Last version read in run", width=24),
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


_RUN_COUNTS = (
    Column("Run"),
    Column("Agree", Kind.COUNT),
    Column("Wait or not verifiable", Kind.COUNT),
    Column("Need attention", Kind.COUNT),
)
_FACTS = (Column("Name"), Column("Value"))
_LEVELS = {"error": Tone.BAD, "warning": Tone.NOTE}


class ReconciliationWorkbook:
    """The workbook in progress. Open each drop, add its entries, then call `finish`."""

    def __init__(
        self, book: Book, folder: Path, queries: LedgerQueries, reconciliation: Reconciliation, links: SourceLinks
    ) -> None:
        """`folder` takes the CSV files for rows that do not fit into a sheet; `reconciliation` is the content; `links` lead
        to the originals.
        """

        def table(title: str, columns: Sequence[Column], *, frozen: int = 1) -> TableSheet:
            beside = folder / f"reconciliation.{title.lower().replace(' ', '-')}.csv"
            return TableSheet(book, title, columns, overflow=beside, frozen=frozen)

        self._queries, self._reconciliation, self._table, self._links = queries, reconciliation, table, links
        self._replaced: list[tuple[int, Sequence[Value]]] = []  # entries with their lines on the sheet Matched
        self._front = Page(book, "Summary", FRONT_WIDTHS)
        self._exceptions = table(SHEET, exception_columns(queries.owners()), frozen=2)
        self._ageing = Page(book, AGEING, AGEING_WIDTHS)
        self._control = Page(book, CONTROL, CONTROL_WIDTHS)
        self._fields = table("Fields", _FIELDS)
        self._differences = table("Differences", _DIFFERENCES)
        self._problems = table("Problems", _PROBLEMS)
        self._matched = table("Matched", _MATCHED)
        self._unverified = table("Not verifiable", _UNVERIFIED)
        self._only = table("Only at exchange", _ONLY)
        self._closed = table(CLOSED, CLOSED_COLUMNS)
        self._files = table("Files", _FILES)
        self._signoff = Page(book, SIGNOFF, SIGNOFF_WIDTHS)
        self._run = Page(book, "Run", (40, 50, 30, 30))
        self._data_sheets = {  # each with its text for an empty sheet
            self._exceptions: "no open exceptions",
            self._fields: "no records were compared",
            self._differences: "no differences",
            self._problems: "no problems",
            self._matched: "no documents of this run agree",
            self._unverified: "no documents wait or cannot be verified",
            self._only: "no such records, or the exchange was not asked",
            self._closed: "nothing was closed",
            self._files: "no files in this run",
        }
        self._tables: dict[str, SourceTable] = {}
        self._drop: Drop | None = None

    def open(self, drop: Drop) -> None:
        """Begin with a drop. Files set aside and suspected damage in its tables count as problems."""
        self._tables, self._drop = {table.name: table for table in drop.tables}, drop
        for file in drop.files:
            for problem in file.problems:
                self._problem("", problem, Where(file.name))
        for source in drop.tables:
            for problem in source.problems:
                self._problem("", problem, Where(source.file, source.sheet))

    def add(self, entry: Entry, match: Match) -> None:
        """Write an entry to its sheets. Exceptions come at the end, with those of earlier runs."""
        places = rows_by_place(entry.rows, self._tables)
        files, rows = "; ".join(places), "; ".join(places.values())
        head = (entry.key, entry.operation, match.verdict, entry.service_order)
        if match.verdict in AGREES:
            settled = datetime.fromisoformat(entry.changed_at)
            agreeing = (*head, settled, files, rows)
            if match.verdict is Verdict.REPLACED:
                self._replaced.append((entry.id, agreeing))
            else:
                self._matched.add((*agreeing, "", ""), {2: Tone.GOOD})
        elif entry.id not in self._reconciliation.exceptions.by_entry:
            unseen = entry.state is State.ACCEPTED
            why = "the listing was not read, or is incomplete" if unseen else entry.reason
            line = (*head, entry.state, why, files, rows)
            self._unverified.add(line, {2: Tone.BAD if match.verdict in VERDICTS_THAT_NEED_SOMEONE else Tone.NOTE})
        for problem in entry.problems:
            self._problem(entry.key, problem, self._beginning(entry))
        for differences, says, tone in (
            (match.differences, "different", Tone.BAD),
            (match.tolerated, "within tolerance", Tone.NOTE),
        ):
            for found in differences:
                difference = (entry.key, entry.operation, found.path, found.sent, found.held, says, files, rows)
                self._differences.add(difference, {5: tone})

    def finish(self, summary: RunSummary, run: Run, settings: Settings) -> list[str]:
        """Write the sheets that need all entries. Returns the names of the CSV files with further rows."""
        ages = Ages(run.started_at, settings.reports.working_days)
        worklist = WorkList(self._queries, ages, run.name, self._links)
        worklist.write(self._exceptions, self._reconciliation.exceptions.open)
        worklist.write_closed(self._closed, self._reconciliation.exceptions.closed)
        self._write_replaced()
        for record in self._reconciliation.only_listed:
            self._only.add((record.key, record.subject, record.note))
        for field in self._reconciliation.fields:
            counts = (field.compared, field.equal, field.tolerated, field.different)
            share = 1 - field.different / field.compared if field.compared else None
            line = (field.path, field.subject, *counts, share, field.largest, ", ".join(field.samples))
            self._fields.add(line, {5: Tone.BAD} if field.different else {})
        for values in _file_lines(summary):
            self._files.add(values)
        finished = [sheet.finish(nothing) for sheet, nothing in self._data_sheets.items()]
        overflow = [name for name in (*finished, self._write_missing(summary)) if name]
        runs = trend(self._queries, run, summary)
        data = FrontPageData(
            shares=self._reconciliation.shares,
            aged=worklist.aged,
            closed=self._closed.count,
            ageing=write_ageing(self._ageing, worklist.aged, self._exceptions, ages.calendar_text),
            trend=_write_run(self._run, summary, runs),
            runs=len(runs),
            before=runs[-2] if len(runs) > 1 else None,
            notes=[
                f"Some rows did not fit into their sheet; they continue in {name}, in the same folder."
                for name in overflow
            ],
        )
        write_control(self._control, summary)
        write_signoff(
            self._signoff,
            summary.run,
            self._exceptions,
            (worklist.accepted, worklist.closed_by_analyst),
            tuple(self._data_sheets),
        )
        write_front(self._front, summary, data)
        return overflow

    def _write_replaced(self) -> None:
        """Add the replaced documents at the end of Matched, with the call that replaced them, and their old values to Differences."""
        for start in range(0, len(self._replaced), _BATCH):
            some = self._replaced[start : start + _BATCH]
            entries = tuple(self._queries.entries_by_id([entry for entry, _ in some]))
            found = {one.entry.id: one for one in replacements(self._queries, entries)}
            for entry, line in some:
                replaced = found.get(entry)
                by = f"{replaced.by.operation} of run {self._queries.drop(replaced.by.drop).run}" if replaced else ""
                self._matched.add(
                    (*line, by, ", ".join(one.path for one in replaced.changed) if replaced else ""), {2: Tone.GOOD}
                )
                for one in replaced.changed if replaced else ():
                    key, operation, *_, files, rows = line
                    difference = (key, operation, one.path, one.sent, one.held, f"replaced by {by}", files, rows)
                    self._differences.add(difference, {5: Tone.NOTE})

    def _write_missing(self, summary: RunSummary) -> str:
        """Write a sheet of the records missing from new versions of files, if any. Returns the name of its CSV file, if any."""
        if not (drops := with_missing_records(summary)):
            return ""
        sheet = self._table("Missing records", _MISSING)
        for drop in drops:
            missing, name = drop.missing_records, name_of(drop)
            for key in missing.keys:
                sheet.add((name, key, missing.run))
            if more := missing.count - len(missing.keys):
                sheet.add((name, f"and {more:,} more", missing.run))
        return sheet.finish("")

    def _beginning(self, entry: Entry) -> Where:
        """The place of an entry's first row, used for problems without a place."""
        if not entry.rows:
            return NOWHERE
        table = self._tables[entry.rows[0].table]
        return Where(table.file, table.sheet, entry.rows[0].number)

    def _problem(self, key: str, problem: Problem, otherwise: Where) -> None:
        where = place_for_people(problem) if problem.where.file else otherwise
        file, cell = where.file, where.cell
        if self._drop is not None:  # the cell, or in a text file the file
            cell = self._links.link(self._drop, where, cell) if cell else cell
            file = file if cell else self._links.link(self._drop, where, file)
        place = (file, where.sheet, where.row or None, cell, where.column)
        details = (problem.found, problem.level, problem.code, problem.text, problem.hint)
        self._problems.add((key, *place, *details), {7: _LEVELS[problem.level]})


def _file_lines(summary: RunSummary) -> Iterator[Sequence[Value]]:
    for drop in summary.drops:
        documents: int | None = sum(drop.entries.values())
        for file in drop.files:
            read_as = []
            for table in file.tables:
                read_as += [f"{what}: {how}" for what, how in table.found.items()]
                read_as += [f"{UNUSED}: {', '.join(table.unused)}"] if table.unused else []
            yield (
                file.name,
                drop.run,
                drop.mapping,
                drop.mapping_version,
                drop.operation,
                documents,  # counted for all files of the drop; shown once, so that the column adds up
                sum(table.rows for table in file.tables),
                *fates_shown(fates_of(file)),
                "; ".join(file.set_aside),
                "; ".join(read_as),
                "; ".join(file.results),
                datetime.fromisoformat(file.arrived),
                file.size,
                file.sha256,
            )
            documents = None


def _write_run(page: Page, summary: RunSummary, runs: Sequence[RunCounts]) -> TrendCells:
    page.heading(f"{summary.title[:1].upper()}{summary.title[1:]}")
    facts = {
        "started (UTC)": summary.started_at,
        "finished (UTC)": summary.finished_at,
        "exit code": "" if summary.exit_code is None else str(summary.exit_code),
        "report schema": summary.schema,
        **{f"{name} version": number for name, number in summary.versions.items()},
    }
    page.section("This run")
    page.table("tblRun", _FACTS, [[Cell(name), Cell(value)] for name, value in facts.items()])
    page.section("Settings that affect the result")
    page.table("tblSettings", _FACTS, [[Cell(name), Cell(value)] for name, value in summary.settings.items()])
    page.section("Assumptions about the interface that differ from their defaults")
    changed = [[Cell(one.setting), Cell(one.value), Cell(one.default)] for one in summary.deviations]
    page.table("tblAssumptions", (*_FACTS, Column("Default")), changed)
    page.section("Meanings of the verdicts; the first rule that matches an entry decides")
    page.table("tblRules", _FACTS, [[Cell(verdict), Cell(MEANINGS[verdict])] for verdict in IN_ORDER])
    page.section("The latest runs with documents")
    first = page.row + 1
    page.table("tblRuns", _RUN_COUNTS, [[Cell(value) for value in counts[:4]] for counts in runs])
    ends = (first, first + len(runs) - 1)
    return TrendCells(*(f"'{page.title}'!{xl_range_abs(ends[0], column, ends[1], column)}" for column in range(4)))


def free_name(folder: Path) -> str:
    """The workbook's name in a folder: its own, unless a spreadsheet program has that file open."""
    stem, suffix = NAME.rsplit(".", 1)
    others = (f"{stem}_{number}.{suffix}" for number in range(2, _OTHER_NAMES_MAX))
    return next((name for name in chain((NAME,), others) if not _is_open(folder / name)), NAME)


def other_name(name: str) -> list[str]:
    """A remark if the workbook has another name than its own."""
    return [] if name == NAME else [f"{NAME} is open in another program; the workbook is in {name}"]


def _is_open(path: Path) -> bool:
    """Whether a program seems to have the file open: it has a lock file, or cannot be opened for writing."""
    if any((path.parent / lock).exists() for lock in (f"~${path.name}", f".~lock.{path.name}#")):
        return True
    if not path.exists():
        return False
    try:
        with path.open("rb+"):
            return False
    except OSError:
        return True

"""A house with an inbox, mappings and its own exchange, whose nights run in this process; and fix workbooks, repaired as a sender would."""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from typing import NamedTuple

from openpyxl import load_workbook

from loadsheet import pipeline
from loadsheet.cli.options import held_ledger
from loadsheet.dispatch import Dispatcher, RunContext, UnknownTimer, deliver
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.reports.fix_workbook import Fixes, is_to_fix
from loadsheet.run_resources import exchange_client
from loadsheet.settings import Settings
from loadsheet.workbook_marks import ROW_COLUMN

_LOADED = {}


class House:
    """A folder to work in. A night takes in what is in the inbox and delivers it; reports are written by whoever wants them."""

    def __init__(self, folder, mappings):
        self.folder = folder
        self.inbox = folder / "inbox"
        self.inbox.mkdir(parents=True, exist_ok=True)
        if mappings.is_dir():
            shutil.copytree(mappings, folder / "mappings", dirs_exist_ok=True)
        else:
            (folder / "mappings").mkdir(exist_ok=True)
            shutil.copy(mappings, folder / "mappings")
        self.settings = Settings(
            inbox=self.inbox,
            mappings=folder / "mappings",
            outbox=folder / "outbox",
            state=folder / ".loadsheet",
            settle_s=0,
            canary=0,
            reading_process="none",
        )
        self.state = self.settings.state

    def drop(self, path, name=None):
        """Put a copy of a file, or of a folder's files, into the inbox."""
        target = self.inbox / (name or path.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(path, target)

    def night(self):
        """One run without reports: the keys by state of the entries that it planned, and what was said of files left aside."""
        settings = self.settings
        mappings = self._mappings()
        with held_ledger(settings) as ledger, exchange_client(settings) as client:
            run = ledger.begin_run()
            work = RunContext(settings, ledger, run, Dispatcher(client), UnknownTimer(ledger.now))
            pipeline.resolve_earlier(work)
            taken = ingest_files(settings, ledger, run, mappings)
            assert taken.fault is None, taken.fault
            assert deliver(work).stopped is None
            ledger.end_run(run, exit_code=0, summary={})
            queries = ledger.queries
            drops = [drop for drop in queries.drops_of(run) if drop.run == run.name]
            found = {}
            for drop in drops:
                for entry in queries.entries_of(drop.id):
                    found.setdefault(entry.state, []).append(entry.key)
            aside = [problem for drop in drops for file in drop.files for problem in file.problems]
        return Night(found, drops, aside)

    def _mappings(self):
        """The mappings; those with the same files are loaded once in a test process."""
        folder = self.settings.mappings
        files = frozenset((path.relative_to(folder), path.read_bytes()) for path in folder.rglob("*") if path.is_file())
        if files not in _LOADED:
            _LOADED[files] = load_folder(folder, self.settings.assumptions)
        return _LOADED[files]

    @contextmanager
    def queries(self):
        """The reading side of the ledger."""
        with held_ledger(self.settings) as ledger:
            yield ledger.queries

    def held(self):
        """What the exchange holds: the content of every record, by table, without the numbers that it gave."""
        with closing(sqlite3.connect(self.state / "exchange.db")) as database:
            return {
                table: Counter(
                    json.dumps(_bare(json.loads(content)), sort_keys=True)
                    for (content,) in database.execute(f"select content from {table}")
                )
                for table in ("orders", "tenders", "quotes", "confirmations", "status_events")
            }


class Night:
    """What a night came to."""

    def __init__(self, keys, drops, aside):
        self.keys, self.drops, self.aside = keys, drops, aside

    def of(self, state):
        """The keys of the entries in this state, sorted."""
        return sorted(self.keys.get(state, []))

    @property
    def counts(self):
        """How many entries are in which state."""
        return {state.value: len(keys) for state, keys in self.keys.items()}


def _bare(record):
    """A record without what the exchange itself put into it."""
    return {name: value for name, value in record.items() if name not in ("id", "number", "created_at", "updated_at")}


def write_fixes(queries, run, folder, settings, *, drops=None):
    """The fix files of a run's drops, as the reports write them; returns their names."""
    fixes, names = Fixes(queries, run, folder, settings), []
    for drop in queries.drops_of(run) if drops is None else drops:
        with ExitStack() as stack:
            fixes.open(drop, stack)
            for entry in queries.entries_of(drop.id):
                fixes.add(entry)
            names += fixes.finish()
    return names


def write_fix(queries, drop, path, settings):
    """The fix workbook of a drop at `path`."""
    run = next(run for run in queries.runs() if run.name == drop.run)
    (name, *_) = write_fixes(queries, run, path.parent, settings, drops=[queries.drop(drop.id)])
    return (path.parent / name).rename(path)


class FixBook:
    """A fix workbook as a sender has it open."""

    def __init__(self, path):
        self.path, self.book = path, load_workbook(path)

    def sheets(self):
        """The sheets that hold rows."""
        return [sheet for sheet in self.book if any(cell.value == ROW_COLUMN for cell in sheet[1])]

    def repair(self, values):
        """Put into each cell that holds a key of `values` what should stand there."""
        count = 0
        for sheet in self.sheets():
            for row in sheet.iter_rows(min_row=2):
                for cell in row[1:-1]:
                    if cell.value in values:
                        cell.value = values[cell.value]
                        count += 1
        return count

    def rearrange(self, order):
        """Sort the rows of each sheet by `order`, a function of a row's place, with blank rows where it gives None."""
        for sheet in self.sheets():
            rows = [[(cell.value, cell.number_format) for cell in row] for row in sheet.iter_rows(min_row=2)]
            sheet.delete_rows(2, sheet.max_row)
            for place, row in enumerate(order(rows), start=2):
                for column, (value, number_format) in enumerate(row or (), start=1):
                    cell = sheet.cell(place, column, value)
                    cell.number_format = number_format

    def rows(self, title):
        """The rows of a sheet without the heading."""
        return [[(cell.value, cell.number_format) for cell in row] for row in self.book[title].iter_rows(min_row=2)]

    def paste(self, title, rows):
        """Put rows below those of a sheet."""
        sheet = self.book[title]
        for row in rows:
            place = sheet.max_row + 1
            for column, (value, number_format) in enumerate(row, start=1):
                sheet.cell(place, column, value).number_format = number_format

    def save(self, path=None):
        """Save it, under another name if there is one."""
        self.book.save(path or self.path)
        return path or self.path


RED = "FFFBD5D5"


class RedCell(NamedTuple):
    """A cell to be mended: where it is, its heading, what it says, and the row of it by headings."""

    cell: object
    column: str
    value: object
    row: dict

    def mend(self, value):
        """Put a value into it; of several, by heading, each into its cell of the row."""
        heads = list(self.row)
        for column, right in (value if isinstance(value, dict) else {self.column: value}).items():
            self.cell.parent.cell(self.cell.row, heads.index(column) + 1).value = right


def red_cells(book):
    """The red cells of a fix workbook; the first column of a row is red where the row as a whole is wrong."""
    for sheet in book.sheets():
        heads = [cell.value for cell in sheet[1]]
        for row in sheet.iter_rows(min_row=2):
            named = dict(zip(heads, (cell.value for cell in row), strict=True))
            for cell, head in zip(row, heads, strict=True):
                if cell.fill.fgColor.rgb == RED:
                    yield RedCell(cell, head, cell.value, named)


def mended_until_nothing_is_red(house, night, mend, rounds=2):
    """Mends each fix workbook and drops it, until none has anything red: `mend` gets a workbook and the drop's name. Returns the nights."""
    nights = [night]
    for number in range(rounds + 1):
        books = [book for drop in nights[-1].drops if (book := _book_of(house, drop, number)) is not None]
        books = [(drop, book) for drop, book in books if any(True for _ in red_cells(book))]
        if not books:
            return nights
        assert number < rounds, {name: [cell[1:3] for cell in red_cells(book)] for name, book in books}
        for name, book in books:
            mend(book, name)
            shipper = name.rpartition("/")[0].partition("/")[0]
            house.drop(book.save(), f"{shipper}/{book.path.name}" if shipper else book.path.name)
        nights.append(house.night())
    return nights


def _book_of(house, drop, number):
    if drop.set_aside:
        return None
    with house.queries() as queries:
        if not any(is_to_fix(entry) for entry in queries.entries_of(drop.id)):
            return None
        first = drop
        while first.fixes is not None:
            first = queries.drop(first.fixes)
        path = house.folder / f"{number}-{drop.id}.fix.xlsx"
        return first.name, FixBook(write_fix(queries, drop, path, house.settings))

"""The files that go back to a sender: every row of every unsent record, unchanged, with what to fix.

A drop with something to fix gets a workbook, and CSV files too if the settings ask for them. Decides which entries a
sender can fix, the names of the files and the order of the sheets. Equal ledgers give equal bytes. `orders.csv` gives
`orders.fix.csv` in the format of the source, so the same reader reads it. Delimiter, encoding and the sender's cells
stay unchanged, even `-5`, with plain CSV quoting (RFC 4180). Only our own texts are made safe for spreadsheets.
A record that was held because another version came before shows the cells that differ, with both values (`placing`).
`loadsheet.workbook_marks` holds the marks that identify returned files; `loadsheet.fix_files` reads them.
"""

import csv
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import cache
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path

from loadsheet.contract import BY_NAME, Action
from loadsheet.languages import Words, known_language, words_in
from loadsheet.ledger import ColumnGuide, Drop, Entry, Origin, Run, SourceTable, State
from loadsheet.ledger.content_changes import FIELDS, MEANT, OTHER_VERSION, ChangedValue, further_changes, kept_changes
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.mapping.documents import LOOKUP_RULE, STEP, part_of_table
from loadsheet.problems import NOT_EXAMINED, Problem, Where, column_letters
from loadsheet.reports.fix_workbook.fix_sheets import (
    LISTS,
    FixBook,
    FixRow,
    FixRows,
    FixSheet,
    Place,
    RowRemark,
    also_of,
    cell_of_problem,
    lines_of,
    link_to,
    placed_at,
)
from loadsheet.reports.fix_workbook.other_sheets import (
    Errors,
    Spot,
    aside_page,
    changed_page,
    changes_of,
    errors_page,
    origin_of,
    read_page,
)
from loadsheet.reports.fix_workbook.wording import ASIDE, CHECKED, STEPS, line_of, word_problem
from loadsheet.reports.report_files import (
    csv_text,
    distinct_name,
    fits_cell,
    safe_name,
    text_format,
    written_atomically,
)
from loadsheet.reports.sheets import Book, open_book
from loadsheet.settings import Settings
from loadsheet.workbook_marks import PROPERTY, ROW_COLUMN, Mark, sheet_titles, table_of

_LOOKED_UP_MAX = 50_000


def write_rows(path: Path, table: SourceTable, rows: Iterable[FixRow], words: Words) -> None:
    """Write rows, with what to fix in front and their marks at the end. Raises LoadsheetError if that fails."""
    delimiter, encoding = text_format(table.reading_notes)
    with written_atomically(path) as part, part.open("w", encoding=encoding, errors="replace", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([words.say("What to fix"), *table.header, ROW_COLUMN])
        for row in rows:
            text = "; ".join(lines_of(row, words))
            writer.writerow([csv_text(" ".join(text.split())), *row.cells, row.mark])


SUFFIX = ".fix.xlsx"

_WRONG = (State.INVALID, State.REFUSED)


def is_to_fix(entry: Entry) -> bool:
    """Whether an entry was not sent or was refused, and its sender can fix it, also one whose number looks like that of another order. Other
    holds need an operator or another record. The number of an update may be wrong in some of its rows only: its sender corrects the own file.
    """
    if entry.state is not State.HELD:
        return entry.state in _WRONG
    if entry.waits:
        may_stand_alone = BY_NAME[entry.operation].action not in (Action.CREATE, Action.UPDATE)
        return may_stand_alone and any(MEANT in problem.values for problem in entry.problems)
    return any(problem.code in OTHER_VERSION for problem in entry.problems)


def warnings_about(table: SourceTable) -> Iterator[Problem]:
    """The warnings about a table that its sender can act on."""
    return (problem for problem in table.problems if problem.level == "warning" and problem.code != NOT_EXAMINED)


def words_for(drop: Drop, settings: Settings) -> Words:
    """The texts for the sender of a drop: in the language of the sheet if available, else of the settings."""
    return words_in(known_language(drop.senders_language) or settings.reports.language)


def guides_in(drop: Drop, words: Words) -> Mapping[str, Mapping[str, ColumnGuide]]:
    """The guides to the columns of a drop, by table and heading. Their texts are left out if they are in another language than these words."""
    guides = {table.name: drop.guide.get(table_of(table.name), {}) for table in drop.tables}
    if words.language == (known_language(drop.language) or "en"):
        return guides
    return {table: {label: replace(one, takes="") for label, one in own.items()} for table, own in guides.items()}


class Fixes:
    """The fix files of a run, drop by drop."""

    def __init__(
        self, queries: LedgerQueries, run: Run, folder: Path, settings: Settings, *, is_check: bool = False
    ) -> None:
        """`folder` holds the run's reports. Workbooks for drops of other runs say so in their names. Those of a check cannot come
        back, because no ledger knows their rows: they have no marks.
        """
        self._is_check = is_check
        self._queries, self._folder, self._run, self._settings = queries, folder, run, settings
        self._taken: set[str] = set()
        self._drop: _DropFix | None = None
        self._corrected: set[int] = set()

    def open(self, drop: Drop, stack: ExitStack) -> None:
        """Begin with a drop; `stack` closes its spools."""
        self._drop = _DropFix(drop, self._queries, self._settings, stack, is_check=self._is_check)
        self._corrected = set()  # entries of another run's drop whose rows have since come back fixed
        if drop.run != self._run.name:
            wrong = [one.id for one in self._queries.heads_of(drop.id) if one.state in _WRONG]
            self._corrected = self._queries.versions.corrected_among(wrong) if wrong else set()

    def add(self, entry: Entry) -> None:
        """Add an entry of the drop."""
        if self._drop is not None and entry.id not in self._corrected:
            self._drop.add(entry)

    def finish(self) -> tuple[str, ...]:
        """Write the files of the drop if there is anything to fix. Returns their names, the workbook first."""
        return self._drop.write(self._folder, self._name) if self._drop is not None else ()

    def _name(self, file: str, suffix: str = "") -> str:
        """The name of a fix file for an original file: with `suffix` for a workbook, else the name that marks a text file as a fix."""
        run = self._drop.drop.run if self._drop is not None else self._run.name
        stem, dot, own = safe_name(file).rpartition(".")
        stem = (stem if dot else own).removesuffix(".fix")
        earlier = f".of-{run}" if suffix and not self._run.holds(run) else ""
        return distinct_name(stem + earlier, suffix or f".fix{dot}{own if dot else ''}", self._taken)


class _DropFix:
    """The fix files of one drop."""

    def __init__(
        self, drop: Drop, queries: LedgerQueries, settings: Settings, stack: ExitStack, *, is_check: bool
    ) -> None:
        self._is_check = is_check
        self.drop, self._queries, self._words = drop, queries, words_for(drop, settings)
        self._guides, self._placed = guides_in(drop, self._words), placing(queries, self._words)
        self._original = queries.original(drop)  # names the files, however often and under whatever name they come back
        self._tables = {table.name: table for table in drop.tables}
        self._titles = sheet_titles((table.name, table.file, table.sheet) for table in drop.tables)
        self._rows, self._over = (FixRows(drop, stack, marked=not is_check) for _ in range(2))
        self._errors, self._held = Errors(), 0
        is_text = bool(drop.tables) and not any(table.sheet for table in drop.tables)
        self._feedback = settings.reports.feedback if is_text else "workbook"
        self._rows_max = settings.reports.fix_rows_max if self._feedback != "csv" and is_text else None

    def add(self, entry: Entry) -> None:
        """Add an entry's rows if they need fixing."""
        if not is_to_fix(entry) or not entry.rows or entry.removed:
            self._held += entry.state is State.HELD
            return
        entry = self._placed(entry)
        problems = list(entry.problems)
        if not any(problem.level == "error" for problem in problems):
            problems.append(Problem("X701", values={"text": entry.reason}))
        remarks = []
        for problem in problems:
            place = cell_of_problem(problem, entry, self._tables)
            label = "" if place.position is None else place.table.header[place.position]
            guide = self._guides.get(place.table.name, {}).get(label)
            worded = word_problem(problem, self._words, self._titles, guide)
            self._errors.add(placed_at(problem, place), place, worded, entry.id)
            for one in (place, *also_of(problem, entry, self._tables)):
                column = worded.column if one is place else one.table.header[one.position or 0]
                remarks.append(
                    (one, RowRemark(one.position, column, problem.level, worded.text, worded.todo, problem.code))
                )
        self._errors.documents += 1
        rows = self._over if self._is_over(entry) else self._rows
        rows.add(entry, remarks)

    def write(self, folder: Path, name_of: Callable[..., str]) -> tuple[str, ...]:
        """Write the files if there is anything to fix, and return their names."""
        if self.drop.set_aside:
            name = name_of(self._original.name, SUFFIX)
            with self._book(folder / name) as book:
                fix, title = FixBook(book, self._words), sheet_titles([("", self.drop.name, "")])[""]
                problems = [problem for file in self.drop.files for problem in file.problems]
                aside_page(fix, title, [(problem, word_problem(problem, self._words, {})) for problem in problems])
                read_page(fix, self._words.say("Read me"), self.drop, ASIDE, [title])
            return (name,)
        if not self._rows.count + self._over.count:
            return ()
        self._add_looked_up()
        names = [name_of(self._original.name, SUFFIX)] if self._feedback != "csv" else []
        texts = self._texts(folder, name_of) if self._feedback != "workbook" or self._over.count else []
        if names:
            with self._book(folder / names[0]) as book:
                self._fill(book, self._more(texts if self._over.count else []))
        return (*names, *texts)

    def _more(self, texts: Sequence[str]) -> Iterator[str]:
        """Remarks for the sheet that explains the workbook. `texts` are the text files with the rows that did not fit."""
        if texts:
            yield self._words.say("More rows to correct are in {names}, in the same folder.", names=", ".join(texts))
        if self._held:
            yield self._words.counted(
                "{count} more record waits for another record or for a decision; you do not need to do anything.",
                "{count} more records wait for others or for a decision; you do not need to do anything.",
                self._held,
            )
        for problem in (one for table in self.drop.tables for one in warnings_about(table)):
            worded = word_problem(problem, self._words, self._titles)
            line = line_of(worded.text, worded.todo) + "."
            is_named = not worded.column or worded.column in worded.text
            yield line if is_named else self._words.say("{place}: {text}", place=worded.column, text=line)

    def _add_looked_up(self) -> None:
        """Add the rows that other rows look up, because a corrected key may need any of them. Only of text files: ignored rows do not keep the
        types of a workbook's cells.
        """
        is_text = not any(table.sheet for table in self.drop.tables)
        lineage = self._queries.origin(self.drop.id).lineage
        if is_text and any(source.via for sources in lineage.values() for source in sources):
            ignored = self._queries.ignored_of(self.drop.id)
            rows = (row for row in ignored if row.rule.startswith(LOOKUP_RULE) and row.cells)
            self._rows.add_looked_up(islice(rows, max((self._rows_max or _LOOKED_UP_MAX) - self._rows.count, 0)))

    def _is_over(self, entry: Entry) -> bool:
        """Whether an entry's rows go into text files, because the workbook is full or a cell cannot hold their text.
        Entries that share a row stay together.
        """
        if self._rows_max is None or self._rows.holds(entry):
            return False
        if self._over.holds(entry) or self._rows.count + len(entry.rows) > self._rows_max:
            return True
        return not all(fits_cell(cell) for row in entry.rows for cell in row.cells)

    def _book(self, path: Path) -> AbstractContextManager[Book]:
        return open_book(path, title=self._words.say("What to fix"), footer=self.drop.name)

    def _fill(self, book: Book, more: Iterable[str]) -> None:
        drop, words, fix = self.drop, self._words, FixBook(book, self._words)
        if not self._is_check:
            book.mark(PROPERTY, str(Mark(drop.run, drop.id, drop.mapping_hash, drop.mapping)))
        titles = []
        for table in drop.tables:
            if table_of(table.name) != table.name and not self._rows.numbers(table.name):
                continue  # one of several sheets, with nothing to fix
            titles.append(self._titles[table.name])
            sheet = FixSheet(fix, titles[-1], table.header, self._guides.get(table.name, {}))
            for row in self._rows.of(table.name):
                sheet.add(row)
            sheet.finish()
        taken = {title.casefold() for title in (*self._titles.values(), LISTS)}

        def free(title: str) -> str:
            return distinct_name(title, "", taken, joint=" ")

        errors_page(fix, free(words.say("Errors")), self._errors, self._spots())
        changes = changes_of(self._queries.entries_of(drop.id), self._queries.origin(drop.id))
        if changes.folded():
            changed_page(fix, free(words.say("Changed for you")), changes)
        sentences = CHECKED if self._is_check else STEPS
        read_page(fix, free(words.say("Read me")), drop, sentences, titles, more=more)
        fix.lists.write(book)
        if fix.first is not None:
            fix.first.activate()

    def _spots(self) -> Callable[[Place], Spot]:
        """A function from a place in the source to its place in the workbook."""
        numbers = {table.name: self._rows.numbers(table.name) for table in self.drop.tables}

        def spot(place: Place) -> Spot:
            name, mine = self._titles[place.table.name], numbers[place.table.name]
            row = bisect_left(mine, place.row.number)
            if row == len(mine) or mine[row] != place.row.number:  # the row is in a text file, not in the workbook
                return Spot(origin_of(place.table.where(place.row.number)), link_to(name, 0, 0))
            column = 0 if place.position is None else place.position + 1
            return Spot(f"{name}!{column_letters(column)}{row + 2}", link_to(name, row + 1, column))

        return spot

    def _texts(self, folder: Path, name_of: Callable[..., str]) -> list[str]:
        names = []
        everything = (self._rows, self._over) if self._feedback != "workbook" else (self._over,)
        is_shared = len({part_of_table(table.name) for table in self.drop.tables}) > 1
        for table in self.drop.tables:
            if is_shared and not any(some.numbers(table.name) for some in everything):
                continue  # nothing to fix for this mapping
            rows = merge(*(some.of(table.name) for some in everything), key=attrgetter("number"))
            names.append(name_of(self._original.table(table.name).file))
            write_rows(folder / names[-1], table, rows, self._words)
        return names


_ITEMS = re.compile(r"\d+ items?")


def placing(queries: LedgerQueries, words: Words) -> Callable[[Entry], Entry]:
    """A function that gives the problems of an entry that keep changed values, or a number that was meant, the cells of these, and words them
    for its sender.
    """
    origin = cache(queries.origin)

    def place(entry: Entry) -> Entry:
        is_placed = any(kept_changes(problem) or MEANT in problem.values for problem in entry.problems)
        if not is_placed or not entry.rows or entry.removed:
            return entry
        problems = tuple(_placed(problem, entry, origin(entry.drop), words) for problem in entry.problems)
        return entry._replace(problems=problems)

    return place


def _placed(problem: Problem, entry: Entry, origin: Origin, words: Words) -> Problem:
    if MEANT in problem.values:
        where, *also = origin.stating(entry, BY_NAME[entry.operation].record.key[0]) or (problem.where,)
        return replace(problem, where=where, also=tuple(also))
    changes = kept_changes(problem)
    if not changes:
        return problem
    cells = [[where for where in origin.stating(entry, change.path) if where.column] for change in changes]
    shown = _not_derived(list(zip(changes, cells, strict=True)))
    texts = [_text_of(change, found, origin, words) for change, found in shown]
    text, more = "; ".join(dict.fromkeys(texts)), further_changes(problem)
    if more:
        text = words.say("{names} and {count} more", names=text, count=words.number(more))
    first, *others = dict.fromkeys(chain.from_iterable(cells)) or (problem.where,)
    found = next(
        (
            origin.cell(row, first.column)
            for row in entry.rows
            if origin.tables[row.table].where(row.number, first.column) == first
        ),
        "",
    )
    return replace(problem, where=first, found=found, also=tuple(others), values={**problem.values, FIELDS: text})


def _not_derived(
    changes: Sequence[tuple[ChangedValue, Sequence[Where]]],
) -> Iterator[tuple[ChangedValue, Sequence[Where]]]:
    """The changes with their cells, without those that follow from others: all their cells are in changes of as few columns."""
    shown_cells: set[Where] = set()
    for change, cells in sorted(changes, key=lambda one: len({where.column for where in one[1]})):
        if not cells or not shown_cells.issuperset(cells):
            yield change, cells
        shown_cells.update(cells)


def _text_of(change: ChangedValue, cells: Sequence[Where], origin: Origin, words: Words) -> str:
    """A change such as `Weight 12 -> 15`. What comes from no cell has the name of its field."""
    name = " / ".join(dict.fromkeys(where.column for where in cells)) or change.path
    if change.old is None or change.new is None:
        return name
    if any(map(_ITEMS.fullmatch, (change.old, change.new))):
        of_rows = f"{STEP.sub('[]', change.path)}[]"
        return words.say("number of rows") if any(of_rows in path for path in origin.lineage) else name
    old, new = (
        words.payload_value(text, "number") if text else words.say("(blank)") for text in (change.old, change.new)
    )
    return f"{name} {old} -> {new}"

"""The results of a source file: its own rows in source order, each once, with its outcome, what is wrong and what to do.

A workbook comes back as a workbook with one sheet for each of its sheets, a text file as a CSV file in its own delimiter and encoding.
Texts are in the shipper's language. If several records come from a row, its outcome is the worst of theirs.

Owns the layout and names of results files. Rows arrive in entry order and are spooled. Sixteen bytes a row are kept to
sort them at the end, so memory does not grow with the cells.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from loadsheet.display_text import show_controls
from loadsheet.languages import Words
from loadsheet.ledger import STATES_THAT_NEED_SOMEONE, Drop, Entry, IgnoredRow, Run, SourceTable, State
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import Problem
from loadsheet.reconcile import IGNORED, WORST_FIRST, Match
from loadsheet.reports.fix_workbook import guides_in, warnings_about
from loadsheet.reports.fix_workbook.fix_sheets import native_value
from loadsheet.reports.fix_workbook.wording import word_problem, word_rule
from loadsheet.reports.report_files import (
    Spool,
    csv_row,
    distinct_name,
    safe_name,
    sheet_text,
    text_format,
    written_atomically,
)
from loadsheet.reports.sheets import (
    ROWS_MAX,
    Book,
    Kind,
    Tone,
    fit_height,
    fit_paper,
    head_width,
    open_book,
    write_cell,
)
from loadsheet.workbook_marks import sheet_titles

SUFFIX, BOOK_SUFFIX = ".results.csv", ".results.xlsx"
SET_ASIDE = "set aside"

LEADING = ("row", "outcome", "problem", "what to do")
TRAILING = ("operation", "key", "service order", "verdict")
OUTCOMES = {
    "accepted": Tone.GOOD,
    "unchanged": Tone.MUTED,
    "ready": Tone.NOTE,
    "sending": Tone.NOTE,
    "held": Tone.NOTE,
    "unknown": Tone.BAD,
    "refused": Tone.BAD,
    "invalid": Tone.BAD,
    IGNORED: Tone.MUTED,
    SET_ASIDE: Tone.BAD,
}
"""The outcomes of a row, with the tones of their cells."""

_BOOKS = frozenset({".xlsx", ".xlsm", ".xls", ".xlsb", ".ods"})
_COLUMNS_MAX = 16_384
_ROWS_AT_ONCE = 256
_WIDTHS = {"row": 7, "outcome": 14, "problem": 46, "what to do": 36}
_WIDTH_MIN, _WIDTH_MAX = 9, 34

Place = tuple[str, str]
"""File and sheet."""


class _RowResult(NamedTuple):
    """What is known of a row: its outcome, problems, what to do, its cells and native values, and the values of the last columns."""

    outcome: str
    problems: tuple[str, ...] = ()
    todo: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    natives: tuple[tuple[int, str, str], ...] = ()
    tail: tuple[str, ...] = ("",) * len(TRAILING)


_encode = msgspec.json.Encoder().encode
_lines = msgspec.json.Decoder(_RowResult)


class DropResults:
    """The results files of one drop. Add all entries and ignored rows, then call `finish`."""

    def __init__(self, drop: Drop, folder: Path, names: Mapping[Place, str], words: Words, stack: ExitStack) -> None:
        """`names` are the file names in `folder` by source file and sheet; `stack` closes the spools."""
        self._drop, self._folder, self._names, self._words = drop, folder, names, words
        self._in_words, self._guides = cache(words.raw), guides_in(drop, words)
        self._looked_up: set[tuple[str, int, _RowResult]] = set()
        self._tables = {table.name: table for table in drop.tables}
        self._titles = {table.name: table.sheet or table.file for table in drop.tables}
        self._pages = {place: _Page(words, stack) for place in places_of(drop)}
        self._by_table = {table.name: self._pages[table.file, table.sheet] for table in drop.tables}
        for table in reversed(drop.tables):  # if a sheet holds several tables, the first header wins
            self._pages[table.file, table.sheet].header = table.header
        for file in drop.files:
            for problem in file.problems:
                text, todo = self._texts_of(problem)
                self._pages[file.name, ""].put(problem.where.row, _RowResult(SET_ASIDE, (text,), (todo,)))
        for name, page in self._by_table.items():
            for problem in warnings_about(self._tables[name]):
                texts = self._texts_of(problem)
                page.warnings.update((place.row, *texts) for place in (problem.where, *problem.also))

    def add(self, entry: Entry, match: Match) -> None:
        """Add the rows of an entry."""
        tail = (entry.operation, entry.key, entry.service_order, self._in_words(match.verdict))
        looked_up = frozenset(entry.links.looked_up)
        if not entry.problems and entry.state not in STATES_THAT_NEED_SOMEONE:
            line = _RowResult(entry.state.value, tail=tail)
            for position, row in enumerate(entry.rows):
                self._put(row, line, is_looked_up=position in looked_up)
            return
        by_row = _problems_by_row(entry, self._tables)
        cause = next(
            (number for number, problems in enumerate(by_row) if any(p.level == "error" for p in problems)), None
        )
        for position, row in enumerate(entry.rows):
            reasons = [self._texts_of(problem, entry) for problem in by_row[position]]
            if entry.state in STATES_THAT_NEED_SOMEONE and not any(
                problem.level == "error" for problem in by_row[position]
            ):
                reasons.append(self._reason_of_row(entry, row, cause))
            texts, todo = (tuple(dict.fromkeys(both[at] for both in reasons if both[at])) for at in (0, 1))
            self._put(row, _RowResult(entry.state, texts, todo, tail=tail), is_looked_up=position in looked_up)

    def leave_out(self, row: IgnoredRow) -> None:
        """Add a row that a rule ignored."""
        why = word_rule(row.rule, self._words)
        self._put(SourceRow(row.table, row.number, row.cells), _RowResult(IGNORED, (why,)))

    def finish(self) -> list[str]:
        """Write the files and return their names."""
        titles = sheet_titles((str(place), *place) for place in self._pages)
        for name in dict.fromkeys(self._names.values()):
            pages = {titles[str(place)]: page for place, page in self._pages.items() if self._names[place] == name}
            if name.endswith(BOOK_SUFFIX):
                with open_book(self._folder / name, title=name, footer=name) as book:
                    for title, page in pages.items():
                        _write_sheet(book, title, page, self._words)
            else:
                notes = [
                    table.reading_notes for table in self._drop.tables if self._names[table.file, table.sheet] == name
                ]
                _write_text(self._folder / name, next(iter(pages.values())), text_format(notes[0] if notes else {}))
        return list(dict.fromkeys(self._names.values()))

    def _put(self, row: SourceRow, line: _RowResult, *, is_looked_up: bool = False) -> None:
        """Add a line to its page. A row that many entries look up is added once for each outcome, without an entry."""
        if is_looked_up:
            line = line._replace(tail=("",) * len(TRAILING))
            if (row.table, row.number, line) in self._looked_up:
                return
            self._looked_up.add((row.table, row.number, line))
        table = self._tables[row.table]
        cells = row.cells or ("",) * len(table.header)  # removed by retention
        whole = _RowResult(line.outcome, line.problems, line.todo, cells, row.natives, line.tail)
        self._by_table[row.table].put(row.number, whole)

    def _texts_of(self, problem: Problem, entry: Entry | None = None) -> tuple[str, str]:
        """A problem of an entry or of the file in its sender's words, and what to do about it."""
        where, words = problem.where, self._words
        own = [self._tables[row.table] for row in entry.rows] if entry is not None else []
        tables = (*own, *self._tables.values())  # several mappings may read one sheet
        table = next((one for one in tables if (one.file, one.sheet) == (where.file, where.sheet)), None)
        guide = self._guides.get(table.name, {}).get(where.column) if table is not None else None
        worded = word_problem(problem, words, self._titles, guide)
        place = " ".join(part for part in (where.cell, where.column) if part and part not in worded.text)
        text = f"{worded.text.rstrip('.')} [{problem.code}]"
        text = words.say("{place}: {text}", place=place, text=text) if place else text
        return words.say("Warning: {text}", text=text) if problem.level == "warning" else text, worded.todo

    def _reason_of_row(self, entry: Entry, row: SourceRow, cause: int | None) -> tuple[str, str]:
        """Why a row without an error of its own shares the fate of its entry, and where to look."""
        words = self._words
        if cause is None:
            code = {State.UNKNOWN: "X702", State.REFUSED: "X701"}.get(entry.state, "X703")
            worded = word_problem(Problem(code, values={"text": entry.reason}), words, {})
            return worded.text, worded.todo if code != "X703" else words.say("Contact the people who run loadsheet")
        other, here = entry.rows[cause], self._tables[row.table]
        there = self._tables[other.table]
        is_here = (here.file, here.sheet) == (there.file, there.sheet)
        names = (there.file * (here.file != there.file), there.sheet * (not is_here))
        place = ", ".join([*filter(None, names), words.say("row {row}", row=other.number)])
        outcome = words.raw(State.HELD if entry.state is State.INVALID else entry.state)
        return words.say("{outcome} with {place}", outcome=outcome, place=place), words.say("See {place}", place=place)


class _Page:
    """The rows of one sheet or text file, added in any order. Its `warnings` (row, text, what to do) stand beside that row, or beside the
    next one that is not ignored.
    """

    def __init__(self, words: Words, stack: ExitStack) -> None:
        self.header: Sequence[str] = ()
        self.warnings: set[tuple[int, str, str]] = set()
        self._words, self._spool = words, Spool(stack)
        self._joint, self._outcome = words.raw("; "), cache(words.raw)

    def put(self, number: int, line: _RowResult) -> None:
        self._spool.add(number, _encode(line))

    @property
    def heads(self) -> tuple[str, ...]:
        """The headings: the sender's own between ours."""
        own = {name.casefold() for name in self.header}
        ours = [self._words.raw(name) for name in (*LEADING, *TRAILING)]
        ours = [f"{name} (loadsheet)" if name.casefold() in own else name for name in ours]
        return (*ours[: len(LEADING)], *self.header, *ours[len(LEADING) :])

    def rows(self) -> Iterator[tuple[int, _RowResult]]:
        """Each row once, in source order. A row of several records has the worst of their outcomes, and what is said of all."""
        warnings = sorted(self.warnings, reverse=True)
        for number, encoded in groupby(self._spool.lines(), key=itemgetter(0)):
            first, *others = (_lines.decode(line) for _, line in encoded)
            line = _merged(first, others) if others else first
            while warnings and warnings[-1][0] <= number and line.outcome != IGNORED:
                _, text, todo = warnings.pop()
                line = line._replace(problems=(*line.problems, text), todo=(*line.todo, todo))
            yield number, line

    def texts(self, number: int, line: _RowResult) -> tuple[str, ...]:
        """The cells of a row before and after the sender's own."""
        joint = self._joint
        return str(number or ""), self._outcome(line.outcome), joint.join(line.problems), joint.join(line.todo)


def _merged(first: _RowResult, others: Sequence[_RowResult]) -> _RowResult:
    everything = [first, *others]
    rank = {outcome: place for place, outcome in enumerate((SET_ASIDE, *WORST_FIRST))}
    worst = min(everything, key=lambda line: rank[line.outcome])
    counted = [line for line in everything if line.outcome != IGNORED] or everything
    problems = tuple(dict.fromkeys(text for line in counted for text in line.problems))
    todo = tuple(dict.fromkeys(text for line in counted for text in line.todo))
    tails = zip(*(line.tail for line in counted), strict=True)
    tail = tuple("; ".join(dict.fromkeys(filter(None, texts))) for texts in tails)
    return worst._replace(problems=problems, todo=todo, tail=tail)


def _write_text(path: Path, page: _Page, form: tuple[str, str]) -> None:
    """Write a CSV file with this delimiter and encoding; in UTF-8 with a byte order mark if a text cannot be written in the encoding."""
    delimiter, encoding = form
    own = "utf-8-sig" if encoding.lower() in ("utf-8", "ascii", "us-ascii") else encoding

    def put(encoding: str, errors: str) -> None:
        with written_atomically(path) as part, part.open("w", encoding=encoding, errors=errors, newline="") as target:
            target.write(csv_row(page.heads, delimiter))
            rows = (
                csv_row((*page.texts(number, line), *line.cells, *line.tail), delimiter) for number, line in page.rows()
            )
            while some := "".join(islice(rows, _ROWS_AT_ONCE)):  # encoding costs more for each text than for its length
                target.write(some)

    try:
        put(own, "strict")
    except UnicodeEncodeError:
        put("utf-8-sig", "replace")


def _write_sheet(book: Book, title: str, page: _Page, words: Words) -> None:
    """Write a page: headings frozen, filters on, outcomes coloured; texts stay texts and cannot become formulas."""
    sheet, heads, first = book.sheet(title), page.heads, len(LEADING)
    sheet.hide_gridlines(1)
    sheet.set_row(0, 30)
    for position, head in enumerate(heads):
        sheet.write_string(0, position, sheet_text(show_controls(head)), book.head_style(Kind.TEXT))
    widths = defaultdict(lambda: _WIDTH_MIN, enumerate(_WIDTHS.values()))
    widths |= {
        at: max(_WIDTH_MIN, min(head_width(head) + 2, _WIDTH_MAX)) for at, head in enumerate(heads[first:], start=first)
    }
    looks = {outcome: book.style(tone=tone) for outcome, tone in OUTCOMES.items()}
    numbers, wrapped, plain, row = book.style(Kind.NUMBER, Tone.MUTED), book.style(wrap=True), book.style(), 0
    for row, (number, line) in enumerate(page.rows(), start=1):
        _, outcome, *wrapped_texts = page.texts(number, line)
        fit_height(sheet, row, max(1 + len(text) // widths[at] for at, text in enumerate(wrapped_texts, start=2)))
        write_cell(sheet, row, 0, number or None, numbers)
        write_cell(sheet, row, 1, outcome, looks[line.outcome])
        for position, text in enumerate(wrapped_texts, start=2):
            write_cell(sheet, row, position, show_controls(text), wrapped)
        natives = {position: (kind, text) for position, kind, text in line.natives}
        for position, cell in enumerate((*line.cells, *line.tail)):
            native = natives.get(position)
            value, code = native_value(cell, native, words.date_format) if native else (cell, "")
            look = book.style(num_format=code, align="right", indent=0) if code not in ("", "@") else plain
            if value != "":
                write_cell(
                    sheet, row, position + first, show_controls(value) if isinstance(value, str) else value, look
                )
                widths[position + first] = max(widths[position + first], min(len(cell), _WIDTH_MAX))
    for position, width in widths.items():
        sheet.set_column(position, position, width, plain)
    sheet.freeze_panes(1, 2)
    sheet.autofilter(0, 0, max(1, row), len(heads) - 1)
    sheet.repeat_rows(0)
    fit_paper(sheet, widths.values(), 0)
    sheet.ignore_errors({"number_stored_as_text": f"A1:XFD{row + 1}", "two_digit_text_year": f"A1:XFD{row + 1}"})


def places_of(drop: Drop) -> list[Place]:
    """The files and sheets of a drop with results: all tables read, and files set aside."""
    read = [(table.file, table.sheet) for table in drop.tables]
    return list(dict.fromkeys(read + [(file.name, "") for file in drop.files if file.problems]))


def results_names(drops: Iterable[Drop], run: Run, form: str = "csv") -> dict[int, dict[Place, str]]:
    """The name of every results file of a run, by drop: the file's name with folders flattened. Duplicates are numbered. `form` is
    `csv`, `xlsx` or `same` (as the source file). All sheets of a workbook are in one file.
    """
    names: dict[int, dict[Place, str]] = {}
    taken: set[str] = set()
    for drop in drops:
        places, books = places_of(drop), dict[str, str]()
        mine = names[drop.id] = {}
        for file, sheet in places:
            earlier = "" if run.holds(drop.run) else f".of-{drop.run}"
            if _is_book(drop, file, form):
                if file not in books:
                    books[file] = distinct_name(safe_name(file) + earlier, BOOK_SUFFIX, taken)
                mine[file, sheet] = books[file]
                continue
            several = sum(other == file for other, _ in places) > 1
            base = safe_name(file) + (f".{safe_name(sheet)}" if several else "") + earlier
            mine[file, sheet] = distinct_name(base, SUFFIX, taken)
    return names


def _is_book(drop: Drop, file: str, form: str) -> bool:
    """Whether the results of a file are a workbook. More rows or columns than a sheet can hold make them CSV."""
    tables = [table for table in drop.tables if table.file == file]
    was_book = any(table.sheet for table in tables) if tables else PurePath(file).suffix.lower() in _BOOKS
    ours = len(LEADING) + len(TRAILING)
    fits = all(table.rows < ROWS_MAX and len(table.header) + ours <= _COLUMNS_MAX for table in tables)
    return fits and (form == "xlsx" or (form == "same" and was_book))


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

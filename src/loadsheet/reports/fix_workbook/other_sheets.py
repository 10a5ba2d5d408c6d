"""The other sheets of a fix workbook: Errors, Changed for you, Read me, and the sheet for an unreadable file.

One line of Errors groups the same problem with the same value; the most frequent cause comes first.
`loadsheet.problem_groups` counts the causes. This module adds what a sender needs: the value, what to do, and the
first places.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadsheet.ledger import Drop
from loadsheet.problem_groups import Causes
from loadsheet.problems import Level, Problem, Where
from loadsheet.reports.book import Book, Kind, Tone
from loadsheet.reports.fix_workbook.fix_rows import Place
from loadsheet.reports.fix_workbook.fix_sheets import FixBook
from loadsheet.reports.fix_workbook.value_changes import Changes
from loadsheet.reports.fix_workbook.wording import ProblemText, Words, line_of
from loadsheet.reports.report_files import sheet_text
from loadsheet.reports.sheets import write

LINES_MOST = 1_000
_PLACES = 4
_Kind = tuple[str, str, str, str, str]


@dataclass(slots=True)
class Line:
    """The same problem with the same value in one or more rows: its text and first places."""

    problem: Problem
    worded: ProblemText
    count: int = 0
    places: list[Place] = field(default_factory=list)

    @property
    def level(self) -> Level:
        """Error or warning."""
        return self.problem.level


class Errors:
    """Collects problems and returns them as lines."""

    def __init__(self) -> None:
        self._causes = Causes()
        self._lines: dict[tuple[str, ...], Line] = {}
        self._levels: Counter[str] = Counter()
        self._columns: Counter[str] = Counter()
        self.documents = 0
        self.is_cut = False

    def add(self, problem: Problem, place: Place, worded: ProblemText, key: str) -> None:
        """Add a problem whose place is complete. All problems of a document must come in sequence."""
        self._causes.add(problem, key)
        self._levels[problem.level] += 1
        if problem.level == "error" and problem.where.column:
            self._columns[problem.where.column] += 1
        identity = (*_kind(problem), problem.found, worded.text)
        line = self._lines.get(identity)
        if line is None:
            if len(self._lines) >= LINES_MOST:
                self.is_cut = True
                return
            line = self._lines[identity] = Line(problem, worded)
        line.count += 1
        if len(line.places) < _PLACES:
            line.places.append(place)

    def lines(self) -> list[Line]:
        """The lines: errors before warnings, most frequent cause first."""
        ranks: dict[_Kind, int] = {}
        for rank, cause in enumerate(self._causes.ranked()):
            ranks.setdefault((cause.code, cause.level, cause.file, cause.sheet, cause.column), rank)
        return sorted(
            self._lines.values(),
            key=lambda line: (line.level == "warning", ranks.get(_kind(line.problem), len(ranks)), -line.count),
        )

    def summary(self, words: Words) -> str:
        """A summary in a sentence or two: `41 problems of 3 kinds in 12 records. Correcting the column “PLZ” clears 33 of them.`"""
        errors, warnings = self._levels["error"], self._levels["warning"]
        kinds = sum(cause.level == "error" for cause in self._causes.ranked())
        text = words.errors_summary.format(
            problems=words.counted(words.errors_counted, errors),
            kinds=words.counted(words.kinds_counted, kinds),
            documents=words.counted(words.documents_counted, self.documents),
        )
        column, most = max(self._columns.items(), key=lambda item: item[1], default=("", 0))
        if kinds > 1 < most < errors:
            text += f" {words.errors_clears.format(column=column, count=words.number(most))}"
        return f"{text} {words.counted(words.warnings_counted, warnings)}" if warnings else text


def _kind(problem: Problem) -> _Kind:
    where = problem.where
    return problem.code, problem.level, where.file, where.sheet, where.column


_LINE_HEIGHT, _LINES_MOST = 13, 10
_ERROR_WIDTHS = (20, 18, 24, 46, 40, 18, 10, 24, 38, 8)
_CHANGED_WIDTHS = (22, 50, 10, 34, 34, 42)
_ASIDE_WIDTHS = (80, 40, 8)
_ALSO_SHOWN = 3


class Spot(NamedTuple):
    """A cell of the workbook: its readable name and a link to it."""

    name: str
    link: str


class _ListSheet:
    """A sheet with a few lines of text above a table with wrapped texts. `row` is the table's current row."""

    def __init__(self, book: Book, title: str, lines: Sequence[str] = ()) -> None:
        self.book, self.sheet = book, book.sheet(title)
        for row, text in enumerate(lines):
            style = book.style(line=False, font_size=10 if row else 12, bold=not row, num_format="General")
            write(self.sheet, row, 0, text, style)
        self.row = self._top = 2 if lines else 0
        self._widths: Sequence[int] = ()

    def heads(self, heads: Sequence[str], widths: Sequence[int], *, count_at: int | None = None) -> None:
        """Write the headings; the column `count_at` holds counts."""
        self._widths = widths
        for position, (head, width) in enumerate(zip(heads, widths, strict=True)):
            style = self.book.head_style(Kind.COUNT if position == count_at else Kind.TEXT)
            self.sheet.write_string(self.row, position, head, style)
            self.sheet.set_column(position, position, width)
        self.sheet.set_row(self.row, 24)

    def text(self, position: int, text: str, tone: Tone = Tone.PLAIN, **style: Any) -> None:
        """Write a text in the current row."""
        write(self.sheet, self.row, position, text, self.book.style(tone=tone, wrap=True, **style))

    def count(self, position: int, count: int) -> None:
        """Write a count in the current row."""
        write(self.sheet, self.row, position, count, self.book.style(Kind.COUNT))

    def fit(self, texts: Sequence[str], first: int = 0) -> None:
        """Set the height of a row with wrapped texts, from this column on. Not every spreadsheet program does so itself."""
        lines = max(
            sum(1 + len(part) * 9 // (10 * width) for part in text.split("\n"))
            for text, width in zip(texts, self._widths[first:], strict=False)
        )
        if lines > 1:
            self.sheet.set_row(self.row, min(lines, _LINES_MOST) * _LINE_HEIGHT + 4)

    def close(self, *, filters: bool) -> None:
        """Freeze and repeat the headings."""
        self.sheet.freeze_panes(self._top + 1, 1)
        self.sheet.repeat_rows(self._top)
        if filters and self.row > self._top:
            self.sheet.autofilter(self._top, 0, self.row, len(self._widths) - 1)


def errors_page(fix: FixBook, title: str, errors: Errors, spot: Callable[[Place], Spot]) -> None:
    """Write the errors, one line per kind and value, with links to the cells."""
    words = fix.words
    page = _ListSheet(fix.book, title, [errors.summary(words), *([words.errors_more] if errors.is_cut else [])])
    page.heads(words.errors_heads, _ERROR_WIDTHS, count_at=6)
    for line in errors.lines():
        page.row += 1
        _error(page, words, line, [spot(place) for place in line.places])
    page.close(filters=True)
    page.sheet.set_tab_color("#C99700")


def _error(page: _ListSheet, words: Words, line: Line, spots: Sequence[Spot]) -> None:
    problem, worded = line.problem, line.worded
    more = line.count - 1 - min(_ALSO_SHOWN, len(spots) - 1)
    also = ", ".join(
        [one.name for one in spots[1 : 1 + _ALSO_SHOWN]] + ([f"+{words.number(more)}"] if more > 0 else [])
    )
    found_tone = Tone.PLAIN if not problem.found else Tone.NOTE if line.level == "warning" else Tone.BAD
    link_style = page.book.style(font_color="#1D4ED8", underline=1)
    page.sheet.write_url(page.row, 0, spots[0].link, link_style, sheet_text(spots[0].name))
    column, what = worded.column or words.whole_row, f"{words.errors_level[line.level]}{worded.text}"
    page.text(1, column)
    page.text(2, problem.found, found_tone)
    for position, text in enumerate((what, worded.todo, worded.suggestion), start=3):
        page.text(position, text)
    page.count(6, line.count)
    origin = origin_of(problem.where)
    for position, text in enumerate((also, origin, problem.code), start=7):
        page.text(position, text, Tone.MUTED)
    page.fit((column, problem.found, what, worded.todo, worded.suggestion, "", also, origin), 1)


def changed_page(fix: FixBook, title: str, changes: Changes) -> None:
    """Write the value changes, one line per example."""
    words = fix.words
    some = [words.changed_some.format(count=words.number(changes.documents))] if changes.is_cut else []
    page = _ListSheet(fix.book, title, [words.changed_intro, *some])
    page.heads(words.changed_heads, _CHANGED_WIDTHS, count_at=2)
    for change in changes.folded():
        for number, example in enumerate(change.examples):
            page.row += 1
            first = number == 0
            found = example.found.replace("\u00a0", " ").replace("\u202f", " ")
            column, kind = (change.column, words.changed_kinds[change.kind]) if first else ("", "")
            page.text(0, column, line=first)
            page.text(1, kind, line=False)
            if first:
                page.count(2, change.count)
            page.text(3, found or words.changed_blank)
            page.text(4, example.became)
            page.text(5, origin_of(example.where), Tone.MUTED)
            page.fit((column, kind, "", found, example.became))
    page.close(filters=False)


def aside_page(fix: FixBook, title: str, problems: Sequence[tuple[Problem, ProblemText]]) -> None:
    """Write the problems of an unreadable file, one line each."""
    words = fix.words
    page = _ListSheet(fix.book, title)
    page.heads((words.what_to_fix, words.errors_heads[8], words.errors_heads[9]), _ASIDE_WIDTHS)
    for problem, worded in problems:
        page.row += 1
        texts = (line_of(worded.text, worded.todo), origin_of(problem.where), problem.code)
        for position, text in enumerate(texts):
            page.text(position, text, Tone.PLAIN if position else Tone.BAD, bold=False)
        page.fit(texts)
    page.sheet.freeze_panes(1, 0)


def read_page(fix: FixBook, title: str, drop: Drop, sheets: Sequence[str], more: Sequence[str]) -> None:
    """Write the three sentences, the `more` remarks, and the origin of the workbook."""
    book, words = fix.book, fix.words
    sheet = book.sheet(title)
    sheet.set_column(0, 0, 5)
    sheet.set_column(1, 1, 100)
    write(sheet, 0, 0, words.what_to_fix, book.style(line=False, font_size=16, bold=True, num_format="General"))
    names, files = ", ".join(words.quoted.format(name) for name in sheets), ", ".join(file.name for file in drop.files)
    row, body = 1, book.style(wrap=True, line=False, font_size=12)
    for number, sentence in enumerate(words.read_aside if drop.set_aside else words.read_sentences, start=1):
        row += 1
        text = sentence.format(sheets=names, file=files)
        write(sheet, row, 0, f"{number}.", book.style(line=False, font_size=12, bold=True))
        write(sheet, row, 1, text, body)
        sheet.set_row(row, 18 * (1 + len(text) // 95) + 6)
    for remark in more:
        row += 1
        write(sheet, row, 1, remark, body)
    row += 1
    facts = (files, drop.run, f"{drop.mapping} {drop.mapping_version}".strip())
    for name, text in zip(words.read_facts, facts, strict=True):
        if text:
            row += 1
            write(sheet, row, 1, f"{name}: {text}", book.style(tone=Tone.MUTED, line=False))


def origin_of(where: Where) -> str:
    """The cell in the sender's own file: `orders.xlsx Orders!E14` or `orders.csv:14 Weight`."""
    return f"{where.file} {where.sheet}!{where.cell}" if where.cell else str(where)

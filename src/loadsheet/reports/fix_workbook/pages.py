"""The pages of a fix workbook besides the rows: Errors, Changed for you, Read me, and the page of a file that could not be read.

One line of Errors stands for the same problem with the same value; the most frequent cause comes first. `loadsheet.problem_groups` counts
the causes. This module adds what a sender needs: the value, what to do, and the first places.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadsheet.ledger import Drop
from loadsheet.problem_groups import Causes
from loadsheet.problems import Level, Problem, Where
from loadsheet.reports.fix_workbook.rows import Place
from loadsheet.reports.fix_workbook.texts import ProblemText, Words, line_of
from loadsheet.reports.fix_workbook.value_changes import Changes
from loadsheet.reports.safety import sheet_text
from loadsheet.reports.sheets import Book, Kind, Tone

LINES_MOST = 1_000
_PLACES = 4
_Kind = tuple[str, str, str, str, str]


@dataclass(slots=True)
class Line:
    """The same problem with the same value, in any number of rows: the first places, and how it is told."""

    problem: Problem
    worded: ProblemText
    count: int = 0
    places: list[Place] = field(default_factory=list)

    @property
    def level(self) -> Level:
        """Error or warning."""
        return self.problem.level


class Errors:
    """Gathers problems, then gives them as lines."""

    def __init__(self) -> None:
        self._causes = Causes()
        self._lines: dict[tuple[str, ...], Line] = {}
        self._levels: Counter[str] = Counter()
        self._columns: Counter[str] = Counter()
        self.documents = 0
        self.is_cut = False

    def add(self, problem: Problem, place: Place, worded: ProblemText, key: str) -> None:
        """Take a problem whose place is made good. All problems of a document come one after the other."""
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
        """The lines, those of the most frequent cause first; errors before warnings."""
        ranks: dict[_Kind, int] = {}
        for rank, cause in enumerate(self._causes.ranked()):
            ranks.setdefault((cause.code, cause.level, cause.file, cause.sheet, cause.column), rank)
        return sorted(
            self._lines.values(),
            key=lambda line: (line.level == "warning", ranks.get(_kind(line.problem), len(ranks)), -line.count),
        )

    def summary(self, words: Words) -> str:
        """All of it in a sentence or two: `41 problems of 3 kinds in 12 records. Correcting the column “PLZ” clears 33 of them.`"""
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
_BODY_SIZE = 10


class Spot(NamedTuple):
    """A cell of the workbook: as it is told, and as a link to it."""

    name: str
    link: str


def errors_page(book: Book, title: str, errors: Errors, words: Words, spot: Callable[[Place], Spot]) -> None:
    """The errors, a line for each kind of them and value, with links to the cells."""
    sheet = book.sheet(title)
    top = 2
    _say(book, sheet, 0, errors.summary(words), size=12)
    if errors.is_cut:
        _say(book, sheet, 1, words.errors_more)
    _heads(book, sheet, top, words.errors_heads, _ERROR_WIDTHS, counts=words.errors_heads[6:7])
    row = top
    for row, line in enumerate(errors.lines(), start=top + 1):
        _error(book, sheet, row, line, [spot(place) for place in line.places], words=words)
    _close(sheet, top, row, _ERROR_WIDTHS)
    sheet.set_tab_color("#C99700")


def _error(book: Book, sheet: Any, row: int, line: Line, spots: Sequence[Spot], *, words: Words) -> None:
    problem, worded = line.problem, line.worded
    more = line.count - 1 - min(_ALSO_SHOWN, len(spots) - 1)
    also = ", ".join(
        [one.name for one in spots[1 : 1 + _ALSO_SHOWN]] + ([f"+{words.number(more)}"] if more > 0 else [])
    )
    texts = (
        worded.column or words.whole_row,
        problem.found,
        f"{words.errors_level[line.level]}{worded.text}",
        worded.todo,
        worded.suggestion,
    )
    tone = Tone.NOTE if line.level == "warning" else Tone.BAD
    sheet.write_url(row, 0, spots[0].link, book.style(font_color="#1D4ED8", underline=1), sheet_text(spots[0].name))
    for position, text in enumerate(texts, start=1):
        style = book.style(tone=tone if position == 2 and text else Tone.PLAIN, wrap=True)  # noqa: PLR2004 (their value)
        _text(sheet, row, position, text, style)
    sheet.write_number(row, 6, line.count, book.style(Kind.COUNT))
    for position, text in enumerate((also, origin_of(problem.where), problem.code), start=7):
        _text(sheet, row, position, text, book.style(tone=Tone.MUTED, wrap=True))
    _fit(sheet, row, (*texts[:5], "", also, origin_of(problem.where)), _ERROR_WIDTHS[1:])


def changed_page(book: Book, title: str, changes: Changes, words: Words) -> None:
    """What became of values, a line for each example."""
    sheet = book.sheet(title)
    top = 2
    _say(book, sheet, 0, words.changed_intro, size=12)
    if changes.is_cut:
        _say(book, sheet, 1, words.changed_some.format(count=words.number(changes.documents)))
    _heads(book, sheet, top, words.changed_heads, _CHANGED_WIDTHS, counts=words.changed_heads[2:3])
    row = top
    for change in changes.folded():
        for number, example in enumerate(change.examples):
            row += 1
            first = number == 0
            found = example.found.replace("\u00a0", " ").replace("\u202f", " ")
            texts = (change.column, words.changed_kinds[change.kind]) if first else ("", "")
            for position, text in enumerate(texts):
                _text(sheet, row, position, text, book.style(wrap=True, line=first and not position))
            if first:
                sheet.write_number(row, 2, change.count, book.style(Kind.COUNT))
            for position, text in enumerate((found or words.changed_blank, example.became), start=3):
                _text(sheet, row, position, text, book.style(wrap=True))
            _text(sheet, row, 5, origin_of(example.where), book.style(tone=Tone.MUTED, wrap=True))
            _fit(sheet, row, (*texts, "", found, example.became), _CHANGED_WIDTHS)
    _close(sheet, top, row, _CHANGED_WIDTHS, filters=False)


def aside_page(book: Book, title: str, problems: Sequence[tuple[Problem, ProblemText]], words: Words) -> None:
    """What is wrong with a file that could not be read, a line for each problem."""
    sheet = book.sheet(title)
    _heads(book, sheet, 0, (words.what_to_fix, words.errors_heads[8], words.errors_heads[9]), _ASIDE_WIDTHS)
    for row, (problem, worded) in enumerate(problems, start=1):
        texts = (line_of(worded.text, worded.todo), origin_of(problem.where), problem.code)
        for position, text in enumerate(texts):
            _text(
                sheet, row, position, text, book.style(tone=Tone.PLAIN if position else Tone.BAD, wrap=True, bold=False)
            )
        _fit(sheet, row, texts, _ASIDE_WIDTHS)
    sheet.freeze_panes(1, 0)


def read_page(
    book: Book, drop: Drop, words: Words, sheets: Sequence[str], more: Sequence[str], *, title: str = ""
) -> None:
    """Three sentences, what `more` there is to say, and where the workbook is from."""
    sheet = book.sheet(title or words.read_title)
    sheet.set_column(0, 0, 5)
    sheet.set_column(1, 1, 100)
    _say(book, sheet, 0, words.what_to_fix, size=16)
    sentences = words.read_aside if drop.set_aside else words.read_sentences
    row = 1
    names = ", ".join(words.quoted.format(name) for name in sheets)
    files = ", ".join(file.name for file in drop.files)
    for row, sentence in enumerate(sentences, start=2):
        text = sentence.format(sheets=names, file=files)
        style = book.style(wrap=True, line=False, font_size=12)
        sheet.write_string(row, 0, f"{row - 1}.", book.style(line=False, font_size=12, bold=True))
        _text(sheet, row, 1, text, style)
        sheet.set_row(row, 18 * (1 + len(text) // 95) + 6)
    for remark in more:
        row += 1
        _text(sheet, row, 1, remark, book.style(wrap=True, line=False, font_size=12))
    facts = (files, drop.run, f"{drop.mapping} {drop.mapping_version}".strip())
    for name, text in zip(words.read_facts, facts, strict=True):
        if text:
            row += 1 if row > 1 + len(sentences) + len(more) else 2
            _text(sheet, row, 1, f"{name}: {text}", book.style(tone=Tone.MUTED, line=False))


def origin_of(where: Where) -> str:
    """The cell in the sender's own file: `orders.xlsx Orders!E14` or `orders.csv:14 Weight`."""
    return f"{where.file} {where.sheet}!{where.cell}" if where.cell else str(where)


def _say(book: Book, sheet: Any, row: int, text: str, *, size: int = _BODY_SIZE) -> None:
    sheet.write_string(
        row, 0, sheet_text(text), book.style(line=False, font_size=size, bold=size > _BODY_SIZE, num_format="General")
    )


def _heads(
    book: Book, sheet: Any, row: int, heads: Sequence[str], widths: Sequence[int], *, counts: Sequence[str] = ()
) -> None:
    for position, (head, width) in enumerate(zip(heads, widths, strict=True)):
        sheet.write_string(row, position, head, book.head_style(Kind.COUNT if head in counts else Kind.TEXT))
        sheet.set_column(position, position, width)
    sheet.set_row(row, 24)


def _text(sheet: Any, row: int, position: int, text: str, style: Any) -> None:
    if text:
        sheet.write_string(row, position, sheet_text(text), style)
    else:
        sheet.write_blank(row, position, None, style)


def _fit(sheet: Any, row: int, texts: Sequence[str], widths: Sequence[int]) -> None:
    """The height of a row whose texts wrap: spreadsheet programs differ in whether they find it themselves."""
    lines = max(
        sum(1 + len(part) * 9 // (10 * width) for part in text.split("\n"))
        for text, width in zip(texts, widths, strict=False)
    )
    if lines > 1:
        sheet.set_row(row, min(lines, _LINES_MOST) * _LINE_HEIGHT + 4)


def _close(sheet: Any, top: int, last: int, widths: Sequence[int], *, filters: bool = True) -> None:
    sheet.freeze_panes(top + 1, 1)
    sheet.repeat_rows(top)
    if filters and last > top:
        sheet.autofilter(top, 0, last, len(widths) - 1)

"""The other sheets of a fix workbook: Errors, Changed for you, Read me, and the sheet for an unreadable file.

One line of Errors groups the same problem with the same value; the most frequent cause comes first.
`loadsheet.problem_groups` counts the causes.

Changed for you lists cells beside payload values that do not obviously mean the same. Another format of the same
number, date or word does not count, and neither does part of a text. Another unit, another time, a code for a word or a
value for a blank does. If one value keeps the cell's content, other values calculated from that cell do not count.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, NamedTuple

from loadsheet.contract import scalars_by_path
from loadsheet.languages import Words
from loadsheet.ledger import Drop, Entry, Origin
from loadsheet.mapping.documents import NO_LINKS, Trace, trace
from loadsheet.problem_groups import Causes
from loadsheet.problems import Problem, Where
from loadsheet.reports.fix_workbook import wording
from loadsheet.reports.fix_workbook.fix_sheets import FixBook, Place, protect
from loadsheet.reports.report_files import sheet_text
from loadsheet.reports.sheets import Book, Kind, Tone, fit_height, write_cell

ChangeKind = Literal["number", "moment", "word", "blank", "text"]

DOCUMENTS_MOST = 1_000
_EXAMPLES = 3
_DISTINCT = 1_000
_SHAPES = 200

_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?|(\d\d):(\d\d):\d\d"
)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_AMOUNT = re.compile(r"[-+]?[0-9][0-9.,'\u2019 \u00a0\u202f]*")
_CURRENCY_BEFORE = re.compile(r"^(?:[$\u00a3\u20ac\u00a5\u20b9]|[A-Za-z]{3}\b)\s*")
_DATE = re.compile(
    r"[0-9]{1,4}[-./] ?[0-9]{1,2}[-./] ?[0-9]{1,4}|\b[0-9]{1,2}[-. ]+[^\W\d_]{3,9}[-., ]+[0-9]{2,4}\b|\b[^\W\d_]{3,9}[-. ]+[0-9]{1,2}[-, ]+[0-9]{2,4}\b"
)
_HALF_DAY = re.compile(r"[0-9]\s*[ap]\.?\s*m", re.IGNORECASE)
_PADDED = re.compile(r"0[0-9]")
_FLAGS = ("yes", "no", "true", "false")
_WORDS_OF_A_NAME = 4
_DATE_DIGITS = 8


_Cells = tuple[tuple[int, int], ...]
"""Cells of a document's rows: index of the row, position of the cell."""


class Example(NamedTuple):
    """One change: the source cell, its new value, and the first place where it occurs."""

    found: str
    became: str
    where: Where


@dataclass(slots=True)
class Change:
    """All changes of one kind in one column: the cell count and the first distinct examples."""

    column: str
    kind: ChangeKind
    count: int = 0
    examples: list[Example] = field(default_factory=list)


def changes_of(entries: Iterable[Entry], origin: Origin) -> "Changes":
    """The changes in the first entries of a drop that have a payload; `origin` is the drop's."""
    changes = Changes(origin)
    for entry in entries:
        changes.add(entry)
        if changes.is_cut:
            break
    return changes


class Changes:
    """Collects the changes of a drop."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._changes: dict[tuple[str, str, ChangeKind], Change] = {}
        self._judged: dict[tuple[str, str], ChangeKind | None] = {}
        self._traced: dict[tuple[str, ...], dict[str, tuple[Trace, ...]]] = {}
        self.documents = 0
        self.is_cut = False

    def add(self, entry: Entry) -> None:
        """Examine one document."""
        if not entry.payload or not entry.rows or not all(row.cells for row in entry.rows):
            return
        if self.documents >= DOCUMENTS_MOST:
            self.is_cut = True
            return
        self.documents += 1
        became: dict[_Cells, list[tuple[str, str]]] = {}
        for path, leaf in scalars_by_path(entry.payload):
            if leaf is None or isinstance(leaf, bool):
                continue
            value, cells = format(leaf, "f") if isinstance(leaf, Decimal) else str(leaf), self._cells(entry, path)
            if cells and not _is_calculated(entry, cells, value):
                became.setdefault(cells, []).append((path, value))
        arrived = {
            cell for cells, values in became.items() if self._kinds(entry, cells, values) is None for cell in cells
        }
        for cells, values in became.items():
            if not arrived.intersection(cells):
                self._take(entry, cells, values)

    def folded(self) -> list[Change]:
        """The changes, most frequent first."""
        return sorted(self._changes.values(), key=lambda one: -one.count)

    def _cells(self, entry: Entry, path: str) -> "_Cells":
        """The cells behind a path, each as row and position; none if one of its sources is not a cell."""
        sources = self._sources(entry, path)
        keys = {one.source.via for one in sources}  # they name the row of the cell and are not its text
        found = []
        for one in sources:
            if f"{one.source.table}.{one.source.column}" in keys:
                continue
            header = self._origin.tables[entry.rows[one.row].table].header
            if one.label not in header:
                return ()
            found.append((one.row, header.index(one.label)))
        return tuple(found)

    def _sources(self, entry: Entry, path: str) -> tuple[Trace, ...]:
        """The result of `trace`. Documents with rows of the same tables share it, unless they have links of their own."""
        if entry.links != NO_LINKS:
            return trace(self._origin.lineage, entry.rows, entry.links, path)
        shape = tuple(row.table for row in entry.rows)
        if shape not in self._traced and len(self._traced) >= _SHAPES:
            self._traced.clear()
        known = self._traced.setdefault(shape, {})
        if path not in known:
            known[path] = trace(self._origin.lineage, entry.rows, entry.links, path)
        return known[path]

    def _kinds(self, entry: Entry, cells: "_Cells", values: list[tuple[str, str]]) -> list[ChangeKind] | None:
        """How each value differs from the text of the cells; None if one of them means the same."""
        text = _text(entry, cells)
        kinds = [kind for _, value in values if (kind := self._judge(text, value)) is not None]
        return kinds if len(kinds) == len(values) else None

    def _take(self, entry: Entry, cells: "_Cells", values: list[tuple[str, str]]) -> None:
        kinds = self._kinds(entry, cells, values)
        if kinds is None:
            return
        text = _text(entry, cells)
        chosen = next((place for place, (path, _) in enumerate(values) if "[" in path), 0)  # a package before its total
        (_, value), kind = values[chosen], kinds[chosen]
        row, position = cells[0]
        table = self._origin.tables[entry.rows[row].table]
        column = table.header[position]
        change = self._changes.setdefault((table.name, column, kind), Change(column, kind))
        change.count += 1
        if len(change.examples) < _EXAMPLES and all((text, value) != one[:2] for one in change.examples):
            change.examples.append(Example(text, value, table.where(entry.rows[row].number, column)))

    def _judge(self, text: str, value: str) -> ChangeKind | None:
        pair = (text, value)
        if pair not in self._judged:
            if len(self._judged) >= _DISTINCT:
                self._judged.clear()
            self._judged[pair] = difference_in_meaning(text, value)
        return self._judged[pair]


def _text(entry: Entry, cells: "_Cells") -> str:
    return " ".join(filter(None, (entry.rows[row].cells[position].strip() for row, position in cells)))


def difference_in_meaning(text: str, value: str) -> ChangeKind | None:
    """How a payload value differs in meaning from its source cell; None if both mean the same."""
    shown, sent = " ".join(text.split()).removeprefix("'"), " ".join(value.split())
    if (sent in _FLAGS and shown) or _stands_in(sent.casefold(), shown.casefold()):
        return None
    if not shown:
        return "blank"
    if moment := _MOMENT.fullmatch(value):
        return None if _same_moment(shown, moment) else "moment"
    amount = _AMOUNT.match(_CURRENCY_BEFORE.sub("", shown))
    if _NUMBER.fullmatch(value) and amount is not None:
        padded: ChangeKind | None = "text" if _PADDED.match(value) else None
        return padded if _is_amount(amount[0], Decimal(value)) else "number"
    return "word" if len(shown.split()) <= _WORDS_OF_A_NAME else "text"


def _is_calculated(entry: Entry, cells: "_Cells", value: str) -> bool:
    """Whether a value is calculated from cells, such as a combination of several or the offset of a date."""
    if len(cells) > 1:
        return _MOMENT.fullmatch(value) is None
    return _DATE.search(_text(entry, cells)) is not None and _NUMBER.fullmatch(value) is not None


def _stands_in(sent: str, shown: str) -> bool:
    """Whether a value equals the text, or one or more words of it."""
    return sent == shown or bool(sent and sent in shown and re.search(rf"(?<!\w){re.escape(sent)}(?!\w)", shown))


def _same_moment(text: str, moment: re.Match[str]) -> bool:
    """Whether a text contains the digits of a date and time, in any order and style."""
    digits = {int(part) for part in re.findall(r"[0-9]+", text)}
    year, month, day, hour, minute, other_hour, other_minute = (
        None if part is None else int(part) for part in moment.groups()
    )
    hour, minute = (other_hour, other_minute) if hour is None else (hour, minute)
    clock = set() if hour is None else {hour, hour % 12 or 12} if _HALF_DAY.search(text) else {hour}
    is_day_only = not hour and not minute and ":" not in text
    wanted = [
        set() if year is None else {year, year % 100},
        set() if month is None or any(letter.isalpha() for letter in text) else {month},
        set() if day is None else {day},
        set() if is_day_only else clock,
        set() if minute is None or is_day_only else {minute},
    ]
    if all(not options or options & digits for options in wanted):
        return True
    run, all_digits = "".join(re.findall(r"[0-9]", text)), "".join(filter(None, moment.groups()))
    return len(run) >= _DATE_DIGITS and all_digits.startswith(run)  # 20260304


def _is_amount(text: str, value: Decimal) -> bool:
    """Whether a text can be read as this number in one of the common formats."""
    bare = re.sub(r"['\u2019 \u00a0\u202f]", "", text).rstrip(".,")
    for group, point in ((",", "."), (".", ",")):
        try:
            if Decimal(bare.replace(group, "").replace(point, ".")) == value:
                return True
        except InvalidOperation:
            continue
    return False


LINES_MOST = 1_000
_PLACES = 4
_Kind = tuple[str, str, str, str, str]


@dataclass(slots=True)
class DraftLine:
    """The same problem with the same value in one or more rows: its text and first places."""

    problem: Problem
    worded: wording.ProblemText
    count: int = 0
    places: list[Place] = field(default_factory=list)


class Errors:
    """Collects problems and returns them as lines."""

    def __init__(self) -> None:
        self._causes = Causes()
        self._lines: dict[tuple[str, ...], DraftLine] = {}
        self._levels: Counter[str] = Counter()
        self._columns: Counter[str] = Counter()
        self.documents = 0
        self.is_cut = False

    def add(self, problem: Problem, place: Place, worded: wording.ProblemText, document: int) -> None:
        """Add a problem whose place is complete. All problems of a document must come in sequence. All formulas without a value are one line."""
        self._causes.add(problem, document)
        self._levels[problem.level] += 1
        if problem.level == "error" and (column := (problem.because or problem).where.column):
            self._columns[column] += 1
        identity = (*_kind(problem), problem.found if problem.code != "R208" else "=", worded.text)
        line = self._lines.get(identity)
        if line is None:
            if len(self._lines) >= LINES_MOST:
                self.is_cut = True
                return
            line = self._lines[identity] = DraftLine(problem, worded)
        line.count += 1
        if len(line.places) < _PLACES:
            line.places.append(place)

    def lines(self) -> list[DraftLine]:
        """The lines: errors before warnings, the cause that holds back most documents first, what follows from it below it."""
        causes = self._causes.ranked()
        ranks: dict[_Kind, int] = {
            (one.code, one.level, one.file, one.sheet, one.column): -place for place, one in enumerate(causes[::-1])
        }
        lines = sorted(self._lines.values(), key=lambda line: (line.problem.because is not None, -line.count))
        return sorted(lines, key=lambda line: (line.problem.level == "warning", ranks.get(_kind(line.problem), 1)))

    def summary(self, words: Words) -> str:
        """A summary in a sentence or two: `41 problems of 3 kinds in 12 records. Correcting the column “PLZ” clears 33 of them.`"""
        errors, warnings = self._levels["error"], self._levels["warning"]
        kinds = sum(cause.level == "error" for cause in self._causes.ranked())
        text = words.say(
            "{problems} of {kinds} in {documents}.",
            problems=words.counted("{count} problem", "{count} problems", errors),
            kinds=words.counted("{count} kind", "{count} kinds", kinds),
            documents=words.counted("{count} record", "{count} records", self.documents),
        )
        column, most = max(self._columns.items(), key=lambda item: item[1], default=("", 0))
        if kinds > 1 < most < errors:
            clears = words.say(
                "Correcting the column “{column}” clears {count} of them.", column=column, count=words.number(most)
            )
            text += f" {clears}"
        if warnings:
            text += " " + words.counted("There is also {count} warning.", "There are also {count} warnings.", warnings)
        return text


def _kind(problem: Problem) -> _Kind:
    """The kind of the problem that it follows from, or of its own."""
    problem = problem.because or problem
    where = problem.where
    return problem.code, problem.level, where.file, where.sheet, where.column


_ERROR_WIDTHS = (18, 16, 22, 42, 36, 16, 8, 24, 34, 8)
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
            write_cell(self.sheet, row, 0, text, style)
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
        write_cell(self.sheet, self.row, position, text, self.book.style(tone=tone, wrap=True, **style))

    def count(self, position: int, count: int) -> None:
        """Write a count in the current row."""
        write_cell(self.sheet, self.row, position, count, self.book.style(Kind.COUNT))

    def fit(self, texts: Sequence[str], first: int = 0) -> None:
        """Set the height of a row with wrapped texts, from this column on."""
        lines = max(
            sum(1 + len(part) * 9 // (10 * width) for part in text.split("\n"))
            for text, width in zip(texts, self._widths[first:], strict=False)
        )
        fit_height(self.sheet, self.row, lines)

    def close(self, *, filters: bool) -> None:
        """Freeze and repeat the headings, and lock the sheet."""
        protect(self.sheet)
        self.sheet.freeze_panes(self._top + 1, 1)
        self.sheet.repeat_rows(self._top)
        if filters and self.row > self._top:
            self.sheet.autofilter(self._top, 0, self.row, len(self._widths) - 1)


def errors_page(fix: FixBook, title: str, errors: Errors, spot: Callable[[Place], Spot]) -> None:
    """Write the errors, one line per kind and value, with links to the cells."""
    words = fix.words
    page = _ListSheet(
        fix.book,
        title,
        [
            errors.summary(words),
            *(
                [words.say("There are more problems than listed here; each row shows its own.")]
                if errors.is_cut
                else []
            ),
        ],
    )
    page.heads([words.say(head) for head in wording.ERROR_HEADS], _ERROR_WIDTHS, count_at=6)
    for line in errors.lines():
        page.row += 1
        _error(page, words, line, [spot(place) for place in line.places])
    page.close(filters=True)
    page.sheet.set_tab_color("#C99700")


def _error(page: _ListSheet, words: Words, line: DraftLine, spots: Sequence[Spot]) -> None:
    problem, worded = line.problem, line.worded
    more = line.count - 1 - min(_ALSO_SHOWN, len(spots) - 1)
    also = ", ".join(
        [one.name for one in spots[1 : 1 + _ALSO_SHOWN]] + ([f"+{words.number(more)}"] if more > 0 else [])
    )
    found_tone = Tone.PLAIN if not problem.found else Tone.NOTE if line.problem.level == "warning" else Tone.BAD
    link_style = page.book.style(font_color="#1D4ED8", underline=1)
    page.sheet.write_url(page.row, 0, spots[0].link, link_style, sheet_text(spots[0].name))
    column, what = worded.column or words.say("(whole row)"), worded.text
    what = words.say("Only a warning: {text}", text=what) if problem.level == "warning" else what
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
    some = (
        [words.say("Covers the first {count} records.", count=words.number(changes.documents))]
        if changes.is_cut
        else []
    )
    page = _ListSheet(fix.book, title, [words.say(wording.CHANGED_INTRO), *some])
    page.heads([words.say(head) for head in wording.CHANGED_HEADS], _CHANGED_WIDTHS, count_at=2)
    for change in changes.folded():
        for number, example in enumerate(change.examples):
            page.row += 1
            first = number == 0
            found = example.found.replace("\u00a0", " ").replace("\u202f", " ")
            column, kind = (change.column, words.say(wording.CHANGED[change.kind])) if first else ("", "")
            page.text(0, column, line=first)
            page.text(1, kind, line=False)
            if first:
                page.count(2, change.count)
            page.text(3, found or words.say("(blank)"))
            page.text(4, became := words.payload_value(example.became, change.kind))
            page.text(5, origin_of(example.where), Tone.MUTED)
            page.fit((column, kind, "", found, became))
    page.close(filters=False)


def aside_page(fix: FixBook, title: str, problems: Sequence[tuple[Problem, wording.ProblemText]]) -> None:
    """Write the problems of an unreadable file, one line each."""
    words = fix.words
    page = _ListSheet(fix.book, title)
    page.heads([words.say(head) for head in ("What to fix", "Original cell", "Code")], _ASIDE_WIDTHS)
    for problem, worded in problems:
        page.row += 1
        texts = (wording.line_of(worded.text, worded.todo), origin_of(problem.where), problem.code)
        for position, text in enumerate(texts):
            page.text(position, text, Tone.PLAIN if position else Tone.BAD, bold=False)
        page.fit(texts)
    page.close(filters=False)


def read_page(
    fix: FixBook, title: str, drop: Drop, sentences: Sequence[str], sheets: Sequence[str], *, more: Iterable[str] = ()
) -> None:
    """Write the three `sentences`, the `more` remarks, and the origin of the workbook."""
    book, words = fix.book, fix.words
    sheet = book.sheet(title)
    sheet.set_column(0, 0, 5)
    sheet.set_column(1, 1, 100)
    large = book.style(line=False, font_size=16, bold=True, num_format="General")
    write_cell(sheet, 0, 0, words.say("What to fix"), large)
    names, files = ", ".join(words.say("“{0}”", name) for name in sheets), ", ".join(file.name for file in drop.files)
    row, body = 1, book.style(wrap=True, line=False, font_size=12)
    bold = book.style(line=False, font_size=12, bold=True)
    steps = [(f"{at}.", words.say(text, sheets=names, file=files)) for at, text in enumerate(sentences, start=1)]
    for number, text in (*steps, *(("", remark) for remark in more)):
        row += 1
        write_cell(sheet, row, 0, number, bold)
        write_cell(sheet, row, 1, text, body)
        sheet.set_row(row, 18 * (1 + len(text) // 95) + 6)
    row += 1
    facts = (files, drop.run, f"{drop.meant_for} {drop.mapping_version}".strip())
    for name, text in zip(wording.FACTS, facts, strict=True):
        if text:
            row += 1
            fact = words.say("{place}: {text}", place=words.say(name), text=text)
            write_cell(sheet, row, 1, fact, book.style(tone=Tone.MUTED, line=False))
    protect(sheet)


def origin_of(where: Where) -> str:
    """The cell in the sender's own file: `orders.xlsx Orders!E14` or `orders.csv:14 Weight`."""
    return f"{where.file} {where.sheet}!{where.cell}" if where.cell else str(where)

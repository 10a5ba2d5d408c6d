"""Delimited text (CSV and similar): records of the csv module with line numbers, strict quotes and no silent repairs.

After a broken quote nothing in a file is certain: a swallowed row looks like a long value, and an order with rows before and
after the break would be sent incomplete. A quote that is never closed therefore refuses the file and names the row that opens
it. Text after a closing quote, on one line, rejects only that row.
"""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Literal, NamedTuple, Self

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where
from loadsheet.reading.encoding import LINE_LENGTH_MAX, OpenBytes, Survey, guess_encoding, survey_text
from loadsheet.reading.header import (
    NO_HEADER,
    TOP_ROWS,
    Header,
    check_header,
    closeness,
    find_header,
    rows_looked_at,
)
from loadsheet.reading.refusals import file_refusal
from loadsheet.reading.row_filters import mark_stray_rows
from loadsheet.reading.tables import (
    LAST_LINE,
    UNENDED,
    Bounds,
    Layout,
    Row,
    RowChecks,
    Table,
    Top,
    is_blank,
    with_line_feeds,
)

_RECORD_LENGTH_MAX = 4 * LINE_LENGTH_MAX
_SEPARATOR_LINE = re.compile(r'"?sep=([^"\w\r\n])"?\s*', re.IGNORECASE)
_PLURALS = {";": "semicolons", ",": "commas", "\t": "tabs", "|": "pipes"}
_WORDS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}

RecordFault = Literal["", "open", "stray"]
"""The fault of a record: none, a quote that is never closed, or text after a closing quote."""


class _Dialect(NamedTuple):
    """The delimiter, the quote, the escape and the start of a comment line; all but the delimiter may be empty."""

    delimiter: str
    quote: str
    escape: str
    comment: str

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The records of the lines, parsed by the csv module."""
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        quote, escape = self.quote or None, self.escape or None
        return csv.reader(
            lines, delimiter=self.delimiter, quotechar=quote, escapechar=escape, quoting=quoting, strict=True
        )


class _Record(NamedTuple):
    """One record: its first line from 1, its cells, its fault, and its number of lines."""

    number: int
    cells: list[str]
    fault: RecordFault
    lines: int


class _Start(NamedTuple):
    """The start of a table: the dialect, the header, its last line, its number of cells with blank ones, and the rows above it."""

    dialect: _Dialect
    header: Header
    last_line: int
    width: int
    above: int


def open_delimited(source: OpenBytes, name: str, layouts: Sequence[Layout], bounds: Bounds) -> dict[str, Table]:
    """The tables of a text file by layout name. Reads the whole file once or twice to verify its encoding and its quotes. Raises
    FileRefused.
    """
    options = {layout.name: (layout.encodings, layout.quote + layout.escape) for layout in layouts}
    surveys = {each: survey_text(source, name, *each) for each in dict.fromkeys(options.values())}
    return {layout.name: _open_table(surveys[options[layout.name]], name, layout, bounds) for layout in layouts}


def delimited_top(source: OpenBytes, name: str, bounds: Bounds) -> Top:
    """The first rows of a text file, with the delimiter that gives the most cells in rows of equal width. Raises FileRefused."""
    text = survey_text(source, name, ("utf-8-sig", guess_encoding(source)))
    if text.is_blank:
        raise FileRefused(Problem("R202", Where(name), hint="send the file with its rows"))
    with text.open() as stream:
        top = list(_up_to_limit(islice(stream, TOP_ROWS + bounds.record_lines_max)))
        is_cut = bool(next(stream, ""))
    separator = _SEPARATOR_LINE.fullmatch(top[0])
    skip = 1 if separator else 0
    best, most = Top("", (), text.encoding, ","), 0
    for delimiter in (separator[1],) if separator else ("\t", ";", ",", "|"):
        dialect = _Dialect(delimiter, '"', "", "")
        records = _quoted_records(top[skip:], dialect, skip + 1, bounds.record_lines_max, 0)
        whole = takewhile(lambda record: not (is_cut and record.fault == "open"), records)
        rows = tuple(
            (record.number, tuple(record.cells)) for record in islice(whole, TOP_ROWS) if not is_blank(record.cells)
        )
        widths = Counter(len(cells) for _, cells in rows)
        cells = max(((width - 1) * count for width, count in widths.items()), default=0)
        if not best.rows or cells > most:
            best, most = Top("", rows, text.encoding, delimiter), cells
    return best


def _open_table(text: Survey, name: str, layout: Layout, bounds: Bounds) -> Table:
    if text.is_blank:
        raise FileRefused(Problem("R202", Where(name), hint="send the file with its rows"))
    start = _find_start(text, layout, bounds)
    if not start.header.is_complete:
        _refuse_with_cause(text, name, layout, bounds, start)
    check_header(start.header, layout, Where(name), bounds.columns_max)
    checks = RowChecks(name, "", start.header.labels, bounds.cell_length_max)
    body = _Body(text, layout, start, bounds.record_lines_max, checks)
    body.check_quotes()
    notes = {
        "format": "delimited text",
        "encoding": text.shown_encoding,
        "delimiter": _WORDS.get(start.dialect.delimiter, start.dialect.delimiter),
        "header row": start.header.row_range,
        "rows above the header": str(start.above),
        LAST_LINE: UNENDED if text.unended_line else "complete",
    }
    header = start.header
    return Table(layout.name, name, "", header.labels, header.row, header.columns, body.rows, notes)


@dataclass(frozen=True, slots=True)
class _Body:
    """The rows under a header."""

    text: Survey
    layout: Layout
    start: _Start
    lines_max: int
    checks: RowChecks

    def check_quotes(self) -> None:
        """Raises FileRefused for a quote that is never closed, or that swallows rows."""
        if self.text.has_quotes:
            for record in self._records():
                if record.fault == "open":
                    raise _never_closed(self.checks.file, self.start.dialect.delimiter, record)

    def rows(self) -> Iterator[Row]:
        """The rows, read again on each call. Raises FileRefused only if the file has changed or can no longer be read."""
        return mark_stray_rows(self._rows(), self.layout, self.start.header, self.checks.where)

    def _rows(self) -> Iterator[Row | None]:
        """The rows, None for each blank row."""
        checks, width = self.checks, len(self.checks.header)
        needs_check = self.text.has_controls or self.text.longest_line > checks.cell_length_max
        for number, cells, fault, lines in self._records():
            if len(cells) != width or fault or not cells[0].strip():
                if is_blank(cells):
                    yield None
                    continue
                if fault:
                    yield self._broken_row(number, cells, fault, lines)
                    continue
                if len(cells) < width or not is_blank(cells[width:]):
                    yield checks.ragged(number, cells, is_cut=number + lines - 1 == self.text.unended_line)
                    continue
                del cells[width:]
            problem = checks.find_damage(number, cells) if needs_check or lines > 1 else None
            yield Row(number, tuple(cells), problem)

    def _records(self) -> Iterator[_Record]:
        dialect, after = self.start.dialect, self.start.last_line
        try:
            with self.text.open() as stream:
                lines = islice(stream, after, None)
                yield from _quoted_records(lines, dialect, after + 1, self.lines_max, self.start.width)
        except (OSError, UnicodeDecodeError) as error:
            raise file_refusal(
                self.checks.file, f"it changed or disappeared during reading ({error})", "send it again"
            ) from error

    def _broken_row(self, number: int, cells: list[str], fault: RecordFault, lines: int) -> Row:
        if fault == "open":
            raise _never_closed(self.checks.file, self.start.dialect.delimiter, _Record(number, cells, fault, lines))
        hint = "quotes inside a value are doubled, and the whole value is in quotes"
        text = self.start.dialect.delimiter.join(cells)[:100]
        problem = Problem("R213", self.checks.where(number), text, {}, hint, also=self.checks.every_cell(number))
        return Row(number, self.checks.fit_width(cells), problem)


def _never_closed(file: str, delimiter: str, record: _Record) -> FileRefused:
    hint = "close or remove the quote and send the file again; nothing of it was used"
    if record.lines > 1:
        hint = f"lines {record.number} to {record.number + record.lines - 1} were read as one row; {hint}"
    text = delimiter.join(record.cells)[:100]
    return FileRefused(Problem("R206", Where(file, row=record.number), text, {"row": record.number}, hint))


def _refuse_with_cause(text: Survey, name: str, layout: Layout, bounds: Bounds, start: _Start) -> None:
    """Raises FileRefused if the cause of an incomplete header is known: a quote that is never closed, or a delimiter that the
    mapping does not name.
    """
    for dialect, records in _top_records(text, layout, bounds):
        header = find_header(((record.number, record.cells) for record in records), layout)
        header_record = next((record for record in records if record.number == header.row), None)
        if header_record is not None and header_record.fault == "open" and closeness(header) > closeness(start.header):
            raise _never_closed(name, dialect.delimiter, header_record)
    others = tuple(delimiter for delimiter in _PLURALS if delimiter not in (*layout.delimiters, layout.quote))
    other = _find_start(text, replace(layout, delimiters=others), bounds) if others else start
    if closeness(other.header) > closeness(start.header):
        try:
            check_header(start.header, layout, Where(name), bounds.columns_max)
        except FileRefused as failure:
            hint = (
                f"its values seem to be separated by {_PLURALS[other.dialect.delimiter]}, which the mapping does not take; "
                "save it with the delimiter that was agreed, or set source.delimiter in the mapping"
            )
            raise FileRefused(replace(failure.problem, hint=hint)) from failure


def _top_records(text: Survey, layout: Layout, bounds: Bounds) -> Iterator[tuple[_Dialect, list[_Record]]]:
    """The records that can hold the header, for each possible delimiter."""
    with text.open() as stream:
        top = list(_up_to_limit(islice(stream, rows_looked_at(layout) + 1 + bounds.record_lines_max)))
    separator = _SEPARATOR_LINE.fullmatch(top[0])
    delimiters, skip = ((separator[1],), 1) if separator else (layout.delimiters, 0)
    for delimiter in delimiters:
        dialect = _Dialect(delimiter, layout.quote, layout.escape, layout.row_filters.comment)
        yield dialect, list(_quoted_records(top[skip:], dialect, skip + 1, bounds.record_lines_max, 0))


def _find_start(text: Survey, layout: Layout, bounds: Bounds) -> _Start:
    """The start of the table, with the delimiter that finds the most wanted columns."""
    dialect = _Dialect(layout.delimiters[0], layout.quote, layout.escape, layout.row_filters.comment)
    best = _Start(dialect, NO_HEADER, 0, 0, 0)
    for dialect, records in _top_records(text, layout, bounds):
        header = find_header(((record.number, record.cells) for record in records if not record.fault), layout)
        if not best.header.row or closeness(header) > closeness(best.header):
            header_record = next((record for record in records if record.number == header.row), _Record(0, [], "", 1))
            above = sum(record.number < header.top and not is_blank(record.cells) for record in records)
            best = _Start(
                dialect, header, header_record.number + header_record.lines - 1, len(header_record.cells), above
            )
    return best


def _up_to_limit(lines: Iterable[str]) -> Iterator[str]:
    """The lines up to the largest size of a record."""
    length = 0
    for line in lines:
        yield line
        length += len(line)
        if length > _RECORD_LENGTH_MAX:
            return


class _EndlessRecord(Exception):
    """A record is too long."""


class _Lines:
    """Lines for the csv module. The lines of the current record are kept, so that they can be read again."""

    def __init__(self, lines: Iterable[str], lines_max: int, comment: str) -> None:
        self._lines = iter(lines)
        self._again: deque[str] = deque()
        self._lines_max = lines_max
        self._comment = comment
        self.taken: list[str] = []
        self.ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        taken = self.taken
        if len(taken) > 1 and (len(taken) >= self._lines_max or sum(map(len, taken)) > _RECORD_LENGTH_MAX):
            raise _EndlessRecord
        line = self._again.popleft() if self._again else next(self._lines, None)
        if line is None:
            self.ended = True
            raise StopIteration
        taken.append(line)
        if self._comment and len(taken) == 1 and line.lstrip().startswith(self._comment):
            return "\n"  # a quote in a comment opens nothing
        return line

    def rewind(self) -> None:
        """Return all lines of this record except its first once more."""
        self._again.extendleft(reversed(self.taken[1:]))
        self.ended = False


def _quoted_records(
    lines: Iterable[str], dialect: _Dialect, first: int, lines_max: int, width: int
) -> Iterator[_Record]:
    """The records of lines that start with line number `first`. After a broken record, reading continues with its second line.
    With a `width`, a record also counts as broken if each of its lines looks like a row of that many cells.
    """
    # lines are bounded, so fields need no limit
    csv.field_size_limit(max(csv.field_size_limit(), 2 * _RECORD_LENGTH_MAX))
    source = _Lines(lines, lines_max, dialect.comment)
    reader = dialect.reader(source)
    number = first
    while True:
        taken: list[str] = []
        source.taken = taken
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, _EndlessRecord):
            fault: RecordFault = "open" if len(taken) > 1 or source.ended else "stray"
            cells = [cell.strip(dialect.quote) for cell in taken[0].rstrip("\r\n").split(dialect.delimiter)]
            source.rewind()
            reader = dialect.reader(source)
            yield _Record(number, cells, fault, len(taken))
            number += 1
            continue
        if dialect.comment and not cells:
            cells = taken[0].rstrip("\r\n").split(dialect.delimiter)
        span = len(taken)
        if span > 1:
            cells = with_line_feeds(cells)
        yield _Record(number, cells, "open" if span > 1 and _swallows_rows(taken, dialect, width) else "", span)
        number += span


def _swallows_rows(lines: list[str], dialect: _Dialect, width: int) -> bool:
    """Whether each line of a record looks like a row: the right number of delimiters, not all followed by a space as in prose.
    Such a record starts with a quote that is never closed, and ends at the quote of another row.
    """
    if width < 3 or not dialect.quote:
        return False
    quote, delimiter = re.escape(dialect.quote), dialect.delimiter
    quoted = re.compile(f"{quote}(?:[^{quote}]|{quote}{quote})*{quote}")
    before, _, after = lines[-1].partition(dialect.quote)
    between = [line for line in lines[1:-1] if line.strip()]
    bare = [quoted.sub("", lines[0]), *between, before + quoted.sub("", after)]
    if any(line.count(delimiter) != width - 1 for line in bare):
        return False
    spaced = f"{delimiter} "
    if len(lines) > 2 and width > 4:
        return True
    tight = re.compile(re.escape(delimiter) + r"\S")
    return not any(spaced in line for line in bare) or any(tight.search(line) for line in (*between, before))

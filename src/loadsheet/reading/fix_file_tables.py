"""Returned fix files: recognises them, and restores their tables to the columns of the original tables.

The mark of a fix workbook is in its document properties. It is read with limits and without document types, so this is safe
for any file. Added columns are removed and moved columns restored. Row marks show which rows are duplicated or missing. Knows
neither ledger nor mapping.
"""

import os
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from xml.parsers.expat import XMLParserType

from loadsheet.errors import FileRefused
from loadsheet.inbox.files import READ
from loadsheet.problems import Problem, column_letters
from loadsheet.reading.header import fold_label
from loadsheet.reading.tables import Native, Row, Table, Top, is_blank
from loadsheet.workbook_marks import ORIGINAL_COLUMNS, PROPERTY, ROW_COLUMN, FixedEntry, Mark, RowMark

if TYPE_CHECKING:
    from loadsheet.reading.package import Package

_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PARTS = ("docProps/custom.xml", "meta.xml")  # of Excel's formats and of OpenDocument
_MARK_BETWEEN = re.compile(r"1 [0-9-]{1,40}/[0-9]{1,10} [0-9a-f]{16} [^\x00-\x1f]+")
_PART_BYTES_MAX = 1 << 18
_START_BYTES = 1 << 18
_DELIMITER = r"[\s,;|\"']"
_HEADING = re.compile(rf"{_DELIMITER}{ROW_COLUMN}{_DELIMITER}")
_ROW_MARK = re.compile(rf"{_DELIMITER}([0-9]{{1,12}}:[0-9]{{1,7}}/[0-9]{{1,7}})(?:{_DELIMITER}|$)")


def mark_of(path: Path, inflated_bytes_max: int) -> Mark | None:
    """The mark of the fix workbook at `path`; None for every other file, including damaged and unreadable ones."""
    try:
        head = _head(path)
        if head == _OLE:
            from loadsheet.reading.xls import properties_text

            text = properties_text(path)
            found = _MARK_BETWEEN.search(text) if PROPERTY in text else None
            return Mark.read(found[0]) if found is not None else None
        if not head.startswith(_ZIP):
            return None
        from loadsheet.reading.package import open_package

        with open_package(lambda: path.open("rb"), path.name, inflated_bytes_max) as package:
            return next((mark for part in _PARTS if (mark := _mark_in(package, part)) is not None), None)
    except (FileRefused, OSError):
        return None


def holds_workbook(path: Path) -> bool:
    """Whether a file may be a workbook, by its first bytes. False for unreadable ones."""
    try:
        return _head(path).startswith((_ZIP, _OLE))
    except OSError:
        return False


def _head(path: Path) -> bytes:
    with _open_file(path) as file:
        return file.read(len(_OLE))


def _open_file(path: Path) -> BinaryIO:
    """Open a file that is not claimed yet, without following a link or blocking on a pipe in its place."""
    return os.fdopen(os.open(path, READ), "rb")


class TextMark(NamedTuple):
    """The first lines of a text file, and the first row mark in it."""

    headings: str
    mark: RowMark


def mark_of_text(path: Path) -> TextMark | None:
    """The first row mark of a text file with a column of marks; None for every other file, including unreadable ones."""
    try:
        with _open_file(path) as file:
            start = file.read(_START_BYTES)
    except OSError:
        return None
    start = start.replace(b"\0", b"")
    text = start.decode("utf-8", "replace") if ROW_COLUMN.encode() in start else ""
    found = _ROW_MARK.search(text) if _HEADING.search(text) else None
    mark = RowMark.read(found[1]) if found is not None else None
    return TextMark(text[: found.start()], mark) if found is not None and mark is not None else None


def _mark_in(package: "Package", part: str) -> Mark | None:
    if not package.has(part) or package.parts[part.lower()].file_size > _PART_BYTES_MAX:
        return None
    found: list[str] = []
    return Mark.read("".join(package.feed(part, _reader(found), found)))


def _reader(found: list[str]) -> XMLParserType:
    """A parser that appends the text of the property to `found`."""
    from loadsheet.reading.package import local_name, safe_parser

    parser = safe_parser()
    depth = 0

    def start(_tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        named = any(local_name(name) == "name" and value == PROPERTY for name, value in attributes.items())
        depth = depth + 1 if depth or named else 0
        parser.CharacterDataHandler = found.append if depth else None

    def end(_tag: str) -> None:
        nonlocal depth
        depth = max(depth - 1, 0)
        parser.CharacterDataHandler = found.append if depth else None

    parser.StartElementHandler, parser.EndElementHandler = start, end
    return parser


_ENTRY_MAX, _ROWS_MAX = 1 << 40, 1 << 20  # larger marks are not ours
_SORTED_MAX = 50_000
_LISTED = 5

REMARK = "remark below the rows"
"""The rule that ignores what a person wrote below the rows of a fix file."""

ADD_ROW = "add the row again; to leave it out, drop the fix file that comes back as it is"
"""What to do about a missing row."""


class OriginalTable(NamedTuple):
    """The original table of a fix file's table: its headings, and the names of the file that was dropped first and of its sheet."""

    header: tuple[str, ...]
    file: str
    sheet: str = ""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A table of a fix file in the form of the original, the table as read, and the position of the row marks (None: no marks). Rows
    with the mark of an entry that it does not take belong to another table (None: it takes all). `needed` are the positions of the
    original table that no row may leave blank.
    """

    table: Table
    source: Table
    marks_at: int | None
    takes: Callable[[int], bool] | None = None
    needed: frozenset[int] = frozenset()

    def marked_rows(self) -> Iterator[tuple[Row, RowMark | None]]:
        """The rows in the form of the original table, with their marks; rows that are blank without added columns are left out. Remarks
        below all other rows are ignored.
        """
        waiting: list[Row] = []
        for row, mark in self._in_original_form():
            if mark is None and self._may_be_remark(row):
                waiting.append(row)
                continue
            yield from ((above, None) for above in waiting)
            waiting.clear()
            yield row, mark
        yield from ((row._replace(ignored=REMARK), None) for row in waiting)

    def _may_be_remark(self, row: Row) -> bool:
        """Whether a row is one text without digits in a row that could not be sent anyway, because it lacks a value."""
        filled = [place for place, cell in enumerate(row.cells) if cell.strip()]
        if row.problem or len(filled) != 1 or not self.needed.difference(filled):
            return False
        text = row.cells[filled[0]]
        return not isinstance(text, Native) and not any(map(str.isdigit, text))

    def _in_original_form(self) -> Iterator[tuple[Row, RowMark | None]]:
        places, at = self.table.fix_positions, self.marks_at
        for number, given, problem, ignored, beside in self.source.rows():
            padded = (*given, "")  # a missing column, at -1, is blank
            cells = tuple([padded[place] for place in places])
            if not is_blank(cells):
                mark = RowMark.read(given[at][:80]) if at is not None and given[at] else None
                if mark is None or self.takes is None or self.takes(mark.entry):
                    marked = mark if mark is None or _is_valid(mark) else None
                    yield (
                        Row(number, cells, None if marked and _is_remark(problem) else problem, ignored, beside),
                        marked,
                    )


def has_row_marks(table: Table) -> bool:
    """Whether a table has a column of row marks, as tables of fix files have."""
    return _marks_at(table) is not None


def first_mark(table: Table) -> RowMark | None:
    """The first mark of a table that has marks."""
    at = _marks_at(table)
    marks = (RowMark.read(row.cells[at]) for row in table.rows() if at is not None and row.cells[at])
    return next((mark for mark in marks if mark is not None), None)


def mark_of_top(top: Top) -> RowMark | None:
    """The first mark in the first rows of a table that has marks below their heading."""
    place = -1
    for _, cells in top.rows:
        if 0 <= place < len(cells) and (mark := RowMark.read(cells[place])) is not None:
            return mark
        place = next((at for at, cell in enumerate(cells) if fold_label(cell) == ROW_COLUMN), place)
    return None


def as_original(table: Table, original: OriginalTable | None) -> Fixed:
    """The table of a fix file with the columns of the original in their order, followed by other columns that the mapping wants.
    Without the original, all columns except the row marks are kept.
    """
    at = _marks_at(table)
    if original is None:
        places = [place for place in range(len(table.header)) if place != at]
        labels = [table.header[place] for place in places]
    else:
        places, labels = _column_places(table, original.header), list(original.header)
        more = sorted(set(table.columns.values()) - {*places, at})
        places, labels = [*places, *more], [*labels, *(table.header[place] for place in more)]
    positions_text = ", ".join(column_letters(place) if place >= 0 else "-" for place in places)
    given = replace(
        table,
        header=tuple(labels),
        columns={name: places.index(place) for name, place in table.columns.items() if place in places},
        reading_notes={**table.reading_notes, **({ORIGINAL_COLUMNS: positions_text} if table.sheet else {})},
        fix_positions=tuple(places),
        first_name=original.file if original is not None else "",
        first_sheet=original.sheet if original is not None else "",
    )
    return Fixed(given, table, at)


class Originals(NamedTuple):
    """The tables of a fix file in the form of the originals, by name, and the marks of their rows."""

    tables: dict[str, Table]
    marks: "FixFileMarks"


def as_originals(fixed: Sequence[Fixed], look_up: Callable[[Sequence[int]], Mapping[int, FixedEntry]]) -> Originals:
    """The tables of one fix file, with the problems that the marks show in their rows. This reads all rows once and keeps four
    numbers for each. `look_up` returns entries by number. Raises FileRefused like `Table.rows`.
    """
    marks = FixFileMarks(fixed)
    faults = marks.faults(look_up)
    tables = {
        part.table.name: replace(part.table, rows=_Checked(part, place, faults, is_sorted=place in marks.reordered))
        for place, part in enumerate(fixed)
    }
    return Originals(tables, marks)


@dataclass(frozen=True, slots=True)
class _Checked:
    """`Table.rows` of a fix file. Sorted rows are returned in their original order. Otherwise the items of an order would change
    places, and the order would count as changed.
    """

    fixed: Fixed
    place: int
    faults: Mapping[tuple[int, int], Problem]
    is_sorted: bool

    def __call__(self) -> Iterator[Row]:
        rows = self.fixed.marked_rows()
        for row, _ in _in_original_order(rows) if self.is_sorted else rows:
            fault = None if row.problem or row.ignored else self.faults.get((self.place, row.number))
            yield row._replace(problem=fault) if fault is not None else row


def _in_original_order(rows: Iterator[tuple[Row, RowMark | None]]) -> list[tuple[Row, RowMark | None]]:
    """The rows in the order of their marks; a new row stays below the row above it."""
    marked, keys = list(rows), []
    last = (0, 0)
    for _, mark in marked:
        last = (mark.entry, mark.number) if mark is not None else last
        keys.append(last)
    return [marked[place] for place in sorted(range(len(marked)), key=keys.__getitem__)]


class _MarkedRow(NamedTuple):
    """A row mark of an entry: its number, the entry's number of rows, and its table and row."""

    number: int
    of: int
    place: int
    row: int


class FixFileMarks:
    """The marks of all rows of a fix file. `reordered` are the positions of tables whose rows were sorted. Very long tables are
    left out, because sorting them back takes memory.
    """

    def __init__(self, fixed: Sequence[Fixed]) -> None:
        self._fixed = fixed
        self.reordered: set[int] = set()
        self._entries, self._numbers = array("q"), array("q")  # number, of and table share one
        self._rows = array("q")  # ascending within each table
        self._parts: dict[str, tuple[int, int]] = {}  # the range of marks of each table
        for place, part in enumerate(fixed):
            begin = len(self._rows)
            if part.marks_at is not None:
                self._read_marks(place, part)
            self._parts[part.table.name] = begin, len(self._rows)

    def mark_of(self, table: str, row: int) -> RowMark | None:
        """The mark of a row."""
        begin, end = self._parts[table]
        index = bisect_left(self._rows, row, begin, end)
        if index == end or self._rows[index] != row:
            return None
        return RowMark(self._entries[index], *divmod(self._numbers[index] // len(self._fixed), _ROWS_MAX))

    def rows_of(self, entry: int) -> Iterator[tuple[str, int]]:
        """The rows of an entry, each with its table and number."""
        entry_at, order = self._entries.__getitem__, self._order
        for index in order[bisect_left(order, entry, key=entry_at) : bisect_right(order, entry, key=entry_at)]:
            yield self._fixed[self._numbers[index] % len(self._fixed)].table.name, self._rows[index]

    @cached_property
    def _order(self) -> "array[int]":
        """The positions of all marks, sorted by their entries."""
        return array("q", sorted(range(len(self._entries)), key=self._entries.__getitem__))

    def _read_marks(self, place: int, part: Fixed) -> None:
        last, count, is_reordered = (0, 0), 0, False
        for count, (row, mark) in enumerate(part.marked_rows(), start=1):  # noqa: B007 (the count is needed at the end)
            if mark is not None:
                self._entries.append(mark.entry)
                self._numbers.append((mark.number * _ROWS_MAX + mark.of) * len(self._fixed) + place)
                self._rows.append(row.number)
                is_reordered |= (mark.entry, mark.number) < last
                last = (mark.entry, mark.number)
        if is_reordered and count <= _SORTED_MAX:
            self.reordered.add(place)

    def faults(self, look_up: Callable[[Sequence[int]], Mapping[int, FixedEntry]]) -> dict[tuple[int, int], Problem]:
        """The problems, by table and row."""
        wrong = [(entry, seen) for entry, seen in self._by_entry() if not _is_complete(seen)]
        entries = look_up([entry for entry, _ in wrong]) if wrong else {}
        found: dict[tuple[int, int], Problem] = {}
        for entry, seen in wrong:
            found |= self._problems_of(seen, entries.get(entry, FixedEntry("")))
        return found

    def _by_entry(self) -> Iterator[tuple[int, list[_MarkedRow]]]:
        for entry, own in groupby(self._order, key=self._entries.__getitem__):
            seen = []
            for index in own:
                counts, place = divmod(self._numbers[index], len(self._fixed))
                seen.append(_MarkedRow(*divmod(counts, _ROWS_MAX), place, self._rows[index]))
            yield entry, seen

    def _problems_of(self, seen: Sequence[_MarkedRow], entry: FixedEntry) -> dict[tuple[int, int], Problem]:
        by_number = {number: list(own) for number, own in groupby(sorted(seen), key=lambda marked: marked.number)}
        of = max(marked.of for marked in seen)
        missing = [number for number in range(1, of + 1) if number not in by_number]
        key = entry.key or "the record"
        problems = {}
        for marked in seen:
            where = self._fixed[marked.place].table.where(marked.row)
            if len(same := by_number[marked.number]) > 1:
                rows = ", ".join(self._row_name(other, marked) for other in same[:_LISTED])
                hint = "delete one of them; to keep both, drop the fix file that comes back as it is"
                problems[marked.place, marked.row] = Problem("R236", where, "", {"key": key, "rows": rows}, hint)
            elif missing and not entry.may_lose_rows:
                values = {"rows": numbers_text(missing), "of": of, "key": key}
                hint = ADD_ROW
                problems[marked.place, marked.row] = Problem("R237", where, "", values, hint)
        return problems

    def _row_name(self, marked: _MarkedRow, beside: _MarkedRow) -> str:
        sheet = self._fixed[marked.place].table.sheet
        return f"{marked.row} ({sheet})" if marked.place != beside.place and sheet else str(marked.row)


def numbers_text(numbers: Sequence[int]) -> str:
    """The first of these numbers of rows, as a message lists them."""
    return ", ".join(map(str, numbers[:_LISTED])) + (", ..." if numbers[_LISTED:] else "")


def _is_complete(seen: Sequence[_MarkedRow]) -> bool:
    return len(seen) == max(marked.of for marked in seen) == len({marked.number for marked in seen})


def _is_remark(problem: Problem | None) -> bool:
    """Whether all that is wrong with a row is a value to the right of the headings. If its mark is in its place, the row is not shifted."""
    return problem is not None and problem.code == "R205" and problem.number("cells") > problem.number("columns")


def _is_valid(mark: RowMark) -> bool:
    return mark.entry < _ENTRY_MAX and 0 < mark.number <= mark.of < _ROWS_MAX


def _marks_at(table: Table) -> int | None:
    return next((place for place, label in enumerate(table.header) if fold_label(label) == ROW_COLUMN), None)


def _column_places(table: Table, labels: Sequence[str]) -> list[int]:
    """The positions of the columns with these headings, -1 for missing ones; equal headings keep their order."""
    by_heading: dict[str, list[int]] = {}
    for place in reversed(range(len(table.header))):
        by_heading.setdefault(fold_label(table.header[place]), []).append(place)
    return [places.pop() if (places := by_heading.get(fold_label(label))) else -1 for label in labels]

"""Fix files that come back: whether a file is one, and its tables in the shape of the tables they were made from.

The mark of a fix workbook is in its document properties; it is read with limits and without document types, so this is safe for any
file. Added columns are removed and columns restored to their places. Row marks show which rows are duplicated or missing. Knows no ledger and no
mapping.
"""

import os
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple
from xml.parsers.expat import XMLParserType

from loadsheet.fix_marks import ORIGINAL_COLUMNS, PROPERTY, ROW_COLUMN, FixedEntry, Mark, RowMark
from loadsheet.inbox.files import READ
from loadsheet.problems import FileRefused, Problem, column_letters
from loadsheet.reading.header import fold
from loadsheet.reading.package import Package, local_name, open_package, safe_parser
from loadsheet.reading.tables import Row, Table, is_blank

_ZIP = b"PK\x03\x04"
_PARTS = ("docProps/custom.xml", "meta.xml")  # of Excel's formats and of OpenDocument
_PART_BYTES_MAX = 1 << 18
_START_BYTES = 1 << 18
_DELIMITER = r"[\s,;|\"']"
_HEADING = re.compile(rf"{_DELIMITER}{ROW_COLUMN}{_DELIMITER}")
_ROW_MARK = re.compile(rf"{_DELIMITER}([0-9]{{1,12}}:[0-9]{{1,7}}/[0-9]{{1,7}})(?:{_DELIMITER}|$)")


def mark_of(path: Path, inflated_bytes_max: int) -> Mark | None:
    """The mark of the fix workbook at `path`; None for every other file, also for one that is damaged or cannot be read."""
    try:
        with _open_file(path) as file:
            if file.read(len(_ZIP)) != _ZIP:
                return None
        with open_package(path, path.name, inflated_bytes_max) as package:
            return next((mark for part in _PARTS if (mark := _mark_in(package, part)) is not None), None)
    except (FileRefused, OSError):
        return None


def _open_file(path: Path) -> BinaryIO:
    """Open a file that is not claimed yet. If a link or a pipe was put in its place, it is neither followed nor waited for."""
    return os.fdopen(os.open(path, READ), "rb")


class TextMark(NamedTuple):
    """What the beginning of a text file shows: its first lines, and the first row mark in it."""

    headings: str
    mark: RowMark


def mark_of_text(path: Path) -> TextMark | None:
    """The first row mark of a text file with a column of marks; None for every other file, also for one that cannot be read."""
    try:
        with _open_file(path) as file:
            start = file.read(_START_BYTES)
    except OSError:
        return None
    text = start.replace(b"\0", b"").decode("utf-8", "replace")
    found = _ROW_MARK.search(text) if _HEADING.search(text) else None
    mark = RowMark.read(found[1]) if found is not None else None
    return TextMark(text[: found.start()], mark) if found is not None and mark is not None else None


def _mark_in(package: Package, part: str) -> Mark | None:
    if not package.has(part) or package.parts[part.lower()].file_size > _PART_BYTES_MAX:
        return None
    found: list[str] = []
    return Mark.read("".join(package.feed(part, _reader(found), found)))


def _reader(found: list[str]) -> XMLParserType:
    """A parser that puts the text of the property into `found`."""
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


_ENTRY_MAX, _ROWS_MAX = 1 << 40, 1 << 20  # marks beyond are none of ours
_SORTED_MAX = 50_000
_LISTED = 5


class Original(NamedTuple):
    """The table that a fix file's table was made from: its headings, and the name that its file was dropped under first."""

    header: tuple[str, ...]
    file: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A table of a fix file as the one that it was made from, with the place in the file where the marks of its rows are."""

    table: Table
    source: Table
    marks_at: int | None

    def marked_rows(self) -> Iterator[tuple[Row, RowMark | None]]:
        """The rows as those of the original table, with their marks; what is blank without what was put beside it is left out."""
        places, at = self.table.at, self.marks_at
        for number, given, problem, ignored in self.source.rows():
            found = (*given, "")  # what stands nowhere, at -1, is blank
            cells = tuple([found[place] for place in places])
            if not is_blank(cells):
                mark = RowMark.read(given[at][:80]) if at is not None and given[at] else None
                yield Row(number, cells, problem, ignored), mark if mark is None or _is_valid(mark) else None


def has_row_marks(table: Table) -> bool:
    """Whether a table has a column of row marks, so that it is one of a fix file."""
    return _marks_at(table) is not None


def first_mark(table: Table) -> RowMark | None:
    """The first mark of a table that has marks."""
    at = _marks_at(table)
    marks = (RowMark.read(row.cells[at]) for row in table.rows() if at is not None and row.cells[at])
    return next((mark for mark in marks if mark is not None), None)


def as_original(table: Table, original: Original | None) -> Fixed:
    """The table of a fix file as the original, which keeps its columns and their order; behind them stand other columns that the
    mapping wants. Without the original, all columns but that of the marks are kept.
    """
    at = _marks_at(table)
    if original is None:
        places = [place for place in range(len(table.header)) if place != at]
        labels = [table.header[place] for place in places]
    else:
        places, labels = _places(table, original.header), list(original.header)
        more = sorted(set(table.columns.values()) - {*places, at})
        places, labels = [*places, *more], [*labels, *(table.header[place] for place in more)]
    positions_text = ", ".join(column_letters(place) if place >= 0 else "-" for place in places)
    given = replace(
        table,
        header=tuple(labels),
        columns={name: places.index(place) for name, place in table.columns.items() if place in places},
        found={**table.found, **({ORIGINAL_COLUMNS: positions_text} if table.sheet else {})},
        at=tuple(places),
        first_name=original.file if original is not None else "",
    )
    return Fixed(given, table, at)


class Originals(NamedTuple):
    """The tables of a fix file as those that they were made from, by name, and the entry that each marked row belongs to."""

    tables: dict[str, Table]
    entry_of: Callable[[str, int], int | None]


def as_originals(fixed: Sequence[Fixed], look_up: Callable[[Sequence[int]], Mapping[int, FixedEntry]]) -> Originals:
    """The tables of one fix file, whose rows carry what their marks show to be wrong. All rows are read once for that; what is
    kept of a row is three numbers. `look_up` looks entries up. Raises FileRefused as `Table.rows` does.
    """
    marks = _RowMarks(fixed)
    faults = marks.faults(look_up)
    tables = {
        one.table.name: replace(one.table, rows=_Checked(one, place, faults, is_sorted=place in marks.reordered))
        for place, one in enumerate(fixed)
    }
    return Originals(tables, marks.entry_of)


@dataclass(frozen=True, slots=True)
class _Checked:
    """`Table.rows` of a fix file. Rows that somebody sorted come as they stood: else the items of an order would change places, and
    it would be another order than before.
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
    """The rows in the order of their marks; new ones stay below the one that they were put under."""
    found, keys = list(rows), []
    last = (0, 0)
    for _, mark in found:
        last = (mark.entry, mark.number) if mark is not None else last
        keys.append(last)
    return [found[place] for place in sorted(range(len(found)), key=keys.__getitem__)]


class _MarkedRow(NamedTuple):
    """A mark of an entry: its number, of how many, and where it stands as table and row."""

    number: int
    of: int
    place: int
    row: int


class _RowMarks:
    """The marks of all rows of a fix file. `reordered` are the tables, by their places, whose rows were sorted; not very long ones, as
    sorting them back takes memory.
    """

    def __init__(self, fixed: Sequence[Fixed]) -> None:
        self._fixed = fixed
        self.reordered: set[int] = set()
        self._entries, self._numbers = array("q"), array("q")  # number, of and table share one
        self._rows = array("q")  # ascending within each table
        self._parts: dict[str, tuple[int, int]] = {}  # where the marks of each table begin and end
        for place, one in enumerate(fixed):
            begin = len(self._rows)
            if one.marks_at is not None:
                self._read_marks(place, one)
            self._parts[one.table.name] = begin, len(self._rows)

    def entry_of(self, table: str, row: int) -> int | None:
        """The entry that a row of a table is marked with."""
        begin, end = self._parts[table]
        index = bisect_left(self._rows, row, begin, end)
        return self._entries[index] if index < end and self._rows[index] == row else None

    def _read_marks(self, place: int, one: Fixed) -> None:
        last, count, is_reordered = (0, 0), 0, False
        for count, (row, mark) in enumerate(one.marked_rows(), start=1):  # noqa: B007 (the count is needed at the end)
            if mark is not None:
                self._entries.append(mark.entry)
                self._numbers.append((mark.number * _ROWS_MAX + mark.of) * len(self._fixed) + place)
                self._rows.append(row.number)
                is_reordered |= (mark.entry, mark.number) < last
                last = (mark.entry, mark.number)
        if is_reordered and count <= _SORTED_MAX:
            self.reordered.add(place)

    def faults(self, look_up: Callable[[Sequence[int]], Mapping[int, FixedEntry]]) -> dict[tuple[int, int], Problem]:
        """What is wrong, by table and row."""
        wrong = [(entry, seen) for entry, seen in self._by_entry() if not _is_complete(seen)]
        entries = look_up([entry for entry, _ in wrong]) if wrong else {}
        found: dict[tuple[int, int], Problem] = {}
        for entry, seen in wrong:
            found |= self._problems_of(seen, entries.get(entry, FixedEntry("")))
        return found

    def _by_entry(self) -> Iterator[tuple[int, list[_MarkedRow]]]:
        entries = self._entries
        for entry, own in groupby(sorted(range(len(entries)), key=entries.__getitem__), key=entries.__getitem__):
            yield entry, [self._marked_row(index) for index in own]

    def _marked_row(self, index: int) -> _MarkedRow:
        counts, place = divmod(self._numbers[index], len(self._fixed))
        return _MarkedRow(*divmod(counts, _ROWS_MAX), place, self._rows[index])

    def _problems_of(self, seen: Sequence[_MarkedRow], entry: FixedEntry) -> dict[tuple[int, int], Problem]:
        by_number = {number: list(own) for number, own in groupby(sorted(seen), key=lambda one: one.number)}
        of = max(one.of for one in seen)
        missing = [number for number in range(1, of + 1) if number not in by_number]
        key = entry.key or "the record"
        found = {}
        for one in seen:
            where = self._fixed[one.place].table.where(one.row)
            if len(same := by_number[one.number]) > 1:
                rows = ", ".join(self._row_name(other, one) for other in same[:_LISTED])
                hint = "delete one of them; to keep both, drop the fix file that comes back as it is"
                found[one.place, one.row] = Problem("R236", where, "", {"key": key, "rows": rows}, hint)
            elif missing and not entry.may_lose_rows:
                listed = ", ".join(map(str, missing[:_LISTED])) + (", ..." if missing[_LISTED:] else "")
                values = {"rows": listed, "of": of, "key": key}
                hint = "add the row again; to leave it out, drop the fix file that comes back as it is"
                found[one.place, one.row] = Problem("R237", where, "", values, hint)
        return found

    def _row_name(self, one: _MarkedRow, beside: _MarkedRow) -> str:
        sheet = self._fixed[one.place].table.sheet
        return f"{one.row} ({sheet})" if one.place != beside.place and sheet else str(one.row)


def _is_complete(seen: Sequence[_MarkedRow]) -> bool:
    return len(seen) == max(one.of for one in seen) == len({one.number for one in seen})


def _is_valid(mark: RowMark) -> bool:
    return mark.entry < _ENTRY_MAX and 0 < mark.number <= mark.of < _ROWS_MAX


def _marks_at(table: Table) -> int | None:
    return next((place for place, label in enumerate(table.header) if fold(label) == ROW_COLUMN), None)


def _places(table: Table, labels: Sequence[str]) -> list[int]:
    """Where the columns with these headings are, -1 for what is not there; headings that are alike keep their order."""
    there: dict[str, list[int]] = {}
    for place in reversed(range(len(table.header))):
        there.setdefault(fold(table.header[place]), []).append(place)
    return [places.pop() if (places := there.get(fold(label))) else -1 for label in labels]

"""The heading rows of a table: one row, or two or three whose labels are joined (`Abholung / Datum`).

Owns: what looks like a heading and what like a value. A row of values is never taken as a heading: a form, and rows without headings, have
none.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from loadsheet.mapping_tools.vocabulary import reading_of
from loadsheet.reading import Native, Top, fold
from loadsheet.reading.header import labels_over
from loadsheet.reading.row_filters import UNITS, is_separator

Rows = Sequence[tuple[int, tuple[str, ...]]]
"""Rows as number and cells."""

_HEADING_ROWS = (1, 2, 3)  # possible numbers of rows with labels
_TITLE = 40  # characters; a longer text is a title
_STRANGE = 2  # unknown words of a heading
_VALUES = 4  # one heading in this many may look like a value
_ABOVE = 4.0  # deduction for each row above that is as full as the headings: it could be the headings
_DOUBLE = 3.0  # deduction from a row's score for a duplicate heading
_WIDE = 3  # columns; in a narrower table a row with one cell is not a note
_FORM_ROWS = 4  # rows of a form, at least
_A_VALUE = re.compile(
    r"[+-]?[0-9][0-9.,' /:\-]*([ T][0-9:]+.*)?|[^@\s]+@[^@\s]+\.\w+|[0-9]{1,2}[ -][^\W\d]{3,9}\.?[ -][0-9]{2,4}.*"
)


@dataclass(frozen=True, slots=True)
class Headings:
    """The headings of a table: the number of their first row, the number of rows, the labels by position, and the duplicate labels."""

    row: int
    rows: int
    labels: tuple[str, ...]

    @property
    def doubles(self) -> dict[str, list[int]]:
        """Folded labels of several columns, with their positions."""
        found: dict[str, list[int]] = {}
        for position, label in enumerate(self.labels):
            if fold(label):
                found.setdefault(fold(label), []).append(position)
        return {label: positions for label, positions in found.items() if len(positions) > 1}


def find_headings(top: Top) -> Headings | None:
    """The most probable headings: several texts, known words, and cells below them. Several rows are joined only if the lowest row has
    duplicate labels, units, or none over columns that rows above label. None if no row looks like headings.
    """
    top = top._replace(rows=tuple(row for row in top.rows if not is_separator(row[1])))
    scored = [
        (_score(lines, top.rows[place + 1 :], top.rows[: place + 1 - len(lines)]), lines)
        for place, lines in _candidates(top)
    ]
    best, lines = max(scored, key=lambda found: (found[0], -len(found[1])), default=(0.0, []))
    return Headings(lines[0][0], len(lines), _labels(lines)) if best > 0 else None


_Lines = Sequence[tuple[int, tuple[str, ...]]]


def _candidates(top: Top) -> Iterator[tuple[int, _Lines]]:
    """Possible heading rows, alone or with the rows directly above, with the place of the lowest row."""
    for place in range(len(top.rows) - 1):
        for size in _HEADING_ROWS[: place + 1]:
            lines = top.rows[place + 1 - size : place + 1]
            together = lines[-1][0] - lines[0][0] == size - 1
            texts = [cell for _, cells in lines for cell in cells if cell.strip()]
            few = len(texts) // _VALUES if size == 1 else 0  # a heading may be a number, such as 20 for a size
            if _are_units(top.rows[place + 1][1]):
                continue  # they belong to these headings
            if together and sum(map(_is_value, texts)) <= few and (size == 1 or _needs_rows_above(lines)):
                yield place, lines


def _needs_rows_above(lines: _Lines) -> bool:
    """Whether the lowest row has duplicate labels or units, or leaves several labels to the rows above, as cells that are merged downwards do."""
    lowest = lines[-1][1]
    return (
        bool(_twice(lowest))
        or _are_units(lowest)
        or len(_lowest_labels(lines)) > len(list(filter(str.strip, lowest))) + 1
    )


def _are_units(cells: Sequence[str]) -> bool:
    """Whether a row holds units only, as below headings: `kg`, `[m]`."""
    texts = [cell.strip(" []().").casefold() for cell in cells if cell.strip()]
    return bool(texts) and UNITS.issuperset(texts)


def _lowest_labels(lines: _Lines) -> list[str]:
    """The lowest text of each column that has one."""
    columns = zip_longest(*(cells for _, cells in lines), fillvalue="")
    return [texts[-1] for column in columns if (texts := [text for text in column if text.strip()])]


def _is_value(cell: str) -> bool:
    """Whether a cell is a number, a date or a mail address, and not a heading."""
    return isinstance(cell, Native) or _A_VALUE.fullmatch(cell.strip()) is not None


def _score(lines: _Lines, below: Rows, above: Rows) -> float:
    """How much these lines look like headings above the rows below them, and not like a row of the table itself; 0 if they do not."""
    labels = _lowest_labels(lines)
    filled = len([cell for cell in below[0][1] if cell.strip()])
    if not labels or filled > 2 * len(labels) or len(labels) > 2 * filled + 2 or _is_repeated(lines[-1][1], below):
        return 0.0
    known = sum(map(_is_heading, labels))
    values = sum(any(_is_value(cell) for cell in column) for column in _columns(below) if any(column))
    if known * 3 < len(labels) and (known < 2 or values < 2) and (len(labels) < _WIDE or values * 3 < len(labels)):
        return 0.0
    full = (
        sum(sum(map(bool, map(str.strip, cells))) * 3 > len(labels) * 2 for _, cells in above) if len(labels) > 1 else 0
    )
    place = len(above) + len(lines) - 1
    return known * 2 + len(labels) + values - place * 0.5 - _DOUBLE * _twice(_labels(lines)) - _ABOVE * full


def _is_heading(text: str) -> bool:
    """Whether a text reads as a heading, and not as a sentence or a value."""
    reading = reading_of(text)
    return bool(reading.concepts) and len(text) < _TITLE and len(reading.unknown) <= _STRANGE and not _is_value(text)


def _columns(rows: Rows) -> list[list[str]]:
    width = max(len(cells) for _, cells in rows)
    return [
        [cells[place].strip() and cells[place] for _, cells in rows if place < len(cells)] for place in range(width)
    ]


def _is_repeated(cells: Sequence[str], below: Rows) -> bool:
    """Whether the cells of a row occur again in their columns, as values do. Headings occur again as a whole row only, as in reports with
    a table for each group.
    """
    filled = [place for place, cell in enumerate(cells) if cell.strip()]
    rows = [row for _, row in below if len(filled) == 1 or [*row] != [*cells]]
    again = sum(any(place < len(row) and row[place] == cells[place] for row in rows) for place in filled)
    return again * 3 >= len(filled)


def _twice(labels: Sequence[str]) -> int:
    """The number of duplicate labels."""
    counts = Counter(fold(label) for label in labels if fold(label))
    return sum(counts.values()) - len(counts)


def _labels(lines: _Lines) -> tuple[str, ...]:
    """The labels of these rows."""
    width = max(len(cells) for _, cells in lines)
    return tuple(labels_over([[*cells, *[""] * (width - len(cells))] for _, cells in lines]))


def is_form(top: Top) -> bool:
    """Whether the rows are the fields of a form, a heading beside each value."""
    texts = [[cell.strip() for cell in cells if cell.strip()] for _, cells in top.rows]
    if any(len(row) > 1 and all(map(_is_plain_heading, row)) for row in texts):
        return False  # a row of headings
    narrow = [row for row in texts if len(row) <= _WIDE]
    first = [row[0] for row in narrow if row]
    if len(first) < _FORM_ROWS or len(narrow) * 5 < len(texts) * 4 or len(set(first)) < len(first):
        return False
    return sum(_is_heading(text) or text.endswith(":") for text in first) * 5 > len(first) * 3


def _is_plain_heading(text: str) -> bool:
    """Whether a text is a heading of known words. One with a colon stands beside its value."""
    return _is_heading(text) and not reading_of(text).unknown and not text.endswith(":")

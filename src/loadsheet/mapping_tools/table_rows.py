"""Which rows of a sheet are its table: the rows of its headings, and those that are outside of it.

The headings of a table are one row, or two or three whose labels are joined (`Abholung / Datum`). A form, and rows without headings, have
none. Outside are totals, notes at the end, titles of groups, and rows that a template filled in beforehand. A row of values is never taken
as a heading, and none is outside because of its words alone.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import pairwise, takewhile, zip_longest
from math import inf
from statistics import median
from typing import NamedTuple

from loadsheet.mapping_tools.headings import reading_of
from loadsheet.reading import Native, Top, begins_like_totals, begins_with, end_of_subtotal, fold_label, says_nothing
from loadsheet.reading.header import labels_over
from loadsheet.reading.row_filters import UNITS, is_separator

Rows = Sequence[tuple[int, tuple[str, ...]]]
"""Rows as number and cells."""

# ---- the rows of the headings ----

_HEADING_ROWS = (1, 2, 3)  # possible numbers of rows with labels
_GROUPED = 2  # rows: names of groups, and the headings
_TITLE = 40  # characters; a longer text is a title
_KNOWN_LEAST = 6  # known headings among very many
_STRANGE = 2  # unknown words of a heading
_VALUES = 4  # one heading in this many may look like a value
_ABOVE = 4.0  # deduction for each row above that is as full as the headings: it could be the headings
_DOUBLE = 3.0  # deduction from a row's score for a duplicate heading
_WIDE = 3  # columns; in a narrower table a row with one cell is not a note
_FORM_ROWS = 4  # rows of a form, at least
_A_DIGIT = re.compile(r"[0-9]")
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
            if fold_label(label):
                found.setdefault(fold_label(label), []).append(position)
        return {label: positions for label, positions in found.items() if len(positions) > 1}


def find_headings(top: Top) -> Headings | None:
    """The most probable headings: several texts, known words, and cells below them. Several rows are joined only if the lowest row has
    duplicate labels, units, or none over columns that rows above label, or if the upper row names groups of them. None if no row looks like headings.
    """
    top = top._replace(rows=tuple(row for row in top.rows if not is_separator(row[1])))
    scored = [
        (_score(lines, top.rows[place + 1 :], top.rows[: place + 1 - len(lines)]), lines)
        for place, lines in _candidates(top)
    ]
    best, lines = max(scored, key=lambda found: (found[0], -len(found[1])), default=(0.0, []))
    return Headings(lines[0][0], len(lines), _labels(lines)) if best > 0 else None


def ends_with_headings(top: Top) -> bool:
    """Whether the last row looks like headings, so that the rows of the table are missing, as in a blank template."""
    labels = [cell for cell in top.rows[-1][1] if cell.strip()] if top.rows else []
    return len(labels) > 1 and sum(map(_is_heading, labels)) * 2 > len(labels)


def _candidates(top: Top) -> Iterator[tuple[int, Rows]]:
    """Possible heading rows, alone or with the rows directly above, with the place of the lowest row."""
    for place in range(len(top.rows) - 1):
        for size in _HEADING_ROWS[: place + 1]:
            lines = top.rows[place + 1 - size : place + 1]
            together = lines[-1][0] - lines[0][0] == size - 1
            texts = [cell for _, cells in lines for cell in cells if cell.strip()]
            few = len(texts) // _VALUES if size == 1 else 0  # a heading may be a number, such as 20 for a size
            if _are_units(top.rows[place + 1][1]):
                continue  # they belong to these headings
            below = top.rows[place + 1 :]
            if together and sum(map(_is_value, texts)) <= few and (size == 1 or _needs_rows_above(lines, below)):
                yield place, lines


def _needs_rows_above(lines: Rows, below: Rows) -> bool:
    """Whether the lowest row has duplicate labels or units, or leaves labels to the rows above, as cells that are merged downwards do: several,
    or one over a column with values.
    """
    lowest = [cell for cell in lines[-1][1] if cell.strip()]
    left = len(_lowest_labels(lines)) - len(lowest)
    if _twice(lowest) or _are_units(lowest) or left > 1:
        return True
    are_headings = sum(map(_is_heading, lowest)) * 2 > len(lowest)
    return are_headings and (_name_groups(lines) or (left == 1 and _has_values_under_upper(lines, below)))


def _name_groups(lines: Rows) -> bool:
    """Whether the upper one of two rows names groups of the headings below it, from the first one on: several headings without another word, each
    over the first of its group. A title is one text, or has words of its own.
    """
    upper, lower = (
        {place: cell.strip() for place, cell in enumerate(cells) if cell.strip()} for _, cells in (lines[0], lines[-1])
    )
    readings = [reading_of(text) for text in upper.values()]
    return (
        len(lines) == _GROUPED
        and len(set(upper.values())) == len(upper) > 1
        and len(upper) * 2 <= len(lower)
        and min(upper) == min(lower)
        and upper.keys() <= lower.keys()
        and all(reading.concepts and not reading.unknown for reading in readings)
    )


def _has_values_under_upper(lines: Rows, below: Rows) -> bool:
    """Whether most rows below have a value in the column that only the rows above label."""
    columns = zip_longest(*(cells for _, cells in lines), fillvalue="")
    place = next(at for at, texts in enumerate(columns) if not texts[-1].strip() and any(map(str.strip, texts)))
    return sum(any(map(str.strip, cells[place : place + 1])) for _, cells in below) * 2 > len(below)


def _are_units(cells: Sequence[str]) -> bool:
    """Whether a row holds units only, as below headings: `kg`, `[m]`."""
    texts = [cell.strip(" []().").casefold() for cell in cells if cell.strip()]
    return bool(texts) and UNITS.issuperset(texts)


def _lowest_labels(lines: Rows) -> list[str]:
    """The lowest text of each column that has one."""
    columns = zip_longest(*(cells for _, cells in lines), fillvalue="")
    return [texts[-1] for column in columns if (texts := [text for text in column if text.strip()])]


def _is_value(cell: str) -> bool:
    """Whether a cell is a number, a date or a mail address, and not a heading."""
    return isinstance(cell, Native) or _A_VALUE.fullmatch(cell.strip()) is not None


def _score(lines: Rows, below: Rows, above: Rows) -> float:
    """How much these lines look like headings above the rows below them, and not like a row of the table itself; 0 if they do not."""
    labels = _lowest_labels(lines)
    filled = len([cell for cell in below[0][1] if cell.strip()])
    known = sum(map(_is_heading, labels))
    if not labels or filled > 2 * len(labels) or _is_repeated(lines[-1][1], below):
        return 0.0
    # wide exports leave most of their columns blank
    if len(labels) > 2 * filled + 2 and known < min(_KNOWN_LEAST, len(labels) / 2):
        return 0.0
    columns = [*zip_longest(*(cells for _, cells in below), fillvalue="")]
    values = sum(any(_is_value(cell) for cell in column if cell.strip()) for column in columns)
    distinct = max(values, _numbered(labels, columns))
    if known * 3 < len(labels) and (known < 2 or values < 2) and (len(labels) < _WIDE or distinct * 3 < len(labels)):
        return 0.0
    full = (
        sum(sum(map(bool, map(str.strip, cells))) * 3 > len(labels) * 2 for _, cells in above) if len(labels) > 1 else 0
    )
    place = len(above) + len(lines) - 1
    grouped = _name_groups(lines) * 0.5
    return known * 2 + len(labels) + values + grouped - place * 0.5 - _DOUBLE * _twice(_labels(lines)) - _ABOVE * full


def _numbered(labels: Sequence[str], columns: Sequence[Sequence[str]]) -> int:
    """The number of columns with digits in most cells, such as order numbers and streets, below labels without any."""
    if any(map(_A_DIGIT.search, labels)):
        return 0
    return sum(sum(_A_DIGIT.search(cell) is not None for cell in column) * 2 > len(column) for column in columns)


def _is_heading(text: str) -> bool:
    """Whether a text reads as a heading, and not as a sentence or a value."""
    reading = reading_of(text)
    return bool(reading.concepts) and len(text) < _TITLE and len(reading.unknown) <= _STRANGE and not _is_value(text)


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
    counts = Counter(fold_label(label) for label in labels if fold_label(label))
    return sum(counts.values()) - len(counts)


def _labels(lines: Rows) -> tuple[str, ...]:
    """The labels of these rows."""
    width = max(len(cells) for _, cells in lines)
    return tuple(labels_over([[*cells, *[""] * (width - len(cells))] for _, cells in lines]))


def is_form(top: Top) -> bool:
    """Whether the rows are the fields of a form, a heading beside each value."""
    texts = [[cell.strip() for cell in cells if cell.strip()] for _, cells in top.rows]
    known = {  # a heading of known words; one with a colon stands beside its value
        text for row in texts for text in row if _is_heading(text) and not (reading_of(text).unknown or text[-1] == ":")
    }
    if any(len(row) > 1 and known.issuperset(row) for row in texts):
        return False  # a row of headings
    narrow = [row for row in texts if len(row) <= _WIDE]
    first = [row[0] for row in narrow if row]
    if len(first) < _FORM_ROWS or len(narrow) * 5 < len(texts) * 4 or len(set(first)) < len(first):
        return False
    return sum(_is_heading(text) or text.endswith(":") for text in first) * 5 > len(first) * 3


# ---- the rows outside the table ----

_NOTES = 5  # rows at the end that may be notes
_SUM_WORDS_MOST = 8  # words that can name a sum, signs between them included: a remark may have thousands
_PREFILLED_LEAST = 3  # rows; one or two may be records that somebody began
_LEVELS = 4  # of a pivot table
_BEFORE_HEADINGS = 3  # rows: notes, and the headings of another table
_EXPLAINED_LEAST = 2  # texts over columns of numbers and dates
_COMPARED = 200  # rows
_QUOTED = re.compile(r"[\"'\\\n]")
_COUNTED = re.compile(r"(.*?)([0-9]{1,9})")
_THOUSANDS = {
    ".": re.compile(r"(?<=[0-9])[,' \xa0\u202f](?=[0-9]{3})"),
    ",": re.compile(r"(?<=[0-9])[.' \xa0\u202f](?=[0-9]{3})"),
}
_TITLE_OF_GROUP = re.compile(r"\w+:(?= )")


class Subtotal(NamedTuple):
    """How the subtotals of a pivot table are named: the position of their column, the function of expressions that finds them, and its text, such
    as `ends_with` and ` Total`.
    """

    place: int
    found_by: str
    text: str

    def is_in(self, cells: Sequence[str]) -> bool:
        """Whether a row of these cells is such a subtotal."""
        cell = cells[self.place].strip()
        return cell.endswith(self.text) if self.found_by == "ends_with" else cell.startswith(self.text)


class OutsideRows(NamedTuple):
    """The first words of rows outside the table (totals, notes at the end, titles of groups), how subtotals are named, the rows without them, whether the table ends at its
    first blank row, the rows at the end that a template filled in beforehand, and the sums that no word names.
    """

    totals: tuple[str, ...]
    footer: tuple[str, ...]
    titles: tuple[str, ...]
    subtotals: tuple[Subtotal, ...]
    rows: list[tuple[int, tuple[str, ...]]]
    at_blank: bool = False
    prefilled: Rows = ()
    sums: Rows = ()


def split_outside_rows(rows: Rows, damaged: Collection[int], left_out: Collection[int]) -> OutsideRows:
    """The rows of a table, and the first words that identify other rows. Words that also begin a proper row are not used. Rows with a
    `damaged` number count only as notes, which often have fewer cells. `left_out` are the numbers of rows that are always left out.
    """
    if prefilled := _prefilled(rows):
        rows = rows[: len(rows) - len(prefilled)]
        return split_outside_rows(rows, damaged, left_out)._replace(prefilled=prefilled)
    blanks = [*_blanks(rows, left_out)]
    end = blanks[0] if blanks else 0
    if end and _begins_with_headings(rows[end:], rows[:end]):  # of another table
        return split_outside_rows(rows[:end], damaged, left_out)._replace(at_blank=True)
    if end and len(blanks) == 1 and len(rows) - end <= _NOTES:  # below it few rows, with too few cells or with one
        short = [row for row in rows[end:] if row[0] in damaged]
        if short and all(row in short or _filled(row) == 1 for row in rows[end:]):
            return split_outside_rows(rows[:end], damaged, left_out)._replace(at_blank=True)
    if sums := _sums(rows):
        numbers = {number for number, _ in sums}
        rest = [row for row in rows if row[0] not in numbers]
        return split_outside_rows(rest, damaged, {*left_out, *numbers})._replace(sums=sums)
    notes = _notes(rows)
    rest = [row for row in rows[: len(rows) - len(notes)] if row[0] not in damaged]
    alone = [_first(row) for row in rest if len(row[1]) >= _WIDE and _filled(row) == 1]
    begun = Counter(match[0] for match in map(_TITLE_OF_GROUP.match, alone) if match)
    titles = tuple(word for word, count in begun.items() if count > 1)
    rest = [row for row in rest if not _first(row).startswith(titles)] if titles else rest
    subtotals = tuple(_subtotals(rest))
    rest = [row for row in rest if not any(one.is_in(row[1]) for one in subtotals)]
    usual = median([_filled(row) for row in rest if row[1][0].strip() and not _sum_word(row)] or [0])
    named = {row[0]: word for row in rest if (word := _sum_word(row, usual))}
    full = median([_filled(row) for row in rest if row[0] not in named] or [0])
    for row in rest:
        if named.get(row[0], "").startswith("*") and _filled(row) >= full:  # such as an urgent one
            del named[row[0]]
    proper = [row for row in rest if row[0] not in named]
    words = tuple(dict.fromkeys(named.values()))
    if not proper or any(map(begins_with(words), map(_first, proper))):
        words, proper = (), rest
    start = _first(notes[0]).split()[:2] if notes else []
    start = start[:1] if start and start[0].endswith(":") else start
    begins = " ".join(word for word in start if not re.search("[0-9]", word))  # without what changes from file to file
    if not begins or any(map(begins_with([begins]), map(_first, rest))):
        begins, proper = "", [*proper, *(row for row in notes if row[0] not in damaged)]
    return OutsideRows(words, (begins,) if begins else (), titles, subtotals, proper)


def _subtotals(rows: Rows) -> Iterator[Subtotal]:
    """The subtotals of a pivot table, such as `Acme Total` or, behind another text, `Total 4711`: rows with numbers alone behind the name, of which
    the rest stands in another row.
    """
    columns = [{cell.strip() for cell in column} for column in zip(*(cells for _, cells in rows), strict=True)]
    found: dict[Subtotal, list[bool]] = {}
    for row in rows:
        for place, cell in enumerate(row[1][:_LEVELS]):
            name, others = cell.strip(), [other for other in row[1][place + 1 :] if other.strip()]
            word, _, named = name.partition(" ")
            if begins_like_totals(name):
                continue
            if text := end_of_subtotal(name):
                found_by, named = "ends_with", name.removesuffix(text)
            elif begins_like_totals(word) and name != _first(row):
                found_by, text = "starts_with", f"{word} "
            else:
                continue
            is_sum = named in columns[place] and bool(others) and all(map(_is_value, others))
            found.setdefault(Subtotal(place, found_by, text), []).append(is_sum)
    return (subtotal for subtotal, sums in found.items() if all(sums))


def explanations(rows: Rows) -> tuple[tuple[int, str], ...]:
    """The texts, with their positions, of a first row that explains the headings, as marketplaces write them (`Order created time.` above dates): it has
    different texts where all rows below have numbers or dates, and no value. Empty if there is none.
    """
    first, below = (rows[0][1], rows[1:_COMPARED]) if len(rows) > _EXPLAINED_LEAST else ((), ())
    columns = [[cell for cell in column if cell.strip()] for column in zip(*(cells for _, cells in below), strict=True)]
    over_values = [
        cell.strip()
        for cell, column in zip(first, columns, strict=False)
        if cell.strip() and len(column) > 1 and all(map(_is_value, column))
    ]
    texts = [text for text in over_values if " " in text]
    if len(texts) < _EXPLAINED_LEAST or len(set(over_values)) < len(over_values) or any(map(_is_value, over_values)):
        return ()
    found = ((place, cell.strip()) for place, cell in enumerate(first))
    return tuple((place, text) for place, text in found if text and not _QUOTED.search(text))


def _prefilled(rows: Rows) -> Rows:
    """The rows at the end, at least three, that hold the same few cells, such as zeros, errors and formulas without a result, or a number that
    counts them: what was filled in down to the end of a template. Empty if the rows above hold no more than these.
    """
    count = 1 + sum(1 for _ in takewhile(lambda pair: _continues(*pair), pairwise(reversed(rows))))
    above = [_filled(row) for row in rows[:-count]]
    if count < _PREFILLED_LEAST or not above or _filled(rows[-1]) * 2 > median(above):
        return ()
    cells = [cell.strip() for cell in rows[-1][1] if cell.strip()]
    is_counted = rows[-1][1] != rows[-2][1]
    return rows[-count:] if is_counted or any(map(says_nothing, cells)) else ()


def _sums(rows: Rows) -> Rows:
    """The rows of numbers alone, behind a blank first cell, that are the sums of the rows above, or of those since the last such row. Empty if not all
    such rows are sums.
    """
    alone = [row for row in rows if not row[1][0].strip() and all(map(_is_value, filter(str.strip, row[1])))]
    numbers = {number for number, _ in alone}
    return alone if alone and any(_are_sums(numbers, rows, mark) for mark in ".,") else ()


def _are_sums(alone: Collection[int], rows: Rows, mark: str) -> bool:
    """Whether the rows of these numbers are sums of the others, with this decimal mark."""
    whole, block, count = Counter[int](), Counter[int](), 0
    for row in rows:
        amounts = ((place, _amount(cell, mark)) for place, cell in enumerate(row[1]) if cell.strip())
        numbers = {place: amount for place, amount in amounts if amount is not None}
        if row[0] not in alone:
            count += 1
            whole.update(numbers)
            block.update(numbers)
        elif count > 1 and any(numbers.items() <= sums.items() for sums in (block, whole)):
            block.clear()
        else:
            return False
    return True


def _amount(text: str, mark: str) -> int | None:
    """A number in ten-thousandths; None if the text is none. Other marks than the decimal one are those of thousands."""
    digits = _THOUSANDS[mark].sub("", text.strip()).replace(mark, ".")
    try:
        return round(Decimal(digits) * 10_000)
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _continues(row: tuple[int, tuple[str, ...]], above: tuple[int, tuple[str, ...]]) -> bool:
    """Whether a row has the cells of the row above: the same, or a formula without a result, or the next number."""
    pairs = [(own.strip(), other.strip()) for own, other in zip(row[1], above[1], strict=False)]
    return len(row[1]) == len(above[1]) and all(
        own == other or (own.startswith("=") and other.startswith("=")) or _is_next(own, other) for own, other in pairs
    )


def _is_next(text: str, before: str) -> bool:
    """Whether a text counts on: `8` after `7`, `PO-0008` after `PO-0007`."""
    own, other = _COUNTED.fullmatch(text), _COUNTED.fullmatch(before)
    return own is not None and other is not None and own[1] == other[1] and int(own[2]) == int(other[2]) + 1


def filled_columns(rows: Rows) -> frozenset[int]:
    """The positions of the cells that are filled in any of the rows."""
    return frozenset(place for _, cells in rows for place, cell in enumerate(cells) if cell.strip())


def _begins_with_headings(rows: Rows, above: Rows) -> bool:
    """Whether rows begin with the headings of another table, after a note at most: different words without a digit, also where nearly all cells
    in the rows above have one.
    """
    columns = [
        [cell for cell in column if cell.strip()] for column in zip(*(cells for _, cells in above), strict=False)
    ]
    numbered = {
        place
        for place, column in enumerate(columns)
        if column and sum(map(bool, map(_A_DIGIT.search, column))) * 10 >= len(column) * 9
    }
    for _, cells in rows[:_BEFORE_HEADINGS]:
        filled = {place: cell.strip() for place, cell in enumerate(cells) if cell.strip()}
        if len(filled) < _WIDE:
            continue
        is_words = len(set(filled.values())) == len(filled) and not any(map(_A_DIGIT.search, filled.values()))
        return is_words and len(numbered & filled.keys()) > 1
    return False


def _blanks(rows: Rows, left_out: Collection[int]) -> list[int]:
    """The numbers of rows above each blank one. `left_out` are the numbers of rows that are not among these."""
    spans = [
        sum(number not in left_out for number in range(row[0], after[0])) - sum(cell.count("\n") for cell in row[1])
        for row, after in pairwise(rows)
    ]
    return [place for place, span in enumerate(spans, 1) if span > 1]


def _sum_word(row: tuple[int, tuple[str, ...]], usual: float = inf) -> str:
    """The words for a sum that a row begins with: alone, or before others (`Total of order 17`) where the row has at most half of the
    `usual` cells. Empty if there are none.
    """
    words = _first(row).split()
    most = min(len(words), _SUM_WORDS_MOST) if _filled(row) * 2 <= usual else 0
    starts = [_first(row), *(" ".join(words[:count]) for count in range(most, 0, -1))]
    return next((start for start in starts if begins_like_totals(start)), "")


def _filled(row: tuple[int, tuple[str, ...]]) -> int:
    return sum(bool(cell.strip()) for cell in row[1])


def _first(row: tuple[int, tuple[str, ...]]) -> str:
    return next((cell.strip() for cell in row[1] if cell.strip()), "")


def _notes(rows: Rows) -> list[tuple[int, tuple[str, ...]]]:
    """The rows at the end with only one cell, a sentence or a line such as `Signature: ____`."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for row in reversed(rows[-_NOTES:]):
        filled = [cell for cell in row[1] if cell.strip()]
        if len(filled) != 1 or len(row[1]) < _WIDE or len(found) + 1 == len(rows):
            break
        if len(filled[0].split()) < _WIDE and not filled[0].split()[0].endswith(":"):
            break
        found.insert(0, row)
    return found

"""The rows of a sheet that are outside its table: totals, notes at the end, titles of groups, and rows that a template filled in beforehand.

Owns: how these rows are told from records. A row of values is never taken as one of them because of its words alone.
"""

import re
from collections import Counter
from collections.abc import Collection
from itertools import pairwise, takewhile
from math import inf
from statistics import median
from typing import NamedTuple

from loadsheet.mapping_tools.headings import Rows
from loadsheet.reading import begins_like_totals, begins_with, says_nothing

_NOTES = 5  # rows at the end that may be notes
_SUM_WORDS_MOST = 8  # words that can name a sum, signs between them included: a remark may have thousands
_WIDE = 3  # columns; in a narrower table a row with one cell is not a note
_PREFILLED_LEAST = 3  # rows; one or two may be records that somebody began
_COUNTED = re.compile(r"(.*?)([0-9]{1,9})")
_TITLE_OF_GROUP = re.compile(r"\w+:(?= )")


class Endings(NamedTuple):
    """The first words of rows outside the table (totals, notes at the end, titles of groups), the rows without them, whether the table ends
    at its first blank row, and the rows at the end that a template filled in beforehand.
    """

    totals: tuple[str, ...]
    footer: tuple[str, ...]
    groups: tuple[str, ...]
    rows: list[tuple[int, tuple[str, ...]]]
    at_blank: bool = False
    prefilled: Rows = ()


def split_endings(rows: Rows, damaged: Collection[int], left_out: Collection[int]) -> Endings:
    """The rows of a table, and the first words that identify other rows. Words that also begin a proper row are not used. Rows with a
    `damaged` number count only as notes, which often have fewer cells. `left_out` are the numbers of rows that are always left out.
    """
    if prefilled := _prefilled(rows):
        rows = rows[: len(rows) - len(prefilled)]
        return split_endings(rows, damaged, left_out)._replace(prefilled=prefilled)
    end = _first_blank(rows, left_out)
    if end and len(rows) - end <= _NOTES:  # below it few rows, with too few cells or with one
        short = [row for row in rows[end:] if row[0] in damaged]
        if short and all(row in short or _filled(row) == 1 for row in rows[end:]):
            return split_endings(rows[:end], damaged, left_out)._replace(at_blank=True)
    notes = _notes(rows)
    rest = [row for row in rows[: len(rows) - len(notes)] if row[0] not in damaged]
    alone = [_first(row) for row in rest if len(row[1]) >= _WIDE and _filled(row) == 1]
    titles = Counter(match[0] for match in map(_TITLE_OF_GROUP.match, alone) if match)
    groups = tuple(word for word, count in titles.items() if count > 1)
    rest = [row for row in rest if not _first(row).startswith(groups)] if groups else rest
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
    begun = _first(notes[0]).split()[:2] if notes else []
    begun = begun[:1] if begun and begun[0].endswith(":") else begun
    begins = " ".join(word for word in begun if not re.search("[0-9]", word))  # without what changes from file to file
    if not begins or any(map(begins_with([begins]), map(_first, rest))):
        begins, proper = "", [*proper, *(row for row in notes if row[0] not in damaged)]
    return Endings(words, (begins,) if begins else (), groups, proper)


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


def _first_blank(rows: Rows, left_out: Collection[int]) -> int:
    """The number of rows above the only blank one; 0 if there is none, or several. `left_out` are the numbers of rows that are not among these."""
    spans = [
        sum(number not in left_out for number in range(row[0], after[0])) - sum(cell.count("\n") for cell in row[1])
        for row, after in pairwise(rows)
    ]
    blank = [place for place, span in enumerate(spans, 1) if span > 1]
    return blank[0] if len(blank) == 1 else 0


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

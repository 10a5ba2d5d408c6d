"""Rows of a sheet that are none of its table: lines of totals, and notes below the last row.

Owns: how they are told in a sample, and the words by which a mapping tells them (`totals` and `footer` with `begins_with`).
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from loadsheet.reading import SUM_WORDS, fold

_NOTES = 5  # rows at the end that may be notes
_WIDE = 3  # columns of a table; of a narrower one a row with one cell is a row

_Rows = Sequence[tuple[int, tuple[str, ...]]]


class Endings(NamedTuple):
    """What such rows begin with, and the rows without them."""

    totals: tuple[str, ...]
    footer: tuple[str, ...]
    rows: list[tuple[int, tuple[str, ...]]]


def endings(rows: _Rows, damaged: Collection[int]) -> Endings:
    """The rows of a table, and by what those that are none are told; a word with which a proper row begins too tells nothing. Rows
    whose numbers are `damaged` count only as notes: these often have fewer cells.
    """
    notes = _notes(rows)
    rest = [row for row in rows[: len(rows) - len(notes)] if row[0] not in damaged]
    sums = [row for row in rest if fold(_first(row)) in SUM_WORDS]
    proper = [row for row in rest if row not in sums]
    words = tuple(dict.fromkeys(_first(row) for row in sums))
    if not proper or any(_begins(_first(row), word) for row in proper for word in words):
        words, proper = (), rest
    begins = _beginning(_first(notes[0])) if notes else ""
    if not begins or any(_begins(_first(row), begins) for row in rest):
        begins, proper = "", [*proper, *(row for row in notes if row[0] not in damaged)]
    return Endings(words, (begins,) if begins else (), proper)


def _first(row: tuple[int, tuple[str, ...]]) -> str:
    return next((cell.strip() for cell in row[1] if cell.strip()), "")


def _notes(rows: _Rows) -> list[tuple[int, tuple[str, ...]]]:
    """The rows at the end with one cell alone, which is a sentence."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for row in reversed(rows[-_NOTES:]):
        filled = [cell for cell in row[1] if cell.strip()]
        if len(filled) != 1 or len(filled[0].split()) < _WIDE or len(row[1]) < _WIDE or len(found) + 1 == len(rows):
            break
        found.insert(0, row)
    return found


def _beginning(text: str) -> str:
    """The first words of a note, without what will differ the next time."""
    words = text.split()[:2]
    if words[0].endswith(":"):
        return words[0]
    return " ".join(word for word in words if not re.search("[0-9]", word))


def _begins(text: str, word: str) -> bool:
    return re.match(rf"{re.escape(fold(word))}\b", fold(text)) is not None

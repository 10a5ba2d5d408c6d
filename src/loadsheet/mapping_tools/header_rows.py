"""Which row of a sheet's top holds the headings, or which rows together, before any mapping says what to look for.

Owns: the score of a row as headings, and how labels over two or three rows become one (`Abholung / Datum`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadsheet.mapping_tools.vocabulary import vocabulary
from loadsheet.reading import Native, Top, fold
from loadsheet.reading.header import BETWEEN

_ROWS = (1, 2, 3)  # over so many rows labels may be spread
_TITLE = 40  # characters; a longer text is a title
_DOUBLE = 3.0  # what a heading that stands twice takes from a row's score


@dataclass(frozen=True, slots=True)
class Headings:
    """The headings of a table: the number of their first row, over how many rows they are spread, the labels by position, and the
    labels that stand over several columns.
    """

    row: int
    rows: int
    labels: tuple[str, ...]

    @property
    def doubles(self) -> dict[str, list[int]]:
        """Folded labels that stand over several columns, with their positions."""
        found: dict[str, list[int]] = {}
        for position, label in enumerate(self.labels):
            if fold(label):
                found.setdefault(fold(label), []).append(position)
        return {label: positions for label, positions in found.items() if len(positions) > 1}


def find_headings(top: Top) -> Headings | None:
    """What looks most like headings: several texts, words that we know, and something below them. Rows are read together only where
    the lowest alone says something twice; None where nothing looks like it.
    """
    scored = [(_score(lines, top.rows[place + 1][1], place), lines) for place, lines in _candidates(top)]
    best, lines = max(scored, key=lambda found: (found[0], -len(found[1])), default=(0.0, []))
    return Headings(lines[0][0], len(lines), _labels(lines)) if best > 0 else None


_Lines = Sequence[tuple[int, tuple[str, ...]]]


def _candidates(top: Top) -> Iterator[tuple[int, _Lines]]:
    """Rows that may be headings, by themselves or with those right above, with the place of the lowest."""
    for place in range(len(top.rows) - 1):
        for size in _ROWS[: place + 1]:
            lines = top.rows[place + 1 - size : place + 1]
            together = lines[-1][0] - lines[0][0] == size - 1
            texts = not any(isinstance(cell, Native) for _, cells in lines for cell in cells)
            if together and texts and (size == 1 or _twice(lines[-1][1])):
                yield place, lines


def _score(lines: _Lines, below: Sequence[str], place: int) -> float:
    labels = [cell for cell in lines[-1][1] if cell.strip()]
    filled = len([cell for cell in below if cell.strip()])
    if not labels or filled > 2 * len(labels) or len(labels) > 2 * filled + 2:
        return 0.0
    known = sum(bool(vocabulary().read(label).concepts) and len(label) < _TITLE for label in labels)
    return known * 2 + len(labels) - place * 0.5 - _DOUBLE * _twice(_labels(lines)) if known else 0.0


def _twice(labels: Sequence[str]) -> int:
    """How many labels stand there again."""
    counts = Counter(fold(label) for label in labels if fold(label))
    return sum(counts.values()) - len(counts)


def _labels(lines: _Lines) -> tuple[str, ...]:
    """The labels of these rows: each cell of an upper row counts for the blank ones to its right too, as those of merged cells do."""
    width = max(len(cells) for _, cells in lines)
    rows = [[*cells, *[""] * (width - len(cells))] for _, cells in lines]
    parts: list[list[str]] = [[] for _ in range(width)]
    above = [0] * width  # where what stands above each position begins
    for row in rows[:-1]:
        begin = list(range(width))
        for position in range(1, width):
            if not row[position].strip() and above[position] == above[position - 1]:
                begin[position] = begin[position - 1]
        above = begin
        for position in range(width):
            parts[position].append(row[begin[position]].strip() if rows[-1][position].strip() else "")
    for position in range(width):
        parts[position].append(rows[-1][position].strip())
    return tuple(BETWEEN.join(dict.fromkeys(filter(None, told))) for told in parts)

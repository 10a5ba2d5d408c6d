"""The profile of a sheet: the begin and end of its table, its columns, and a guess for the values of each column.

Owns: detection of the heading rows, joining of labels over two or three rows (`Abholung / Datum`), and detection of rows outside the
table: total rows, and notes below the last row.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from loadsheet.mapping.words import ALIASES
from loadsheet.mapping_tools.column_types import (
    CHECK,
    MEASURES,
    Guess,
    Reading,
    guess_type,
    locale_by,
    vocabulary,
    words_of,
)
from loadsheet.problems import FileRefused, Problem, Where, column_letters
from loadsheet.reading import SUM_WORDS, Layout, Native, Top, WantedColumn, fold, open_tables
from loadsheet.reading.header import BETWEEN
from loadsheet.reading.opening import read_tops
from loadsheet.reading.tables import bounds_of
from loadsheet.settings import Settings

ROWS_READ = 20_000  # enough for a guess; the evidence gives the number of values
_BRACKETS = re.compile(r"[(\[]([^)\]]+)[)\]]")
_A_MOMENT = re.compile(
    r"[0-9]{1,4}[./-][0-9]{1,2}[./-]([0-9]{1,4}\b.*)?|[0-9]{1,2}:[0-9]{2}.*|[0-9]{8}T.*|[0-9]{1,2}[ -][^\W\d]{3,9}\.?[ -][0-9]{2,4}\b.*"
)
_A_NUMBER = re.compile(r"[+-]?[0-9][0-9.,' ]*")
_LETTERS = {"l": "length", "w": "width", "b": "width", "h": "height"}
_HEADING_ROWS = (1, 2, 3)  # possible numbers of rows with labels
_TITLE = 40  # characters; a longer text is a title
_DOUBLE = 3.0  # deduction from a row's score for a duplicate heading
_NOTES = 5  # rows at the end that may be notes
_WIDE = 3  # columns; in a narrower table a row with one cell is not a note

_Rows = Sequence[tuple[int, tuple[str, ...]]]


@dataclass(frozen=True)
class Column:
    """A column of the sheet: heading, position, cells by row (blank ones too), the meaning of the heading, and the guess for the cells."""

    label: str
    position: int
    cells: tuple[str, ...]
    reading: Reading
    guess: Guess

    @cached_property
    def filled(self) -> list[str]:
        """The cells that are not blank."""
        return [cell for cell in self.cells if cell.strip()]

    @property
    def concepts(self) -> frozenset[str]:
        """The concepts of the heading."""
        return self.reading.concepts

    @cached_property
    def holds_moments(self) -> bool:
        """Whether most of its cells are dates or times, even if no format reads them."""
        return self.guess.type in {"datetime", "date", "time"} or _most(self.filled, _A_MOMENT, "datetime date time")

    @cached_property
    def holds_numbers(self) -> bool:
        """Whether most of its cells are numbers, or identifiers of digits only."""
        return self.guess.type in {"integer", "decimal", "quantity"} or _most(self.filled, _A_NUMBER, "number")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A detected table: the file, its sheet, encoding and delimiter of a text file, the number of heading rows, row numbers, columns, and
    duplicate headings (only their first column is included). `totals` and `footer` are the first words of total rows and of notes at the
    end, which are not among the rows.
    """

    path: Path
    title: str
    encoding: str
    delimiter: str
    header_rows: int
    rows: tuple[int, ...]
    columns: tuple[Column, ...]
    habits: "Habits"
    doubles: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()


@dataclass(slots=True)
class Habits:
    """The notation of the files: the number locale with its evidence, and the languages of the headings."""

    locale: str = ""
    locale_evidence: str = ""
    languages: Counter[str] = field(default_factory=Counter)

    @property
    def language(self) -> str:
        """The language of most headings; English by default."""
        top = self.languages.most_common(1)
        return top[0][0] if top and top[0][1] > self.languages["en"] else "en"


def _most(filled: Sequence[str], shape: re.Pattern[str], kinds: str) -> bool:
    """Whether most cells have this shape, or are values of a workbook of one of these kinds."""
    like = sum(
        cell.kind in kinds.split() if isinstance(cell, Native) else shape.fullmatch(cell.strip()) is not None
        for cell in filled
    )
    return like * 2 > len(filled)


# ---- the headings of a table ----


@dataclass(frozen=True, slots=True)
class _Headings:
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


def _find_headings(top: Top) -> _Headings | None:
    """The most probable headings: several texts, known words, and cells below them. Several rows are joined only if the lowest row has
    duplicate labels. None if no row looks like headings.
    """
    scored = [(_score(lines, top.rows[place + 1][1], place), lines) for place, lines in _candidates(top)]
    best, lines = max(scored, key=lambda found: (found[0], -len(found[1])), default=(0.0, []))
    return _Headings(lines[0][0], len(lines), _labels(lines)) if best > 0 else None


_Lines = Sequence[tuple[int, tuple[str, ...]]]


def _candidates(top: Top) -> Iterator[tuple[int, _Lines]]:
    """Possible heading rows, alone or with the rows directly above, with the place of the lowest row."""
    for place in range(len(top.rows) - 1):
        for size in _HEADING_ROWS[: place + 1]:
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
    """The number of duplicate labels."""
    counts = Counter(fold(label) for label in labels if fold(label))
    return sum(counts.values()) - len(counts)


def _labels(lines: _Lines) -> tuple[str, ...]:
    """The labels of these rows. A cell of an upper row also applies to the blank cells to its right, as in merged cells."""
    width = max(len(cells) for _, cells in lines)
    rows = [[*cells, *[""] * (width - len(cells))] for _, cells in lines]
    parts: list[list[str]] = [[] for _ in range(width)]
    above = [0] * width  # for each position, the start of the label above it
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
    return tuple(BETWEEN.join(dict.fromkeys(filter(None, labels))) for labels in parts)


# ---- rows outside the table ----


class _Endings(NamedTuple):
    """The first words of rows outside the table, and the rows without them."""

    totals: tuple[str, ...]
    footer: tuple[str, ...]
    rows: list[tuple[int, tuple[str, ...]]]


def _endings(rows: _Rows, damaged: Collection[int]) -> _Endings:
    """The rows of a table, and the first words that identify other rows. Words that also begin a proper row are not used. Rows with a
    `damaged` number count only as notes, which often have fewer cells.
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
    return _Endings(words, (begins,) if begins else (), proper)


def _first(row: tuple[int, tuple[str, ...]]) -> str:
    return next((cell.strip() for cell in row[1] if cell.strip()), "")


def _notes(rows: _Rows) -> list[tuple[int, tuple[str, ...]]]:
    """The rows at the end with only one cell, a sentence."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for row in reversed(rows[-_NOTES:]):
        filled = [cell for cell in row[1] if cell.strip()]
        if len(filled) != 1 or len(filled[0].split()) < _WIDE or len(row[1]) < _WIDE or len(found) + 1 == len(rows):
            break
        found.insert(0, row)
    return found


def _beginning(text: str) -> str:
    """The first words of a note, without parts that change from file to file."""
    words = text.split()[:2]
    if words[0].endswith(":"):
        return words[0]
    return " ".join(word for word in words if not re.search("[0-9]", word))


def _begins(text: str, word: str) -> bool:
    return re.match(rf"{re.escape(fold(word))}\b", fold(text)) is not None


# ---- the table of a file ----


def observe(paths: Sequence[Path], settings: Settings) -> list[Sheet]:
    """Every table in these files. Raises FileRefused for a file that cannot be read, or has no table."""
    raw = [found for path in paths for found in _tables(path, settings)]
    if not raw:
        raise FileRefused(Problem("R202", Where(paths[0].name), hint="no row looks like headings above a table"))
    habits = Habits()
    for found in raw:
        for label in found.headings.labels:
            habits.languages.update(vocabulary().read(label).languages)
    habits.locale, habits.locale_evidence = locale_by(
        [(found.headings.labels, found.endings.rows) for found in raw], habits.language
    )
    return [_sheet(found, habits) for found in raw]


class _Raw(NamedTuple):
    """A table as read: the file, its first rows, the headings, and the rows below them."""

    path: Path
    top: Top
    headings: _Headings
    endings: _Endings


def _tables(path: Path, settings: Settings) -> Iterator[_Raw]:
    for top in read_tops(path, path.name, bounds_of(settings)):
        headings = _find_headings(top)
        if headings is None:
            continue
        # a duplicate heading cannot be requested
        once = [label for label in headings.labels if fold(label) and fold(label) not in headings.doubles]
        wanted = tuple(WantedColumn(str(place), (label,), required=False) for place, label in enumerate(once))
        layout = Layout(
            "rows", wanted, (top.sheet,) if top.sheet else (), headings.row,
            (top.encoding or "utf-8-sig",), (top.delimiter or ",",), header_rows=headings.rows,
        )  # fmt: skip
        table = open_tables(path, path.name, [layout], settings)["rows"]
        rows = list(islice(table.rows(), ROWS_READ))
        damaged = {row.number for row in rows if row.problem is not None}
        found = _endings([(row.number, row.cells) for row in rows], damaged)
        if found.rows:
            yield _Raw(path, top, headings, found)


def _sheet(raw: _Raw, habits: Habits) -> Sheet:
    columns = []
    doubles = raw.headings.doubles
    for position, label in enumerate(raw.headings.labels):
        again = doubles.get(fold(label), [])
        if fold(label) and position < len(raw.endings.rows[0][1]) and position not in again[1:]:
            cells = tuple(cells[position] for _, cells in raw.endings.rows)
            reading, unit = _understood(label)
            guess = guess_type(cells, reading, unit, habits.locale)
            if again:
                there = " and ".join(map(column_letters, again))
                guess = guess._replace(
                    evidence=f"{guess.evidence}; {CHECK}: columns {there} have this heading, the first is used"
                )
            columns.append(Column(label, position, cells, reading, guess))
    numbers = tuple(number for number, _ in raw.endings.rows)
    top = raw.top
    return Sheet(
        raw.path, top.sheet, top.encoding, top.delimiter, raw.headings.rows, numbers, tuple(columns), habits,
        tuple(raw.headings.labels[positions[0]] for positions in doubles.values()), raw.endings.totals,
        raw.endings.footer,
    )  # fmt: skip


def _understood(label: str) -> tuple[Reading, str]:
    """A heading without its unit, and that unit by pint's name: `Gross wt (kg)`, `GrossLb`, `L (in)`."""
    unit, bare = "", label
    for inner in _BRACKETS.findall(label):
        word = inner.replace(" ", "").replace(".", "")
        if word.casefold() in ALIASES:
            unit, bare = ALIASES[word.casefold()], label.replace(f"({inner})", "").replace(f"[{inner}]", "")
    words = words_of(bare)
    reading = vocabulary().read(bare)
    measured = bool(MEASURES.keys() & reading.concepts)
    if not unit and measured and len(words) > 1 and words[-1] in ALIASES:
        unit, bare = ALIASES[words[-1]], " ".join(words[:-1])
        reading = vocabulary().read(bare)
    elif not unit and measured:
        unit = ALIASES.get("".join(words), "")
    if unit and len(words_of(bare)) == 1 and (side := _LETTERS.get(words_of(bare)[0])):
        reading = Reading(frozenset({side}), (), reading.languages)
    return reading, unit

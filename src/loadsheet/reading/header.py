"""The header of a table. Pure, and the same for every format.

The header is the row near the top, or the group of rows, that holds the labels the mapping wants. A refusal names the closest
row and its missing labels. A label that spans several rows (`Consignee` merged over `Name` and `City`) is read as one:
`Consignee / City`.

Labels may repeat, such as Item, Qty, Item, Qty, if the mapping says so. A column that was inserted or removed would shift values into
the field of another column. So a header that repeats them in another way refuses the file.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from loadsheet.errors import FileRefused
from loadsheet.problems import Problem, Where, column_letters
from loadsheet.reading.tables import Layout, WantedColumn, is_blank, numbered_label, place_of_cell

TOP_ROWS = 50
"""The last row in which a header is searched, unless the mapping gives its row."""

BETWEEN = " / "
"""The separator between the parts of a label that spans several rows."""

_SPACE = re.compile(r"\s+")
_TO_TYPED = str.maketrans(
    "\u2018\u2019\u02bc\u2032\u201c\u201d\u2033\u2010\u2011\u2012\u2013\u2014\u2212\u0131", "''''\"\"\"------i"
)
"""Typographic quotes, apostrophes and dashes, with their typed forms, and the Turkish i without a dot, whose capital is I."""
_AROUND = " *:;,.!?\"'†"  # around a label: "Weight *", "Order no.:"
_PART_SEPARATOR = re.compile(r"\s*[/|>\\]+\s*|\s+[-\u2013\u2014]+\s+|:\s+")  # between its parts: "Consignee / City"
_ROWS_TRIED = (1, 2, 3)  # numbers of header rows to try, unless the mapping gives one
_LIKENESS_MIN = 0.6


@dataclass(frozen=True, slots=True)
class Header:
    """One or more rows as a header: the numbers of the last row (`row`) and the first (`top`), the cells of its `rows`, the labels
    without trailing blanks, all positions of each wanted column, and the missing required columns. `repeats` are all positions of the
    columns whose label repeats, `titles` the texts of each row above.
    """

    row: int
    labels: tuple[str, ...]
    positions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    missing: tuple[WantedColumn, ...] = ()
    top: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    repeats: dict[str, tuple[int, ...]] = field(default_factory=dict)
    titles: tuple[tuple[str, ...], ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether it holds every required column and at least one column."""
        return bool(self.positions) and not self.missing

    @property
    def columns(self) -> dict[str, int]:
        """The position of each wanted column that was found."""
        return {name: places[0] for name, places in self.positions.items()}

    @property
    def row_range(self) -> str:
        """Its rows as text: `3`, or `3 to 4`."""
        return f"{self.top} to {self.row}" if self.top < self.row else str(self.row)


NO_HEADER = Header(0, ())


class _Line(NamedTuple):
    """A row that may belong to a header."""

    number: int
    cells: tuple[str, ...]


class _Repeats(NamedTuple):
    """One way to read the labels of a header: the labels by position, and all positions of the columns whose label repeats."""

    labels: Sequence[str]
    places: Mapping[str, tuple[int, ...]]


class _LabelReading(NamedTuple):
    """One way to read the labels of some rows: the texts by position, and whether separators between their parts are ignored."""

    labels: Sequence[str]
    loose: bool


@lru_cache(maxsize=8192)
def fold_label(label: str) -> str:
    """A label in the form used for comparison: ignores case, accents, surrounding and doubled white space, line breaks, invisible
    characters, surrounding punctuation, and typographic quotes and dashes. `Straße *` and `STRASSE` are equal.
    """
    bare = label.casefold()
    if not bare.isascii():
        decomposed = unicodedata.normalize("NFKD", bare)
        bare = "".join(
            character for character in decomposed if unicodedata.category(character) not in ("Mn", "Cf")
        ).translate(_TO_TYPED)
    return _SPACE.sub(" ", bare).strip(_AROUND)


def rows_looked_at(layout: Layout) -> int:
    """The number of the last row that can belong to the header."""
    if layout.header_row == "auto":
        return TOP_ROWS
    return layout.header_row + (TOP_ROWS if layout.header_rows == "auto" else layout.header_rows) - 1


def find_header(rows: Iterable[tuple[int, Sequence[str]]], layout: Layout) -> Header:
    """The header among `rows` (number, cells): the first complete one, else the closest. If no column is required, the row with
    the most columns. Labels in one row win over labels in several, unless the layout gives the number of header rows. Reads no
    further than necessary.
    """
    closest, wanted = NO_HEADER, _ColumnMatcher(layout)
    demanding = any(column.required for column in layout.columns)
    above: list[tuple[int, tuple[str, ...]]] = []

    def noted() -> Iterator[tuple[int, Sequence[str]]]:
        for number, cells in rows:
            above.append((number, tuple(cell for cell in cells if not is_blank([cell]))))
            yield number, cells

    for alternatives in _candidates(noted(), layout):
        header = max((wanted.match(lines) for lines in alternatives), key=closeness)
        if not closest.row or closeness(header) > closeness(closest):
            closest = header
        if header.is_complete and demanding:
            break
    return replace(closest, titles=tuple(texts for number, texts in above if number < closest.top))


def closeness(header: Header) -> tuple[bool, int]:
    """The sort key of headers: a complete one first, then by the number of wanted columns."""
    return header.is_complete, len(header.positions)


def check_header(header: Header, layout: Layout, where: Where, columns_max: int, looked_at: Sequence[str] = ()) -> None:
    """Raises FileRefused unless the header is complete, has every wanted column once, and is not too wide. `where` is the file
    and sheet, `looked_at` the sheets that were searched.
    """
    if not header.is_complete:
        if header.positions and all(header.repeats.get(column.name) for column in header.missing):
            _check_repeats(header, layout, where)
        raise FileRefused(_incomplete(header, layout, where, looked_at))
    if len(header.labels) > columns_max:
        reason = (
            f"its header has {len(header.labels):,} columns; at most {columns_max:,} are read (reading.columns_max)"
        )
        raise FileRefused(Problem("R201", where, "", {"reason": reason}, "remove the columns that are not needed"))
    _check_repeats(header, layout, where)
    for positions in header.positions.values():
        if len(positions) > 1:
            columns = ", ".join(f'"{header.labels[position]}" (column {position + 1})' for position in positions)
            second = place_of_cell(where.file, where.sheet, header.labels, header.row, positions[1])
            hint = "leave one of them, or give one another label"
            raise FileRefused(Problem("R211", second, header.labels[positions[0]], {"columns": columns}, hint))


def _incomplete(header: Header, layout: Layout, where: Where, looked_at: Sequence[str]) -> Problem:
    wanted = header.missing or layout.columns
    missing = ", ".join(column.labels[0] for column in wanted)
    found = ", ".join(label for label in header.labels if label.strip())[:500]
    sheets = f"looked at the sheets {', '.join(looked_at)}; " if len(looked_at) > 1 else ""
    if not header.positions and layout.header_row == "auto":
        looked = f"the sheet {where.sheet}" if where.sheet and not sheets else "the file"
        begins = f"row {header.row} holds: {found}; " if found else ""
        hint = f"{sheets}{begins}send a table with these labels over its columns; a form cannot be read"
        return Problem("R215", where, "", {"rows": TOP_ROWS, "looked": looked, "missing": missing}, hint)
    add = f"add the column {missing}, or name its new heading under `aliases`"
    if len(wanted) > 1:
        add = f"add the columns {missing}, or name their new headings under `aliases`"
    holds = f"the row holds: {found}" if found else "it holds no text"
    hint = f"{add}; {sheets}{_suggest_labels(header)}{holds}"
    return Problem("R204", replace(where, row=header.row), found, {"row": header.row, "missing": missing}, hint)


def _suggest_labels(header: Header) -> str:
    """A suggestion for each missing column that has a similar label in the row."""
    taken = {position for positions in header.positions.values() for position in positions}
    free = {fold_label(label): label for position, label in enumerate(header.labels) if position not in taken}
    suggestions = []
    for column in header.missing:
        similar = [
            match for label in column.labels for match in get_close_matches(fold_label(label), free, 1, _LIKENESS_MIN)
        ]
        if similar and similar[0]:
            suggestions.append(f'for {column.labels[0]}, did you mean "{free[similar[0]].strip()}"?; ')
    return "".join(suggestions)


def _candidates(rows: Iterable[tuple[int, Sequence[str]]], layout: Layout) -> Iterator[list[list[_Line]]]:
    """The possible headers, single rows and combinations, as lists of alternatives."""
    lines = _lines(rows, layout)
    return (
        _candidates_up(lines, layout)
        if layout.header_rows == "auto"
        else _candidates_as_declared(lines, layout, layout.header_rows)
    )


def _lines(rows: Iterable[tuple[int, Sequence[str]]], layout: Layout) -> Iterator[_Line]:
    """The rows that can belong to the header, without comments."""
    last, comment = rows_looked_at(layout), layout.row_filters.comment
    for number, cells in rows:
        if number > last:
            return
        text = next((cell for cell in cells if cell.strip()), "")
        if not comment or not text.lstrip().startswith(comment):
            yield _Line(number, tuple(cells))


def _candidates_up(lines: Iterable[_Line], layout: Layout) -> Iterator[list[list[_Line]]]:
    """Each row alone and with the rows above it. Blank rows in between are not counted, in text files as in workbooks."""
    above: deque[_Line] = deque(maxlen=max(_ROWS_TRIED))
    for line in lines:
        if is_blank(line.cells):
            if layout.header_row in ("auto", line.number):
                yield [[line]]
            continue
        above.append(line)
        for size in _ROWS_TRIED:
            together = list(above)[-size:]
            if len(together) == size and layout.header_row in ("auto", together[0].number):
                yield [together]
        if layout.header_row != "auto" and above[0].number > layout.header_row:
            return


def _candidates_as_declared(lines: Iterable[_Line], layout: Layout, size: int) -> Iterator[list[list[_Line]]]:
    """Each row with as many rows below it as the layout declares: by row number, else without blank rows, else the row alone."""
    if size == 1:
        yield from ([[line]] for line in lines if layout.header_row in ("auto", line.number))
        return
    looked_at = list(lines)
    filled = [line for line in looked_at if not is_blank(line.cells)]
    if layout.header_row == "auto":
        tops = [(line.number, line) for line in filled]
    else:
        tops = [(layout.header_row, line) for line in looked_at if line.number >= layout.header_row][:1]
    for first, top in tops:
        below = [line for line in filled if line.number > top.number]
        by_number = [line for line in below if line.number < first + size]
        yield [[top, *by_number], [top, *below[: size - 1]], [top]]


class _ColumnMatcher:
    """Finds the columns of a layout by their labels."""

    def __init__(self, layout: Layout) -> None:
        self._columns = layout.columns
        self._repeating = [column for column in layout.columns if column.occurrence]
        self._exact = _by_label(layout, fold_label)
        self._loose = _by_label(layout, _fold_loosely)

    def match(self, lines: Sequence[_Line]) -> Header:
        """These rows as a header. The strictest reading that finds a label decides the position of its column."""
        labels = [""] * max(len(line.cells) for line in lines)
        positions: dict[str, tuple[int, ...]] = {}
        repeated: list[_Repeats] = []
        for reading in _readings(lines):
            taken = {position for places in positions.values() for position in places}
            found = self._find_columns(reading)
            own = {column.name: found.pop(column.name, ()) for column in self._repeating}
            repeated.append(_Repeats(reading.labels, own))
            for name, places in found.items():
                if name not in positions and not taken.issuperset(places):
                    positions[name] = places
                    for position in places:
                        labels[position] = reading.labels[position]
            labels = [label or other for label, other in zip(labels, reading.labels, strict=True)]
        while labels and not labels[-1].strip():
            labels.pop()
        repeats = self._choose_occurrences(repeated, positions, labels)
        missing = tuple(column for column in self._columns if column.required and column.name not in positions)
        cells = tuple(line.cells for line in lines)
        return Header(lines[-1].number, tuple(labels), positions, missing, lines[0].number, cells, repeats)

    def _choose_occurrences(
        self, readings: Sequence[_Repeats], positions: dict[str, tuple[int, ...]], labels: list[str]
    ) -> dict[str, tuple[int, ...]]:
        """Add the position that is meant of each column whose label repeats, and number its label: `Item (2)`. Returns all its positions."""
        taken = {position for places in positions.values() for position in places}
        repeats: dict[str, tuple[int, ...]] = {}
        for column, reading in _best_readings(self._repeating, readings, taken):
            places = repeats[column.name] = reading.places[column.name]
            if column.occurrence <= len(places):
                position = places[column.occurrence - 1]
                positions[column.name] = (position,)
                labels[position] = reading.labels[position]
                if column.occurrence > 1 and fold_label(labels[position]) not in map(fold_label, column.shown):
                    labels[position] = numbered_label(labels[position].strip(), column.occurrence)
        return repeats

    def _find_columns(self, reading: _LabelReading) -> dict[str, tuple[int, ...]]:
        by_label, key = (self._loose, _fold_loosely) if reading.loose else (self._exact, fold_label)
        found: dict[str, tuple[int, ...]] = {}
        for position, label in enumerate(reading.labels):
            for name in by_label.get(key(label), ()) if label else ():
                found[name] = (*found.get(name, ()), position)
        return found


@lru_cache(maxsize=8192)
def _fold_loosely(label: str) -> str:
    """A label without separators between its parts: `Consignee / City` and `Consignee: City` become `consignee city`."""
    return _SPACE.sub(" ", _PART_SEPARATOR.sub(" ", fold_label(label))).strip(_AROUND)


def _by_label(layout: Layout, key: Callable[[str], str]) -> dict[str, list[str]]:
    """Label -> the columns that it may name. An alias that is the first label of another column belongs to that column."""
    first = {key(column.labels[0]): column.name for column in layout.columns}
    by_label: dict[str, list[str]] = {}
    for column in layout.columns:
        own = key(column.labels[0])
        for label in {key(label) for label in column.accepted}:
            if label and (label == own or label not in first):
                by_label.setdefault(label, []).append(column.name)
    return by_label


def _readings(lines: Sequence[_Line]) -> Iterator[_LabelReading]:
    """The ways to read the labels of these rows, strictest first. For several rows: merged cells repeated to the right, then the
    cells unchanged, then only the lowest cell.
    """
    width = max(len(line.cells) for line in lines)
    rows = [(*line.cells, *("",) * (width - len(line.cells))) for line in lines]
    if len(rows) == 1:
        yield _LabelReading(rows[0], loose=False)
        yield _LabelReading(rows[0], loose=True)
        return
    yield _LabelReading(labels_over(rows), loose=True)
    yield _LabelReading([_join_parts(parts) for parts in zip(*rows, strict=True)], loose=True)
    lowest = [[part for part in parts if part.strip()] for parts in zip(*rows, strict=True)]
    yield _LabelReading([parts[-1] if parts else "" for parts in lowest], loose=False)


def labels_over(rows: Sequence[Sequence[str]]) -> list[str]:
    """The labels over the columns of a table, from rows of one width: the texts of each column, those of merged cells included."""
    return [_join_parts(parts) for parts in zip(*_with_merged_cells(rows), strict=True)]


def _join_parts(parts: Iterable[str]) -> str:
    distinct: list[str] = []
    for part in filter(None, map(str.strip, parts)):
        if part not in distinct:
            distinct.append(part)
    return BETWEEN.join(distinct)


def _with_merged_cells(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows with the text of merged cells repeated in each of them; a file holds it only in the first. Cells of the upper rows
    extend over blank cells to their right, as far as the cell above extends and a label is below.
    """
    width = len(rows[0])
    starts = [0] * width  # the start of the merged cell above each position
    spread: list[Sequence[str]] = []
    for row in rows[:-1]:
        begin: list[int] = []
        for position in range(width):
            is_start = position == 0 or row[position].strip() or starts[position] != starts[position - 1]
            begin.append(position if is_start else begin[-1])
        spread.append(
            [row[begin[position]] if rows[-1][position].strip() else row[position] for position in range(width)]
        )
        starts = begin
    return [*spread, rows[-1]]


# ---- labels that repeat ----

_NUMBER = re.compile(r"\(([0-9]+)\)\W*$")
_RESTORE = "remove the column that was inserted, or restore the missing one"


def _best_readings(
    columns: Iterable[WantedColumn], readings: Iterable[_Repeats], taken: Container[int]
) -> Iterator[tuple[WantedColumn, _Repeats]]:
    """Each column whose label repeats, with the reading that finds it as often as the mapping expects, else the strictest that finds it.
    `readings` begin with the strictest one; other columns have the positions in `taken`.
    """
    free = [_Repeats(labels, _free_places(taken, places)) for labels, places in readings]
    for column in columns:
        found = [reading for reading in free if column.name in reading.places]
        fitting = [reading for reading in found if _is_expected(column, reading.places)]
        if found:
            yield column, max(fitting or found[:1], key=lambda one: len(one.places[column.name]))


def _free_places(taken: Container[int], places: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    free = {name: tuple(place for place in own if place not in taken) for name, own in places.items()}
    return {name: own for name, own in free.items() if own}


def _is_expected(column: WantedColumn, places: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the label of a column repeats as often as the mapping says; that of a set as often as the others of its sets."""
    if not column.in_set:
        return len(places[column.name]) == column.count
    return len({len(own) for name, own in places.items() if "#" in name and _table(name) == _table(column.name)}) == 1


def _check_repeats(header: Header, layout: Layout, where: Where) -> None:
    """Raises FileRefused unless labels repeat as often and in the order that the mapping says."""
    texts = header.rows[-1]

    def at(position: int) -> Where:
        return place_of_cell(where.file, where.sheet, header.labels, header.row, position) if position >= 0 else where

    sets: dict[str, dict[str, tuple[int, ...]]] = {}
    for column in (column for column in layout.columns if column.occurrence):
        found, label = header.repeats.get(column.name, ()), column.labels[0]
        if len(found) > column.count or (len(found) < column.count and not column.in_set):
            raise _wrong_count(label, found, f"{'at most ' if column.in_set else ''}{column.count} times", at)
        numbers = [_number(texts[position]) if position < len(texts) else 0 for position in found]
        if not any(map(_number, column.labels)) and any(
            number not in (0, place) for place, number in enumerate(numbers, 1)
        ):
            order = ", ".join(numbered_label(label, place) for place in range(1, len(found) + 1))
            raise _wrong_count(label, found, f"in the order {order}", at)
        if column.in_set and found:
            sets.setdefault(_table(column.name), {})[label] = found
    for labels in sets.values():
        _check_order(labels, texts, at)


def _table(name: str) -> str:
    """The table of a column of sets; empty if the layout has no other table."""
    return name.rpartition(".")[0]


def _check_order(labels: Mapping[str, tuple[int, ...]], texts: Sequence[str], at: Callable[[int], Where]) -> None:
    """Raises FileRefused unless the labels of the sets of one table repeat in the order of the first set, each once in every set."""
    found = sorted((position, label) for label, positions in labels.items() for position in positions)
    order = list(dict.fromkeys(label for _, label in found))
    beyond = (found[-1][0] + 1, "")
    for index, (position, label) in enumerate([*found, beyond] if len(found) % len(order) else found):
        wanted = order[index % len(order)]
        if label != wanted:
            values = {"number": index // len(order) + 1, "order": ", ".join(order), "label": wanted}
            values["at"] = column_letters(position)
            text = texts[position] if position < len(texts) else ""
            raise FileRefused(Problem("R244", at(position), text, values, _RESTORE))


def _number(label: str) -> int:
    """The number at the end of a label such as `Item (2)`; 0 without one."""
    found = _NUMBER.search(label)
    return int(found[1]) if found else 0


def _wrong_count(label: str, found: Sequence[int], expected: str, at: Callable[[int], Where]) -> FileRefused:
    values = {"label": label, "expected": expected, "columns": ", ".join(map(column_letters, found)) or "none"}
    return FileRefused(Problem("R243", at(found[-1] if found else -1), "", values, _RESTORE))

"""The header of a table, and the rows under it that are not part of the table. Pure, and the same for every format.

The header is the row near the top, or the group of rows, that holds the labels the mapping wants. A refusal names the closest
row and its missing labels. A label that spans several rows (`Consignee` merged over `Name` and `City`) is read as one:
`Consignee / City`.

Under the header, units, comments, totals, notes and a repeated header are not part of the table. They are returned as
`Row.ignored` with the rule in words, so that every row of a file is accounted for. Starts are compared folded and by whole words.
"""

import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from loadsheet.problems import FileRefused, Problem, Where
from loadsheet.reading.repeated_headings import Repeats, best_readings, check_repeats
from loadsheet.reading.tables import Layout, Native, Row, WantedColumn, is_blank, numbered, place

TOP_ROWS = 50
"""The last row in which a header is searched, unless the mapping gives its row."""

BETWEEN = " / "
"""The separator between the parts of a label that spans several rows."""

_SPACE = re.compile(r"\s+")
_TO_TYPED = str.maketrans(
    "\u2018\u2019\u02bc\u2032\u201c\u201d\u2033\u2010\u2011\u2012\u2013\u2014\u2212", "''''\"\"\"------"
)
"""Typographic quotes, apostrophes and dashes, with their typed forms."""
_AROUND = " *:;,.!?\"'†"  # around a label: "Weight *", "Order no.:"
_PART_SEPARATOR = re.compile(r"\s*[/|>\\]+\s*|\s+[-\u2013\u2014]+\s+|:\s+")  # between its parts: "Consignee / City"
_ROWS_TRIED = (1, 2, 3)  # numbers of header rows to try, unless the mapping gives one
_LIKENESS_MIN = 0.6


@dataclass(frozen=True, slots=True)
class Header:
    """One or more rows as a header: the numbers of the last row (`row`) and the first (`top`), the cells of its `rows`, the labels
    without trailing blanks, all positions of each wanted column, and the missing required columns. `repeats` are all positions of the
    columns whose label repeats.
    """

    row: int
    labels: tuple[str, ...]
    positions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    missing: tuple[WantedColumn, ...] = ()
    top: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    repeats: dict[str, tuple[int, ...]] = field(default_factory=dict)

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


class _LabelReading(NamedTuple):
    """One way to read the labels of some rows: the texts by position, and whether separators between their parts are ignored."""

    labels: Sequence[str]
    loose: bool


@lru_cache(maxsize=8192)
def fold(label: str) -> str:
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
    for alternatives in _candidates(rows, layout):
        header = max((wanted.match(lines) for lines in alternatives), key=closeness)
        if header.is_complete and demanding:
            return header
        if not closest.row or closeness(header) > closeness(closest):
            closest = header
    return closest


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
    for name, positions in header.positions.items():
        if len(positions) > 1:
            labels = ", ".join(f'"{header.labels[position]}" (column {position + 1})' for position in positions)
            second = place(where.file, where.sheet, header.labels, header.row, positions[1])
            hint = "leave one of them, or give one another label"
            raise FileRefused(Problem("R211", second, name, {"columns": labels}, hint))


def _check_repeats(header: Header, layout: Layout, where: Where) -> None:
    def at(position: int) -> Where:
        return place(where.file, where.sheet, header.labels, header.row, position) if position >= 0 else where

    check_repeats(layout.columns, header.repeats, header.rows[-1], at)


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
    free = {fold(label): label for position, label in enumerate(header.labels) if position not in taken}
    suggestions = []
    for column in header.missing:
        similar = [match for label in column.labels for match in get_close_matches(fold(label), free, 1, _LIKENESS_MIN)]
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
        self._exact = _by_label(layout, fold)
        self._loose = _by_label(layout, _fold_loosely)

    def match(self, lines: Sequence[_Line]) -> Header:
        """These rows as a header. The strictest reading that finds a label decides the position of its column."""
        labels = [""] * max(len(line.cells) for line in lines)
        positions: dict[str, tuple[int, ...]] = {}
        repeated: list[Repeats] = []
        for reading in _readings(lines):
            taken = {position for places in positions.values() for position in places}
            found = self._find_columns(reading)
            own = {column.name: found.pop(column.name, ()) for column in self._repeating}
            repeated.append(Repeats(reading.labels, own))
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
        self, readings: Sequence[Repeats], positions: dict[str, tuple[int, ...]], labels: list[str]
    ) -> dict[str, tuple[int, ...]]:
        """Add the position that is meant of each column whose label repeats, and number its label: `Item (2)`. Returns all its positions."""
        taken = {position for places in positions.values() for position in places}
        repeats: dict[str, tuple[int, ...]] = {}
        for column, reading in best_readings(self._repeating, readings, taken):
            places = repeats[column.name] = reading.places[column.name]
            if column.occurrence <= len(places):
                position = places[column.occurrence - 1]
                positions[column.name] = (position,)
                labels[position] = reading.labels[position]
                if column.occurrence > 1 and fold(labels[position]) not in map(fold, column.shown):
                    labels[position] = numbered(labels[position].strip(), column.occurrence)
        return repeats

    def _find_columns(self, reading: _LabelReading) -> dict[str, tuple[int, ...]]:
        by_label, key = (self._loose, _fold_loosely) if reading.loose else (self._exact, fold)
        found: dict[str, tuple[int, ...]] = {}
        for position, label in enumerate(reading.labels):
            for name in by_label.get(key(label), ()) if label else ():
                found[name] = (*found.get(name, ()), position)
        return found


@lru_cache(maxsize=8192)
def _fold_loosely(label: str) -> str:
    """A label without separators between its parts: `Consignee / City` and `Consignee: City` become `consignee city`."""
    return _SPACE.sub(" ", _PART_SEPARATOR.sub(" ", fold(label))).strip(_AROUND)


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
    yield _LabelReading([_join_parts(parts) for parts in zip(*_spread(rows), strict=True)], loose=True)
    yield _LabelReading([_join_parts(parts) for parts in zip(*rows, strict=True)], loose=True)
    lowest = [[part for part in parts if part.strip()] for parts in zip(*rows, strict=True)]
    yield _LabelReading([parts[-1] if parts else "" for parts in lowest], loose=False)


def _join_parts(parts: Iterable[str]) -> str:
    distinct: list[str] = []
    for part in filter(None, map(str.strip, parts)):
        if part not in distinct:
            distinct.append(part)
    return BETWEEN.join(distinct)


def _spread(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
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


# ---- rows that are not part of the table ----

_UNITS = """
    g gr kg kgs t to lb lbs oz mt cwt mm cm dm m km in inch inches ft feet yd mi ldm lm % cbm cdm ccm m3 m² m2 m³ dm3 dm³ cm3 cm³ cft cuft
    ft3 ft³ l ltr ml hl gal pc pcs pce st stk stck stuck ea each ctn pal plt h hrs min s sec d days kw kwh °c °f
    eur usd gbp chf pln czk sek nok dkk jpy cny € $ £ dd.mm.yyyy yyyy-mm-dd dd/mm/yyyy mm/dd/yyyy tt.mm.jjjj hh:mm
"""
UNITS = frozenset(_UNITS.split())
"""The texts in the cells of a units row; any text in brackets counts as well."""

_LONGER_MAX = 3  # surrounding characters make a repeated label at most this much longer
_BRACKETED = re.compile(r"(?![\[(][0-9\s.,+-]*[\])])(?:\[[^\[\]]{1,20}\]|\([^()]{1,20}\))")  # (12.5) is a number
SUM_WORDS = frozenset(
    {"sum", "total", "summe", "gesamt", "totaal", "suma", "totale", "summa", "gesamtsumme", "totals", "grand total", "gesamt summe"}
)  # fmt: skip
"""The words that start rows of totals, in lower case."""


def mark_stray_rows(rows: Iterable[Row | None], layout: Layout, header: Header) -> Iterator[Row]:
    """The rows under a header, with stray rows marked as ignored. In `rows`, None stands for blank rows."""
    row_filters, rules = layout.row_filters, _StrayRowRules(layout, header)
    has_rules = bool(row_filters.comment or row_filters.totals or row_filters.footer)
    place, label = rules.header_cell
    shortest, longest = len(label) - _LONGER_MAX, len(label) + _LONGER_MAX
    ended, last, first = "", header.row, True
    for row in rows:
        if row is None:
            if row_filters.stop_at_blank and not first and not ended:
                ended = f"stop_at_blank: below row {last}"
            continue
        last = row.number
        if row.ignored:
            yield row
            continue
        if row.problem is not None and row.problem.code == "R214":
            yield row  # reading ends here; report it, whatever the rules say
            continue
        rule = ended
        if not rule and has_rules:
            rule, ends = rules.rule_of_first_text(row)
            ended = rule if ends else ""
        if not rule and first:
            first, rule = False, rules.units_rule(row)
        if not rule and shortest <= len(row.cells[place]) <= longest and rules.is_header(row):
            rule = "repeated header"
        yield Row(row.number, row.cells, None, rule) if rule else row


class _StrayRowRules:
    """The rules of a layout, for the rows under one header."""

    def __init__(self, layout: Layout, header: Header) -> None:
        self._row_filters_of = layout.row_filters
        required = [column.name for column in layout.columns if column.required]
        columns = header.columns
        self._required = [columns[name] for name in required if name in columns]
        self._place = min(columns.values())
        self._totals = _starts_with(layout.row_filters.totals)
        self._footer = _starts_with(layout.row_filters.footer)
        last = header.rows[-1]
        label = last[self._place] if self._place < len(last) else ""
        self.header_cell = self._place, label
        """A position, and the text of the header's last row at it. Its length alone excludes nearly all rows."""
        self._word = (fold(label).split() or [""])[0]
        self._compared = fold if sum(bool(cell.strip()) for cell in last) > 1 else _plain
        self._header = self._compared_cells(last)

    def is_header(self, row: Row) -> bool:
        """Whether a row repeats the last row of the header. Labels are compared folded, a single label exactly."""
        text = row.cells[self._place]
        if not self._word or (text.isascii() and self._word not in text.casefold()):  # cheap check first
            return False
        return (
            self._compared(text) == self._compared(self.header_cell[1])
            and self._compared_cells(row.cells) == self._header
        )

    def _compared_cells(self, cells: Sequence[str]) -> tuple[str, ...]:
        """The cells in the form used for comparison, without trailing blanks."""
        bare = [self._compared(cell) for cell in cells]
        while bare and not bare[-1]:
            bare.pop()
        return tuple(bare)

    def units_rule(self, row: Row) -> str:
        """The rule that makes the first row under the header a units row; empty if it is not one. An undeclared units row must
        lack a required value, or hold only texts in brackets.
        """
        if self._row_filters_of.units_row is True:
            return "units_row: the first row under the header"
        texts = [cell.strip() for cell in row.cells if cell.strip()]
        if self._row_filters_of.units_row is False or not texts or any(isinstance(cell, Native) for cell in row.cells):
            return ""
        bracketed = all(_BRACKETED.fullmatch(text) for text in texts)
        partial = any(not row.cells[place].strip() for place in self._required)
        units = all(_BRACKETED.fullmatch(text) or text.casefold().rstrip(".") in UNITS for text in texts)
        if bracketed or (partial and units):
            return "units_row: auto (the first row under the header holds only units)"
        return ""

    def rule_of_first_text(self, row: Row) -> tuple[str, bool]:
        """The rule that ignores a row because of its first text, and whether the table ends with it."""
        text = next((cell for cell in row.cells if cell and not cell.isspace()), "")
        comment = self._row_filters_of.comment
        if comment and text.lstrip().startswith(comment):
            return f"comment: {comment}", False
        if self._totals is not None and (found := self._totals.match(fold(text))):
            return f"totals: begins with {found[0]}", False
        if self._footer is not None and (found := self._footer.match(fold(text))):
            return f"footer: row {row.number} begins with {found[0]}, and all below", True
        return "", False


def _plain(cell: str) -> str:
    """The cell without surrounding white space, and without the byte order mark of an appended file."""
    return cell.lstrip("\ufeff").strip()


def _starts_with(words: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern for folded texts that start with one of the words as a whole word."""
    folded = sorted(filter(None, map(fold, words)), key=len, reverse=True)
    return re.compile(f"(?:{'|'.join(map(re.escape, folded))})(?![^\\W_])") if folded else None

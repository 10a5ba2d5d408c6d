"""Damage checks: warnings about values that a spreadsheet program probably changed before they were sent, with the cause.

Pure: rows pass through unchanged. At their end there is one warning for each suspicion and column, with its rows. Only columns that the mapping
reads are checked. Cells are counted by shape (a number of some digits, a date in some style, a text with signs of damage), and all shapes of
a column are looked at together.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

from loadsheet.internal_errors import isolated
from loadsheet.problems import NOT_EXAMINED, Problem, Where
from loadsheet.reading.encoding import repair_encoding
from loadsheet.reading.header import fold_label
from loadsheet.reading.row_filters import begins_like_totals, end_of_subtotal, places_of_totals
from loadsheet.reading.tables import ABSENT, INVISIBLE, ColumnUse, Native, Row, Table, as_typed
from loadsheet.similar_text import LookAlikes

_MONTH = (
    r"(?:jan(?:uary?|uari|uar|v(?:ier)?)?|jän(?:ner)?|feb(?:ruary|ruar|ruari|braio)?|févr?(?:ier)?|m[aä]r(?:ch|z|s|zo|t)?|mrz|mrt|maart"
    r"|apr(?:il|ile)?|avr(?:il)?|ma[iyj]|june?|jui?n|juni|jui?l|july|juli|juillet|aug(?:ust|ustus)?|août|sept?(?:ember|embre)?"
    r"|o[ck]t(?:ober|obre)?|nov(?:ember|embre)?|de[cz](?:ember|embre)?|déc(?:embre)?)\.?"
)
_SHAPES = re.compile(
    r"(?P<exponent>[0-9](?:[.,][0-9]+)?[eE]\+[0-9]{1,3})"
    r"|(?P<whole>[0-9]{3,}[.,]0{1,2})"
    r"|(?P<decimal>[+-]?[0-9]{1,3}(?:[.,' \u00a0][0-9]{3})*[.,][0-9]+|[+-][0-9]+|[0-9]+[.,][0-9]+)"
    r"|(?P<year_first>[0-9]{4}(?P<mark>[-/.])[0-9]{1,2}(?P=mark)[0-9]{1,2}(?:[T ].*)?)"
    r"|(?P<parts>(?P<first>[0-9]{1,2})(?P<between>[-/.])(?P<second>[0-9]{1,2})(?P=between)(?P<year>[0-9]{4}|[0-9]{2})(?: .*)?)"
    rf"|(?P<named>[0-9]{{1,2}}[-. /]{{1,2}}{_MONTH}[-. /]{{1,2}}[0-9]{{2,4}}(?: .*)?)"
    rf"|(?P<absent>(?-i:{'|'.join(map(re.escape, ABSENT))}))"
    rf"|(?P<shortened>[0-9]{{1,2}}[-.] ?{_MONTH}|{_MONTH}[- ][0-9]{{2}})",
    re.IGNORECASE,
)
_NO_BREAK = re.compile("[\u00a0\u2007\u202f\u2010\u2011]")
_MONTHS, DIGITS_KEPT = 12, 15
_MARKED = re.compile("[&<?]|_x0")  # of ASCII texts, only those with one of these marks may be garbled
# \x80-\x9f: Windows quotes and dashes, decoded in another code page; a low quote behind a letter: one of DOS or a Mac
_NO_LETTER = re.compile("[\ufffd\x80-\x9f]|(?<=[A-Za-z])(?:[\u201a\u201e]|[\u2020\u2021\u2030\xa4](?=[A-Za-z]))")
_LETTER_LOST = re.compile(r"[^=/@]*[^\W\d_]\?[a-z\u00df-\uffff][^=/@]*")  # not the address of a page


class Shape(NamedTuple):
    """The shape of a cell: its kind, with the number of digits (none for a number cell that lost some) or the date style."""

    kind: str
    detail: str = ""


_TEXT, FRACTION, _REAL_DATE, _OTHER = Shape("text"), Shape("number"), Shape("real date"), Shape("other")
_GARBLED, _INVISIBLE, _UNBROKEN, ALIKE = Shape("garbled"), Shape("invisible"), Shape("no-break"), Shape("alike")
_POINTED = Shape("decimal", "whole")

Key = str | tuple[str, str]
"""A cell as it is counted: a text, or the kind of a typed cell and its displayed text."""


def shapes_of(cell: Key) -> tuple[Shape, ...]:
    """The shapes of a cell; none if it is blank."""
    if not isinstance(cell, str):
        kind, shown = cell
        if kind == "number":
            return (_digits_shape(shown, "number") if shown.isdecimal() else FRACTION,)
        return (_REAL_DATE if kind in ("date", "datetime") else _OTHER,)
    text = cell.strip()
    if not text:
        return ()
    if text.isdecimal():
        shape = _digits_shape(text, "digits")
    else:
        found = _SHAPES.fullmatch(text)
        shape = _matched_shape(found) if found else _TEXT
    if cell.isascii() and not _MARKED.search(cell):
        return (shape,)
    garbled = _NO_LETTER.search(cell) or _LETTER_LOST.fullmatch(cell) or repair_encoding(text) != text
    signs = ((_GARBLED, garbled), (_INVISIBLE, INVISIBLE.search(text)), (_UNBROKEN, _NO_BREAK.search(text)))
    return (shape, *(sign for sign, found in signs if found))


def _digits_shape(text: str, kind: str) -> Shape:
    # The program that made it a number kept only 15 digits.
    if kind == "number" and len(text.lstrip("0")) > DIGITS_KEPT:
        return _counted("rounded", 0)
    if text[0] == "0" and len(text) > 1:
        return _counted("zeros", len(text))
    if len(text) > DIGITS_KEPT and not text[DIGITS_KEPT:].strip("0"):
        return _counted("rounded", 0 if kind == "number" else len(text))
    return _counted(kind, len(text))


@lru_cache(maxsize=1_000)
def _counted(kind: str, length: int) -> Shape:
    return Shape(kind, str(length or ""))


def _matched_shape(found: re.Match[str]) -> Shape:
    if found["whole"]:
        return _POINTED
    if found["parts"]:
        return Shape("date", _style(found))
    if found["year_first"]:
        return Shape("date", "Y{0}M{0}D".format(found["mark"]))
    return Shape("date", "D-month-Y") if found["named"] else Shape(found.lastgroup or "text")


def _style(found: re.Match[str]) -> str:
    """The style of a date of three numbers. If day and month could be swapped, the style is ambiguous (`?`)."""
    mark, years = found["between"], "Y" * len(found["year"])
    if mark == ".":
        return f"D.M.{years}"
    if int(found["first"]) > _MONTHS:
        return f"D{mark}M{mark}{years}"
    if int(found["second"]) > _MONTHS:
        return f"M{mark}D{mark}{years}"
    return f"?{mark}?{mark}{years}"


_BATCH = 4_000
_EXAMINING = "warnings"
_ROWS_SHOWN, _STYLES_SHOWN = 5, 4
_NO_ROW = "nothing to do if there was nothing to send; otherwise send the file with its rows"
_DOMINANT = 0.8  # share of values with a leading zero that have one width
_FEW_OF = 0.2  # largest share of all values that counts as a small minority
_MORE_THAN_CHANCE = 5
_COUNTRY = frozenset({"country", "land", "pays", "paese", "pais", "kraj", "staat", "nation"})
_NO_USES: Mapping[str, ColumnUse] = {}
_CODES = re.compile(r"zip|post(al|leitzahl|code)?|plz|cap|cp|ean|gtin|upc|sscc|barcode")


@dataclass(slots=True)
class CellTally:
    """How often something occurs in a table, its first rows, and the first example."""

    count: int = 0
    rows: list[int] = field(default_factory=list)
    example: str = ""

    def add(self, row: int) -> None:
        """Count a row."""
        self.count += 1
        if len(self.rows) < _ROWS_SHOWN:
            self.rows.append(row)

    def __add__(self, other: "CellTally") -> "CellTally":
        rows = sorted({*self.rows, *other.rows})[:_ROWS_SHOWN]
        first = min((tally for tally in (self, other) if tally.rows), key=lambda tally: tally.rows[0], default=self)
        return CellTally(self.count + other.count, rows, first.example)

    @property
    def rows_text(self) -> str:
        """The rows as text: `rows 3, 4 and 17 more`."""
        more = self.count - len(self.rows)
        listed = ", ".join(map(str, self.rows)) + (f" and {more:,} more" if more else "")
        return f"row{'s' if self.count > 1 else ''} {listed}"


_Tallies = dict[Shape, CellTally]


class _Column(NamedTuple):
    """A column without its shapes: whether its label is that of codes, its use, whether it is known to hold texts, and the countries in the table."""

    is_code: bool
    use: ColumnUse
    holds_texts: bool
    countries: int


class _LostZeros(NamedTuple):
    """Numbers that seem to have lost zeros: the usual width, the shorter ones, and the width to pad them to (0: do not pad)."""

    width: int
    tally: CellTally
    pads_to: int


class DamageChecks:
    """Collects signs of damage in the rows of one table while they are read."""

    def __init__(self, table: Table, uses: Mapping[str, ColumnUse] = _NO_USES) -> None:
        """`uses` says how columns of the table are read; it may lack some."""
        self._table = table
        self._uses = {place: uses[name] for name, place in table.columns.items() if name in uses}
        self._countries: dict[int, set[str]] = {
            place: set()
            for place, label in enumerate(table.header)
            if not _COUNTRY.isdisjoint(fold_label(label).split())
        }
        self._looks = {place: LookAlikes() for place, use in self._uses.items() if use.is_key}
        self._unnamed = {place for place, label in enumerate(table.header) if not label.strip()}
        self.filled: frozenset[int] = frozenset()
        """The positions of columns without a heading that hold values."""
        self.blank_rows = 0
        """The number of blank rows between the others."""
        self._places = tuple(sorted(set(table.columns.values())))
        self._tallies: dict[int, _Tallies] = {}
        self._sums, self._beside = CellTally(), CellTally()
        self._beside_at = 0
        self._saw_all = False
        self._is_empty = False
        self._faults: dict[str, str] = {}

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Pass the rows through unchanged; results are complete at their end. A table is read more than once. Passes after the
        first complete one are not checked, because they give the same rows.
        """
        if self._saw_all:
            yield from rows
            return
        self._tallies = {place: {} for place in self._places}
        self._sums, self._beside = CellTally(), CellTally()
        batch: list[Row] = []
        self._is_empty, self.blank_rows = True, 0
        last = self._table.header_row + sum(label.count("\n") for label in self._table.header)
        for row in rows:
            self._is_empty = False
            batch.append(row)
            if len(batch) == _BATCH:
                last = self._check_batch(batch, last)
                batch = []
            yield row
        self._check_batch(batch, last)
        self._saw_all = True

    def problems(self) -> tuple[Problem, ...]:
        """The warnings by column and kind, or one warning that the table has no row, not even an ignored one."""
        place = Where(self._table.file, self._table.sheet)
        if self._saw_all and self._is_empty:
            return (Problem("R239", place, hint=_NO_ROW, level="warning"),)
        with isolated(_EXAMINING, self._faults):
            if not self._faults:
                return tuple(self._warnings())
        return (Problem(NOT_EXAMINED, place, values={"reason": self._faults[_EXAMINING]}, level="warning"),)

    def _warnings(self) -> Iterator[Problem]:
        if self._sums.count:
            yield self._warning(self._places[0], "R242", self._sums, _SUMS_HINT)
        if self._beside.count:
            yield self._warning(self._beside_at, "R247", self._beside, _BESIDE_HINT)
        for place, tallies in self._tallies.items():
            if ALIKE in tallies:
                yield self._warning(place, "R249", tallies[ALIKE], _ALIKE_HINT, other=self._looks[place].first)
            yield from _column_warnings(tallies, partial(self._warning, place), self._column(place))

    def _check_batch(self, batch: Sequence[Row], last: int) -> int:
        """Check a batch of rows that follow row `last`. Returns the number of the batch's last row, of a text file that of its last line."""
        if not batch:
            return last
        end = batch[-1].number + self._lines_more(batch[-1:])
        if (blank := end - last - len(batch)) > 0:
            self.blank_rows += max(blank - self._lines_more(batch), 0)
        with isolated(_EXAMINING, self._faults):
            if not self._faults:
                self._note_beside(batch)
                self._count_shapes([row for row in batch if not row.ignored])
        return end

    def _lines_more(self, rows: Iterable[Row]) -> int:
        """The lines of a text file that these rows have beyond one each."""
        return 0 if self._table.sheet else sum(cell.count("\n") for row in rows for cell in row.cells)

    def _note_columns(self, columns: Sequence[Sequence[str]]) -> None:
        """Record which columns without a heading are filled, and the countries."""
        for place in self._unnamed - self.filled:
            if any(cell.strip() for cell in columns[place]):
                self.filled |= {place}
        for place, seen in self._countries.items():
            if len(seen) <= 1:
                seen.update(fold_label(cell) for cell in set(columns[place]) if cell.strip())

    def _note_beside(self, batch: Sequence[Row]) -> None:
        """Record cells to the right of the table."""
        for row in batch:
            if row.beside is not None:
                if not self._beside.count:
                    self._beside_at, self._beside.example = row.beside
                self._beside.add(row.number)

    def _note_sums(self, batch: Sequence[Row], columns: Sequence[Sequence[str]]) -> None:
        """Record rows that say in one of the first columns that they are totals."""
        places = places_of_totals(self._places[0], len(columns)) if self._places else []
        cells = {cell for place in places for cell in set(columns[place])}
        sums = {cell for cell in cells if begins_like_totals(cell) or end_of_subtotal(cell)}
        for row in batch if sums else ():
            found, at = next(((row.cells[place], place) for place in places if row.cells[place] in sums), ("", 0))
            may_be_record = found.lstrip()[:1] == "*" or not begins_like_totals(found) or at > self._places[0]
            filled = sum(bool(row.cells[place].strip()) for place in self._places)  # stars mark urgent records too
            if found and not (may_be_record and 2 * filled > len(self._places)):
                self._sums.example = self._sums.example or found.strip()
                self._sums.add(row.number)

    def _count_shapes(self, batch: Sequence[Row]) -> None:
        """Count the shapes of these rows. It runs over every cell, so each distinct cell is examined once in a batch."""
        columns = list(zip(*[row.cells for row in batch], strict=True))
        if not batch:
            return
        self._note_columns(columns)
        self._note_sums(batch, columns)
        for place, tallies in self._tallies.items():
            cells: Sequence[Key] = columns[place]
            if self._table.sheet:  # only workbook cells have types
                cells = [(cell.kind, cell.without_currency) if isinstance(cell, Native) else cell for cell in cells]
            fresh: dict[Key, list[CellTally]] = {}  # cells of shapes that need more example rows
            for cell, times in Counter(cells).items():
                looks, shapes = self._looks.get(place), shapes_of(cell)
                if looks and looks.add(as_typed((cell if isinstance(cell, str) else cell[1]).strip())):
                    shapes += (ALIKE,)
                for shape in shapes:
                    tally = tallies.get(shape)
                    if tally is None:
                        tally = tallies[shape] = CellTally(example=cell if isinstance(cell, str) else cell[1])
                    tally.count += times
                    if len(tally.rows) < _ROWS_SHOWN:
                        fresh.setdefault(cell, []).append(tally)
            if fresh:
                _note_rows(batch, cells, fresh)

    def _column(self, place: int) -> _Column:
        countries = max(map(len, self._countries.values()), default=1)
        is_code = any(_CODES.fullmatch(word) for word in fold_label(self._table.header[place]).split())
        use = self._uses.get(place)
        return _Column(is_code, use or ColumnUse(), use is not None and use.kind == "text", countries)

    def _warning(self, place: int, code: str, tally: CellTally, hint: str, **values: Any) -> Problem:
        where = self._table.where(tally.rows[0], place)
        problem_values = {"count": tally.count, "rows": tally.rows_text, **values}
        return Problem(code, where, tally.example[:100], problem_values, hint, "warning")


def _note_rows(batch: Sequence[Row], cells: Sequence[Key], fresh: dict[Key, list[CellTally]]) -> None:
    wanted = len({id(tally) for tallies in fresh.values() for tally in tallies})
    for row, cell in zip(batch, cells, strict=True):
        for tally in fresh.get(cell, ()):
            if len(tally.rows) < _ROWS_SHOWN:
                tally.rows.append(row.number)
                wanted -= len(tally.rows) == _ROWS_SHOWN
        if not wanted:
            return


def _column_warnings(tallies: _Tallies, warning: "partial[Problem]", column: _Column) -> Iterator[Problem]:
    """The warnings about one column, from its shapes."""
    for kind, code, hint in _CHECKS:
        kinds = (kind, "no-break") if kind == "invisible" and column.use.is_key else (kind,)
        if (found := _tally_of(tallies, *kinds)) and (kind != "rounded" or _are_rounded(tallies)):
            before = repair_encoding(found.example) if kind == "garbled" else found.example
            suggestion = f"; {found.example!r} may have been {before!r}" if before != found.example else ""
            yield warning(code, found, hint + suggestion)
    lost = _zeros_lost(tallies, column)
    if lost is not None:
        hint = _ZEROS_PADDED if lost.pads_to else _ZEROS
        yield warning("R223", lost.tally, hint, width=lost.width, **({"pads_to": lost.pads_to} if lost.pads_to else {}))
    if (absent := _tally_of(tallies, "absent")) and absent.example.strip() in column.use.sends:
        yield warning("R254", absent, _ABSENT)
    if pointed := _with_decimals(tallies, column):
        yield warning("R253", pointed, _REFORMAT)
    yield from _date_warnings(tallies, warning, column.use)
    numbers, numeric_texts = _tally_of(tallies, "number"), _tally_of(tallies, "digits", "decimal")
    if numbers and numeric_texts and not (lost or column.holds_texts or _tally_of(tallies, "zeros", "text")):
        yield warning("R227", numeric_texts, _AS_TEXT, numbers=numbers.count)


def _date_warnings(tallies: _Tallies, warning: "partial[Problem]", use: ColumnUse) -> Iterator[Problem]:
    turned, dates = _tally_of(tallies, "shortened") or _tally_of(tallies, "real date"), _tally_of(tallies, "date")
    others = _tally_of(tallies, "text", "digits", "zeros", "decimal", "number") or CellTally()
    if turned and not dates and 2 * turned.count <= others.count:
        if use.kind == "text":
            yield warning("R224", turned, _DATES)
    elif styles := _mixed_styles(tallies, use):
        listed = "; ".join(f"{style} ({tally.count:,}, {tally.rows_text})" for style, tally in styles[:_STYLES_SHOWN])
        others = sum((tally for _, tally in styles[1:]), start=CellTally())
        hint = _STYLES if use.formats else _FREE_STYLES
        yield warning("R225", dates or CellTally(), hint, styles=listed, rows=others.rows_text)


def _tally_of(tallies: _Tallies, *kinds: str) -> CellTally | None:
    """The sum of all shapes of these kinds; None without any."""
    found = [tally for shape, tally in tallies.items() if shape.kind in kinds]
    return sum(found, start=CellTally()) if found else None


def _are_rounded(tallies: _Tallies) -> bool:
    """Whether more long numbers end in zeros than by chance. By chance, every tenth text of 16 digits does."""
    if any(shape.kind == "rounded" and not shape.detail for shape in tallies):  # a number cell
        return True
    rounded, long = _widths(tallies, "rounded"), _widths(tallies, "digits", "zeros", "rounded")
    by_chance: float = sum(count / 10 ** (width - DIGITS_KEPT) for width, count in long.items() if width > DIGITS_KEPT)
    return rounded.total() > _MORE_THAN_CHANCE * by_chance


def _zeros_lost(tallies: _Tallies, column: _Column) -> _LostZeros | None:
    """Whole numbers that are shorter than most values of their column. The column must have one dominant width and values with
    leading zeros; columns of postcodes or article codes need no such values. Padding is proposed only if all values except a small
    minority are digits of this width, and the table does not name several countries.
    """
    if column.use.kind != "text" or _tally_of(tallies, "decimal") or any(shape == FRACTION for shape in tallies):
        return None
    zeros, widths = _widths(tallies, "zeros"), _widths(tallies, "zeros", "digits", "number")
    width = _usual_width(zeros, widths) if zeros or column.is_code else 0
    least = 1 if zeros else width - 1
    whole = [(shape, tally) for shape, tally in tallies.items() if shape.kind in ("digits", "number")]
    short = sum((tally for shape, tally in whole if least <= int(shape.detail) < width), start=CellTally())
    few = short.count <= _FEW_OF * widths.total()
    if not short.count or column.use.pads_to >= width or (column.countries > 1 and not few):
        return None  # possibly postcodes of another country
    is_clear = column.countries <= 1 and not _tally_of(tallies, "text", "rounded", "exponent")
    is_uniform = is_clear and max(widths) == width
    return _LostZeros(width, short, width if is_uniform and few else 0)


def _with_decimals(tallies: _Tallies, column: _Column) -> CellTally | None:
    """Identifiers that another program wrote as decimal numbers: 20457.0. Other texts are only suspected if none of them has a fraction."""
    found = tallies.get(_POINTED) if column.holds_texts else None
    fractions = any(shape.kind == "decimal" and shape != _POINTED for shape in tallies)
    is_clear = column.is_code or column.use.is_key or not (found is None or fractions or found.example[-2:] != ".0")
    return found if is_clear else None


def _usual_width(zeros: Counter[int], widths: Counter[int]) -> int:
    """The width of nearly all values with leading zeros, or without such values the width of most values. 0 if widths vary, as in
    phone numbers.
    """
    if not widths:
        return 0
    width, count = max((zeros or widths).items(), key=lambda item: (item[1], item[0]))
    if not zeros:
        return width if 2 * count > widths.total() else 0
    longer = sum(times for other, times in widths.items() if other > width)
    return width if _DOMINANT * zeros.total() <= count and longer <= _FEW_OF * widths.total() else 0


def _widths(tallies: _Tallies, *kinds: str) -> Counter[int]:
    """The number of values of these kinds by their number of digits."""
    widths = Counter[int]()
    for shape, tally in tallies.items():
        if shape.kind in kinds:
            widths[int(shape.detail)] += tally.count
    return widths


def _mixed_styles(tallies: _Tallies, use: ColumnUse) -> list[tuple[str, CellTally]]:
    """The date styles of a column, the most frequent first; none if there is one, or if most values are not dates. A date that a declared
    format of the column reads has that format's style.
    """
    found: dict[str, CellTally] = {}
    for shape, tally in tallies.items():
        if shape.kind == "date":
            declared = next((name for name, reads in use.formats if reads(tally.example.strip()) is not None), "")
            style = declared or shape.detail
            found[style] = found[style] + tally if style in found else tally
    if real := _tally_of(tallies, "real date"):
        found["real dates"] = real
    for unclear in [style for style in found if style.startswith("?")]:
        clear = [one for one in found if one[1:2] == unclear[1:2] and one[0] in "DM" and len(one) == len(unclear)]
        if clear:  # count ambiguous dates with the unambiguous style
            found[clear[0]] += found.pop(unclear)
    others = _tally_of(tallies, "text", "digits", "number")
    dates = sum(tally.count for tally in found.values())
    if len(found) < 2 or not _tally_of(tallies, "date") or (others and others.count > dates):
        return []
    ordered = sorted(found.items(), key=lambda item: -item[1].count)
    return [(style.replace("?", "N"), tally) for style, tally in ordered]


_REFORMAT = "format the column as Text before values are typed or imported, and fill it again from its source"
_ZEROS = (
    "Excel drops leading zeros of numbers; ignore this if the values are meant to be short, such as postcodes of another country; "
    f"otherwise {_REFORMAT}"
)
_ZEROS_PADDED = f"{_ZEROS}, or let the mapping pad the values"
_DATES = f"Excel turns texts such as 3-5 or MAR1 into dates; {_REFORMAT}"
_SWAPPED = "day and month may have changed places in some rows"
_STYLES = f"write all dates of a column in one style; {_SWAPPED}"
_FREE_STYLES = f"write all dates of a column in one style, best as 2026-03-01; {_SWAPPED}"
_SUMS_HINT = "the row was read as a record; if it holds sums, delete it, or name their first words in the mapping (totals: begins_with)"
_ALIKE_HINT = "they count as different records; if they mean the same one, write it in one way"
_BESIDE_HINT = (
    "nothing to do if they are notes; if they belong to the rows, give their columns headings next to the others"
)
_ABSENT = "leave such cells blank, or list the words under `blank` in the mapping"
_AS_TEXT = "they were probably pasted as text; let Excel convert them to numbers (the green corner), or check their decimal mark"
_HTML = "another program changed the letters before the file was sent; export it again as UTF-8, without HTML"
_CHECKS = (
    ("exponent", "R221", f"Excel shows long numbers in this form, and their last digits are lost; {_REFORMAT}"),
    (
        "rounded",
        "R222",
        f"Excel keeps only 15 digits of a number and replaces the others with zeros; other programs lose them too; {_REFORMAT}",
    ),
    ("garbled", "R226", _HTML),
    (
        "invisible",
        "R228",
        "text pasted from web pages often contains them; they are left out, and no-break spaces are sent as spaces",
    ),
)

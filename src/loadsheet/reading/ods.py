"""OpenDocument spreadsheets (.ods), streamed: the exact values of cells, and their text as the sender sees it.

All sheets are in one part. Opening reads it once completely, to list the sheets and their traits and to detect damage. A row or
cell that the file repeats a million times stays one value with a count until it is read. Data styles give the same `Format` as
the format codes of other workbooks.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from xml.parsers import expat

from loadsheet.reading.encoding import Source, refused
from loadsheet.reading.number_formats import (
    Format,
    duration,
    plain_number,
    read_number,
)
from loadsheet.reading.odf_styles import Styles
from loadsheet.reading.package import SEND_AGAIN, Package, check_markup, open_package, safe_parser
from loadsheet.reading.tables import Native
from loadsheet.reading.workbook import COLUMNS_MAX, ROWS_MAX, Book, Cells, Rows, Sheet, Spans, Traits

_TABLE_NAMES = "urn:oasis:names:tc:opendocument:xmlns:table:1.0 "
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0 "
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0 "
_CALC = "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0 "
_SPREADSHEET, _TABLE, _ROW = f"{_OFFICE}spreadsheet", f"{_TABLE_NAMES}table", f"{_TABLE_NAMES}table-row"
_CELL, _COVERED, _COLUMN = (
    f"{_TABLE_NAMES}table-cell",
    f"{_TABLE_NAMES}covered-table-cell",
    f"{_TABLE_NAMES}table-column",
)
_COLUMNS_REPEATED, _ROWS_REPEATED = f"{_TABLE_NAMES}number-columns-repeated", f"{_TABLE_NAMES}number-rows-repeated"
_STYLE_NAME, _DEFAULT_STYLE = f"{_TABLE_NAMES}style-name", f"{_TABLE_NAMES}default-cell-style-name"
_VALUE_TYPE, _FORMULA = f"{_OFFICE}value-type", f"{_TABLE_NAMES}formula"
_ASIDE = {f"{_OFFICE}annotation", f"{_TEXT}ruby-text", f"{_TEXT}note", f"{_TABLE_NAMES}shapes", f"{_TABLE_NAMES}table"}
_ERRORS = re.compile(r"#(NULL!|DIV/0!|VALUE!|REF!|NAME\?|NUM!|N/A)|Err:[0-9]{3}")
_FLAGS = re.compile(r"[a-z]*:?=(TRUE|FALSE)\(\)")
_WHITE = re.compile(r"[ \t\r\n]*[\t\r\n][ \t\r\n]*")  # line breaks and tabs of the XML do not belong to the text
_ELAPSED = re.compile(
    r"(-?)P(?:([0-9]{1,9})D)?(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:[.,][0-9]+)?)S)?)?"
)
_SPACES_MAX = 1 << 16
_DAY = 86_400


def open_ods(source: Source, name: str, inflated_bytes_max: int) -> Book:
    """The spreadsheet of a file. Raises FileRefused."""
    with open_package(source, name, inflated_bytes_max) as package:
        check_markup(package)
        _refuse_locked(package)
        styles = Styles()
        if package.has("styles.xml"):
            _read_styles(package, "styles.xml", styles)
        _read_styles(package, "content.xml", styles)
        seen = _survey(package)
    if not seen:
        raise refused(name, "it is a spreadsheet without a sheet", SEND_AGAIN)
    sheets = tuple(Sheet(table.title, str(table.place), styles.hides(table.style)) for table in seen)
    traits = {str(table.place): table.traits() for table in seen}

    def rows(key: str) -> Rows:
        with open_package(source, name, inflated_bytes_max) as reopened:
            yield from _stream_rows(reopened, int(key), styles)

    return Book(name, "spreadsheet (.ods)", sheets, {}, rows, traits.__getitem__)


def _refuse_locked(package: Package) -> None:
    manifest = "META-INF/manifest.xml"
    if package.has(manifest) and any(tag == "encryption-data" for tag, _ in package.elements(manifest)):
        hint = "save it without a password and send it again"
        raise refused(package.name, "it is a password-protected spreadsheet (.ods)", hint)


def _read_styles(package: Package, part: str, styles: Styles) -> None:
    """Feed the styles of a part, up to the first sheet."""
    parser = safe_parser(namespace_separator=" ")

    def start(tag: str, given: dict[str, str]) -> None:
        if tag == _SPREADSHEET:
            parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
        else:
            styles.start(tag, given)

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, styles.end, styles.text
    for _ in package.feed(part, parser, []):
        pass


@dataclass(slots=True)
class _Seen:
    """A table during the survey. `place` is its index among all tables of the part."""

    place: int
    title: str
    style: str
    merged: int = 0
    rows: int = 0
    hidden_rows: Spans = field(default_factory=Spans)
    filtered: bool = False
    columns: int = 0
    hidden_columns: list[int] = field(default_factory=list)
    is_copy: bool = False

    def see_column(self, given: dict[str, str]) -> None:
        """Add a column, or several equal ones. Hidden columns up to the last column of the sheet are not reported."""
        after = self.columns + int(given.get(_COLUMNS_REPEATED, "1"))
        if given.get(f"{_TABLE_NAMES}visibility", "visible") != "visible" and after < COLUMNS_MAX:
            self.hidden_columns.extend(range(self.columns, after))
        self.columns = min(after, COLUMNS_MAX)

    def see_row(self, repeated: int, *, hidden: bool) -> None:
        """Add a row, or several equal ones."""
        if hidden:
            self.hidden_rows.add(self.rows + 1, self.rows + repeated)
        self.rows += repeated

    def traits(self) -> Traits:
        """Its traits."""
        return Traits(self.merged, self.hidden_rows, tuple(self.hidden_columns), "on" if self.filtered else "")


class _Survey:
    """The handlers of a parser that list the tables and collect their traits."""

    def __init__(self) -> None:
        self.seen: list[_Seen] = []
        self._place, self._depth = -1, 0
        self._hidden, self._filled, self._repeated = False, False, 1

    def start(self, tag: str, given: dict[str, str]) -> None:
        """An element begins."""
        if tag == _TABLE:
            self._depth += 1
            self._place += 1
            if self._depth == 1:
                self.seen.append(_Seen(self._place, given.get(f"{_TABLE_NAMES}name", ""), given.get(_STYLE_NAME, "")))
        elif self._depth == 1:
            self._start_inside(self.seen[-1], tag, given)

    def end(self, tag: str) -> None:
        """An element ends."""
        if tag == _TABLE:
            self._depth -= 1
        elif tag == _ROW and self._depth == 1:
            self.seen[-1].see_row(self._repeated, hidden=self._hidden and self._filled)

    def _start_inside(self, table: _Seen, tag: str, given: dict[str, str]) -> None:
        if tag == _CELL:
            self._filled = self._filled or _VALUE_TYPE in given or _FORMULA in given
            spans = (
                given.get(f"{_TABLE_NAMES}number-columns-spanned", "1"),
                given.get(f"{_TABLE_NAMES}number-rows-spanned", "1"),
            )
            table.merged += spans != ("1", "1")
        elif tag == _ROW:
            visibility = given.get(f"{_TABLE_NAMES}visibility", "visible")
            self._hidden, self._filled = visibility != "visible", False
            self._repeated = min(int(given.get(_ROWS_REPEATED, "1")), ROWS_MAX)
            table.filtered |= visibility == "filter"
        elif tag == _COLUMN:
            table.see_column(given)
        elif tag == f"{_TABLE_NAMES}table-source":
            table.is_copy = True


def _survey(package: Package) -> list[_Seen]:
    """The sheets of a spreadsheet, without cached copies of linked sheets. Raises FileRefused for damage."""
    survey = _Survey()
    parser = safe_parser(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = survey.start, survey.end
    for _ in package.feed("content.xml", parser, []):
        pass
    return [table for table in survey.seen if not table.is_copy]


def _stream_rows(package: Package, wanted: int, styles: Styles) -> Rows:
    """The rows of the sheet with this index. Raises FileRefused for a cell beyond the limits of spreadsheets."""
    reader = _RowReader(wanted, styles)
    parser = reader.parser()
    number = 0
    for repeated, cells in package.feed("content.xml", parser, reader.found):
        if cells:
            if number + repeated > ROWS_MAX:
                reason = f"it claims more than {ROWS_MAX:,} filled rows"
                raise refused(package.name, reason, SEND_AGAIN)
            for again in range(1, repeated + 1):
                yield number + again, cells
        elif not repeated:
            return  # the end of the sheet
        number += repeated


class _RowReader:
    """The handlers of a parser that read the rows of one table, as repetitions and cells. 0 repetitions mark the end."""

    def __init__(self, wanted: int, styles: Styles) -> None:
        self.found: list[tuple[int, Cells]] = []
        self._wanted, self._styles = wanted, styles
        self._place, self._depth, self._aside = -1, 0, 0
        self._column_styles: list[str] = []
        self._row_style, self._row_repeated, self._position = "", 1, 0
        self._cells: Cells = []
        self._given: dict[str, str] | None = None
        self._paragraphs: list[str] = []
        self._pieces: list[str] = []

    def parser(self) -> expat.XMLParserType:
        """A parser with these handlers."""
        parser = safe_parser(namespace_separator=" ")
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        return parser

    def _start(self, tag: str, given: dict[str, str]) -> None:
        if tag == _TABLE:
            self._place += 1
            self._depth += 1
        if self._aside or (tag in _ASIDE and self._given is not None):
            self._aside += 1
        elif self._given is not None:
            self._start_text(tag, given)
        elif self._place != self._wanted or self._depth != 1:
            return
        elif tag in (_CELL, _COVERED):
            self._given = given
            self._paragraphs, self._pieces = [], []
        elif tag == _ROW:
            self._row_style = given.get(_DEFAULT_STYLE, "")
            self._row_repeated = max(int(given.get(_ROWS_REPEATED, "1")), 1)
            self._position, self._cells = 0, []
        elif tag == _COLUMN:
            repeated = min(int(given.get(_COLUMNS_REPEATED, "1")), COLUMNS_MAX - len(self._column_styles))
            self._column_styles.extend([given.get(_DEFAULT_STYLE, "")] * repeated)

    def _start_text(self, tag: str, given: dict[str, str]) -> None:
        if tag == f"{_TEXT}s":
            if (spaces := int(given.get(f"{_TEXT}c", "1"))) > _SPACES_MAX:
                raise ValueError("too many spaces in a row")
            self._pieces.append(" " * spaces)
        elif tag == f"{_TEXT}tab":
            self._pieces.append("\t")
        elif tag == f"{_TEXT}line-break":
            self._pieces.append("\n")
        elif tag == f"{_TEXT}p":
            self._pieces = []

    def _text(self, piece: str) -> None:
        if self._given is not None and not self._aside:
            self._pieces.append(_WHITE.sub(" ", piece))

    def _end(self, tag: str) -> None:
        if tag == _TABLE:
            self._depth -= 1
            if self._place == self._wanted and not self._depth:
                self.found.append((0, []))
        if self._aside:
            self._aside -= 1
        elif tag == f"{_TEXT}p":
            self._paragraphs.append("".join(self._pieces))
        elif tag in (_CELL, _COVERED) and self._given is not None:
            self._end_cell(self._given, covered=tag == _COVERED)
        elif tag == _ROW and self._place == self._wanted and self._depth == 1:
            self.found.append((self._row_repeated, self._cells))

    def _end_cell(self, given: dict[str, str], *, covered: bool) -> None:
        self._given = None
        repeated = int(given.get(_COLUMNS_REPEATED, "1"))
        first = self._position
        self._position += repeated
        if covered or not (self._paragraphs or _VALUE_TYPE in given or _FORMULA in given):
            return
        style = given.get(_STYLE_NAME) or self._row_style
        if not style and first < len(self._column_styles):
            style = self._column_styles[first]
        value = _cell(given, "\n".join(self._paragraphs), self._styles.format(style))
        if value:
            if not 0 < repeated <= COLUMNS_MAX - first:
                raise ValueError("a cell is beyond the last column")
            self._cells.extend((position, value) for position in range(first, self._position))


def _cell(given: dict[str, str], text: str, how: Format) -> str:
    """A cell from its attributes, its displayed text and its format."""
    kind = given.get(_VALUE_TYPE)
    make = _TYPED.get(kind or "")
    formula = given.get(_FORMULA, "")
    if kind is None:
        return Native("=", "formula") if formula and not text else text
    if make is not None:
        # LibreOffice stores flags of other formats as such formulas
        if formula and (found := _FLAGS.fullmatch(formula)):
            return Native(found[1].lower(), "flag")
        return make(given, how)
    if given.get(f"{_CALC}value-type") == "error" or (formula and _ERRORS.fullmatch(text)):
        return Native(text or "#VALUE!", "error")
    return text or given.get(f"{_OFFICE}string-value", "")


def _number(given: dict[str, str], how: Format) -> str:
    return read_number(given.get(f"{_OFFICE}value", "").strip(), how, from_1904=False)


def _flag(given: dict[str, str], _how: Format) -> str:
    return Native("true" if given.get(f"{_OFFICE}boolean-value") == "true" else "false", "flag")


def _date(given: dict[str, str], how: Format) -> str:
    """A date cell, with time (to the second) if it has one or its format shows one, as in other workbooks."""
    text = given.get(f"{_OFFICE}date-value", "")
    try:
        if "T" not in text:
            day = date.fromisoformat(text).isoformat()
            return Native(f"{day} 00:00:00", "datetime") if how.shows_time else Native(day, "date")
        moment = datetime.fromisoformat(text.replace(",", ".")).replace(tzinfo=None) + timedelta(milliseconds=500)
    except (ValueError, OverflowError):
        return Native("#VALUE!", "error")
    moment = moment.replace(microsecond=0)
    if how.shows_time or moment.time().isoformat() != "00:00:00":
        return Native(moment.isoformat(" "), "datetime")
    return Native(moment.date().isoformat(), "date")


def _time(given: dict[str, str], _how: Format) -> str:
    """A time of day, or from 24 hours the number of days, displayed in hours."""
    found = _ELAPSED.fullmatch(given.get(f"{_OFFICE}time-value", ""))
    if not found or not any(found.groups()[1:]):
        return Native("#VALUE!", "error")
    sign, days, hours, minutes, seconds = found.groups()
    exact = (
        int(days or 0) * _DAY
        + int(hours or 0) * 3600
        + int(minutes or 0) * 60
        + Decimal((seconds or "0").replace(",", "."))
    )
    number = plain_number(repr(float(exact / _DAY))) or "0"
    return Native(f"-{number}", "number") if sign and exact else duration(number, round(exact))


_TYPED: dict[str, Callable[[dict[str, str], Format], str]] = {
    "float": _number,
    "percentage": _number,
    "currency": _number,
    "boolean": _flag,
    "date": _date,
    "time": _time,
}

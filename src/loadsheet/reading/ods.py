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

from loadsheet.reading.encoding import OpenBytes
from loadsheet.reading.number_formats import (
    CODE_LENGTH_MAX,
    GENERAL,
    Format,
    Section,
    duration,
    plain_number,
    read_number,
)
from loadsheet.reading.package import SEND_AGAIN, Package, check_markup, open_package, safe_parser
from loadsheet.reading.refusals import file_refusal
from loadsheet.reading.tables import Native, formula_cell
from loadsheet.reading.workbook import COLUMNS_MAX, ROWS_MAX, Book, Cells, RowRanges, Rows, Sheet, SheetTraits

_TABLE_NAMES = "urn:oasis:names:tc:opendocument:xmlns:table:1.0 "
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0 "
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0 "
_CALC = "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0 "
_SPREADSHEET, _TABLE, _ROW = f"{_OFFICE}spreadsheet", f"{_TABLE_NAMES}table", f"{_TABLE_NAMES}table-row"
_CELL, _COVERED = f"{_TABLE_NAMES}table-cell", f"{_TABLE_NAMES}covered-table-cell"
_COLUMN = f"{_TABLE_NAMES}table-column"
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
_SPACES_MAX, _DAY = 1 << 16, 86_400
_MANIFEST = "META-INF/manifest.xml"


def open_ods(source: OpenBytes, name: str, inflated_bytes_max: int) -> Book:
    """The spreadsheet of a file. Raises FileRefused."""
    with open_package(source, name, inflated_bytes_max) as package:
        check_markup(package)
        if package.has(_MANIFEST) and any(tag == "encryption-data" for tag, _ in package.elements(_MANIFEST)):
            hint = "save it without a password or encryption and send it again"
            raise file_refusal(name, "it is a password-protected spreadsheet (.ods)", hint)
        styles = _Styles()
        if package.has("styles.xml"):
            _read_styles(package, "styles.xml", styles)
        _read_styles(package, "content.xml", styles)
        seen = _survey(package)
    if not seen:
        raise file_refusal(name, "it is a spreadsheet without a sheet", SEND_AGAIN)
    sheets = tuple(Sheet(table.title, str(table.place), styles.hides(table.style)) for table in seen)
    traits = {
        str(table.place): SheetTraits(
            table.merged, table.hidden_rows, tuple(table.hidden_columns), "on" if table.filtered else ""
        )
        for table in seen
    }

    def rows(key: str) -> Rows:
        with open_package(source, name, inflated_bytes_max) as reopened:
            yield from _stream_rows(reopened, int(key), styles)

    return Book(name, "spreadsheet (.ods)", sheets, {}, rows, traits.__getitem__)


def _read_styles(package: Package, part: str, styles: "_Styles") -> None:
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
    """A table during the survey. `place` is its index among all tables of the part. `hidden_columns` are positions, without those up to
    the last column of the sheet.
    """

    place: int
    title: str
    style: str
    merged: int = 0
    rows: int = 0
    hidden_rows: RowRanges = field(default_factory=RowRanges)
    filtered: bool = False
    columns: int = 0
    hidden_columns: list[int] = field(default_factory=list)
    is_copy: bool = False


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
            table = self.seen[-1]
            if self._hidden and self._filled:
                table.hidden_rows.add(table.rows + 1, table.rows + self._repeated)
            table.rows += self._repeated

    def _start_inside(self, table: _Seen, tag: str, given: dict[str, str]) -> None:
        if tag == _CELL:
            self._filled = self._filled or _VALUE_TYPE in given or _FORMULA in given
            spans = [given.get(f"{_TABLE_NAMES}number-{what}-spanned", "1") for what in ("columns", "rows")]
            table.merged += spans != ["1", "1"]
        elif tag == _ROW:
            visibility = given.get(f"{_TABLE_NAMES}visibility", "visible")
            self._hidden, self._filled = visibility != "visible", False
            self._repeated = min(int(given.get(_ROWS_REPEATED, "1")), ROWS_MAX)
            table.filtered |= visibility == "filter"
        elif tag == _COLUMN:
            after = table.columns + int(given.get(_COLUMNS_REPEATED, "1"))
            if given.get(f"{_TABLE_NAMES}visibility", "visible") != "visible" and after < COLUMNS_MAX:
                table.hidden_columns.extend(range(table.columns, after))
            table.columns = min(after, COLUMNS_MAX)
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


def _stream_rows(package: Package, wanted: int, styles: "_Styles") -> Rows:
    """The rows of the sheet with this index. Raises FileRefused for a cell beyond the limits of spreadsheets."""
    reader = _RowReader(wanted, styles)
    parser = reader.parser()
    number = 0
    for repeated, cells in package.feed("content.xml", parser, reader.found):
        if cells:
            if number + repeated > ROWS_MAX:
                reason = f"it claims more than {ROWS_MAX:,} filled rows"
                raise file_refusal(package.name, reason, SEND_AGAIN)
            for again in range(1, repeated + 1):
                yield number + again, cells
        elif not repeated:
            return  # the end of the sheet
        number += repeated


class _RowReader:
    """The handlers of a parser that read the rows of one table, as repetitions and cells. 0 repetitions mark the end."""

    def __init__(self, wanted: int, styles: "_Styles") -> None:
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


def _cell(given: dict[str, str], text: str, number_format: Format) -> str:
    """A cell from its attributes, its displayed text and its format."""
    kind, formula = given.get(_VALUE_TYPE), given.get(_FORMULA, "")
    make = _TYPED.get(kind or "")
    if kind is None:
        shown = re.sub(r"[\[\]]|(?<=[\[:])\.", "", f"={formula.partition('=')[2]}")  # [.B2:.B9] is B2:B9
        return formula_cell(shown) if formula and not text else text
    if make is not None:
        # LibreOffice stores flags of other formats as such formulas
        if formula and (found := _FLAGS.fullmatch(formula)):
            return Native(found[1].lower(), "flag")
        return make(given, number_format)
    if given.get(f"{_CALC}value-type") == "error" or (formula and _ERRORS.fullmatch(text)):
        return Native(text or "#VALUE!", "error")
    return text or given.get(f"{_OFFICE}string-value", "")


def _number(given: dict[str, str], number_format: Format) -> str:
    return read_number(given.get(f"{_OFFICE}value", "").strip(), number_format, from_1904=False)


def _flag(given: dict[str, str], _number_format: Format) -> str:
    return Native("true" if given.get(f"{_OFFICE}boolean-value") == "true" else "false", "flag")


def _date(given: dict[str, str], number_format: Format) -> str:
    """A date cell, with time (to the second) if it has one or its format shows one, as in other workbooks."""
    text = given.get(f"{_OFFICE}date-value", "")
    try:
        if "T" not in text:
            day = date.fromisoformat(text).isoformat()
            return Native(f"{day} 00:00:00", "datetime") if number_format.shows_time else Native(day, "date")
        moment = datetime.fromisoformat(text.replace(",", ".")).replace(tzinfo=None) + timedelta(milliseconds=500)
    except (ValueError, OverflowError):
        return Native("#VALUE!", "error")
    moment = moment.replace(microsecond=0)
    if number_format.shows_time or moment.time().isoformat() != "00:00:00":
        return Native(moment.isoformat(" "), "datetime")
    return Native(moment.date().isoformat(), "date")


def _time(given: dict[str, str], _number_format: Format) -> str:
    """A time of day, or beyond 24 hours the number of days, displayed in hours."""
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


# ---- styles: what a cell style shows of a value, as the `Format` that other workbooks have as a code ----

_STYLE = "urn:oasis:names:tc:opendocument:xmlns:style:1.0 "
_NUMBER = "urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0 "
_DATA_STYLES = {
    f"{_NUMBER}{kind}-style" for kind in ("number", "percentage", "currency", "date", "time", "boolean", "text")
}
_DAYS = {f"{_NUMBER}{part}" for part in ("year", "month", "day", "era", "day-of-week", "quarter", "week-of-year")}
_CLOCK = {f"{_NUMBER}{part}" for part in ("hours", "minutes", "seconds")}
_NUMBERS = {f"{_NUMBER}{part}" for part in ("number", "fraction", "scientific-number")}
_THOUSANDS = {"1000": 1, "1000000": 2, "1000000000": 3}
_BARE = (Section(),)
_EMBEDDED, _CURRENCY = f"{_NUMBER}embedded-text", f"{_NUMBER}currency-symbol"
_TEXTS = {_EMBEDDED, _CURRENCY, f"{_NUMBER}text"}
_DEPTH_MAX = 20
_DIGITS_MAX = 60
_MAPS_MAX = 3
_CONDITION = re.compile(r"value\(\)\s*(<=|>=|!=|<|>|=)\s*(-?[0-9]+(?:\.[0-9]+)?)")


@dataclass(slots=True)
class _DataStyle:
    """A data style during parsing."""

    kind: str
    shows_date: bool = False
    shows_time: bool = False
    overflows: bool = False
    digits: int = 0
    plain: bool = True
    marks: list[tuple[int, str]] = field(default_factory=list)
    before: str = ""  # the texts before and after the digits
    after: str = ""
    currency: str = ""  # its sign, part of these texts
    has_number: bool = False
    thousands: int = 0
    maps: list[tuple[str, Decimal, str]] = field(default_factory=list)  # comparison, limit, style of matching numbers

    def take(self, tag: str, place: int, text: str) -> None:
        """Add a text of the style: within, before or after the digits."""
        if tag == _EMBEDDED:
            self.marks.append((place, text))
        elif self.has_number:
            self.after += text
        else:
            self.before += text
        if tag == _CURRENCY:
            self.currency = text

    def format(self) -> Format:
        """Its format."""
        if self.kind in ("date-style", "time-style"):
            is_elapsed = self.overflows and not self.shows_date
            return Format(is_date=True, shows_date=self.shows_date, shows_time=self.shows_time, is_duration=is_elapsed)
        is_number = self.kind in ("number-style", "currency-style")
        if not is_number or len(self.before) + len(self.after) > CODE_LENGTH_MAX:
            return GENERAL
        if self.currency or not self.plain or not 1 < self.digits <= _DIGITS_MAX:
            own = Section("", Decimal(0), self.thousands, self.before, self.after).without(self.currency)
            return Format(sections=(own,)) if self.has_number and (own.has_words or own.priced) else GENERAL
        pattern = "0" * self.digits
        for place, mark in sorted(self.marks):
            if not 0 < place < self.digits or mark.strip("- ()"):
                return GENERAL
            cut = len(pattern) - place - sum(len(other) for before, other in self.marks if before < place)
            pattern = pattern[:cut] + mark + pattern[cut:]
        return Format(digits=pattern, before=self.before, after=self.after)


class _Styles:
    """The styles of a spreadsheet. `start`, `text` and `end` are handlers for an XML parser."""

    def __init__(self) -> None:
        self._data: dict[str, Format] = {}
        self._cells: dict[str, tuple[str, str]] = {}  # name -> (data style, parent)
        self._hidden: set[str] = set()
        self._known: dict[str, Format] = {}
        self._reading: _DataStyle | None = None
        self._name = ""
        self._mark: tuple[int, str] | None = None

    def format(self, style: str) -> Format:
        """The format of the cell style with this name."""
        if (known := self._known.get(style)) is None:
            known = self._known[style] = self._look_up(style)
        return known

    def hides(self, style: str) -> bool:
        """Whether the table style with this name hides its sheet."""
        return style in self._hidden

    def start(self, tag: str, given: dict[str, str]) -> None:
        """An element begins."""
        if self._reading is not None:
            self._part(self._reading, tag, given)
        elif tag in _DATA_STYLES:
            self._name = given.get(f"{_STYLE}name", "")
            self._reading = _DataStyle(tag.removeprefix(_NUMBER))
            self._reading.overflows = given.get(f"{_NUMBER}truncate-on-overflow") == "false"
        elif tag == f"{_STYLE}style":
            self._name = given.get(f"{_STYLE}name", "")
            if given.get(f"{_STYLE}family") == "table-cell":
                data, parent = given.get(f"{_STYLE}data-style-name", ""), given.get(f"{_STYLE}parent-style-name", "")
                self._cells[self._name] = (data, parent)
        elif tag == f"{_STYLE}table-properties" and given.get(f"{_TABLE_NAMES}display") == "false":
            self._hidden.add(self._name)

    def text(self, piece: str) -> None:
        """A piece of text inside the element."""
        if self._mark is not None:
            self._mark = (self._mark[0], self._mark[1] + piece)

    def end(self, tag: str) -> None:
        """An element ends."""
        if self._reading is None:
            return
        if tag in _DATA_STYLES:
            self._data[self._name] = self._mapped(self._reading)
            self._reading = None
        elif self._mark is not None and tag in _TEXTS:
            self._reading.take(tag, *self._mark)
            self._mark = None

    def _part(self, reading: _DataStyle, tag: str, given: dict[str, str]) -> None:
        reading.shows_date |= tag in _DAYS
        reading.shows_time |= tag in _CLOCK
        if tag in _NUMBERS:
            reading.has_number = True
            reading.thousands = _THOUSANDS.get(given.get(f"{_NUMBER}display-factor", "1"), 0)
        if tag == f"{_NUMBER}number":
            reading.digits = int(given.get(f"{_NUMBER}min-integer-digits", "0"))
            reading.plain &= given.get(f"{_NUMBER}decimal-places", "0") == "0"
            reading.plain &= given.get(f"{_NUMBER}grouping", "false") != "true"
        elif tag in _TEXTS:
            self._mark = (int(given.get(f"{_NUMBER}position", "0")), "")
        elif tag in _NUMBERS:
            reading.plain = False
        elif tag == f"{_STYLE}map" and (when := _CONDITION.fullmatch(given.get(f"{_STYLE}condition", "").strip())):
            compares = "<>" if when[1] == "!=" else when[1]
            reading.maps.append((compares, Decimal(when[2]), given.get(f"{_STYLE}apply-style-name", "")))

    def _mapped(self, reading: _DataStyle) -> Format:
        """The format of a complete style, including the styles that replace it for some numbers; these come earlier in the file."""
        own = reading.format()
        maps = reading.maps[:_MAPS_MAX]
        parts = [(sign, limit, self._data.get(name, GENERAL).sections) for sign, limit, name in maps]
        if own.digits or own.is_date or not any(sections for _, _, sections in parts):
            return own
        sections = [(of or _BARE)[0]._replace(compares=sign, limit=limit) for sign, limit, of in parts]
        return Format(sections=(*sections, *(own.sections or _BARE)))

    def _look_up(self, style: str) -> Format:
        for _ in range(_DEPTH_MAX):
            data, parent = self._cells.get(style, ("", ""))
            if data:
                return self._data.get(data, GENERAL)
            style = parent
        return GENERAL

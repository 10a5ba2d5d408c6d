"""The styles of an OpenDocument spreadsheet: what a cell style shows of a value, as the `Format` that other workbooks have as a code."""

import re
from dataclasses import dataclass, field
from decimal import Decimal

from loadsheet.reading.number_formats import (
    CODE_LENGTH_MAX,
    GENERAL,
    Format,
    Section,
)

_TABLE_NAMES = "urn:oasis:names:tc:opendocument:xmlns:table:1.0 "
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
_EMBEDDED = f"{_NUMBER}embedded-text"
_TEXTS = {_EMBEDDED, f"{_NUMBER}text"}
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

    def format(self) -> Format:
        """Its format."""
        if self.kind in ("date-style", "time-style"):
            return Format(
                is_date=True,
                shows_date=self.shows_date,
                shows_time=self.shows_time,
                is_duration=self.overflows and not self.shows_date,
            )
        if self.kind != "number-style" or len(self.before) + len(self.after) > CODE_LENGTH_MAX:
            return GENERAL
        if not self.plain or not 1 < self.digits <= _DIGITS_MAX:
            own = Section(thousands=self.thousands, before=self.before, after=self.after)
            return Format(sections=(own,)) if self.has_number and own.has_words else GENERAL
        pattern = "0" * self.digits
        for place, mark in sorted(self.marks):
            if not 0 < place < self.digits or mark.strip("- ()"):
                return GENERAL
            cut = len(pattern) - place - sum(len(other) for before, other in self.marks if before < place)
            pattern = pattern[:cut] + mark + pattern[cut:]
        return Format(digits=pattern, before=self.before, after=self.after)


class Styles:
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
        parts = [(how, limit, self._data.get(name, GENERAL).sections) for how, limit, name in reading.maps[:_MAPS_MAX]]
        if own.digits or own.is_date or not any(sections for _, _, sections in parts):
            return own
        sections = [(of or _BARE)[0]._replace(compares=how, limit=limit) for how, limit, of in parts]
        return Format(sections=(*sections, *(own.sections or _BARE)))

    def _look_up(self, style: str) -> Format:
        for _ in range(_DEPTH_MAX):
            data, parent = self._cells.get(style, ("", ""))
            if data:
                return self._data.get(data, GENERAL)
            style = parent
        return GENERAL

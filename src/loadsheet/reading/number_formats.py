"""Number formats of workbooks: turn a stored number into a number, a date, a time, or the digits and words that the sender sees.

Pure. openpyxl knows which formats are dates. The arithmetic of both date systems, exact to the second, is here. The words around
a number can hold its unit, as in `27 lb` for 27 in `0" lb"` or `1.5 t` for 1500 in `0.0," t"`. Currencies (`[$USD]`, `€`) do not
count as words: a price is the same number with and without one, so they are kept apart. Source: ECMA-376, part 1, 18.8.31.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from openpyxl.styles.numbers import BUILTIN_FORMATS, STRIP_RE, is_date_format, is_timedelta_format

from loadsheet.reading.tables import Native

_PIECE = re.compile(
    r"\"(?P<quoted>[^\"]*)\"|\\(?P<escaped>.)"
    r"|\[(?P<compares><=|>=|<>|<|>|=)\s*(?P<limit>-?[0-9]+(?:\.[0-9]+)?)\s*\]"
    r"|\[\$(?P<currency>[^\]-]+)[^\]]*\]"
    r"|(?P<dress>\[[^\]]*\]|[_*].)"
    r"|(?P<general>general|standard)"
    r"|(?P<digits>[0#?.,/]+(?:e[+-][0#?]+)?)"
    r"|(?P<ends>;)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_NUMBER = frozenset("%@")  # displays a hundred times the number, or a text
_SIGNS = frozenset("-(")
_WORD = re.compile(r"[^\W\d_]|[\"'″]")
_SCALED = re.compile(r"(?<=[0#?])(,+)(?:\.[0#?]*)?$|(?<=[0#?])(,+)$")
_COMPARES: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne,
}  # fmt: skip
_SECTIONS_MAX = 4


class Section(NamedTuple):
    """A section of a number format: its condition (comparison and limit; empty: by position), how often the displayed number is
    divided by 1,000, the words around it, and all texts around it if one is a currency (otherwise empty).
    """

    compares: str = ""
    limit: Decimal = Decimal(0)
    thousands: int = 0
    before: str = ""
    after: str = ""
    priced: tuple[str, str] | tuple[()] = ()

    @property
    def has_words(self) -> bool:
        """Whether the words can be a unit: letters, or the signs of feet and inches."""
        return bool(_WORD.search(self.before) or _WORD.search(self.after))

    def without(self, currency: str) -> "Section":
        """The section without this currency in its words (empty: only those in its words). `priced` keeps the texts with any currency."""
        if not currency and not any(unicodedata.category(letter) == "Sc" for letter in self.before + self.after):
            return self
        before, after = (text.replace(currency, "") for text in (self.before, self.after))
        return self._replace(before=before, after=after, priced=(self.before, self.after))


_BARE = Section()


def sections_of(code: str) -> tuple[Section, ...]:
    """The sections of a number format; none if no section has words or a currency."""
    pieces: list[list[re.Match[str]]] = [[]]
    for piece in _PIECE.finditer(code):
        if piece["ends"]:
            pieces.append([])
        else:
            pieces[-1].append(piece)
    sections = tuple(_section(part) for part in pieces[:_SECTIONS_MAX])
    return sections if any(section.has_words or section.priced for section in sections) else ()


def with_words(number: str, sections: tuple[Section, ...]) -> Native:
    """The cell of a number with its words and its currency, with all digits."""
    value = Decimal(number)
    section = _section_for(value, sections)
    writes_sign = len(sections) > 1 and not _SIGNS.isdisjoint(section.before)
    shown = abs(value) if writes_sign else value
    if section.thousands:
        shown = shown.scaleb(-3 * section.thousands).normalize()
    words = f"{section.before}{shown:f}{section.after}" if section.has_words else None
    if not section.priced:
        return Native(number, "number", words)
    before, after = section.priced
    return Native(number, "number", words, f"{before if value else before.replace('-', '')}{shown:f}{after}".strip())


def _section(pieces: list[re.Match[str]]) -> Section:
    before, digits, after, compares, limit = "", "", "", "", Decimal(0)
    currency = ""
    for piece in pieces:
        currency = piece["currency"] or currency
        text = piece["currency"] or piece["quoted"] or piece["escaped"] or piece["other"] or ""
        if piece["limit"]:
            compares, limit = piece["compares"], Decimal(piece["limit"])
        elif piece["general"] or piece["digits"]:
            if after.strip():  # a number in several parts, such as 5 ft 10 in
                return Section(compares, limit)
            digits, after = digits + piece[0], ""
        elif piece["other"] in _OTHER_NUMBER:
            return Section(compares, limit)
        elif digits:
            after += text
        else:
            before += text
    scaled = _SCALED.search(digits)
    thousands = len(scaled[1] or scaled[2]) if scaled else 0
    return Section(compares, limit, thousands, before, after).without(currency) if digits else Section(compares, limit)


def _section_for(value: Decimal, sections: tuple[Section, ...]) -> Section:
    if any(section.compares for section in sections):
        fits = (part for part in sections if not part.compares or _COMPARES[part.compares](value, part.limit))
        return next(fits, _BARE)
    positive, negative, zero = sections[:1], sections[1:2], sections[2:3]
    own = negative if value < 0 else positive if value else zero
    return (own or positive)[0]


_DAY = 86_400
_PLAIN = re.compile(r"-?[1-9][0-9]*|0|-?(0|[1-9][0-9]*)\.[0-9]*[1-9]")
_PLAIN_LENGTH = 16  # 15 digits and a point: exact in a double
_DIGITS_MAX, _DIGITS_OF_A_RESULT = 15, 12
"""The most digits that spreadsheet programs display; the most digits of a calculated result, beyond which they are rounding noise."""
_TEXT_LENGTH_MAX = 400
CODE_LENGTH_MAX = 255
"""Longer format codes are ignored: no spreadsheet program writes them, and their texts would be repeated in every cell."""

_INTEGER = re.compile(r"-?[0-9]{1,300}")
_EASTERN_DATES = {*range(27, 37), *range(50, 59)}  # built-in formats of East Asian Excel; openpyxl does not know them
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECORATION = re.compile(
    r"(\"[^\"]*\"|\\.)"
    r"|\[(?:\$-[^\]]*|black|blue|cyan|green|magenta|red|white|yellow|color ?[0-9]+)\]|[_*].",
    re.IGNORECASE,
)  # languages, colours, padding and fill characters are removed; texts of the format stay
_FIRST = re.compile(r"(?:\"[^\"]*\"|\\.|[^;])*", re.DOTALL)
_LITERAL = re.compile(r"\"([^\"]*)\"|\\(.)")
_DIGIT_PATTERN = re.compile(
    r"((?:\"[^\"]*\"|\\.)*)"
    r"(0(?:[0\- ()]|\\[- ()]|\"[- ()]+\")*0)"
    r"((?:\"[^\"]*\"|\\.)*)"
)  # texts of the format are in quotes, single letters after a backslash
_FALSE_LEAP_DAY = 60  # Excel counts 29 February 1900, as Lotus did
_LAST_SERIAL = 2_958_465  # 31 December 9999 in the 1900 system
_EPOCH_1900, _EPOCH_1904 = date(1899, 12, 30), date(1904, 1, 1)
_BETWEEN_EPOCHS = 1_462  # days


@dataclass(frozen=True, slots=True)
class Format:
    """The relevant parts of a number format. `digits` is a pattern such as `00000` or `00000-0000`, else empty. `before` and `after`
    are the texts around these digits, as in `"D-"00000`. `sections` are for other numbers that are displayed with words.
    """

    is_date: bool = False
    shows_date: bool = False
    shows_time: bool = False
    is_duration: bool = False
    digits: str = ""
    before: str = ""
    after: str = ""
    sections: tuple[Section, ...] = ()


GENERAL = Format()


def read_formats(elements: Iterable[tuple[str, dict[str, str]]]) -> list[Format]:
    """The format of each cell style, in order, from the elements of a workbook's styles part."""
    codes: dict[str, str] = {}
    styles: list[str] = []
    in_cell_styles = False
    for tag, attributes in elements:
        if tag == "numFmt":
            codes.setdefault(attributes.get("numFmtId", ""), attributes.get("formatCode", ""))
        elif tag in ("cellXfs", "cellStyleXfs", "cellStyles", "dxfs"):
            in_cell_styles = tag == "cellXfs"
        elif tag == "xf" and in_cell_styles:
            styles.append(attributes.get("numFmtId", "0"))
    known = {number: format_of(number, codes) for number in set(styles)}
    return [known[number] for number in styles]


_LISTS_OF_STYLES = frozenset({"fonts", "fills", "cellXfs", "cellStyleXfs", "cellStyles", "dxfs"})


def struck_styles(elements: Iterable[tuple[str, dict[str, str]]]) -> frozenset[int]:
    """The positions of the cell styles whose texts are struck out, from the elements of a workbook's styles part."""
    among, font, struck = "", -1, set[str]()
    fonts: list[str] = []
    for tag, attributes in elements:
        if tag in _LISTS_OF_STYLES:
            among = tag
        elif among == "fonts" and tag == "font":
            font += 1
        elif among == "fonts" and tag == "strike" and attributes.get("val", "1") not in ("0", "false", "off"):
            struck.add(str(font))
        elif among == "cellXfs" and tag == "xf":
            fonts.append(attributes.get("fontId", "0"))
    return frozenset(style for style, its_font in enumerate(fonts) if its_font in struck)


def format_of(number: str, codes: Mapping[str, str]) -> Format:
    """The format with this number, from the workbook's own codes or else the built-in ones."""
    if number in codes:
        return parse_format(codes[number])
    place = int(number) if number.isdecimal() else 0
    code = "yyyy-mm-dd" if place in _EASTERN_DATES else BUILTIN_FORMATS.get(place, "General")
    return parse_format(code.replace('"$"', ""))  # these show the currency of the computer


def parse_format(code: str) -> Format:
    """Parse a format code as a workbook stores it (always in English)."""
    found = _FIRST.match(code)
    first = found[0] if found is not None else ""
    stripped = STRIP_RE.sub("", first)  # openpyxl ends the section at a semicolon within a text
    if first.strip().lower() in ("", "general", "standard", "@") and ";" not in code:
        return GENERAL
    if is_date_format(stripped):
        bare = re.sub(r"\\.", "", stripped).lower()
        shows_time = any(letter in bare for letter in "hs")
        shows_date = any(letter in bare for letter in "dy") or ("m" in bare and not shows_time)
        return Format(
            is_date=True, shows_date=shows_date, shows_time=shows_time, is_duration=is_timedelta_format(stripped)
        )
    if len(code) > CODE_LENGTH_MAX:
        return GENERAL
    found = _DIGIT_PATTERN.fullmatch(_DECORATION.sub(r"\1", first).strip())
    if found is None:
        sections = sections_of(code)
        return Format(sections=sections) if sections else GENERAL
    before, digits, after = (_LITERAL.sub(r"\1\2", part) for part in found.groups())
    return Format(digits=digits, before=before, after=after)


def read_number(text: str, number_format: Format, *, from_1904: bool) -> Native:
    """The cell of a stored number. Whole numbers keep their stored digits. Other numbers get the shortest decimal of the same
    binary number, without rounding noise. A date outside the calendar becomes a plain number, an invalid text an error cell.
    """
    number = plain_number(text)
    if number is None:
        return Native("#NUM!", "error")
    if number_format.is_date and (cell := _moment(number, number_format, from_1904=from_1904)):
        return cell
    if number_format.digits and number.isdecimal():
        return Native(
            number, "number", f"{number_format.before}{_in_digits(number, number_format.digits)}{number_format.after}"
        )
    return with_words(number, number_format.sections) if number_format.sections else Native(number, "number")


def plain_number(text: str) -> str | None:
    """A number as a workbook stores it (`1.4472964467E9`) in plain digits (`1447296446.7`); None if it is not a finite number."""
    if len(text) <= _PLAIN_LENGTH and _PLAIN.fullmatch(text):
        return text
    if _INTEGER.fullmatch(text):
        return str(int(text))
    if len(text) > _TEXT_LENGTH_MAX or not _REAL.fullmatch(text) or not isfinite(number := float(text)):
        return None
    plain = f"{_without_noise(number):f}"
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain == "-0" else plain


def _without_noise(number: float) -> Decimal:
    """A number in its shortest digits, or as spreadsheet programs display it if the other digits are rounding noise: 0.1 + 0.2 is
    stored as 0.30000000000000004, 4.35 * 100 as 434.99999999999994.
    """
    exact = Decimal(repr(number))
    if len(exact.as_tuple().digits) <= _DIGITS_MAX or number.is_integer():
        return exact
    shown = Decimal(f"{number:.{_DIGITS_MAX}g}").normalize()
    return shown if len(shown.as_tuple().digits) <= _DIGITS_OF_A_RESULT else exact


def _moment(number: str, number_format: Format, *, from_1904: bool) -> Native | None:
    """A serial number as date, time or both, rounded to the second; None if it is outside the calendar."""
    serial = float(number)
    if not 0 <= serial <= _LAST_SERIAL + 1:
        return None
    days, rest = divmod(round(serial * _DAY), _DAY)
    if number_format.is_duration:
        return duration(number, days * _DAY + rest)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    # a program that adds a day to times of day, such as 1.333 for 8:00, still shows 8:00
    is_on_day_1 = 1 < serial < 2 and rest and not number_format.shows_date
    if is_on_day_1 or (serial < 1 and (not number_format.shows_date or (rest and not from_1904))):
        return Native(clock, "time")
    day = _day(days, from_1904=from_1904)
    if day and (rest or number_format.shows_time):
        return Native(f"{day} {clock}", "datetime")
    return Native(day, "date") if day else None


@lru_cache(maxsize=4096)
def _day(days: int, *, from_1904: bool) -> str:
    """The ISO date of a serial day; empty if it has none."""
    if from_1904:
        return (_EPOCH_1904 + timedelta(days)).isoformat() if days <= _LAST_SERIAL - _BETWEEN_EPOCHS else ""
    if days in (0, _FALSE_LEAP_DAY) or days > _LAST_SERIAL:
        return ""
    return (_EPOCH_1900 + timedelta(days + (days < _FALSE_LEAP_DAY))).isoformat()


def duration(number: str, seconds: int) -> Native:
    """Elapsed time: a time of day up to 24 hours, as `24:00` is the end of the day, else the number of days, displayed in hours."""
    hours, rest = divmod(seconds, 3600)
    clock = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return Native(clock, "time") if seconds <= _DAY else Native(number, "number", clock)


def _in_digits(number: str, pattern: str) -> str:
    """The digits of a whole number filled into a pattern from the right, as Excel displays it; surplus digits stay in front."""
    digits = list(number)
    shown = [(digits.pop() if digits else "0") if place == "0" else place for place in reversed(pattern)]
    return "".join([*digits, *reversed(shown)])

"""The shape of a cell: a number of some digits, a date in some style, or a text with signs of damage. Pure: no cell is changed."""

import re
from functools import lru_cache
from typing import NamedTuple

from loadsheet.reading.tables import INVISIBLE

_MONTH = (
    r"(?:jan(?:uary?|uari|uar|v(?:ier)?)?|jän(?:ner)?|feb(?:ruary|ruar|ruari|braio)?|févr?(?:ier)?|m[aä]r(?:ch|z|s|zo|t)?|mrz|mrt|maart"
    r"|apr(?:il|ile)?|avr(?:il)?|ma[iyj]|june?|jui?n|juni|jui?l|july|juli|juillet|aug(?:ust|ustus)?|août|sept?(?:ember|embre)?"
    r"|o[ck]t(?:ober|obre)?|nov(?:ember|embre)?|de[cz](?:ember|embre)?|déc(?:embre)?)\.?"
)
_SHAPES = re.compile(
    r"(?P<exponent>[0-9](?:[.,][0-9]+)?[eE]\+[0-9]{1,3})"
    r"|(?P<decimal>[+-]?[0-9]{1,3}(?:[.,' \u00a0][0-9]{3})*[.,][0-9]+|[+-][0-9]+|[0-9]+[.,][0-9]+)"
    r"|(?P<year_first>[0-9]{4}(?P<mark>[-/.])[0-9]{1,2}(?P=mark)[0-9]{1,2}(?:[T ].*)?)"
    r"|(?P<parts>(?P<first>[0-9]{1,2})(?P<between>[-/.])(?P<second>[0-9]{1,2})(?P=between)(?P<year>[0-9]{4}|[0-9]{2})(?: .*)?)"
    rf"|(?P<named>[0-9]{{1,2}}[-. /]{{1,2}}{_MONTH}[-. /]{{1,2}}[0-9]{{2,4}}(?: .*)?)"
    rf"|(?P<shortened>[0-9]{{1,2}}[-.] ?{_MONTH}|{_MONTH}[- ][0-9]{{2}})",
    re.IGNORECASE,
)
_NO_BREAK = re.compile("[\u00a0\u2007\u202f\u2010\u2011]")
_MONTHS, DIGITS_KEPT = 12, 15
_NO_LETTER = re.compile("[\ufffd\x80-\x9f]")  # \x80-\x9f: Windows quotes and dashes, decoded in another code page


class Shape(NamedTuple):
    """The shape of a cell: its kind, with the number of digits (none for a number cell that lost some) or the date style."""

    kind: str
    detail: str = ""


_TEXT, FRACTION, _REAL_DATE, _OTHER = Shape("text"), Shape("number"), Shape("real date"), Shape("other")
_GARBLED, _INVISIBLE, _UNBROKEN, ALIKE = Shape("garbled"), Shape("invisible"), Shape("no-break"), Shape("alike")

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
    if cell.isascii():
        return (shape,)
    garbled = _NO_LETTER.search(cell) or repair_encoding(text) != text
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


def repair_encoding(text: str) -> str:
    """The text before UTF-8 was decoded as a Western code page, or Windows-1252 as Latin-1; the same text if neither happened."""
    for read_as, written_in in (("cp1252", "utf-8"), ("latin-1", "utf-8"), ("latin-1", "cp1252")):
        try:
            return text.encode(read_as).decode(written_in)
        except UnicodeError:
            continue
    return text

"""What cells look like, by which damage is found: digits of some number, dates of some style, text, text in a wrong encoding.

Pure. Nearly all texts of a long column have one of few outlines (which places hold digits, which letters), and most outlines tell the
shape of all texts that have them: then only one of them is looked at. Texts whose outline does not tell enough are looked at each.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

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
_INVISIBLE_CHARACTERS = re.compile("[\u00ad\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_MONTHS, DIGITS_KEPT = 12, 15
_MONTHS_BEGIN = {"jan", "feb", "mar", "mär", "mrz", "apr", "mai", "may", "maj", "jun", "jui", "jul", "aug", "sep"} | {
    *("oct", "okt", "nov", "dec", "dez", "fév", "avr", "aoû", "déc")
}
_NO_LETTER = re.compile(
    "[\ufffd\x80-\x9f]"
)  # the latter are quotes and dashes of Windows in a code page that has none there


class Shape(NamedTuple):
    """What a cell looks like: its kind, and for digits their number (none for a number cell that lost some), for dates the style they are written in."""

    kind: str
    detail: str = ""


_TEXT, FRACTION, _REAL_DATE, _OTHER = Shape("text"), Shape("number"), Shape("real date"), Shape("other")
_GARBLED, _INVISIBLE = Shape("garbled"), Shape("invisible")
_FEW = 200  # distinct cells are looked at one by one
_LONG = 2_000_000  # and so are texts that have more letters together: they would be copied several times

Key = str | tuple[str, str]
"""A cell as it is counted: a text, or the kind of a typed cell and how it is shown."""


class ShapeGroup(NamedTuple):
    """Cells that have the same shapes: what they are counted by, how many times it is there, the first of them, and the shapes."""

    name: Key | bytes
    times: int
    example: str
    shapes: tuple[Shape, ...]


def group_by_shape(cells: Sequence[Key]) -> tuple[Sequence[Key | bytes], Iterator[ShapeGroup]]:
    """For each cell of a column by what it is counted, and the cells that are counted together, by their first ones."""
    distinct = Counter(cells)
    texts, outlines = _outlined(cells, distinct) if len(distinct) > _FEW else ((), [])
    if not outlines:
        return cells, (_of_one(key, times) for key, times in distinct.items())
    first = dict(zip(reversed(outlines), reversed(texts), strict=True))
    each: Any = outlines
    if len(texts) < len(cells):
        coming = iter(outlines)
        each = [next(coming) if isinstance(cell, str) else cell for cell in cells]
    if varied := {outline for outline in first if not _determines_shape(outline)}:
        each = [cell if name in varied else name for cell, name in zip(cells, each, strict=True)]
    return each, (
        ShapeGroup(name, times, first[name], text_shapes(first[name]))
        if isinstance(name, bytes)
        else _of_one(name, times)
        for name, times in Counter(each).items()
    )


def _of_one(key: Key, times: int) -> ShapeGroup:
    if isinstance(key, str):
        return ShapeGroup(key, times, key, text_shapes(key))
    return ShapeGroup(key, times, key[1], (_native_shape(*key),))


def _outlined(cells: Sequence[Key], distinct: Iterable[Key]) -> tuple[Sequence[str], list[bytes]]:
    """The texts among the cells, and each of them with its signs replaced by what they are: `0` a digit, `z` a zero that it begins with,
    `T` that letter, `a` any other one, `u` what is not ASCII. No outlines if they are too long, or one holds the sign that joins them.
    """
    texts: Any = cells if set(map(type, distinct)) == {str} else [cell for cell in cells if isinstance(cell, str)]
    if sum(map(len, texts)) > _LONG:
        return (), []
    joined = "\n".join(("", *texts)).encode("utf-8", "surrogatepass")
    outlines = joined.replace(b"\n0", b"\n\xff").translate(_SIGNS).split(b"\n")[1:]
    return texts, outlines if len(outlines) == len(texts) else []


def _signs() -> bytes:
    table = bytearray(range(256))
    for sign in range(256):
        if chr(sign).isdecimal():
            table[sign] = ord("0")
        elif chr(sign).isascii() and chr(sign).isalpha():
            table[sign] = ord("T" if sign in b"Tt" else "a")
        elif sign > 127 or 0x1C <= sign < 0x20:  # noqa: PLR2004 (bytes of other signs, and what only some take for blank)
            table[sign] = ord("u")
    table[0xFF] = ord("z")  # stands in no UTF-8
    return bytes(table)


_SIGNS = _signs()
_YEAR_FIRST = re.compile(rb"\s*[z0]000(?P<mark>[-/.])00?(?P=mark)00?(?:[T ].*)?", re.DOTALL)
_VARIED = re.compile(
    rb"\s*[z0]?0{15,}\s*"  # the last digits count
    rb"|\s+0+\s*"  # whether it begins with a zero is not seen
    rb"|\s*[z0]0?([-/.])00?\1.*"  # which number is a day
    rb"|\s*[z0].*[aT].*"  # an exponent, a month
    rb"|\s*[aT]+\.?[- ]00\s*",
    re.DOTALL,
)


def _determines_shape(outline: bytes) -> bool:
    """Whether all texts of this outline have the same shapes."""
    return b"u" not in outline and bool(_YEAR_FIRST.fullmatch(outline) or not _VARIED.fullmatch(outline))


def _native_shape(kind: str, shown: str) -> Shape:
    """What a typed cell looks like."""
    if kind == "number":
        return _digits_shape(shown, "number") if shown.isdecimal() else FRACTION
    return _REAL_DATE if kind in ("date", "datetime") else _OTHER


def text_shapes(cell: str) -> tuple[Shape, ...]:
    """What a text looks like; a blank one like nothing."""
    text = cell.strip()
    if not text:
        return ()
    if text.isdecimal():
        shape = _digits_shape(text, "digits")
    elif text[0].isalpha() and text[:3].lower() not in _MONTHS_BEGIN:  # most texts; the pattern costs more
        shape = _TEXT
    else:
        found = _SHAPES.fullmatch(text)
        shape = _matched_shape(found) if found else _TEXT
    if cell.isascii():
        return (shape,)
    garbled = _NO_LETTER.search(cell) or repair_encoding(text) != text
    return (shape, *((_GARBLED,) if garbled else ()), *((_INVISIBLE,) if _INVISIBLE_CHARACTERS.search(text) else ()))


def _digits_shape(text: str, kind: str) -> Shape:
    if kind == "number" and len(text.lstrip("0")) > DIGITS_KEPT:  # what made a number of it kept no more of them
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
    """How a date of three numbers is written; where day and month could change places, that is a style of its own."""
    mark, years = found["between"], "Y" * len(found["year"])
    if mark == ".":
        return f"D.M.{years}"
    if int(found["first"]) > _MONTHS:
        return f"D{mark}M{mark}{years}"
    if int(found["second"]) > _MONTHS:
        return f"M{mark}D{mark}{years}"
    return f"?{mark}?{mark}{years}"


def repair_encoding(text: str) -> str:
    """The text as it was before UTF-8 was read as a Western code page, or that of Windows as that of the standard; the same text
    if it was not.
    """
    for read_as, written_in in (("cp1252", "utf-8"), ("latin-1", "utf-8"), ("latin-1", "cp1252")):
        try:
            return text.encode(read_as).decode(written_in)
        except UnicodeError:
            continue
    return text

"""The words that a number format puts around a number: `27 lb` of 27 in `0" lb"`, `1.5 t` of 1500 in `0.0," t"`.

Pure. A cell so formatted says its unit to everybody who sees the sheet, but holds the bare number; currencies (`[$USD]`, `€`) are no such
words. Source: ECMA-376, part 1, 18.8.31.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

_PIECE = re.compile(
    r"\"(?P<quoted>[^\"]*)\"|\\(?P<escaped>.)"
    r"|\[(?P<compares><=|>=|<>|<|>|=)\s*(?P<limit>-?[0-9]+(?:\.[0-9]+)?)\s*\]"
    r"|(?P<dress>\[[^\]]*\]|[_*].)"
    r"|(?P<general>general|standard)"
    r"|(?P<digits>[0#?.,/]+(?:e[+-][0#?]+)?)"
    r"|(?P<ends>;)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_NUMBER = frozenset("%@")  # what is shown is a hundred times the number, or a text
_SIGNS = frozenset("-(")
_WORD = re.compile(r"[^\W\d_]|[\"'″]")
_SCALED = re.compile(r"(?<=[0#?])(,+)(?:\.[0#?]*)?$|(?<=[0#?])(,+)$")
_COMPARES: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne,
}  # fmt: skip
_SECTIONS_MAX = 4


class Section(NamedTuple):
    """A section of a number format: the numbers it is for (a comparison and its limit; none: by its place), how many times the number is
    divided by 1,000 to be shown, and the words around it.
    """

    compares: str = ""
    limit: Decimal = Decimal(0)
    thousands: int = 0
    before: str = ""
    after: str = ""

    @property
    def has_words(self) -> bool:
        """Whether anything stands there that may be a unit: letters, or the signs of feet and inches."""
        return bool(_WORD.search(self.before) or _WORD.search(self.after))


_BARE = Section()


def sections_of(code: str) -> tuple[Section, ...]:
    """The sections of a number format; none if it shows no number with words."""
    pieces: list[list[re.Match[str]]] = [[]]
    for piece in _PIECE.finditer(code):
        if piece["ends"]:
            pieces.append([])
        else:
            pieces[-1].append(piece)
    sections = tuple(_section(part) for part in pieces[:_SECTIONS_MAX])
    return sections if any(section.has_words for section in sections) else ()


def worded(number: str, sections: tuple[Section, ...]) -> str:
    """A number in plain digits as it is seen, all digits of it, with its words; empty if it is seen without any."""
    value = Decimal(number)
    section = _chosen(value, sections)
    if not section.has_words:
        return ""
    writes_sign = len(sections) > 1 and not _SIGNS.isdisjoint(section.before)
    shown = abs(value) if writes_sign else value
    if section.thousands:
        shown = shown.scaleb(-3 * section.thousands).normalize()
    return f"{section.before}{shown:f}{section.after}"


def _section(pieces: list[re.Match[str]]) -> Section:
    before, digits, after, compares, limit = "", "", "", "", Decimal(0)
    for piece in pieces:
        said = piece["quoted"] or piece["escaped"] or piece["other"] or ""
        if piece["limit"]:
            compares, limit = piece["compares"], Decimal(piece["limit"])
        elif piece["general"] or piece["digits"]:
            if after.strip():  # a number in parts, such as 5 ft 10 in, has no words around it
                return Section(compares, limit)
            digits, after = digits + piece[0], ""
        elif piece["other"] in _OTHER_NUMBER:
            return Section(compares, limit)
        elif digits:
            after += said
        else:
            before += said
    scaled = _SCALED.search(digits)
    thousands = len(scaled[1] or scaled[2]) if scaled else 0
    return Section(compares, limit, thousands, before, after) if digits else Section(compares, limit)


def _chosen(value: Decimal, sections: tuple[Section, ...]) -> Section:
    if any(section.compares for section in sections):
        fits = (one for one in sections if not one.compares or _COMPARES[one.compares](value, one.limit))
        return next(fits, _BARE)
    above, below, zero = sections[:1], sections[1:2], sections[2:3]
    of_its_own = below if value < 0 else above if value else zero
    return (of_its_own or above)[0]

"""Characters that look alike: the letter O and a zero; I, l and 1; full-width digits; Cyrillic and Greek letters; dashes.

Two texts with one `skeleton` look the same to the person who typed, scanned or copied them. That is a reason to propose one for the other,
and never to take one for the other. Knows no column and no table.
"""

import re
import unicodedata
from functools import lru_cache

_REMEMBERED = 1 << 16  # texts
_LATIN = str.maketrans(
    "АВЕКМНОРСТУХІЈЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",  # noqa: RUF001 (Cyrillic, then Greek)
    "ABEKMHOPCTYXIJSABEZHIKMNOPTYX",
)
_DIGITS = str.maketrans("OIL|SB", "011158")
_LEADING_ZEROS = re.compile(r"(?<![0-9])0+(?=[0-9])")
_INVISIBLE = ("Cf", "Cc")  # categories
_TWINS = {"0": "O", "O": "0", "o": "0", "1": "Il", "I": "1", "l": "1", "5": "S", "S": "5", "8": "B", "B": "8"}
_AS_TYPED = str.maketrans("OoОоΟοIl|SB，．", "000000111" + "58,.")  # noqa: RUF001 (Cyrillic, Greek and full-width ones)
_MAY_BE_WORD = re.compile(r"[SB].*|.*[SBIl|]", re.DOTALL)  # the start of a code such as B12, the unit in 10l


@lru_cache(maxsize=_REMEMBERED)
def skeleton(text: str) -> str:
    """What a text looks like. Look-alikes, case, spaces, invisible characters, dashes, and zeros at the start of a number make no difference."""
    if not text.isascii():
        text = "".join(map(_plain, unicodedata.normalize("NFKC", text)))
    bare = "".join(text.upper().translate(_LATIN).split())
    return _LEADING_ZEROS.sub("", bare.translate(_DIGITS))


def _plain(letter: str) -> str:
    category = unicodedata.category(letter)
    if category in _INVISIBLE:
        return ""
    if letter.isdecimal():
        return str(unicodedata.decimal(letter))
    return "-" if category == "Pd" or letter == "\N{MINUS SIGN}" else letter


def lookalikes(text: str) -> tuple[str, ...]:
    """Other spellings that a text may stand for: plain characters, capitals, one look-alike replaced, or all of them by digits. At most about
    two for each character. Zeros at the start of numbers are left as they are.
    """
    plain = "".join("".join(map(_plain, unicodedata.normalize("NFKC", text))).split())
    latin = plain if plain.isascii() else plain.upper().translate(_LATIN)
    found = {plain: None, latin: None, latin.upper(): None, latin.translate(_AS_TYPED): None}
    for place, letter in enumerate(latin):
        for other in _TWINS.get(letter, ""):
            found[f"{latin[:place]}{other}{latin[place + 1 :]}"] = None
    return tuple(option for option in found if option and option != text)


def digits_meant(text: str) -> str:
    """A number with its look-alikes as digits: `105` for `1O5` and `l05`. Empty if it has none, or if a letter may be a unit or the start of
    a code: `10l`, `B12`.
    """
    if not any(map(str.isdecimal, text)) or _MAY_BE_WORD.fullmatch(text):
        return ""
    digits = "".join(map(_plain, text.translate(_AS_TYPED)))
    return "" if digits == text else digits


def shape(text: str) -> str:
    """The form of a key: digits as 9, letters as A, such as AAA-99-9999 for HLT-26-0152."""
    return "".join(
        "9" if "0" <= letter <= "9" else "A" if letter.isalpha() and letter.isascii() else letter for letter in text
    )

"""Texts that a person may have meant: characters that look alike, and words within a typing error. Only shown, never applied.

Look-alikes are the letter O and a zero; I, l and 1; full-width digits; Cyrillic and Greek letters; dashes. Two texts with one `skeleton`
look the same to the person who typed, scanned or copied them.

The hint "did you mean" names the closest option to a wrong word. Names in a mapping may be several letters off. The value of a cell (`one_typo_away`)
may not: a code with another digit is another code, not a typing error. Knows no column and no table.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
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
_PROPOSAL = re.compile(r"did you mean (?:(.+?)\? It is at .+|(.+)\?)", re.DOTALL)
_MAY_BE_WORD = re.compile(r"[SB].*|.*[SBIl|]", re.DOTALL)  # the start of a code such as B12, the unit in 10l

_TEXTS_MAX = 30_000  # that are remembered, which takes 5 MB
_NEAR_LETTERS_MIN = 3  # one letter of two is half the word
_NEAR_LETTERS_MAX = 60  # the texts near a long one would fill the memory


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


class LookAlikes:
    """Finds texts that look the same among many. `first` is the text that the first one found looks like."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self.first = ""

    def add(self, text: str) -> bool:
        """Whether another text before this one looks the same."""
        if len(self._known) == _TEXTS_MAX:
            return False
        known = self._known.setdefault(skeleton(text), text)
        if known != text:
            self.first = self.first or known
        return known != text


def digits_meant(text: str) -> str:
    """A number with its look-alikes as digits: `105` for `1O5` and `l05`. Empty if it has none, or if a letter may be a unit or the start of
    a code: `10l`, `B12`.
    """
    if not any(map(str.isdecimal, text)) or _MAY_BE_WORD.fullmatch(text):
        return ""
    digits = "".join(map(_plain, text.translate(_AS_TYPED)))
    return "" if digits == text else digits


def key_shape(text: str) -> str:
    """The form of a key: digits as 9, letters as A, such as AAA-99-9999 for HLT-26-0152."""
    return "".join(
        "9" if "0" <= letter <= "9" else "A" if letter.isalpha() and letter.isascii() else letter for letter in text
    )


def nearest(name: str, patterns: Iterable[str]) -> list[str]:
    """The three file name patterns most similar to a file's name, the closest first. Folders are ignored."""
    bare = name.rpartition("/")[2].casefold()
    likeness = {one: SequenceMatcher(None, bare, one.rpartition("/")[2].casefold()).ratio() for one in patterns}
    return sorted(likeness, key=lambda pattern: -likeness[pattern])[:3]


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?` for a name, ignoring case, or an empty text."""
    by_folded = {option.casefold(): option for option in options}
    found = get_close_matches(word.casefold(), by_folded, 1)
    return f"did you mean {by_folded[found[0]]}?" if found else ""


def closest_or_known(word: str, options: Iterable[str], most: int = 30) -> str:
    """The hint `did you mean X?`, or a list of the options."""
    names = list(options)
    return did_you_mean(word, names) or f"known: {short_list(names, most) or 'none'}"


def one_typo_away(word: str, options: Iterable[str]) -> str:
    """The one option within one typing error of a value, ignoring case, or an empty text. A typing error is a letter too many, missing or
    wrong, or two neighbours swapped. Digits must agree. If no option is that close: the one option that looks the same. `options` may
    map each option to its meaning: options with the same meaning count as one.
    """
    typed, names = word.casefold(), list(options)
    found: list[str] = []
    as_long = [name for name in names if abs(len(name.casefold()) - len(typed)) <= 1]
    if as_long and _NEAR_LETTERS_MIN <= len(typed) <= _NEAR_LETTERS_MAX:
        close = _with_one_error(typed, set("".join(as_long).casefold()))
        found = [name for name in as_long if name.casefold() in close and _digits(name) == _digits(typed)]
    if not found and any(letter.isdecimal() or letter.isalpha() for letter in word):
        looks = skeleton(word)
        found = [name for name in names if skeleton(name) == looks]
    meanings = {options[name] for name in found} if isinstance(options, Mapping) else set(found)
    return found[0] if len(meanings) == 1 else ""


def did_you_mean_value(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?` for the value of a cell, or an empty text."""
    return proposal_of(one_typo_away(word, options))


def proposal_of(value: str) -> str:
    """The hint that proposes a value in place of the one in a cell; empty for an empty value."""
    return f"did you mean {value}?" if value else ""


def proposed_value(hint: str) -> str:
    """The value that a hint proposes (see `proposal_of`), perhaps with the place where it stands; empty if it proposes none."""
    found = _PROPOSAL.fullmatch(hint)
    return found[1] or found[2] if found else ""


def _with_one_error(word: str, letters: Iterable[str]) -> set[str]:
    """The word, and all texts one typing error away from it in which another letter is one of these."""
    parts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    others = {start + letter + rest for start, end in parts for letter in letters for rest in (end, end[1:])}
    return others.union(*((start + end[1:], start + end[1::-1] + end[2:]) for start, end in parts))


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())


def short_list(options: Iterable[str], most: int = 8) -> str:
    """The options as a short list: `a, b, c` or `a, b, ... (40 in all)`."""
    names = list(options)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, ... ({len(names)} in all)"

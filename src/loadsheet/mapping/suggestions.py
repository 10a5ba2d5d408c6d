"""The hint "did you mean": the closest option to a wrong word, and options as a short list.

Names in a mapping may be several letters off. The value of a cell (`near`) may not: a code with another digit is another code, not a typing
error. The exception are characters that look alike, such as O for 0. A proposal is only shown, never applied.
"""

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches

from loadsheet.confusables import skeleton

_NEAR_LETTERS_MIN = 3  # one letter of two is half the word


def nearest(name: str, patterns: Iterable[str], most: int = 3) -> list[str]:
    """The file name patterns most similar to a file's name, the closest first. Folders are ignored."""
    bare = name.rpartition("/")[2].casefold()
    likeness = {one: SequenceMatcher(None, bare, one.rpartition("/")[2].casefold()).ratio() for one in patterns}
    return sorted(likeness, key=lambda pattern: -likeness[pattern])[:most]


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?` for a name, ignoring case, or an empty text."""
    by_folded = {option.casefold(): option for option in options}
    found = get_close_matches(word.casefold(), by_folded, 1)
    return f"did you mean {by_folded[found[0]]}?" if found else ""


def closest_or_known(word: str, options: Iterable[str], most: int = 30) -> str:
    """The hint `did you mean X?`, or a list of the options."""
    names = list(options)
    return did_you_mean(word, names) or f"known: {some(names, most) or 'none'}"


def near(word: str, options: Iterable[str]) -> str:
    """The one option within one typing error of a value, ignoring case, or an empty text. A typing error is a letter too many, missing or
    wrong, or two neighbours swapped. Digits must agree. If no option is that close: the one option that looks the same. `options` may
    map each option to its meaning: options with the same meaning count as one.
    """
    typed, names = word.casefold(), list(options)
    found: list[str] = []
    if len(typed) >= _NEAR_LETTERS_MIN:
        close = _with_one_error(typed, set("".join(names).casefold()))
        found = [name for name in names if name.casefold() in close and _digits(name) == _digits(typed)]
    if not found and any(letter.isdecimal() or letter.isalpha() for letter in word):
        looks = skeleton(word)
        found = [name for name in names if skeleton(name) == looks]
    meanings = {options[name] for name in found} if isinstance(options, Mapping) else set(found)
    return found[0] if len(meanings) == 1 else ""


def did_you_mean_value(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?` for the value of a cell, or an empty text."""
    option = near(word, options)
    return f"did you mean {option}?" if option else ""


def _with_one_error(word: str, letters: Iterable[str]) -> set[str]:
    """The word, and all texts one typing error away from it in which another letter is one of these."""
    parts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    others = {start + letter + rest for start, end in parts for letter in letters for rest in (end, end[1:])}
    return others.union(*((start + end[1:], start + end[1::-1] + end[2:]) for start, end in parts))


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())


def some(options: Iterable[str], most: int = 8) -> str:
    """The options as a short list: `a, b, c` or `a, b, ... (40 in all)`."""
    names = list(options)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, ... ({len(names)} in all)"

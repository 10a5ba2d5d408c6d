"""The hint "did you mean": the closest of the names that exist, or nothing.

Names that the author of a mapping writes (`closest`) may be several letters off. A value of a cell
(`near`) may not: a code that differs in a digit is another code, not a typing error. A proposal is only ever shown, never applied.
"""

from collections.abc import Iterable, Mapping

from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

_CLOSE_ENOUGH = 60  # of 100; below it proposals confuse more than they help
_NEAR_LETTERS_MIN = 3  # one letter of two is half the word


def closest(word: str, options: Iterable[str]) -> str:
    """The option most like `word`, ignoring case, or an empty text if none is like it."""
    by_folded = {option.casefold(): option for option in options}
    found = process.extractOne(word.casefold(), by_folded.keys(), scorer=fuzz.ratio, score_cutoff=_CLOSE_ENOUGH)
    return by_folded[found[0]] if found else ""


def nearest(name: str, patterns: Iterable[str], most: int = 3) -> list[str]:
    """The file name patterns most like a file's name, the closest first; folders are ignored."""
    bare = name.rpartition("/")[2].casefold()
    likeness = {pattern: fuzz.ratio(bare, pattern.rpartition("/")[2].casefold()) for pattern in patterns}
    return sorted(likeness, key=lambda pattern: -likeness[pattern])[:most]


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?`, or an empty text."""
    option = closest(word, options)
    return f"did you mean {option}?" if option else ""


def closest_or_known(word: str, options: Iterable[str], most: int = 30) -> str:
    """The hint `did you mean X?`, or else the options that there are."""
    names = list(options)
    return did_you_mean(word, names) or f"known: {some(names, most) or 'none'}"


def near(word: str, options: Iterable[str]) -> str:
    """The one option that a value is within one typing error of, ignoring case, or an empty text: one letter too many, missing or wrong, or
    two neighbours swapped. Digits must agree. `options` may be a mapping to what each means: options that mean the same are one.
    """
    typed, names = word.casefold(), list(options)
    if len(typed) < _NEAR_LETTERS_MIN:
        return ""
    folded = [name.casefold() for name in names]
    close = process.extract(typed, folded, scorer=OSA.distance, score_cutoff=1, limit=None)
    found = [names[place] for _, _, place in close if _digits(names[place]) == _digits(typed)]
    meanings = {options[name] for name in found} if isinstance(options, Mapping) else set(found)
    return found[0] if len(meanings) == 1 else ""


def did_you_mean_value(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?` for the value of a cell, or an empty text."""
    option = near(word, options)
    return f"did you mean {option}?" if option else ""


def _digits(text: str) -> str:
    return "".join(letter for letter in text if letter.isdigit())


def some(options: Iterable[str], most: int = 8) -> str:
    """The options as one short list: `a, b, c` or `a, b, ... (40 in all)`."""
    names = list(options)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, ... ({len(names)} in all)"

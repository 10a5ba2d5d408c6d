"""The hint "did you mean": the closest existing name, if any.

Names in a mapping (`closest`) may be several letters off. The value of a cell (`near`) may not: a code with another digit is another
code, not a typing error. A proposal is only shown, never applied.
"""

from collections.abc import Iterable, Mapping

from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

_CLOSE_ENOUGH = 60  # of 100; lower values give confusing proposals
_NEAR_LETTERS_MIN = 3  # one letter of two is half the word


def closest(word: str, options: Iterable[str]) -> str:
    """The option most similar to `word`, ignoring case; empty if none is similar."""
    by_folded = {option.casefold(): option for option in options}
    found = process.extractOne(word.casefold(), by_folded.keys(), scorer=fuzz.ratio, score_cutoff=_CLOSE_ENOUGH)
    return by_folded[found[0]] if found else ""


def nearest(name: str, patterns: Iterable[str], most: int = 3) -> list[str]:
    """The file name patterns most similar to a file's name, the closest first. Folders are ignored."""
    bare = name.rpartition("/")[2].casefold()
    likeness = {pattern: fuzz.ratio(bare, pattern.rpartition("/")[2].casefold()) for pattern in patterns}
    return sorted(likeness, key=lambda pattern: -likeness[pattern])[:most]


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """The hint `did you mean X?`, or an empty text."""
    option = closest(word, options)
    return f"did you mean {option}?" if option else ""


def closest_or_known(word: str, options: Iterable[str], most: int = 30) -> str:
    """The hint `did you mean X?`, or a list of the options."""
    names = list(options)
    return did_you_mean(word, names) or f"known: {some(names, most) or 'none'}"


def near(word: str, options: Iterable[str]) -> str:
    """The one option within one typing error of a value, ignoring case, or an empty text. A typing error is a letter too many, missing or
    wrong, or two neighbours swapped. Digits must agree. `options` may map each option to its meaning: options with the same meaning count
    as one.
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
    """The options as a short list: `a, b, c` or `a, b, ... (40 in all)`."""
    names = list(options)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, ... ({len(names)} in all)"

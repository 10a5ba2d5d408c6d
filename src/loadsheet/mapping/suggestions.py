"""The hint "did you mean": the closest of the names that exist, or nothing.

Owns: how close is close enough. A proposal is only ever said to a person, never applied.
"""

from collections.abc import Iterable

from rapidfuzz import fuzz, process

_CLOSE_ENOUGH = 60  # of 100; below it proposals confuse more than they help


def closest(word: str, options: Iterable[str], least: int = _CLOSE_ENOUGH) -> str:
    """The option most like `word`, ignoring case, or an empty text if none is like it: by `least` of 100."""
    by_folded = {option.casefold(): option for option in options}
    found = process.extractOne(word.casefold(), by_folded.keys(), scorer=fuzz.ratio, score_cutoff=least)
    return by_folded[found[0]] if found else ""


def nearest(name: str, patterns: Iterable[str], most: int = 3) -> list[str]:
    """The patterns of file names that are most like the name of a file, the closest first; folders count for nothing."""
    bare = name.rpartition("/")[2].casefold()
    likeness = {pattern: fuzz.ratio(bare, pattern.rpartition("/")[2].casefold()) for pattern in patterns}
    return sorted(likeness, key=lambda pattern: -likeness[pattern])[:most]


def did_you_mean(word: str, options: Iterable[str], least: int = _CLOSE_ENOUGH) -> str:
    """The hint `did you mean X?`, or an empty text."""
    option = closest(word, options, least)
    return f"did you mean {option}?" if option else ""


def some(options: Iterable[str], most: int = 8) -> str:
    """The options as one short list: `a, b, c` or `a, b, ... (40 in all)`."""
    names = list(options)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, ... ({len(names)} in all)"

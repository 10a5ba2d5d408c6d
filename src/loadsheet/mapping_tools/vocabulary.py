"""The meaning of headings and codes: a text as a set of concepts, by `vocabulary.yaml` (words in nine languages for each concept).

Phrases come before words, camel case and compounds are split, small misspellings are accepted. The contract's help texts are read in the
same way, so fields are identified by their meaning and no field name stands here. Knows no cell.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path

from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.reading import fold

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-zA-Z]{3})(?=[0-9])")
_ELIDED = re.compile(r"\b[dl]['\u2019]")  # d'enlèvement
_APART = re.compile(r"[\s_/.,;:()\[\]\-+&?!*|\"']+")
_ALIKE = 0.88  # for words of at least five letters
_PART_MIN = 4  # letters of a word that may be part of a compound
_FUZZY_MIN = 5
_LONGEST_PHRASE = 4
_PLAIN = str.maketrans(
    {"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "æ": "ae", "œ": "oe"}
)  # letters that Unicode does not take apart
SIDES = frozenset({"pickup", "delivery"})
"""The concepts that say where a place or a moment belongs."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it is understood: its concepts, the unknown words, the number of known words by language, and a number in it (`Carrier 2`;
    0: none).
    """

    concepts: frozenset[str]
    unknown: tuple[str, ...]
    languages: Counter[str]
    number: int = 0


@dataclass(frozen=True)
class Vocabulary:
    """Concepts and languages by phrase, the meaning of codes by the values that the interface names, and defaults by language and by
    country, and words without a meaning of their own, unless a phrase holds them.
    """

    phrases: Mapping[str, frozenset[str]]
    languages: Mapping[str, frozenset[str]]
    values: Mapping[str, tuple[str, ...]]
    habits: Mapping[str, Mapping[str, str]]
    countries: Mapping[str, Mapping[str, str]]
    fillers: frozenset[str]

    def read(self, text: str) -> Reading:
        """The concepts of a heading or a sentence."""
        words = words_of(text)
        concepts: set[str] = set()
        unknown: list[str] = []
        languages: Counter[str] = Counter()
        at, number = 0, 0
        while at < len(words):
            phrase, taken = self._longest(words, at)
            found = [phrase] if phrase else self._parts(words[at])
            if not found and words[at].isdecimal():
                number = int(words[at])
            elif not found and words[at] not in self.fillers:
                unknown.append(words[at])
            for known in found:
                concepts |= self.phrases[known]
                languages.update(self.languages[known])
            at += taken
        return Reading(frozenset(concepts), tuple(unknown), languages, number)

    def value_meant(self, text: str, known: tuple[str, ...]) -> str:
        """The value of the interface that a shipper's code or word means; empty if none is similar."""
        folded = fold(text)
        for value in known:
            if folded == fold(value):
                return value
        return next((meant for meant in self.values.get(folded, ()) if meant in known), "")

    def _longest(self, words: list[str], at: int) -> tuple[str, int]:
        for length in range(min(_LONGEST_PHRASE, len(words) - at), 0, -1):
            phrase = " ".join(words[at : at + length])
            if phrase in self.phrases:
                return phrase, length
        return "", 1

    def _parts(self, word: str) -> list[str]:
        """The known words in a compound (`lieferadresse`), otherwise the known word it is similar to (`recipent`)."""
        for end in range(len(word) - 2, _PART_MIN - 1, -1):
            rest = word[end:].removeprefix("s") or word[end:]
            if word[:end] in self.phrases:
                tail = next((part for part in (rest, word[end:]) if part in self.phrases), "")
                if tail or len(word) - end < _PART_MIN:
                    return [word[:end], *([tail] if tail else [])]
        if len(word) < _FUZZY_MIN:
            return []
        return get_close_matches(word, self.phrases, 1, _ALIKE)


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary of loadsheet."""
    data = read_yaml(Path(__file__).with_name("vocabulary.yaml"))
    if data.findings:
        raise data.findings[0]
    phrases: dict[str, frozenset[str]] = {}
    languages: dict[str, frozenset[str]] = {}
    for concept, by_language in data.values["concepts"].items():
        for language, words in by_language.items():
            for word in words.split(", "):
                phrase = " ".join(words_of(str(word)))
                phrases[phrase] = phrases.get(phrase, frozenset()) | {concept}
                languages[phrase] = languages.get(phrase, frozenset()) | {language}
    values: dict[str, tuple[str, ...]] = {}
    for meant, words in data.values["values"].items():
        for word in words.split(", "):
            values[fold(str(word))] = (*values.get(fold(str(word)), ()), meant)
    return Vocabulary(
        phrases,
        languages,
        values,
        data.values["habits"],
        data.values["countries"],
        frozenset(data.values["fillers"].split(", ")),
    )


@lru_cache(maxsize=4096)
def reading_of(text: str) -> Reading:
    """What a heading means."""
    return vocabulary().read(text)


def words_of(text: str) -> list[str]:
    """A text as folded words, split at camel case, before digits and at punctuation; `#` is a separate word."""
    spaced = _CAMEL.sub(" ", _ELIDED.sub("", text)).replace("#", " # ").translate(_PLAIN)
    return [word for part in _APART.split(spaced) if (word := fold(part) if part != "#" else part)]

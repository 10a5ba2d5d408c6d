"""The meaning of words: a heading, or a help text of the contract, as a set of concepts.

Owns: `vocabulary.yaml` (words in many languages for each concept) and the search for words in a text. Phrases come before words, camel
case and compounds are split, small misspellings are accepted. Fields are identified by their help text, so this module contains no
field names.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rapidfuzz import fuzz, process

from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.reading import fold

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_APART = re.compile(r"[\s_/.,;:()\[\]\-]+")
_ALIKE = 88  # of 100; for words of at least five letters
_PART_MIN = 4  # letters of a word that may be part of a compound
_FUZZY_MIN = 5
_LONGEST_PHRASE = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of a text: its concepts, the unknown words, and the number of known words by language."""

    concepts: frozenset[str]
    unknown: tuple[str, ...]
    languages: Counter[str]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Concepts and languages by phrase, the codes of values that the interface names, and defaults by language."""

    phrases: Mapping[str, frozenset[str]]
    languages: Mapping[str, frozenset[str]]
    values: Mapping[str, str]
    habits: Mapping[str, Mapping[str, str]]

    def read(self, text: str) -> Reading:
        """The concepts of a heading or a sentence."""
        words = words_of(text)
        concepts: set[str] = set()
        unknown: list[str] = []
        languages: Counter[str] = Counter()
        at = 0
        while at < len(words):
            phrase, taken = self._longest(words, at)
            found = [phrase] if phrase else self._parts(words[at])
            if not found:
                unknown.append(words[at])
            for known in found:
                concepts |= self.phrases[known]
                languages.update(self.languages[known])
            at += taken
        return Reading(frozenset(concepts), tuple(unknown), languages)

    def value_meant(self, text: str, known: tuple[str, ...]) -> str:
        """The value of the interface that a shipper's code or word means; empty if none is similar."""
        folded = fold(text)
        for value in known:
            if folded == fold(value):
                return value
        meant = self.values.get(folded, "")
        return meant if meant in known else ""

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
                tail = next((part for part in (word[end:], rest) if part in self.phrases), "")
                if tail or len(word) - end < _PART_MIN:
                    return [word[:end], *([tail] if tail else [])]
        if len(word) < _FUZZY_MIN:
            return []
        near = process.extractOne(word, self.phrases.keys(), scorer=fuzz.ratio, score_cutoff=_ALIKE)
        return [near[0]] if near else []


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
            for word in words:
                phrase = " ".join(words_of(str(word)))
                phrases[phrase] = phrases.get(phrase, frozenset()) | {concept}
                languages[phrase] = languages.get(phrase, frozenset()) | {language}
    values = {fold(str(word)): meant for meant, words in data.values["values"].items() for word in words}
    return Vocabulary(phrases, languages, values, data.values["habits"])


def words_of(text: str) -> list[str]:
    """A text as folded words, split at camel case and punctuation; `#` is a separate word."""
    spaced = _CAMEL.sub(" ", text).replace("#", " # ")
    return [word for part in _APART.split(spaced) if (word := fold(part))]

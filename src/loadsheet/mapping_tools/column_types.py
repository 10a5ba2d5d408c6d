"""What the heading and the cells of a column mean: concepts, type, date formats, unit, and the number locale of a file.

A heading, or a help text of the contract, is read as a set of concepts with `vocabulary.yaml` (words in many languages for each concept).
Phrases come before words, camel case and compounds are split, small misspellings are accepted. Fields are identified by their help
text, so this module contains no field names.

A guess about cells has counts as evidence. It is only an observation ("412 of 412 values read as %d.%m.%Y"); the author of the mapping
decides. Values are read by the same readers as in a mapping.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rapidfuzz import fuzz, process

from loadsheet.mapping.notations import format_reader, number_reader
from loadsheet.mapping.plans import CellProblem
from loadsheet.mapping.words import ALIASES, country_reader, currency_reader, unit_named, yes_no_reader, zone_reader
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.reading import Native, fold

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


# ---- guesses about cells ----

CHECK = "CHECK"  # marks a guess that the sheet does not prove
TOLERATED = 10  # one value in ten may be unreadable, and at least one: real sheets have typing errors
MEASURES = {"weight": "kg", "volume": "m**3", "length": "cm", "width": "cm", "height": "cm"}

_DATES = (
    "%d.%m.%Y",
    "%d.%m.%y",
    "%Y-%m-%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d-%b-%Y",
)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", "T%H:%M", " %I:%M %p", "T%H:%M:%S%z")
_FORMATS = tuple(f"{day}{clock}" for day in _DATES for clock in _CLOCKS)
_TIMES = ("%H:%M", "%H:%M:%S")
_DATED = re.compile(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}|^[0-9]{8}|[0-9][ -][^\W\d]{3}|[0-9]:[0-9]{2}")
_QUANTITY = re.compile(r"([+-]?[0-9][0-9.,'\s]*)([^\W\d_][\w.³*]*)?")
"""A number and the unit after it."""

_LOCALES = ("en_GB", "de_DE", "fr_FR", "sv_SE", "de_CH", "en_IN")
_LOCALE_ROWS, _LOCALE_NUMBERS = 2_000, 5_000  # limits of the search

Cells = tuple[Sequence[str], Sequence[tuple[int, tuple[str, ...]]]]
"""The labels of a table, and its rows."""

Parse = Callable[[str], Any]


class Guess(NamedTuple):
    """A guess for a column: a type of the mapping language, its keys, and the evidence in words."""

    type: str
    keys: dict[str, Any]
    evidence: str


def _enough(read: int, of: int) -> bool:
    """Whether enough values are readable for a guess."""
    return read * 2 >= of and read > 0 and of - read <= max(1, of // TOLERATED)


def guess_type(cells: Sequence[str], reading: Reading, unit: str, locale: str) -> Guess:
    """A guess for the cells below a heading that means `reading`, with this unit (empty: none) and numbers of this locale."""
    filled = [cell for cell in cells if cell.strip()]
    if not filled:
        return Guess("text", {}, "all cells are blank")
    measure = next((known for concept, known in MEASURES.items() if concept in reading.concepts), "")
    for guess in _native_type(filled), _moment_type(filled, locale):
        if guess is not None and not (measure and guess.type in {"integer", "decimal"}):
            is_moment = guess.type in {"datetime", "date", "time"}
            return guess if is_moment or not _is_text(reading, filled) else _text_type(filled)
    if measure and (guess := _quantity(filled, measure, unit, locale)):
        return guess
    if _is_text(reading, filled):
        return _text_type(filled)
    return _word_type(filled, reading, locale) or _number_type(filled, locale) or _text_type(filled)


def _is_text(reading: Reading, filled: Sequence[str]) -> bool:
    """Whether digits in this column are text, not an amount: identifiers, postcodes, telephone numbers, leading zeros."""
    names = {"id", "order", "tender", "reference", "postal", "phone", "address", "second", "code"}
    zeros = any(len(cell) > 1 and cell[0] == "0" and cell[1].isdigit() for cell in filled)
    return (bool(names & reading.concepts) and "count" not in reading.concepts) or zeros


def _text_type(filled: Sequence[str]) -> Guess:
    distinct = len(set(filled))
    return Guess("text", {}, f"{len(filled)} values, {distinct} different")


def _native_type(filled: Sequence[str]) -> Guess | None:
    """A guess for cells that a workbook stores as dates, flags or numbers."""
    kinds = Counter(cell.kind if isinstance(cell, Native) else "text" for cell in filled)
    kind, count = max(kinds.items(), key=lambda item: (item[1], item[0] != "text"))
    evidence = f"{count} of {len(filled)} values are workbook {kind}s"
    if kind in {"datetime", "date", "time"} and count * 2 >= len(filled):
        others = [cell for cell in filled if not isinstance(cell, Native)]
        if any(map(_DATED.search, others)):
            return None  # dates as text: their format must be detected
        return Guess("time" if kind == "time" else "datetime", {}, evidence + _not_dates(others))
    if not _enough(count, len(filled)):
        return None
    if kind == "flag":
        return Guess("yesno", {}, evidence)
    if kind == "number":
        whole = all("." not in cell for cell in filled)
        return Guess("integer" if whole else "decimal", {}, evidence)
    return None


def _moment_type(filled: Sequence[str], locale: str) -> Guess | None:
    texts = [cell for cell in filled if not isinstance(cell, Native)]
    native = sum(isinstance(cell, Native) and cell.kind in {"datetime", "date"} for cell in filled)
    if not texts or sum(_DATED.search(cell) is not None for cell in texts) < len(texts) / 2:
        return None
    if times := _share(texts, _TIMES, None):
        return Guess("time", {"formats": [times[0]]}, f"{times[1]} of {len(filled)} values read as {times[0]}")
    found = _formats(texts, locale or None)
    read = native + sum(count for _, count in found)
    if not found or read * 2 < len(filled):
        return None
    evidence = f"{read} of {len(filled)} values read as {' or '.join(format_ for format_, _ in found)}"
    if not _enough(read, len(filled)):
        evidence += _not_dates(
            [text for text in texts if all(_reads(format_, None)(text) is None for format_, _ in found)]
        )
    evidence += f" ({native} of them are workbook dates)" if native else ""
    formats = [format_ for format_, _ in found]
    if other := _other_way(texts, formats[0], found[0][1]):
        if _span(texts, other) < _span(texts, formats[0]):
            formats[0], other = other, formats[0]
        evidence = (
            f"{read} of {len(filled)} values read as {formats[0]}; {CHECK} day and month: {other} reads all of them too"
        )
    return Guess("datetime", {"formats": formats}, evidence)


def _not_dates(others: Sequence[str]) -> str:
    """The remark on cells among dates that are not dates."""
    return f"; {CHECK} the cells that are not dates, such as {others[0].strip()}" if others else ""


def _span(texts: Sequence[str], format_: str) -> float:
    """Seconds between the first and the last date under a format: dates of one file are mostly close together."""
    moments = [moment.replace(tzinfo=None) for text in texts if (moment := _reads(format_, None)(text)) is not None]
    return float((max(moments) - min(moments)).total_seconds()) if moments else 0.0


def _formats(texts: Sequence[str], locale: str | None) -> list[tuple[str, int]]:
    """The fewest formats that read most of the texts, best first, each with how many it reads."""
    left = list(texts)
    found: list[tuple[str, int]] = []
    while left and len(found) < 3:
        counts = {
            format_: sum(_reads(format_, locale)(text) is not None for text in left[:500]) for format_ in _FORMATS
        }
        best = max(_FORMATS, key=lambda format_: (counts[format_], -_FORMATS.index(format_)))
        if counts[best] < max(1, len(left[:500]) * 0.02):
            break
        reader = _reads(best, locale)
        rest = [text for text in left if reader(text) is None]
        if len(rest) == len(left):
            break
        found.append((best, len(left) - len(rest)))
        left = rest
    return found


_reads = cache(format_reader)


def _share(texts: Sequence[str], formats: Sequence[str], locale: str | None) -> tuple[str, int] | None:
    for format_ in formats:
        count = sum(_reads(format_, locale)(text.strip()) is not None for text in texts)
        if texts and _enough(count, len(texts)):
            return format_, count
    return None


def _other_way(texts: Sequence[str], format_: str, read: int) -> str:
    """The format with day and month swapped, if it reads as many texts. The sheet is then ambiguous."""
    other = format_.replace("%d", "%?").replace("%m", "%d").replace("%?", "%m")
    if other == format_ or other not in _FORMATS:
        return ""
    return other if sum(_reads(other, None)(text) is not None for text in texts) >= read else ""


def _quantity(filled: Sequence[str], measure: str, unit: str, locale: str) -> Guess | None:
    reads = number_reader(locale or "en_GB")
    count, units = 0, Counter[str]()
    for cell in filled:
        match = _QUANTITY.fullmatch((cell.shown if isinstance(cell, Native) else cell).strip())
        if isinstance(cell, Native) or (match and not isinstance(reads(match[1].strip()), CellProblem)):
            count += 1
            if match and match[2]:
                units[match[2]] += 1
    if not _enough(count, len(filled)):
        return None
    keys: dict[str, Any] = {"unit": measure}
    evidence = f"{count} of {len(filled)} values are numbers"
    if units:
        evidence += f", {sum(units.values())} of them with a unit ({', '.join(units)})"
    if unit and unit != unit_named(measure, {}):
        keys["from_unit"] = next(alias for alias, name in ALIASES.items() if name == unit)
    if not unit:
        evidence += f"; {CHECK} the unit {measure}: the heading has none"
    return Guess("quantity", keys, evidence)


def _word_type(filled: Sequence[str], reading: Reading, locale: str) -> Guess | None:
    tests: tuple[tuple[str, str, Parse, bool], ...] = (
        ("timezone", "names of time zones", zone_reader(), any("/" in cell for cell in filled)),
        ("currency", "currency codes", currency_reader(), "currency" in reading.concepts),
        ("country", "countries", country_reader(locale or None), "country" in reading.concepts),
        ("yesno", "yes or no", yes_no_reader(locale or None, (), ()), not all(cell.isdigit() for cell in filled)),
    )
    for type_, words, read, likely in tests:
        count = sum(not isinstance(read(cell.strip()), CellProblem) for cell in filled) if likely else 0
        if _enough(count, len(filled)):
            evidence = f"{count} of {len(filled)} values are {words}"
            return Guess(type_, {}, evidence)
    return None


def _number_type(filled: Sequence[str], locale: str) -> Guess | None:
    reads = number_reader(locale or "en_GB")
    plain = number_reader("en_GB")
    values = [(plain if isinstance(cell, Native) else reads)(cell.strip()) for cell in filled]
    numbers = [value for value in values if not isinstance(value, CellProblem)]
    if not _enough(len(numbers), len(filled)):
        return None
    whole = not any("," in cell or "." in cell for cell in filled)
    evidence = f"{len(numbers)} of {len(filled)} values are {'whole ' if whole else ''}numbers"
    return Guess("integer" if whole else "decimal", {}, evidence)


# ---- the locale of a file's numbers ----


def locale_by(tables: Sequence[Cells], language: str) -> tuple[str, str]:
    """The locale that reads most of the decimal numbers, and the evidence. `language` decides a tie."""
    texts = _decimals(tables)
    own = vocabulary().habits[language]["locale"]
    others = [*_LOCALES, *(known["locale"] for known in vocabulary().habits.values())]
    candidates = list(dict.fromkeys([own, *others]))
    numbers = {locale: _readable(texts[:_LOCALE_NUMBERS], number_reader(locale)) for locale in candidates}
    countries = _countries(tables)
    named = (
        {locale: _readable(countries, country_reader(locale)) for locale in candidates}
        if countries
        else dict.fromkeys(candidates, 0)
    )
    best = max(candidates, key=lambda locale: (numbers[locale], named[locale], -candidates.index(locale)))
    evidence = f"{numbers[best]} of {len(texts[:_LOCALE_NUMBERS])} numbers with a decimal mark are in {best} notation"
    if not texts:
        evidence = f"no number has a decimal mark; heading language: {language}"
    if countries and named[best] > named["en_GB"]:
        evidence += f", and {named[best]} of {len(countries)} countries"
    return best, evidence


def _decimals(tables: Sequence[Cells]) -> list[str]:
    return [
        match[1].strip()
        for _, rows in tables
        for _, cells in rows[:_LOCALE_ROWS]
        for cell in cells
        if not isinstance(cell, Native)
        and (match := _QUANTITY.fullmatch(cell.strip()))
        and any(mark in cell for mark in ".,")
    ]


def _readable(texts: Sequence[str], read: Callable[[str], Any]) -> int:
    return sum(not isinstance(read(text), CellProblem) for text in texts)


def _countries(tables: Sequence[Cells]) -> list[str]:
    """The cells below headings that mean a country."""
    return [
        cells[position].strip()
        for labels, rows in tables
        for position, label in enumerate(labels)
        if "country" in vocabulary().read(label).concepts
        for _, cells in rows[:_LOCALE_ROWS]
        if position < len(cells) and cells[position].strip()
    ]

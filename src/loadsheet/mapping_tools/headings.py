"""Headings: what they mean, which fields they may name, and which rows of a sheet they are.

A text is understood as a set of concepts, by `vocabulary.yaml` (words in twelve languages for each concept). Phrases come before words, camel
case, compounds and Chinese, which has no blanks, are split, small misspellings are accepted. The contract's help texts are read in the same way, so fields are identified
by their meaning and no field name stands here. A field that a column may fill is such a concept too, with its side and what its heading
may say.

The heading rows of a table are one row, or two or three whose labels are joined (`Abholung / Datum`). A row of values is never taken as a
heading: a form, and rows without headings, have none.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from itertools import zip_longest
from math import ceil
from pathlib import Path

from loadsheet.contract import DATE_SHAPES, Field, Kind, Operation, Record, When
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.reading import Native, Top, fold_label
from loadsheet.reading.header import labels_over
from loadsheet.reading.row_filters import UNITS, is_separator
from loadsheet.similar_text import one_typo_away

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-zA-Z]{3})(?=[0-9])")
_HOW_TO_FILL = re.compile(
    r"\([^()]*\b(?:obligatori[oa]|opcional|mandatory|optional|pflichtfeld|obligatoire|facultati\w+|obbligatorio)\b[^()]*\)",
    re.IGNORECASE,
)
_ELIDED = re.compile(r"\b[dl]['\u2019]")  # d'enlèvement
_APART = re.compile(r"[\s_/.,;:()\[\]\-+&?!*|\"'\uff08\uff09\uff1a\uff0f\uff0c\u3001\u3010\u3011]+")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_ALIKE = 0.88  # for words of at least five letters
_PART_MIN = 4  # letters of a word that may be part of a compound
_FUZZY_MIN = 5
_LONGEST_PHRASE = 4
_PLAIN = str.maketrans(
    {"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "æ": "ae", "œ": "oe"}
)  # letters that Unicode does not take apart
SIDES = frozenset({"pickup", "delivery"})
"""The concepts that say where a place or a moment belongs."""

TIMES = frozenset({"early", "late", "moment"})
PIECES = frozenset({"package"})  # of a number: of packages, which headings call quantity as well
PLANNED = frozenset({"estimated"})  # the only moments, where a record has no others
FREE = frozenset(
    ("code", "current", "customer", "sender", "receiver", "name", "place", "id", "reference", "first", "moment", "early", "count",
     "milestone", "package", "given", "family")
)  # fmt: skip
"""Concepts that a heading may add without meaning something else."""

_PARTIES = frozenset({"sender", "receiver"})
_EXACT = frozenset(
    {"inner", "unit", "second", "late", "chargeable", "estimated", "offset", "payer", "contact", "email", "phone"}
)  # a heading and a field have both or neither


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
    """Concepts and languages by phrase, the meaning of codes by the values that the interface names, defaults by language and by country,
    words of file names by what an operation does, headings of columns of actions, and words without a meaning of their own, unless a
    phrase holds them.
    """

    phrases: Mapping[str, frozenset[str]]
    languages: Mapping[str, frozenset[str]]
    values: Mapping[str, tuple[str, ...]]
    habits: Mapping[str, Mapping[str, str]]
    countries: Mapping[str, Mapping[str, str]]
    verbs: Mapping[str, frozenset[str]]
    action_headings: frozenset[str]
    fillers: frozenset[str]

    @cached_property
    def _by_length(self) -> Mapping[int, Sequence[tuple[str, int]]]:
        """The phrases by their number of letters, each with the letters in it."""
        found: dict[int, list[tuple[str, int]]] = {}
        for phrase in self.phrases:
            found.setdefault(len(phrase), []).append((phrase, _letters_in(phrase)))
        return found

    def read(self, text: str) -> Reading:
        """The concepts of a heading or a sentence. Whether a column must be filled, in brackets, is not read."""
        words = words_of(_HOW_TO_FILL.sub(" ", text))
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
        folded = fold_label(text)
        for value in known:
            if folded == fold_label(value):
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
        if _CHINESE.search(word):
            return self._chinese_parts(word)
        for end in range(len(word) - 2, _PART_MIN - 1, -1):
            rest = word[end:].removeprefix("s") or word[end:]
            if word[:end] in self.phrases:
                tail = next((part for part in (rest, word[end:]) if part in self.phrases), "")
                if tail or len(word) - end < _PART_MIN:
                    return [word[:end], *([tail] if tail else [])]
        if len(word) < _FUZZY_MIN:
            return []
        candidates = list(self._that_may_be(word))
        if close := get_close_matches(word, candidates, 1, _ALIKE):
            return close
        alike = [known for known in candidates if sorted(known) == sorted(word)]
        swapped = one_typo_away(word, alike)
        return [swapped] if swapped else []

    def _that_may_be(self, word: str) -> Iterator[str]:
        """The phrases that are not too long, too short or of too many other letters to be similar to a word: few, because comparing is slow."""
        length, letters = len(word), _letters_in(word)
        for other in range(ceil(length * _ALIKE / (2 - _ALIKE)), int(length * (2 - _ALIKE) / _ALIKE) + 1):
            apart = length - _ALIKE * (length + other) / 2
            yield from (known for known, its in self._by_length.get(other, ()) if (letters & ~its).bit_count() <= apart)

    def _chinese_parts(self, word: str) -> list[str]:
        """The known words in a text without blanks, the longest first from left to right."""
        found, at = list[str](), 0
        while at < len(word):
            known = (word[at:end] for end in range(len(word), at, -1) if word[at:end] in self.phrases)
            part = next(known, "")
            found += [part] if part else []
            at += len(part) or 1
        return found


def _letters_in(text: str) -> int:
    """The letters of a text as bits; two letters may share one."""
    found = 0
    for letter in text:
        found |= 1 << ord(letter) % 64
    return found


@cache
def vocabulary() -> Vocabulary:
    """The vocabulary of loadsheet."""
    data = read_yaml(Path(__file__).with_name("vocabulary.yaml"))
    if data.findings:
        raise next(iter(data.findings.values()))
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
            values[fold_label(str(word))] = (*values.get(fold_label(str(word)), ()), meant)
    return Vocabulary(
        phrases,
        languages,
        values,
        data.values["habits"],
        data.values["countries"],
        {action: frozenset(words.split(", ")) for action, words in data.values["verbs"].items()},
        frozenset(data.values["action_headings"].split(", ")),
        frozenset(data.values["fillers"].split(", ")),
    )


@lru_cache(maxsize=4096)
def reading_of(text: str) -> Reading:
    """What a heading means."""
    return vocabulary().read(text)


def words_of(text: str) -> list[str]:
    """A text as folded words, split at camel case, before digits and at punctuation; `#` is a separate word."""
    spaced = _CAMEL.sub(" ", _ELIDED.sub("", text)).replace("#", " # ").translate(_PLAIN)
    return [word for part in _APART.split(spaced) if (word := fold_label(part) if part != "#" else part)]


@dataclass(frozen=True, slots=True)
class Target:
    """A field that a column may fill. `what` are the concepts of its own, `side` the pickup or delivery, `whole` all its concepts. `context` are
    concepts that the headings of its list may add, `exact` those that a heading has only if the field has them.
    """

    path: str
    field: Field
    what: frozenset[str]
    side: str
    whole: frozenset[str]
    context: frozenset[str]
    needed: bool
    in_list: bool
    is_key: bool
    subject: str
    exact: frozenset[str]


@cache
def concepts_of(field: Field) -> frozenset[str]:
    """The concepts of a field, from the help text of the contract. The identification of a party belongs to no side."""
    concepts = reading_of(field.meaning.split("(")[0].split(";")[0].split(", zone")[0]).concepts
    concepts -= SIDES if concepts & _PARTIES else frozenset()
    return concepts - {"late"} if "early" in concepts else concepts  # the early end of a window


def is_needed(field: Field, operation: Operation) -> bool:
    """Whether the field is required in every record of this operation."""
    return field.when is When.ALWAYS or (operation.creates and field.when is When.ON_CREATE)


def event_code_field(fields: Sequence[Field]) -> Field | None:
    """The field with the event code, if the operation has one."""
    return next((field for field in fields if {"status", "code"} <= concepts_of(field) and field.record is None), None)


def gives_event(operation: Operation, filled: Container[str]) -> bool:
    """Whether one of the filled fields gives the event of each record. Its place is not enough."""
    fields = [field for field in operation.record.fields if field.kind not in DATE_SHAPES]
    return any(
        field.name in filled
        for field in fields
        if "status" in concepts_of(field) and "location" not in concepts_of(field)
    )


def targets_of(
    record: Record,
    operation: Operation,
    path: str = "",
    context: frozenset[str] = frozenset(),
    *,
    in_list: bool = False,
) -> Iterator[Target]:
    """The fields of a record that a column may fill, those of its lists and objects included. `path` and `context` (concepts) are those of the
    list or object around them.
    """
    planned = frozenset[str]().union(*(concepts_of(field) for field in operation.record.fields))
    for field in record.fields:
        here = f"{path}.{field.name}" if path else field.name
        concepts = concepts_of(field)
        if field.record is not None:
            is_list = field.kind is Kind.ARRAY
            if not is_list or any(inner.when is When.ALWAYS for inner in field.record.fields):
                yield from targets_of(
                    field.record,
                    operation,
                    f"{here}[]" if is_list else here,
                    concepts | context,
                    in_list=in_list or is_list,
                )
        elif field.when is not When.LISTED and field.kind not in (Kind.OFFSET_HOURS, Kind.OFFSET_MINUTES) and concepts:
            is_key = not path and record.key[:1] == (field.name,)
            whole = concepts if in_list else concepts | context
            side = next(iter(whole & SIDES), "")
            what = frozenset({operation.subject}) & concepts if is_key else frozenset[str]()
            what = what or whole - SIDES - TIMES - (FREE - PIECES) - {operation.subject, "total"}
            what -= {"address"} if "second" in what else set()
            if not what and not side:
                what = whole - TIMES - {"total"} or whole
            needed = is_needed(field, operation)
            exact = _EXACT if PLANNED & planned else _EXACT - PLANNED
            yield Target(here, field, what, side, whole, context, needed, in_list, is_key, operation.subject, exact)


Rows = Sequence[tuple[int, tuple[str, ...]]]
"""Rows as number and cells."""

# ---- the heading rows of a table ----

_HEADING_ROWS = (1, 2, 3)  # possible numbers of rows with labels
_TITLE = 40  # characters; a longer text is a title
_STRANGE = 2  # unknown words of a heading
_VALUES = 4  # one heading in this many may look like a value
_ABOVE = 4.0  # deduction for each row above that is as full as the headings: it could be the headings
_DOUBLE = 3.0  # deduction from a row's score for a duplicate heading
_WIDE = 3  # columns; in a narrower table a row with one cell is not a note
_FORM_ROWS = 4  # rows of a form, at least
_A_DIGIT = re.compile(r"[0-9]")
_A_VALUE = re.compile(
    r"[+-]?[0-9][0-9.,' /:\-]*([ T][0-9:]+.*)?|[^@\s]+@[^@\s]+\.\w+|[0-9]{1,2}[ -][^\W\d]{3,9}\.?[ -][0-9]{2,4}.*"
)


@dataclass(frozen=True, slots=True)
class Headings:
    """The headings of a table: the number of their first row, the number of rows, the labels by position, and the duplicate labels."""

    row: int
    rows: int
    labels: tuple[str, ...]

    @property
    def doubles(self) -> dict[str, list[int]]:
        """Folded labels of several columns, with their positions."""
        found: dict[str, list[int]] = {}
        for position, label in enumerate(self.labels):
            if fold_label(label):
                found.setdefault(fold_label(label), []).append(position)
        return {label: positions for label, positions in found.items() if len(positions) > 1}


def find_headings(top: Top) -> Headings | None:
    """The most probable headings: several texts, known words, and cells below them. Several rows are joined only if the lowest row has
    duplicate labels, units, or none over columns that rows above label. None if no row looks like headings.
    """
    top = top._replace(rows=tuple(row for row in top.rows if not is_separator(row[1])))
    scored = [
        (_score(lines, top.rows[place + 1 :], top.rows[: place + 1 - len(lines)]), lines)
        for place, lines in _candidates(top)
    ]
    best, lines = max(scored, key=lambda found: (found[0], -len(found[1])), default=(0.0, []))
    return Headings(lines[0][0], len(lines), _labels(lines)) if best > 0 else None


def ends_with_headings(top: Top) -> bool:
    """Whether the last row looks like headings, so that the rows of the table are missing, as in a blank template."""
    labels = [cell for cell in top.rows[-1][1] if cell.strip()] if top.rows else []
    return len(labels) > 1 and sum(map(_is_heading, labels)) * 2 > len(labels)


_Lines = Sequence[tuple[int, tuple[str, ...]]]


def _candidates(top: Top) -> Iterator[tuple[int, _Lines]]:
    """Possible heading rows, alone or with the rows directly above, with the place of the lowest row."""
    for place in range(len(top.rows) - 1):
        for size in _HEADING_ROWS[: place + 1]:
            lines = top.rows[place + 1 - size : place + 1]
            together = lines[-1][0] - lines[0][0] == size - 1
            texts = [cell for _, cells in lines for cell in cells if cell.strip()]
            few = len(texts) // _VALUES if size == 1 else 0  # a heading may be a number, such as 20 for a size
            if _are_units(top.rows[place + 1][1]):
                continue  # they belong to these headings
            below = top.rows[place + 1 :]
            if together and sum(map(_is_value, texts)) <= few and (size == 1 or _needs_rows_above(lines, below)):
                yield place, lines


def _needs_rows_above(lines: _Lines, below: Rows) -> bool:
    """Whether the lowest row has duplicate labels or units, or leaves labels to the rows above, as cells that are merged downwards do: several,
    or one over a column with values.
    """
    lowest = [cell for cell in lines[-1][1] if cell.strip()]
    left = len(_lowest_labels(lines)) - len(lowest)
    if _twice(lowest) or _are_units(lowest) or left > 1:
        return True
    are_headings = sum(map(_is_heading, lowest)) * 2 > len(lowest)
    return left == 1 and are_headings and _has_values_under_upper(lines, below)


def _has_values_under_upper(lines: _Lines, below: Rows) -> bool:
    """Whether most rows below have a value in the column that only the rows above label."""
    columns = zip_longest(*(cells for _, cells in lines), fillvalue="")
    place = next(at for at, texts in enumerate(columns) if not texts[-1].strip() and any(map(str.strip, texts)))
    return sum(any(map(str.strip, cells[place : place + 1])) for _, cells in below) * 2 > len(below)


def _are_units(cells: Sequence[str]) -> bool:
    """Whether a row holds units only, as below headings: `kg`, `[m]`."""
    texts = [cell.strip(" []().").casefold() for cell in cells if cell.strip()]
    return bool(texts) and UNITS.issuperset(texts)


def _lowest_labels(lines: _Lines) -> list[str]:
    """The lowest text of each column that has one."""
    columns = zip_longest(*(cells for _, cells in lines), fillvalue="")
    return [texts[-1] for column in columns if (texts := [text for text in column if text.strip()])]


def _is_value(cell: str) -> bool:
    """Whether a cell is a number, a date or a mail address, and not a heading."""
    return isinstance(cell, Native) or _A_VALUE.fullmatch(cell.strip()) is not None


def _score(lines: _Lines, below: Rows, above: Rows) -> float:
    """How much these lines look like headings above the rows below them, and not like a row of the table itself; 0 if they do not."""
    labels = _lowest_labels(lines)
    filled = len([cell for cell in below[0][1] if cell.strip()])
    known = sum(map(_is_heading, labels))
    if not labels or filled > 2 * len(labels) or _is_repeated(lines[-1][1], below):
        return 0.0
    if len(labels) > 2 * filled + 2 and known * 2 < len(labels):  # wide exports leave most of their columns blank
        return 0.0
    columns = [*zip_longest(*(cells for _, cells in below), fillvalue="")]
    values = sum(any(_is_value(cell) for cell in column if cell.strip()) for column in columns)
    distinct = max(values, _numbered(labels, columns))
    if known * 3 < len(labels) and (known < 2 or values < 2) and (len(labels) < _WIDE or distinct * 3 < len(labels)):
        return 0.0
    full = (
        sum(sum(map(bool, map(str.strip, cells))) * 3 > len(labels) * 2 for _, cells in above) if len(labels) > 1 else 0
    )
    place = len(above) + len(lines) - 1
    return known * 2 + len(labels) + values - place * 0.5 - _DOUBLE * _twice(_labels(lines)) - _ABOVE * full


def _numbered(labels: Sequence[str], columns: Sequence[Sequence[str]]) -> int:
    """The number of columns with digits in most cells, such as order numbers and streets, below labels without any."""
    if any(map(_A_DIGIT.search, labels)):
        return 0
    return sum(sum(_A_DIGIT.search(cell) is not None for cell in column) * 2 > len(column) for column in columns)


def _is_heading(text: str) -> bool:
    """Whether a text reads as a heading, and not as a sentence or a value."""
    reading = reading_of(text)
    return bool(reading.concepts) and len(text) < _TITLE and len(reading.unknown) <= _STRANGE and not _is_value(text)


def _is_repeated(cells: Sequence[str], below: Rows) -> bool:
    """Whether the cells of a row occur again in their columns, as values do. Headings occur again as a whole row only, as in reports with
    a table for each group.
    """
    filled = [place for place, cell in enumerate(cells) if cell.strip()]
    rows = [row for _, row in below if len(filled) == 1 or [*row] != [*cells]]
    again = sum(any(place < len(row) and row[place] == cells[place] for row in rows) for place in filled)
    return again * 3 >= len(filled)


def _twice(labels: Sequence[str]) -> int:
    """The number of duplicate labels."""
    counts = Counter(fold_label(label) for label in labels if fold_label(label))
    return sum(counts.values()) - len(counts)


def _labels(lines: _Lines) -> tuple[str, ...]:
    """The labels of these rows."""
    width = max(len(cells) for _, cells in lines)
    return tuple(labels_over([[*cells, *[""] * (width - len(cells))] for _, cells in lines]))


def is_form(top: Top) -> bool:
    """Whether the rows are the fields of a form, a heading beside each value."""
    texts = [[cell.strip() for cell in cells if cell.strip()] for _, cells in top.rows]
    known = {  # a heading of known words; one with a colon stands beside its value
        text for row in texts for text in row if _is_heading(text) and not (reading_of(text).unknown or text[-1] == ":")
    }
    if any(len(row) > 1 and known.issuperset(row) for row in texts):
        return False  # a row of headings
    narrow = [row for row in texts if len(row) <= _WIDE]
    first = [row[0] for row in narrow if row]
    if len(first) < _FORM_ROWS or len(narrow) * 5 < len(texts) * 4 or len(set(first)) < len(first):
        return False
    return sum(_is_heading(text) or text.endswith(":") for text in first) * 5 > len(first) * 3

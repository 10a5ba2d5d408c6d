"""Headings: what they mean, with their units, and which fields they may name.

A text is understood as a set of concepts, by `vocabulary.yaml` (words in fifteen languages for each concept). Phrases come before words; camel
case, compounds, and Chinese and Japanese, which have no blanks, are split; small misspellings are accepted. The contract's help texts are read in the same way, so fields are identified
by their meaning and no field name stands here. A field that a column may fill is such a concept too, with its side and what its heading
may say.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache
from itertools import permutations
from math import ceil
from pathlib import Path

from loadsheet.contract import DATE_SHAPES, Field, FieldKind, Operation, Record, When
from loadsheet.mapping.units import ALIASES, conversion_factor, unit_named
from loadsheet.mapping.yamlfile import read_yaml
from loadsheet.reading import fold_label
from loadsheet.reading.header import BETWEEN
from loadsheet.similar_text import one_typo_away

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-zA-Z]{3})(?=[0-9])")
_HOW_TO_FILL = re.compile(
    r"\([^()]*\b(?:obligatori[oa]|opcional|mandatory|optional|pflichtfeld|obligatoire|facultati\w+|obbligatorio)\b[^()]*\)",
    re.IGNORECASE,
)
_ELIDED = re.compile(r"\b[dl]['\u2019]")  # d'enlèvement
_AVERAGE = re.compile(r"(?<![^\W_])[\u00d8\u00f8\u2300](?![^\W_])")  # the sign, not a letter of a word
_APART = re.compile(r"[\s_/.,;:()\[\]\-+&?!*|\"'\uff08\uff09\uff1a\uff0f\uff0c\u3001\u3010\u3011]+")
_WITHOUT_BLANKS = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")  # Japanese and Chinese
_ALIKE = 0.88  # for words of at least five letters
_PART_MIN = 4  # letters of a word that may be part of a compound
_FUZZY_MIN = 5
_LONGEST_PHRASE = 4
_PLAIN = str.maketrans(
    {"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "æ": "ae", "œ": "oe"}
)  # letters that Unicode does not take apart
MEASURES = {"weight": "kg", "volume": "m**3", "length": "cm", "width": "cm", "height": "cm"}
"""The concepts of amounts that have a unit, with the unit of a draft."""

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

SIDES_OF_BOX = ("length", "width", "height")
_LETTERS_OF_SIDES = {"l": {"length"}, "w": {"width"}, "b": {"width"}, "h": {"height"}}
_DEPTHS = {"d": {"length", "height"}, "t": {"length", "height"}}  # only where the other two sides are named
_THREE = re.compile(
    r"(?<![^\W_])([^\W\d_]+?) *[x\u00d7*/] *([^\W\d_]+?) *[x\u00d7*/] *([^\W\d_]+?)(?![^\W_])", re.IGNORECASE
)
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

    def locales_from(self, first: str) -> list[str]:
        """This locale, and those of all languages."""
        return list(dict.fromkeys([first, *(habits["locale"] for habits in self.habits.values())]))

    def read(self, text: str) -> Reading:
        """The concepts of a heading or a sentence. Whether a column must be filled, in brackets, is not read."""
        words = words_of(_HOW_TO_FILL.sub(" ", text))
        concepts: set[str] = set()
        unknown: list[str] = []
        languages: Counter[str] = Counter()
        at, number = 0, 0
        while at < len(words):
            phrase, taken = self._longest(words, at)
            if not phrase and _WITHOUT_BLANKS.search(words[at]):
                found, rest = self._without_blanks(words[at])
                unknown += [rest] if rest and found else []
            else:
                found = [phrase] if phrase else [] if words[at] in self.fillers else self._parts(words[at])
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

    def _without_blanks(self, word: str) -> tuple[list[str], str]:
        """The known words in a text without blanks, the longest first from left to right, and the other letters."""
        found, rest, at = list[str](), "", 0
        while at < len(word):
            known = (word[at:end] for end in range(len(word), at, -1) if word[at:end] in self.phrases)
            part = next(known, "")
            found += [part] if part else []
            rest += word[at] if not part and word[at] not in self.fillers else ""
            at += len(part) or 1
        return found, rest


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
        frozenset(map(fold_label, data.values["fillers"].split(", "))),
    )


@lru_cache(maxsize=4096)
def reading_of(text: str) -> Reading:
    """What a heading means."""
    return vocabulary().read(text)


def words_of(text: str) -> list[str]:
    """A text as folded words, split at camel case, before digits and at punctuation; `#` is a separate word."""
    spaced = _CAMEL.sub(" ", _AVERAGE.sub("average", _ELIDED.sub("", text))).replace("#", " # ").translate(_PLAIN)
    return [word for part in _APART.split(spaced) if (word := fold_label(part) if part != "#" else part)]


def three_sides(labels: Sequence[str]) -> tuple[str, ...]:
    """Length, width and height in the order of three labels, such as `L`, `B`, `H` or `Width`, `Height`, `Depth`; empty if they are not these."""
    options = [
        (_LETTERS_OF_SIDES | _DEPTHS).get(label.strip(" .").casefold()) or reading_of(label).concepts & {*SIDES_OF_BOX}
        for label in labels
    ]
    options[1] = {"width"} if [*labels[:2]] == ["L", "l"] else options[1]  # longueur, largeur
    orders = (order for order in permutations(SIDES_OF_BOX) if all(map(set.__contains__, map(set, options), order)))
    return next(orders, ())


def sides_in(label: str) -> tuple[str, ...]:
    """Length, width and height in the order of a heading such as `Maße (LxBxH)`; empty if it does not name them."""
    found = _THREE.search(label)
    return three_sides(found.groups()) if found else ()


def _without_sides(label: str) -> str:
    """A heading with one word for its length, width and height, if it names the three: `Maße (LxBxH) cm`."""
    return _THREE.sub("dimensions", label) if sides_in(label) else label


@dataclass(frozen=True, slots=True)
class FieldTarget:
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
) -> Iterator[FieldTarget]:
    """The fields of a record that a column may fill, those of its lists and objects included. `path` and `context` (concepts) are those of the
    list or object around them.
    """
    planned = frozenset[str]().union(*(concepts_of(field) for field in operation.record.fields))
    for field in record.fields:
        here = f"{path}.{field.name}" if path else field.name
        concepts = concepts_of(field)
        if field.record is not None:
            is_list = field.kind is FieldKind.ARRAY
            if not is_list or any(inner.when is When.ALWAYS for inner in field.record.fields):
                yield from targets_of(
                    field.record,
                    operation,
                    f"{here}[]" if is_list else here,
                    concepts | context,
                    in_list=in_list or is_list,
                )
        elif (
            field.when is not When.LISTED
            and field.kind not in (FieldKind.OFFSET_HOURS, FieldKind.OFFSET_MINUTES)
            and concepts
        ):
            is_key = not path and record.key[:1] == (field.name,)
            whole = concepts if in_list else concepts | context
            side = next(iter(whole & SIDES), "")
            what = frozenset({operation.subject}) & concepts if is_key else frozenset[str]()
            what = what or whole - SIDES - TIMES - (FREE - PIECES) - {operation.subject, "total"}
            what -= {"address"} if "second" in what else set()
            if not what and not side:
                what = whole - TIMES - {"total"} or whole
            needed = field.is_required(creates=operation.creates)
            exact = _EXACT if PLANNED & planned else _EXACT - PLANNED
            yield FieldTarget(
                here, field, what, side, whole, context, needed, in_list, is_key, operation.subject, exact
            )


# ---- a heading with its unit ----

_BRACKETS = re.compile(r"[(\[]([^)\]]+)[)\]]")
_YES_OR_NO = re.compile(
    r"[(\[ ]*\b([yjosts] ?/ ?n|yes ?/ ?no|ja ?/ ?ne[ei]n?|oui ?/ ?non|s[iíì] ?/ ?no)\b[)\]]*", re.IGNORECASE
)
_GROSS = frozenset({"gross", "brutto", "bruto", "brut", "lordo"})
_NO_SUBJECT = frozenset({"id", "type", "moment", "company", "code", "first"})  # concepts that need to know of what

_OF_LINES = frozenset({"item", "package"})
_MEASURED = MEASURES.keys() | {"dimensions", "quantity"}
_PREPOSITIONS = frozenset({"in", "to"})  # units that are words as well: `From / to`
_NO_UNITS = _PREPOSITIONS | {"l", "lt"}  # behind a quantity: `Menge/LT`


@lru_cache(maxsize=1024)
def read_heading(label: str) -> tuple[Reading, str]:
    """What a heading means, and its unit by pint's name. Of a heading over several rows, the lowest says what it is, unless it is a unit."""
    *upper, lowest = _without_sides(label).split(BETWEEN)
    above = reading_of(BETWEEN.join(upper))
    bare = lowest.strip(" .()[]").casefold()
    unit = ALIASES.get(bare, "") if bare not in _PREPOSITIONS else ""
    if upper and unit and not (above.concepts and above.concepts <= _OF_LINES):  # `Goods / Kg` has the weight
        return _without_unit(BETWEEN.join(upper))[0], unit
    if upper and (phrase := " ".join(words_of(f"{upper[-1]} {lowest}"))) in vocabulary().phrases:  # `Order / Date`
        return reading_of(phrase), ""
    own, unit = _without_unit(lowest)
    own, unit = _of_measure(_of_money(own, lowest), unit)
    if not upper:
        return own, unit
    concepts = above.concepts - (_OF_LINES if own.concepts - _NO_SUBJECT else frozenset())
    unknown = above.unknown + own.unknown if not own.concepts else own.unknown
    return Reading(own.concepts | concepts, unknown, own.languages, own.number), unit


def _of_money(reading: Reading, label: str) -> Reading:
    """The reading, without a weight in headings of money: `Preis brutto`, `Gross amount`, `Price per kg`."""
    if "weight" not in reading.concepts or not reading.concepts & {"rate", "value"}:
        return reading
    rest = " ".join(word for word in words_of(label) if word not in _GROSS)
    if "rate" not in reading.concepts and "weight" in reading_of(rest).concepts:
        return reading
    return replace(reading, concepts=reading.concepts - {"weight"})


def _of_measure(reading: Reading, unit: str) -> tuple[Reading, str]:
    """The reading with its unit, without one that does not fit (`Gewicht/LT`). A quantity in a unit of weight or volume is that: `Menge (t)`."""
    fitting = [measure for measure, own in MEASURES.items() if unit and conversion_factor(unit, unit_named(own, {}))]
    if unit and not reading.concepts & {*fitting, "dimensions", "quantity"}:
        return reading, "" if reading.concepts & MEASURES.keys() else unit
    if "quantity" not in reading.concepts or not unit:
        return reading, unit
    measure = fitting[0] if fitting[0] in ("weight", "volume") else "other"
    return replace(reading, concepts=reading.concepts - {"quantity"} | {measure}), unit


def _without_unit(label: str) -> tuple[Reading, str]:
    """A heading without its unit, and that unit by pint's name: `Gross wt (kg)`, `GrossLb`, `L (in)`."""
    unit, bare = "", _YES_OR_NO.sub("", label)
    for inner in _BRACKETS.findall(label):
        word = inner.replace(" ", "").replace(".", "")
        if word.casefold() in ALIASES:
            unit, bare = ALIASES[word.casefold()], label.replace(f"({inner})", "").replace(f"[{inner}]", "")
    words = words_of(bare)
    words = words[:-1] if len(words) > 1 and words[-1].isdecimal() else words  # `Kg 2`
    reading = reading_of(bare)
    if not unit and len(words) == 2 and words[0] in _LETTERS_OF_SIDES and words[1] in ALIASES:  # `W cm`
        unit, bare = ALIASES[words[1]], words[0]
    measured = bool(_MEASURED & reading.concepts) and not ("quantity" in reading.concepts and words[-1] in _NO_UNITS)
    if not unit and measured and len(words) > 1 and words[-1] in ALIASES:
        unit, bare = ALIASES[words[-1]], " ".join(words[:-1])
        reading = reading_of(bare)
        if not _MEASURED & reading.concepts:  # `Total kg`: the unit is the measure
            reading = reading_of(label)
    elif not unit and measured:
        unit = ALIASES.get("".join(words), "")
    if unit and len(words_of(bare)) == 1 and (side := _LETTERS_OF_SIDES.get(words_of(bare)[0])):
        reading = Reading(frozenset(side), (), reading.languages)
    return (
        reading if reading.concepts else reading_of(label)
    ), unit  # of an unknown word, its unit says what it measures

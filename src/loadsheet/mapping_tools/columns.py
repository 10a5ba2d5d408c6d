"""A column of a sheet: its heading and its distinct cells, what these look like, and the guess for them.

A column is kept as the different values with their numbers, and for each row the place of its value. So nothing is tried on a cell twice,
and rows are compared by small numbers.
"""

import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from loadsheet.mapping.notations import month_numbers, weekday_numbers
from loadsheet.mapping_tools.headings import Reading
from loadsheet.reading import Native, fold_label

CHECK = "CHECK"  # marks a guess that the sheet does not prove
TOLERATED = 10  # one value in ten may be unreadable, and at least one: real sheets have typing errors
MOMENTS = frozenset({"datetime", "date"})
NUMBERS = frozenset({"integer", "decimal", "quantity"})
UTC = "UTC"
UTC_WORDS = frozenset({"utc", "gmt"})  # of headings such as `Event time (UTC)`

_TRIED_MAX = 500  # distinct values that a guess is decided by
_SHOWN_MAX = 3
_LANGUAGES = ("en", "de", "fr", "es", "nl", "sv", "it", "pl", "cs", "pt", "tr", "ru", "el")  # of months
_DATED = re.compile(
    r"[0-9]{1,4}(\. |[./\-])[0-9]{1,2}\1[0-9]{2,4}(?![0-9])|(19|20)[0-9]{2}(0[1-9]|1[0-2])[0-3][0-9]$"
    r"|(19|20)[0-9]{2}(?P<mark>\. |[./\-])[0-9]{1,2}(?P=mark)[0-9]{1,2}(?![0-9])|(19|20)[0-9]{2}年[0-9]{1,2}月"
    r"|[0-9]{1,2}[ \-/.]+(?P<second>[^\W\d_]{3,})|(?P<first>[^\W\d_]{3,})\.?[ \-][0-9]{1,2}\b"
)
_NAME_OF_DAY = re.compile(r"([^\W\d_]{2,12})\.?,? +")
A_TIME = re.compile(
    r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?( ?([AaPp]\.?\s?[Mm]\.?|Uhr|uhr|h))?|[0-9]{1,2} ?([AaPp]\.?\s?[Mm]\.?|[hH]([0-9]{2})?)"
    r"|[0-9]{1,2}(\.[0-9]{2})? ?[Uu]hr"
)

_LOOKS: dict[str, re.Pattern[str]] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"),
    "phone": re.compile(r"(?=(.*[0-9]){6})\+?[0-9 ()/.\-]{6,24}"),
    "url": re.compile(r"(https?://|www\.)\S+"),
    "postal": re.compile(
        r"[0-9]{4,6}|[0-9]{3}[ \-][0-9]{2,4}|[0-9]{2}-[0-9]{3}|[0-9]{5}-[0-9]{3,4}|[0-9]{4} ?[A-Za-z]{2}"
        r"|[A-Za-z]{1,2}[0-9][A-Za-z0-9]? ?[0-9][A-Za-z]{2}|[A-Za-z][0-9][A-Za-z] ?[0-9][A-Za-z][0-9]|[A-Za-z][0-9][0-9W] ?[A-Za-z0-9]{4}|[A-Z]{1,2}-[0-9]{4,5}|[0-9]{3}"
    ),
    "digits": re.compile(r"[0-9]+"),
    "code": re.compile(r"(?=.*[0-9])[A-Za-z0-9#][A-Za-z0-9_./\-#]{1,39}"),
    "short code": re.compile(r"[A-Z0-9]{1,6}"),
    "words": re.compile(r"\W?[^\W\d_].*[^\W\d_].*", re.DOTALL),
}
"""What a text may look like. A look counts if nine of ten distinct values have it."""


_IN_PARTS = re.compile(r"[,;\n].*[0-9]", re.DOTALL)
_TOWN_OF_STATE = re.compile(r"[ ,][A-Z]{2}$")
_COMPANY = re.compile(
    r"\b(gmbh|ag|kg|ohg|ug|e\.? ?k|ltd|limited|plc|llc|inc|corp|co|sarl|sas?|srl|s\.?r\.?l|s\.?p\.?a|spa|sl|s\.?l|bv|b\.v|nv|ab|as|a/s|oy|lda"
    r"|sp\. ?z ?o\. ?o|s\.?a)\.?$|\b(gmbh|limited|holding|group)\b",
    re.IGNORECASE,
)


_YES_OR_NO = frozenset([
    "yes", "no", "y", "n", "true", "false", "ja", "nein", "oui", "non", "si", "sí", "nee", "tak", "nie", "sim", "não", "sì",
    "nej", "x",
])  # fmt: skip


class Guess(NamedTuple):
    """A guess for a column: a type of the mapping language, its keys, and the evidence in words. `order` is the order of day and month
    that its dates prove (`day`, `month`), or `open` if they prove none.
    """

    type: str
    keys: dict[str, Any]
    evidence: str
    order: str = ""


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column: the distinct ones that are not blank, the number of each, and for each row the place of its cell among them
    (-1: blank).
    """

    values: tuple[str, ...]
    counts: tuple[int, ...]
    value_indexes: array  # type: ignore[type-arg]  # of int

    @property
    def filled_count(self) -> int:
        """The number of cells that are not blank."""
        return sum(self.counts)

    @cached_property
    def texts(self) -> dict[str, int]:
        """The distinct texts without typed cells, trimmed, with their numbers of cells."""
        found: Counter[str] = Counter()
        for value, count in zip(self.values, self.counts, strict=True):
            if not isinstance(value, Native):
                found[value.strip()] += count
        return dict(found)

    @cached_property
    def shown(self) -> dict[str, int]:
        """The distinct cells as their sender sees them, trimmed, with their numbers."""
        found: Counter[str] = Counter()
        for value, count in zip(self.values, self.counts, strict=True):
            found[(value.without_currency if isinstance(value, Native) else value).strip()] += count
        return dict(found)

    @cached_property
    def kinds(self) -> Counter[str]:
        """The number of typed cells by kind."""
        found: Counter[str] = Counter()
        for value, count in zip(self.values, self.counts, strict=True):
            if isinstance(value, Native):
                found[value.kind] += count
        return found

    @property
    def is_yes_or_no(self) -> bool:
        """Whether all values are words such as yes, even if there is only one."""
        return all(text.casefold() in _YES_OR_NO for text in self.shown)

    @cached_property
    def names_companies(self) -> bool:
        """Whether some values end like the name of a company, and not more of them like a town with its state (`Denver CO`, `Ada MI`)."""
        others = [text for text in self.shown if not _COMPANY.search(text)]
        companies = len(self.shown) - len(others)
        return companies * 5 >= len(self.shown) > 0 and companies > sum(map(bool, map(_TOWN_OF_STATE.search, others)))

    @property
    def holds_addresses(self) -> bool:
        """Whether most values are several parts with a number in a later one: `Acme Ltd, Kade 8, 9711 LM Groningen`."""
        return sum(_IN_PARTS.search(text) is not None for text in self.shown) * 2 > len(self.shown)

    @cached_property
    def has_times(self) -> bool:
        """Whether some moments have a time of day, which need not be assumed then."""
        return any(":" in text and "00:00:00" not in text for text in sample(list(self.shown)))

    @cached_property
    def has_digits(self) -> bool:
        """Whether most distinct values have a digit."""
        return sum(any(letter.isdigit() for letter in text) for text in self.shown) * 2 > len(self.shown)

    @cached_property
    def looks(self) -> frozenset[str]:
        """What nine of ten distinct values look like, by `_LOOKS`."""
        texts = sample(list(self.shown))
        if not texts:
            return frozenset()
        return frozenset(
            name
            for name, pattern in _LOOKS.items()
            if sum(pattern.fullmatch(text) is not None for text in texts) * 10 >= len(texts) * 9
        )


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the sheet: heading, position from 0, the meaning of the heading, its unit by pint's name (empty: none), cells, and the guess
    for them. `occurrence`: which of several columns with this heading it is, from 1 (0: the heading stands once).
    """

    label: str
    position: int
    reading: Reading
    unit: str
    cells: Cells
    guess: Guess
    occurrence: int = 0

    @property
    def concepts(self) -> frozenset[str]:
        """The concepts of the heading."""
        return self.reading.concepts

    @property
    def filled_count(self) -> int:
        """The number of cells that are not blank."""
        return self.cells.filled_count

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.cells.value_indexes)

    @property
    def is_unique(self) -> bool:
        """Whether no value occurs twice, and there are some."""
        return bool(self.cells.values) and all(count == 1 for count in self.cells.counts)

    @property
    def is_count(self) -> bool:
        """Whether its cells are whole numbers that may count something, and its heading means nothing else."""
        return (
            self.guess.type == "integer"
            and not self.concepts - {"quantity", "package", "count", "total"}
            and not self.counts_rows
        )

    @cached_property
    def counts_rows(self) -> bool:
        """Whether its cells only count rows: each number follows the one above, or begins again with 1, as the first one does."""
        if self.guess.type != "integer" or len(self.cells.values) < _SHOWN_MAX or self.filled_count < self.rows:
            return False
        numbers = [int(value) if value.strip().isdecimal() else -1 for value in self.cells.values]
        rows = [numbers[code] for code in self.cells.value_indexes]
        steps = sum(after == before + 1 for before, after in pairwise(rows))
        is_begun = rows[0] == 1 or steps == len(rows) - 1
        return is_begun and steps * 3 > len(rows) and all(after in (before + 1, 1) for before, after in pairwise(rows))

    @cached_property
    def holds_moments(self) -> bool:
        """Whether most of its cells are dates or times, even if no format reads them."""
        if self.guess.type in {"datetime", "date", "time"}:
            return True
        texts = self.cells.texts
        like = sum(count for text, count in texts.items() if looks_dated(text) or A_TIME.fullmatch(text))
        like += sum(self.cells.kinds[kind] for kind in ("datetime", "date", "time"))
        return like * 2 > self.filled_count

    @property
    def holds_numbers(self) -> bool:
        """Whether its cells are numbers, or identifiers of digits only."""
        return self.guess.type in NUMBERS or "digits" in self.cells.looks


def cells_of(column: Iterable[str]) -> Cells:
    """The distinct cells of a column. Typed cells differ from texts that look the same."""
    places: dict[Any, int] = {}
    values: list[str] = []
    codes = array("i")
    for cell in column:
        key: Any = (
            cell if type(cell) is str else (cell, getattr(cell, "kind", ""), getattr(cell, "without_currency", ""))
        )
        place = places.get(key)
        if place is None:
            place = places[key] = len(values) if cell.strip() else -1
            if place >= 0:
                values.append(cell)
        codes.append(place)
    counted = Counter(codes)
    return Cells(tuple(values), tuple(counted[place] for place in range(len(values))), codes)


def cells_without(cells: Cells, texts: Collection[str]) -> Cells:
    """The cells with blank ones in place of these texts."""
    if not any(value.strip() in texts for value in cells.values):
        return cells
    kept = ["" if value.strip() in texts else value for value in cells.values]
    return cells_of(kept[code] if code >= 0 else "" for code in cells.value_indexes)


def renamed(cells: Cells, values: Sequence[str]) -> Cells:
    """The cells with other texts in place of their distinct values, some of which may be equal or blank."""
    places: dict[str, int] = {}
    new = [places.setdefault(value, len(places)) if value else -1 for value in values]
    value_indexes = array("i", [new[code] if code >= 0 else -1 for code in cells.value_indexes])
    counted = Counter(value_indexes)
    return Cells(tuple(places), tuple(counted[place] for place in range(len(places))), value_indexes)


def looks_dated(text: str) -> bool:
    """Whether a text begins with what may be a date: `5 Mar 2026` and `Mon, 2.3.2026`, but neither `5 Market Street` nor `Marienweg 5`."""
    found = _DATED.match(text[len(weekday_in(text)) :]) or _DATED.match(text)
    word = (found["second"] or found["first"]) if found is not None else None
    return found is not None and (word is None or fold_label(word) in _months())


def weekday_in(text: str) -> str:
    """The weekday at the beginning of a text with the marks behind it, such as `Mo., `; empty if there is none."""
    found = _NAME_OF_DAY.match(text)
    return found[0] if found is not None and fold_label(found[1]) in _weekdays() else ""


@cache
def _weekdays() -> frozenset[str]:
    return frozenset(fold_label(name) for language in _LANGUAGES for name in weekday_numbers(language))


@cache
def _months() -> frozenset[str]:
    """The names of months and their beginnings of at least three letters, folded."""
    names = {"mrz", *(fold_label(name) for language in _LANGUAGES for name in month_numbers(language))}
    return frozenset(name[:end] for name in names for end in range(3, len(name) + 1))


def sample(values: Sequence[str]) -> Sequence[str]:
    """The values, or some hundreds from all over."""
    return values if len(values) <= _TRIED_MAX else values[:: len(values) // _TRIED_MAX]


def enough_readable(read: int, of: int) -> bool:
    """Whether enough values are readable for a guess."""
    return read * 2 >= of and read > 0 and of - read <= max(1, of // TOLERATED)


def a_few(texts: Iterable[str]) -> str:
    """A few of the texts, for a comment."""
    shown = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    return ", ".join(shown[:_SHOWN_MAX]) + (" ..." if len(shown) > _SHOWN_MAX else "")

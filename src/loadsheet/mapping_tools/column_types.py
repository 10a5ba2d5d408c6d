"""What the cells of a column show: its distinct values, their type with its keys, what they look like, and outliers.

A guess has counts as evidence. It is only an observation ("412 of 412 values read as %d.%m.%Y"); the author of the mapping decides. Values are
tried by the readers of a mapping, each made once, on the distinct values of a column or on one example of each shape.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from loadsheet.mapping.notations import decimal_mark, format_reader
from loadsheet.mapping.plans import CellProblem
from loadsheet.mapping.words import ALIASES, country_reader, currency_reader, factor, unit_named, yes_no_reader, zone_reader
from loadsheet.mapping_tools.notation_guesses import formats_of, number_of, reader_of_numbers
from loadsheet.mapping_tools.vocabulary import Reading
from loadsheet.reading import Native

CHECK = "CHECK"  # marks a guess that the sheet does not prove
TOLERATED = 10  # one value in ten may be unreadable, and at least one: real sheets have typing errors
MEASURES = {"weight": "kg", "volume": "m**3", "length": "cm", "width": "cm", "height": "cm"}
MOMENTS = frozenset({"datetime", "date"})
NUMBERS = frozenset({"integer", "decimal", "quantity"})
FLAGS = frozenset({"stackable", "hazardous", "dedicated", "mixed"})  # concepts of headings over yes and no

_TRIED_MAX = 500  # distinct values that a look is decided by
_SHOWN_MAX = 3
_TIMES = ("%H:%M", "%H:%M:%S", "%I:%M %p")
_MONTHS = (
    "jan feb fev fév fëv mar mär mrz mrt apr avr abr kwi may mai maj mei mag jun jui juin giu cze jul lip lug aug aou aoû ago sie sep set"
    " wrz oct okt ott out paź paz nov lis dec déc dez dic gru ene gen sty lut"
).split()  # the beginnings of the names of months
_DATED = re.compile(
    rf"[0-9]{{1,4}}([./\-])[0-9]{{1,2}}\1[0-9]{{2,4}}(?![0-9])|(19|20)[0-9]{{2}}(0[1-9]|1[0-2])[0-3][0-9]$|[0-9]{{1,2}}[ \-/.]+({'|'.join(_MONTHS)})"
    rf"|({'|'.join(_MONTHS)})[a-z]*\.?[ \-][0-9]{{1,2}}\b",
    re.IGNORECASE,
)
_A_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?( ?[AaPp]\.?[Mm]\.?)?")
_YES_NO_LOCALES = ("en", "de", "fr", "es", "nl", "it", "pl", "pt", "sv", "da", "cs", "fi", "nb")
_TICKS = {"x": True, "✓": True, "✔": True, "t": True, "f": False, "-": False, "on": True, "off": False}
_IDENTIFIERS = frozenset({"id", "reference", "postal", "phone", "address", "second", "code"})
_SUBJECTS = frozenset({"order", "tender"})
_AMOUNTS = frozenset({"count", "quantity", "value", "rate", "total"})

_LOOKS: dict[str, re.Pattern[str]] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"),
    "phone": re.compile(r"(?=(.*[0-9]){6})\+?[0-9 ()/.\-]{6,24}"),
    "url": re.compile(r"(https?://|www\.)\S+"),
    "postal": re.compile(
        r"[0-9]{4,6}|[0-9]{3}[ \-][0-9]{2,4}|[0-9]{2}-[0-9]{3}|[0-9]{5}-[0-9]{3,4}|[0-9]{4} ?[A-Za-z]{2}"
        r"|[A-Za-z]{1,2}[0-9][A-Za-z0-9]? ?[0-9][A-Za-z]{2}|[A-Za-z][0-9][A-Za-z] ?[0-9][A-Za-z][0-9]|[A-Za-z][0-9][0-9W] ?[A-Za-z0-9]{4}|[A-Z]{1,2}-[0-9]{4,5}|[0-9]{3}"
    ),
    "digits": re.compile(r"[0-9]+"),
    "code": re.compile(r"(?=.*[0-9])[A-Za-z0-9][A-Za-z0-9_./\-#]{1,39}"),
    "short code": re.compile(r"[A-Z0-9]{1,6}"),
    "words": re.compile(r"[^\W\d_].*[^\W\d_].*"),
}
"""What a text may look like. A look counts if nine of ten distinct values have it."""


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
    codes: array  # type: ignore[type-arg]  # of int

    @property
    def filled(self) -> int:
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
            found[(value.shown if isinstance(value, Native) else value).strip()] += count
        return dict(found)

    @cached_property
    def kinds(self) -> Counter[str]:
        """The number of typed cells by kind."""
        found: Counter[str] = Counter()
        for value, count in zip(self.values, self.counts, strict=True):
            if isinstance(value, Native):
                found[value.kind] += count
        return found

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
    for them.
    """

    label: str
    position: int
    reading: Reading
    unit: str
    cells: Cells
    guess: Guess

    @property
    def concepts(self) -> frozenset[str]:
        """The concepts of the heading."""
        return self.reading.concepts

    @property
    def filled(self) -> int:
        """The number of cells that are not blank."""
        return self.cells.filled

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.cells.codes)

    @property
    def is_unique(self) -> bool:
        """Whether no value occurs twice, and there are some."""
        return bool(self.cells.values) and all(count == 1 for count in self.cells.counts)

    @cached_property
    def holds_moments(self) -> bool:
        """Whether most of its cells are dates or times, even if no format reads them."""
        if self.guess.type in {"datetime", "date", "time"}:
            return True
        texts = self.cells.texts
        like = sum(count for text, count in texts.items() if _DATED.match(text) or _A_TIME.fullmatch(text))
        like += sum(self.cells.kinds[kind] for kind in ("datetime", "date", "time"))
        return like * 2 > self.filled

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
        key: Any = cell if type(cell) is str else (cell, getattr(cell, "kind", ""), getattr(cell, "shown", ""))
        place = places.get(key)
        if place is None:
            place = places[key] = len(values) if cell.strip() else -1
            if place >= 0:
                values.append(cell)
        codes.append(place)
    counted = Counter(codes)
    return Cells(tuple(values), tuple(counted[place] for place in range(len(values))), codes)


def sample(values: Sequence[str], most: int = _TRIED_MAX) -> Sequence[str]:
    """At most about this many of the values, from all over."""
    return values if len(values) <= most else values[:: len(values) // most]


def enough(read: int, of: int) -> bool:
    """Whether enough values are readable for a guess."""
    return read * 2 >= of and read > 0 and of - read <= max(1, of // TOLERATED)


def some(texts: Iterable[str]) -> str:
    """A few of the texts, for a comment."""
    shown = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    return ", ".join(shown[:_SHOWN_MAX]) + (" ..." if len(shown) > _SHOWN_MAX else "")


# ---- the type of a column ----


def guess_type(cells: Cells, reading: Reading, unit: str, locale: str, order: str = "") -> Guess:
    """A guess for the cells below a heading that means `reading`, with this unit (empty: none), in a file with numbers of this locale. `order`
    (day or month first) is what other columns of the file prove.
    """
    if not cells.values:
        return Guess("text", {}, "all cells are blank")
    measure = next((known for concept, known in MEASURES.items() if concept in reading.concepts), "")
    if guess := _moments(cells, locale, order) or _times(cells):
        return guess
    if reading.concepts & FLAGS and (guess := _yes_no(cells, locale, ticks=True)):
        return guess
    if measure and (guess := _number(cells, locale, measure, unit)):
        return guess
    if _is_identifier(cells, reading):
        return _text(cells)
    return (
        _words(cells, reading, locale)
        or _yes_no(cells, locale, ticks=False)
        or _number(cells, locale, "", "")
        or _text(cells)
    )


def _is_identifier(cells: Cells, reading: Reading) -> bool:
    """Whether digits in this column are text, not an amount: identifiers, postcodes, telephone numbers, leading zeros. A heading such as
    `Order total` is over amounts.
    """
    texts = cells.shown
    if any(len(text) > 1 and text[0] == "0" and text[1].isdigit() for text in texts):
        return True
    if reading.concepts & _AMOUNTS:
        return False
    return bool(reading.concepts & _IDENTIFIERS) or (
        bool(reading.concepts & _SUBJECTS) and not reading.concepts - _SUBJECTS - {"customer"}
    )


def _text(cells: Cells) -> Guess:
    distinct = len(cells.values)
    values = "value" if cells.filled == 1 else "values"
    return Guess("text", {}, f"{cells.filled} {values}, {distinct} different")


def _moments(cells: Cells, locale: str, order: str) -> Guess | None:
    native = cells.kinds["datetime"] + cells.kinds["date"]
    texts = cells.texts
    dated = sum(count for text, count in texts.items() if _DATED.match(text))
    if native * 2 < cells.filled and dated * 2 < sum(texts.values()):
        return None
    found = formats_of(texts, locale or None, order) if dated else None
    read = native + (found.read if found else 0)
    if read * 2 < cells.filled or (not found and not native):
        return None
    if found is None:
        others = list(texts) + [str(value) for value in cells.values if isinstance(value, Native) and value.kind not in MOMENTS]
        return Guess("datetime", {}, f"{native} of {cells.filled} values are workbook dates{_not_dates(others)}")
    evidence = f"{read} of {cells.filled} values read as {' or '.join(found.formats)}"
    evidence += f" ({native} of them are workbook dates)" if native else ""
    evidence += _not_dates(found.others) if read < cells.filled else ""
    if found.ambiguous:
        evidence += f"; {CHECK} day and month: {found.ambiguous} reads all of them too"
    return Guess("datetime", {"formats": list(found.formats)}, evidence, "open" if found.ambiguous else found.order)


def _not_dates(others: Sequence[str]) -> str:
    """The remark on cells among dates that are not dates."""
    return f"; {CHECK} the cells that are not dates, such as {some(others[:1])}" if others else ""


@cache
def _clock_reader(format_: str) -> Callable[[str], Any]:
    return format_reader(format_, None)


def _times(cells: Cells) -> Guess | None:
    native, texts = cells.kinds["time"], cells.texts
    if native and enough(native, cells.filled):
        return Guess("time", {}, f"{native} of {cells.filled} values are workbook times")
    if sum(count for text, count in texts.items() if _A_TIME.fullmatch(text)) * 2 < cells.filled:
        return None
    read = {
        format_: sum(count for text, count in texts.items() if _clock_reader(format_)(text) is not None)
        for format_ in _TIMES
    }
    formats = [format_ for format_ in _TIMES if read[format_]]
    count = native + sum(read.values())
    if not formats or not enough(count, cells.filled):
        return None
    return Guess("time", {"formats": formats}, f"{count} of {cells.filled} values read as {' or '.join(formats)}")


def _words(cells: Cells, reading: Reading, locale: str) -> Guess | None:
    """A guess for time zones, currencies and countries."""
    texts = cells.shown
    tests = (
        ("timezone", "names of time zones", _zones, any("/" in text for text in texts)),
        ("currency", "currency codes", lambda: _currencies(locale), "currency" in reading.concepts or _all_long(texts, 3)),
        ("country", "countries", lambda: _country_names(locale), "country" in reading.concepts or _all_long(texts, 2)),
    )
    for type_, words, reader, likely in tests:
        count = _read(texts, reader()) if likely else 0
        if enough(count, cells.filled) and (len(texts) > 1 or type_ in reading.concepts or type_ == "timezone"):
            others = [text for text in texts if isinstance(reader()(text), CellProblem)]
            remark = f"; {CHECK} the others, such as {some(others[:1])}" if others else ""
            return Guess(type_, {}, f"{count} of {cells.filled} values are {words}{remark}")
    return None


def _all_long(texts: Iterable[str], letters: int) -> bool:
    return all(len(text) == letters and text.isalpha() and text.isupper() for text in texts)


def _read(texts: Mapping[str, int], reader: Callable[[str], Any]) -> int:
    return sum(count for text, count in texts.items() if not isinstance(reader(text), CellProblem))


@cache
def _zones() -> Callable[[str], Any]:
    return _once(zone_reader())


@cache
def _currencies(locale: str) -> Callable[[str], Any]:
    return _once(currency_reader(locale or None))


@cache
def _country_names(locale: str) -> Callable[[str], Any]:
    return _once(country_reader(locale or None))


def _once(reader: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader that remembers each text: an unknown one takes long, as similar names are looked for."""
    return cache(reader)


def countries_read(texts: Mapping[str, int], locale: str) -> int:
    """The number of these cells that are countries in a locale."""
    return _read(texts, _country_names(locale))


def is_currency(word: str) -> bool:
    """Whether a word is a currency code, such as EUR."""
    return len(word) == 3 and not isinstance(_currencies("")(word.upper()), CellProblem)


# ---- yes and no ----


@cache
def _yes_no_words(locale: str) -> Callable[[str], Any]:
    return yes_no_reader(locale or None, (), ())


def _yes_no(cells: Cells, locale: str, *, ticks: bool) -> Guess | None:
    """A guess for words of yes and no in any language. With `ticks`, the heading says that these are flags, so digits and marks count."""
    texts = cells.shown
    if len(texts) > 8 or (not ticks and (all(text.isdigit() for text in texts) or len(texts) < 2)):
        return None
    native = cells.kinds["flag"]
    for name in dict.fromkeys([locale, *_YES_NO_LOCALES]):
        meant = {text: _yes_no_words(name)(text) for text in texts}
        count = sum(texts[text] for text, value in meant.items() if not isinstance(value, CellProblem))
        if not enough(count, cells.filled):
            continue
        evidence = f"{native or count} of {cells.filled} values are {'workbook flags' if native else 'yes or no'}"
        others = [text for text, value in meant.items() if isinstance(value, CellProblem)]
        evidence += f"; {CHECK} the others: {some(others)}" if others else ""
        return Guess("yesno", {} if name == locale or native else _listed(meant), evidence)
    if ticks and all(text.casefold() in _TICKS for text in texts):
        meant = {text: _TICKS[text.casefold()] for text in texts}
        keys = _listed(meant) | ({"default": "no"} if cells.filled < len(cells.codes) else {})
        return Guess("yesno", keys, f"{cells.filled} values: {some(texts)}; {CHECK} their meaning, and that a blank cell means no")
    return None


def _listed(meant: Mapping[str, Any]) -> dict[str, Any]:
    yes = list(dict.fromkeys(text.casefold() for text, value in meant.items() if value is True))
    no = list(dict.fromkeys(text.casefold() for text, value in meant.items() if value is False))
    return {"yes": yes or ["yes"], "no": no or ["no"]}


# ---- numbers ----


class _Numbers(NamedTuple):
    """The numbers of a column: the cells that are numbers, their values with the number of cells, the units in the cells, whether all are
    whole, and texts that are no numbers.
    """

    read: int
    values: dict[float, int]
    units: Counter[str]
    whole: bool
    others: list[str]


def _numbers(cells: Cells, locale: str) -> _Numbers:
    reader, point = reader_of_numbers(locale or "en_GB"), decimal_mark(locale or "en_GB")
    readable: dict[str, bool] = {}
    values: Counter[float] = Counter()
    units: Counter[str] = Counter()
    read, whole, others = 0, True, list[str]()
    digits_only = str.maketrans("", "", "".join({"'", "\u2019", "\u00a0", "\u202f", " ", ".", ","} - {point}))
    for value, count in zip(cells.values, cells.counts, strict=True):
        if isinstance(value, Native):
            if value.kind != "number":
                others.append(value.shown)
                continue
            read, whole = read + count, whole and "." not in value
            values[float(value)] += count
            found = number_of(value.shown)
        else:
            found = number_of(value)
            shape = _SHAPED.sub("9", found[0]) if found else ""
            if found is None or not readable.setdefault(shape, not isinstance(reader(found[0]), CellProblem)):
                others.append(value.strip())
                continue
            read, whole = read + count, whole and point not in found[0]
            values[float(found[0].translate(digits_only).replace(point, "."))] += count
        if found is not None and found[1]:
            units[found[1]] += count
    return _Numbers(read, dict(values), units, whole, others)


_SHAPED = re.compile("[0-9]")


def _number(cells: Cells, locale: str, measure: str, unit: str) -> Guess | None:
    """A guess for numbers: an amount of `measure` (empty: a plain number), in the file's notation or another."""
    for name in dict.fromkeys([locale or "en_GB", *_OTHER_NOTATIONS]):
        found = _numbers(cells, name)
        if enough(found.read, cells.filled) and (measure or not found.units):
            break
    else:
        return None
    keys: dict[str, Any] = {} if name == (locale or "en_GB") else {"locale": name}
    evidence = f"{found.read} of {cells.filled} values are {'whole ' if found.whole and not measure else ''}numbers"
    if found.others:
        evidence += f"; {CHECK} the others: {some(found.others)}"
    if measure:
        keys |= {"unit": measure}
        unit = unit or _unit_of_cells(found, measure)
        if found.units:
            evidence += f", {sum(found.units.values())} of them with a unit ({some(found.units)})"
        if unit and unit != unit_named(measure, {}):
            keys["from_unit"] = next(alias for alias, known in ALIASES.items() if known == unit)
        if not unit:
            evidence += f"; {CHECK} the unit {measure}: neither heading nor cells have one"
    per = factor(ALIASES[keys["from_unit"]], unit_named(measure, {})) if "from_unit" in keys else None
    guards, remark = _guards(found.values, float(per or 1))
    return Guess("quantity" if measure else "integer" if found.whole else "decimal", keys | guards, evidence + remark)


_OTHER_NOTATIONS = ("en_GB", "de_DE", "fr_FR", "de_CH")


def _unit_of_cells(found: _Numbers, measure: str) -> str:
    """The unit of cells without one, by the most frequent unit of the others; empty if that is none or another measure."""
    if not found.units:
        return ""
    word = found.units.most_common(1)[0][0].casefold().replace(".", "")
    name = ALIASES.get(word, "")
    return name if name and factor(name, unit_named(measure, {})) is not None else ""


def _guards(values: Mapping[float, int], per: float) -> tuple[dict[str, Any], str]:
    """The limits that outliers suggest, with a comment that shows them: negative numbers among positive ones, and 999 or 9999 for unknown.
    Limits are in the unit of the mapping, `per` of which make one unit of the cells.
    """
    keys: dict[str, Any] = {}
    remark = ""
    total = sum(values.values())
    negative = sorted(value for value in values if value < 0)
    if negative and sum(values[value] for value in negative) * TOLERATED <= total:
        keys["min"] = 0
        remark += f"; {CHECK} min: {_outliers(negative, values)} below 0"
    usual = sorted(value for value in values if not _is_nines(value))
    nines = [value for value in values if _is_nines(value) and usual and value > 2 * usual[-1]]
    if nines and sum(values[value] for value in nines) * TOLERATED <= total:
        keys["max"] = _round_up(usual[-1] * per)
        remark += f"; {CHECK} max: {_outliers(nines, values)}, above all others (at most {usual[-1]:g}): unknown?"
    return keys, remark


def _is_nines(value: float) -> bool:
    text = f"{value:g}"
    return len(text) >= 3 and set(text) == {"9"}


def _outliers(found: Sequence[float], values: Mapping[float, int]) -> str:
    count = sum(values[value] for value in found)
    return f"{count} {'value' if count == 1 else 'values'} ({some(f'{value:g}' for value in found)})"


def _round_up(value: float) -> int:
    """The next round number: 483 becomes 500."""
    step = 10 ** max(len(str(int(abs(value)))) - 1, 0)
    return (int(value) // step + 1) * step


def rows_of(cells: Cells, wanted: set[int]) -> Iterator[int]:
    """The places of the rows whose cell is one of these distinct values, by their places."""
    return (row for row, code in enumerate(cells.codes) if code in wanted)

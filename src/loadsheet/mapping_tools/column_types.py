"""What the cells of a column show: their type with its keys, and outliers.

A guess has counts as evidence. It is only an observation ("412 of 412 values read as %d.%m.%Y"); the author of the mapping decides. Values are
tried by the readers of a mapping, each made once, on the distinct values of a column or on one example of each shape.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple
from unicodedata import category

from loadsheet.mapping.codes import country_parser, currencies_meant, currency_parser, yes_no_parser, zone_parser
from loadsheet.mapping.notations import decimal_mark, format_parser
from loadsheet.mapping.plans import CellProblem
from loadsheet.mapping.units import ALIASES, common_unit, conversion_factor, unit_named
from loadsheet.mapping_tools.columns import (
    A_TIME,
    CHECK,
    MOMENTS,
    TOLERATED,
    Cells,
    Guess,
    a_few,
    enough_readable,
    looks_dated,
)
from loadsheet.mapping_tools.headings import MEASURES, SIDES, Reading, vocabulary
from loadsheet.mapping_tools.notation_guesses import formats_of, number_of, reader_of_numbers
from loadsheet.reading import Native

FLAGS = frozenset({"stackable", "hazardous", "dedicated", "mixed"})  # concepts of headings over yes and no

_CODE = 3  # letters of a currency
_TIMES = (
    "%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M%p", "%I:%M:%S %p", "%I %p", "%I%p", "%Hh%M", "%Hh", "%H h", "%H:%M h", "%H:%M Uhr", "%H.%M Uhr", "%H Uhr",
)  # fmt: skip
_EPOCH = re.compile(r"1[4-9][0-9]{8}([0-9]{3})?")  # 2014 to 2033, in seconds or milliseconds
_EIGHT = re.compile("[0-9]{8}")
_BARE_TIMES = {"%H%M": re.compile("[0-2][0-9][0-5][0-9]"), "%H.%M": re.compile("[0-2]?[0-9][.][0-5][0-9]")}
_YES_NO_LOCALES = ("en", "de", "fr", "es", "nl", "it", "pl", "pt", "sv", "da", "cs", "fi", "nb")
_TICKS = {"x": True, "✓": True, "✔": True, "t": True, "f": False, "-": False, "on": True, "off": False}
_IDENTIFIERS = frozenset({"id", "reference", "postal", "phone", "address", "second", "code"})
_SUBJECTS = frozenset({"order", "tender"})
_AMOUNTS = frozenset({"count", "quantity", "value", "rate", "total"})

# ---- the type of a column ----


def guess_type(cells: Cells, reading: Reading, unit: str, locale: str, order: str = "") -> Guess:
    """A guess for the cells below a heading that means `reading`, with this unit (empty: none), in a file with numbers of this locale. `order`
    (day or month first) is what other columns of the file prove.
    """
    if not cells.values:
        return Guess("text", {}, "all cells are blank")
    if (formulas := cells.kinds["formula"]) * 2 > cells.filled_count:
        saved = f"{CHECK} with the sender: opened in Excel or LibreOffice and saved, the workbook holds the results"
        return Guess("text", {}, f"{formulas} of {cells.filled_count} values are formulas without a result; {saved}")
    measure = next((known for concept, known in MEASURES.items() if concept in reading.concepts), "")
    packed = []
    if "moment" in reading.concepts:  # the heading says that 1430 and 14.30 are times
        packed = [format_ for format_, like in _BARE_TIMES.items() if all(map(like.fullmatch, cells.shown))]
    guess = _moments(cells, locale, order, is_packed="moment" in reading.concepts)
    guess = guess or times_in(cells, *packed) or _day_numbers(cells, reading)
    if guess is None and reading.concepts & {"moment", "created"} and all(map(_EPOCH.fullmatch, cells.shown)):
        formats = [f"%s{'%f' * (length > 10)}" for length in sorted({len(text) for text in cells.shown})]
        guess = Guess("datetime", {"formats": formats}, f"{cells.filled_count} values are seconds since 1970")
    if guess is None and reading.concepts & FLAGS:
        guess = _yes_no(cells, locale, ticks=True)
    if guess is None and measure:
        guess = _number(cells, locale, measure, unit)
    if guess is not None:
        return guess
    if _is_identifier(cells, reading):
        return as_text(cells)
    return (
        _words(cells, reading, locale)
        or _yes_no(cells, locale, ticks=False)
        or _number(cells, locale, "", "", is_amount=bool(reading.concepts & _AMOUNTS))
        or as_text(cells)
    )


def _is_identifier(cells: Cells, reading: Reading) -> bool:
    """Whether digits in this column are text, not an amount: identifiers, postcodes, telephone numbers, leading zeros. A heading such as
    `Order total` is over amounts.
    """
    texts = cells.shown
    if any(len(text) > 1 and text[0] == "0" and text[1].isdigit() for text in texts):
        return True
    if reading.concepts & (_AMOUNTS | {"country"}):
        return False
    return bool(reading.concepts & _IDENTIFIERS) or (
        bool(reading.concepts & _SUBJECTS) and not reading.concepts - _SUBJECTS - {"customer"}
    )


def as_text(cells: Cells) -> Guess:
    """The guess that a column holds texts, with the numbers of its values."""
    distinct = len(cells.shown)
    values = "value" if cells.filled_count == 1 else "values"
    return Guess("text", {}, f"{cells.filled_count} {values}, {distinct} different")


def _moments(cells: Cells, locale: str, order: str, *, is_packed: bool) -> Guess | None:
    """A guess for dates. With `is_packed`, the heading says so, and eight digits are one: 30112026."""
    native = cells.kinds["datetime"] + cells.kinds["date"]
    packed = {text: count for text, count in cells.shown.items() if is_packed and _EIGHT.fullmatch(text)}
    texts = cells.texts | packed
    dated = sum(count for text, count in texts.items() if text in packed or looks_dated(text))
    if native * 2 < cells.filled_count and dated * 2 < sum(texts.values()):
        return None
    locales = vocabulary().locales_from(locale) if dated else []
    by_locale = ((name, formats_of(texts, name or None, order)) for name in locales)
    named, found = next(((name, formats) for name, formats in by_locale if formats), (locale, None))
    read = native + (found.read if found else 0)
    if read * 2 < cells.filled_count or (not found and not native):
        return None
    if found is None:
        others = list(texts) + [
            str(value) for value in cells.values if isinstance(value, Native) and value.kind not in MOMENTS
        ]
        return Guess("datetime", {}, f"{native} of {cells.filled_count} values are workbook dates{_not_dates(others)}")
    evidence = f"{read} of {cells.filled_count} values read as {' or '.join(found.formats)}"
    evidence += f" ({native} of them are workbook dates)" if native else ""
    evidence += _not_dates(found.others) if read < cells.filled_count else ""
    are_timed = ["%H" in one or "%I" in one for one in found.formats]  # the most frequent format first
    if are_timed[0] and not all(are_timed):
        evidence += f"; {CHECK} dates without a time, which are sent as 00:00"
    if found.ambiguous:
        evidence += f"; {CHECK} day and month: {found.ambiguous} reads all of them too"
    keys = {"formats": list(found.formats)} | ({} if named == locale else {"locale": named})
    return Guess("datetime", keys, evidence, "open" if found.ambiguous else found.order)


def _day_numbers(cells: Cells, reading: Reading) -> Guess | None:
    """A guess for dates that are numbers of days, as workbooks hold them: 46357 is 1 December 2026. In texts, the heading says that these are
    dates.
    """
    is_dated, is_said = reading.concepts & _OF_MOMENTS, reading.concepts & _SAY_DATES
    if (
        not is_dated
        or reading.concepts - _OF_MOMENTS
        or not (is_said or all(isinstance(one, Native) for one in cells.values))
    ):
        return None
    read = _clock_reader(DAY_NUMBERS, None)
    days = {str(value).strip(): read(str(value).strip()) for value in cells.values}
    first, last = _USUAL if is_said else _NEAR
    if not all(day is not None and first <= day.year <= last for day in days.values()):
        return None
    text, day = next(iter(days.items()))
    said = f"{cells.filled_count} values are numbers of days; {CHECK} that {text} is {day:%Y-%m-%d}"
    return Guess("datetime", {"formats": [DAY_NUMBERS]}, said)


def _not_dates(others: Sequence[str]) -> str:
    """The remark on cells among dates that are not dates."""
    return f"; {CHECK} the cells that are not dates, such as {a_few(others[:1])}" if others else ""


DAY_NUMBERS = "%E"
"""The format of numbers of days."""

_SAY_DATES = frozenset({"moment", "created", "shipping"})
_OF_MOMENTS = SIDES | _SAY_DATES | {"early", "late", "estimated", "reference"}
_USUAL, _NEAR = (2000, 2099), (2015, 2045)  # years
_clock_reader = cache(format_parser)


def times_in(cells: Cells, *formats: str) -> Guess | None:
    """A guess for times of day, in these formats or else in the usual ones."""
    native, texts = cells.kinds["time"], cells.texts
    if native and enough_readable(native, cells.filled_count):
        return Guess("time", {}, f"{native} of {cells.filled_count} values are workbook times")
    like = native + sum(count for text, count in texts.items() if A_TIME.fullmatch(text))
    if not formats and like * 2 < cells.filled_count:
        return None
    read = {
        format_: {text for text in texts if _clock_reader(format_, None)(text) is not None}
        for format_ in formats or _TIMES
    }
    found = [format_ for format_ in read if read[format_]]
    others = [text for text in texts if not any(text in own for own in read.values())]
    count = cells.filled_count - sum(texts[text] for text in others)
    if not found or not enough_readable(count, cells.filled_count):
        return None
    remark = f"; {CHECK} the others, such as {a_few(others[:1])}" if others else ""
    return Guess(
        "time", {"formats": found}, f"{count} of {cells.filled_count} values read as {' or '.join(found)}{remark}"
    )


def _words(cells: Cells, reading: Reading, locale: str) -> Guess | None:
    """A guess for time zones, currencies and countries."""
    texts, concepts = cells.shown, reading.concepts
    for type_, words, is_like in (
        ("timezone", "names of time zones", any("/" in text for text in texts)),
        ("currency", "currency codes", "currency" in concepts or _all_long(texts, 3)),
    ):
        if is_like and enough_readable(_read(texts, reader := _reader(type_, locale)), cells.filled_count):
            return _named(type_, words, cells, reader)
    if "country" not in concepts and (concepts - SIDES or not (_all_long(texts, 2) and len(texts) > 1)):
        return None
    for name in vocabulary().locales_from(locale):
        if enough_readable(countries_read(texts, name), cells.filled_count):
            guess = _named("country", "countries", cells, _reader("country", name))
            return guess if name == locale else guess._replace(keys={"locale": name})
    return None


def _named(type_: str, words: str, cells: Cells, reader: Callable[[str], Any]) -> Guess:
    others = [text for text in cells.shown if isinstance(reader(text), CellProblem)]
    remark = f"; {CHECK} the others, such as {a_few(others[:1])}" if others else ""
    return Guess(type_, {}, f"{_read(cells.shown, reader)} of {cells.filled_count} values are {words}{remark}")


def _all_long(texts: Iterable[str], letters: int) -> bool:
    return all(len(text) == letters and text.isalpha() and text.isupper() for text in texts)


def _read(texts: Mapping[str, int], reader: Callable[[str], Any]) -> int:
    return sum(count for text, count in texts.items() if not isinstance(reader(text), CellProblem))


@cache
def _reader(type_: str, locale: str = "") -> Callable[[str], Any]:
    """The reader of a type in a locale, which remembers what it has read."""
    if type_ == "timezone":
        return cache(zone_parser())
    if type_ == "yesno":
        return cache(yes_no_parser(locale or None, (), ()))
    return cache((country_parser if type_ == "country" else currency_parser)(locale or None))


def countries_read(texts: Mapping[str, int], locale: str) -> int:
    """The number of these cells that are countries in a locale."""
    return _read(texts, _reader("country", locale))


def code_named(kind: str, text: str, locale: str) -> str:
    """The country or currency (`kind`) that a cell names in a locale, a currency also by its parts, as in `TL (₺)`; empty if it names none."""
    parts = [text, *(re.findall(r"[^\s()\[\]/]+", text) if kind == "currency" else ())]
    codes = {str(code) for part in parts if not isinstance(code := _reader(kind, locale)(part), CellProblem)}
    return codes.pop() if len(codes) == 1 else ""


def currency_code(word: str, locale: str = "") -> str:
    """The currency that a word of a heading names, by its code or its sign; empty if it names none. Of several with a sign such as `$`, that
    of the locale's country or else the most frequent.
    """
    if len(word) != _CODE and word.isalnum():
        return ""
    meant = currencies_meant(word, locale or None) or currencies_meant(word.upper(), locale or None)  # R$ in lower case
    return next(iter(meant), "")


# ---- yes and no ----


def _yes_no(cells: Cells, locale: str, *, ticks: bool) -> Guess | None:
    """A guess for words of yes and no in any language. With `ticks`, the heading says that these are flags, so digits and marks count."""
    texts = cells.shown
    if len(texts) > 8 or (not ticks and (all(text.isdigit() for text in texts) or len(texts) < 2)):
        return None
    native = cells.kinds["flag"]
    for name in dict.fromkeys([locale, *_YES_NO_LOCALES]):
        meant = {text: _reader("yesno", name)(text) for text in texts}
        count = sum(texts[text] for text, value in meant.items() if not isinstance(value, CellProblem))
        if not enough_readable(count, cells.filled_count):
            continue
        evidence = f"{native or count} of {cells.filled_count} values are {'workbook flags' if native else 'yes or no'}"
        others = [text for text, value in meant.items() if isinstance(value, CellProblem)]
        letters = {text.casefold() for text in texts if len(text) == 1} if not ticks else set[str]()
        if letters and (others or (name != locale and not letters & {"y", "j"})):  # zones such as N and S
            continue
        evidence += f"; {CHECK} the others: {a_few(others)}" if others else ""
        return Guess("yesno", {} if name == locale or native else _listed(meant), evidence)
    if ticks and all(text.casefold() in _TICKS for text in texts):
        meant = {text: _TICKS[text.casefold()] for text in texts}
        keys = _listed(meant) | ({"default": "no"} if cells.filled_count < len(cells.value_indexes) else {})
        evidence = f"{cells.filled_count} values: {a_few(texts)}; {CHECK} their meaning, and that a blank cell means no"
        return Guess("yesno", keys, evidence)
    return None


def _listed(meant: Mapping[str, Any]) -> dict[str, Any]:
    yes = list(dict.fromkeys(text.casefold() for text, value in meant.items() if value is True))
    no = list(dict.fromkeys(text.casefold() for text, value in meant.items() if value is False))
    return {"yes": yes or ["yes"], "no": no or ["no"]}


# ---- numbers ----


class _Numbers(NamedTuple):
    """The numbers of a column: the cells that are numbers, their values with the number of cells, the units in the cells, whether all are
    whole, texts that are no numbers, and those that may be thousands, such as `1,000` among German numbers that are all whole.
    """

    read: int
    values: dict[float, int]
    units: Counter[str]
    whole: bool
    others: list[str]
    thousands: list[str]


def _numbers(cells: Cells, locale: str, *, units_read: bool = True) -> _Numbers:
    """The numbers of these cells. Without `units_read`, a number with letters or a sign is none: `1O`."""
    reader, point = reader_of_numbers(locale or "en_GB"), decimal_mark(locale or "en_GB")
    values: Counter[float] = Counter()
    units: Counter[str] = Counter()
    marked: Counter[str] = Counter()
    read, plain, others = 0, 0, list[str]()
    for value, count in zip(cells.values, cells.counts, strict=True):
        if isinstance(value, Native):
            if value.kind != "number":
                others.append(value.without_currency)
                continue
            read, plain = read + count, plain + ("." not in value) * count
            values[float(value)] += count
            found = number_of(value.displayed)
        else:
            found = number_of(value)
            is_one = found is not None and (units_read or not found[1]) and not _FURTHER_SIDES.match(found[1])
            number = reader(found[0]) if found is not None and is_one else None
            if found is None or not isinstance(number, Decimal):
                others.append(value.strip())
                continue
            read, plain = read + count, plain + (point not in found[0]) * count
            marked.update({found[0]: count} if point in found[0] else {})
            values[float(number)] += count
        if found is not None and found[1]:
            units[found[1]] += count
    may_be = all(re.fullmatch(rf"[+-]?[1-9][0-9]{{0,2}}{re.escape(point)}000", text) for text in marked)
    thousands = list(marked) if may_be and plain * 2 > read == plain + marked.total() else []
    return _Numbers(read, dict(values), units, plain == read or bool(thousands), others, thousands)


_FURTHER_SIDES = re.compile("[x\u00d7*/] *[0-9]", re.IGNORECASE)  # of a box: 120x80x100


def _number(cells: Cells, locale: str, measure: str, unit: str, *, is_amount: bool = False) -> Guess | None:
    """A guess for numbers: an amount of `measure` (empty: a plain number or an amount of money), in the file's notation or another.
    `is_amount`: the heading is that of amounts. Under a heading of amounts of either kind, half of the cells are enough, as for dates.
    """
    names = dict.fromkeys([locale or "en_GB", *_OTHER_NOTATIONS])
    is_named = bool(measure or is_amount)
    for name, half in [(name, False) for name in names] + [(name, True) for name in names if is_named]:
        found, currencies = (
            (_numbers(cells, name), []) if measure else _plain_numbers(cells, name, locale, is_amount=is_amount)
        )
        is_read = found.read * 2 >= cells.filled_count if half else enough_readable(found.read, cells.filled_count)
        if is_read and (measure or currencies or not found.units):
            break
        if is_read and is_amount:
            several = f"; {CHECK}: amounts with {a_few(found.units)} are not of one currency"
            text = as_text(cells)
            return text._replace(evidence=text.evidence + several)
    else:
        return None
    keys: dict[str, Any] = {} if name == (locale or "en_GB") else {"locale": name}
    keys |= {"currency": currencies[0]} if currencies else {}
    plain = "integer" if found.whole and not currencies and not measure else "decimal"
    evidence = (
        f"{found.read} of {cells.filled_count} values are {'whole ' if found.whole and not measure else ''}numbers"
    )
    evidence += _doubts(found, is_refused=plain == "integer")
    evidence += _doubts_of_currency(found.units, currencies, locale)
    if measure:
        keys |= {"unit": measure}
        unit = unit or _unit_of_cells(found, measure)
        if found.units:
            evidence += f", {sum(found.units.values())} of them with a unit ({a_few(found.units)})"
        if unit and unit != unit_named(measure, {}):
            keys["from_unit"] = next(alias for alias, known in ALIASES.items() if known == unit)
        if strange := [word for word in found.units if not common_unit(word)]:
            evidence += f"; {CHECK} the unit {a_few(strange)}: add it to source.units"
        if not unit:
            why = "cells without a unit" if found.units else "neither heading nor cells have one"
            evidence += f"; {CHECK} the unit {measure}: {why}"
    per = conversion_factor(ALIASES[keys["from_unit"]], unit_named(measure, {})) if "from_unit" in keys else None
    guards, remark = _guards(found.values, float(per or 1))
    return Guess("quantity" if measure else plain, keys | guards, evidence + remark)


def _doubts(found: _Numbers, *, is_refused: bool) -> str:
    """The remarks on cells that are no numbers, or that may be other ones."""
    remark = f"; {CHECK} the others: {a_few(found.others)}" if found.others else ""
    if found.thousands:
        read = "refused as ambiguous" if is_refused else "read as a small number"
        remark += f"; {CHECK} whether {a_few(found.thousands)} means thousands: {read}"
    return remark


def _doubts_of_currency(units: Counter[str], currencies: Sequence[str], locale: str) -> str:
    """The remarks on other currencies that the signs beside amounts may mean, and on the amounts in another one."""
    remark = f"; {CHECK} the currency: {a_few(units)} may also mean {a_few(currencies[1:])}" if currencies[1:] else ""
    odd = [word for word in units if currencies and currencies[0] not in currencies_meant(word, locale or None)]
    return remark + (f"; {CHECK} the cells with {a_few(odd)}: refused as another currency" if odd else "")


_OTHER_NOTATIONS = ("en_GB", "de_DE", "fr_FR", "de_CH")


def _plain_numbers(cells: Cells, name: str, locale: str, *, is_amount: bool) -> tuple[_Numbers, list[str]]:
    """The numbers of a column without a measure, in the notation of the locale `name`, and the currencies beside them. Other letters at a few
    of them are typing errors: `1O`.
    """
    found = _numbers(cells, name)
    currencies = _currencies_of_cells(found, locale, is_amount=is_amount) if found.units else []
    if found.units and not currencies and found.units.total() * TOLERATED <= cells.filled_count:
        found = _numbers(cells, name, units_read=False)
    return found, currencies


def _currencies_of_cells(found: _Numbers, locale: str, *, is_amount: bool) -> list[str]:
    """The currencies that all words and signs beside the numbers, but for a few, may mean, the likeliest first. A word that is not a sign
    counts under headings of amounts only.
    """
    if not is_amount and not all(any(category(letter) == "Sc" for letter in word) for word in found.units):
        return []
    usual = [word for word, count in found.units.items() if count * TOLERATED > found.units.total()]
    meant = [currencies_meant(word, locale or None) for word in usual]
    return [code for code in meant[0] if all(code in each for each in meant)]


def _unit_of_cells(found: _Numbers, measure: str) -> str:
    """The unit of cells without one, by the most frequent unit of the others; empty if that is none or another measure."""
    if not found.units:
        return ""
    word, count = found.units.most_common(1)[0]
    if count * TOLERATED < sum(found.units.values()) * (TOLERATED - 1):
        return ""  # several units: which one is meant without a unit is open
    name = common_unit(word)
    return name if name and conversion_factor(name, unit_named(measure, {})) is not None else ""


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
        most = int(usual[-1] * per)
        step: int = 10 ** (len(str(abs(most))) - 1)
        keys["max"] = (most // step + 1) * step  # the next round number: 483 becomes 500
        remark += f"; {CHECK} max: {_outliers(nines, values)}, above all others (at most {usual[-1]:g}): unknown?"
    return keys, remark


def _is_nines(value: float) -> bool:
    text = f"{value:g}"
    return len(text) >= 3 and set(text) == {"9"}


def _outliers(found: Sequence[float], values: Mapping[float, int]) -> str:
    count = sum(values[value] for value in found)
    return f"{count} {'value' if count == 1 else 'values'} ({a_few(f'{value:g}' for value in found)})"

"""What a sheet shows by itself: its header, its columns, and what their values can be read as, with the count as evidence.

Owns: the guessing of types, date formats, number locale and units. Every guess is an observation ("412 of 412 values read as
%d.%m.%Y") and never more; who drafts a mapping decides. Values are read by the very readers that a mapping will use.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from loadsheet.mapping.conversion_errors import CellProblem
from loadsheet.mapping.moments import format_reader
from loadsheet.mapping.numerals import number_reader
from loadsheet.mapping.units import ALIASES, unit_named
from loadsheet.mapping.words import country_reader, currency_reader, yes_no_reader, zone_reader
from loadsheet.mapping_tools.footer_rows import Endings, endings
from loadsheet.mapping_tools.header_rows import Headings, find_headings
from loadsheet.mapping_tools.locales import QUANTITY, locale_by
from loadsheet.mapping_tools.vocabulary import Reading, vocabulary, words_of
from loadsheet.problems import FileRefused, Problem, Where, column_letters
from loadsheet.reading import Layout, Native, Top, WantedColumn, fold, open_tables
from loadsheet.reading.layouts import bounds_of
from loadsheet.reading.opening import read_tops
from loadsheet.settings import Settings

CHECK = "CHECK"  # marks what the sheet alone does not prove
ROWS_READ = 20_000  # enough for a guess; the evidence says how many there were
TOLERATED = 10  # one value in so many may be unreadable, and one in any case: real sheets hold typing errors

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
_MEASURES = {"weight": "kg", "volume": "m**3", "length": "cm", "width": "cm", "height": "cm"}
_BRACKETS = re.compile(r"[(\[]([^)\]]+)[)\]]")
_DATED = re.compile(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}|^[0-9]{8}|[0-9][ -][^\W\d]{3}|[0-9]:[0-9]{2}")
_A_MOMENT = re.compile(
    r"[0-9]{1,4}[./-][0-9]{1,2}[./-]([0-9]{1,4}\b.*)?|[0-9]{1,2}:[0-9]{2}.*|[0-9]{8}T.*|[0-9]{1,2}[ -][^\W\d]{3,9}\.?[ -][0-9]{2,4}\b.*"
)
_A_NUMBER = re.compile(r"[+-]?[0-9][0-9.,' ]*")
_LETTERS = {"l": "length", "w": "width", "b": "width", "h": "height"}

Parse = Callable[[str], Any]


class Guess(NamedTuple):
    """What a column's cells can be read as: a type of the mapping language, its keys, and the evidence in words."""

    type: str
    keys: dict[str, Any]
    evidence: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the sheet: heading, position, its cells by row (blank ones too), what the heading means, and what its cells are."""

    label: str
    position: int
    cells: tuple[str, ...]
    reading: Reading
    guess: Guess
    unit: str = ""

    @property
    def filled(self) -> list[str]:
        """The cells that hold anything."""
        return [cell for cell in self.cells if cell.strip()]

    @property
    def concepts(self) -> frozenset[str]:
        """What the heading means."""
        return self.reading.concepts

    @property
    def holds_moments(self) -> bool:
        """Whether most of its cells are dates or times, even if no format reads them."""
        return self.guess.type in {"datetime", "date", "time"} or _most(self.filled, _A_MOMENT, "datetime date time")

    @property
    def holds_numbers(self) -> bool:
        """Whether most of its cells are numbers, or names made of digits alone."""
        return self.guess.type in {"integer", "decimal", "quantity"} or _most(self.filled, _A_NUMBER, "number")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as found: the file, its sheet, encoding and delimiter of a text file, over how many rows its headings are spread, row
    numbers, columns, and the headings that stand over several columns, of which only the first is here; what lines of totals and notes at
    the end begin with, which are not among the rows.
    """

    path: Path
    title: str
    encoding: str
    delimiter: str
    header_rows: int
    rows: tuple[int, ...]
    columns: tuple[Column, ...]
    habits: "Habits"
    doubles: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()


@dataclass(slots=True)
class Habits:
    """How all texts of the files are written: the number locale with its evidence, and the languages of the headings."""

    locale: str = ""
    locale_evidence: str = ""
    languages: Counter[str] = field(default_factory=Counter)

    @property
    def language(self) -> str:
        """The language that explains most headings; English where nothing tells."""
        top = self.languages.most_common(1)
        return top[0][0] if top and top[0][1] > self.languages["en"] else "en"


def _most(filled: Sequence[str], shape: re.Pattern[str], kinds: str) -> bool:
    """Whether most cells have this shape, or are values of a workbook of one of these kinds."""
    like = sum(
        cell.kind in kinds.split() if isinstance(cell, Native) else shape.fullmatch(cell.strip()) is not None
        for cell in filled
    )
    return like * 2 > len(filled)


def observe(paths: Sequence[Path], settings: Settings) -> list[Sheet]:
    """Every table in these files. Raises FileRefused for a file that cannot be read, or holds no table at all."""
    raw = [found for path in paths for found in _tables(path, settings)]
    if not raw:
        raise FileRefused(Problem("R202", Where(paths[0].name), hint="no row looks like headings with rows below them"))
    habits = Habits()
    for found in raw:
        for label in found.headings.labels:
            habits.languages.update(vocabulary().read(label).languages)
    habits.locale, habits.locale_evidence = locale_by(
        [(found.headings.labels, found.rows) for found in raw], habits.language
    )
    return [_sheet(found, habits) for found in raw]


class _Raw(NamedTuple):
    """A table as read: the file, its first rows, the headings, the rows below them, and by what rows that are none are told."""

    path: Path
    top: Top
    headings: Headings
    rows: list[tuple[int, tuple[str, ...]]]
    endings: Endings


def _tables(path: Path, settings: Settings) -> Iterator[_Raw]:
    for top in read_tops(path, path.name, bounds_of(settings)):
        headings = find_headings(top)
        if headings is None:
            continue
        # a heading that stands there twice cannot be asked for
        once = [label for label in headings.labels if fold(label) and fold(label) not in headings.doubles]
        wanted = tuple(WantedColumn(str(place), (label,), required=False) for place, label in enumerate(once))
        layout = Layout(
            "rows", wanted, (top.sheet,) if top.sheet else (), headings.row,
            (top.encoding or "utf-8-sig",), (top.delimiter or ",",), header_rows=headings.rows,
        )  # fmt: skip
        table = open_tables(path, path.name, [layout], settings)["rows"]
        rows = list(islice(table.rows(), ROWS_READ))
        damaged = {row.number for row in rows if row.problem is not None}
        found = endings([(row.number, row.cells) for row in rows], damaged)
        if found.rows:
            yield _Raw(path, top, headings, found.rows, found)


def _sheet(raw: _Raw, habits: Habits) -> Sheet:
    columns = []
    doubles = raw.headings.doubles
    for position, label in enumerate(raw.headings.labels):
        again = doubles.get(fold(label), [])
        if fold(label) and position < len(raw.rows[0][1]) and position not in again[1:]:
            cells = tuple(cells[position] for _, cells in raw.rows)
            reading, unit = _understood(label)
            guess = _guess(cells, reading, unit, habits)
            if again:
                there = " and ".join(map(column_letters, again))
                guess = guess._replace(
                    evidence=f"{guess.evidence}; {CHECK}: stands over columns {there}, this is the first"
                )
            columns.append(Column(label, position, cells, reading, guess, unit))
    numbers = tuple(number for number, _ in raw.rows)
    top = raw.top
    return Sheet(
        raw.path, top.sheet, top.encoding, top.delimiter, raw.headings.rows, numbers, tuple(columns), habits,
        tuple(raw.headings.labels[positions[0]] for positions in doubles.values()), raw.endings.totals,
        raw.endings.footer,
    )  # fmt: skip


def _understood(label: str) -> tuple[Reading, str]:
    """A heading without the unit in it, and that unit as pint names it: `Gross wt (kg)`, `GrossLb`, `L (in)`."""
    unit, bare = "", label
    for inner in _BRACKETS.findall(label):
        word = inner.replace(" ", "").replace(".", "")
        if word.casefold() in ALIASES:
            unit, bare = ALIASES[word.casefold()], label.replace(f"({inner})", "").replace(f"[{inner}]", "")
    words = words_of(bare)
    reading = vocabulary().read(bare)
    measured = bool(_MEASURES.keys() & reading.concepts)
    if not unit and measured and len(words) > 1 and words[-1] in ALIASES:
        unit, bare = ALIASES[words[-1]], " ".join(words[:-1])
        reading = vocabulary().read(bare)
    elif not unit and measured:
        unit = ALIASES.get("".join(words), "")
    if unit and len(words_of(bare)) == 1 and (side := _LETTERS.get(words_of(bare)[0])):
        reading = Reading(frozenset({side}), (), reading.languages)
    return reading, unit


# ---- types ----


def _enough(read: int, of: int) -> bool:
    """Whether so many readable values make a guess."""
    return read * 2 >= of and read > 0 and of - read <= max(1, of // TOLERATED)


def _guess(cells: Sequence[str], reading: Reading, unit: str, habits: Habits) -> Guess:
    filled = [cell for cell in cells if cell.strip()]
    if not filled:
        return Guess("text", {}, "all cells are blank")
    measure = next((known for concept, known in _MEASURES.items() if concept in reading.concepts), "")
    for guess in _typed(filled), _timed(filled, habits):
        if guess is not None and not (measure and guess.type in {"integer", "decimal"}):
            is_moment = guess.type in {"datetime", "date", "time"}
            return guess if is_moment or not _is_text(reading, filled) else _text(filled)
    if measure and (guess := _quantity(filled, measure, unit, habits)):
        return guess
    if _is_text(reading, filled):
        return _text(filled)
    return _known_words(filled, reading, habits) or _numbered(filled, habits) or _text(filled)


def _is_text(reading: Reading, filled: Sequence[str]) -> bool:
    """Whether digits in this column are a name and no amount: identifiers, postcodes, telephone numbers, leading zeros."""
    names = {"id", "order", "tender", "reference", "postal", "phone", "address", "second", "code"}
    zeros = any(len(cell) > 1 and cell[0] == "0" and cell[1].isdigit() for cell in filled)
    return (bool(names & reading.concepts) and "count" not in reading.concepts) or zeros


def _text(filled: Sequence[str]) -> Guess:
    distinct = len(set(filled))
    return Guess("text", {}, f"{len(filled)} values, {distinct} different")


def _typed(filled: Sequence[str]) -> Guess | None:
    """Cells that a workbook holds as dates, flags or numbers already."""
    kinds = Counter(cell.kind if isinstance(cell, Native) else "text" for cell in filled)
    kind, count = max(kinds.items(), key=lambda item: (item[1], item[0] != "text"))
    said = f"{count} of {len(filled)} values are {kind}s of the workbook"
    if kind in {"datetime", "date", "time"} and count * 2 >= len(filled):
        others = [cell for cell in filled if not isinstance(cell, Native)]
        if any(map(_DATED.search, others)):
            return None  # dates that are texts: their format has to be found
        return Guess("time" if kind == "time" else "datetime", {}, said + _strangers(others))
    if not _enough(count, len(filled)):
        return None
    if kind == "flag":
        return Guess("yesno", {}, said)
    if kind == "number":
        whole = all("." not in cell for cell in filled)
        return Guess("integer" if whole else "decimal", {}, said)
    return None


def _timed(filled: Sequence[str], habits: Habits) -> Guess | None:
    texts = [cell for cell in filled if not isinstance(cell, Native)]
    native = sum(isinstance(cell, Native) and cell.kind in {"datetime", "date"} for cell in filled)
    if not texts or sum(_DATED.search(cell) is not None for cell in texts) < len(texts) / 2:
        return None
    if times := _share(texts, _TIMES, None):
        return Guess("time", {"formats": [times[0]]}, f"{times[1]} of {len(filled)} values read as {times[0]}")
    found = _formats(texts, _locale_of(habits))
    read = native + sum(count for _, count in found)
    if not found or read * 2 < len(filled):
        return None
    said = f"{read} of {len(filled)} values read as {' or '.join(format_ for format_, _ in found)}"
    if not _enough(read, len(filled)):
        said += _strangers([text for text in texts if all(_reads(one, None)(text) is None for one, _ in found)])
    said += f" ({native} of them are dates of the workbook)" if native else ""
    formats = [format_ for format_, _ in found]
    if other := _other_way(texts, formats[0], found[0][1]):
        if _span(texts, other) < _span(texts, formats[0]):
            formats[0], other = other, formats[0]
        said = (
            f"{read} of {len(filled)} values read as {formats[0]}; {CHECK} day and month: {other} reads all of them too"
        )
    return Guess("datetime", {"formats": formats}, said)


def _strangers(others: Sequence[str]) -> str:
    """What is remarked about cells among dates that are none."""
    return f"; {CHECK} those that are none, such as {others[0].strip()}" if others else ""


def _span(texts: Sequence[str], format_: str) -> float:
    """Seconds between the first and the last date under a format: dates of one file mostly lie close together."""
    moments = [moment.replace(tzinfo=None) for text in texts if (moment := _reads(format_, None)(text)) is not None]
    return float((max(moments) - min(moments)).total_seconds()) if moments else 0.0


def _formats(texts: Sequence[str], locale: str | None) -> list[tuple[str, int]]:
    """The fewest formats that read most of the texts, best first, each with how many it reads."""
    left = list(texts)
    found: list[tuple[str, int]] = []
    while left and len(found) < 3:  # noqa: PLR2004 (more than three ways to write a date in one column are typing errors)
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


_READERS: dict[tuple[str, str | None], Parse] = {}


def _reads(format_: str, locale: str | None) -> Parse:
    return _READERS.setdefault((format_, locale), format_reader(format_, locale))


def _share(texts: Sequence[str], formats: Sequence[str], locale: str | None) -> tuple[str, int] | None:
    for format_ in formats:
        count = sum(_reads(format_, locale)(text.strip()) is not None for text in texts)
        if texts and _enough(count, len(texts)):
            return format_, count
    return None


def _other_way(texts: Sequence[str], format_: str, read: int) -> str:
    """The format with day and month changed, if it reads as many texts: then the sheet alone cannot tell."""
    other = format_.replace("%d", "%?").replace("%m", "%d").replace("%?", "%m")
    if other == format_ or other not in _FORMATS:
        return ""
    return other if sum(_reads(other, None)(text) is not None for text in texts) >= read else ""


def _quantity(filled: Sequence[str], measure: str, unit: str, habits: Habits) -> Guess | None:
    reads = number_reader(habits.locale or "en_GB")
    count, units = 0, Counter[str]()
    for cell in filled:
        match = QUANTITY.fullmatch((cell.shown if isinstance(cell, Native) else cell).strip())
        if isinstance(cell, Native) or (match and not isinstance(reads(match[1].strip()), CellProblem)):
            count += 1
            if match and match[2]:
                units[match[2]] += 1
    if not _enough(count, len(filled)):
        return None
    keys: dict[str, Any] = {"unit": measure}
    said = f"{count} of {len(filled)} values are numbers"
    if units:
        said += f", {sum(units.values())} of them with a unit ({', '.join(units)})"
    if unit and unit != unit_named(measure, {}):
        keys["from_unit"] = next(alias for alias, name in ALIASES.items() if name == unit)
    if not unit:
        said += f"; {CHECK} the unit: nothing in the heading says {measure}"
    return Guess("quantity", keys, said)


def _known_words(filled: Sequence[str], reading: Reading, habits: Habits) -> Guess | None:
    locale = _locale_of(habits)
    tests: tuple[tuple[str, str, Parse, bool], ...] = (
        ("timezone", "names of time zones", zone_reader(), any("/" in cell for cell in filled)),
        ("currency", "currency codes", currency_reader(), "currency" in reading.concepts),
        ("country", "countries", country_reader(locale), "country" in reading.concepts),
        ("yesno", "yes or no", yes_no_reader(locale, (), ()), not all(cell.isdigit() for cell in filled)),
    )
    for type_, words, read, likely in tests:
        count = sum(not isinstance(read(cell.strip()), CellProblem) for cell in filled) if likely else 0
        if _enough(count, len(filled)):
            said = f"{count} of {len(filled)} values are {words}"
            return Guess(type_, {}, said)
    return None


def _numbered(filled: Sequence[str], habits: Habits) -> Guess | None:
    reads = number_reader(habits.locale or "en_GB")
    plain = number_reader("en_GB")
    values = [(plain if isinstance(cell, Native) else reads)(cell.strip()) for cell in filled]
    numbers = [value for value in values if not isinstance(value, CellProblem)]
    if not _enough(len(numbers), len(filled)):
        return None
    whole = not any("," in cell or "." in cell for cell in filled)
    said = f"{len(numbers)} of {len(filled)} values are {'whole ' if whole else ''}numbers"
    return Guess("integer" if whole else "decimal", {}, said)


def _locale_of(habits: Habits) -> str | None:
    """The locale whose words for months, countries, yes and no are tried beside the English ones."""
    return habits.locale or None

"""Code tables: CSV files beside a mapping with the meanings of a shipper's codes, by one or several keys, with wildcards, types and ranges.

Keys are compared trimmed and in Unicode's composed form, with or without case. With wildcards, a key ending in `*` matches all codes with
that prefix. A key that occurs twice with different values is refused at load, with both lines. With a range, the rows of a key are
intervals of a number or a date, such as weight bands or periods of validity. Overlaps and gaps are refused at load.
"""

import csv
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from io import StringIO
from itertools import pairwise
from math import inf
from typing import Any, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from loadsheet.mapping.plans import CellProblem, CodeColumn, Type
from loadsheet.mapping.schema import LookupSpec, RangeSpec, ValueType
from loadsheet.mapping.yamlfile import Loc, YamlFile
from loadsheet.similar_text import did_you_mean, did_you_mean_value, short_list

_TABLES = frozenset({".csv", ".tsv", ".txt"})
CodeRow = tuple[Any, ...]
"""The values of a key, in the order of `Lookup.columns`; None for a blank."""

Item = TypeVar("Item")

KeyForm = tuple[int | None, ...]
"""For each key of a row how much of it is compared: all (None), or the number of letters before its wildcard."""

_TYPES: Mapping[ValueType, Type] = {
    "text": Type.TEXT,
    "decimal": Type.NUMBER,
    "integer": Type.NUMBER,
    "date": Type.MOMENT,
    "datetime": Type.MOMENT,
    "yesno": Type.FLAG,
}
_FLAGS = {"yes": True, "no": False, "true": True, "false": False}
_MISSED = "C320"


class Interval(NamedTuple):
    """A row of a table: its line, the bounds of its range (None: open) and its values."""

    line: int
    low: Any
    high: Any
    values: CodeRow

    def __str__(self) -> str:
        """The bounds in words."""
        if self.low is None or self.high is None:
            return "all" if self.low is self.high else f"below {self.high}" if self.low is None else f"from {self.low}"
        is_day = isinstance(self.high, datetime) and self.high.time() == time.max
        return f"{self.low} to {self.high.date() if is_day else self.high}"


@dataclass(frozen=True, slots=True)
class Range:
    """How the rows of a key are searched: the type of the value, whether dates are compared without their time, and which row counts."""

    type: Type
    of_days: bool
    upper_included: bool
    match: Literal["only", "first", "last"]

    def comparable(self, value: Any) -> Any:
        """A converted value in the form of the bounds: a number, a local date, or a local time without a zone."""
        if not isinstance(value, datetime):
            return value
        return value.date() if self.of_days else value.replace(tzinfo=None)

    def upper(self, value: Any, *, has_time: bool) -> Any:
        """A converted upper bound. A day without a time that belongs to the interval does so to its end."""
        high, is_whole = self.comparable(value), self.upper_included and not has_time
        return datetime.combine(high, time.max) if is_whole and isinstance(high, datetime) else high

    def holds(self, row: Interval, value: Any) -> bool:
        """Whether the value is in the interval."""
        if row.low is not None and value < row.low:
            return False
        return row.high is None or value < row.high or (self.upper_included and value == row.high)

    def find(self, rows: Sequence[Interval], value: Any) -> CodeRow | None:
        """The values of the row whose interval holds a comparable value; of several rows the first or the last."""
        found = (row.values for row in (reversed(rows) if self.match == "last" else rows) if self.holds(row, value))
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Lookup:
    """A code table in memory. With `has_named_values`, values are named (`event.code`); else the single column is the value. `keys` are the first keys
    without wildcards, as written. `rows_by_form` holds the rows of each form, the most specific form first: their values, or their intervals if
    there is a `range`.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[Type, ...]
    has_named_values: bool
    rows_by_form: tuple[tuple[KeyForm, dict[tuple[str, ...], Any]], ...]
    keys: tuple[str, ...]
    more_keys: int
    ignore_case: bool
    missing: Literal["error", "keep", "blank"]
    content: bytes
    range: Range | None

    def find(self, *keys: Any) -> CodeRow | None:
        """The row of a key, or of several, or None. With a range, the last key is the converted value that the range is searched for."""
        rows: Any = self._rows_of(keys)
        if rows is None or self.range is None:
            codes: CodeRow | None = rows
            return codes
        value = self.range.comparable(keys[-1])
        return None if value is None or value == "" else self.range.find(rows, value)

    def _rows_of(self, keys: Sequence[Any]) -> Any:
        return found_by(self.rows_by_form, keys if self.range is None else keys[:-1], ignore_case=self.ignore_case)

    def value_of(self, key: Any, others: Sequence[Any] = ()) -> Any:
        """The values of a key and the further ones (of a table with a single value, that value). For keys without a row, the result by the rule
        `missing`: a problem, the key itself, or None.
        """
        found = self.find(key, *others)
        if found is None:
            return self._missed(key, others)
        return found if self.has_named_values else found[0]

    def _missed(self, text: Any, others: Sequence[Any]) -> Any:
        if self.missing != "error":
            return text if self.missing == "keep" else None
        keys = (text, *others)
        rows = self._rows_of(keys) if self.range is not None else None
        if rows is not None and self.range is not None and keys[-1] not in (None, ""):
            value = self.range.comparable(keys[-1])
            return not_in(value, rows, self.name)
        wild = (f"{key[0]}*" for form, found in self.rows_by_form for key in found if key and form[0] is not None)
        expected = short_list(self.keys or dict.fromkeys(wild))
        return CellProblem("C306", {"expected": expected}, self._why_missing(text, others))

    def _why_missing(self, text: str, others: Sequence[Any]) -> str:
        if others and self.knows(text):
            with_ = " and ".join(str(other or "a blank") for other in others)
            return f"the table has no row for this value with {with_}"
        return did_you_mean_value(text, self.keys)

    def knows(self, key: str) -> bool:
        """Whether any row has this first key, written out or by its wildcard."""
        plain = lookup_key(key, ignore_case=self.ignore_case)
        return any(keys[0] == plain[: form[0]] for form, rows in self.rows_by_form for keys in rows if keys)

    @property
    def searched(self) -> Type | None:
        """The type of the number or date that the range is searched for."""
        return self.range.type if self.range is not None else None

    @property
    def meanings(self) -> list[CodeRow]:
        """The values of all rows."""
        each = [row for _, rows in self.rows_by_form for row in rows.values()]
        return each if self.range is None else [interval.values for rows in each for interval in rows]

    @property
    def code_columns(self) -> tuple[CodeColumn, ...]:
        """Its columns as the parts of a value: `event.code`."""
        blank = [any(row[place] is None for row in self.meanings) for place in range(len(self.columns))]
        return tuple(CodeColumn(*part) for part in zip(self.columns, blank, self.types, strict=True))


def not_in(value: Any, rows: Sequence[Interval], table: str) -> CellProblem:
    """The problem of a comparable value that no row holds. It names the nearest row."""

    def distance(row: Interval) -> float:
        gaps = [abs(value - bound) for bound in (row.low, row.high) if bound is not None]
        return min((gap.total_seconds() if isinstance(gap, timedelta) else float(gap) for gap in gaps), default=0.0)

    return CellProblem(_MISSED, {"value": str(value), "table": table, "nearest": str(min(rows, key=distance))})


def range_parser(parse: Callable[[str], Any], lookup: Lookup) -> Callable[[str], Any]:
    """A parser that gives the row of a code table whose interval holds the number or date of the cell."""

    def find(cell: str) -> Any:
        value = parse(cell)
        return value if isinstance(value, CellProblem) else lookup.value_of(value)

    return find


def lookup_key(text: str, *, ignore_case: bool) -> str:
    """A text in the form in which keys are compared: trimmed, composed, and without case if `ignore_case`."""
    plain = unicodedata.normalize("NFC", text.strip())
    return plain.casefold() if ignore_case else plain


def group_by_key_form(
    rows: Iterable[tuple[Sequence[str], Item]], *, wildcards: bool, ignore_case: bool
) -> tuple[tuple[KeyForm, dict[tuple[str, ...], list[Item]]], ...]:
    """The items by the form and the compared texts of their keys, the most specific form first."""
    forms: dict[KeyForm, dict[tuple[str, ...], list[Item]]] = {}
    for keys, item in rows:
        plain = [lookup_key(key, ignore_case=ignore_case) for key in keys]
        form = tuple(len(key) - 1 if wildcards and key.endswith("*") else None for key in plain)
        compared = tuple(key[:length] for key, length in zip(plain, form, strict=True))
        forms.setdefault(form, {}).setdefault(compared, []).append(item)

    def specificity(form: tuple[KeyForm, object]) -> list[float]:
        return [inf if length is None else length for length in form[0]]

    return tuple(sorted(forms.items(), key=specificity, reverse=True))


def found_by(
    forms: Sequence[tuple[KeyForm, Mapping[tuple[str, ...], Item]]], keys: Sequence[Any], *, ignore_case: bool
) -> Item | None:
    """What the most specific form has for these keys, or None."""
    parts = [lookup_key(key, ignore_case=ignore_case) for key in keys]
    for form, items in forms:
        found = items.get(tuple(part[:length] for part, length in zip(parts, form, strict=True)))
        if found is not None:
            return found
    return None


# ---- reading a code table ----


class _Line(NamedTuple):
    """A line of the file: its number, the keys, the values and the bounds as written."""

    line: int
    keys: Sequence[str]
    values: Sequence[str]
    bounds: Sequence[str]


def read_lookup(spec: LookupSpec, file: YamlFile, loc: Loc, zone: ZoneInfo | None = None) -> Lookup | None:
    """Read a code table. If it is invalid, add findings to the mapping file and return None. Dates are in `zone`."""
    path = file.beside(spec.file, (*loc, "file")) if spec.file is not None and spec.value else None
    for key in ("file", "value"):
        if not getattr(spec, key):
            hint = "write file: or table:" if key == "file" else ""
            file.refuse(loc, f'the key "{key}" is missing', hint, at_key=True)
    if path is None:
        return None
    names = [*spec.key, *_values_of(spec), *([spec.range.from_, spec.range.to] if spec.range else [])]
    content = file.content_of(path, str(spec.file), (*loc, "file"))
    if content is None:
        return None
    try:
        header, rows = _read_with_best_delimiter(content.decode("utf-8-sig"), names)
    except csv.Error as error:
        file.refuse((*loc, "file"), f"{spec.file} is not CSV: {error}")
        return None
    is_table = path.suffix.lower() in _TABLES  # do not quote the content of any other file
    if not _has_columns(names, header, spec, file, loc, is_table=is_table) or not _is_sound(spec, file, loc):
        return None
    return _Reader(spec, file, loc, zone).lookup(content, _cells(rows, header, names, spec))


def _values_of(spec: LookupSpec) -> list[str]:
    return spec.value if isinstance(spec.value, list) else [spec.value]


def _has_columns(
    names: list[str], header: list[str], spec: LookupSpec, file: YamlFile, loc: Loc, *, is_table: bool
) -> bool:
    """Whether the file has all columns; a missing one is a finding."""
    unknown = [name for name in names if name not in header]
    for name in unknown:
        key = "key" if name in spec.key else "value" if name in _values_of(spec) else "range"
        hint = did_you_mean(name, header) or f"it has {short_list(header)}"
        file.refuse((*loc, key), f'{spec.file} has no column "{name}"', hint if is_table else "is it a code table?")
    return not unknown


def _is_sound(spec: LookupSpec, file: YamlFile, loc: Loc) -> bool:
    """Whether the keys of the table fit together; a contradiction is a finding."""
    sound = True
    if isinstance(spec.value, list) and spec.missing == "keep":
        file.refuse((*loc, "missing"), "keep needs a single value column", "name one column instead of a list")
    if spec.missing == "keep" and (spec.types or spec.range is not None):
        file.refuse((*loc, "missing"), "keep needs texts without types and a range", "write missing: error or blank")
    for name in spec.types:
        if name not in _values_of(spec):
            hint = did_you_mean(name, _values_of(spec)) or f"value names {short_list(_values_of(spec))}"
            file.refuse((*loc, "types", name), f'"{name}" is not a value of this table', hint, at_key=True)
            sound = False
    return has_keys(spec, file, loc) and sound


def has_keys(spec: LookupSpec, file: YamlFile, loc: Loc) -> bool:
    """Whether the rows of a code table can be found; a contradiction is a finding."""
    if not spec.key and spec.range is None:
        file.refuse(loc, "the code table has no key", "write key: COLUMN, or a range", at_key=True)
    if spec.match != "only" and spec.range is None:
        file.refuse((*loc, "match"), "match needs a range", "without one, each key has one row", at_key=True)
    return spec.range is not None or bool(spec.key and spec.match == "only")


def _read_with_best_delimiter(text: str, wanted: list[str]) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header and numbered rows, with the delimiter that gives most of the wanted columns. Raises csv.Error."""
    if "\0" in text:
        raise csv.Error("it holds NUL characters")
    best: list[tuple[int, list[str]]] = []
    for delimiter in (",", ";", "\t"):
        reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(row)]
        if rows and (not best or len({*rows[0][1]}.intersection(wanted)) > len({*best[0][1]}.intersection(wanted))):
            best = rows
    return (best[0][1], best[1:]) if best else ([], [])


def _cells(rows: list[tuple[int, list[str]]], header: list[str], names: list[str], spec: LookupSpec) -> Iterator[_Line]:
    places = [header.index(name) for name in names]
    keys, values = len(spec.key), len(_values_of(spec))
    for line, row in rows:
        cells = [unicodedata.normalize("NFC", row[place]) if place < len(row) else "" for place in places]
        yield _Line(line, cells[:keys], cells[keys : keys + values], cells[keys + values :])


class _Reader:
    """Converts the rows of one table. What is wrong with a row is a finding that names its line."""

    def __init__(self, spec: LookupSpec, file: YamlFile, loc: Loc, zone: ZoneInfo | None) -> None:
        self._spec, self._file, self._loc = spec, file, loc
        self._zone = zone or ZoneInfo("UTC")
        self._types: list[ValueType] = [spec.types.get(name, "text") for name in _values_of(spec)]

    def lookup(self, content: bytes, rows: Iterator[_Line]) -> Lookup:
        """The table; after a finding it is not used."""
        spec, kept = self._spec, list(rows)
        search = None if spec.range is None else self._range(spec.range, kept)
        first = (row.keys[0] for row in kept if spec.key)
        keys = dict.fromkeys(key for key in first if not (spec.wildcards and key.endswith("*")))
        return Lookup(
            name=str(self._loc[-1]),
            columns=tuple(_values_of(spec)),
            types=tuple(_TYPES[name] for name in self._types),
            has_named_values=isinstance(spec.value, list),
            rows_by_form=self._rows_by_form(kept, search),
            keys=tuple(keys),
            more_keys=len(spec.key) - 1 + (search is not None),
            ignore_case=spec.ignore_case,
            missing=spec.missing,
            content=content,
            range=search,
        )

    def _refuse(self, text: str, hint: str = "") -> None:
        self._file.refuse(self._loc, f"{self._spec.file}{text}", hint)

    def _codes(self, row: _Line) -> CodeRow:
        """The typed values of a row; a value that does not have its type is a finding."""
        found = []
        for name, type_, text in zip(_values_of(self._spec), self._types, row.values, strict=True):
            try:
                found.append(_typed(text, type_, self._zone) if text else None)
            except ValueError:
                self._refuse(f', line {row.line}: "{text}" is not of type {type_} ({name})', _HOW[type_])
                found.append(None)
        return tuple(found)

    def _rows_by_form(
        self, rows: list[_Line], search: Range | None
    ) -> tuple[tuple[KeyForm, dict[tuple[str, ...], Any]], ...]:
        """`Lookup.rows_by_form`. A key with two meanings is a finding, and so is a wildcard that is not at the end."""
        spec, read = self._spec, list[tuple[Sequence[str], Interval]]()
        for row in rows:
            if spec.wildcards and any("*" in key[:-1] for key in row.keys):
                self._refuse(f', line {row.line}: "{", ".join(row.keys)}" has a * that is not at the end')
            low, high = self._bounds(row, search) if search is not None else (None, None)
            read.append((row.keys, Interval(row.line, low, high, self._codes(row))))
        forms = group_by_key_form(read, wildcards=spec.wildcards, ignore_case=spec.ignore_case)
        by_line = {row.line: ", ".join(row.keys) for row in rows}
        for intervals in (some_rows for _, found in forms for some_rows in found.values()):
            if search is None:
                self._check_meanings(intervals, by_line)
            else:
                self._check_intervals(intervals, by_line[intervals[0].line], search)
        if search is not None:
            return forms
        return tuple((form, {key: rows[0].values for key, rows in found.items()}) for form, found in forms)

    def _check_meanings(self, rows: list[Interval], by_line: Mapping[int, str]) -> None:
        """Refuse a key with two meanings."""
        first = rows[0]
        for other in rows[1:]:
            if other.values != first.values:
                shown = by_line[other.line]
                self._refuse(f' gives "{shown}" two meanings, in lines {first.line} and {other.line}')
                return

    def _check_intervals(self, rows: list[Interval], shown: str, search: Range) -> None:
        """Refuse overlaps and gaps of the rows of a key, unless the table allows them."""
        of, gaps = f' of "{shown}"' if shown else "", self._spec.range is None or self._spec.range.gaps == "allow"
        moments = timedelta(days=1) if search.of_days else timedelta(microseconds=1)
        step: Any = 1 if search.type is Type.NUMBER else moments  # to the next lower bound that leaves no gap
        ordered = sorted(rows, key=lambda row: (row.low is not None, row.low if row.low is not None else 0))
        for one, other in pairwise(ordered):
            lines = f"lines {one.line} and {other.line}{of}"
            overlaps = one.high is None or other.low is None or other.low < one.high
            overlaps = overlaps or (search.upper_included and other.low == one.high)
            if overlaps and search.match == "only":
                hint = "correct them, or choose a row with match: first or match: last"
                self._refuse(f": {lines} overlap: {one}, {other}", hint)
            elif not overlaps and not gaps and other.low > (one.high + step if search.upper_included else one.high):
                hint = "add a row, or write gaps: allow"
                self._refuse(f": there is a gap between {lines}: {one}, {other}", hint)

    def _range(self, spec: RangeSpec, rows: list[_Line]) -> Range:
        texts = [text for row in rows for text in row.bounds if text]
        is_number = all(_parses(_decimal, text) for text in texts)
        return Range(
            Type.NUMBER if is_number else Type.MOMENT,
            not is_number and all(_parses(date.fromisoformat, text) for text in texts),
            spec.upper == "included",
            self._spec.match,
        )

    def _bounds(self, row: _Line, search: Range) -> tuple[Any, Any]:
        moment = date.fromisoformat if search.of_days else _local
        read: Callable[[str], Any] = _decimal if search.type is Type.NUMBER else moment
        found: list[Any] = [None, None]
        for place, text in enumerate(row.bounds):
            try:
                found[place] = read(text) if text else None
            except ValueError:
                self._refuse(f', line {row.line}: "{text}" is neither a number nor a date', _HOW["date"])
        low, high = found[0], search.upper(found[1], has_time=not _parses(date.fromisoformat, row.bounds[1]))
        if low is not None and high is not None and (high < low or (high == low and not search.upper_included)):
            self._refuse(f", line {row.line}: nothing is from {low} to below {high}")
        return low, high


_HOW: Mapping[ValueType, str] = {
    "text": "",
    "decimal": "write it like 1234.5",
    "integer": "write it like 1234",
    "date": "write a date like 2026-03-31, a number like 1234.5",
    "datetime": "write it like 2026-03-31 14:00",
    "yesno": "write yes or no",
}


def _typed(text: str, type_: ValueType, zone: ZoneInfo) -> Any:
    """A value of a code table. Raises ValueError."""
    if type_ == "text":
        return text
    if type_ == "yesno":
        if text.casefold() not in _FLAGS:
            raise ValueError
        return _FLAGS[text.casefold()]
    if type_ == "date":
        return datetime.combine(date.fromisoformat(text), datetime.min.time(), zone)
    if type_ == "datetime":
        return _local(text).replace(tzinfo=zone)
    number = _decimal(text)
    if type_ == "integer" and number != number.to_integral_value():
        raise ValueError
    return number


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError from None
    if not number.is_finite() or "_" in text:
        raise ValueError
    return number


def _local(text: str) -> datetime:
    """A date and time without a zone. Raises ValueError."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is not None:
        raise ValueError
    return found


def _parses(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True

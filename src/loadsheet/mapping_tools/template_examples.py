"""The examples of a template: rows of one realistic shipment, as a mapping reads them.

A column holds what the contract's example record has in the field that the column fills, so places, dates and keys fit each other. If
the column does not take that value, or fills no field alone, its type, limits and list decide. The second row is of another package,
or of another record to another place, a day later. Columns that must be equal are equal: the keys of joined sheets, and the columns of
a record with several rows.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from loadsheet.contract import BY_NAME
from loadsheet.contract.examples import OTHER_PACKAGE, OTHER_PLACE, OTHER_RECORD, SIZES, example_record
from loadsheet.languages import known_language, words_in
from loadsheet.mapping.compile import CompiledMapping
from loadsheet.mapping.layouts import MOMENT
from loadsheet.mapping.plans import CellProblem, ColumnPlan, TablePlan
from loadsheet.mapping.texts import example_of

_STEP = re.compile(r"([^.\[\]]+)(\[\d*\])?")
_LAST_NUMBER = re.compile(r"(\d+)(\D*)$")
_WORDS = {"country": "DE", "currency": "EUR", "timezone": "Europe/Berlin"}
_NUMBERS = {"integer": Decimal(10), "decimal": Decimal("12.5"), "quantity": Decimal("12.5")}
_MOMENTS = ("date", "datetime", "time")
_INDEX = re.compile(r"\[\d+\]")
_PARTY = re.compile(r"involved_\w+\[(\d+)\]")
_COUNTED = re.compile(r"-\d{4,}$")
_METRE_IN = {"cm": Decimal(100), "mm": Decimal(1000), "in": Decimal(40), "ft": Decimal("3.3")}
_TRANSLATED = (
    "Centrifugal pumps CP-40",
    "Six pumps on Euro pallets",
    "CP-40 with flange",
    "Pump, cast iron",
    "Spare seals CP-40",
    "Two cartons of seals",
    "Seal kit CP-40",
    "Seals, rubber",
    "Gate 3",
    "Dock B",
    "Picked up",
    "Loaded, six pallets, seal 88120",
)

Cell = Any
"""A text, Decimal, datetime, date or time; an empty text for a blank."""


class Examples:
    """The example cells of a mapping, by table and column. Each has two variants: of the first and of another package, place or record."""

    def __init__(self, mapping: CompiledMapping) -> None:
        self._plan = mapping.plan
        self._words = words_in(known_language(mapping.language) or "en")
        main, *others = (table.source or table.name for table in self._plan.tables)
        self._main = main
        self._has_two_records = set(others) <= {main} and not self._plan.is_grouped
        self._varying, self._numbers = _varying(mapping), _numbers(mapping)
        self._fields, self._other = _fields_of(mapping, {}), _fields_of(mapping, OTHER_RECORD)
        if not self._all_taken():
            self._other = _fields_of(mapping, OTHER_PACKAGE)
        self._equals = dict(self._equal_columns())
        self._joined = {place for pair in self._equals.items() for place in pair}

    def rows(self, table: TablePlan, column: ColumnPlan, nth: int) -> tuple[Cell, ...]:
        """The cells of a column in the example rows of its sheet: two rows of one record, else two records. If other sheets belong to
        it, one record. `nth` numbers the headings that are read as this column, from 0.
        """
        is_main = (table.source or table.name) == self._main
        rows = 1 if is_main and not (self._has_two_records or self._plan.is_grouped) else 2
        place = self._origin((table.position, column.name))
        varies = self._has_two_records or not self._is_of_record(*place)
        nth = nth or (self._numbers.get((table.name, column.name), 0) if column.choices else 0)
        variants = [(row if varies else 0) + nth for row in range(rows)]
        may_be_blank = table.sets is not None or not column.spec.required
        return tuple("" if one > 1 and may_be_blank else self._cell(place, min(one, 1), nth) for one in variants)

    def _origin(self, place: tuple[int, str]) -> tuple[int, str]:
        """The column whose cells a column repeats."""
        seen = {place}
        while (place := self._equals.get(place, place)) not in seen:
            seen.add(place)
        return place

    def _is_of_record(self, position: int, name: str) -> bool:
        """Whether a column has one value in a record."""
        table = self._plan.tables[position]
        if (table.source or table.name) != self._main:
            return False
        equal = {*table.key, *self._plan.one_value}
        for derived in reversed(table.derived):  # a value that is made of others
            equal |= derived.needs if derived.index in equal else frozenset()
        return not self._plan.is_grouped or [column.name for column in table.columns].index(name) in equal

    def _cell(self, at: tuple[int, str], variant: int, nth: int) -> Cell:
        """A cell of a column: from the mapping, its list, the fields that it fills, or its type."""
        table = self._plan.tables[at[0]]
        column = next(one for one in table.columns if one.name == at[1])
        parts = [part for part in table.columns if part.spec.part_of == column.name]
        first = self._known_cell(table, column, parts, self._fields)
        if not variant:
            return first
        if column.spec.example is None:
            other = self._known_cell(table, column, parts, self._other)
            if other != first:
                return other
            if column.choices and column.spec.type == "text" and (table.name, column.name) in self._varying:
                return next((choice for choice in column.choices if choice != first), first)
        counts = isinstance(first, Decimal) or (isinstance(first, str) and _COUNTED.search(first) is not None)
        is_key = column.spec.key or at in self._joined or table.columns.index(column) in (*table.key, *table.fills_by)
        if isinstance(first, datetime):
            return first + timedelta(days=nth or 1)
        return _next_value(column, first) if is_key or counts or first == column.label else first

    def _known_cell(
        self,
        table: TablePlan,
        column: ColumnPlan,
        parts: Sequence[ColumnPlan],
        fields: dict[tuple[str, str], list[str]],
    ) -> Cell:
        known = [
            self._words.raw(text) if text in _TRANSLATED else text for text in fields.get((table.name, column.name), [])
        ]
        is_key = (table.position, column.name) in self._joined and not any(known) and column.spec.type == "text"
        return _cell(column, parts, [f"{column.label[:1].upper()}-1"] if is_key else known, table.columns.index(column))

    def _all_taken(self) -> bool:
        """Whether all columns of a place take the other place, so that country, postcode and city fit each other."""
        for table in self._plan.tables:
            for column in table.columns:
                field = next(iter(self._other.get((table.name, column.name), [])), "")
                parts = [part for part in table.columns if part.spec.part_of == column.name]
                listed = column.choices and column.spec.type not in _WORDS
                if field in OTHER_PLACE.values() and (listed or not _takes(column, parts, field)):
                    return False
        return True

    def _equal_columns(self) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
        """The columns whose cells equal those of another: keys of joined tables, and of rows that are looked up."""
        tables = self._plan.tables
        pairs = [
            (table, mine, join.to, theirs)
            for table in tables
            if (join := self._plan.joins.get(table.position))
            for mine, theirs in join.on
        ]
        pairs += [
            (tables[column.reference.position], column.reference.columns[0], table.position, place)
            for table in tables
            for place, column in enumerate(table.columns)
            if column.reference is not None
        ]
        for table, mine, other, theirs in pairs:
            if mine < len(table.columns) and theirs < len(tables[other].columns):
                yield (table.position, table.columns[mine].name), (other, tables[other].columns[theirs].name)


def _fields_of(mapping: CompiledMapping, other: dict[str, str]) -> dict[tuple[str, str], list[str]]:
    """The contract's example values of the fields that a column fills, by table and column. Those that it fills alone come first. `other`
    has values that replace those of the example, by path without numbers.
    """
    alone: dict[tuple[str, str], list[str]] = defaultdict(list)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    operation = mapping.operation
    record = example_record(BY_NAME[f"{operation.subject}.create"]) | example_record(operation)
    for path, sources in mapping.lineage.items():
        columns = {source[:2] for source in sources}
        plain = _INDEX.sub("[]", path)
        value = SIZES.get(plain, _value_at(record, path))
        for place in columns if value not in (None, "") else ():
            (alone if len(columns) == 1 else shared)[place].append(other.get(plain, str(value)))
    return {place: [*alone[place], "", *shared[place]] for place in {*alone, *shared}}


def _varying(mapping: CompiledMapping) -> set[tuple[str, str]]:
    """The columns, by table and name, whose codes are of a package or an event."""
    ours = ("packages[", "status", "involved_")
    return {source[:2] for path, sources in mapping.lineage.items() if path.startswith(ours) for source in sources}


def _numbers(mapping: CompiledMapping) -> dict[tuple[str, str], int]:
    """Of columns, by table and name, that only fill one of several parties: its number from 0."""
    numbers: dict[tuple[str, str], set[int]] = defaultdict(set)
    for path, sources in mapping.lineage.items():
        for source in sources:
            numbers[source[:2]].add(int(match[1]) if (match := _PARTY.match(path)) else 0)
    return {place: found.pop() for place, found in numbers.items() if len(found) == 1}


def _value_at(record: Cell, path: str) -> Cell:
    for name, index in _STEP.findall(path):
        record = record.get(name) if isinstance(record, dict) else None
        if index:
            place = int(index[1:-1] or 0)
            record = record[place] if isinstance(record, list) and place < len(record) else None
    return None if isinstance(record, dict | list) else record


def _cell(column: ColumnPlan, parts: Sequence[ColumnPlan], known: Sequence[str], place: int) -> Cell:
    """The example of a column: from the mapping, its list, the fields that it fills (`known`), or its type."""
    spec, field = column.spec, next(iter(known), "")
    if spec.example is not None:
        return spec.example
    if spec.type == "yesno":
        return column.choices[field == "no"]
    if column.choices and spec.type not in _WORDS:
        return next((choice for choice in column.choices if choice.casefold() == field.casefold()), column.choices[0])
    if spec.type in _MOMENTS:
        moments = filter(None, map(_moment, known))
        moment = next(moments, MOMENT.replace(hour=8 + min(2 * place, 12)))  # columns further right are later
        return {"time": moment.time(), "date": moment.date()}.get(spec.type, moment)
    if spec.type in _NUMBERS:
        return _number(column, field)
    texts = (field, _WORDS.get(spec.type, ""), *_texts(column))
    return next((text for text in texts if text and _takes(column, parts, text)), "")


def _texts(column: ColumnPlan) -> Iterator[str]:
    """Texts that the column may take, the most telling first."""
    spec = column.spec
    if pattern := spec.pattern or spec.split:
        yield example_of(pattern)
    text = "A-1001" if spec.key else column.label
    text = f"{'0' * (spec.pad_left.to - 4)}1067" if spec.pad_left is not None and spec.pad_left.to > 4 else text
    yield text[: spec.max_length or len(text)].strip()


def _takes(column: ColumnPlan, parts: Sequence[ColumnPlan], text: str) -> bool:
    long = column.spec.max_length is not None and len(text) > column.spec.max_length
    return not long and not any(isinstance(plan.convert(text), CellProblem) for plan in (column, *parts))


def _moment(field: str) -> datetime | None:
    try:
        return datetime.fromisoformat(field).replace(tzinfo=None)
    except ValueError:
        return None


def _number(column: ColumnPlan, field: str) -> Decimal:
    spec = column.spec
    metres = field.removesuffix(" m")
    try:
        number = Decimal(metres) * (
            _METRE_IN.get(spec.from_unit or spec.unit or "", Decimal(1)) if metres != field else 1
        )
    except ArithmeticError:
        number = _NUMBERS[spec.type]
    number = number if spec.min is None else max(number, spec.min)
    number = number if spec.max is None else min(number, spec.max)
    return number.to_integral_value() if spec.type == "integer" else number


def _next_value(column: ColumnPlan, first: Cell) -> Cell:
    """The next value: its last number is one more."""
    found = _LAST_NUMBER.search(first) if isinstance(first, str) else None
    if isinstance(first, Decimal):
        bound = column.spec.max
        return first + 1 if bound is None or first < bound else first - 1
    if found is None:
        text = f"{first} 2"
        return text if first == column.label and _takes(column, (), text) else first
    text = f"{first[: found.start()]}{int(found[1]) + 1:0{len(found[1])}}{found[2]}"
    return text if _takes(column, (), text) else first

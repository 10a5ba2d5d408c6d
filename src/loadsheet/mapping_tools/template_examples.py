"""The examples of a template: rows of one realistic shipment, as a mapping reads them.

A column holds what the contract's example record has in the field that the column fills, so places, dates and keys fit each other. If
the column does not take that value, or fills no field alone, its type, limits and list decide. Columns that must be equal are
equal: the keys of joined sheets, and the columns of a record with several rows.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from loadsheet.contract import BY_NAME
from loadsheet.contract.examples import example_record
from loadsheet.mapping import Mapping as CompiledMapping
from loadsheet.mapping.column_guides import MOMENT
from loadsheet.mapping.patterns import example_of
from loadsheet.mapping.plans import CellProblem, ColumnPlan, TablePlan

_STEP = re.compile(r"([^.\[\]]+)(\[\d*\])?")
_LAST_NUMBER = re.compile(r"(\d+)(\D*)$")
_WORDS = {"country": "DE", "currency": "EUR", "timezone": "Europe/Berlin"}
_NUMBERS = {"integer": Decimal(10), "decimal": Decimal("12.5"), "quantity": Decimal("12.5")}
_MOMENTS = ("date", "datetime", "time")

Cell = Any
"""A text, Decimal, datetime, date or time; an empty text for a blank."""


class Examples:
    """The example cells of a mapping, by table and column."""

    def __init__(self, mapping: CompiledMapping) -> None:
        self._plan = mapping.plan
        main, *others = (table.source or table.name for table in self._plan.tables)
        self._main, self._is_alone = main, set(others) <= {main}
        fields = _fields_of(mapping)
        self._first: dict[tuple[int, str], Cell] = {}
        for table in self._plan.tables:
            for place, column in enumerate(table.columns):
                parts = [part for part in table.columns if part.spec.part_of == column.name]
                known = fields.get((table.name, column.name), [])
                self._first[table.position, column.name] = _cell(column, parts, known, place)
        for mine, theirs in self._equal_columns():
            self._first[mine] = self._first[theirs]

    def rows(self, table: TablePlan, column: ColumnPlan) -> tuple[Cell, ...]:
        """The cells of a column in the example rows of its sheet: two rows of one record, else two records. If other sheets belong to
        it, one record.
        """
        first = self._first[table.position, column.name]
        if self._plan.is_grouped or (table.source or table.name) != self._main:
            return first, first
        if not self._is_alone:
            return (first,)
        is_key = column.spec.key or table.columns.index(column) in (*table.key, *table.fills_by)
        return first, _next_key(column, first) if is_key else first

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


def _fields_of(mapping: CompiledMapping) -> dict[tuple[str, str], list[str]]:
    """The contract's example values of the fields that a column fills, by table and column. Those that it fills alone come first."""
    alone: dict[tuple[str, str], list[str]] = defaultdict(list)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    operation = mapping.operation
    record = example_record(BY_NAME[f"{operation.subject}.create"]) | example_record(operation)
    for path, sources in mapping.lineage.items():
        columns = {source[:2] for source in sources}
        value = _value_at(record, path)
        for place in columns if value not in (None, "") else ():
            (alone if len(columns) == 1 else shared)[place].append(str(value))
    return {place: [*alone[place], "", *shared[place]] for place in {*alone, *shared}}


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
    try:
        number = Decimal(field)
    except ArithmeticError:
        number = _NUMBERS[spec.type]
    number = number if spec.min is None else max(number, spec.min)
    number = number if spec.max is None else min(number, spec.max)
    return number.to_integral_value() if spec.type == "integer" else number


def _next_key(column: ColumnPlan, first: Cell) -> Cell:
    """The key of the next record: its last number is one more."""
    found = _LAST_NUMBER.search(first) if isinstance(first, str) else None
    if isinstance(first, Decimal):
        return first + 1
    if found is None:
        return first
    text = f"{first[: found.start()]}{int(found[1]) + 1:0{len(found[1])}}{found[2]}"
    return text if _takes(column, (), text) else first

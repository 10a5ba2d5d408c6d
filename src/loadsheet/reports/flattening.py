"""Nested records as flat tables: one of the records, and one of each array in them, whose rows name the record that they are of.

Owns: how a record of the contract is laid out in rows and columns. Every field of the record is a column, in the order of the
interface; what a record holds beside them, or in another form, stands in the last column as JSON, so that nothing is lost.
Pure: knows neither files nor the exchange, and no field by name.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from loadsheet.contract import Field, Kind, Record, plain

OTHERS = "other fields"
_SCALARS = (str, int, float, Decimal, bool, type(None))
_EXPONENT_MAX = 40

_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column: its heading (the field's own name, with those of the objects around it), its kind, and what it means."""

    head: str
    kind: Kind
    meaning: str


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table: the array that it is of, by the names on the way there (none: the records themselves), and its columns; the first
    `keys` of them say to which record and item a row belongs.
    """

    path: tuple[str, ...]
    columns: tuple[FlatColumn, ...]
    keys: int

    @property
    def name(self) -> str:
        """Its array as a payload path: `packages.inner_cargos`; empty for the records."""
        return ".".join(self.path)


class Layout:
    """The tables of a record. `chosen` are the columns that are wanted, or whole arrays, as `names` gives them (none: all); the key
    is always there, and a table of which nothing is wanted is not.
    """

    def __init__(self, record: Record, chosen: Collection[str] = ()) -> None:
        self._key = record.key[0]
        named = record.field(self._key)
        self._parts = [
            _Part(record, self._key, (), (named.meaning if named else "",)),
            *_parts(record, self._key, (), ()),
        ]
        self.names = (
            self._key,
            *(name for part in self._parts for name in (*part.names, part.table.name) if name),
        )
        if chosen:
            self._parts = [one for part in self._parts if (one := part.only(chosen)) is not None]
        self.tables = tuple(part.table for part in self._parts)

    def rows(self, record: Mapping[str, Any]) -> Iterator[tuple[int, list[Any]]]:
        """Every row of a decoded record with the position of its table: values as they came, arrays and objects as JSON texts."""
        for position, part in enumerate(self._parts):
            for numbers, item in _items(record, part.table.path):
                yield position, part.row(_flat(record.get(self._key)), numbers, item)


class _Part:
    """One table and how its rows come about."""

    def __init__(self, record: Record, key: str, path: tuple[str, ...], meanings: tuple[str, ...]) -> None:
        self._key, self._meanings = key, meanings
        self._fields = list(_leaves(record, path, key))
        self._known = frozenset(name for field in record.fields for name in (field.name, *field.spellings))
        self._arrays = tuple(field.name for field in record.fields if field.kind is Kind.ARRAY)
        self._objects = tuple(field for field in record.fields if field.kind is Kind.OBJECT)
        self._others = True
        self._path = path
        self._prefix = "".join(f"{name}." for name in path)

    @property
    def names(self) -> list[str]:
        """How its columns are chosen, but for its keys."""
        return [f"{self._prefix}{head}" for head in (*(head for head, _, _ in self._fields), OTHERS)]

    @property
    def table(self) -> FlatTable:
        meaning = "To which record the row belongs" if self._path else self._meanings[0]
        keys = [FlatColumn(self._key, Kind.STRING_OR_NUMERIC, meaning)]
        keys += [
            FlatColumn(f"{name} no.", Kind.NUMERIC, f"Its place in {name}, from 1: {meaning}")
            for name, meaning in zip(self._path, self._meanings, strict=False)
        ]
        columns = [FlatColumn(head, field.kind, field.meaning) for head, _, field in self._fields]
        others = [FlatColumn(OTHERS, Kind.STRING, "What the interface does not name, as JSON")] if self._others else []
        return FlatTable(self._path, (*keys, *columns, *others), len(keys))

    def only(self, chosen: Collection[str]) -> "_Part | None":
        """The same with the chosen columns alone; None if it has none of them."""
        if self._path and self._prefix[:-1] in chosen:
            return self
        self._fields = [one for one in self._fields if f"{self._prefix}{one[0]}" in chosen]
        self._others = f"{self._prefix}{OTHERS}" in chosen
        return self if self._fields or self._others or (not self._path and self._key in chosen) else None

    def row(self, key: object, numbers: tuple[int, ...], item: object) -> list[Any]:
        if not isinstance(item, Mapping):
            return [key, *numbers, *[None] * len(self._fields), *([_json(item)] if self._others else [])]
        values = [_flat(_at(item, names)) for _, names, _ in self._fields]
        return [key, *numbers, *values, *([self._rest(item)] if self._others else [])]

    def _rest(self, item: Mapping[str, Any]) -> str | None:
        """What no column and no table shows."""
        rest = {name: value for name, value in item.items() if name not in self._known}
        rest |= {name: item[name] for name in self._arrays if not isinstance(item.get(name, []), list | None)}
        for field in self._objects:
            inner = item.get(field.name)
            if isinstance(inner, Mapping) and field.record is not None:
                more = {name: value for name, value in inner.items() if field.record.field(name) is None}
                rest |= {field.name: more} if more else {}
            elif inner is not None:
                rest[field.name] = inner
        return _json(rest) if rest else None


def text_of(value: object) -> str:
    """A value of a row as text, exact: numbers as digits, yes and no as JSON has them, nothing as an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal) and abs(value.adjusted()) > _EXPONENT_MAX:
        return str(value)  # as digits it would be as long as somebody likes
    return plain(value) if isinstance(value, int | Decimal) else str(value)


def _parts(record: Record, key: str, path: tuple[str, ...], meanings: tuple[str, ...]) -> Iterator[_Part]:
    for field in record.fields:
        if field.kind is Kind.ARRAY and field.record is not None:
            here, inner_meanings = (*path, field.name), (*meanings, field.meaning)
            yield _Part(field.record, key, here, inner_meanings)
            yield from _parts(field.record, key, here, inner_meanings)


def _leaves(
    record: Record, path: tuple[str, ...], key: str, names: tuple[tuple[str, ...], ...] = ()
) -> Iterator[tuple[str, tuple[tuple[str, ...], ...], Field]]:
    """The fields that become columns: heading, the spellings of each step on the way there, and the field."""
    for field in record.fields:
        steps = (*names, (field.name, *field.spellings))
        if field.kind is Kind.ARRAY or (not path and not names and field.name == key):
            continue
        if field.kind is Kind.OBJECT and field.record is not None:
            yield from _leaves(field.record, path, key, steps)
        else:
            yield ".".join(step[0] for step in steps), steps, field


def _items(record: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[int, ...], object]]:
    if not path:
        yield (), record
        return
    inner = record.get(path[0]) if isinstance(record, Mapping) else None
    for number, item in enumerate(inner if isinstance(inner, list) else [], start=1):
        for numbers, found in _items(item, path[1:]):
            yield (number, *numbers), found


def _at(item: Mapping[str, Any], steps: tuple[tuple[str, ...], ...]) -> object:
    found: object = item
    for spellings in steps:
        if not isinstance(found, Mapping):
            return None
        found = next((found[name] for name in spellings if name in found), None)
    return found


def _flat(value: object) -> object:
    return value if isinstance(value, _SCALARS) else _json(value)


def _json(value: object) -> str:
    return _encode(value).decode()

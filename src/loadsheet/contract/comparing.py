"""Compares the sent record with the one that the exchange holds, field by field, in normal form.

Owns: which spellings are equal. Numbers compare by value (12.50 is 12.5, as text or not), flags by meaning (yes is true), dates in
any of the five shapes by moment, offsets by minutes. A missing field, null, an empty text and an empty list are equal. Pure:
knows neither ledger nor listing.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

from loadsheet.contract.kinds import DATE_SHAPES, NUMBER_TEXT, FieldKind, flag_meaning, is_calculable, plain_digits
from loadsheet.contract.records import Field, Record, decode_value, encode_sorted
from loadsheet.contract.summaries import Scale, scale_of

_NEXT_ITEM, _LINE_FEED, _CARRIAGE_RETURN = b"},{", rb"\n", rb"\r"  # in compact JSON
_MOST_PAIRED = 200  # items of a list that are compared with each other
_INDEX = re.compile(r"\[[0-9]+\]")
_CLOCK_OFFSET = re.compile(r"([+-]?)(\d{1,2}):(\d\d)")


class Tolerances(NamedTuple):
    """The tolerances for weights and volumes, and for amounts of money. All other values must be equal."""

    weight: Decimal = Decimal(0)
    money: Decimal = Decimal(0)


class Difference(NamedTuple):
    """A field that differs between the sent and the held record: its payload path, and both values as texts (empty: no value)."""

    path: str
    sent: str
    held: str


EXACT = Tolerances()


def different_fields(
    record: Record,
    sent: Mapping[str, Any],
    held: Mapping[str, Any],
    tolerances: Tolerances = EXACT,
    ordered: Collection[str] | None = (),
) -> list[Difference]:
    """The sent fields that are missing or different in the held record, in the order of `sent`.

    Both are decoded JSON with numbers as int or Decimal. Fields that were not sent are not compared. Lists are compared item by
    item; their order counts only at the `ordered` paths (None: everywhere). Lists of different lengths are one difference, such as
    `3 items` and `2 items`.
    """
    return list(_differences(record, sent, held, _Rules(tolerances, ordered), ""))


def same_content(record: bytes, other: bytes, ordered: Collection[str]) -> bool:
    """Whether two JSON records are equal. The order of items counts only in lists at the `ordered` paths (`packages[].items`).
    Line ends (CRLF, CR or LF) do not count. Spellings do: 12.50 is not 12.5.
    """
    if len(record) != len(other) and not (_CARRIAGE_RETURN in record or _CARRIAGE_RETURN in other):
        return False
    return _sorted_bytes(decode_value(record), ordered, "") == _sorted_bytes(decode_value(other), ordered, "")


def may_differ_in_form(record: bytes) -> bool:
    """Whether a JSON record with other bytes can be equal to this one by `same_content`."""
    return any(mark in record for mark in (_NEXT_ITEM, _LINE_FEED, _CARRIAGE_RETURN))


def _sorted_bytes(value: Any, ordered: Collection[str], path: str) -> bytes:
    return encode_sorted(_sorted(value, ordered, path))


def _sorted(value: Any, ordered: Collection[str], path: str) -> Any:
    if isinstance(value, Mapping):
        return {name: _sorted(inner, ordered, f"{path}.{name}" if path else name) for name, inner in value.items()}
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n")
    if not isinstance(value, list):
        return value
    items = [_sorted(item, ordered, f"{path}[]") for item in value]
    return items if path in ordered else sorted(items, key=encode_sorted)


def first_field(path: str) -> str:
    """The first field of a payload path: `packages` of `packages[0].weight`."""
    return path.partition(".")[0].partition("[")[0]


class _Rules(NamedTuple):
    """The tolerances for numbers, and the lists in which order counts (None: all)."""

    tolerances: Tolerances
    ordered: Collection[str] | None

    def has_order(self, path: str) -> bool:
        """Whether the order of the list at a payload path counts."""
        return self.ordered is None or (bool(self.ordered) and _INDEX.sub("[]", path) in self.ordered)


def _differences(
    record: Record, sent: Mapping[str, Any], held: Mapping[str, Any], rules: _Rules, prefix: str
) -> Iterator[Difference]:
    for name, mine in sent.items():
        theirs = held.get(name)
        # the common case, whole lists included; the types are compared because 1 == True
        if mine == theirs and type(mine) is type(theirs):
            continue
        field = record.field(name)
        if theirs is None and field is not None:
            theirs = next((held[other] for other in (field.name, *field.spellings) if other in held), None)
        yield from _compare(field, mine, theirs, rules, f"{prefix}{name}")


def _compare(field: Field | None, mine: Any, theirs: Any, rules: _Rules, path: str) -> Iterator[Difference]:
    if _nothing(mine) and _nothing(theirs):
        return
    inner = field.record if field is not None else None
    if inner is not None and isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        yield from _differences(inner, mine, theirs, rules, f"{path}.")
    elif inner is not None and isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        if not rules.has_order(path):
            theirs = _aligned(inner, mine, theirs, rules, path)
        for index, (item, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from _compare_items(inner, item, other, rules, f"{path}[{index}]")
    elif not _same(field, mine, theirs, rules.tolerances):
        yield Difference(path, _as_text(mine), _as_text(theirs))


def _aligned(record: Record, mine: list[Any], theirs: list[Any], rules: _Rules, path: str) -> list[Any]:
    """Their items in the order of mine, as far as equal items exist; the others keep their order."""

    def agree(item: Any, other: Any) -> bool:
        return next(_compare_items(record, item, other, rules, path), None) is None

    left = [place for place, pair in enumerate(zip(mine, theirs, strict=True)) if not agree(*pair)]
    aligned = theirs.copy()
    free: dict[bytes, list[Any]] = {}
    for place in left:
        free.setdefault(encode_sorted(theirs[place]), []).append(theirs[place])
    rest = []
    for place in left:
        if same := free.get(encode_sorted(mine[place])):
            aligned[place] = same.pop()
        else:
            rest.append(place)
    others = [item for items in free.values() for item in items]
    unlike = []
    for place in rest:
        at = next((at for at, other in enumerate(others[:_MOST_PAIRED]) if agree(mine[place], other)), None)
        if at is None:
            unlike.append(place)
        else:
            aligned[place] = others.pop(at)
    for place, other in zip(unlike, others, strict=True):
        aligned[place] = other
    return aligned


def _compare_items(record: Record, item: Any, other: Any, rules: _Rules, path: str) -> Iterator[Difference]:
    if isinstance(item, Mapping) and isinstance(other, Mapping):
        yield from _differences(record, item, other, rules, f"{path}.")
    elif item != other:
        yield Difference(path, _as_text(item), _as_text(other))


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _same(field: Field | None, mine: Any, theirs: Any, tolerances: Tolerances) -> bool:
    if _nothing(mine) or _nothing(theirs) or isinstance(mine, list | dict) or isinstance(theirs, list | dict):
        return False
    kind = field.kind if field is not None else FieldKind.STRING
    if kind is FieldKind.NUMERIC or (
        kind is FieldKind.STRING_OR_NUMERIC and not (isinstance(mine, str) and isinstance(theirs, str))
    ):
        number, other = _number(mine), _number(theirs)
        if number is None or other is None:
            return _text(mine) == _text(theirs)
        scale = scale_of(field.name) if field is not None and kind is FieldKind.NUMERIC else None
        allowed = {Scale.WEIGHT: tolerances.weight, Scale.MONEY: tolerances.money}
        return abs(number - other) <= (allowed.get(scale, Decimal(0)) if scale else Decimal(0))
    normal = _NORMAL.get(kind, _text)
    return normal(mine) == normal(theirs)


def _number(value: Any) -> Decimal | None:
    # A text with a leading zero is not a number: postal code 01067 is not 1067.
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value):
        return None
    number = Decimal(value)
    return number if is_calculable(number) else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain_digits(value) if isinstance(value, int | Decimal) else str(value)


def _as_text(value: Any) -> str:
    if _nothing(value):
        return ""
    if isinstance(value, list):
        return f"{len(value)} item{'' if len(value) == 1 else 's'}"
    return "an object" if isinstance(value, Mapping) else _text(value)


def _offset_hours(value: Any) -> object:
    clock = _CLOCK_OFFSET.fullmatch(_text(value))
    if clock:
        minutes = int(clock[2]) * 60 + int(clock[3])
        return Decimal(-minutes if clock[1] == "-" else minutes)
    try:
        return Decimal(_text(value)) * 60
    except ArithmeticError:
        return _text(value)


def _read_by(parse: Callable[[str], object | None]) -> Callable[[Any], object]:
    """The value as `parse` reads its text; the text itself if it returns None or raises ValueError."""

    def read(value: Any) -> object:
        text = _text(value)
        try:
            found = parse(text)
        except ValueError:
            return text
        return text if found is None else found

    return read


_NORMAL: dict[FieldKind, Callable[[Any], object]] = {
    FieldKind.FLAG: _read_by(flag_meaning),
    FieldKind.OFFSET_HOURS: _offset_hours,
    FieldKind.OFFSET_MINUTES: _read_by(_number),
    **{kind: _read_by(datetime.fromisoformat) for kind in DATE_SHAPES},
    FieldKind.DATE: _read_by(date.fromisoformat),
    FieldKind.TIME: _read_by(time.fromisoformat),
}

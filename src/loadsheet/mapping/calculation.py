"""What the operators, functions and attributes of expressions mean: on Decimal, on texts, and on moments in a time zone.

Owns: the list of everything an expression may call. Arithmetic on moments runs in UTC, so a clock change neither adds nor loses an
hour. Only calendar days (`P1D`) and a time of day added to midnight use local time. Knows no syntax and no column.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple, Self

from loadsheet.mapping.notations import localize
from loadsheet.mapping.plans import CellProblem, Fold, NoSuchTime, Type


class ListOf(NamedTuple):
    """The type of a list."""

    member: Type


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language: its implementation, its types and its minimum number of arguments (None: all). Also whether a list
    argument may hold blanks, and whether it takes `fold`, which chooses between two moments with the same local time.
    """

    call: Callable[..., Any]
    result: Type
    arguments: tuple[Type | ListOf, ...]
    least: int | None = None
    takes_blanks: bool = False
    takes_fold: bool = False


_WHOLE_DAYS = re.compile(r"P(?:([0-9]+)W)?(?:([0-9]+)D)?(?![0-9])")  # half a day is 12 hours


# ---- operators ----


def in_utc(value: Any) -> Any:
    """A moment in UTC. Other values are returned unchanged."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


class Days(timedelta):
    """A duration of `whole` calendar days and a `rest`. Adding calendar days keeps the local time across a clock change. Adding 24 hours
    does not.
    """

    whole: int
    rest: timedelta

    def __new__(cls, whole: int, rest: timedelta) -> Self:  # noqa: D102 (see the class)
        made = super().__new__(cls, whole + rest.days, rest.seconds, rest.microseconds)
        made.whole, made.rest = whole, rest
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Days, (self.whole, self.rest)

    def __add__(self, other: timedelta) -> timedelta:
        whole, rest = _parted(other)
        return Days(self.whole + whole, self.rest + rest) if isinstance(other, timedelta) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> timedelta:
        return Days(-self.whole, -self.rest)

    def __sub__(self, other: timedelta) -> timedelta:
        return self + -other

    def __rsub__(self, other: timedelta) -> timedelta:
        return -self + other


def duration(text: str, length: timedelta) -> timedelta:
    """An ISO 8601 duration of this length. Its weeks and days are calendar days."""
    found = _WHOLE_DAYS.match(text)
    weeks, days = (int(part) for part in found.groups("0")) if found is not None else (0, 0)
    whole = 7 * weeks + days
    return Days(whole, length - timedelta(days=whole)) if whole else length


def _parted(span: timedelta) -> tuple[int, timedelta]:
    return (span.whole, span.rest) if isinstance(span, Days) else (0, span)


def _later(moment: datetime, span: timedelta, fold: Fold) -> datetime:
    """The moment after a duration. Days are added in local time, the rest in UTC. Raises NoSuchTime."""
    whole, rest = _parted(span)
    if whole:
        moment = _shown(moment.replace(tzinfo=None) + timedelta(days=whole), moment.tzinfo, fold)
    return (moment.astimezone(UTC) + rest).astimezone(moment.tzinfo) if rest else moment


def _shown(wall: datetime, zone: Any, fold: Fold) -> datetime:
    """The moment with this local date and time in a zone. Raises NoSuchTime."""
    localized = localize(wall.replace(fold=0), zone, fold)
    if not isinstance(localized, CellProblem):
        return localized
    if localized.code == "C314":
        raise NoSuchTime(f"{wall:%Y-%m-%d %H:%M} does not exist in this time zone: the clocks went forward")
    cause = "occurs twice in this time zone: the clocks went back; set source.fold to first or second"
    raise NoSuchTime(f"{wall:%Y-%m-%d %H:%M} {cause}")


def _add(left: Any, right: Any, fold: Fold = "error") -> Any:
    if isinstance(left, datetime):
        return _later(left, right, fold)
    if isinstance(right, datetime):
        return _later(right, left, fold)
    return left + right


def add_time_of_day(left: Any, right: Any, fold: Fold = "error") -> Any:
    """The sum of a moment and a time of day, in either order. If the moment is midnight (as dates are), the result is that time on the
    same day. Otherwise the time of day is added as a duration. Raises NoSuchTime.
    """
    moment, span = (left, right) if isinstance(left, datetime) else (right, left)
    is_day = isinstance(moment, datetime) and (moment.hour, moment.minute, moment.second) == (0, 0, 0)
    return _at(moment, span, fold) if is_day else _add(moment, span, fold)


def _subtract(left: Any, right: Any, fold: Fold = "error") -> Any:
    if isinstance(left, datetime) and isinstance(right, timedelta):
        return _later(left, -right, fold)
    return in_utc(left) - in_utc(right)


CLOCKED: dict[str, Callable[..., Any]] = {"add": _add, "sub": _subtract}
"""Operators that take `fold` as a third argument."""

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    **CLOCKED,
    "mul": operator.mul,
    "tdiv": operator.truediv,
    "fdiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


# ---- functions ----


def _round(number: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-int(places)), ROUND_HALF_UP)


def _at(day: datetime, time: timedelta, fold: Fold = "error") -> datetime:
    """The moment of a local time of day on this day. Raises NoSuchTime."""
    return _shown(day.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) + time, day.tzinfo, fold)


_ANY_LIST = ListOf(Type.ANY)

FUNCTIONS: dict[str, Function] = {
    "sum": Function(lambda numbers: sum(numbers, Decimal(0)), Type.NUMBER, (ListOf(Type.NUMBER),)),
    "count": Function(lambda values: Decimal(len(values)), Type.NUMBER, (_ANY_LIST,), takes_blanks=True),
    "min": Function(min, Type.NUMBER, (ListOf(Type.NUMBER),)),
    "max": Function(max, Type.NUMBER, (ListOf(Type.NUMBER),)),
    "earliest": Function(lambda moments: min(moments, key=in_utc), Type.MOMENT, (ListOf(Type.MOMENT),)),
    "latest": Function(lambda moments: max(moments, key=in_utc), Type.MOMENT, (ListOf(Type.MOMENT),)),
    "same": Function(
        lambda values: all(value == values[0] for value in values), Type.FLAG, (_ANY_LIST,), takes_blanks=True
    ),
    "any": Function(any, Type.FLAG, (_ANY_LIST,), takes_blanks=True),
    "all": Function(all, Type.FLAG, (_ANY_LIST,), takes_blanks=True),
    "abs": Function(abs, Type.NUMBER, (Type.NUMBER,)),
    "round": Function(_round, Type.NUMBER, (Type.NUMBER, Type.NUMBER), least=1),
    "at": Function(_at, Type.MOMENT, (Type.MOMENT, Type.SPAN), takes_fold=True),
    "join": Function(
        lambda texts, between=", ": between.join(text for text in texts if text),
        Type.TEXT,
        (_ANY_LIST, Type.TEXT),
        least=1,
        takes_blanks=True,
    ),
}

ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "as_upper": str.upper,
    "as_lower": str.lower,
    "length": lambda value: Decimal(len(value)),
    "is_empty": operator.not_,
    "to_str": lambda value: value if isinstance(value, str) else format(value, "f"),
    "ceiling": lambda value: value.to_integral_value(ROUND_CEILING),
    "floor": lambda value: value.to_integral_value(ROUND_FLOOR),
    "year": lambda value: Decimal(value.year),
    "month": lambda value: Decimal(value.month),
    "day": lambda value: Decimal(value.day),
    "hour": lambda value: Decimal(value.hour),
    "minute": lambda value: Decimal(value.minute),
    "second": lambda value: Decimal(value.second),
    "date": lambda value: value.replace(hour=0, minute=0, second=0, microsecond=0),
}

METHODS: dict[str, Callable[[Any, Any], Any]] = {"starts_with": str.startswith, "ends_with": str.endswith}

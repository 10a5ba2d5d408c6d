"""What the operators, functions and attributes of expressions mean: on Decimal, on texts, and on moments in a time zone.

Owns: the list of everything an expression may call. Moments are added to, subtracted and compared in UTC, so that a change of the
clocks neither adds nor loses an hour. Knows no syntax and no column.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Any, NamedTuple


class Type(StrEnum):
    """What a value is, as far as expressions and payload fields care."""

    TEXT = "a text"
    NUMBER = "a number"
    MOMENT = "a date"
    SPAN = "a time of day"
    FLAG = "yes or no"
    CODES = "a row of a code table"
    ANY = "any value"


class ListOf(NamedTuple):
    """The type of a list."""

    member: Type


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language: what it does, its types, how many arguments it needs at least (None: all), and whether a list
    given to it may hold blanks.
    """

    call: Callable[..., Any]
    result: Type
    arguments: tuple[Type | ListOf, ...]
    least: int | None = None
    takes_blanks: bool = False


CALCULATION_ERRORS = (ArithmeticError, TypeError, ValueError, LookupError)
"""What evaluating may raise: a division by zero, the largest of no values, a blank where a value is needed."""


class NoSuchTime(ValueError):  # noqa: N818 (named for what it says)
    """A time of day that the clocks skip on that day."""


def reason(error: BaseException) -> str:
    """Why an evaluation failed, in words for the person who wrote the expression."""
    if isinstance(error, NoSuchTime):
        return str(error)
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, TypeError):
        return "a value is blank or of another type than the expression needs"
    if isinstance(error, LookupError):
        return "there are not so many rows"
    return "no values" if "empty" in str(error) else "the result is not a number"


# ---- operators ----


def in_utc(value: Any) -> Any:
    """A moment in UTC; other values as they are."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, datetime):
        return (left.astimezone(UTC) + right).astimezone(left.tzinfo)
    if isinstance(right, datetime):
        return _add(right, left)
    return left + right


def _subtract(left: Any, right: Any) -> Any:
    if isinstance(left, datetime) and isinstance(right, timedelta):
        return (left.astimezone(UTC) - right).astimezone(left.tzinfo)
    return in_utc(left) - in_utc(right)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": _add,
    "sub": _subtract,
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


def _sum(numbers: Sequence[Decimal]) -> Decimal:
    return sum(numbers, Decimal(0))


def _count(values: Sequence[Any]) -> Decimal:
    return Decimal(len(values))


def _round(number: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-int(places)), ROUND_HALF_UP)


def _earliest(moments: Sequence[datetime]) -> datetime:
    return min(moments, key=in_utc)


def _latest(moments: Sequence[datetime]) -> datetime:
    return max(moments, key=in_utc)


def _at(day: datetime, time: timedelta) -> datetime:
    """The moment on a day at which the clock on the wall shows a time of day."""
    moment = day.replace(hour=0, minute=0, second=0) + time
    if moment.astimezone(UTC).astimezone(moment.tzinfo).replace(tzinfo=None) != moment.replace(tzinfo=None):
        raise NoSuchTime(f"{moment:%Y-%m-%d %H:%M} does not exist there: the clocks went forward")
    return moment


def _join(texts: Sequence[str | None], between: str = ", ") -> str:
    return between.join(text for text in texts if text)


def _same(values: Sequence[Any]) -> bool:
    return all(value == values[0] for value in values)


_ANY_LIST = ListOf(Type.ANY)

FUNCTIONS: dict[str, Function] = {
    "sum": Function(_sum, Type.NUMBER, (ListOf(Type.NUMBER),)),
    "count": Function(_count, Type.NUMBER, (_ANY_LIST,), takes_blanks=True),
    "min": Function(min, Type.NUMBER, (ListOf(Type.NUMBER),)),
    "max": Function(max, Type.NUMBER, (ListOf(Type.NUMBER),)),
    "earliest": Function(_earliest, Type.MOMENT, (ListOf(Type.MOMENT),)),
    "latest": Function(_latest, Type.MOMENT, (ListOf(Type.MOMENT),)),
    "same": Function(_same, Type.FLAG, (_ANY_LIST,), takes_blanks=True),
    "any": Function(any, Type.FLAG, (_ANY_LIST,), takes_blanks=True),
    "all": Function(all, Type.FLAG, (_ANY_LIST,), takes_blanks=True),
    "abs": Function(abs, Type.NUMBER, (Type.NUMBER,)),
    "round": Function(_round, Type.NUMBER, (Type.NUMBER, Type.NUMBER), least=1),
    "at": Function(_at, Type.MOMENT, (Type.MOMENT, Type.SPAN)),
    "join": Function(_join, Type.TEXT, (_ANY_LIST, Type.TEXT), least=1, takes_blanks=True),
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

"""What the operators, functions and attributes of expressions mean: on Decimal, on texts, on moments in a time zone, on working days.

Owns: the list of everything an expression may call, and the calendars of a mapping. A calendar has a weekend and holidays: ISO dates in the
mapping, in a file beside it with one date a line, or both. Counting working days takes the same time for any distance.

Arithmetic on moments runs in UTC, so a clock change neither adds nor loses an hour. Only calendar days (`P1D`, `$days(1)`, working days) and
a time of day added to midnight use local time. Knows no syntax and no column.
"""

import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args
from zoneinfo import ZoneInfo

from loadsheet.mapping.notations import canonical, check_written, localize
from loadsheet.mapping.plans import CellProblem, Fold, Incalculable, NoSuchTime, Type
from loadsheet.mapping.schema import CalendarSpec, Weekday
from loadsheet.mapping.texts import matcher, replacer
from loadsheet.mapping.yamlfile import Loc, YamlFile

# ---- calendars ----

_LAST = date.max.toordinal()
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SUCH_AS = "such as 2026-12-25"
_WEEKDAYS: tuple[str, ...] = get_args(Weekday)


@dataclass(frozen=True, slots=True)
class Calendar:
    """The working days: every day but those of the weekend (0 is Monday) and the holidays (ordinals in order, none in the weekend).
    `path` and `content` are the file of the holidays, if there is one.
    """

    weekend: frozenset[int] = frozenset({5, 6})
    holidays: tuple[int, ...] = ()
    path: Path | None = None
    content: bytes = b""

    def is_working_day(self, day: date) -> bool:
        """Whether this is a working day."""
        return self._until(day.toordinal()) > self._until(day.toordinal() - 1)

    def after(self, day: date, count: int) -> date:
        """The working day `count` working days after a day, or before it if `count` is negative; the day itself for 0. Raises OverflowError
        outside of the years 1 to 9999.
        """
        ordinal = day.toordinal()
        if not count:
            return day
        wanted = self._until(ordinal) + count if count > 0 else self._until(ordinal - 1) + count + 1
        found = bisect_left(range(1, _LAST + 1), wanted, key=self._until) + 1
        if wanted < 1 or found > _LAST:
            raise OverflowError
        return date.fromordinal(found)

    def between(self, first: date, last: date) -> int:
        """The number of working days after `first`, up to and including `last`; negative if `last` is earlier."""
        return self._until(last.toordinal()) - self._until(first.toordinal())

    def _until(self, ordinal: int) -> int:
        """The number of working days up to and including a day. Day 1 of the calendar, 0001-01-01, is a Monday."""
        days = sum((ordinal + 6 - weekday) // 7 for weekday in range(7) if weekday not in self.weekend)
        return days - bisect_right(self.holidays, ordinal)


USUAL = Calendar()
"""The calendar of a mapping without calendars: only Saturday and Sunday are off."""


def read_calendars(specs: Mapping[str, CalendarSpec], file: YamlFile) -> dict[str, Calendar]:
    """The calendars of a mapping by name. What is wrong with them becomes findings of the file."""
    return {name: _calendar(name, spec, file, ("calendars", name)) for name, spec in specs.items()}


def _calendar(name: str, spec: CalendarSpec, file: YamlFile, loc: Loc) -> Calendar:
    weekend = frozenset(_WEEKDAYS.index(day) for day in spec.weekend)
    if not spec.model_fields_set:
        file.refuse(loc, f"the calendar {name} says no day off", "write weekend, holidays or file", at_key=True)
    if len(weekend) == len(_WEEKDAYS):
        file.refuse((*loc, "weekend"), f"the calendar {name} has no working day")
    days = []
    for number, text in enumerate(spec.holidays):
        day = _day(text)
        if day is None:
            file.refuse((*loc, "holidays", number), f'"{text}" is not a date', _SUCH_AS)
        else:
            days.append(day)
    path, content = None, b""
    if spec.file is not None and (path := file.beside(spec.file, (*loc, "file"))) is not None:
        content = file.content_of(path, spec.file, (*loc, "file")) or b""
        days += _days_of(content, spec.file, file, (*loc, "file"))
    ordinals = sorted({day.toordinal() for day in days if day.weekday() not in weekend})
    return Calendar(weekend, tuple(ordinals), path, content)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _days_of(content: bytes, named: str, file: YamlFile, loc: Loc) -> Iterator[date]:
    """The dates of a file, one a line; the first line may be a heading, and what stands behind a comma, semicolon or tab is not read. The
    first line without a date is a finding that does not quote it: the file may be any file.
    """
    lines = content.decode("utf-8-sig").splitlines()
    texts = [(number, re.split("[,;\t]", line)[0].strip(' "')) for number, line in enumerate(lines, 1) if line.strip()]
    if texts and not any(letter.isdigit() for letter in texts[0][1]):
        texts = texts[1:]
    for number, text in texts:
        day = _day(text)
        if day is None:
            file.refuse(loc, f"{named}, line {number}: there is no date at the start of the line", _SUCH_AS)
            return
        yield day


# ---- functions and their types ----


class ListOf(NamedTuple):
    """The type of a list."""

    member: Type


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language: its implementation, its types and its minimum number of arguments (None: all). Also whether a list
    argument may hold blanks, and what it takes besides its arguments: `fold`, which chooses between two moments with the same local time,
    the `zone` of the file, or the `calendar` that its last argument names. `check` is called at load with the arguments that are written
    out (None for any other) and raises ValueError.
    """

    call: Callable[..., Any]
    result: Type | ListOf
    arguments: tuple[Type | ListOf, ...]
    least: int | None = None
    takes_blanks: bool = False
    takes_fold: bool = False
    takes_zone: bool = False
    takes_calendar: bool = False
    check: Callable[..., None] | None = None


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


def _days(number: Decimal) -> timedelta:
    """A duration of this many calendar days: the time on the clock stays the same. A fraction of a day is hours."""
    whole = int(number)
    rest = _hours((number - whole) * 24)
    return Days(whole, rest) if whole else rest


def _hours(number: Decimal) -> timedelta:
    """A duration of this many hours."""
    return timedelta(microseconds=int((number * 3_600_000_000).to_integral_value()))


def _minutes(number: Decimal) -> timedelta:
    """A duration of this many minutes."""
    return _hours(number / 60)


def _in_hours(span: timedelta) -> Decimal:
    """A duration, or a time of day, as a number of hours."""
    return Decimal(span // timedelta(microseconds=1)) / 3_600_000_000


def _hours_between(first: datetime, last: datetime) -> Decimal:
    """The hours from one moment to another; negative if the second is earlier."""
    return _in_hours(in_utc(last) - in_utc(first))


def _days_between(first: datetime, last: datetime) -> Decimal:
    """The calendar days from one date to another, whatever the times of day; negative if the second is earlier."""
    return Decimal((last.date() - first.date()).days)


def _add_working_days(moment: datetime, count: Decimal, calendar: Calendar, fold: Fold = "error") -> datetime:
    """The moment this many working days later (earlier, if negative), at the same time of day. 0 gives the moment itself, even on a day off."""
    day = calendar.after(moment.date(), _whole(count, "a number of working days"))
    return _shown(datetime.combine(day, moment.time()), moment.tzinfo, fold) if day != moment.date() else moment


def _working_days(first: datetime, last: datetime, calendar: Calendar) -> Decimal:
    """The working days after the first date, up to and including the last; negative if the last is earlier."""
    return Decimal(calendar.between(first.date(), last.date()))


def _is_working_day(moment: datetime, calendar: Calendar) -> bool:
    """Whether the date is a working day."""
    return calendar.is_working_day(moment.date())


def _weekday(moment: datetime) -> Decimal:
    """The day of the week as a number: 1 is Monday, 7 is Sunday."""
    return Decimal(moment.isoweekday())


def _date(year: Decimal, month: Decimal, day: Decimal, zone: ZoneInfo) -> datetime:
    """The date of a year, a month and a day, at midnight in the time zone of the file."""
    numbers = [_whole(number, "a year, a month or a day") for number in (year, month, day)]
    try:
        return datetime.combine(date(*numbers), time.min, zone)
    except ValueError:
        raise Incalculable(f"there is no day {'-'.join(map(str, numbers))}") from None


def _date_of_week(year: Decimal, week: Decimal, weekday: Decimal = Decimal(1), *, zone: ZoneInfo) -> datetime:
    """The date of a calendar week (ISO 8601) and a day in it (1, the Monday, unless given), at midnight in the time zone of the file."""
    numbers = [_whole(number, "a year, a week or a weekday") for number in (year, week, weekday)]
    try:
        return datetime.combine(date.fromisocalendar(*numbers), time.min, zone)
    except ValueError:
        raise Incalculable(f"there is no day {numbers[2]} in week {numbers[1]} of {numbers[0]}") from None


def _check_format(_moment: None, format_: str | None) -> None:
    if format_ is not None:
        check_written(format_)


# ---- functions: texts ----


_LONGEST_PADDED = 1_000
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")


def _replace(text: str, pattern: str, replacement: str) -> str:
    r"""A text in which each match of a pattern (RE2) is replaced. In the replacement, \1 is the text of the first group."""
    return replacer(pattern, replacement)(text)


def _check_replace(_text: None, pattern: str | None, replacement: str | None) -> None:
    if pattern is not None:
        replacer(pattern, replacement or "")


def _matches(text: str, pattern: str) -> bool:
    """Whether the whole text matches a pattern (RE2)."""
    return matcher(pattern)(text) is not None


def _check_matches(_text: None, pattern: str | None) -> None:
    if pattern is not None:
        matcher(pattern)


def _to_number(text: str) -> Decimal:
    """The number that a text says, written like 1234.5. Any other text is an error."""
    plain = text.strip()
    if _NUMBER.fullmatch(plain) is None:
        raise Incalculable(f'"{text}" is not a number such as 1234.5')
    return canonical(Decimal(plain))


def _pad_left(text: str, length: Decimal, letter: str = "0") -> str:
    """A text with zeros (or another character) put before it, up to this length."""
    if len(letter) != 1 or length > _LONGEST_PADDED:
        raise Incalculable(f"$pad_left takes one character, and a length of at most {_LONGEST_PADDED}")
    return text.rjust(_whole(length, "a length"), letter)


def _distinct(values: list[Any]) -> list[Any]:
    """The values of a list, each once, without blanks."""
    return list(dict.fromkeys(value for value in values if value is not None))


def _whole(number: Decimal, what: str) -> int:
    if number != number.to_integral_value():
        raise Incalculable(f"{what} must be whole, not {number:f}")
    return int(number)


def _of_some(choose: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    if not values:
        raise Incalculable("no values")
    return choose(values)


_ANY_LIST = ListOf(Type.ANY)

FUNCTIONS: dict[str, Function] = {
    "sum": Function(lambda numbers: sum(numbers, Decimal(0)), Type.NUMBER, (ListOf(Type.NUMBER),)),
    "count": Function(lambda values: Decimal(len(values)), Type.NUMBER, (_ANY_LIST,), takes_blanks=True),
    "min": Function(partial(_of_some, min), Type.NUMBER, (ListOf(Type.NUMBER),)),
    "max": Function(partial(_of_some, max), Type.NUMBER, (ListOf(Type.NUMBER),)),
    "earliest": Function(partial(_of_some, partial(min, key=in_utc)), Type.MOMENT, (ListOf(Type.MOMENT),)),
    "latest": Function(partial(_of_some, partial(max, key=in_utc)), Type.MOMENT, (ListOf(Type.MOMENT),)),
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
    "distinct": Function(_distinct, _ANY_LIST, (_ANY_LIST,), takes_blanks=True),
    "days": Function(_days, Type.SPAN, (Type.NUMBER,)),
    "hours": Function(_hours, Type.SPAN, (Type.NUMBER,)),
    "minutes": Function(_minutes, Type.SPAN, (Type.NUMBER,)),
    "in_hours": Function(_in_hours, Type.NUMBER, (Type.SPAN,)),
    "hours_between": Function(_hours_between, Type.NUMBER, (Type.MOMENT, Type.MOMENT)),
    "days_between": Function(_days_between, Type.NUMBER, (Type.MOMENT, Type.MOMENT)),
    "add_working_days": Function(
        _add_working_days,
        Type.MOMENT,
        (Type.MOMENT, Type.NUMBER, Type.TEXT),
        least=2,
        takes_fold=True,
        takes_calendar=True,
    ),
    "working_days": Function(
        _working_days, Type.NUMBER, (Type.MOMENT, Type.MOMENT, Type.TEXT), least=2, takes_calendar=True
    ),
    "is_working_day": Function(_is_working_day, Type.FLAG, (Type.MOMENT, Type.TEXT), least=1, takes_calendar=True),
    "weekday": Function(_weekday, Type.NUMBER, (Type.MOMENT,)),
    "date": Function(_date, Type.MOMENT, (Type.NUMBER, Type.NUMBER, Type.NUMBER), takes_zone=True),
    "date_of_week": Function(
        _date_of_week, Type.MOMENT, (Type.NUMBER, Type.NUMBER, Type.NUMBER), least=2, takes_zone=True
    ),
    "format": Function(datetime.strftime, Type.TEXT, (Type.MOMENT, Type.TEXT), check=_check_format),
    "replace": Function(_replace, Type.TEXT, (Type.TEXT, Type.TEXT, Type.TEXT), check=_check_replace),
    "matches": Function(_matches, Type.FLAG, (Type.TEXT, Type.TEXT), check=_check_matches),
    "to_number": Function(_to_number, Type.NUMBER, (Type.TEXT,)),
    "pad_left": Function(_pad_left, Type.TEXT, (Type.TEXT, Type.NUMBER, Type.TEXT), least=2),
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

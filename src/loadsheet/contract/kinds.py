"""The closed set of value kinds of the interface, with their forms on the wire.

Owns: which Python values a kind accepts from a mapping, and how they are spelled in a payload. Knows neither fields nor records.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cache
from zoneinfo import ZoneInfo, available_timezones


class FieldKind(StrEnum):
    """The kind of a field's value, in the interface's own words (interface: Conventions)."""

    STRING = "String"
    STRING_OR_NUMERIC = "String/Numeric"
    NUMERIC = "Numeric"
    FLAG = "Flag"  # typed String by the interface; holds true/false or yes/no
    TIMEZONE = "Timezone"  # zone-name form, such as Europe/Berlin
    OFFSET_HOURS = "Offset in hours"  # typed String
    OFFSET_MINUTES = "Offset in minutes"  # typed String/Numeric
    DATETIME = "Datetime"  # YYYY-MM-DD HH:MM:SS
    DATETIME_T = "Datetime with T"  # YYYY-MM-DDTHH:MM:SS
    DATETIME_ISO = "ISO 8601"  # YYYY-MM-DDTHH:MM:SSZ
    DATE = "Date"  # YYYY-MM-DD
    TIME = "Time"  # HH:MM:SS
    OBJECT = "Object"
    ARRAY = "Array"


class NumberForm(StrEnum):
    """The form of a record's numeric fields: JSON numbers in order payloads, JSON strings in all others."""

    JSON_NUMBER = "number"
    JSON_STRING = "string"


class FlagForm(StrEnum):
    """The two forms of yes/no flags (interface: Conventions)."""

    YES_NO = "yes/no"
    TRUE_FALSE = "true/false"


DATE_SHAPES: dict[FieldKind, tuple[str, str]] = {
    # kind: (strftime format, example as people read it)
    FieldKind.DATETIME: ("%Y-%m-%d %H:%M:%S", "2026-03-01 08:00:00"),
    FieldKind.DATETIME_T: ("%Y-%m-%dT%H:%M:%S", "2026-03-01T08:00:00"),
    FieldKind.DATETIME_ISO: ("%Y-%m-%dT%H:%M:%SZ", "2026-03-01T08:00:00Z"),
    FieldKind.DATE: ("%Y-%m-%d", "2026-03-01"),
    FieldKind.TIME: ("%H:%M:%S", "08:00:00"),
}

KIND_DESCRIPTIONS: dict[FieldKind, str] = {
    FieldKind.STRING: "a text",
    FieldKind.STRING_OR_NUMERIC: "a text or a number",
    FieldKind.NUMERIC: "a number",
    FieldKind.FLAG: "yes or no (true or false)",
    FieldKind.TIMEZONE: "the name of a time zone such as Europe/Berlin",
    FieldKind.OFFSET_HOURS: "an offset from UTC in hours, as a text",
    FieldKind.OFFSET_MINUTES: "an offset from UTC in minutes",
    FieldKind.OBJECT: "an object",
    FieldKind.ARRAY: "an array",
    **{kind: f"a value such as {example}" for kind, (_, example) in DATE_SHAPES.items()},
}


class WrongForm(ValueError):
    """A value that a field of some kind cannot hold. `expected` says what it can hold."""

    def __init__(self, expected: str) -> None:
        super().__init__(f"expected {expected}")
        self.expected = expected


_EXPONENT_MAX = 307  # of numbers that a workbook holds
NUMBER_TEXT = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")  # RFC 8259, section 6

_FLAG_WORDS = {"yes": True, "true": True, "no": False, "false": False}
_SHAPE_PATTERNS: dict[FieldKind, re.Pattern[str]] = {
    FieldKind.DATETIME: re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.ASCII),
    FieldKind.DATETIME_T: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII),
    FieldKind.DATETIME_ISO: re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII),
    FieldKind.DATE: re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    FieldKind.TIME: re.compile(r"\d\d:\d\d:\d\d", re.ASCII),
}


def is_valid_date_text(kind: FieldKind, text: str) -> bool:
    """Whether `text` has the shape of one of the five date kinds and names a real date and time."""
    if _SHAPE_PATTERNS[kind].fullmatch(text) is None:
        return False
    parse = {FieldKind.DATE: date.fromisoformat, FieldKind.TIME: time.fromisoformat}.get(kind, datetime.fromisoformat)
    try:
        parse(text)
    except ValueError:
        return False
    return True


def flag_meaning(text: str) -> bool | None:
    """The meaning of a flag word in any case and either form; None if it is not a flag word."""
    return _FLAG_WORDS.get(text.lower())


def flag_word(value: bool, form: FlagForm) -> str:  # noqa: FBT001 (the value itself is the flag)
    """The word for a flag in the settable form: yes/no or true/false."""
    yes, no = form.value.split("/")
    return yes if value else no


def plain_digits(number: Decimal | int) -> str:
    """A number as digits without an exponent; trailing zeros stay. A number larger than a workbook can hold keeps its exponent: written out, it
    could fill the memory.
    """
    return format(number, "f") if isinstance(number, Decimal) and is_calculable(number) else str(number)


def is_calculable(number: Decimal) -> bool:
    """Whether a number can be calculated with: it is finite, and no larger and no smaller than those of a workbook."""
    return number.is_finite() and abs(number.adjusted()) <= _EXPONENT_MAX


def wire_form(kind: FieldKind, value: object, *, numbers: NumberForm, flags: FlagForm) -> object:
    """The wire form of a converted value.

    Takes text, int, Decimal, bool, date, time or datetime. A datetime is written unchanged (local time of the record's zone),
    except for ISO 8601, where an aware datetime is converted to UTC. Raises WrongForm for any other.
    """
    if kind in DATE_SHAPES:
        return _spell_date(kind, value)
    if kind is FieldKind.FLAG:
        meaning = flag_meaning(value) if isinstance(value, str) else value
        if not isinstance(meaning, bool):
            raise WrongForm(KIND_DESCRIPTIONS[FieldKind.FLAG])
        return flag_word(meaning, flags)
    if kind is FieldKind.NUMERIC:
        return _spell_number(value, numbers)
    if isinstance(value, bool):
        return flag_word(value, flags)
    if isinstance(value, str):
        return value
    if isinstance(value, int | Decimal):
        return plain_digits(value)
    raise WrongForm(f"{KIND_DESCRIPTIONS[kind]}; a date or time needs a format here")


def _spell_date(kind: FieldKind, value: object) -> str:
    # isoformat is ten times as fast as strftime and writes every year with four digits
    if isinstance(value, str) and is_valid_date_text(kind, value):
        return value
    if isinstance(value, datetime):
        aware = kind is FieldKind.DATETIME_ISO and value.tzinfo is not None
        moment = (value.astimezone(UTC) if aware else value).replace(tzinfo=None, microsecond=0)
        return _spell_moment(kind, moment)
    if isinstance(value, date) and kind is not FieldKind.TIME:
        return _spell_moment(kind, datetime(value.year, value.month, value.day))  # noqa: DTZ001 (a local day)
    if isinstance(value, time) and kind is FieldKind.TIME:
        return value.replace(tzinfo=None, microsecond=0).isoformat()
    raise WrongForm(KIND_DESCRIPTIONS[kind])


def _spell_moment(kind: FieldKind, moment: datetime) -> str:
    if kind is FieldKind.DATE:
        return moment.date().isoformat()
    if kind is FieldKind.TIME:
        return moment.time().isoformat()
    text = moment.isoformat(" " if kind is FieldKind.DATETIME else "T")
    return f"{text}Z" if kind is FieldKind.DATETIME_ISO else text


def _spell_number(value: object, numbers: NumberForm) -> Decimal | int | str:
    number = value
    if isinstance(value, str) and NUMBER_TEXT.fullmatch(value):
        number = Decimal(value)
    if isinstance(number, bool) or not isinstance(number, int | Decimal):
        raise WrongForm(KIND_DESCRIPTIONS[FieldKind.NUMERIC])
    return plain_digits(number) if numbers is NumberForm.JSON_STRING else number


_WINTER_AND_SUMMER = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC))


@cache
def zone_names() -> frozenset[str]:
    """Every time zone name of the installed IANA database."""
    return frozenset(available_timezones())


def show_same_clock(zone: str, other: str) -> bool:
    """Whether clocks in two time zones agree in winter and in summer. True too if a name is none of `zone_names`: nothing is known then."""
    return not {zone, other} <= zone_names() or clock_offsets(zone) == clock_offsets(other)


@cache
def clock_offsets(zone: str) -> tuple[timedelta | None, ...]:
    """The offsets of a time zone from UTC, in winter and in summer."""
    return tuple(moment.astimezone(ZoneInfo(zone)).utcoffset() for moment in _WINTER_AND_SUMMER)

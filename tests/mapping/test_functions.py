"""The functions of expressions: durations and days made from numbers, working days, patterns, conversions; and what they refuse."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.mapping.calendars import Calendar
from loadsheet.mapping.expressions import compile_expression
from loadsheet.mapping.plans import CALCULATION_ERRORS, ExpressionError, Frame, Scope, Shape, Slot, Type, reason

BERLIN = ZoneInfo("Europe/Berlin")
GOOD_FRIDAY, EASTER_MONDAY = date(2026, 4, 3), date(2026, 4, 6)
EASTER = Calendar(holidays=(GOOD_FRIDAY.toordinal(), EASTER_MONDAY.toordinal()))
SLOTS = {
    "n": Slot(0, Type.NUMBER),
    "text": Slot(1, Type.TEXT),
    "at": Slot(2, Type.MOMENT),  # a Saturday; the clocks go forward in the night after
    "clock": Slot(3, Type.SPAN),
    "maundy": Slot(4, Type.MOMENT),  # the Thursday before Easter
    "name": Slot(5, Type.TEXT),
}
AT, MAUNDY = datetime(2026, 3, 28, 12, tzinfo=BERLIN), datetime(2026, 4, 2, 9, 30, tzinfo=BERLIN)
ROW = [Decimal("1.5"), "  +49 (0) 201-12 34 ", AT, timedelta(hours=2, minutes=30), MAUNDY, "Übergröße 7x9"]


def compiled(text, zone=BERLIN, **calendars):
    shape = Shape("orders", SLOTS, "error", zone, calendars)
    return compile_expression(text, Scope(shape, shape, {"rows": (0, shape)}))


def value(text, row=ROW, rows=(ROW,), **calendars):
    frame = Frame(datetime(2026, 3, 1, tzinfo=UTC))
    frame.row = frame.main = row
    frame.lists = (rows,)
    found = compiled(text, **calendars).evaluate(frame)
    return found.isoformat() if isinstance(found, datetime) else found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at + $days(1)", "2026-03-29T12:00:00+02:00"),  # the same time on the next day
        ("at + $hours(24)", "2026-03-29T13:00:00+02:00"),
        ("at + $days(n)", "2026-03-30T00:00:00+02:00"),  # a day, and half a day in hours
        ("at + $days(0.5)", "2026-03-29T00:00:00+01:00"),
        ("at - $days(n)", "2026-03-27T00:00:00+01:00"),
        ("at + $days(-n)", "2026-03-27T00:00:00+01:00"),
        ("$days(2) + at", "2026-03-30T12:00:00+02:00"),
        ("at + ($days(1) + $hours(2))", "2026-03-29T14:00:00+02:00"),
        ("at + $minutes(90)", "2026-03-28T13:30:00+01:00"),
        ("at + $hours(0.1)", "2026-03-28T12:06:00+01:00"),
        ("$in_hours(clock)", Decimal("2.5")),
        ("$in_hours((at + $days(1)) - at)", Decimal(23)),
        ("$hours_between(at, at + $days(1))", Decimal(23)),
        ("$hours_between(at + $minutes(45), at)", Decimal("-0.75")),
        ("$days_between(at, at + $days(1))", Decimal(1)),
        ("$days_between(at + $hours(13), at)", Decimal(-1)),
        ("$days_between(at, at + $hours(11))", Decimal(0)),
        ("$weekday(at)", Decimal(6)),
        ("$date(2026, 12, n * 16)", "2026-12-24T00:00:00+01:00"),
        ("$date_of_week(2026, 1)", "2025-12-29T00:00:00+01:00"),
        ("$date_of_week(2026, 53, 7)", "2027-01-03T00:00:00+01:00"),
        ("$format(at, '%Y%m%d-%H')", "20260328-12"),
        ("$replace(text, r'[^0-9+]', '')", "+4902011234"),
        (r"$replace(text, r'^\s+|\s+$', '')", "+49 (0) 201-12 34"),
        (r"$replace(name, r'.*?(\d+)x(\d+)', r'\2 für \1')", "9 für 7"),
        (r"$replace(name, r'(ß)|x', r'<\1>')", "Übergrö<ß>e 7<>9"),
        (r"$replace('a.b', r'\.', r'\\\0')", r"a\.b"),
        ("$matches(name, r'.* [0-9]x[0-9]')", True),
        ("$matches(name, r'[0-9]x[0-9]')", False),  # the whole text
        ("$to_number(' 1234.50 ')", Decimal("1234.5")),
        ("$to_number($replace(name, r'.*x', '')) + 1", Decimal(10)),
        ("$pad_left(n.to_str, 5)", "001.5"),
        ("$pad_left('abc', 2)", "abc"),
        ("$pad_left('7', 3, ' ')", "  7"),
    ],
)
def test_functions_give_exact_values(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_distinct_values_are_counted_and_joined_once():
    rows = [[*ROW[:5], name] for name in ("P1", "P2", None, "P1")]
    assert value("$count($distinct([r.name for r in rows]))", rows=rows) == 2
    assert value("$join($distinct([r.name for r in rows]), '/')", rows=rows) == "P1/P2"
    assert compiled("$distinct([r.name for r in rows])").type is Type.ANY


@pytest.mark.parametrize(
    ("text", "usual", "easter"),
    [
        ("$add_working_days(at, 1)", "2026-03-30T12:00:00+02:00", "2026-03-30T12:00:00+02:00"),
        ("$add_working_days(at, 0)", "2026-03-28T12:00:00+01:00", "2026-03-28T12:00:00+01:00"),
        ("$add_working_days(at, -1)", "2026-03-27T12:00:00+01:00", "2026-03-27T12:00:00+01:00"),
        ("$add_working_days(maundy, 1)", "2026-04-03T09:30:00+02:00", "2026-04-07T09:30:00+02:00"),
        ("$add_working_days(at, 250)", "2027-03-12T12:00:00+01:00", "2027-03-16T12:00:00+01:00"),
        ("$working_days(maundy, maundy + $days(7))", Decimal(5), Decimal(3)),
        ("$working_days(maundy, maundy)", Decimal(0), Decimal(0)),
        ("$working_days(maundy + $days(7), maundy)", Decimal(-5), Decimal(-3)),
        ("$is_working_day(maundy)", True, True),
        ("$is_working_day(maundy + $days(1))", True, False),
        ("$is_working_day(at)", False, False),
    ],
)
def test_working_days_leave_out_the_days_off(text, usual, easter):
    """Without calendars Saturday and Sunday are off. The only calendar of a mapping needs no name."""
    named = text[:-1] + ', "DE")'
    assert [value(text), value(text, DE=EASTER), value(named, DE=EASTER, US=Calendar())] == [usual, easter, easter]


DATES = st.dates(date(2020, 1, 1), date(2030, 12, 31))


@given(
    DATES,
    st.integers(-40, 40),
    st.sets(st.integers(0, 6), max_size=6),
    st.sets(st.integers(-60, 60), max_size=20),
)
def test_counting_working_days_agrees_with_going_day_by_day(day, count, weekend, off):
    holidays = {day + timedelta(days=away) for away in off}
    calendar = Calendar(
        frozenset(weekend), tuple(sorted(d.toordinal() for d in holidays if d.weekday() not in weekend))
    )
    place, left = day, abs(count)
    while left:
        place += timedelta(days=1 if count > 0 else -1)
        left -= place.weekday() not in weekend and place not in holidays
    assert calendar.after(day, count) == place
    if count > 0:
        assert calendar.between(day, place) == count
    assert calendar.is_working_day(day) == (day.weekday() not in weekend and day not in holidays)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("$add_working_days(at, n)", "a number of working days must be whole, not 1.5"),
        ("$add_working_days(at, 9999999)", "the result is out of range"),
        ("$add_working_days(at, -9999999)", "the result is out of range"),
        ("at + $days(99999999)", "the result is out of range"),
        ("$date(2026, 2, 30)", "there is no day 2026-2-30"),
        ("$date(2026, 2, n)", "a year, a month or a day must be whole, not 1.5"),
        ("$date_of_week(2025, 53)", "there is no day 1 in week 53 of 2025"),
        ("$to_number(name)", '"Übergröße 7x9" is not a number such as 1234.5'),
        ("$to_number('1,5')", '"1,5" is not a number such as 1234.5'),
        ("$pad_left(name, 5000)", "$pad_left takes one character, and a length of at most 1000"),
        ("$pad_left(name, 5, text)", "$pad_left takes one character, and a length of at most 1000"),
        ("$matches(name, text + '(')", "invalid pattern: missing ):   +49 (0) 201-12 34 ("),
        ("$add_working_days($date(2026, 3, 27) + $hours(2.5), 1)", None),
        ("$add_working_days($date(2026, 3, 20) + $hours(2.5), 6)", "2026-03-30"),
    ],
)
def test_a_function_that_cannot_calculate_says_why(text, why):
    if why is None or why.startswith("2026"):  # the day after the clocks change is a day like any other
        assert value(text).startswith(why or "2026-03-30")
        return
    with pytest.raises(CALCULATION_ERRORS) as raised:
        value(text)
    assert reason(raised.value) == why


def test_a_working_day_may_lack_the_time_of_day():
    every_day = Calendar(frozenset())
    row = [*ROW]
    row[2] = datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN)
    with pytest.raises(CALCULATION_ERRORS, match="2026-03-29 02:30 does not exist"):
        value("$add_working_days(at, 1)", row=row, ALL=every_day)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("$add_working_days(at, 1)", "$add_working_days needs the name of a calendar, because the mapping has 2", "known: DE, US"),
        ('$is_working_day(at, "DEE")', 'there is no calendar "DEE"', "did you mean DE?"),
        ("$is_working_day(at, name)", "the name of a calendar is a text in quotes", "known: DE, US"),
        ("$replace(name, '(', '')", "$replace: invalid pattern: missing ): (", ""),
        (r"$replace(name, r'(a)\1', '')", "$replace: look-around and back references are not supported", ""),
        (r"$replace(name, r'(a)', r'\2')", "$replace: the replacement names group 2, but the pattern has 1", ""),
        (r"$replace(name, r'a', r'\n')", "$replace: in the replacement, a backslash is followed by a digit or a backslash, not by n", ""),
        (r"$replace(name, r'(a)', '\1')", "$replace: the text holds a control character", r"write r'\1': after r, a backslash stays a backslash"),
        ("$matches(name, '[')", "$matches: invalid pattern: missing ]: [", ""),
        ("$format(at, 'yyyy')", "$format: yyyy has no directive: write %Y", ""),
        ("$format(at, '%I:%M')", "$format: %I:%M has %I without %p, so 2 am and 2 pm look the same; write %H", ""),
    ],
)  # fmt: skip
def test_what_is_written_out_is_checked_at_load(text, said, hint):
    with pytest.raises(ExpressionError) as raised:
        compiled(text, DE=EASTER, US=Calendar())
    assert (raised.value.text, raised.value.hint) == (said, hint)


def test_a_day_needs_a_time_zone_that_is_known_at_load():
    assert value("$date(2026, 1, 1)").endswith("+01:00")
    with pytest.raises(ExpressionError, match=r"\$date cannot tell the time zone of its day") as raised:
        compiled("$date(2026, 1, 1)", zone=None)
    assert "source.timezone" in raised.value.hint


def test_without_calendars_none_can_be_named():
    with pytest.raises(ExpressionError, match='there is no calendar "DE"') as raised:
        compiled('$is_working_day(at, "DE")')
    assert raised.value.hint == "declare it under calendars"
    assert raised.value.at == len("$is_working_day(at, ")

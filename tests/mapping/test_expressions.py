"""Expressions: what they and their functions give, how they treat blanks and clocks, and what they refuse.

Types that do not fit: test_type_errors.py.
"""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
import rule_engine
from expression_tables import KEPT, kept_form, made_anew
from hypothesis import given
from hypothesis import strategies as st
from sheets import codes, example_text, load_text, made, run

from loadsheet.mapping.calculation import Calendar
from loadsheet.mapping.documents import Ignored
from loadsheet.mapping.expressions import compile_expression
from loadsheet.mapping.plans import (  # fmt: skip
    CALCULATION_ERRORS,
    CodeColumn,
    ExpressionError,
    Frame,
    Scope,
    Shape,
    Slot,
    Type,
    reason_text,
)

BERLIN = ZoneInfo("Europe/Berlin")
AT = datetime(2026, 3, 28, 12, tzinfo=BERLIN)  # a Saturday; the clocks go forward in the night after
MAUNDY = datetime(2026, 4, 2, 9, 30, tzinfo=BERLIN)  # the Thursday before Easter
HALF_PAST_TWO = timedelta(hours=2, minutes=30)
COLUMNS = {  # each with its slot and its value
    "a": (Slot(0, Type.NUMBER), Decimal(6)),
    "b": (Slot(1, Type.NUMBER), Decimal(4)),
    "maybe": (Slot(2, Type.NUMBER, nullable=True), None),
    "name": (Slot(3, Type.TEXT), "Kabel"),
    "flag": (Slot(4, Type.FLAG), True),
    "at": (Slot(5, Type.MOMENT), AT),
    "clock": (Slot(6, Type.SPAN), HALF_PAST_TWO),
    "code": (
        Slot(7, Type.CODE_ROW, code_columns=(CodeColumn("name", nullable=False), CodeColumn("colour", nullable=True))),
        ("Box", None),
    ),
    "other": (Slot(8, Type.CODE_ROW, nullable=True, code_columns=(CodeColumn("name", nullable=False),)), None),
    "n": (Slot(9, Type.NUMBER), Decimal("1.5")),
    "phone": (Slot(10, Type.TEXT), "  +49 (0) 201-12 34 "),
    "maundy": (Slot(11, Type.MOMENT), MAUNDY),
    "size": (Slot(12, Type.TEXT), "Übergröße 7x9"),
}
SLOTS = {name: slot for name, (slot, _) in COLUMNS.items()}
ROW = [value for _, value in COLUMNS.values()]
LINES = Shape("lines", SLOTS)


def row_with(**values):
    return [values.get(name, value) for name, (_, value) in COLUMNS.items()]


def compiled(text, *, fold="error", zone=BERLIN, **calendars):
    shape = Shape("orders", SLOTS, fold, zone, calendars)
    return compile_expression(text, Scope(shape, shape, {"rows": (0, shape), "lines": (1, LINES)}))


def value(text, row=ROW, rows=None, lines=(), **settings):
    """What an expression gives of a row; a moment as text."""
    frame = Frame(datetime(2026, 3, 1, tzinfo=UTC))
    frame.row = frame.main = row
    frame.lists = ([row] if rows is None else rows, lines)
    found = compiled(text, **settings).evaluate(frame)
    return found.isoformat() if isinstance(found, datetime) else found


# ---- values ----

EXACT = {
    "arithmetic": {
        "a + b * 2": 14, "a / b": Decimal("1.5"), "a // b": 1, "a % b": 2, "a ** 2": 36, "-a - b": -10,
        "(a / b).ceiling": 2, "orders.a": 6,
        "$round(a / 7, 2)": Decimal("0.86"), "$round(2.5)": 3, "$abs(b - a)": 2, "$max([a, b, 5])": 6,
    },
    "conditions": {
        "a > b and not (a == b) or flag": True, "flag ? name : 'no'": "Kabel", "name in ['Kabel', 'Rohr']": True, "'ab' in name": True,
    },
    "blanks": {
        "(maybe ?? 7) + 1": 8, "maybe == null": True, "maybe != null ? 'there' : 'blank'": "blank",
        "code.colour ?? 'none'": "none", "other == null": True, "other&.name ?? 'none'": "none",
    },
    "texts": {
        "name + '-' + code.name": "Kabel-Box", "name.as_upper": "KABEL", "name.length": 5, "name[0:2]": "Ka",
        "name.starts_with('Ka')": True, "name.ends_with('x')": False, "a.to_str": "6", "orders.code.name": "Box", "rows[0].name": "Kabel",
        "$pad_left(n.to_str, 5)": "001.5", "$pad_left('abc', 2)": "abc", "$pad_left('7', 3, ' ')": "  7",
        "$to_number(' 1234.50 ')": Decimal("1234.5"), "$to_number($replace(size, r'.*x', '')) + 1": 10,
    },
    "patterns": {
        "$replace(phone, r'[^0-9+]', '')": "+4902011234",
        r"$replace(phone, r'^\s+|\s+$', '')": "+49 (0) 201-12 34",
        r"$replace(size, r'.*?(\d+)x(\d+)', r'\2 für \1')": "9 für 7",
        r"$replace(size, r'(ß)|x', r'<\1>')": "Übergrö<ß>e 7<>9",
        r"$replace('a.b', r'\.', r'\\\0')": r"a\.b",
        "$matches(size, r'.* [0-9]x[0-9]')": True,
        "$matches(size, r'[0-9]x[0-9]')": False,  # the whole text
    },
    "moments": {
        "at.year * 100 + at.month": 202603, "at > d'2026-03-28'": True, "$now < at": True, "$weekday(at)": 6,
        "$date(2026, 12, n * 16)": "2026-12-24T00:00:00+01:00", "$format(at, '%Y%m%d-%H')": "20260328-12",
        "$date_of_week(2026, 1)": "2025-12-29T00:00:00+01:00", "$date_of_week(2026, 53, 7)": "2027-01-03T00:00:00+01:00",
        "$at(at, clock)": "2026-03-28T02:30:00+01:00",
    },
    "days keep the time of day": {
        "at + $days(1)": "2026-03-29T12:00:00+02:00", "$days(2) + at": "2026-03-30T12:00:00+02:00",
        "at + $days(n)": "2026-03-30T00:00:00+02:00",  # a day, and half a day in hours
        "at + $days(0.5)": "2026-03-29T00:00:00+01:00",
        "at - $days(n)": "2026-03-27T00:00:00+01:00", "at + $days(-n)": "2026-03-27T00:00:00+01:00",
    },
    "hours and minutes lose none across a change of the clocks": {
        "at + t'PT24H'": "2026-03-29T13:00:00+02:00", "at + $hours(24)": "2026-03-29T13:00:00+02:00",
        "at - t'PT1H'": "2026-03-28T11:00:00+01:00", "(at + t'PT24H') - at": timedelta(hours=24),
        "at + ($days(1) + $hours(2))": "2026-03-29T14:00:00+02:00", "at + $minutes(90)": "2026-03-28T13:30:00+01:00",
        "at + $hours(0.1)": "2026-03-28T12:06:00+01:00",
        "$in_hours(clock)": Decimal("2.5"), "$in_hours((at + $days(1)) - at)": 23,
        "$hours_between(at, at + $days(1))": 23, "$hours_between(at + $minutes(45), at)": Decimal("-0.75"),
        "$days_between(at, at + $days(1))": 1, "$days_between(at + $hours(13), at)": -1, "$days_between(at, at + $hours(11))": 0,
    },
}  # fmt: skip


@pytest.mark.parametrize("about", EXACT)
def test_functions_give_exact_values(about):
    found = {text: value(text) for text in EXACT[about]}
    assert found == EXACT[about]
    kinds = {text: Decimal if type(one) is int else type(one) for text, one in EXACT[about].items()}
    assert {text: type(one) for text, one in found.items()} == kinds


def test_totals_go_over_rows():
    rows = [
        row_with(a=Decimal(n), b=Decimal(2), maybe=None if n == 2 else Decimal(n), name=f"r{n}", flag=n > 1, at=AT + timedelta(days=n))
        for n in (1, 2, 3)
    ]  # fmt: skip
    expected = {
        "$sum([r.a * r.b for r in rows])": 12, "$sum([r.a for r in rows])": 6, "$sum([r.a for r in rows if r.flag])": 5,
        "$sum([r.a * r.b + 1 for r in rows])": 15, "$sum([r.maybe ?? 0 for r in rows])": 4,
        "$sum([$sum([r.a * l.a for l in lines]) for r in rows])": 36,
        "$min([r.a for r in rows])": 1, "$max([r.a for r in rows])": 3, "rows[0].name": "r1",
        "$same([r.b for r in rows])": True, "$same([r.a for r in rows])": False, "$same([r.maybe for r in rows])": False,
        "$count(rows)": 3, "$count([r for r in rows if r.a > 1])": 2,
        "$any([r.flag for r in rows])": True, "$all([r.flag for r in rows])": False,
        "$join([r.name for r in rows])": "r1, r2, r3",
        "$latest([r.at for r in rows])": "2026-03-31T12:00:00+02:00", "$earliest([r.at for r in rows])": "2026-03-29T12:00:00+02:00",
    }  # fmt: skip
    assert {text: value(text, rows=rows, lines=rows) for text in expected} == expected
    rows = [row_with(name=name) for name in ("P1", "P2", None, "P1")]
    assert value("$count($distinct([r.name for r in rows]))", rows=rows) == 2
    assert value("$join($distinct([r.name for r in rows]), '/')", rows=rows) == "P1/P2"
    assert value("$same([r.name for r in rows])", rows=rows[:1]) is True


NUMBERS = st.sampled_from(
    [
        "a", "b", "(maybe ?? 3)", "2", "0.5", "$sum([r.a * r.b for r in rows])", "$max([a, b])",
        "$sum([r.a for r in rows if r.flag])",
    ]
)  # fmt: skip
ARITHMETIC = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda parts: "(" + " ".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["<", ">=", "==", "!="]), inner, inner, inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]} ? {parts[3]} : {parts[4]})"
        ),
    ),
    max_leaves=12,
)


@given(ARITHMETIC, st.lists(st.decimals(-100, 100, places=2), min_size=3, max_size=3))
def test_our_evaluation_agrees_with_the_engine_that_types_expressions(text, numbers):
    one, two, three = numbers
    rows = [row_with(a=one, b=two), row_with(a=three, b=two, maybe=three, flag=False)]
    number, flag = rule_engine.DataType.FLOAT, rule_engine.DataType.BOOLEAN
    row_type = rule_engine.DataType.OBJECT("rows", {"a": number, "b": number, "flag": flag})
    types = {"a": number, "b": number, "maybe": rule_engine.DataType.NULLABLE(number)}
    context = rule_engine.Context(type_resolver=types | {"rows": rule_engine.DataType.ARRAY(row_type)})
    things = [SimpleNamespace(**dict(zip(SLOTS, row, strict=True))) for row in rows]
    thing = {"a": one, "b": two, "maybe": None, "rows": things}
    assert value(text, row=rows[0], rows=rows) == rule_engine.Rule(text, context).evaluate(thing)


def test_the_kept_tables_are_what_ply_makes_of_the_grammar_at_hand():
    """If this fails, rule-engine has another grammar: `python tests/mapping/expression_tables.py` makes them anew."""
    assert json.loads(KEPT.read_bytes()) == json.loads(json.dumps(kept_form(made_anew())))


# ---- clocks ----

SPRING, AUTUMN = datetime(2026, 3, 29, tzinfo=BERLIN), datetime(2026, 10, 25, tzinfo=BERLIN)


def on(day, *, at=timedelta(hours=7, minutes=30), text="at + clock", fold="error"):
    """What an expression gives of a moment and a time of day."""
    return value(text, row=row_with(at=day, clock=at), fold=fold)


@pytest.mark.parametrize(
    "text",
    [
        "at + clock", "clock + at", "$at(at, clock)", "at + (flag ? clock : t'PT1H')", "orders.at + orders.clock",
        "at + (clock + t'PT0S')", "at + (clock - t'PT0S')",
    ],
)  # fmt: skip
def test_m17_a_date_and_a_time_of_day_are_that_time_on_the_clock_of_that_day(text):
    assert on(SPRING, text=text) == "2026-03-29T07:30:00+02:00"
    assert on(AUTUMN, text=text) == "2026-10-25T07:30:00+01:00"
    assert on(AUTUMN, at=HALF_PAST_TWO, text=text, fold="first") == "2026-10-25T02:30:00+02:00"
    assert on(AUTUMN, at=HALF_PAST_TWO, text=text, fold="second") == "2026-10-25T02:30:00+01:00"
    with pytest.raises(CALCULATION_ERRORS, match=r"occurs twice in this time zone: .* source.fold to first or second"):
        on(AUTUMN, at=HALF_PAST_TWO, text=text)
    with pytest.raises(CALCULATION_ERRORS) as raised:
        on(SPRING, at=HALF_PAST_TWO, text=text, fold="first")
    assert reason_text(raised.value) == "2026-03-29 02:30 does not exist in this time zone: the clocks went forward"


LATER = {  # by day, what is added to its midnight: the moment
    AUTUMN: {
        "at + t'P1D'": "2026-10-26T00:00:00+01:00", "t'P1D' + at": "2026-10-26T00:00:00+01:00",
        # a time added to a moment that has one, and the difference of two, are how much later
        "at + t'PT8H'": "2026-10-25T07:00:00+01:00", "at + (clock - clock) + t'PT7H'": "2026-10-25T06:00:00+01:00",
    },
    AUTUMN.replace(hour=1): {"at + (clock - t'PT3H30M')": "2026-10-25T04:00:00+01:00"},
    AUTUMN - timedelta(days=3): {"at + t'P1W'": "2026-10-29T00:00:00+01:00"},
    AUTUMN + timedelta(days=1): {"at - t'P1D'": "2026-10-25T00:00:00+02:00", "at - t'PT24H'": "2026-10-25T01:00:00+02:00"},
    SPRING: {
        "at + t'P1D'": "2026-03-30T00:00:00+02:00", "at + t'P1W'": "2026-04-05T00:00:00+02:00",
        "at + t'P0.5D'": "2026-03-29T13:00:00+02:00", "at + -t'P1D'": "2026-03-28T00:00:00+01:00",
        "at + t'PT24H'": "2026-03-30T01:00:00+02:00", "at + t'P1DT24H'": "2026-03-31T00:00:00+02:00",
        "at + (t'P1D' + t'PT2H')": "2026-03-30T02:00:00+02:00", "at + (t'PT2H' + t'P1D')": "2026-03-30T02:00:00+02:00",
        "at + (t'PT2H' - t'P1D')": "2026-03-28T02:00:00+01:00", "at + (t'P2D' - t'P1D')": "2026-03-30T00:00:00+02:00",
        "at + (flag ? t'P1D' : t'P2D')": "2026-03-30T00:00:00+02:00",
        "(at + t'P1D') - at == t'PT23H' ? at : at + t'PT1H'": "2026-03-29T00:00:00+01:00",
    },
}  # fmt: skip


@pytest.mark.parametrize("day", LATER)
def test_m17_days_of_the_calendar_keep_the_time_of_day_and_hours_do_not(day):
    assert {text: on(day, text=text) for text in LATER[day]} == LATER[day]


def test_m17_a_day_later_may_be_a_time_that_the_clocks_skip_or_repeat():
    before = datetime(2026, 10, 24, 2, 30, tzinfo=BERLIN)
    assert on(before, text="at + t'P1D'", fold="second") == "2026-10-25T02:30:00+01:00"
    with pytest.raises(CALCULATION_ERRORS, match="occurs twice"):
        on(before, text="at + t'P1D'")
    early, every_day = row_with(at=datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN)), Calendar(frozenset())
    for text in ("at + t'P1D'", "$add_working_days(at, 1)"):
        with pytest.raises(CALCULATION_ERRORS, match="2026-03-29 02:30 does not exist"):
            value(text, row=early, ALL=every_day)


def test_moments_are_compared_as_instants():
    first, second = (row_with(at=datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold)) for fold in (0, 1))
    assert value("rows[0].at < rows[1].at", rows=[first, second]) is True
    assert value("rows[0].at == rows[1].at", rows=[first, second]) is False


# ---- working days ----

EASTER = Calendar(holidays=(date(2026, 4, 3).toordinal(), date(2026, 4, 6).toordinal()))


@pytest.mark.parametrize(
    ("text", "usual", "easter"),
    [
        ("$add_working_days(at, 1)", "2026-03-30T12:00:00+02:00", "2026-03-30T12:00:00+02:00"),
        ("$add_working_days(at, 0)", "2026-03-28T12:00:00+01:00", "2026-03-28T12:00:00+01:00"),
        ("$add_working_days(at, -1)", "2026-03-27T12:00:00+01:00", "2026-03-27T12:00:00+01:00"),
        ("$add_working_days(maundy, 1)", "2026-04-03T09:30:00+02:00", "2026-04-07T09:30:00+02:00"),
        ("$add_working_days(at, 250)", "2027-03-12T12:00:00+01:00", "2027-03-16T12:00:00+01:00"),
        # the day after the clocks change is a day like any other
        ("$add_working_days($date(2026, 3, 27) + $hours(2.5), 1)", "2026-03-30T02:30:00+02:00", "2026-03-30T02:30:00+02:00"),
        ("$add_working_days($date(2026, 3, 20) + $hours(2.5), 6)", "2026-03-30T02:30:00+02:00", "2026-03-30T02:30:00+02:00"),
        ("$working_days(maundy, maundy + $days(7))", 5, 3),
        ("$working_days(maundy, maundy)", 0, 0),
        ("$working_days(maundy + $days(7), maundy)", -5, -3),
        ("$is_working_day(maundy)", True, True),
        ("$is_working_day(maundy + $days(1))", True, False),
        ("$is_working_day(at)", False, False),
    ],
)  # fmt: skip
def test_working_days_leave_out_the_days_off(text, usual, easter):
    """Without calendars Saturday and Sunday are off. The only calendar of a mapping needs no name."""
    named = text[:-1] + ', "DE")'
    assert [value(text), value(text, DE=EASTER), value(named, DE=EASTER, US=Calendar())] == [usual, easter, easter]


@given(
    st.dates(date(2020, 1, 1), date(2030, 12, 31)),
    st.integers(-40, 40),
    st.sets(st.integers(0, 6), max_size=6),
    st.sets(st.integers(-60, 60), max_size=20),
)
def test_counting_working_days_agrees_with_going_day_by_day(day, count, weekend, off):
    holidays = {day + timedelta(days=away) for away in off}
    days_off = tuple(sorted(d.toordinal() for d in holidays if d.weekday() not in weekend))
    calendar = Calendar(frozenset(weekend), days_off)
    place, left = day, abs(count)
    while left:
        place += timedelta(days=1 if count > 0 else -1)
        left -= place.weekday() not in weekend and place not in holidays
    assert calendar.after(day, count) == place
    if count > 0:
        assert calendar.between(day, place) == count
    assert calendar.is_working_day(day) == (day.weekday() not in weekend and day not in holidays)


# ---- what cannot be calculated, and what is refused at load ----


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a / (b - b)", "division by zero"),
        ("$max([r.a for r in lines])", "no values"),
        ("rows[3].a", "there are fewer rows than the expression needs"),
        ("$sum([r.maybe for r in rows if r.a > 0])", "a value is blank or has the wrong type"),
        ("a ** 9999999999", "the result is not a number"),
        ("$add_working_days(at, n)", "a number of working days must be whole, not 1.5"),
        ("$add_working_days(at, 9999999)", "the result is out of range"),
        ("$add_working_days(at, -9999999)", "the result is out of range"),
        ("at + $days(99999999)", "the result is out of range"),
        ("$date(2026, 2, 30)", "there is no day 2026-2-30"),
        ("$date(2026, 2, n)", "a year, a month or a day must be whole, not 1.5"),
        ("$date_of_week(2025, 53)", "there is no day 1 in week 53 of 2025"),
        ("$to_number(size)", '"Übergröße 7x9" is not a number such as 1234.5'),
        ("$to_number('1,5')", '"1,5" is not a number such as 1234.5'),
        ("$pad_left(name, 1001)", "$pad_left takes one character, and a length of at most 1000"),
        ("$pad_left(name, 5, phone)", "$pad_left takes one character, and a length of at most 1000"),
        ("$matches(name, phone + '(')", "invalid pattern: missing ):   +49 (0) 201-12 34 ("),
    ],
)
def test_a_calculation_that_fails_says_why(text, why):
    with pytest.raises(CALCULATION_ERRORS) as raised:
        value(text)
    assert reason_text(raised.value) == why


TWO = {"DE": EASTER, "US": Calendar()}
BACKSLASH = "$replace: in the replacement, a backslash is followed by a digit or a backslash, not by n"


@pytest.mark.parametrize(
    ("text", "settings", "said", "hint"),
    [
        ("$add_working_days(at, 1)", TWO, "$add_working_days needs the name of a calendar, because the mapping has 2", "known: DE, US"),
        ('$is_working_day(at, "DEE")', TWO, 'there is no calendar "DEE"', "did you mean DE?"),
        ("$is_working_day(at, name)", TWO, "the name of a calendar is a text in quotes", "known: DE, US"),
        ('$is_working_day(at, "DE")', {}, 'there is no calendar "DE"', "declare it under calendars"),
        ("$replace(name, '(', '')", {}, "$replace: invalid pattern: missing ): (", ""),
        (r"$replace(name, r'(a)\1', '')", {}, "$replace: look-around and back references are not supported", ""),
        (r"$replace(name, r'(a)', r'\2')", {}, "$replace: the replacement names group 2, but the pattern has 1", ""),
        (r"$replace(name, r'a', r'\n')", {}, BACKSLASH, ""),
        (r"$replace(name, r'(a)', '\1')", {}, "$replace: the text holds a control character", r"write r'\1': after r, a backslash stays a backslash"),
        ("$matches(name, '[')", {}, "$matches: invalid pattern: missing ]: [", ""),
        ("$format(at, 'yyyy')", {}, "$format: yyyy has no directive: write %Y", ""),
        ("$format(at, '%I:%M')", {}, "$format: %I:%M has %I without %p, so 2 am and 2 pm look the same; write %H", ""),
        ("$date(2026, 1, 1)", {"zone": None}, "$date cannot tell the time zone of its day", "set source.timezone to the name of one time zone"),
        ("at + t'P1M'", {}, "a duration is written such as P1D, P2W or PT2H30M; months and years have no fixed length: t'P1M'", ""),
    ],
)  # fmt: skip
def test_what_is_written_out_is_checked_at_load(text, settings, said, hint):
    with pytest.raises(ExpressionError) as raised:
        compiled(text, **settings)
    assert (raised.value.text, raised.value.hint) == (said, hint)
    assert hint != "declare it under calendars" or raised.value.at == len("$is_working_day(at, ")


@pytest.mark.parametrize("text", ["$nope(a)", "", "x" * 3000, "{'a': 1}", "a & b", "a ~ b", "$split(name)"])
def test_what_is_no_expression_is_refused_before_any_row_is_read(text):
    with pytest.raises(ExpressionError):
        compiled(text)


@pytest.mark.parametrize("text", ["code", "rows", "$distinct([r.name for r in rows])"])
def test_codes_and_lists_are_values_of_no_kind_that_a_field_takes(text):
    assert compiled(text).type is Type.ANY


# ---- conditions on the cells of a row need no replacement for blanks ----

CELLS = {
    "text": Slot(0, Type.TEXT, nullable=True),
    "number": Slot(1, Type.NUMBER, nullable=True),
    "moment": Slot(2, Type.MOMENT, nullable=True),
    "flag": Slot(3, Type.FLAG, nullable=True),
    "code": Slot(4, Type.CODE_ROW, nullable=True, code_columns=(CodeColumn("name", nullable=True),)),
}
FILLED = ["AB", Decimal(5), datetime(2026, 3, 1, tzinfo=UTC), True, ("N",)]
NO, YES = (False, True), (True, False)
OF_CELLS = {  # whether it holds for a row of blanks, and for one whose cells are filled
    "a blank text counts as an empty text": {
        "text == ''": YES, "text != ''": NO, "text == 'AB'": NO, "text.length == 2": NO, "text.length == 0": YES,
        "text.starts_with('A')": NO, "'B' in text": NO, "text in ['AB', 'C']": NO, "text[0:1] == 'A'": NO, "text.as_lower == 'ab'": NO,
        "text + 'C' == 'C'": YES, "$matches(text, r'[A-Z]*')": (True, True), "$replace(text, r'B', '') == 'A'": NO,
        "text < 'B'": (True, True), "code.name == ''": YES, "code.name == 'N'": NO,
    },
    "unless the condition asks for the blank itself": {
        "text == null": YES, "null != text": NO, "(text ?? 'none') == 'none'": YES, "(code&.name ?? 'none') == 'none'": YES, "code == null": YES,
    },
    "a comparison with any other blank is false, and so is its opposite": {
        "number < 6": NO, "number >= 6": (False, False), "number * 2 + 1 > 0": NO, "-number < 0": NO, "$round(number / 2) > 0": NO,
        "$abs(number) <= 5": NO, "moment < d'2026-04-01'": NO, "moment + $days(number) < d'2026-04-01'": NO,
        "$weekday(moment) > 0": NO, "moment.year >= 2026": NO,
    },
    "except for == and !=: a blank equals only a blank": {
        "number == 5": NO, "number != 5": YES, "number == null": YES, "(number ?? 7) == 7": YES,
    },
    "a blank yes or no is no": {
        "flag and true": NO, "not flag": YES, "flag ? false : true": YES, "$count([text, flag]) == 2": (True, True),
    },
}  # fmt: skip


@pytest.mark.parametrize("about", OF_CELLS)
def test_a_blank_in_a_condition_on_cells(about):
    def holds(text, row):
        frame = Frame(datetime(2026, 3, 1, tzinfo=UTC))
        frame.row = row
        return compile_expression(text, Scope(Shape("rows", CELLS), of_cells=True)).evaluate(frame)

    assert {text: (holds(text, [None] * 5), holds(text, FILLED)) for text in OF_CELLS[about]} == OF_CELLS[about]


TOTALS = ', totals: {where: \'order == "" and mark[0:3] == "SUM"\', sum: weight}'
MARKED = example_text("conditions")


def test_the_condition_of_a_padding_that_fails_refuses_its_cell(tmp_path):
    text = MARKED.replace("weight > 1", "1 / weight > 1").replace(TOTALS, "")
    refused, fine = made(tmp_path, text, [["1", "", "0", "DE"], ["2", "", "0.5", "DE"]])
    assert (codes(refused), fine.key) == (["G407"], "00002")
    assert refused.problems[0].values["reason"] == "division by zero"


def test_a_condition_that_fails_leaves_no_row_out(tmp_path):
    text = MARKED.replace("weight < 0", "1 / weight > 1").replace(TOTALS, "")
    found = run(load_text(tmp_path, text), [["1", "", "0", ""], ["2", "", "0.5", ""]])
    assert [document.key for document in found if not isinstance(document, Ignored)] == ["1"]


def test_a_condition_on_cells_has_types_all_the_same():
    with pytest.raises(ExpressionError, match='"text" is text, "0" is a number'):
        compile_expression("text < 0", Scope(Shape("rows", CELLS), of_cells=True))

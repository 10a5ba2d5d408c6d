"""Expressions: what they give, how they treat blanks and clocks, and that our evaluation agrees with the engine that types them."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
import rule_engine
from expression_tables import KEPT, kept_form, made_anew
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.mapping.expressions import compile_expression
from loadsheet.mapping.plans import (
    CALCULATION_ERRORS,
    Code,
    ExpressionError,
    Frame,
    Scope,
    Shape,
    Slot,
    Type,
    Use,
    reason,
)

SLOTS = {
    "a": Slot(0, Type.NUMBER),
    "b": Slot(1, Type.NUMBER),
    "maybe": Slot(2, Type.NUMBER, blank=True),
    "name": Slot(3, Type.TEXT),
    "flag": Slot(4, Type.FLAG),
    "at": Slot(5, Type.MOMENT),
    "clock": Slot(6, Type.SPAN),
    "code": Slot(7, Type.CODES, codes=(Code("name", blank=False), Code("colour", blank=True))),
    "other": Slot(8, Type.CODES, blank=True, codes=(Code("name", blank=False),)),
}
SHAPE = Shape("orders", SLOTS)
SCOPE = Scope(SHAPE, SHAPE, {"rows": (0, SHAPE), "lines": (1, Shape("lines", SLOTS))})
BERLIN = ZoneInfo("Europe/Berlin")
AT = datetime(2026, 3, 28, 12, tzinfo=BERLIN)  # the clocks go forward in the night after
ROW = [Decimal(6), Decimal(4), None, "Kabel", True, AT, timedelta(hours=2, minutes=30), ("Box", None), None]


def frame(row=ROW, rows=None, lines=()):
    made = Frame(datetime(2026, 3, 1, tzinfo=UTC))
    made.row = made.main = row
    made.lists = ([row] if rows is None else rows, lines)
    return made


def value(text, **rows):
    return compile_expression(text, SCOPE).evaluate(frame(**rows))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * 2", Decimal(14)),
        ("a / b", Decimal("1.5")),
        ("a // b", Decimal(1)),
        ("a % b", Decimal(2)),
        ("a ** 2", Decimal(36)),
        ("-a - b", Decimal(-10)),
        ("(maybe ?? 7) + 1", Decimal(8)),
        ("a > b and not (a == b) or flag", True),
        ("flag ? name : 'no'", "Kabel"),
        ("maybe == null", True),
        ("maybe != null ? 'there' : 'blank'", "blank"),
        ("name in ['Kabel', 'Rohr']", True),
        ("'ab' in name", True),
        ("name + '-' + code.name", "Kabel-Box"),
        ("code.colour ?? 'none'", "none"),
        ("other == null", True),
        ("other&.name ?? 'none'", "none"),
        ("name.as_upper", "KABEL"),
        ("name.length", Decimal(5)),
        ("name[0:2]", "Ka"),
        ("name.starts_with('Ka')", True),
        ("name.ends_with('x')", False),
        ("a.to_str", "6"),
        ("(a / b).ceiling", Decimal(2)),
        ("$round(a / 7, 2)", Decimal("0.86")),
        ("$round(2.5)", Decimal(3)),
        ("$abs(b - a)", Decimal(2)),
        ("$max([a, b, 5])", Decimal(6)),
        ("orders.a", Decimal(6)),
        ("orders.code.name", "Box"),
        ("rows[0].name", "Kabel"),
        ("at.year * 100 + at.month", Decimal(202603)),
        ("at > d'2026-03-28'", True),
        ("$now < at", True),
    ],
)
def test_expressions_give_exact_values(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_totals_go_over_rows():
    rows = [
        [
            Decimal(n),
            Decimal(2),
            None if n == 2 else Decimal(n),
            f"r{n}",
            n > 1,
            AT + timedelta(days=n),
            None,
            None,
            None,
        ]
        for n in (1, 2, 3)
    ]
    assert value("$sum([r.a * r.b for r in rows])", rows=rows) == 12
    assert value("$sum([r.a for r in rows])", rows=rows) == 6
    assert value("$sum([r.a for r in rows if r.flag])", rows=rows) == 5
    assert value("$sum([r.a * r.b + 1 for r in rows])", rows=rows) == 15
    assert value("$sum([r.maybe ?? 0 for r in rows])", rows=rows) == 4
    assert value("$min([r.a for r in rows])", rows=rows) == 1
    assert value("$max([r.a for r in rows])", rows=rows) == 3
    assert value("rows[0].name", rows=rows) == "r1"
    assert value("$same([r.b for r in rows])", rows=rows) is True
    assert value("$same([r.a for r in rows])", rows=rows) is False
    assert value("$same([r.maybe for r in rows])", rows=rows) is False
    assert value("$count(rows)", rows=rows) == 3
    assert value("$count([r for r in rows if r.a > 1])", rows=rows) == 2
    assert value("$any([r.flag for r in rows])", rows=rows) is True
    assert value("$all([r.flag for r in rows])", rows=rows) is False
    assert value("$join([r.name for r in rows])", rows=rows) == "r1, r2, r3"
    assert value("$latest([r.at for r in rows])", rows=rows) == AT + timedelta(days=3)
    assert value("$earliest([r.at for r in rows])", rows=rows) == AT + timedelta(days=1)
    assert value("$sum([$sum([r.a * l.a for l in lines]) for r in rows])", rows=rows, lines=rows) == 36


def test_m17_adding_time_across_a_change_of_the_clocks_loses_no_hour():
    assert value("at + t'PT24H'").isoformat() == "2026-03-29T13:00:00+02:00"
    assert value("(at + t'PT24H') - at") == timedelta(hours=24)
    assert value("at - t'PT1H'").isoformat() == "2026-03-28T11:00:00+01:00"
    assert value("$at(at, clock)").isoformat() == "2026-03-28T02:30:00+01:00"


def test_m17_a_wall_time_that_does_not_exist_cannot_be_calculated():
    row = [*ROW]
    row[5] = datetime(2026, 3, 29, tzinfo=BERLIN)
    with pytest.raises(CALCULATION_ERRORS) as raised:
        value("$at(at, clock)", row=row)
    assert reason(raised.value) == "2026-03-29 02:30 does not exist in this time zone: the clocks went forward"


def on(day, *, at=timedelta(hours=7, minutes=30), text="at + clock", fold="error"):
    """What an expression gives of a moment and a time of day."""
    row = [*ROW]
    row[5], row[6] = day, at
    shape = Shape("orders", SLOTS, fold)
    return compile_expression(text, Scope(shape, shape)).evaluate(frame(row)).isoformat()


SPRING, AUTUMN = datetime(2026, 3, 29, tzinfo=BERLIN), datetime(2026, 10, 25, tzinfo=BERLIN)
HALF_PAST_TWO = timedelta(hours=2, minutes=30)


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
    with pytest.raises(CALCULATION_ERRORS, match="2026-03-29 02:30 does not exist in this time zone"):
        on(SPRING, at=HALF_PAST_TWO, text=text, fold="first")


def test_m17_a_time_added_to_a_moment_that_has_one_is_how_much_later():
    assert on(AUTUMN.replace(hour=1), at=timedelta(hours=4)) == "2026-10-25T04:00:00+01:00"
    assert on(AUTUMN, text="at + t'PT8H'") == "2026-10-25T07:00:00+01:00"


@pytest.mark.parametrize(
    ("day", "text", "expected"),
    [
        (AUTUMN, "at + t'P1D'", "2026-10-26T00:00:00+01:00"),
        (AUTUMN, "t'P1D' + at", "2026-10-26T00:00:00+01:00"),
        (SPRING, "at + t'P1D'", "2026-03-30T00:00:00+02:00"),
        (SPRING, "at + t'P1W'", "2026-04-05T00:00:00+02:00"),
        (SPRING, "at + t'P0.5D'", "2026-03-29T13:00:00+02:00"),
        (AUTUMN - timedelta(days=3), "at + t'P1W'", "2026-10-29T00:00:00+01:00"),
        (SPRING, "at + t'PT24H'", "2026-03-30T01:00:00+02:00"),
        (SPRING, "at + t'P1DT24H'", "2026-03-31T00:00:00+02:00"),
        (SPRING, "at + (t'P1D' + t'PT2H')", "2026-03-30T02:00:00+02:00"),
        (SPRING, "at + (t'PT2H' + t'P1D')", "2026-03-30T02:00:00+02:00"),
        (SPRING, "at + (t'PT2H' - t'P1D')", "2026-03-28T02:00:00+01:00"),
        (SPRING, "at + (t'P2D' - t'P1D')", "2026-03-30T00:00:00+02:00"),
        (SPRING, "at + (flag ? t'P1D' : t'P2D')", "2026-03-30T00:00:00+02:00"),
        (SPRING, "at + -t'P1D'", "2026-03-28T00:00:00+01:00"),
        (AUTUMN + timedelta(days=1), "at - t'P1D'", "2026-10-25T00:00:00+02:00"),
        (AUTUMN + timedelta(days=1), "at - t'PT24H'", "2026-10-25T01:00:00+02:00"),
        (SPRING, "(at + t'P1D') - at == t'PT23H' ? at : at + t'PT1H'", "2026-03-29T00:00:00+01:00"),
    ],
)
def test_m17_days_of_the_calendar_keep_the_time_of_day_and_hours_do_not(day, text, expected):
    assert on(day, text=text) == expected


def test_m17_a_day_later_may_be_a_time_that_the_clocks_skip_or_repeat():
    before = datetime(2026, 10, 24, 2, 30, tzinfo=BERLIN)
    assert on(before, text="at + t'P1D'", fold="second") == "2026-10-25T02:30:00+01:00"
    with pytest.raises(CALCULATION_ERRORS, match="occurs twice"):
        on(before, text="at + t'P1D'")
    with pytest.raises(CALCULATION_ERRORS, match="does not exist"):
        on(datetime(2026, 3, 28, 2, 30, tzinfo=BERLIN), text="at + t'P1D'")


def test_the_difference_of_two_times_of_day_is_how_much_later():
    assert on(AUTUMN, text="at + (clock - clock) + t'PT7H'") == "2026-10-25T06:00:00+01:00"


def test_a_duration_without_a_fixed_length_is_refused_with_what_to_write():
    with pytest.raises(ExpressionError, match="such as P1D, P2W or PT2H30M; months and years have no fixed length"):
        compile_expression("at + t'P1M'", SCOPE)


def test_moments_are_compared_as_instants():
    row = [*ROW]
    row[5] = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    first = [*row]
    first[5] = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    assert value("rows[0].at < rows[1].at", rows=[first, row]) is True
    assert value("rows[0].at == rows[1].at", rows=[first, row]) is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a / (b - b)", "division by zero"),
        ("$max([r.a for r in lines])", "no values"),
        ("rows[3].a", "there are fewer rows than the expression needs"),
        ("$sum([r.maybe for r in rows if r.a > 0])", "a value is blank or has the wrong type"),
        ("a ** 9999999999", "the result is not a number"),
    ],
)
def test_a_calculation_that_fails_says_why(text, said):
    with pytest.raises(CALCULATION_ERRORS) as raised:
        value(text)
    assert reason(raised.value) == said


def test_uses_name_every_column_that_is_read():
    found = compile_expression("$sum([r.a * r.b for r in rows]) + orders.b + (maybe ?? 0) + $count(lines)", SCOPE)
    assert found.uses == {
        Use("orders", "a", "all"),
        Use("orders", "b", "all"),
        Use("orders", "b", "first"),
        Use("orders", "maybe", "here"),
        Use("lines", "", "all"),
    }
    assert found.type is Type.NUMBER
    assert not found.blank
    assert compile_expression("maybe", SCOPE).blank


@pytest.mark.parametrize(
    "text",
    ["maybe + 1", "a + name", "at + 1", "name > 1", "$sum(rows)", "$nope(a)", "other.name", "code", "rows", "a ~ b", "1 +", "", "x" * 3000, "{'a': 1}", "a & b", "$split(name)", "name =~ 'x'"],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_any_row_is_read(text):
    if text in {"code", "rows"}:  # values, but of no kind that a field takes
        assert compile_expression(text, SCOPE).type is Type.ANY
        return
    with pytest.raises(ExpressionError):
        compile_expression(text, SCOPE)


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
    rows = [
        [one, two, None, "x", True, None, None, None, None],
        [three, two, three, "y", False, None, None, None, None],
    ]
    ours = value(text, row=rows[0], rows=rows)
    names = list(SLOTS)
    things = [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in rows]
    number, flag = rule_engine.DataType.FLOAT, rule_engine.DataType.BOOLEAN
    row_type = rule_engine.DataType.OBJECT("rows", {"a": number, "b": number, "flag": flag})
    types = {
        "a": number,
        "b": number,
        "maybe": rule_engine.DataType.NULLABLE(number),
        "rows": rule_engine.DataType.ARRAY(row_type),
    }
    context = rule_engine.Context(type_resolver=types)
    thing = {"a": one, "b": two, "maybe": None, "rows": things}
    assert ours == rule_engine.Rule(text, context).evaluate(thing)


def test_the_kept_tables_are_what_ply_makes_of_the_grammar_at_hand():
    """If this fails, rule-engine has another grammar: `python tests/mapping/expression_tables.py` makes them anew."""
    assert json.loads(KEPT.read_bytes()) == json.loads(json.dumps(kept_form(made_anew())))

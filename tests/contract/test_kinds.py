from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import DATE_SHAPES, EXPECTED, FlagForm, Kind, NumberForm, plain, spell
from loadsheet.contract.kinds import NUMBER_TEXT, in_date_shape


def spelled(kind, value, numbers=NumberForm.JSON_NUMBER, flags=FlagForm.YES_NO):
    return spell(kind, value, numbers=numbers, flags=flags)


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2999, 12, 31)))
def test_every_datetime_is_spelled_in_the_shape_of_its_field(moment):
    for kind in (Kind.DATETIME, Kind.DATETIME_T, Kind.DATETIME_ISO):
        text = spelled(kind, moment)
        assert in_date_shape(kind, text)
        assert datetime.strptime(text, DATE_SHAPES[kind][0]) == moment.replace(microsecond=0)


def test_an_aware_datetime_is_brought_to_utc_where_the_shape_says_utc():
    moment = datetime(2026, 3, 1, 8, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert spelled(Kind.DATETIME_ISO, moment) == "2026-03-01T02:30:00Z"
    assert spelled(Kind.DATETIME, moment) == "2026-03-01 08:00:00"
    assert spelled(Kind.DATETIME_ISO, datetime(2026, 3, 1, tzinfo=UTC)) == "2026-03-01T00:00:00Z"


def test_dates_and_times_are_spelled_and_a_wrong_one_is_refused():
    assert spelled(Kind.DATE, date(2026, 3, 1)) == "2026-03-01"
    assert spelled(Kind.TIME, time(8, 5)) == "08:05:00"
    assert spelled(Kind.DATE, "2026-03-01") == "2026-03-01"
    for wrong in ("01.03.2026", "2026-02-30", time(8), 5):
        with pytest.raises(ValueError, match="expected"):
            spelled(Kind.DATE, wrong)


@pytest.mark.parametrize(
    "text", ["2026-02-29 00:00:00", "2026-03-01 24:00:00", "2026-03-01T08:00:00", "٢026-03-01 08:00:00"]
)
def test_what_only_looks_like_a_datetime_is_none(text):
    assert not in_date_shape(Kind.DATETIME, text)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_numbers_are_spelled_exactly_and_never_with_an_exponent(number):
    text = plain(number)
    assert "E" not in text.upper()
    assert Decimal(text) == number
    assert spelled(Kind.NUMERIC, number) == number
    assert spelled(Kind.NUMERIC, number, NumberForm.JSON_STRING) == text


def test_trailing_zeros_stay():
    assert plain(Decimal("12.50")) == "12.50"


@pytest.mark.parametrize("wrong", ["12,5", "", " 1", "1.", "01", "NaN", "0x1", True])
def test_what_json_would_not_call_a_number_is_none(wrong):
    with pytest.raises(ValueError, match="a number"):
        spelled(Kind.NUMERIC, wrong)
    assert NUMBER_TEXT.fullmatch(str(wrong)) is None


@pytest.mark.parametrize(
    ("form", "yes", "no"), [(FlagForm.YES_NO, "yes", "no"), (FlagForm.TRUE_FALSE, "true", "false")]
)
def test_flags_take_the_settable_form(form, yes, no):
    assert [spelled(Kind.FLAG, value, flags=form) for value in (True, False, "YES", "false")] == [yes, no, yes, no]
    with pytest.raises(ValueError, match="yes or no"):
        spelled(Kind.FLAG, "maybe", flags=form)


def test_identifiers_are_texts_with_their_leading_zeros():
    assert spelled(Kind.STRING_OR_NUMERIC, "00012") == "00012"
    assert spelled(Kind.STRING_OR_NUMERIC, 12) == "12"


def test_every_kind_says_what_it_expects():
    assert EXPECTED.keys() == set(Kind)

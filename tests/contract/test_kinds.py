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


def test_dates_and_times_are_spelled_in_utc_where_the_shape_says_so_and_a_wrong_one_is_refused():
    moment = datetime(2026, 3, 1, 8, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    for kind, value, text in (
        (Kind.DATETIME_ISO, moment, "2026-03-01T02:30:00Z"),
        (Kind.DATETIME, moment, "2026-03-01 08:00:00"),
        (Kind.DATETIME_ISO, datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00Z"),
        (Kind.DATE, date(2026, 3, 1), "2026-03-01"),
        (Kind.TIME, time(8, 5), "08:05:00"),
        (Kind.DATE, "2026-03-01", "2026-03-01"),
    ):
        assert spelled(kind, value) == text
    for wrong in ("01.03.2026", "2026-02-30", time(8), 5):
        with pytest.raises(ValueError, match="expected"):
            spelled(Kind.DATE, wrong)
    for text in ("2026-02-29 00:00:00", "2026-03-01 24:00:00", "2026-03-01T08:00:00", "٢026-03-01 08:00:00"):
        assert not in_date_shape(Kind.DATETIME, text)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_numbers_are_spelled_exactly_and_never_with_an_exponent(number):
    text = plain(number)
    assert "E" not in text.upper()
    assert Decimal(text) == number
    assert spelled(Kind.NUMERIC, number) == number
    assert spelled(Kind.NUMERIC, number, NumberForm.JSON_STRING) == text
    assert plain(Decimal("12.50")) == "12.50"


@pytest.mark.parametrize("wrong", ["12,5", "", " 1", "1.", "01", "NaN", "0x1", True])
def test_what_json_would_not_call_a_number_is_none(wrong):
    with pytest.raises(ValueError, match="a number"):
        spelled(Kind.NUMERIC, wrong)
    assert NUMBER_TEXT.fullmatch(str(wrong)) is None


def test_flags_take_the_settable_form_and_identifiers_keep_their_zeros():
    for form, yes, no in ((FlagForm.YES_NO, "yes", "no"), (FlagForm.TRUE_FALSE, "true", "false")):
        assert [spelled(Kind.FLAG, value, flags=form) for value in (True, False, "YES", "false")] == [yes, no, yes, no]
        with pytest.raises(ValueError, match="yes or no"):
            spelled(Kind.FLAG, "maybe", flags=form)
    assert [spelled(Kind.STRING_OR_NUMERIC, value) for value in ("00012", 12)] == ["00012", "12"]
    assert EXPECTED.keys() == set(Kind)

from datetime import UTC, datetime, timedelta

import pytest

from loadsheet.dispatch import DeliveryResult
from loadsheet.dispatch.forecast import RECENT_S, Rate, due, forecast

NOW = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)


def test_the_rate_is_that_of_the_last_minute():
    rate = Rate(0.0)
    for second in range(1, 101):
        rate.note(10 * second, second)
    assert rate.per_second(100) == 10
    for second in range(101, 301):
        rate.note(1000 + 2 * (second - 100), second)
    assert abs(rate.per_second(300) - 2) < 0.2
    assert rate.per_second(300 + RECENT_S) < 1.1, "a pause counts"


def test_nobody_knows_before_anything_was_done():
    assert Rate(5.0).per_second(5.0) == 0
    told = forecast(1200, 0.0, NOW, None)
    assert told.ends_at is None
    assert "1,200 documents left" in str(told)
    assert not forecast(1, 0.0, NOW, NOW).fits


def test_it_says_whether_the_rest_fits_the_night():
    night = NOW + timedelta(hours=2)
    good, bad = forecast(3600, 1.0, NOW, night), forecast(3600, 0.1, NOW, night)
    assert (good.fits, bad.fits) == (True, False)
    assert good.ends_at == NOW + timedelta(hours=1)
    assert "3,600 documents left at 1 a second" in str(good)
    assert "in time for" in str(good)
    assert "360 an hour" in str(bad)
    assert "too late for" in str(bad)
    assert forecast(0, 3.0, NOW, NOW - timedelta(hours=1)).fits
    assert forecast(10**12, 0.001, NOW, None).ends_at.year < 2040, "no date is out of range"


def test_finish_by_is_the_next_time_the_clock_shows_it():
    assert due("", NOW) is None
    local = NOW.astimezone()
    soon, past = local + timedelta(minutes=5), local - timedelta(minutes=5)
    assert due(f"{soon:%H:%M}", NOW) == soon.replace(second=0, microsecond=0)
    assert due(f"{past:%H:%M}", NOW) > NOW + timedelta(hours=22)


def test_a_run_says_what_is_left_and_whether_it_fits_the_night():
    def told(remaining, per_second, finish_by=NOW + timedelta(hours=1)):
        return DeliveryResult(None, {}, forecast(remaining, per_second, NOW, finish_by))

    for nothing in (DeliveryResult(None, {}), told(0, 5.0)):
        assert (nothing.left, nothing.late) == ("", "")
    assert ("100 documents left" in told(100, 5.0).left, told(100, 5.0).late) == (True, "")
    assert "too late for" in told(100_000, 5.0).late
    assert told(10, 0.0).late == told(10, 0.0).left != ""
    assert told(10, 0.0, None).late == "", "nobody set a time"


@pytest.mark.parametrize(("minutes", "hours"), [(5, 0), (1, 0), (0, 24), (-1, 24), (-5, 24)])
def test_a_time_of_day_that_is_over_or_is_now_means_tomorrow(minutes, hours):
    wanted = (NOW + timedelta(minutes=minutes)).astimezone()
    assert due(f"{wanted:%H:%M}", NOW) == wanted + timedelta(hours=hours)

"""What a run says of what is left to send."""

from datetime import UTC, datetime, timedelta

from loadsheet.dispatch import Delivered
from loadsheet.dispatch.forecast import forecast

NOW = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)


def of(remaining, per_second, finish_by=NOW + timedelta(hours=1)):
    return Delivered(None, {}, forecast(remaining, per_second, NOW, finish_by))


def test_what_is_left_is_said_and_whether_it_fits_the_night():
    assert (Delivered(None, {}).left, Delivered(None, {}).late) == ("", "")
    assert (of(0, 5.0).left, of(0, 5.0).late) == ("", "")
    assert "100 left" in of(100, 5.0).left
    assert of(100, 5.0).late == ""
    assert "too late for" in of(100_000, 5.0).late
    assert of(10, 0.0).late == of(10, 0.0).left != ""
    assert of(10, 0.0, None).late == "", "nobody set a time"

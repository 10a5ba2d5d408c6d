"""Where the rules of sending begin and end: one case on each side."""

from datetime import UTC, datetime, timedelta

import pytest
import ready_entries

from loadsheet.dispatch.circuit_breaker import CircuitBreaker
from loadsheet.dispatch.forecast import due
from loadsheet.dispatch.token_masking import MASK, SECRET_LENGTH, TokenMask

NOW = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)


@pytest.mark.parametrize(("minutes", "hours"), [(5, 0), (1, 0), (0, 24), (-1, 24), (-5, 24)])
def test_a_time_of_day_that_is_over_or_is_now_means_tomorrow(minutes, hours):
    wanted = (NOW + timedelta(minutes=minutes)).astimezone()
    assert due(f"{wanted:%H:%M}", NOW) == wanted + timedelta(hours=hours)


def test_nobody_waits_where_a_call_may_leave_long_since():
    naps = ready_entries.Naps()
    pace = CircuitBreaker(ready_entries.settings(), naps.clock, lambda: 1.0, departures=naps.clock)
    naps.sleep(100)
    assert pace.wait_s() == 0


@pytest.mark.parametrize("later", [0, 1])
def test_a_token_that_begins_like_another_is_masked_to_its_end(later):
    short, long = "lsx-0123456789abcdef", "lsx-0123456789abcdef-and-more"
    mask = TokenMask()
    for token in ((short, long), (long, short))[later]:
        mask.add(token)
    assert mask.masked(f"no {long}, no {short}".encode()) == b"no " + MASK + b", no " + MASK


@pytest.mark.parametrize(("length", "is_masked"), [(SECRET_LENGTH - 1, False), (SECRET_LENGTH, True)])
def test_what_is_too_short_for_a_secret_is_not_masked(length, is_masked):
    mask, token = TokenMask(), "Z9" * length
    mask.add(token[:length])
    assert (MASK in mask.masked(f"a {token[:length]} b".encode())) is is_masked

"""The limiter: what leaves in any second, against arithmetic, whenever calls come to it."""

from bisect import bisect_left
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.dispatch.rate_limiter import AHEAD_S, RateLimiter, boottime

NOISE = 1e-9  # of adding up fractions


def departures(limiter, until, now=0.0, *, late=lambda: 0.0):
    """When calls leave that are always waiting, each of which may be seen to too late."""
    found = []
    while (now := now + limiter.delay_s(now) + late()) < until:
        while limiter.try_acquire(now):
            found.append(now)
    return found


def busiest(moments):
    """The most departures in any one second."""
    return max(bisect_left(moments, moment + 1 - NOISE) - place for place, moment in enumerate(moments))


def most(rate):
    return rate if rate < 20 else ceil(rate * 1.02)


@pytest.mark.parametrize("rate", [1, 3, 7, 19, 20, 34, 50, 100, 999])
def test_as_many_calls_are_sent_in_a_second_as_may_be(rate):
    found = departures(RateLimiter(rate, 0.0), 5.0)
    assert 5 * rate <= len(found) <= 5 * rate + 1.001 + rate * 0.02
    assert busiest(found) <= most(rate)


@given(st.integers(1, 300), st.lists(st.floats(0, 0.3), min_size=1, max_size=60))
def test_whenever_calls_are_seen_to_no_second_has_more_than_may(rate, delays):
    turn = iter(range(10**9))
    found = departures(RateLimiter(rate, 0.0), 4.0, late=lambda: delays[next(turn) % len(delays)])
    assert busiest(found) <= most(rate)


def test_calls_a_little_late_cost_nothing():
    found = departures(RateLimiter(100, 0.0), 10.0, late=lambda: 0.008)
    assert len(found) >= 999
    assert busiest(found) <= 102


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 200)), max_size=12))
def test_a_rate_that_changes_is_kept_from_then_on(changes):
    limiter, now, rate, found, allowed = RateLimiter(50, 0.0), 0.0, 50, [], 0.0
    for lasts, after in changes:
        found += departures(limiter, now + lasts, now)
        allowed += lasts * rate
        now, rate = now + lasts, after
        limiter.set_rate(rate, now, from_scratch=False)
    assert len(found) <= allowed + 1.001 + 0.02 * 200


def test_with_a_new_rate_the_first_call_is_sent_one_interval_later():
    limiter = RateLimiter(0, 0.0)
    limiter.set_rate(10, 100.0, from_scratch=True)
    assert not limiter.try_acquire(100.05)
    assert limiter.delay_s(100.0) == pytest.approx(0.1)
    assert limiter.try_acquire(100.101)
    limiter.set_rate(1, 100.151, from_scratch=False)
    assert limiter.delay_s(100.151) == pytest.approx(0.5), "half of the interval was over"
    limiter.set_rate(100, 100.151, from_scratch=False)
    assert limiter.delay_s(100.151) == 0


def test_without_a_rate_everything_is_sent_at_once():
    limiter = RateLimiter(0, 5.0)
    assert all(limiter.try_acquire(5.0) for _ in range(1000))
    assert (limiter.delay_s(5.0), limiter.capacity_delay_s(5.0)) == (0, 0)
    assert limiter.capacity(5.0) > 10**9


@given(st.integers(1, 200), st.integers(0, 50))
def test_capacity_is_the_number_of_calls_that_may_be_sent_soon(rate, before):
    limiter, now = RateLimiter(rate, 0.0), 0.0
    for _ in range(before):
        now += limiter.delay_s(now)
        limiter.try_acquire(now + NOISE)
    capacity, opens = limiter.capacity(now), limiter.capacity_delay_s(now)
    assert (capacity > 0) == (opens == 0)
    leaving = len(departures(limiter, now + AHEAD_S - NOISE, now))
    assert abs(capacity - leaving) <= 1


def test_the_clock_of_departures_goes_on():
    first = boottime()
    assert boottime() >= first > 0

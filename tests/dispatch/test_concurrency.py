"""The limit on calls at the same time, against exchanges that are made of arithmetic."""

import heapq

import pytest

from loadsheet.dispatch.concurrency import Concurrency


def simulate(limit, latency_of, seconds, *, busy=lambda _now, _under_way: False):
    """As many calls under way as the limit allows, for so long; yields (time, limit, finished so far) at each end of a call."""
    now, finished, under_way = 0.0, 0, []
    while now < seconds:
        while len(under_way) < limit.limit:
            heapq.heappush(under_way, (now + latency_of(len(under_way) + 1), now))
        now, started = heapq.heappop(under_way)
        if busy(now, len(under_way) + 1):
            limit.setback(started, now)
        else:
            finished += 1
            limit.finished(now - started, started, now, at_limit=len(under_way) + 1 >= limit.limit)
        yield now, limit.limit, finished


def test_at_50_ms_it_is_at_256_within_a_second_and_loses_little_on_the_way():
    steps = list(simulate(Concurrency(2, 256), lambda _: 0.05, 5))
    reached = next(now for now, limit, _ in steps if limit == 256)
    assert reached < 1
    assert steps[-1][2] > 0.9 * 256 / 0.05 * 5


@pytest.mark.parametrize("serves", [4, 20, 90])
def test_it_settles_near_what_the_exchange_serves_at_the_same_time(serves):
    steps = list(simulate(Concurrency(2, 256), lambda n: 0.05 * max(1, n / serves), 60))
    later = [limit for now, limit, _ in steps if now > 20]
    assert serves * 0.7 <= sum(later) / len(later) <= serves * 2.5
    assert steps[-1][2] > 0.8 * serves / 0.05 * 60


def test_it_halves_where_the_exchange_says_that_it_is_too_busy_and_comes_back():
    limit = Concurrency(2, 256)
    steps = list(simulate(limit, lambda _: 0.05, 30, busy=lambda _, n: n > 60))
    later = [limit for now, limit, _ in steps if now > 5]
    assert min(later) >= 28
    assert max(later) <= 70


def test_calls_that_left_together_count_as_one_setback():
    limit = Concurrency(64, 64)
    for _ in range(64):
        limit.setback(0.0, 1.0)
    assert limit.limit == 32


def test_after_nobody_was_there_it_starts_with_one_call():
    limit = Concurrency(8, 8)
    for _ in range(5):
        limit.no_connection(1.0)
    assert limit.limit == 1
    limits = []
    for now in range(2, 30):
        limit.finished(0.05, now, now + 0.05, at_limit=True)
        limits.append(limit.limit)
    assert limits[0] == 2
    assert limits[-1] == 8
    assert limits == sorted(limits)


def test_it_does_not_grow_while_something_else_is_the_limit():
    limit = Concurrency(2, 64)
    for now in range(100):
        limit.finished(0.05, now, now + 0.05, at_limit=False)
    assert limit.limit == 2


def test_an_exchange_that_got_slower_for_good_is_not_starved():
    limit = Concurrency(2, 32)
    list(simulate(limit, lambda _: 0.05, 5))
    assert limit.limit == 32
    steps = list(simulate(limit, lambda _: 0.2, 600))
    assert steps[-1][1] == 32


@pytest.mark.parametrize(("limit", "halved", "grown"), [(64, 32, 37), (9, 4, 6), (1, 1, 2)])
def test_after_a_setback_it_grows_by_the_square_root(limit, halved, grown):
    found = Concurrency(limit, 64)
    found.setback(0, 1)
    assert found.limit == halved
    for _ in range(halved):
        found.finished(0, 1, 2, at_limit=True)
    assert found.limit == grown

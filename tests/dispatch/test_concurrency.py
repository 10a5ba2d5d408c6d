"""The limit on concurrent calls, against exchanges made of arithmetic, and how the next run starts with it."""

import heapq
import threading
import time

import pytest
import ready_entries
from scripted_exchange import Move, Scripted, accepts

from loadsheet.dispatch.circuit_breaker import Concurrency, LastLimit, StableLimit


def simulate(limit, latency_of, seconds, *, busy=lambda _now, _under_way: False):
    """As many calls under way as the limit allows, for so long; (time, limit, finished so far) at each end of a call."""
    now, finished, under_way, steps = 0.0, 0, [], []
    while now < seconds:
        while len(under_way) < limit.limit:
            heapq.heappush(under_way, (now + latency_of(len(under_way) + 1), now))
        now, started = heapq.heappop(under_way)
        if busy(now, len(under_way) + 1):
            limit.report_overload(started, now)
        else:
            finished += 1
            limit.finished(now - started, started, now, at_limit=len(under_way) + 1 >= limit.limit)
        steps.append((now, limit.limit, finished))
    return steps


def test_at_50_ms_it_is_at_256_within_a_second_and_loses_little_on_the_way():
    steps = simulate(Concurrency(2, 256), lambda _: 0.05, 5)
    assert next(now for now, limit, _ in steps if limit == 256) < 1
    assert steps[-1][2] > 0.9 * 256 / 0.05 * 5


@pytest.mark.parametrize("serves", [4, 20, 90])
def test_it_settles_near_what_the_exchange_serves_at_the_same_time(serves):
    steps = simulate(Concurrency(2, 256), lambda n: 0.05 * max(1, n / serves), 60)
    later = [limit for now, limit, _ in steps if now > 20]
    assert serves * 0.7 <= sum(later) / len(later) <= serves * 2.5
    assert steps[-1][2] > 0.8 * serves / 0.05 * 60


def test_it_halves_where_the_exchange_says_that_it_is_too_busy_and_comes_back():
    steps = simulate(Concurrency(2, 256), lambda _: 0.05, 30, busy=lambda _, n: n > 60)
    later = [limit for now, limit, _ in steps if now > 5]
    assert min(later) >= 28
    assert max(later) <= 70


def test_an_exchange_that_got_slower_for_good_is_not_starved():
    limit = Concurrency(2, 32)
    assert simulate(limit, lambda _: 0.05, 5)[-1][1] == 32
    assert simulate(limit, lambda _: 0.2, 600)[-1][1] == 32


def test_after_nobody_was_there_it_starts_with_one_call():
    limit = Concurrency(8, 8)
    for _ in range(5):
        limit.no_connection(1.0)
    assert limit.limit == 1
    limits = []
    for now in range(2, 30):
        limit.finished(0.05, now, now + 0.05, at_limit=True)
        limits.append(limit.limit)
    assert (limits[0], limits[2], limits[-1], limits) == (2, 4, 8, sorted(limits)), "it doubles to half of the last one"


def test_it_does_not_grow_while_something_else_is_the_limit_but_does_where_no_wire_time_is_known():
    waits, unmeasured = Concurrency(2, 64), Concurrency(2, 9)
    for now in range(1, 100):
        waits.finished(0.05, now, now + 0.05, at_limit=False)
        unmeasured.finished(None, now, now, at_limit=True)
    assert (waits.limit, unmeasured.limit) == (2, 9)
    assert (unmeasured.stable_limit.limit, unmeasured.stable_limit.wire_s) == (pytest.approx(9), None)


@pytest.mark.parametrize(("limit", "halved", "grown"), [(64, 32, 37), (9, 4, 6), (1, 1, 2)])
def test_after_a_setback_it_grows_by_the_square_root(limit, halved, grown):
    found = Concurrency(limit, 64)
    found.report_overload(0, 1)
    assert found.limit == halved
    for _ in range(halved):
        found.finished(0, 1, 2, at_limit=True)
    assert found.limit == grown


# the limit of the run before

EXCHANGE = "https://exchange.example"


class UnderWay:
    """Accepts everything after 100 ms, but answers nothing before `awaited` calls are under way, or 5 s have passed. `at_first` is how many
    that were when it answered first, `most` how many at any time.
    """

    def __init__(self, awaited):
        self.at_first = self.most = self._now = 0
        self._awaited, self._changed = awaited, threading.Condition()

    def __call__(self, _number, _request):
        with self._changed:
            self._now += 1
            self.most = max(self.most, self._now)
            self._changed.notify_all()
        return Move(self._answer, applies=True)

    def _answer(self, connection, request):
        time.sleep(0.1)
        with self._changed:
            if not self.at_first:
                self._changed.wait_for(lambda: self._now >= self._awaited or self.at_first, 5)
                self.at_first = self.at_first or self._now
            self._now -= 1
            self._changed.notify_all()
        return accepts.act(connection, request)


def one_run(ledger, count, awaited, port=0, **changes):
    """A run with so many new orders; returns what the exchange saw, and its port."""
    run, seen = ledger.begin_run(), UnderWay(awaited)
    payloads = [ready_entries.ledgers.order(run.id * 1000 + number) for number in range(count)]
    ready_entries.plan(ledger, run, "order.create", payloads, file=f"{run.name}.csv")
    with Scripted(seen, port=port) as server:
        options = ready_entries.settings(**{"connections": 16, "exchange": server.url, **changes})
        with ready_entries.client_of(server.url, options) as client:
            report = ready_entries.send(ledger, client, run, options)
        assert report.accepted == count
        return seen, int(server.url.rpartition(":")[2])


def test_the_second_run_starts_with_what_the_first_settled_on_and_another_exchange_does_not(ledger):
    first, port = one_run(ledger, 120, 2)
    assert first.at_first == 2
    last = LastLimit(ledger, f"http://127.0.0.1:{port}").read()
    assert last.limit > 4
    assert last.per_second > 0
    second, _ = one_run(ledger, 40, last.limit, port)
    assert second.at_first == last.limit
    for exchange in (None, "embedded"):
        other, _ = one_run(ledger, 40, 2, **({"exchange": exchange} if exchange else {}))
        assert other.at_first == 2
    assert LastLimit(ledger, "embedded").read() is not None, "whatever its port"


def test_it_is_no_bound_and_the_settings_are(ledger):
    _, port = one_run(ledger, 40, 2, connections=3)
    more, _ = one_run(ledger, 120, 3, port)
    assert more.at_first == 3
    assert more.most > 4
    less, _ = one_run(ledger, 20, 4, port, connections=4)
    assert (less.at_first, less.most) == (4, 4)


def test_a_run_too_short_to_measure_keeps_the_last_limit_and_rate(ledger):
    last = LastLimit(ledger, EXCHANGE)
    last.keep(StableLimit(8, 0.05, shrank=True), 40.04)
    last.keep(None)
    assert last.read() == StableLimit(8, 0.05, shrank=True, per_second=40.0)
    last.keep(StableLimit(9, 0.05, shrank=False))
    assert last.read() == StableLimit(9, 0.05, shrank=False, per_second=40.0)
    assert LastLimit(ledger, "https://another.example").read() is None


@pytest.mark.parametrize(
    "broken",
    ["", "x", "[]", "{}", '{"limit":0,"wire_s":0.1,"shrank":false}', '{"limit":8,"wire_s":-1,"shrank":false}'],
)
def test_a_broken_value_is_as_good_as_none(ledger, broken):
    last = LastLimit(ledger, EXCHANGE)
    ledger.store_value(f"concurrency limit of {EXCHANGE}", broken)
    assert last.read() is None
    last.keep(StableLimit(9, None, shrank=False))
    assert last.read() == StableLimit(9, None, shrank=False)

"""When calls leave: through the limiter, however their connections come about, and never with an old intent."""

import threading
import time
from contextlib import contextmanager

import pytest
import ready_entries
from call_times import busiest
from scripted_exchange import Move, Scripted, accepts, accepts_after, says

from loadsheet.dispatch import Client, classify
from loadsheet.dispatch.batching import build_calls
from loadsheet.dispatch.calls_in_flight import CallsInFlight
from loadsheet.dispatch.rate_limiter import INTENT_VALID_S, RateLimiter, boottime


class Arrivals:
    """Accepts everything, and knows when it came."""

    def __init__(self, move=accepts):
        self.moments, self._move = [], move

    def __call__(self, _number, _request):
        self.moments.append(time.monotonic())
        return self._move


class Heard(RateLimiter):
    """A limiter that knows when calls left. What arrives is seen by another thread, which may have to wait."""

    def __init__(self, per_second):
        super().__init__(per_second, boottime())
        self.left = []

    def try_acquire(self, now):
        leaves = super().try_acquire(now)
        if leaves:
            self.left.append(now)
        return leaves


class Clock:
    """The clock of departures, which jumps when it is told to: as for a process that was stopped."""

    def __init__(self):
        self.jumped = 0.0

    def __call__(self):
        return boottime() + self.jumped


class Slow(Client):
    """Connecting takes its time, and something happens meanwhile."""

    def __init__(self, url, options, meanwhile):
        super().__init__(url, ready_entries.TOKEN, options)
        self._meanwhile = meanwhile

    def connection(self):
        connection = super().connection()
        connect = connection.connect

        def slowly():
            connect()
            self._meanwhile()

        connection.connect = slowly
        return connection


def calls_of(ledger, count):
    ready_entries.orders(ledger, ledger.begin_run(), count)
    return build_calls(ledger.ready(count), 200)


@contextmanager
def under_way(client, options, limiter, clock=boottime):
    def judge(call, reply):
        return classify(call.operation, call.keys, reply, options.assumptions, wait_max_s=60)

    with CallsInFlight(client, judge, lambda _: False, limiter, clock) as made:
        made.set_limit(options.dispatch.connections)
        yield made


def all_of(calls_in_flight, count, seconds=30.0):
    done, until = [], time.monotonic() + seconds
    while len(done) < count:
        assert time.monotonic() < until
        calls_in_flight.wait(1, 0.25)
        done += calls_in_flight.take_finished()
    return done


def test_calls_leave_evenly_at_the_rate(ledger):
    rate, count = 60, 84
    limiter, options = Heard(rate), ready_entries.settings(connections=8)
    calls = calls_of(ledger, count)
    with Scripted(Arrivals()) as server, Client(server.url, ready_entries.TOKEN, options) as client:
        with under_way(client, options, limiter) as calls_in_flight:
            calls_in_flight.submit(calls, 0.0, boottime())
            done = all_of(calls_in_flight, count)
        assert server.connections <= 8
    assert all(one.outcome.status == 200 for one in done)
    assert len(limiter.left) == count
    assert busiest(limiter.left) <= rate * 1.02 + 1
    assert busiest(limiter.left, 0.5) <= rate * 0.52 + 1


def test_calls_whose_connections_were_made_at_the_same_time_leave_one_after_the_other(ledger):
    limiter, options = Heard(25), ready_entries.settings(connections=8)
    calls = calls_of(ledger, 12)
    with (
        Scripted(Arrivals()) as server,
        Slow(server.url, options, lambda: time.sleep(0.3)) as client,
        under_way(client, options, limiter) as calls_in_flight,
    ):
        calls_in_flight.submit(calls, 0.0, boottime())
        all_of(calls_in_flight, 12)
    assert len(limiter.left) == 12
    assert busiest(limiter.left, 0.2) <= 25 * 0.22 + 1


def test_what_is_waited_for_at_the_gate_is_no_time_that_a_call_takes(ledger):
    options = ready_entries.settings(connections=4)
    calls = calls_of(ledger, 6)
    with (
        Scripted(Arrivals()) as server,
        Client(server.url, ready_entries.TOKEN, options) as client,
        under_way(client, options, RateLimiter(4, boottime())) as calls_in_flight,
    ):
        began = boottime()
        calls_in_flight.submit(calls, 0.0, began)
        done = all_of(calls_in_flight, 6)
    assert boottime() - began > 1.2  # so long the last one waited
    # with what they waited for it would be 0.5 s; a machine that stands still holds up one or two
    assert sorted(one.seconds for one in done)[2] < 0.4
    assert sorted(one.outcome.duration_ms for one in done)[2] < 400


@pytest.mark.parametrize("intent_valid_s", [None, 1.0])
def test_a_call_whose_intent_is_old_does_not_leave(ledger, intent_valid_s):
    limit = intent_valid_s or INTENT_VALID_S
    options, clock = ready_entries.settings(connections=1), Clock()
    calls = calls_of(ledger, 5)
    script = Arrivals(accepts_after(0.1))
    with (
        Scripted(script) as server,
        Client(server.url, ready_entries.TOKEN, options) as client,
        under_way(client, options, RateLimiter(0, clock()), clock) as calls_in_flight,
    ):
        calls_in_flight.intent_valid_s = limit
        calls_in_flight.submit(calls, 0.0, clock())
        clock.jumped = limit - 0.5
        first = all_of(calls_in_flight, 1)
        clock.jumped = limit + 0.1
        rest = all_of(calls_in_flight, 4)
    assert [one.recalled for one in first] == [False]
    assert [one.recalled for one in rest].count(True) in (3, 4), "one may have been on its way"
    assert len(script.moments) == 5 - [one.recalled for one in rest].count(True)


def test_a_call_that_grew_old_while_it_connected_does_not_leave(ledger):
    options, clock = ready_entries.settings(connections=2), Clock()
    calls = calls_of(ledger, 2)

    def stops():
        clock.jumped = INTENT_VALID_S + 1

    with Scripted(Arrivals()) as server, Slow(server.url, options, stops) as client:
        with under_way(client, options, RateLimiter(0, clock()), clock) as calls_in_flight:
            calls_in_flight.submit(calls, 0.0, clock())
            done = all_of(calls_in_flight, 2)
            assert all(one.recalled for one in done)
            calls_in_flight.submit(calls, 0.0, clock())
            done = all_of(calls_in_flight, 2)
        assert len(server.requests) == 2
    assert all(one.outcome.status == 200 for one in done), "the connections are as good as new"
    assert server.connections == 2


def test_a_call_that_grew_old_while_another_token_was_asked_for_is_not_made_again(ledger):
    options, clock = ready_entries.settings(connections=1), Clock()
    calls = calls_of(ledger, 1)

    def renew(_refused):
        clock.jumped = INTENT_VALID_S + 1
        return "another-token-9a1"

    with Scripted(says(401, b"{}")) as server:
        with (
            Client(server.url, ready_entries.TOKEN, options, renew=renew) as client,
            under_way(client, options, RateLimiter(0, clock()), clock) as calls_in_flight,
        ):
            calls_in_flight.submit(calls, 0.0, clock())
            (done,) = all_of(calls_in_flight, 1)
        assert len(server.requests) == 1
    assert done.recalled


def test_what_would_be_old_when_the_gate_opens_comes_back_at_once(ledger):
    options = ready_entries.settings(connections=2)
    calls = calls_of(ledger, 4)
    limiter = RateLimiter(0, boottime())
    limiter.delay_s, limiter.try_acquire = lambda _now: 60.0, lambda _now: False
    with Scripted(Arrivals()) as server, Client(server.url, ready_entries.TOKEN, options) as client:
        with under_way(client, options, limiter) as calls_in_flight:
            calls_in_flight.submit(calls, 0.0, boottime())
            assert all(one.recalled for one in all_of(calls_in_flight, 4, 20.0))
        assert server.requests == []


def test_what_waits_at_the_gate_can_be_taken_back_and_does_not_leave_at_the_end(ledger):
    options = ready_entries.settings(connections=2)
    calls = calls_of(ledger, 4)
    for taken_back in (True, False):
        with Scripted(Arrivals()) as server, Client(server.url, ready_entries.TOKEN, options) as client:
            limiter = RateLimiter(1, boottime())
            limiter.try_acquire(boottime())
            with under_way(client, options, limiter) as calls_in_flight:
                calls_in_flight.submit(calls, 0.0, boottime())
                calls_in_flight.wait(1, 0.1)
                assert calls_in_flight.waiting == 4
                if taken_back:
                    assert [one.recalled for one in calls_in_flight.recall_waiting()] == [True] * 4
                    assert calls_in_flight.waiting == 0
        assert server.requests == []


def test_a_connection_that_is_closed_while_its_call_waits_is_replaced(ledger):
    run, drop = ready_entries.new_orders(ledger, 5)

    def closes_soon(connection, request):
        accepts.act(connection, request)
        threading.Event().wait(0.03)
        return False

    options = ready_entries.settings(connections=1, assumptions={"calls_per_second": 3})
    with (
        Scripted(Move(closes_soon, applies=True)) as server,
        ready_entries.client_of(server.url, options) as client,
    ):
        report = ready_entries.send(ledger, client, run, options)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 5
    assert (report.unknown, report.returned) == (0, 0)
    assert server.connections == 5


def test_a_connection_that_lies_idle_too_long_while_its_call_waits_is_not_used(ledger):
    run, drop = ready_entries.new_orders(ledger, 4)
    options = ready_entries.settings(connections=1, idle_connection_s=0.05, assumptions={"calls_per_second": 3})
    with Scripted(accepts) as server, ready_entries.client_of(server.url, options) as client:
        ready_entries.send(ledger, client, run, options)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 4
    assert server.connections == 4

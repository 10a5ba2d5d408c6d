"""When calls leave: through the limiter, however their connections come about, and never with an old intent."""

import threading
import time
from contextlib import contextmanager
from functools import partial

import pytest
import ready_entries
from call_times import busiest
from scripted_exchange import Move, Scripted, accepts, accepts_after, says

from loadsheet.dispatch import Client, classify
from loadsheet.dispatch.batching import build_calls
from loadsheet.dispatch.calls_in_flight import CallsInFlight
from loadsheet.dispatch.rate_limiter import INTENT_VALID_S, RateLimiter, boottime


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
    """A client during whose connecting something happens."""

    def __init__(self, *words, meanwhile):
        super().__init__(*words)
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
def in_flight(limiter, connections, *, script=accepts, clock=boottime, client=Client):
    """A scripted exchange, and calls in flight to it over as many connections."""
    options = ready_entries.settings(connections=connections)

    def judge(call, reply):
        return classify(call.operation, call.keys, reply, options.assumptions, wait_max_s=60)

    with (
        Scripted(script) as server,
        client(server.url, ready_entries.TOKEN, options) as caller,
        CallsInFlight(caller, judge, lambda _: False, limiter, clock) as calls_in_flight,
    ):
        calls_in_flight.set_limit(connections)
        yield server, calls_in_flight


def all_of(calls_in_flight, count, seconds=30.0):
    done, until = [], time.monotonic() + seconds
    while len(done) < count:
        assert time.monotonic() < until
        calls_in_flight.wait(1, 0.25)
        done += calls_in_flight.take_finished()
    return done


def test_calls_leave_evenly_at_the_rate(ledger):
    rate, count = 60, 84
    limiter, calls = Heard(rate), calls_of(ledger, count)
    with in_flight(limiter, 8) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, boottime())
        done = all_of(calls_in_flight, count)
    assert server.connections <= 8
    assert all(one.outcome.status == 200 for one in done)
    assert len(limiter.left) == count
    assert busiest(limiter.left) <= rate * 1.02 + 1
    assert busiest(limiter.left, 0.5) <= rate * 0.52 + 1


def test_calls_whose_connections_were_made_at_the_same_time_leave_one_after_the_other(ledger):
    limiter, calls = Heard(25), calls_of(ledger, 12)
    with in_flight(limiter, 8, client=partial(Slow, meanwhile=lambda: time.sleep(0.3))) as (_, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, boottime())
        all_of(calls_in_flight, 12)
    assert len(limiter.left) == 12
    assert busiest(limiter.left, 0.2) <= 25 * 0.22 + 1


def test_waiting_for_the_rate_limiter_does_not_count_as_duration(ledger):
    calls = calls_of(ledger, 6)
    with in_flight(RateLimiter(4, boottime()), 4) as (_, calls_in_flight):
        began = boottime()
        calls_in_flight.submit(calls, 0.0, began)
        done = all_of(calls_in_flight, 6)
    assert boottime() - began > 1.2  # so long the last one waited
    # with what they waited for it would be 0.5 s; a machine that stands still holds up one or two
    assert sorted(one.seconds for one in done)[2] < 0.4
    assert sorted(one.outcome.duration_ms for one in done)[2] < 400


@pytest.mark.parametrize("intent_valid_s", [INTENT_VALID_S, 1.0])
def test_a_call_whose_intent_is_old_does_not_leave(ledger, intent_valid_s):
    calls, clock = calls_of(ledger, 5), Clock()
    limiter = RateLimiter(0, clock())
    with in_flight(limiter, 1, script=accepts_after(0.1), clock=clock) as (server, calls_in_flight):
        calls_in_flight.intent_valid_s = intent_valid_s
        calls_in_flight.submit(calls, 0.0, clock())
        clock.jumped = intent_valid_s - 0.5
        first = all_of(calls_in_flight, 1)
        clock.jumped = intent_valid_s + 0.1
        rest = all_of(calls_in_flight, 4)
    assert [one.recalled for one in first] == [False]
    assert [one.recalled for one in rest].count(True) in (3, 4), "one may have been on its way"
    assert len(server.requests) == 5 - [one.recalled for one in rest].count(True)


def test_a_call_that_grew_old_while_it_connected_does_not_leave(ledger):
    calls, clock = calls_of(ledger, 2), Clock()

    def stops():
        clock.jumped = INTENT_VALID_S + 1

    limiter, client = RateLimiter(0, clock()), partial(Slow, meanwhile=stops)
    with in_flight(limiter, 2, clock=clock, client=client) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, clock())
        assert all(one.recalled for one in all_of(calls_in_flight, 2))
        calls_in_flight.submit(calls, 0.0, clock())
        done = all_of(calls_in_flight, 2)
    assert all(one.outcome.status == 200 for one in done), "the connections are as good as new"
    assert server.connections == len(server.requests) == 2


def test_a_call_that_grew_old_while_another_token_was_asked_for_is_not_made_again(ledger):
    calls, clock = calls_of(ledger, 1), Clock()

    def renew(_refused):
        clock.jumped = INTENT_VALID_S + 1
        return "another-token-9a1"

    limiter, client = RateLimiter(0, clock()), partial(Client, renew=renew)
    with in_flight(limiter, 1, script=says(401, b"{}"), clock=clock, client=client) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, clock())
        (done,) = all_of(calls_in_flight, 1)
    assert len(server.requests) == 1
    assert done.recalled


def test_a_call_that_would_expire_before_it_may_leave_is_recalled_at_once(ledger):
    calls, limiter = calls_of(ledger, 4), RateLimiter(0, boottime())
    limiter.delay_s, limiter.try_acquire = lambda _now: 60.0, lambda _now: False
    with in_flight(limiter, 2) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, boottime())
        assert all(one.recalled for one in all_of(calls_in_flight, 4, 20.0))
    assert server.requests == []


@pytest.mark.parametrize("taken_back", [True, False])
def test_a_call_that_waits_for_the_rate_can_be_recalled_and_does_not_leave_at_the_end(ledger, taken_back):
    calls, limiter = calls_of(ledger, 4), RateLimiter(1, boottime())
    limiter.try_acquire(boottime())
    with in_flight(limiter, 2) as (server, calls_in_flight):
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

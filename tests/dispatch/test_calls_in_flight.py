"""Many calls under way at once: on which connections they travel, what holds up what, and that none leaves too fast or with an old intent."""

import threading
import time
from contextlib import contextmanager
from functools import partial

import pytest
import ready_entries
from call_times import busiest
from scripted_exchange import Move, Scripted, accepts, accepts_after, accepts_when, answer, says

from loadsheet.dispatch import Client, classify
from loadsheet.dispatch.calls_in_flight import CallsInFlight, build_calls
from loadsheet.dispatch.rate_limiter import INTENT_VALID_S, RateLimiter, boottime


def test_calls_over_tls_too_share_as_many_connections_as_there_may_be(ledger, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    for tls in (None, certificate[1]):
        run = ledger.begin_run()
        payloads = [ready_entries.ledgers.order(run.id * 100 + number) for number in range(50)]
        drop = ready_entries.plan(ledger, run, "order.create", payloads, file=f"{run.name}.csv")
        with Scripted(accepts_after(0.005), tls=tls) as server:
            report = ready_entries.send_all(ledger, run, server.named_url, ready_entries.settings(connections=4))
        assert ready_entries.states(ledger, drop) == ["accepted"] * 50
        assert (report.calls, len(server.requests)) == (50, 50)
        assert 1 < server.connections <= 4


def large_order(ledger, run):
    """An order that is too large to leave in one piece."""
    large = ready_entries.ledgers.order(500, pickup_company="x" * 6_000_000)
    return ready_entries.plan(ledger, run, "order.create", [large], file="large.csv")


def test_a_request_too_large_for_one_piece_is_sent_while_others_are_answered(ledger):
    run = ledger.begin_run()
    large, others, answered = large_order(ledger, run), ready_entries.orders(ledger, run, 20), threading.Event()

    def script(_, request):
        if int(request.headers["content-length"]) > 1_000_000:
            answered.wait(5)  # nobody reads: what was sent fills up the connection
            return accepts_when(lambda _: answered.wait(5))
        return accepts_when(lambda request: request.number > 15 and answered.set())

    ready_entries.send_to(script, ledger, run, connections=2, call_timeout_s=10.0)
    assert answered.is_set()
    assert ready_entries.states(ledger, large, others) == ["accepted"] * 21


def test_a_connection_on_which_an_answer_overtook_its_request_is_not_used_again(ledger):
    run = ledger.begin_run()
    large_order(ledger, run)

    def early(connection, request):
        connection.sendall(answer(413, b"{}"))
        time.sleep(0.2)
        return False

    report, server = ready_entries.send_to(Move(early, reads=False), ledger, run, connections=2)
    assert server.connections == len(server.requests) == 1
    assert report.accepted == report.refused == 0


def closes_soon(connection, request):
    accepts.act(connection, request)
    time.sleep(0.03)
    return False


@pytest.mark.parametrize("act", [closes_soon, accepts.act], ids=["closed meanwhile", "idle for too long"])
def test_a_connection_that_cannot_be_used_any_more_when_its_call_may_be_sent_is_replaced(ledger, act):
    run, drop = ready_entries.new_orders(ledger, 4)
    options = {"idle_connection_s": 0.05} if act is accepts.act else {}
    options |= {"connections": 1, "assumptions": {"calls_per_second": 3}}
    with (
        Scripted(Move(act, applies=True)) as server,
        ready_entries.client_of(server.url, ready_entries.settings(**options)) as client,
    ):
        began = time.monotonic()
        report = ready_entries.send(ledger, client, run, ready_entries.settings(**options))
        assert time.monotonic() - began > 0.9, "the rate is kept"
    assert ready_entries.states(ledger, drop) == ["accepted"] * 4
    assert (report.unknown, report.returned) == (0, 0)
    assert server.connections == 4


# when they leave


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


def all_of(calls_in_flight, count):
    done, until = [], time.monotonic() + 30.0
    while len(done) < count:
        assert time.monotonic() < until
        calls_in_flight.wait(1, 0.25)
        done += calls_in_flight.take_finished()
    return done


def test_calls_are_sent_evenly_at_the_rate(ledger):
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


def test_calls_whose_connections_were_made_at_the_same_time_are_sent_one_after_the_other(ledger):
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
def test_a_call_whose_intent_is_old_is_not_sent(ledger, intent_valid_s):
    calls, clock = calls_of(ledger, 5), ready_entries.JumpingClock()
    with in_flight(RateLimiter(0, clock()), 1, script=accepts_after(0.1), clock=clock) as (server, calls_in_flight):
        calls_in_flight.intent_valid_s = intent_valid_s
        calls_in_flight.submit(calls, 0.0, clock())
        clock.jumped = intent_valid_s - 0.5
        assert [one.recalled for one in all_of(calls_in_flight, 1)] == [False]
        clock.jumped = intent_valid_s + 0.1
        recalled = sum(one.recalled for one in all_of(calls_in_flight, 4))
    assert recalled in (3, 4), "one may have been on its way"
    assert len(server.requests) == 5 - recalled


def test_a_call_that_grew_old_while_it_connected_is_not_sent(ledger):
    calls, clock = calls_of(ledger, 2), ready_entries.JumpingClock()
    client = partial(Slow, meanwhile=lambda: setattr(clock, "jumped", INTENT_VALID_S + 1))
    with in_flight(RateLimiter(0, clock()), 2, clock=clock, client=client) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, clock())
        assert all(one.recalled for one in all_of(calls_in_flight, 2))
        calls_in_flight.submit(calls, 0.0, clock())
        done = all_of(calls_in_flight, 2)
    assert all(one.outcome.status == 200 for one in done), "the connections are as good as new"
    assert server.connections == len(server.requests) == 2


def test_a_call_that_grew_old_while_another_token_was_asked_for_is_not_made_again(ledger):
    calls, clock = calls_of(ledger, 1), ready_entries.JumpingClock()

    def renew(_refused):
        clock.jumped = INTENT_VALID_S + 1
        return "another-token-9a1"

    limiter, client = RateLimiter(0, clock()), partial(Client, renew=renew)
    with in_flight(limiter, 1, script=says(401, b"{}"), clock=clock, client=client) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, clock())
        (done,) = all_of(calls_in_flight, 1)
    assert len(server.requests) == 1
    assert done.recalled


def test_a_call_that_would_expire_before_it_may_be_sent_is_recalled_at_once(ledger):
    calls, limiter = calls_of(ledger, 4), RateLimiter(0, boottime())
    limiter.delay_s, limiter.try_acquire = lambda _now: 60.0, lambda _now: False
    with in_flight(limiter, 2) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, boottime())
        assert all(one.recalled for one in all_of(calls_in_flight, 4))
    assert server.requests == []


@pytest.mark.parametrize("taken_back", [True, False])
def test_a_call_that_waits_for_the_rate_can_be_recalled_and_is_not_sent_at_the_end(ledger, taken_back):
    calls, limiter = calls_of(ledger, 4), RateLimiter(0, boottime())
    limiter.delay_s, limiter.try_acquire = lambda _now: 2.0, lambda _now: False
    with in_flight(limiter, 2) as (server, calls_in_flight):
        calls_in_flight.submit(calls, 0.0, boottime())
        calls_in_flight.wait(1, 0.1)
        assert calls_in_flight.waiting == 4
        if taken_back:
            assert [one.recalled for one in calls_in_flight.recall_waiting()] == [True] * 4
            assert calls_in_flight.waiting == 0
    assert server.requests == []

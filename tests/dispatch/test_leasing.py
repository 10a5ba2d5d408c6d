"""The pace of a fleet in one process: nothing leaves without a lease that holds, and what the exchange says to one holds for all."""

import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest
import ready_entries
from scripted_exchange import CallsAtOnce, Scripted, accepts, until

from loadsheet.dispatch import Outcome, OutcomeKind, SendOptions
from loadsheet.dispatch.circuit_breaker import CircuitBreaker
from loadsheet.dispatch.rate_limiter import boottime
from loadsheet.dispatch.shared_rate import SharedRate
from loadsheet.errors import LedgerError
from loadsheet.ledger.shared.leases import UNLIMITED, Lease, LeaseRequest

BUSY = Outcome(OutcomeKind.NOT_SENT, "busy", 429, wait_s=7.0)
LOST = Outcome(OutcomeKind.UNKNOWN, "no answer")
GOOD = Outcome(OutcomeKind.ACCEPTED, "yes", 200)


class Lessor:
    """Gives what it is told to, and remembers what it was asked."""

    def __init__(self, per_second=100, connections=8, lasts_s=10.0):
        self.per_second, self.connections, self.lasts_s, self.paused_s = per_second, connections, lasts_s, 0.0
        self.asks, self.overloads, self.error = [], [], None

    def renew(self, ask):
        self.asks.append(ask)
        if self.error:
            raise self.error
        rate = min(self.per_second, ask.per_second)
        return Lease(len(self.asks), rate, self.connections, 0.0, self.lasts_s, self.paused_s, 1.0)

    def report_overload(self, age_s, pause_s, reason):
        self.overloads.append((age_s, pause_s, reason))
        self.paused_s = pause_s

    def is_asked_again(self):
        """Wait until it gave what it gives now."""
        asked = len(self.asks)
        until(lambda: len(self.asks) > asked + 1)


def fleet_of(lessor, **more):
    return SharedRate(lessor.renew, lessor.report_overload, renew_s=0.02, **more)


@contextmanager
def one_of(lessor, **more):
    """A fleet and one who sends by its pace, as soon as a call may leave."""
    with fleet_of(lessor, **more) as fleet, fleet.join() as limiter:
        leaves(limiter, more.get("clock", boottime))
        yield fleet, limiter


def leaves(limiter, clock=boottime):
    """Wait until a call may leave, at the latest when the next one is due."""
    return until(lambda: limiter.try_acquire(clock()))


def breaker(limiter, **options):
    return CircuitBreaker(ready_entries.settings(**options), time.monotonic, lambda: 1.0, limiter)


def test_nothing_is_sent_before_there_is_a_lease_and_then_calls_are_sent_at_its_rate():
    lessor = Lessor(per_second=2, connections=100)
    with SharedRate(lessor.renew, lessor.report_overload) as fleet, fleet.join() as limiter:
        assert not limiter.try_acquire(boottime()), "the first one is due an interval after the lease"
        lessor.per_second = 100
        until(lambda: leaves(limiter) and fleet._lease.per_second == 100)
        began = boottime()
        times = [began + step / 10_000 for step in range(5000)]
        assert 45 <= sum(limiter.try_acquire(now) for now in times) <= 55
    assert lessor.asks[0] == LeaseRequest(UNLIMITED, 4, 0, 0)
    assert lessor.asks[1].holding == 1


def test_on_a_lease_that_ran_out_nothing_is_sent():
    lessor, clock = Lessor(per_second=20), ready_entries.JumpingClock()
    with one_of(lessor, clock=clock) as (_, limiter):
        lessor.error = LedgerError("the database cannot be reached")
        lessor.is_asked_again()
        leaves(limiter, clock)  # it still holds
        clock.jumped = 10.1
        assert not limiter.try_acquire(clock())
        assert limiter.capacity(clock()) == 0
        assert limiter.delay_s(clock()) > 0
        lessor.error = None
        leaves(limiter, clock)  # once it can be asked again calls go on


@pytest.mark.parametrize(("takes_s", "holds"), [(9.0, True), (11.0, False)])
def test_a_lease_counts_from_before_it_was_asked_for(takes_s, holds):
    lessor, clock = Lessor(), ready_entries.JumpingClock()

    def slowly(ask):
        clock.jumped += takes_s
        return lessor.renew(ask)

    fleet = SharedRate(slowly, lessor.report_overload, clock=clock)  # never entered: its thread does nothing
    with fleet.join() as limiter:
        fleet._step()
        assert limiter.try_acquire(clock() + 0.2) is holds


def test_an_overload_pauses_at_once_and_is_reported():
    lessor = Lessor()
    with one_of(lessor) as (_, limiter):
        limiter.report_overload(0.3, 7.0, "busy")
        assert not limiter.try_acquire(boottime() + 0.5)
        assert 1 < limiter.delay_s(boottime()) <= 7
        assert (limiter.capacity(boottime()), limiter.capacity_delay_s(boottime()) > 1) == (0, True)
        until(lambda: lessor.overloads)
    ((age_s, pause_s, reason),) = lessor.overloads
    assert 0.3 <= age_s < 6.3
    assert 1 < pause_s <= 7.0
    assert reason == "busy"


@pytest.mark.parametrize(
    ("outcomes", "reported"),
    [
        ([BUSY], [("busy", True)]),
        ([Outcome(OutcomeKind.UNKNOWN, "unavailable", 503)], [("unavailable", False)]),
        ([LOST, LOST], []),
        ([LOST] * 3, [("no answer", False)]),  # a row of lost answers slows all down
        ([LOST, LOST, GOOD, LOST], []),
        ([Outcome(OutcomeKind.NOT_SENT, "no connection")], []),  # that may be our own network
    ],
)
def test_what_means_an_overload_is_reported_to_the_fleet(outcomes, reported):
    lessor = Lessor()
    with one_of(lessor) as (_, limiter):
        pace = breaker(limiter, unknown_max=100)
        for outcome in outcomes:
            pace.note(outcome, time.monotonic())
        lessor.is_asked_again()
    assert [(reason, pause_s > 0) for _, pause_s, reason in lessor.overloads] == reported
    assert BUSY not in outcomes or 1 < lessor.overloads[0][1] <= 7


def test_a_pause_of_others_pauses_us():
    lessor = Lessor()
    with one_of(lessor) as (_, limiter):
        lessor.paused_s = 30.0
        lessor.is_asked_again()
        assert not limiter.try_acquire(boottime() + 1)
        pace = breaker(limiter)
        assert pace.allowed_calls(5, 0) == 0
        assert pace.wait_s() > 25


def test_a_process_with_nothing_to_send_returns_its_lease():
    lessor = Lessor()
    with fleet_of(lessor) as fleet:
        with fleet.join() as limiter:
            leaves(limiter)
        until(lambda: lessor.asks[-1].connections == 0)
        number = len(lessor.asks)
        assert lessor.asks[-1] == LeaseRequest(0, 0, 0, number - 1)
        assert not limiter.try_acquire(boottime())
        time.sleep(0.08)
        assert len(lessor.asks) == number
        with fleet.join() as limiter:
            leaves(limiter)
    assert lessor.asks[-1].connections == 0, "at the end, too"


def test_joining_and_leaving_quickly_keeps_the_lease():
    lessor = Lessor(per_second=1000)
    with SharedRate(lessor.renew, lessor.report_overload) as fleet:
        for _ in range(20):
            with fleet.join() as limiter:
                leaves(limiter)
        assert len(lessor.asks) < 8


def test_what_is_asked_for_is_what_was_used_unless_calls_waited():
    lessor = Lessor(per_second=1000)
    with one_of(lessor) as (_, limiter):
        lessor.is_asked_again()
        lessor.is_asked_again()
        assert lessor.asks[-1].per_second < 100
        lessor.per_second = 1
        assert not all(limiter.try_acquire(boottime()) for _ in range(200))
        until(lambda: lessor.asks[-1].per_second == UNLIMITED)


def test_the_rate_is_asked_for_by_the_time_that_passed_however_short():
    now, lessor = [100.0], Lessor(per_second=UNLIMITED, connections=16)
    fleet = SharedRate(lessor.renew, lessor.report_overload, clock=lambda: now[0])
    with fleet.join() as limiter:
        fleet._step()
        now[0] += 0.0625
        assert all(limiter.try_acquire(now[0]) for _ in range(10))
        fleet._step()
    assert lessor.asks[-1].per_second == 242, "half as much again as 10 in 0.0625 s, and 2"


def test_connections_in_use_are_counted_and_no_call_leaves_beyond_those_leased():
    lessor = Lessor(per_second=1000, connections=3)
    with one_of(lessor) as (_, limiter):
        assert (limiter.connections, breaker(limiter, connections=8, connections_start=8).limit) == (3, 3)
        assert [leaves(limiter) for _ in range(2)] == [True] * 2
        until(lambda: lessor.asks[-1].using == 3)
        assert not limiter.try_acquire(boottime() + 0.5)
        assert limiter.delay_s(boottime()) > 0
        limiter.call_finished()
        leaves(limiter)
        lessor.connections = 0
        until(lambda: limiter.connections == 0)
        assert limiter.capacity(boottime()) == 0
        assert limiter.capacity_delay_s(boottime()) > 0


@pytest.mark.filterwarnings("ignore")
def test_a_fault_of_our_own_comes_out_where_somebody_sends():
    lessor = Lessor()
    with one_of(lessor) as (_, limiter):
        lessor.error = ZeroDivisionError("a fault")
        with pytest.raises(ZeroDivisionError):
            until(lambda: limiter.capacity(boottime()) < 0)


# whole sendings


@contextmanager
def exchange_for(lessor, script, **options):
    """A scripted exchange, and what sends the ready entries of a ledger there by the pace of a fleet."""
    settings = ready_entries.settings(**options)
    with Scripted(script) as server, fleet_of(lessor) as fleet:

        def sends(ledger, run, **more):
            with ready_entries.client_of(server.url, settings) as client:
                return ready_entries.send(ledger, client, run, settings, SendOptions(shared_rate=fleet, **more))

        yield server, sends


def test_sending_keeps_the_shared_rate_and_connections(ledger):
    lessor, busy = Lessor(per_second=60, connections=2), CallsAtOnce(0.01)
    run, drop = ready_entries.new_orders(ledger, 30)
    with exchange_for(lessor, busy, connections=8, connections_start=8) as (server, sends):
        began = time.monotonic()
        report = sends(ledger, run)
        assert time.monotonic() - began > 29 / 60 - 0.03
    assert ready_entries.states(ledger, drop) == ["accepted"] * 30
    assert max(server.connections, busy.most, *(ask.using for ask in lessor.asks)) <= 2
    assert report.connections == 2


def test_a_pause_of_others_takes_back_what_waits_and_nothing_is_lost(ledger):
    lessor, stopping = Lessor(per_second=50), []
    run, drop = ready_entries.new_orders(ledger, 40)

    def script(number, _request):
        if number == 5:
            lessor.paused_s = 60.0
            threading.Timer(0.6, stopping.append, [1]).start()
        return accepts

    with exchange_for(lessor, script, connections=4) as (server, sends):
        report = sends(ledger, run, stopping=stopping)
        states = Counter(ready_entries.states(ledger, drop))
        assert set(states) == {"accepted", "ready"}
        assert states["accepted"] == server.applied.total() == report.accepted == report.calls < 25
    _, again = ready_entries.send_to(accepts, ledger, run)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 40
    assert not server.keys("order.create") & again.keys("order.create")

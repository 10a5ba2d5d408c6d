"""The pace of a fleet in one process: nothing leaves without a lease that holds, and what the exchange says to one holds for all."""

import threading
import time
from collections import Counter

import ledgers
import pytest
import sendings
from scripted import Scripted, accepts, accepts_after, says

from loadsheet.dispatch import Client, Outcome, OutcomeKind
from loadsheet.dispatch.gate import moment
from loadsheet.dispatch.leasing import FleetPace
from loadsheet.dispatch.pace import Pace
from loadsheet.ledger.shared.leases import UNLIMITED, Ask, Lease
from loadsheet.problems import LedgerError

BUSY = Outcome(OutcomeKind.NOT_SENT, "busy", 429, wait_s=7.0)
LOST = Outcome(OutcomeKind.UNKNOWN, "no answer")


class Lessor:
    """Gives what it is told to, and remembers what it was asked."""

    def __init__(self, per_second=100, connections=8, lasts_s=1.5):
        self.per_second, self.connections, self.lasts_s, self.paused_s = per_second, connections, lasts_s, 0.0
        self.asks, self.setbacks, self.error = [], [], None
        self.asked = threading.Event()

    def renew(self, ask):
        self.asks.append(ask)
        self.asked.set()
        if self.error:
            raise self.error
        rate = min(self.per_second, ask.per_second)
        return Lease(len(self.asks), rate, self.connections, 0.0, self.lasts_s, self.paused_s, 1.0)

    def setback(self, age_s, pause_s, reason):
        self.setbacks.append((age_s, pause_s, reason))
        self.paused_s = pause_s

    def wait_for(self, condition):
        until = time.monotonic() + 5
        while not condition():
            assert time.monotonic() < until
            time.sleep(0.002)


class Clock:
    def __init__(self):
        self.jumped = 0.0

    def __call__(self):
        return moment() + self.jumped


def fleet_of(lessor, **more):
    return FleetPace(lessor.renew, lessor.setback, renew_s=0.02, **more)


def opened(gate, clock=moment):
    """Whether a call may leave, at the latest when the next one is due."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        if gate.take(clock()):
            return True
        time.sleep(0.002)
    return False


def test_nothing_leaves_before_there_is_a_lease_and_then_calls_leave_at_its_rate():
    lessor = Lessor(per_second=2)
    with FleetPace(lessor.renew, lessor.setback) as fleet, fleet.join() as gate:
        assert not gate.take(moment()), "the first one is due an interval after the lease"
        lessor.per_second = 100
        lessor.wait_for(lambda: opened(gate) and fleet._lease.per_second == 100)
        began = moment()
        times = [began + step / 10_000 for step in range(5000)]
        assert 45 <= sum(gate.take(now) for now in times) <= 55
    assert lessor.asks[0] == Ask(UNLIMITED, 4, 0, 0)
    assert lessor.asks[1].holding == 1


def test_a_lease_that_ran_out_lets_nothing_leave():
    lessor, clock = Lessor(per_second=20), Clock()
    with fleet_of(lessor, clock=clock) as fleet, fleet.join() as gate:
        assert opened(gate, clock)
        lessor.error = LedgerError("the database cannot be reached")
        asked = len(lessor.asks)
        lessor.wait_for(lambda: len(lessor.asks) > asked + 1)
        assert opened(gate, clock), "it still holds"
        clock.jumped = 1.6
        assert not gate.take(clock())
        assert gate.room(clock()) == 0
        assert gate.opens_in(clock()) > 0
        lessor.error = None
        assert opened(gate, clock), "once it can be asked again calls go on"


@pytest.mark.parametrize(("takes_s", "holds"), [(1.0, True), (2.0, False)])
def test_a_lease_counts_from_before_it_was_asked_for(takes_s, holds):
    lessor, clock = Lessor(), Clock()

    def slowly(ask):
        clock.jumped += takes_s
        return lessor.renew(ask)

    fleet = FleetPace(slowly, lessor.setback, clock=clock)  # never entered: its thread does nothing
    with fleet.join() as gate:
        fleet._attend()
        assert gate.take(clock() + 0.2) is holds


def test_a_protest_pauses_all_here_at_once_and_is_passed_on():
    lessor = Lessor()
    with fleet_of(lessor) as fleet, fleet.join() as one, fleet.join() as other:
        assert opened(other)
        one.protest(0.3, 7.0, "busy")
        assert not other.take(moment() + 0.5)
        assert 6 < other.opens_in(moment()) <= 7
        assert (other.room(moment()), other.room_in(moment()) > 6) == (0, True)
        lessor.wait_for(lambda: lessor.setbacks)
    ((age_s, pause_s, reason),) = lessor.setbacks
    assert 0.3 <= age_s < 1.0
    assert 6 < pause_s <= 7.0
    assert reason == "busy"


def test_a_pause_of_others_pauses_us():
    lessor = Lessor()
    with fleet_of(lessor) as fleet, fleet.join() as gate:
        assert opened(gate)
        lessor.paused_s = 30.0
        asked = len(lessor.asks)
        lessor.wait_for(lambda: len(lessor.asks) > asked + 1)
        assert not gate.take(moment() + 1)
        pace = Pace(sendings.settings(), time.monotonic, lambda: 1.0, gate)
        assert pace.allowed(5, 0) == 0
        assert pace.wait_s() > 25


def test_who_has_nothing_to_send_gives_his_lease_back_and_asks_no_more():
    lessor = Lessor()
    with fleet_of(lessor) as fleet:
        with fleet.join() as gate:
            assert opened(gate)
        lessor.wait_for(lambda: lessor.asks[-1].connections == 0)
        number = len(lessor.asks)
        assert lessor.asks[-1] == Ask(0, 0, 0, number - 1)
        assert not gate.take(moment())
        time.sleep(0.08)
        assert len(lessor.asks) == number
        with fleet.join() as gate:
            assert opened(gate)
    assert lessor.asks[-1].connections == 0, "at the end, too"


def test_who_joins_and_leaves_quickly_keeps_the_lease_in_between():
    lessor = Lessor(per_second=1000)
    with FleetPace(lessor.renew, lessor.setback) as fleet:
        for _ in range(20):
            with fleet.join() as gate:
                assert opened(gate)
        assert len(lessor.asks) < 8


def test_what_is_asked_for_is_what_was_used_unless_calls_waited():
    lessor = Lessor(per_second=1000)
    with fleet_of(lessor) as fleet, fleet.join() as gate:
        assert opened(gate)
        asked = len(lessor.asks)
        lessor.wait_for(lambda: len(lessor.asks) > asked + 2)
        assert lessor.asks[-1].per_second < 100
        lessor.per_second = 1
        assert not all(gate.take(moment()) for _ in range(200))
        lessor.wait_for(lambda: lessor.asks[-1].per_second == UNLIMITED)


def test_connections_are_divided_among_those_who_send():
    lessor = Lessor(connections=5)
    with fleet_of(lessor) as fleet, fleet.join() as one:
        assert opened(one)
        assert one.connections == 5
        with fleet.join() as other:
            assert (one.connections, other.connections) == (3, 2)
            pace = Pace(sendings.settings(connections=8, connections_start=8), time.monotonic, lambda: 1.0, other)
            assert pace.limit == 2
        assert (one.connections, other.connections) == (5, 0)
        lessor.connections = 0
        lessor.wait_for(lambda: one.connections == 0)
        assert one.room(moment()) == 0
        assert one.room_in(moment()) > 0


def test_calls_under_way_are_told():
    lessor = Lessor()
    with fleet_of(lessor) as fleet, fleet.join() as gate:
        assert opened(gate)
        assert opened(gate)
        lessor.wait_for(lambda: lessor.asks[-1].using == 2)
        gate.landed()
        lessor.wait_for(lambda: lessor.asks[-1].using == 1)


@pytest.mark.filterwarnings("ignore")
def test_a_fault_of_our_own_comes_out_where_somebody_sends():
    lessor = Lessor()
    with fleet_of(lessor) as fleet, fleet.join() as gate:
        assert opened(gate)
        lessor.error = ZeroDivisionError("a fault")
        with pytest.raises(ZeroDivisionError):
            lessor.wait_for(lambda: gate.room(moment()) < 0)


def note_all(outcomes, **options):
    lessor = Lessor()
    with fleet_of(lessor) as fleet, fleet.join() as gate:
        pace = Pace(sendings.settings(unknown_max=100, **options), time.monotonic, lambda: 1.0, gate)
        for outcome in outcomes:
            pace.note(outcome, time.monotonic())
        lessor.wait_for(lambda: len(lessor.asks) > 2)
    return lessor.setbacks


def test_what_the_exchange_says_to_one_goes_to_the_fleet():
    ((_, pause_s, reason),) = note_all([BUSY])
    assert 6 < pause_s <= 7
    assert reason == "busy"
    assert len(note_all([Outcome(OutcomeKind.UNKNOWN, "unavailable", 503)])) == 1
    assert note_all([LOST, LOST]) == []
    ((_, pause_s, _),) = note_all([LOST] * 3)
    assert pause_s == 0, "a row of lost answers slows all down"
    assert note_all([Outcome(OutcomeKind.NOT_SENT, "no connection")]) == [], "that may be our own network"
    assert note_all([LOST, LOST, Outcome(OutcomeKind.ACCEPTED, "yes", 200), LOST]) == []


def test_sending_goes_through_the_gate_of_the_fleet(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 30)
    lessor, options = Lessor(per_second=60, connections=2), sendings.settings(connections=8, connections_start=8)
    most = [0]

    def script(_number, _request):
        most[0] = max(most[0], *(ask.using for ask in lessor.asks))
        return accepts_after(0.01)

    with Scripted(script) as server, Client(server.url, sendings.TOKEN, options) as client, fleet_of(lessor) as fleet:
        began = time.monotonic()
        report = sendings.send(ledger, client, run, options, fleet_pace=fleet)
        took = time.monotonic() - began
    assert sendings.states(ledger, drop) == ["accepted"] * 30
    assert took > 29 / 60 - 0.03
    assert server.connections <= 2
    assert (most[0] <= 2, report.connections) == (True, 2)


def test_a_pause_of_others_takes_back_what_waits_and_nothing_is_lost(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 40)
    lessor, options, stopping = Lessor(per_second=50), sendings.settings(connections=4), []

    def script(number, _request):
        if number == 5:
            lessor.paused_s = 60.0
            threading.Timer(0.6, stopping.append, [1]).start()
        return accepts

    with Scripted(script) as server, Client(server.url, sendings.TOKEN, options) as client, fleet_of(lessor) as fleet:
        report = sendings.send(ledger, client, run, options, fleet_pace=fleet, stopping=stopping)
        states = Counter(sendings.states(ledger, drop))
        assert set(states) == {"accepted", "ready"}
        assert states["accepted"] == server.applied.total() == report.accepted < 25
        assert report.calls == report.accepted
    sendings_after = sendings.settings()
    with Scripted(lambda *_: accepts) as again:
        sendings.send_all(ledger, run, again.url, sendings_after)
    assert sendings.states(ledger, drop) == ["accepted"] * 40
    assert not server.keys("order.create") & again.keys("order.create")


def test_a_429_to_one_who_sends_holds_the_other_in_this_process_too(ledger):
    run = ledger.begin_run()
    sendings.orders(ledger, run, 6)
    lessor, options = Lessor(), sendings.settings(connections=1)
    stopping = []

    def script(_number, _request):
        threading.Timer(0.2, stopping.append, [1]).start()
        return says(429, b"", "Retry-After: 9\r\n")

    with Scripted(script) as server, Client(server.url, sendings.TOKEN, options) as client, fleet_of(lessor) as fleet:
        with fleet.join() as other:
            sendings.send(ledger, client, run, options, fleet_pace=fleet, stopping=stopping)
            assert other.opens_in(moment()) > 7
        assert len(server.requests) == 1
    assert len(lessor.setbacks) == 1


def test_two_who_send_in_one_process_share_its_lease(tmp_path):
    lessor, options, moments = Lessor(per_second=60, connections=4), sendings.settings(connections=8), []
    states, began = {}, []
    ready = threading.Barrier(2, lambda: began.append(time.monotonic()))

    def sends(name, url, fleet):
        with ledgers.ledger_in(tmp_path / name) as ledger, Client(url, sendings.TOKEN, options) as client:
            run = ledger.begin_run()
            drop = sendings.orders(ledger, run, 35)
            ready.wait(30)
            sendings.send(ledger, client, run, options, fleet_pace=fleet)
            states[name] = sendings.states(ledger, drop)

    def script(_number, _request):
        moments.append(time.monotonic())
        return accepts_after(0.01)

    with Scripted(script) as server, fleet_of(lessor) as fleet:
        for name in "ab":
            (tmp_path / name).mkdir()
        threads = [threading.Thread(target=sends, args=(name, server.url, fleet)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.connections <= 4
    assert states == {"a": ["accepted"] * 35, "b": ["accepted"] * 35}
    assert sum(moment < began[0] + 1 for moment in moments) <= 63


def test_who_comes_next_begins_with_as_many_calls_as_served_well_before():
    lessor, options = Lessor(connections=50), sendings.settings(connections=50)
    with fleet_of(lessor) as fleet:
        with fleet.join() as gate:
            assert opened(gate)
            pace = Pace(options, time.monotonic, lambda: 1.0, gate)
            for _ in range(40):
                pace.note(Outcome(OutcomeKind.ACCEPTED, "yes", 200), time.monotonic(), 0.05, in_full=True)
            assert (before := pace.limit) > 10
        with fleet.join() as gate:
            assert Pace(options, time.monotonic, lambda: 1.0, gate).limit == before
            with fleet.join() as other:
                assert Pace(options, time.monotonic, lambda: 1.0, other).limit == 2

"""The rule of leases: whatever processes ask for, whenever, and whichever answers are lost, they never have more than there is."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadsheet.ledger.shared.leases import LEAST_SHARE, TERM_S, TURN_S, UNLIMITED, LeaseRequest, RateLimitState, grant

LOTS = 10**6
ALL = LeaseRequest(LOTS, LOTS)


class Process:
    """A process as it is: it goes by the last lease that reached it, while that holds."""

    def __init__(self):
        self.number, self.per_second, self.connections, self.until = 0, 0, 0, 0.0
        self.under_way = 0

    def has(self, now):
        """What it may be using."""
        rate, most = (self.per_second, self.connections) if now < self.until else (0, 0)
        return rate, max(most, self.under_way if now < self.until else 0)


class Fleet:
    def __init__(self, terms):
        self.terms, self.standings, self.processes, self.now = terms, {}, {}, 1000.0

    def ask(self, name, ask=ALL, *, arrives=True):
        process = self.processes.setdefault(name, Process())
        if not ask.connections:
            process.per_second = process.connections = 0
        using = process.under_way if ask.connections else 0
        asked = ask._replace(holding=process.number, using=using)
        given, self.short = grant(self.terms, list(self.standings.values()), name, asked, self.now)
        self.standings[name] = given
        if arrives:
            process.number, process.until = given.number, given.until
            process.per_second, process.connections = given.per_second, given.connections
        return given

    def used(self):
        return [sum(column) for column in zip(*(one.has(self.now) for one in self.processes.values()), strict=True)]

    def all_ask(self, names, seconds, wants=ALL):
        """They ask twice a second, one after the other; yields now and then."""
        until = self.now + seconds
        while self.now < until:
            for name in names:
                self.ask(name, wants[name] if isinstance(wants, dict) else wants)
                self.now += 0.5 / len(names)
            yield


ASKS = (
    st.just(ALL)
    | st.builds(LeaseRequest, st.sampled_from([1, 7, 40, LOTS]), st.sampled_from([1, 3, LOTS]))
    | st.just(LeaseRequest(0, 0))
)
STEPS = st.tuples(st.sampled_from("abc"), ASKS, st.booleans(), st.sampled_from([0, 0.1, 1.0]), st.integers(0, 20))


@settings(max_examples=300)
@given(st.integers(1, 120), st.integers(1, 20), st.lists(STEPS, max_size=60))
def test_what_processes_have_never_adds_up_to_more_than_there_is(rate, connections, steps):
    fleet = Fleet(RateLimitState(rate, connections))
    for name, ask, arrives, passes, flying in steps:
        given_ = fleet.ask(name, ask, arrives=arrives)
        process = fleet.processes[name]
        process.under_way = min(flying, max(process.connections, process.under_way)) if ask.connections else 0
        used, used_connections = fleet.used()
        assert used <= rate
        assert used_connections <= connections
        assert 0 <= given_.per_second <= min(rate, ask.per_second)
        fleet.now += passes
        for one in fleet.processes.values():
            one.under_way *= fleet.now < one.until  # what outlives a lease that was not renewed, nobody can count
        assert fleet.used()[0] <= rate


@given(st.integers(5, 1000), st.integers(5, 300), st.integers(1, 5))
def test_whoever_comes_late_has_his_fair_share_within_two_terms(rate, connections, before):
    fleet = Fleet(RateLimitState(rate, connections))
    early = "abcde"[:before]
    for _ in fleet.all_ask(early, 3):
        pass
    assert sum(fleet.processes[name].per_second for name in early) == rate
    for _ in fleet.all_ask([*early, "late"], 2 * TERM_S - 0.5):
        pass
    number = before + 1
    for process in fleet.processes.values() if number <= min(rate, connections) else ():
        assert process.per_second >= rate // number
        assert process.connections >= connections // number
    assert fleet.used() == [rate, connections]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 200), min_size=1), st.integers(6, 300))
def test_what_others_do_not_want_may_be_taken(wants, rate):
    fleet = Fleet(RateLimitState(rate, 100))
    for _ in fleet.all_ask(sorted(wants), 4, {name: LeaseRequest(want, 1) for name, want in wants.items()}):
        pass
    have = {name: fleet.processes[name].per_second for name in wants}
    assert sum(have.values()) == min(rate, sum(wants.values()))
    short = [name for name in wants if have[name] < wants[name]]
    assert all(have[other] <= have[name] + 1 for name in short for other in wants), (
        "nobody has more than who wants more"
    )


@pytest.mark.parametrize(("rate", "connections"), [(100, 2), (3, 50), (1, 1)])
def test_where_there_is_less_than_one_for_each_they_take_turns_and_nothing_is_wasted(rate, connections):
    fleet, names = Fleet(RateLimitState(rate, connections)), [f"w{number}" for number in range(7)]
    served, used, times = dict.fromkeys(names, 0), 0, 0
    for _ in fleet.all_ask(names, 8 * TURN_S):
        for name in names:
            process = fleet.processes[name]
            served[name] += bool(process.per_second and process.connections)
        used, times = used + min(fleet.used()[0], rate), times + 1
        assert fleet.used()[0] <= rate
        assert fleet.used()[1] <= connections
    assert min(served.values()) > 0
    assert used / times > 0.85 * rate


def test_a_setback_counts_once_for_calls_that_left_together_and_grows_back():
    terms, now = RateLimitState(100, 8), 500.0
    after = terms.after_overload(left_at=499.5, pause_s=2.0, now=now)
    assert (after.available(now), after.paused_until) == ((50, 4), 502.0)
    together = after.after_overload(left_at=499.9, pause_s=5.0, now=now + 0.1)
    assert (together.share, together.paused_until) == (0.5, pytest.approx(505.1))
    assert together.share_at(505.1) == 0.5, "not while it lasts"
    shares = [together.share_at(505.1 + seconds) for seconds in range(20)]
    assert all(later >= share for share, later in pairwise(shares))
    assert shares[-1] == 1.0
    again = together.after_overload(left_at=506.0, pause_s=0.0, now=507.1)
    assert again.share == pytest.approx(0.3)


def test_however_often_it_protests_a_little_is_left():
    terms = RateLimitState(1000, 100)
    for turn in range(100):
        terms = terms.after_overload(turn / 10 + 1000.1, 0.0, turn / 10 + 1000.1)
    assert terms.share == LEAST_SHARE
    assert RateLimitState(1, 1, LEAST_SHARE).available(0.0) == (1, 1)


def test_without_a_limit_there_is_more_than_anybody_uses():
    fleet = Fleet(RateLimitState(0, 8))
    fleet.ask("a")
    assert fleet.processes["a"].per_second == UNLIMITED

"""How many calls may leave now, when the next ones may, and when sending ends: after failures, pauses and lost answers."""

import pytest
import ready_entries

from loadsheet.dispatch import Outcome, OutcomeKind, StopReason
from loadsheet.dispatch.circuit_breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, CircuitBreaker, StableLimit

NOT_SENT = Outcome(OutcomeKind.NOT_SENT, "no connection")
BUSY = Outcome(OutcomeKind.NOT_SENT, "busy", 429)
UNKNOWN = Outcome(OutcomeKind.UNKNOWN, "no answer")
REFUSED = Outcome(OutcomeKind.REFUSED, "no", 400)
GOOD = Outcome(OutcomeKind.ACCEPTED, "created", 200)


@pytest.fixture
def naps():
    return ready_entries.Naps()


def pace_of(naps, **changes):
    return CircuitBreaker(ready_entries.settings(**changes), naps.clock, lambda: 1.0, limiter_clock=naps.clock)


def miss(pace, naps, outcome=NOT_SENT):
    """One call that is started as soon as it may be, and meets nobody."""
    naps.sleep(pace.wait_s())
    assert pace.allowed_calls(1, 0) == 1
    return pace.note(outcome, naps.clock())


def test_it_starts_with_the_limit_of_an_earlier_run(naps):
    pace = pace_of(naps, connections=16)
    pace.resume(StableLimit(9, 0.05, shrank=True))
    assert pace.limit == 9


def test_calls_that_fail_together_count_as_one_miss(naps):
    pace, started = pace_of(naps, unreachable_max=3), naps.clock()
    assert pace.allowed_calls(8, 0) == 8
    assert [pace.note(NOT_SENT, started) for _ in range(8)] == [None] * 8
    assert (pace.allowed_calls(8, 0), pace.wait_s()) == (0, FIRST_PAUSE_S)


def test_pauses_double_and_one_call_at_a_time_feels_the_way(naps):
    pace, pauses = pace_of(naps, unreachable_max=20), []
    for _ in range(10):
        assert miss(pace, naps) is None
        pauses.append(pace.wait_s())
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_PAUSE_S
    naps.sleep(pace.wait_s())
    assert pace.allowed_calls(8, 1) == 0, "one is under way"
    pace.note(GOOD, naps.clock())
    assert pace.allowed_calls(8, 0) == 8
    assert pace.limit <= 2, "but they start with one at a time again"


@pytest.mark.parametrize(("outcome", "stop"), [(NOT_SENT, StopReason.UNREACHABLE), (BUSY, StopReason.BUSY)])
def test_failed_calls_in_a_row_end_the_sending(naps, outcome, stop):
    pace = pace_of(naps, unreachable_max=3)
    assert [miss(pace, naps, outcome) for _ in range(3)] == [None, None, stop]


def test_any_answer_ends_a_row_of_misses_and_a_clear_one_a_row_of_lost_answers(naps):
    pace = pace_of(naps, unreachable_max=2, unknown_max=3)
    for outcome in (GOOD, REFUSED, UNKNOWN):
        assert miss(pace, naps) is None
        assert pace.note(outcome, naps.clock()) is None
    row = [UNKNOWN, GOOD, UNKNOWN, UNKNOWN, UNKNOWN]
    assert [pace.note(outcome, naps.clock()) for outcome in row] == [None] * 4 + [StopReason.UNKNOWN]


def test_a_pause_that_the_exchange_asks_for_is_kept_and_an_hour_of_them_ends_paused(naps):
    pace, busy = pace_of(naps, unreachable_max=3), Outcome(OutcomeKind.NOT_SENT, "busy", 429, wait_s=77)
    miss(pace, naps, busy)
    assert pace.wait_s() == 77
    naps.sleep(76)
    assert pace.allowed_calls(8, 0) == 0
    naps.sleep(1)
    assert pace.allowed_calls(8, 0) == 1
    assert [miss(pace, naps, busy) for _ in range(2)] == [None, StopReason.BUSY]
    assert "paused" in StopReason.BUSY
    naps.sleep(pace.wait_s())
    pace.note(Outcome(OutcomeKind.UNKNOWN, "unavailable", 503, wait_s=9), naps.clock())
    assert (pace.allowed_calls(8, 0), pace.wait_s()) == (0, 9)


def test_a_refused_token_and_what_halts_end_it_at_once(naps):
    pace = pace_of(naps)
    assert pace.note(Outcome(OutcomeKind.NOT_AUTHORISED, "no", 401), naps.clock()) is StopReason.TOKEN_REFUSED
    assert (
        pace.note(Outcome(OutcomeKind.UNKNOWN, "moved", 301, stops_sending=True), naps.clock()) is StopReason.NOT_SERVED
    )


@pytest.mark.parametrize("rate", [1, 7, 50, 1000])
def test_no_more_intents_are_recorded_than_are_sent_within_half_a_second(naps, rate):
    pace = pace_of(naps, assumptions={"calls_per_second": rate})
    at_once = pace.allowed_calls(1000, 0)
    assert rate * 0.5 <= at_once <= rate * 0.52 + 1
    assert pace.allowed_calls(1000, at_once, at_once) == 0, "they wait to leave"
    assert pace.allowed_calls(1000, at_once, at_once - 1) == 1
    for _ in range(at_once):
        naps.sleep(pace.limiter.delay_s(naps.clock()))
        assert pace.limiter.try_acquire(naps.clock())
    naps.sleep(pace.wait_s())
    assert pace.allowed_calls(1000, at_once) >= 1


def test_behind_slow_calls_no_more_intents_wait_than_calls_end_within_half_a_second(naps):
    pace = pace_of(naps, connections=8, connections_start=8)
    pace.note(GOOD, naps.clock(), 0.1)
    assert pace.allowed_calls(100, 0) == 48
    for _ in range(30):
        pace.note(GOOD, naps.clock(), 5.0)
    assert pace.allowed_calls(100, 0) == pace.limit
    assert pace.allowed_calls(100, pace.limit, 0) == 0


def test_without_a_rate_and_after_any_pause_nothing_waits(naps):
    pace = pace_of(naps)
    naps.sleep(100)
    assert (pace.allowed_calls(500, 0), pace.wait_s()) == (500, 0.0)


def test_an_exchange_that_comes_and_goes_is_not_flooded(naps):
    """Thousands wait, the exchange is there for 5 s and away for 5 s: what it meets grows from one call, never beyond the rate."""
    pace = pace_of(naps, connections=64, unreachable_max=1000, assumptions={"calls_per_second": 100})
    starts, first_back, away = [], [], False
    while naps.now < 1060:
        was_away, away = away, int(naps.now / 5) % 2 == 1
        started = sum(pace.limiter.try_acquire(naps.now) for _ in range(pace.allowed_calls(pace.limit, 0)))
        if was_away and not away:
            first_back.append(started)
        starts += [naps.now] * started
        for _ in range(started):
            pace.note(NOT_SENT if away else GOOD, naps.now, 0.05, at_limit=True)
        naps.sleep(max(pace.wait_s(), 0.01))
    for start in starts[::20]:
        assert sum(start <= other < start + 1 for other in starts) <= 100 + 3
    assert max(first_back, default=0) <= 1
    assert len(starts) > 500


@pytest.mark.parametrize("outcome", [BUSY, UNKNOWN, Outcome(OutcomeKind.UNKNOWN, "unavailable", 503)])
def test_a_busy_exchange_halves_the_calls_at_the_same_time(naps, outcome):
    pace = pace_of(naps, connections=32, connections_start=32, unreachable_max=99, unknown_max=99)
    naps.sleep(1)
    started = naps.clock()
    for _ in range(32):
        naps.sleep(0.001)
        pace.note(outcome, started, 0.1)
    assert pace.limit == 16

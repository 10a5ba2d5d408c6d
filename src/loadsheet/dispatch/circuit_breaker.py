"""The circuit breaker: how many calls may be prepared, how long to pause, and when to stop.

Decides everything that concerns the exchange as a whole rather than one entry. Several failed connections in a row, or a busy exchange,
open the circuit: pauses double, single calls test the exchange, and after `dispatch.unreachable_max` of them sending stops. When
the exchange answers again, concurrency restarts at one call, so that it is not flooded. In a cluster, overload reported to one process
makes all pause and slow down. The rate limiter decides when a single call leaves. Time is passed in (monotonic seconds).

`Concurrency` is the limit of concurrent calls: how many may run at the same time without waiting at the exchange. It moves like a TCP window
(RFC 5681; Netflix's concurrency-limits applied it to calls). It starts small and doubles with every round of calls while wire time stays
the same. After that it grows slowly and shrinks in proportion to the growth of wire time. A 429, a 503 or a lost answer halves it; a failed
connection sets it to 1. Only wire time counts (`dispatch.connections`), the only part that the exchange causes. Delays in this process grow
with every concurrent call and with every other program on the machine. A limit based on them would shrink on a busy machine and slow it down
further. A call of unknown wire time is no evidence of growth, so the limit may grow after a round of such calls. `LastLimit` stores the limit
in the ledger, per exchange, as the start of the next run. An unreadable limit is ignored.

`CallLog` logs each answer at debug level, and what changes for all calls: the concurrency limit, pauses, and their end.
"""

import contextlib
import math
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec

from loadsheet import run_log
from loadsheet.dispatch.calls_in_flight import FinishedCall
from loadsheet.dispatch.outcomes import PROXY_LOGIN_REFUSED, Outcome, OutcomeKind
from loadsheet.dispatch.rate_limiter import AHEAD_S, RateLimiter, boottime
from loadsheet.errors import LedgerGone, LedgerUnwritable, Superseded
from loadsheet.ledger import Ledger
from loadsheet.settings import Settings

TOLERANCE = 1.5  # the limit shrinks if wire time exceeds the best one times this
SLACK_S = 0.005  # added to it, for noise and group commits of the exchange
_ALONE = 2  # with this few calls, wire time does not depend on us, so the best is measured again
_SHRINK = 0.5  # a round keeps at least this share of the limit
_QUICK = 4  # a round is judged by its fastest quarter


class StableLimit(msgspec.Struct, frozen=True):
    """The stable limit: concurrent calls, the best wire time in seconds (None: unknown), whether the limit ever shrank, and the documents
    that were finished in a second (0: unknown).
    """

    limit: Annotated[int, msgspec.Meta(ge=1)]
    wire_s: Annotated[float, msgspec.Meta(ge=0)] | None
    shrank: bool
    per_second: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Concurrency:
    """The limit of concurrent calls, from 1 to `most`. Report every call with `finished`, `report_overload` or `no_connection`."""

    def __init__(self, start: int, most: int) -> None:
        self.limit = min(start, most)
        self.stable_limit: StableLimit | None = None  # None: too few calls so far
        self._most = most
        self._best_s = math.inf  # unknown
        self._doubling_to = sys.maxsize  # the limit doubles below this
        self._calls = 0  # in this round
        self._round: list[float] = []  # their known wire times
        self._round_began = 0.0

    def resume(self, stable: StableLimit) -> None:
        """Start from an earlier run's stable limit, if no call has been judged yet. The limit may grow beyond it."""
        if self.stable_limit is None:
            self.limit = min(stable.limit, self._most)
            self._best_s = math.inf if stable.wire_s is None else stable.wire_s
            self._doubling_to = self.limit if stable.shrank else sys.maxsize

    def finished(self, wire_s: float | None, started: float, now: float, *, at_limit: bool) -> None:
        """Report an answered call. `wire_s` is its wire time (None: unknown). The limit grows only if it was reached (`at_limit`)."""
        if started < self._round_began:
            return  # it started under an earlier limit
        self._calls += 1
        if wire_s is not None:
            self._round.append(wire_s)
        if self._calls >= self.limit:
            self._judge(now, at_limit=at_limit)

    def report_overload(self, started: float, now: float) -> None:
        """Report a call to a busy exchange or without an answer. Concurrent calls count once."""
        if started >= self._round_began:
            self._shrink(max(1, self.limit // 2))
            self._begin_round(now)

    def no_connection(self, now: float) -> None:
        """Report a failed connection. The limit restarts at 1 and doubles up to half of its last value."""
        if self.limit > 1:
            self._doubling_to = max(2, self.limit // 2)
        self.limit = 1
        self._begin_round(now)

    def _judge(self, now: float, *, at_limit: bool) -> None:
        wire_s = sorted(self._round)[(len(self._round) - 1) // _QUICK] if self._round else 0.0
        if self._round:
            self._note_best(wire_s)
        tolerated = self._best_s * TOLERANCE + SLACK_S
        if wire_s > tolerated:
            self._shrink(max(1, int(self.limit * max(_SHRINK, tolerated / wire_s))))
        elif at_limit:
            self._grow()
        self._note_stable()
        self._begin_round(now)

    def _note_best(self, wire_s: float) -> None:
        if self.limit <= _ALONE and self._best_s < wire_s:
            self._best_s, self._doubling_to = wire_s, sys.maxsize
        self._best_s = min(wire_s, self._best_s)

    def _grow(self) -> None:
        quick = self.limit < self._doubling_to
        grown = min(self.limit * 2, self._doubling_to) if quick else self.limit + math.isqrt(self.limit)
        self.limit = min(grown, self._most)

    def _shrink(self, limit: int) -> None:
        self.limit = self._doubling_to = limit
        self._note_stable()

    def _note_stable(self) -> None:
        known = None if math.isinf(self._best_s) else self._best_s
        self.stable_limit = StableLimit(self.limit, known, self._doubling_to < sys.maxsize)

    def _begin_round(self, now: float) -> None:
        self._calls = 0
        self._round.clear()
        self._round_began = now


class LastLimit:
    """The stored concurrency limit of one exchange (its base URL)."""

    def __init__(self, ledger: Ledger, exchange: str) -> None:
        self._ledger, self._name = ledger, f"concurrency limit of {exchange}"

    def read(self) -> StableLimit | None:
        """The stored limit; None if there is none or it cannot be used."""
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(self._ledger.queries.stored_value(self._name), type=StableLimit)
        return None

    def keep(self, stable: StableLimit | None, per_second: float = 0.0) -> None:
        """Store the limit and the rate (0: not measured, the last one stays) if they changed. If that fails, the next run needs a few more
        rounds.
        """
        before = self.read()
        if stable is None:
            return
        stable = msgspec.structs.replace(
            stable, per_second=round(per_second, 1) or (before.per_second if before else 0.0)
        )
        if stable == before:
            return
        try:
            self._ledger.store_value(self._name, msgspec.json.encode(stable).decode())
        except (LedgerGone, LedgerUnwritable, Superseded) as error:
            run_log.info("concurrency limit not kept", reason=str(error))


FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
LONG_S = 60.0
"""The shortest pause requested by the exchange that is shown to the user."""
_UNAVAILABLE = 503
_UNKNOWN_IN_A_ROW_MAX = 3  # calls without an answer that count as an overload of the exchange
_LAST_CALL_WEIGHT = 0.2  # the weight of the last call in the average duration


class StopReason(StrEnum):
    """Why sending stopped early. Entries that were not sent stay ready."""

    UNREACHABLE = "the exchange cannot be reached"
    BUSY = "paused, because the exchange is busy"
    TOKEN_REFUSED = "the token was refused"  # noqa: S105 (a reason, no token)
    NOT_SERVED = "the exchange does not serve these calls"
    PROXY_LOGIN_REFUSED = "the proxy refused the user name or password"
    UNKNOWN = "too many outcomes in a row are unknown (dispatch.unknown_max)"
    OUTSTANDING = (
        "no more records are created until some of the unknown outcomes are resolved (dispatch.outstanding_unknown_max)"
    )


class CircuitBreaker:
    """What recent outcomes allow. `jitter` returns 0 to 1 and spreads the pauses of several machines. `clock` is monotonic; `limiter_clock`,
    that of the rate limiter, also counts while the machine sleeps.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        limiter: RateLimiter | None = None,
        limiter_clock: Callable[[], float] = boottime,
    ) -> None:
        self._unreachable_max = settings.dispatch.unreachable_max
        self._unknown_max = settings.dispatch.unknown_max
        self.clock = clock
        self._jitter = jitter
        self._limiter_clock = limiter_clock
        self.limiter = limiter or RateLimiter(settings.assumptions.calls_per_second, limiter_clock())
        self._concurrency = Concurrency(settings.dispatch.connections_start, settings.dispatch.connections)
        self._call_s = 0.0  # the recent duration of calls, with our own delays
        self._failed_in_a_row = 0  # calls in a row without a connection, or to a busy exchange
        self._unknown_in_a_row = 0  # calls in a row without a clear answer
        self._paused_until = clock()

    @property
    def limit(self) -> int:
        """The maximum of concurrent calls now."""
        return min(self._concurrency.limit, self.limiter.connections)

    @property
    def stable_limit(self) -> StableLimit | None:
        """The stable concurrency limit; None: too few calls so far."""
        return self._concurrency.stable_limit

    def resume(self, stable: StableLimit | None) -> None:
        """Start with the limit of an earlier run at this exchange."""
        if stable is not None:
            self._concurrency.resume(stable)

    def allowed_calls(self, wanted: int, in_flight: int, waiting: int = 0) -> int:
        """The number of further calls, out of `wanted`, that may be prepared now. `waiting` of those in flight have not
        left yet. Never more than can leave soon. After a failed call, one call at a time tests the exchange.
        """
        self.limiter.request_connections(self._concurrency.limit)
        if self.clock() < self._paused_until:
            return 0
        if self._failed_in_a_row:
            wanted = min(wanted, 1 - in_flight)
        if self._call_s:
            wanted = min(wanted, int(self.limit * (1 + AHEAD_S / self._call_s)) - in_flight)
        return max(min(wanted, self.limiter.capacity(self._limiter_clock()) - waiting), 0)

    def wait_s(self) -> float:
        """Seconds until a call may be prepared again; 0 if one may now."""
        return max(self._paused_until - self.clock(), self.limiter.capacity_delay_s(self._limiter_clock()), 0.0)

    def note(
        self,
        outcome: Outcome,
        started: float,
        seconds: float = 0.0,
        *,
        wire_s: float | None = None,
        at_limit: bool = False,
    ) -> StopReason | None:
        """Process the outcome of a call. Returns a StopReason if no further call should start.

        `seconds` is the duration with our own delays, `wire_s` without them (None: unknown); `at_limit`: the concurrency limit was reached.
        """
        if outcome.kind is OutcomeKind.NOT_AUTHORISED:
            return StopReason.TOKEN_REFUSED
        if outcome.stops_sending:
            return StopReason.PROXY_LOGIN_REFUSED if outcome.status == PROXY_LOGIN_REFUSED else StopReason.NOT_SERVED
        if outcome.kind is OutcomeKind.NOT_SENT:
            return self._not_sent(outcome, started)
        self._failed_in_a_row = 0
        self._call_s += (seconds - self._call_s) * (_LAST_CALL_WEIGHT if self._call_s else 1)
        if outcome.kind is OutcomeKind.UNKNOWN:
            self._no_answer(outcome, started)
        else:
            self._unknown_in_a_row = 0
            self._concurrency.finished(wire_s, started, self.clock(), at_limit=at_limit)
        return StopReason.UNKNOWN if self._unknown_in_a_row >= self._unknown_max else None

    def _no_answer(self, outcome: Outcome, started: float) -> None:
        now = self.clock()
        self._unknown_in_a_row += 1
        self._concurrency.report_overload(started, now)
        self._paused_until = max(self._paused_until, now + outcome.wait_s)
        if outcome.status == _UNAVAILABLE or self._unknown_in_a_row >= _UNKNOWN_IN_A_ROW_MAX:
            self.limiter.report_overload(now - started, outcome.wait_s, outcome.reason)

    def _not_sent(self, outcome: Outcome, started: float) -> StopReason | None:
        now = self.clock()
        if outcome.status is None:
            self._concurrency.no_connection(now)
        else:
            self._concurrency.report_overload(started, now)
        if started >= self._paused_until or not self._failed_in_a_row:  # concurrent calls count once
            self._failed_in_a_row += 1
            pause = min(FIRST_PAUSE_S * 2 ** (self._failed_in_a_row - 1), LONGEST_PAUSE_S)
            self._paused_until = now + pause * (0.5 + self._jitter() / 2)
        self._paused_until = max(self._paused_until, now + outcome.wait_s)
        if outcome.status is not None:
            self.limiter.report_overload(now - started, self._paused_until - now, outcome.reason)
        if self._failed_in_a_row < self._unreachable_max:
            return None
        return StopReason.UNREACHABLE if outcome.status is None else StopReason.BUSY


class CallLog:
    """Logs the calls of one circuit breaker and remembers what it logged last."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self._breaker = breaker
        self._limit = breaker.limit
        self._paused = False
        self._logs_answers = run_log.wants_calls()
        self._long_until = 0.0  # end of the last pause shown (monotonic seconds)

    def log(self, done: FinishedCall, outcome: Outcome) -> None:
        """Log a finished call; the circuit breaker has already taken in its outcome."""
        if self._logs_answers:
            _log_answer(done, outcome)
        if (limit := self._breaker.limit) != self._limit:
            log = run_log.info if limit < self._limit else run_log.debug
            log("pace changed", connections=limit, before=self._limit)
            self._limit = limit
        if outcome.wait_s >= LONG_S:
            self._show_pause()
        if outcome.log and outcome.kind is OutcomeKind.UNKNOWN:
            run_log.info("a call got no answer", key=done.call.keys[0], reason=outcome.reason, failure=outcome.log)
        not_sent = outcome.kind is OutcomeKind.NOT_SENT
        if not_sent or self._paused:
            self._log_pause(outcome, not_sent=not_sent)

    def close(self) -> None:
        """Log the concurrency limit when sending ends."""
        run_log.figure("pace_connections", self._breaker.limit)

    def _show_pause(self) -> None:
        """Show the user when the pause ends, once per pause."""
        wait_s = self._breaker.wait_s()
        until, before = time.monotonic() + wait_s, self._long_until
        if until >= before + LONG_S:
            self._long_until = until
            when = (datetime.now(UTC) + timedelta(seconds=wait_s)).astimezone()
            run_log.print_notice(f"the exchange asks for a pause until {when:%H:%M}")

    def _log_pause(self, outcome: Outcome, *, not_sent: bool) -> None:
        if not_sent and not self._paused:
            self._paused = True
            pause_s, failure = self._breaker.wait_s(), outcome.log or None
            run_log.warning(
                "calls pause", reason=outcome.reason, status=outcome.status, pause_s=pause_s, failure=failure
            )
        elif not not_sent and outcome.status is not None:
            self._paused = False
            run_log.info("calls go on", status=outcome.status)


def _log_answer(done: FinishedCall, outcome: Outcome) -> None:
    keys = done.call.keys
    attempts = {submission.attempts + 1 for submission in done.call.submissions}
    run_log.call(
        done.call.operation.name,
        done.seconds,
        key=keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more",
        records=len(keys),
        attempt=max(attempts),
        outcome=str(outcome.kind),
        status=outcome.status,
        reason=outcome.reason,
    )

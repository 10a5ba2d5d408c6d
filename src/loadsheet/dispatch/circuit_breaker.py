"""The circuit breaker: how many calls may be prepared, how long to pause, and when to stop.

Decides everything that concerns the exchange as a whole rather than one entry. Several failed connections in a row, or a busy exchange,
open the circuit: pauses double, single calls test the exchange, and after `dispatch.unreachable_max` of them sending stops. When
the exchange answers again, concurrency restarts at one call, so that it is not flooded. In a fleet, overload reported to one process
makes all pause and slow down. The rate limiter decides when a single call leaves. Time is passed in (monotonic seconds).

`CallLog` logs each answer at debug level, and what changes for all calls: the concurrency limit, pauses, and their end.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from loadsheet import run_log
from loadsheet.dispatch.calls_in_flight import FinishedCall
from loadsheet.dispatch.concurrency import Concurrency, SettledLimit
from loadsheet.dispatch.outcomes import PROXY_LOGIN_REFUSED, Outcome, OutcomeKind
from loadsheet.dispatch.rate_limiter import AHEAD_S, RateLimiter, boottime
from loadsheet.settings import Settings

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
    UNKNOWN = "too many outcomes in a row are unknown"
    OUTSTANDING = "no more records are created while this many outcomes are unknown"


class CircuitBreaker:
    """What recent outcomes allow. `jitter` returns 0 to 1 and spreads the pauses of several machines; `departures` is the limiter's clock."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        limiter: RateLimiter | None = None,
        departures: Callable[[], float] = boottime,
    ) -> None:
        self._unreachable_max = settings.dispatch.unreachable_max
        self._unknown_max = settings.dispatch.unknown_max
        self.clock = clock
        self._jitter = jitter
        self._departures = departures
        self.limiter = limiter or RateLimiter(settings.assumptions.calls_per_second, departures())
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
    def settled(self) -> SettledLimit | None:
        """The settled concurrency limit; None: too few calls so far."""
        return self._concurrency.settled

    def resume(self, settled: SettledLimit | None) -> None:
        """Start with the limit of an earlier run at this exchange."""
        if settled is not None:
            self._concurrency.resume(settled)

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
        return max(min(wanted, self.limiter.capacity(self._departures()) - waiting), 0)

    def wait_s(self) -> float:
        """Seconds until a call may be prepared again; 0 if one may now."""
        return max(self._paused_until - self.clock(), self.limiter.capacity_delay_s(self._departures()), 0.0)

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
        if outcome.halts:
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
        self._concurrency.setback(started, now)
        self._paused_until = max(self._paused_until, now + outcome.wait_s)
        if outcome.status == _UNAVAILABLE or self._unknown_in_a_row >= _UNKNOWN_IN_A_ROW_MAX:
            self.limiter.report_overload(now - started, outcome.wait_s, outcome.reason)

    def _not_sent(self, outcome: Outcome, started: float) -> StopReason | None:
        now = self.clock()
        if outcome.status is None:
            self._concurrency.no_connection(now)
        else:
            self._concurrency.setback(started, now)
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

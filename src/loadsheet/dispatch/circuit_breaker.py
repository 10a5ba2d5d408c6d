"""The circuit breaker: how many calls may be prepared, how long to pause, and when to stop.

Decides everything that concerns the exchange as a whole rather than one entry. Several failed connections in a row, or a busy exchange,
open the circuit: pauses double, single calls test the exchange, and after `dispatch.unreachable_max` of them sending stops. When
the exchange answers again, concurrency restarts at one call, so that it is not flooded. In a fleet, overload reported to one process
makes all pause and slow down. The rate limiter decides when a single call leaves. Time is passed in (monotonic seconds).
"""

from collections.abc import Callable
from enum import StrEnum

from loadsheet.dispatch.concurrency import Concurrency, SettledLimit
from loadsheet.dispatch.outcomes import PROXY_LOGIN_REFUSED, Outcome, OutcomeKind
from loadsheet.dispatch.rate_limiter import AHEAD_S, RateLimiter, boottime
from loadsheet.settings import Settings

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
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
        self._clock = clock
        self._jitter = jitter
        self._departures = departures
        self.limiter = limiter or RateLimiter(settings.assumptions.calls_per_second, departures())
        most = settings.dispatch.connections
        self._concurrency = self.limiter.concurrency(lambda: Concurrency(settings.dispatch.connections_start, most))
        self._concurrency.allow(most)
        self._call_s = 0.0  # the recent duration of calls, with our own delays
        self._failed_in_a_row = 0  # calls in a row without a connection, or to a busy exchange
        self._unknown_in_a_row = 0  # calls in a row without a clear answer
        self._paused_until = clock()

    @property
    def limit(self) -> int:
        """The maximum of concurrent calls now."""
        return min(self.limiter.share(self._concurrency.limit), self.limiter.connections)

    @property
    def settled(self) -> SettledLimit | None:
        """The settled concurrency limit; None: too few calls so far."""
        return self._concurrency.settled

    def resume(self, settled: SettledLimit | None) -> None:
        """Start with the limit of an earlier run at this exchange, unless this process has a newer one."""
        if settled is not None:
            self._concurrency.resume(settled)

    def allowed_calls(self, wanted: int, in_flight: int, waiting: int = 0) -> int:
        """The number of further calls, out of `wanted`, that may be prepared now. `waiting` of those in flight have not
        left yet. Never more than can leave soon. After a failed call, one call at a time tests the exchange.
        """
        self.limiter.request_connections(self.limiter.share(self._concurrency.limit))
        if self._clock() < self._paused_until:
            return 0
        if self._failed_in_a_row:
            wanted = min(wanted, 1 - in_flight)
        if self._call_s:
            wanted = min(wanted, int(self.limit * (1 + AHEAD_S / self._call_s)) - in_flight)
        return max(min(wanted, self.limiter.capacity(self._departures()) - waiting), 0)

    def wait_s(self) -> float:
        """Seconds until a call may be prepared again; 0 if one may now."""
        return max(self._paused_until - self._clock(), self.limiter.capacity_delay_s(self._departures()), 0.0)

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
            self._concurrency.finished(wire_s, started, self._clock(), at_limit=at_limit)
        return StopReason.UNKNOWN if self._unknown_in_a_row >= self._unknown_max else None

    def _no_answer(self, outcome: Outcome, started: float) -> None:
        now = self._clock()
        self._unknown_in_a_row += 1
        self._concurrency.setback(started, now)
        self._paused_until = max(self._paused_until, now + outcome.wait_s)
        if outcome.status == _UNAVAILABLE or self._unknown_in_a_row >= _UNKNOWN_IN_A_ROW_MAX:
            self.limiter.report_overload(now - started, outcome.wait_s, outcome.reason)

    def _not_sent(self, outcome: Outcome, started: float) -> StopReason | None:
        now = self._clock()
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

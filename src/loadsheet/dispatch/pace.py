"""How fast calls may follow each other, and when to stop: the rate limit, how many at the same time, pauses after calls that met
nobody, and counts in a row.

Owns: every decision that is about the exchange as a whole and not about one entry. A row of calls that meet nobody, or an exchange
that is busy, opens the circuit: pauses that double, one call at a time to feel the way, and after `unreachable_max` of them the
end. Once somebody answers, calls start with one at a time again, so that an exchange that comes back meets no storm. Time is
passed in (monotonic seconds).
"""

from collections.abc import Callable
from enum import StrEnum

from loadsheet.dispatch.concurrency import Concurrency
from loadsheet.dispatch.outcomes import Outcome, OutcomeKind
from loadsheet.settings import Settings

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_BURST_S = 0.1  # so much of a second's calls may leave at once


class Stop(StrEnum):
    """Why sending ended before everything was sent. What was not sent is still ready."""

    UNREACHABLE = "the exchange cannot be reached"
    BUSY = "paused, because the exchange is busy"
    TOKEN_REFUSED = "the token was refused"  # noqa: S105 (a reason, no token)
    NOT_SERVED = "the exchange does not serve these calls"
    UNKNOWN = "too many outcomes in a row are unknown"
    OUTSTANDING = "nothing more is created while so many outcomes are unknown"


class Pace:
    """What recent outcomes allow. `jitter` returns 0 to 1 and spreads the pauses of several machines."""

    def __init__(self, settings: Settings, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        self._unreachable_max = settings.unreachable_max
        self._unknown_max = settings.unknown_max
        self._clock = clock
        self._jitter = jitter
        self._bucket = _Bucket(settings.assumptions.calls_per_second, clock())
        self._concurrency = Concurrency(settings.connections_start, settings.connections)
        self._missed = 0  # calls in a row that met nobody, or a busy exchange
        self._unknown = 0  # calls in a row without a clear answer
        self._paused_until = clock()

    @property
    def limit(self) -> int:
        """How many calls may be under way at the same time now."""
        return self._concurrency.limit

    def allowed(self, wanted: int, in_flight: int) -> int:
        """How many of `wanted` further calls may start now. After a miss one call at a time feels the way."""
        now = self._clock()
        if now < self._paused_until:
            return 0
        if self._missed:
            wanted = min(wanted, 1 - in_flight)
        return self._bucket.take(max(wanted, 0), now)

    def give_back(self, calls: int) -> None:
        """So many of the calls that were allowed did not start after all."""
        self._bucket.give_back(calls)

    def wait_s(self) -> float:
        """Seconds until a call may start again; 0 if one may now."""
        now = self._clock()
        return max(self._paused_until - now, self._bucket.wait_s(now), 0.0)

    def note(self, outcome: Outcome, started: float, seconds: float = 0.0, *, in_full: bool = False) -> Stop | None:
        """Take in the outcome of a call that started then and took so long; a Stop if no further call should start.

        `in_full` says that as many calls were under way as may be.
        """
        if outcome.kind is OutcomeKind.NOT_AUTHORISED:
            return Stop.TOKEN_REFUSED
        if outcome.halts:
            return Stop.NOT_SERVED
        if outcome.kind is OutcomeKind.NOT_SENT:
            return self._miss(outcome, started)
        self._missed = 0
        if outcome.kind is OutcomeKind.UNKNOWN:
            self._unknown += 1
            self._concurrency.setback(started, self._clock())
        else:
            self._unknown = 0
            self._concurrency.finished(seconds, started, self._clock(), in_full=in_full)
        return Stop.UNKNOWN if self._unknown >= self._unknown_max else None

    def _miss(self, outcome: Outcome, started: float) -> Stop | None:
        now = self._clock()
        if outcome.status is None:
            self._concurrency.met_nobody(now)
        else:
            self._concurrency.setback(started, now)
        if started >= self._paused_until or not self._missed:  # calls that left together count once
            self._missed += 1
            pause = min(FIRST_PAUSE_S * 2 ** (self._missed - 1), LONGEST_PAUSE_S)
            self._paused_until = now + pause * (0.5 + self._jitter() / 2)
        self._paused_until = max(self._paused_until, now + outcome.wait_s)
        if self._missed < self._unreachable_max:
            return None
        return Stop.UNREACHABLE if outcome.status is None else Stop.BUSY


class _Bucket:
    """A token bucket; a rate of 0 is no limit."""

    def __init__(self, per_second: int, now: float) -> None:
        self._rate = per_second
        self._most = max(1.0, per_second * _BURST_S)
        self._tokens = self._most
        self._filled_at = now

    def take(self, wanted: int, now: float) -> int:
        if not self._rate:
            return wanted
        self._tokens = min(self._most, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        taken = min(wanted, int(self._tokens))
        self._tokens -= taken
        return taken

    def give_back(self, unused: int) -> None:
        self._tokens = min(self._most, self._tokens + unused)

    def wait_s(self, now: float) -> float:
        if not self._rate:
            return 0.0
        missing = 1.0 - self._tokens - (now - self._filled_at) * self._rate
        return max(missing / self._rate, 0.0)

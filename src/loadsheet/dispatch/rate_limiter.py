"""The limiter: whether a call may leave at this very moment. Each one is asked about right before its first byte goes.

Owns: that calls leave evenly at the rate (GCRA: each has its due moment, an interval behind the one before), and the clock of departures,
which also counts while the machine sleeps. The rate is kept here and nowhere else, alone and in a fleet: a fleet's limiter is a `RateLimiter`
whose rate is leased (`leasing`). Takes no lock, and asks the system nothing.
"""

import sys
import time
from collections.abc import Callable

from loadsheet.dispatch.concurrency import Concurrency

INTENT_VALID_S = 5.0
"""A call whose intent was recorded so long ago does not leave: somebody else may have taken it over by now."""
AHEAD_S = 0.5
"""Intents are recorded for calls that can leave within this time."""

_TOLERANCE_S = 0.02  # a call that leaves late may be caught up with if it was no later than this
_EVEN_BELOW = 20  # calls a second; with fewer, catching up would add a twentieth or more to some seconds, so none is


def boottime() -> float:
    """The clock of departures: seconds that never jump and go on while the machine sleeps, where the system counts them."""
    return time.clock_gettime(_BOOTTIME) if _BOOTTIME is not None else time.monotonic()


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class RateLimiter:
    """Lets `per_second` calls leave in any second, whole calls a second with 2 % and one call of tolerance from 20 on; 0: no limit."""

    def __init__(self, per_second: int, now: float) -> None:
        self._due = now  # of the next call
        self._set_interval(per_second)

    def _set_interval(self, per_second: int) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._slack = _TOLERANCE_S if per_second >= _EVEN_BELOW else 0.0

    def set_rate(self, per_second: int, now: float, *, from_scratch: bool) -> None:
        """Another rate from now on; what left ahead of its time is made up for at that one. `from_scratch`: there was none before, so the first
        call leaves an interval from now, as if one just had.
        """
        ahead = max(0.0, self._due - now) / self._interval if self._interval and not from_scratch else 1.0
        self._set_interval(per_second)
        self._due = now + ahead * self._interval

    def try_acquire(self, now: float) -> bool:
        """Whether a call may leave now; then it has to."""
        if now < self._due - self._slack:
            return False
        self._due = max(self._due, now) + self._interval
        return True

    def call_finished(self) -> None:
        """A call that left is over."""

    def delay_s(self, now: float) -> float:
        """Seconds until a call may leave; 0: one may now."""
        return max(0.0, self._due - self._slack - now)

    def capacity(self, now: float) -> int:
        """How many calls can leave soon, at most: so many intents may be waiting."""
        if not self._interval:
            return sys.maxsize
        spare = now + AHEAD_S + self._slack - max(self._due, now)
        return int(spare / self._interval) + 1 if spare >= 0 else 0

    def capacity_delay_s(self, now: float) -> float:
        """Seconds until there may be capacity; 0: there is, as far as the rate goes."""
        return max(0.0, self._due - self._slack - AHEAD_S - now)

    def concurrency(self, make: Callable[[], Concurrency]) -> Concurrency:
        """The concurrency limit of this process at this exchange; it is made if there is none yet."""
        return make()

    # what only a fleet has

    def share(self, limit: int) -> int:
        """How many of so many calls, which this process may have under way, whoever sends here may have."""
        return limit

    @property
    def connections(self) -> int:
        """How many calls may be under way at the same time."""
        return sys.maxsize

    def request_connections(self, connections: int) -> None:
        """So many calls could be under way at the same time, if they may."""

    def report_overload(self, age_s: float, pause_s: float, reason: str) -> None:
        """The exchange protested against a call that left `age_s` ago: all who send should wait so long, and then send less."""

"""The rate limiter: whether a call may leave now. Asked right before the first byte of each call.

Calls leave evenly at the rate (GCRA: each has a due time, one interval after the previous one). `shared_rate` is the leased rate of a
cluster. `boottime` is the clock of the limiter: it also counts while the machine sleeps.
"""

import sys
import time

INTENT_VALID_S = 5.0
"""The maximum age of a call's intent: after that, another process may have taken the entry over."""
AHEAD_S = 0.5
"""Intents are recorded only for calls that can leave within this time."""

_TOLERANCE_S = 0.02  # calls that are late by up to this are caught up
_EVEN_BELOW = 20  # calls per second; below this, catching up would add 5 % or more to some seconds


def boottime() -> float:
    """Monotonic seconds that, where the system supports it, include the time while the machine sleeps."""
    return time.clock_gettime(_BOOTTIME) if _BOOTTIME is not None else time.monotonic()


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class RateLimiter:
    """Limits calls to `per_second` in any second; from 20 on, with a tolerance of 2 % and one call. 0: no limit. Takes no lock."""

    def __init__(self, per_second: int, now: float) -> None:
        self._due = now  # of the next call
        self._set_interval(per_second)

    def _set_interval(self, per_second: int) -> None:
        self._interval = 1 / per_second if per_second else 0.0
        self._slack = _TOLERANCE_S if per_second >= _EVEN_BELOW else 0.0

    def set_rate(self, per_second: int, now: float, *, from_scratch: bool) -> None:
        """Change the rate; calls that left early are compensated at the new rate. `from_scratch`: there was no rate before,
        so the first call leaves one interval from now.
        """
        ahead = max(0.0, self._due - now) / self._interval if self._interval and not from_scratch else 1.0
        self._set_interval(per_second)
        self._due = now + ahead * self._interval

    def try_acquire(self, now: float) -> bool:
        """Whether a call may leave now. If so, it must leave."""
        if now < self._due - self._slack:
            return False
        self._due = max(self._due, now) + self._interval
        return True

    def call_finished(self) -> None:
        """Note that a call has finished."""

    def delay_s(self, now: float) -> float:
        """Seconds until a call may leave; 0: one may now."""
        return max(0.0, self._due - self._slack - now)

    def capacity(self, now: float) -> int:
        """The number of calls that can leave soon, and so of intents that may wait."""
        if not self._interval:
            return sys.maxsize
        spare = now + AHEAD_S + self._slack - max(self._due, now)
        return int(spare / self._interval) + 1 if spare >= 0 else 0

    def capacity_delay_s(self, now: float) -> float:
        """Seconds until there may be capacity; 0: the rate allows a call."""
        return max(0.0, self._due - self._slack - AHEAD_S - now)

    # of a cluster only

    @property
    def connections(self) -> int:
        """The maximum of concurrent calls."""
        return sys.maxsize

    def request_connections(self, connections: int) -> None:
        """Ask for this number of concurrent calls."""

    def report_overload(self, age_s: float, pause_s: float, reason: str) -> None:
        """Report that a call that left `age_s` ago met an overloaded exchange: all senders pause for `pause_s`, then slow down."""

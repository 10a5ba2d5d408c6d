"""Forecasts whether the remaining entries are sent in time, from the recent rate. Pure.

Time is passed in: monotonic seconds for the rate, an aware datetime for the time of day.
"""

from collections import deque
from dataclasses import dataclass
from datetime import datetime, time, timedelta

RECENT_S = 60.0  # the time span for the rate


@dataclass(frozen=True, slots=True)
class Forecast:
    """The number of entries left, the recent rate, and when the rest will be sent at that rate (None: unknown, because
    nothing was sent recently). `finish_by` is the deadline from `dispatch.finish_by`; None: not set.
    """

    remaining: int
    per_second: float
    ends_at: datetime | None
    finish_by: datetime | None = None

    @property
    def fits(self) -> bool:
        """Whether the rest will be sent by `dispatch.finish_by`."""
        if not self.remaining or self.finish_by is None:
            return True
        return self.ends_at is not None and self.ends_at <= self.finish_by

    def __str__(self) -> str:
        rate = f"{self.per_second:,.0f} a second" if self.per_second >= 1 else f"{self.per_second * 3600:,.0f} an hour"
        if not self.remaining:
            return f"all sent, {rate}"
        if self.ends_at is None:
            return f"{_documents(self.remaining)} left; none was finished recently, so the remaining time is unknown"
        text = f"{_documents(self.remaining)} left at {rate}: done at {self.ends_at.astimezone():%a %H:%M}"
        if self.finish_by is None:
            return text
        return f"{text}, {'in time for' if self.fits else 'too late for'} {self.finish_by.astimezone():%H:%M} (dispatch.finish_by)"


def _documents(count: int) -> str:
    return f"{count:,} document{'' if count == 1 else 's'}"


class Rate:
    """The rate of finished entries."""

    def __init__(self, now: float) -> None:
        self._seen = deque([(now, 0)])

    def note(self, done: int, now: float) -> None:
        """Add a measurement: the number of finished entries."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RECENT_S:
            self._seen.popleft()

    def per_second(self, now: float) -> float:
        """Recent entries per second."""
        began, before = self._seen[0]
        return (self._seen[-1][1] - before) / (now - began) if now > began else 0.0


def forecast(remaining: int, per_second: float, now: datetime, finish_by: datetime | None) -> Forecast:
    """The forecast for the `remaining` entries at `now`."""
    ends_at = None
    if not remaining:
        ends_at = now
    elif per_second:
        seconds = min(remaining / per_second, timedelta(days=3650).total_seconds())
        ends_at = now + timedelta(seconds=seconds)
    return Forecast(remaining, per_second, ends_at, finish_by)


def due(setting: str, now: datetime) -> datetime | None:
    """The next time at which the local time of day is `setting` (HH:MM); None if it is empty."""
    if not setting:
        return None
    local = now.astimezone()
    moment = datetime.combine(local.date(), time.fromisoformat(setting)).astimezone()
    if moment <= local:
        moment = datetime.combine(local.date() + timedelta(days=1), time.fromisoformat(setting)).astimezone()
    return moment

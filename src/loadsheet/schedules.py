"""Schedules: at which moments runs are due by a cron expression in a time zone. Pure.

Owns: what an expression may say, and what its local times mean where clocks are changed. A time of an expression that names hours happens
once: one that clocks skip, at the first moment after the gap; one that they show twice, the first time. An expression for every hour
(`*/15 * * * *`) goes by what clocks show: what they show twice happens twice, and what they skip does not happen.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from cronsim import CronSim

EXAMPLE = "30 21 * * Mon-Fri"
PUNCTUAL = timedelta(minutes=5)
"""So late a moment still counts as observed: schedules are looked at once a minute."""

_FIELDS = ("minute", "hour", "day", "month", "weekday")
_HOURS = 24
_SECOND = timedelta(seconds=1)
_SOME_DAY = datetime(2024, 1, 1)  # noqa: DTZ001 (a local time: the zone comes later)


class Due(NamedTuple):
    """A run that is due: since which moment (aware, UTC), and how many moments before it were missed, for which it stands as well."""

    moment: datetime
    caught_up: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression of five fields, and the IANA time zone by whose clocks it goes. Both as `read` gives them."""

    expression: str
    zone: str = "UTC"

    @property
    def name(self) -> str:
        """Expression and zone: another zone makes it another schedule, which has missed nothing yet."""
        return f"{self.expression} {self.zone}"

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The moments after this one (aware; in UTC), the earliest first; without end, unless the expression has one."""
        last, again = moment.astimezone(UTC), list[datetime]()
        for readings in self._readings_after(last):
            while again and again[0] < readings[0]:
                yield again.pop(0)
            if readings[0] > last:
                yield (last := readings[0])
            again += [one for one in readings[1:] if one > last]
        yield from again

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The moments after the one and up to the other (aware; in UTC), the earliest first."""
        return takewhile(lambda moment: moment <= until, self.after(after))

    def next_after(self, moment: datetime) -> datetime | None:
        """The first moment after this one (aware; in UTC); None if there will be none."""
        return next(self.after(moment), None)

    def due(self, done: datetime, now: datetime, *, catch_up: timedelta, awake: datetime | None = None) -> Due | None:
        """What is due by `now` if all was done up to `done` (all aware). One run stands for all moments that were missed, as far as they
        are not older than `catch_up`, or came while the caller was `awake` and only busy (since when; None: it never is).
        """
        horizon = now - max(catch_up, PUNCTUAL)
        if awake is not None:
            horizon = min(horizon, awake)
        *missed, last = (None, *self.between(max(done, horizon), now))
        return None if last is None else Due(last, len(missed) - 1)

    def _readings_after(self, moment: datetime) -> Iterator[list[datetime]]:
        """The moments at which clocks show each time of the expression, from soon before this moment on; each at least one."""
        zone = ZoneInfo(self.zone)
        here = moment.astimezone(zone)
        shown = here.replace(tzinfo=None)
        readings = _readings(shown, zone)
        if here.fold == 0 and len(readings) > 1:  # what was shown before will be shown again
            shown -= readings[1] - readings[0] + _SECOND
        times = _times(self.expression, shown)
        every_hour = len(times.hours) == _HOURS
        for time in times:
            found = _readings(time, zone)
            if every_hour:
                if found:
                    yield found
            else:
                yield found[:1] or [_after_gap(time, zone)]


def read(expression: str) -> str:
    """A cron expression, in the spelling in which it is kept. Raises ValueError that says what is wrong with it."""
    fields = expression.split()
    hint = f"write {', '.join(_FIELDS[:-1])} and {_FIELDS[-1]}, such as {EXAMPLE!r}"
    if len(fields) != len(_FIELDS):
        count = f"{len(fields)} field{'s' if len(fields) != 1 else ''}"
        raise ValueError(f"{expression!r} is not a schedule (it has {count}, not {len(_FIELDS)}); {hint}")
    text = " ".join(fields)
    from cronsim import CronSimError

    try:
        first = next(_times(text, _SOME_DAY), None)
    except (CronSimError, AssertionError, ValueError) as error:
        what = f" ({str(error).lower()})" if isinstance(error, CronSimError) else ""
        raise ValueError(f"{expression!r} is not a schedule{what}; {hint}") from None
    if first is None:
        raise ValueError(f"{expression!r} is a schedule of no day at all; {hint}")
    return text


def _times(expression: str, after: datetime) -> "CronSim":
    """The local times of an expression, of which no zone knows yet whether they exist."""
    from cronsim import CronSim

    return CronSim(expression, after)


def _readings(shown: datetime, zone: ZoneInfo) -> list[datetime]:
    """The moments (UTC) at which clocks of a zone show a time: one, none or two."""
    found = {shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(moment for moment in found if _shown(moment, zone) == shown)


def _after_gap(skipped: datetime, zone: ZoneInfo) -> datetime:
    """The first moment (UTC) after the gap in which a local time lies."""
    before, after = (skipped.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    seconds = range(int((after - before).total_seconds()) + 1)
    return before + _SECOND * bisect_left(seconds, x=True, key=lambda n: _shown(before + _SECOND * n, zone) > skipped)


def _shown(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)

"""Schedules: when runs are due, by a cron expression in a time zone; and when a failed step is tried again (`Backoff`). Pure.

Owns: which expressions are valid, and what their local times mean at clock changes. If an expression names hours, each of its times happens
once: a skipped time at the first moment after the gap, a repeated time at its first occurrence. An expression for every hour
(`*/15 * * * *`) follows the clock: repeated times happen twice, skipped times do not happen.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from loadsheet.display_text import count_of

if TYPE_CHECKING:
    from cronsim import CronSim


EXAMPLE = "30 21 * * Mon-Fri"
PUNCTUAL = timedelta(minutes=5)
"""Up to this late, a due time counts as on time: schedules are checked once a minute."""

_FIELDS = ("minute", "hour", "day", "month", "weekday")
_HOURS = 24
_SECOND = timedelta(seconds=1)
_SOME_DAY = datetime(2024, 1, 1)  # noqa: DTZ001 (a local time; its zone is added later)


class Due(NamedTuple):
    """A run that is due: its due time (aware, UTC), and how many missed due times before it are caught up by it."""

    moment: datetime
    caught_up: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """A cron expression of five fields, as `read` returns it, and its IANA time zone."""

    expression: str
    zone: str = "UTC"

    @property
    def name(self) -> str:
        """Expression and zone. With another zone it is another schedule, without missed runs."""
        return f"{self.expression} {self.zone}"

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The due times after `moment` (aware; in UTC), the earliest first. Endless, unless the expression ends."""
        last, again = moment.astimezone(UTC), list[datetime]()
        for readings in self._readings_after(last):
            while again and again[0] < readings[0]:
                yield again.pop(0)
            if readings[0] > last:
                yield (last := readings[0])
            again += [reading for reading in readings[1:] if reading > last]
        yield from again

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The due times after `after` and up to `until` (aware; in UTC), the earliest first."""
        return takewhile(lambda moment: moment <= until, self.after(after))

    def next_after(self, moment: datetime) -> datetime | None:
        """The first due time after `moment` (aware; in UTC); None if there is none."""
        return next(self.after(moment), None)

    def due(self, done: datetime, now: datetime, *, catch_up: timedelta, awake: datetime | None = None) -> Due | None:
        """The run that is due at `now` if everything up to `done` was done (all aware). One run catches up all missed due times that are not
        older than `catch_up`, or that came since `awake`, while the caller was only busy (None: it was not running).
        """
        horizon = now - max(catch_up, PUNCTUAL)
        if awake is not None:
            horizon = min(horizon, awake)
        *missed, last = (None, *self.between(max(done, horizon), now))
        return None if last is None else Due(last, len(missed) - 1)

    def _readings_after(self, moment: datetime) -> Iterator[list[datetime]]:
        """For each local time of the expression, from shortly before `moment`: its instants in UTC, at least one."""
        zone = ZoneInfo(self.zone)
        here = moment.astimezone(zone)
        shown = here.replace(tzinfo=None)
        readings = _readings(shown, zone)
        if here.fold == 0 and len(readings) > 1:  # this local time comes again
            shown -= readings[1] - readings[0] + _SECOND
        times = _times(self.expression, shown)
        every_hour = len(times.hours) == _HOURS
        for time in times:
            instants = _readings(time, zone)
            if every_hour:
                if instants:
                    yield instants
            else:
                yield instants[:1] or [_after_gap(time, zone)]


def read(expression: str) -> str:
    """The normal form of a cron expression. Raises ValueError with the reason if it is not valid."""
    fields = expression.split()
    hint = f"write {', '.join(_FIELDS[:-1])} and {_FIELDS[-1]}, such as {EXAMPLE!r}"
    if len(fields) != len(_FIELDS):
        count = count_of(len(fields), "field")
        raise ValueError(f"{expression!r} is not a schedule (it has {count}, not {len(_FIELDS)}); {hint}")
    text = " ".join(fields)
    from cronsim import CronSimError

    try:
        first = next(_times(text, _SOME_DAY), None)
    except (CronSimError, AssertionError, ValueError) as error:
        what = f" ({str(error).lower()})" if isinstance(error, CronSimError) else ""
        raise ValueError(f"{expression!r} is not a schedule{what}; {hint}") from None
    if first is None:
        raise ValueError(f"{expression!r} never comes: no such day exists; {hint}")
    return text


def _times(expression: str, after: datetime) -> "CronSim":
    """The local times of an expression, without regard to clock changes."""
    from cronsim import CronSim

    return CronSim(expression, after)


def _readings(shown: datetime, zone: ZoneInfo) -> list[datetime]:
    """The instants (UTC) of a local time in a zone: one, none (skipped) or two (repeated)."""
    instants = {shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(moment for moment in instants if _shown(moment, zone) == shown)


def _after_gap(skipped: datetime, zone: ZoneInfo) -> datetime:
    """The first instant (UTC) after the gap that skips a local time."""
    before, after = (skipped.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    seconds = range(int((after - before).total_seconds()) + 1)
    return before + _SECOND * bisect_left(seconds, x=True, key=lambda n: _shown(before + _SECOND * n, zone) > skipped)


def _shown(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


class Backoff:
    """Growing pauses between retries, in seconds. Each is twice the one before, up to a maximum."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s

    def next(self) -> float:
        """The next pause in seconds."""
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Start again with the first pause."""
        self._next_s = self._first_s

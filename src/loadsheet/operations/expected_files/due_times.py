"""When something is due: local wall time on some days of the week, as moments.

Owns: what a wall time means where clocks are changed. A time that does not exist on that day (the gap in spring) or exists twice (the
fold in autumn) means the later of the two readings, so that nobody is called late too early.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

from loadsheet.settings.expected_files import WEEKDAYS, Expectation

IsFree = Callable[[date], bool]

_FURTHEST = timedelta(days=400)


def zone_of(name: str) -> tzinfo | None:
    """The time zone of this name; None, for the machine's own, if it is empty."""
    return ZoneInfo(name) if name else None


def moment(day: date, at: time, zone: tzinfo | None) -> datetime:
    """The moment (aware, UTC) at which clocks of this zone show this time on this day; of two, or of none, the later."""
    readings = (datetime.combine(day, at, zone).replace(fold=fold) for fold in (0, 1))
    return max(reading.astimezone(UTC) for reading in readings)


def shown(when: datetime, zone: tzinfo | None) -> str:
    """A moment as people of this zone write it: `Mon 2026-11-23 21:30`."""
    local = when.astimezone(zone)
    return f"{WEEKDAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"


class Dues:
    """The moments at which files are due by one expectation."""

    def __init__(self, expectation: Expectation, working_days: str = "") -> None:
        """`working_days` is the setting of that name: whose public holidays are free, unless the expectation says so itself."""
        self.zone = zone_of(expectation.timezone)
        self._time = expectation.time
        self._weekdays = {WEEKDAYS.index(day) for day in expectation.days}
        country = expectation.holidays or working_days
        self._is_free = free_days("" if country == "none" else country)

    def before(self, when: datetime) -> Iterator[datetime]:
        """The moments (aware, UTC) up to `when`, the latest first, for a year or so."""
        day = when.astimezone(self.zone).date() + timedelta(days=1)
        for passed in range(_FURTHEST.days):
            due = self._on(day - timedelta(days=passed))
            if due is not None and due <= when:
                yield due

    def after(self, when: datetime) -> datetime | None:
        """The first moment after `when`; None if there is none for a year."""
        day = when.astimezone(self.zone).date() - timedelta(days=1)
        dues = (self._on(day + timedelta(days=passed)) for passed in range(_FURTHEST.days))
        return next((due for due in dues if due is not None and due > when), None)

    def _on(self, day: date) -> datetime | None:
        if day.weekday() not in self._weekdays or self._is_free(day):
            return None
        return moment(day, self._time, self.zone)


@cache
def free_days(country: str) -> IsFree:
    """Tells public holidays of a country (`DE`, or `DE-SN` with a part of it); none, if it is empty or nobody knows it."""
    if not country:
        return _never
    return _calendar(country) or _never


def knows(country: str) -> bool:
    """Whether the public holidays of this country are known."""
    return not country or _calendar(country) is not None


def _calendar(country: str) -> IsFree | None:
    import holidays  # noqa: PLC0415 (takes a tenth of a second to load, and few need it)

    name, _, part = country.partition("-")
    try:
        calendar = holidays.country_holidays(name, subdiv=part or None)
    except NotImplementedError:
        return None
    return calendar.__contains__


def _never(_day: date) -> bool:
    return False

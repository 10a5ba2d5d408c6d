"""How old an exception is, in working days: Monday to Friday, or those of a country with its public holidays.

Owns: what a working day is, and the buckets of ages.
"""

from collections.abc import Callable
from datetime import date, timedelta
from functools import cache

BUCKETS = ("0 days", "1 day", "2 to 5 days", "6 to 10 days", "over 10 days")
"""Ages in working days, as reports group them; none that a spreadsheet takes for a number, a day or a comparison."""

LIMITS = (0, 1, 5, 10)
"""The most working days of each bucket but the last."""

_WEEKEND = 5

IsWorking = Callable[[date], bool]


class Ages:
    """Counts working days up to one day, which is that of the run."""

    def __init__(self, today: str, country: str = "") -> None:
        """`today` is ISO 8601; `country` such as `DE`, or `DE-SN` with a part of it; empty: Monday to Friday, no holidays."""
        self._today = date.fromisoformat(today[:10])
        known = _working_days_of(country) if country else None
        self._is_working: IsWorking = known or _is_weekday
        self.says = _says(country, known=known is not None)
        self._counted = cache(self._count)

    def days(self, since: str) -> int:
        """The working days from the day of `since` (ISO 8601) to today; none if that is today or later."""
        return self._counted(since[:10])

    def _count(self, since: str) -> int:
        first = date.fromisoformat(since)
        passed = (first + timedelta(days=number + 1) for number in range(max(0, (self._today - first).days)))
        return sum(map(self._is_working, passed))


def bucket_of(days: int) -> str:
    """The bucket of an age in working days."""
    return next((name for name, most in zip(BUCKETS, LIMITS, strict=False) if days <= most), BUCKETS[-1])


def _is_weekday(day: date) -> bool:
    return day.weekday() < _WEEKEND


def _working_days_of(country: str) -> IsWorking | None:
    """The working days of a country; None if nobody knows it: no run fails for that."""
    import holidays  # noqa: PLC0415 (takes a tenth of a second to load, and few need it)

    name, _, part = country.partition("-")
    try:
        calendar = holidays.country_holidays(name, subdiv=part or None)
    except NotImplementedError:
        return None
    return calendar.is_working_day


def _says(country: str, *, known: bool) -> str:
    if known:
        return f"working days of {country}, without its public holidays"
    unknown = f"; of {country} no holidays are known" if country else ""
    return f"working days are Monday to Friday{unknown}"

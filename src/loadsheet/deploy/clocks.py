"""Clock changes and a time of day: the nights on which it does not come, or comes twice.

Owns: how these are found. What a scheduler makes of them differs, so the time is better chosen where neither happens.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

DELAY = timedelta(minutes=5)  # by which a schedule may be late on purpose
_DAYS = 2 * 366
_LOCALTIME = Path("/etc/localtime")


def traps(at: time, zone: str, today: date) -> list[str]:
    """A sentence for each night of the next two years on which `at`, or the minutes after it, does not exist in `zone` or comes twice."""
    return list(_traps(at, ZoneInfo(zone), today))


def _traps(at: time, zone: ZoneInfo, today: date) -> Iterator[str]:
    for day in (today + timedelta(days=number) for number in range(_DAYS)):
        begin = datetime.combine(day, at)
        for moment in (begin, begin + DELAY):
            local = moment.replace(tzinfo=zone)
            if local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment:
                yield f"On {day} {moment:%H:%M} does not exist in {zone.key}: that night is left out. Choose another time."
                break
            if local.utcoffset() != local.replace(fold=1).utcoffset():
                yield f"On {day} {moment:%H:%M} comes twice in {zone.key}: the run may too. It sends nothing twice."
                break


def zone_of_this_machine(link: Path = _LOCALTIME) -> str:
    """The IANA name of the zone that this machine is set to, or UTC if it cannot be known."""
    _, found, name = str(link.resolve()).partition("/zoneinfo/")
    return name if found else "UTC"

"""Suggests expectations from the ledger's history, with the evidence.

With enough history: the weekdays on which files of a mapping nearly always arrive, and the time by which nearly all had arrived, plus some
slack. Pure: arrivals in, suggestions out.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from glob import escape
from itertools import groupby, pairwise

from loadsheet.ledger.run_queries import Arrival
from loadsheet.operations.expected_files import IsFree, free_days
from loadsheet.settings.operations_sections import WEEKDAYS

DAYS = 90
"""The days of history that are used."""

_ON_A_WEEKDAY = 4  # occurrences of a weekday before it counts
_DAYS_WITH_FILES = 8
_MOSTLY = 0.8  # on each of the weekdays
_NEARLY_ALWAYS = 0.9  # on all of them together
_NEARLY_ALL = 0.95
_SLACK_MIN, _SLACK_MAX = 15, 120
_STEP = 5
_MINUTES = 24 * 60
_PATTERNS_MAX = 3


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested expectation with the fields of the setting, and the evidence as text."""

    name: str
    files: tuple[str, ...]
    by: str
    days: tuple[str, ...]
    at_least: int
    evidence: str


@dataclass(frozen=True, slots=True)
class _DayOfFiles:
    """The arrivals of one day: minutes from the start of the day for each file, and the records of all. A day of a mapping starts at its
    quietest time.
    """

    minutes: tuple[float, ...]
    records: int


def suggest(
    arrivals: Sequence[Arrival], now: datetime, zone: tzinfo | None, working_days: str = ""
) -> list[Suggestion]:
    """The suggestions for each mapping (and each role, if its files have several) with enough history. `arrivals` are in the order in which
    they came. Days and times are in `zone`; public holidays are those of `working_days`.
    """
    used = [arrival for arrival in arrivals if arrival.mapping and arrival.role != "trigger"]
    roles: dict[str, set[str]] = {}
    for arrival in used:
        roles.setdefault(arrival.mapping, set()).add(arrival.role)
    found = []
    grouped = groupby(
        sorted(used, key=lambda arrival: (arrival.mapping, arrival.role)),
        key=lambda arrival: (arrival.mapping, arrival.role),
    )
    for (mapping, role), some in grouped:
        name = f"{mapping} {role}" if len(roles[mapping]) > 1 else mapping
        found.append(_suggested(name, list(some), now, zone, free_days(working_days)))
    return [suggestion for suggestion in found if suggestion is not None]


def as_toml(suggestion: Suggestion, zone: str) -> str:
    """A suggestion as a table for loadsheet.toml, with the evidence as a comment."""
    quoted = ", ".join(map(_quoted, suggestion.files))
    days = ", ".join(map(_quoted, suggestion.days))
    lines = [
        f"# {suggestion.name}: {suggestion.evidence}",
        "[[expected_files.expect]]",
        f"name = {_quoted(suggestion.name)}",
    ]
    lines += [f"files = [{quoted}]", f"by = {_quoted(suggestion.by)}", f"days = [{days}]"]
    lines += [f"timezone = {_quoted(zone)}"] * bool(zone)
    lines += [f"at_least = {suggestion.at_least}"] * (suggestion.at_least > 1)
    return "\n".join(lines) + "\n"


def patterns(names: Sequence[str]) -> tuple[str, ...]:
    """A few patterns that match all these names: digits become `*`."""
    by_shape = sorted({_shape(name.rpartition("/")[2]) for name in names})
    if len(by_shape) <= _PATTERNS_MAX:
        return tuple(by_shape)
    bare = sorted({name.rpartition("/")[2] for name in names})
    first, last = _common(bare), _common([name[::-1] for name in bare])[::-1]
    return (f"{escape(first)}*{escape(last)}",)


def _suggested(
    name: str, arrivals: Sequence[Arrival], now: datetime, zone: tzinfo | None, is_free: IsFree
) -> Suggestion | None:
    begin = _quietest([_minute(arrival.came, zone) for arrival in arrivals])
    today = _shifted(now, begin, zone).date()  # not over yet
    days = {day: one for day, one in _days(arrivals, begin, zone).items() if day < today}
    if not days:
        return None
    at_least = int(_quantile([len(day.minutes) for day in days.values()], 1 - _NEARLY_ALL))
    latest, by = _latest(days.values(), at_least, begin)
    over = timedelta(days=int(by >= _MINUTES))  # due after midnight, on the next day
    first = min(days)
    possible = [first + timedelta(days=passed) for passed in range((today - first).days)]
    possible = [day for day in possible if not is_free(day + over)]
    seen = Counter((day + over).weekday() for day in possible)
    came = Counter((day + over).weekday() for day in possible if day in days)
    often = [day for day, count in seen.items() if count >= _ON_A_WEEKDAY and came[day] >= _MOSTLY * count]
    wanted = [day for day in possible if (day + over).weekday() in often]
    kept = [days[day] for day in wanted if day in days]
    enough = min(_DAYS_WITH_FILES, _ON_A_WEEKDAY * len(often))
    if not often or len(kept) < enough or len(kept) < _NEARLY_ALWAYS * len(wanted):
        return None
    names = tuple(WEEKDAYS[day] for day in sorted(often))
    evidence = _evidence(kept, len(wanted), names, first + over, latest)
    return Suggestion(name, patterns([arrival.name for arrival in arrivals]), _clock(by), names, at_least, evidence)


def _latest(days: Collection[_DayOfFiles], at_least: int, begin: int) -> tuple[float, float]:
    """When `at_least` files had come on nearly all days, and the due time to suggest; in minutes from the midnight before the day starts."""
    enough = [day.minutes[min(at_least, len(day.minutes)) - 1] for day in days]
    latest, middle = _quantile(enough, _NEARLY_ALL), _quantile(enough, 0.5)
    slack = min(max(_SLACK_MIN, latest - middle), _SLACK_MAX)
    by = math.ceil((begin + latest + slack) / _STEP) * _STEP
    if begin + latest < _MINUTES <= by:  # the slack must not move it to the next day
        by = _MINUTES - 1
    return begin + latest, by


def _evidence(kept: Sequence[_DayOfFiles], possible: int, names: Sequence[str], first: date, latest: float) -> str:
    records = [day.records for day in kept]
    low, high = int(_quantile(records, 1 - _NEARLY_ALL)), int(_quantile(records, _NEARLY_ALL))
    spread = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    days = "weekdays" if tuple(names) == WEEKDAYS[:5] else "/".join(names)
    return f"{len(kept)} of {possible} {days} since {first:%Y-%m-%d}, {spread} records, by {_clock(latest)}"


def _days(arrivals: Sequence[Arrival], begin: int, zone: tzinfo | None) -> dict[date, _DayOfFiles]:
    found: dict[date, _DayOfFiles] = {}
    for day, some in groupby(arrivals, key=lambda arrival: _shifted(arrival.came, begin, zone).date()):
        group = list(some)
        minutes = tuple(sorted(_of_day(_shifted(arrival.came, begin, zone)) for arrival in group))
        records = sum({arrival.number: arrival.records for arrival in group}.values())
        found[day] = _DayOfFiles(minutes, records)
    return found


def _quietest(minutes: Sequence[float]) -> int:
    """The minute of the day in the middle of the longest time without arrivals: a day starts there."""
    times = sorted(set(minutes))
    gaps = [(after - before, before) for before, after in pairwise([*times, times[0] + _MINUTES])]
    length, start = max(gaps)
    return int(start + length / 2) % _MINUTES


def _shifted(when: datetime, begin: int, zone: tzinfo | None) -> datetime:
    """Local time, shifted so that days start at minute `begin`."""
    return when.astimezone(zone).replace(tzinfo=None) - timedelta(minutes=begin)


def _minute(when: datetime, zone: tzinfo | None) -> float:
    return _of_day(when.astimezone(zone))


def _of_day(when: datetime) -> float:
    return when.hour * 60 + when.minute + when.second / 60


def _quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


def _clock(minutes: float) -> str:
    whole = math.ceil(minutes - 1e-9) % _MINUTES
    return f"{whole // 60:02}:{whole % 60:02}"


def _shape(name: str) -> str:
    stem = re.sub(r"[0-9]+", "\0", name)
    return re.sub(r"\*([-_. ]\*)+", "*", escape(stem).replace("\0", "*"))


def _common(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

"""Expected files: when they are due, and which are overdue; and expectations suggested from history, with the evidence.

Reads settings and the ledger's history, no files. A due time is checked by the first run that began after it, because files that came
since are not in the ledger yet.

Due times are local times on some weekdays. A local time that a clock change skips or repeats means the later of the two possible times,
so that no file counts as late too early.

A file that arrives by a due time counts for it. A later file, up to halfway to the next due time, still counts for it if files were
missing. Any other file counts for the next due time.

With enough history, `suggest` proposes the weekdays on which files of a mapping nearly always arrive, and the time by which nearly all
had arrived, plus some slack.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from fnmatch import fnmatchcase
from functools import cache
from glob import escape
from itertools import groupby, islice, pairwise
from zoneinfo import ZoneInfo

from loadsheet.display_text import count_of
from loadsheet.extras import holidays_of
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.models import TRIGGER_ROLE
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.run_queries import Arrival
from loadsheet.settings import Settings
from loadsheet.settings.operations_sections import WEEKDAYS, Expectation

IsFree = Callable[[date], bool]

DUE_TIMES_CHECKED = 4
"""The number of past due times from which the status is computed: an earlier file can count for a later due time."""
_SEARCH_RANGE = timedelta(days=400)

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
class Overdue:
    """An expected file or run that did not come. `name` stays the same while it is overdue; `text` is for people; `due` is aware, in UTC.
    `is_one_off`: nothing will close it, as with a run that did not happen.
    """

    name: str
    text: str
    due: datetime
    is_one_off: bool = False


@dataclass(frozen=True, slots=True)
class ExpectationStatus:
    """The status of an expectation. `due` is the last due time that a run has checked (None: none yet), `next_due` the one after; `came`
    are the arrivals since the due time before; `late`: they were not enough. `text` is for people; `previous` says how the due time before
    ended (empty: there was none).
    """

    name: str
    due: datetime | None
    next_due: datetime | None
    came: tuple[Arrival, ...]
    late: bool
    text: str
    previous: str = ""


class DueTimes:
    """The times at which the files of one expectation are due."""

    def __init__(self, expectation: Expectation, working_days: str = "") -> None:
        """`working_days` is the setting of that name: the country whose public holidays are free, unless the expectation names one."""
        self.zone = zone_of(expectation.timezone)
        self._time = expectation.time
        self._weekdays = {WEEKDAYS.index(day) for day in expectation.days}
        country = expectation.holidays or working_days
        self._is_free = free_days("" if country == "none" else country)

    def before(self, when: datetime) -> Iterator[datetime]:
        """The due times (aware, UTC) up to `when`, latest first, for about a year."""
        day = when.astimezone(self.zone).date() + timedelta(days=1)
        for passed in range(_SEARCH_RANGE.days):
            due = self._on(day - timedelta(days=passed))
            if due is not None and due <= when:
                yield due

    def after(self, when: datetime) -> datetime | None:
        """The first due time after `when` (aware, UTC); None if there is none for a year."""
        day = when.astimezone(self.zone).date() - timedelta(days=1)
        dues = (self._on(day + timedelta(days=passed)) for passed in range(_SEARCH_RANGE.days))
        return next((due for due in dues if due is not None and due > when), None)

    def _on(self, day: date) -> datetime | None:
        if day.weekday() not in self._weekdays or self._is_free(day):
            return None
        return to_utc(day, self._time, self.zone)


def overdue(settings: Settings, queries: LedgerQueries | None, began: datetime) -> Sequence[Overdue]:
    """The overdue files, as of the last run that read the inbox, and a missing run before `began` (aware, UTC)."""
    if queries is None:
        return ()
    found = [(status, status.due) for status in statuses(settings, queries) if status.late]
    late = [Overdue(status.name, status.text, due) for status, due in found if due is not None]
    return (*late, *_missing_runs(settings, queries, began))


def statuses(settings: Settings, queries: LedgerQueries) -> list[ExpectationStatus]:
    """The status of each expectation, in the order of the settings; empty until a run has read the inbox."""
    if not settings.expected_files.expect:
        return []
    first, last = queries.first_and_last_start()
    if not last:
        return []
    looked = datetime.fromisoformat(last)
    expected, free = settings.expected_files.expect, settings.reports.working_days
    dues = [list(islice(DueTimes(one, free).before(looked), DUE_TIMES_CHECKED + 1)) for one in expected]
    oldest = min((some[-1] for some in dues if some), default=looked)
    arrivals = queries.arrivals(stamp(oldest), counted=any(one.at_least_records for one in expected))
    return [
        status_of(one, arrivals, looked=looked, since=datetime.fromisoformat(first), working_days=free)
        for one in expected
    ]


def next_due(settings: Settings, now: datetime) -> datetime | None:
    """When the next file is due after `now` (both aware, UTC); None: never. A watch runs then too, to report it as late."""
    free = settings.reports.working_days
    dues = (DueTimes(expectation, free).after(now) for expectation in settings.expected_files.expect)
    return min((due for due in dues if due is not None), default=None)


def _missing_runs(settings: Settings, queries: LedgerQueries, began: datetime) -> list[Overdue]:
    if not settings.expected_files.runs_due_s:
        return []
    before = queries.begun_before(stamp(began))
    if not before:
        return []
    last = datetime.fromisoformat(before)
    due = last + timedelta(seconds=settings.expected_files.runs_due_s)
    if began <= due:
        return []
    hours = (began - last).total_seconds() / 3600
    text = f"no run began between {local_text(last, None)} and {local_text(began, None)} ({hours:,.1f} hours)"
    return [Overdue(f"runs since {before}", text, due, is_one_off=True)]


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name of an inbox file matches a pattern, ignoring case. A pattern without a slash is matched with the bare name."""
    folded, bare = name.casefold(), name.casefold().rpartition("/")[2]
    return any(fnmatchcase(folded if "/" in pattern else bare, pattern.casefold()) for pattern in patterns)


def status_of(
    expectation: Expectation, arrivals: Sequence[Arrival], *, looked: datetime, since: datetime, working_days: str = ""
) -> ExpectationStatus:
    """The status of an expectation. `looked` is when a run last read the inbox, `since` when the first one did: earlier due times are not
    checked. `arrivals` are in the order in which they came.
    """
    dues = DueTimes(expectation, working_days)
    mine = [arrival for arrival in arrivals if matches(arrival.name, expectation.files)]
    last: list[datetime] = []
    for due in dues.before(looked):
        last.append(due)
        if len(last) > DUE_TIMES_CHECKED or due < since:
            break
    upcoming = dues.after(looked)
    judged = [due for due in last[:DUE_TIMES_CHECKED] if due >= since]
    if not judged:
        when = f"due {local_text(upcoming, dues.zone)}" if upcoming else "never due"
        text = f"{expectation.called}: {when}"
        return ExpectationStatus(expectation.called, None, upcoming, tuple(mine[-3:]), late=False, text=text)
    start = last[len(judged)] if len(last) > len(judged) else None
    came, came_before = _counted(expectation, mine, start, judged[::-1], looked)
    late = not _enough(expectation, came)
    text = _text_of(expectation, came, judged[0], dues, late=late)
    before = _text_of_previous(expectation, came_before, judged[1], dues) if len(judged) > 1 else ""
    return ExpectationStatus(
        expectation.called, judged[0], upcoming, tuple(came), late=late, text=text, previous=before
    )


def _counted(
    expectation: Expectation,
    arrivals: Sequence[Arrival],
    start: datetime | None,
    dues: Sequence[datetime],
    looked: datetime,
) -> tuple[list[Arrival], list[Arrival]]:
    """The arrivals that count for the last of these due times, and those for the one before."""
    before: list[Arrival] = []
    left = [arrival for arrival in arrivals if (start is None or arrival.came > start) and arrival.came <= looked]
    for due, following in pairwise(dues):
        half = due + (following - due) / 2
        in_time = [arrival for arrival in left if arrival.came <= due]
        until = due if _enough(expectation, in_time) else half
        before = [arrival for arrival in left if arrival.came <= until]
        left = [arrival for arrival in left if arrival.came > until]
    return left, before


def _enough(expectation: Expectation, came: Sequence[Arrival]) -> bool:
    return len(came) >= expectation.at_least and _records(came) >= expectation.at_least_records


def _records(came: Sequence[Arrival]) -> int:
    return sum({arrival.number: arrival.records for arrival in came}.values())


def _text_of(expectation: Expectation, came: Sequence[Arrival], due: datetime, dues: DueTimes, *, late: bool) -> str:
    when = f"due {local_text(due, dues.zone)}"
    if not late:
        after = ", late" if _completing(expectation, came).came > due else ""
        return f"{expectation.called}: {when}, came {_came_text(expectation, came, dues, after)}"
    if not came:
        return f"{expectation.called}: {when}, no file arrived"
    wanted = [count_of(expectation.at_least, "file")]
    wanted += [count_of(expectation.at_least_records, "record")] * bool(expectation.at_least_records)
    found = [count_of(len(came), "file")]
    found += [count_of(_records(came), "record")] * bool(expectation.at_least_records)
    aside = sum(arrival.set_aside for arrival in came)
    more = f", {aside} of them set aside" if aside else ""
    return f"{expectation.called}: {when}, {' with '.join(found)} came{more}, expected {' with '.join(wanted)}"


def _text_of_previous(expectation: Expectation, came: Sequence[Arrival], due: datetime, dues: DueTimes) -> str:
    when = f"the file due {local_text(due, dues.zone)}"
    if not _enough(expectation, came):
        return f"{when} never came" if not came else f"{when} came in part"
    return f"{when} came {_came_text(expectation, came, dues)}"


def _completing(expectation: Expectation, came: Sequence[Arrival]) -> Arrival:
    """The arrival with which there were enough files."""
    return came[min(len(came), expectation.at_least) - 1]


def _came_text(expectation: Expectation, came: Sequence[Arrival], dues: DueTimes, after: str = "") -> str:
    last = _completing(expectation, came)
    return f"{local_text(last.came, dues.zone)}{after} ({last.name}{', set aside' if last.set_aside else ''})"


# ---- due times ----


def zone_of(name: str) -> tzinfo | None:
    """The time zone of this name; None, meaning the machine's own, if the name is empty."""
    return ZoneInfo(name) if name else None


def to_utc(day: date, at: time, zone: tzinfo | None) -> datetime:
    """A local time on a day in UTC (aware). If a clock change skips or repeats it, the later possible time."""
    readings = (datetime.combine(day, at, zone).replace(fold=fold) for fold in (0, 1))
    return max(reading.astimezone(UTC) for reading in readings)


def local_text(when: datetime, zone: tzinfo | None) -> str:
    """A time as local text: `Mon 2026-11-23 21:30`."""
    local = when.astimezone(zone)
    return f"{WEEKDAYS[local.weekday()]} {local:%Y-%m-%d %H:%M}"


@cache
def free_days(country: str) -> IsFree:
    """A function that tells whether a day is a public holiday in a country (`DE`, or `DE-SN` for a region). No day is if the country is
    empty or unknown.
    """
    calendar = holidays_of(country, "a calendar of public holidays") if country else None
    return calendar.__contains__ if calendar is not None else lambda _day: False


def has_holidays(country: str) -> bool:
    """Whether the public holidays of this country are known. True for an empty name."""
    return not country or holidays_of(country, "a calendar of public holidays") is not None


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
    used = [arrival for arrival in arrivals if arrival.mapping and arrival.role != TRIGGER_ROLE]
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
    begin = _quietest([_of_day(arrival.came.astimezone(zone)) for arrival in arrivals])
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

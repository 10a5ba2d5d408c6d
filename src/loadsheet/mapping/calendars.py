"""Calendars: which days are working days, and counting with them.

A calendar has a weekend and holidays. The holidays are ISO dates in the mapping, in a file beside it with one date a line, or both. Days
are dates without a zone: `calculation.py` takes the local date of a moment. Counting takes the same time for any distance.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import get_args

from loadsheet.mapping.schema import CalendarSpec, Weekday
from loadsheet.mapping.yamlfile import Loc, YamlFile

_LAST = date.max.toordinal()
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SUCH_AS = "such as 2026-12-25"
_WEEKDAYS: tuple[str, ...] = get_args(Weekday)


@dataclass(frozen=True, slots=True)
class Calendar:
    """The working days: every day but those of the weekend (0 is Monday) and the holidays (ordinals in order, none in the weekend).
    `path` and `content` are the file of the holidays, if there is one.
    """

    weekend: frozenset[int] = frozenset({5, 6})
    holidays: tuple[int, ...] = ()
    path: Path | None = None
    content: bytes = b""

    def is_working_day(self, day: date) -> bool:
        """Whether this is a working day."""
        return self._until(day.toordinal()) > self._until(day.toordinal() - 1)

    def after(self, day: date, count: int) -> date:
        """The working day `count` working days after a day, or before it if `count` is negative; the day itself for 0. Raises OverflowError
        outside of the years 1 to 9999.
        """
        ordinal = day.toordinal()
        if not count:
            return day
        wanted = self._until(ordinal) + count if count > 0 else self._until(ordinal - 1) + count + 1
        found = bisect_left(range(1, _LAST + 1), wanted, key=self._until) + 1
        if wanted < 1 or found > _LAST:
            raise OverflowError
        return date.fromordinal(found)

    def between(self, first: date, last: date) -> int:
        """The number of working days after `first`, up to and including `last`; negative if `last` is earlier."""
        return self._until(last.toordinal()) - self._until(first.toordinal())

    def _until(self, ordinal: int) -> int:
        """The number of working days up to and including a day. Day 1 of the calendar, 0001-01-01, is a Monday."""
        days = sum((ordinal + 6 - weekday) // 7 for weekday in range(7) if weekday not in self.weekend)
        return days - bisect_right(self.holidays, ordinal)


USUAL = Calendar()
"""The calendar of a mapping without calendars: only Saturday and Sunday are off."""


def read_calendars(specs: Mapping[str, CalendarSpec], file: YamlFile) -> dict[str, Calendar]:
    """The calendars of a mapping by name. What is wrong with them becomes findings of the file."""
    return {name: _calendar(name, spec, file, ("calendars", name)) for name, spec in specs.items()}


def _calendar(name: str, spec: CalendarSpec, file: YamlFile, loc: Loc) -> Calendar:
    weekend = frozenset(_WEEKDAYS.index(day) for day in spec.weekend)
    if not spec.model_fields_set:
        file.refuse(loc, f"the calendar {name} says no day off", "write weekend, holidays or file", at_key=True)
    if len(weekend) == len(_WEEKDAYS):
        file.refuse((*loc, "weekend"), f"the calendar {name} has no working day")
    days = []
    for number, text in enumerate(spec.holidays):
        day = _day(text)
        if day is None:
            file.refuse((*loc, "holidays", number), f'"{text}" is not a date', _SUCH_AS)
        else:
            days.append(day)
    path, content = None, b""
    if spec.file is not None and (path := file.beside(spec.file, (*loc, "file"))) is not None:
        content = file.content_of(path, spec.file, (*loc, "file")) or b""
        days += _days_of(content, spec.file, file, (*loc, "file"))
    ordinals = sorted({day.toordinal() for day in days if day.weekday() not in weekend})
    return Calendar(weekend, tuple(ordinals), path, content)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _days_of(content: bytes, named: str, file: YamlFile, loc: Loc) -> Iterator[date]:
    """The dates of a file, one a line; the first line may be a heading, and what stands behind a comma, semicolon or tab is not read. The
    first line without a date is a finding that does not quote it: the file may be any file.
    """
    lines = content.decode("utf-8-sig").splitlines()
    texts = [(number, re.split("[,;\t]", line)[0].strip(' "')) for number, line in enumerate(lines, 1) if line.strip()]
    if texts and not any(letter.isdigit() for letter in texts[0][1]):
        texts = texts[1:]
    for number, text in texts:
        day = _day(text)
        if day is None:
            file.refuse(loc, f"{named}, line {number}: there is no date at the start of the line", _SUCH_AS)
            return
        yield day

"""Settings for expected files and runs."""

import re
import zoneinfo
from datetime import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveInt, field_validator

from loadsheet.settings.sections import Section

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""The days of the week as settings and reports name them, Monday first."""

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_LETTERS = 3  # enough to identify a day's name


class Expectation(BaseModel):
    """Files that should have arrived by a time of day, on some days of the week."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: tuple[str, ...] = Field(
        min_length=1,
        description="Patterns of file names, such as `acme_*.xlsx`. A pattern without a slash matches in every folder of the inbox",
    )
    by: str = Field(
        description="Time of day (HH:MM) by which the files should arrive. Later files, up to half way to the next time, still count for"
        " this one"
    )
    days: tuple[str, ...] = Field(
        WEEKDAYS[:5], description="Days of the week: names (`Mon`), ISO numbers (1 is Monday) and ranges (`Mon-Fri`)"
    )
    holidays: str = Field(
        "",
        pattern=r"^(none|[A-Z]{2}(-[A-Z0-9]{1,4})?)?$",
        description="Country (DE, or DE-SN) on whose public holidays nothing is expected. Empty: as in working_days. none: no country",
    )
    timezone: str = Field(
        "", description="Time zone of `by`, such as Europe/Berlin. Empty: the time zone of this machine"
    )
    at_least: PositiveInt = Field(1, description="Least number of files")
    at_least_records: NonNegativeInt = Field(0, description="Least number of records in all these files")
    name: str = Field("", description="Name in notifications. Empty: its patterns")

    @field_validator("files", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("by")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        if not _CLOCK.fullmatch(value):
            raise ValueError(f"{value!r} is not a time of day. Write HH:MM, such as 21:30")
        return value

    @field_validator("days", mode="before")
    @classmethod
    def _as_names(cls, value: Any) -> tuple[str, ...]:
        given = value if isinstance(value, (list, tuple)) else [value]
        wanted = {number for text in given for number in _numbers(str(text))}
        if not wanted:
            raise ValueError("no day is given. Leave it out for Monday to Friday")
        return tuple(WEEKDAYS[number] for number in sorted(wanted))

    @field_validator("timezone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        return is_zone(value) if value else value

    @property
    def time(self) -> time:
        """`by` as a time of day, without a zone."""
        return time.fromisoformat(self.by)

    @property
    def called(self) -> str:
        """The name, or else the patterns."""
        return self.name or ", ".join(self.files)


class ExpectedFilesSettings(Section):
    """Which files should arrive by when, and how often runs should happen."""

    expect: tuple[Expectation, ...] = Field(
        (),
        description=(
            "Files that should arrive, a table `[[expected_files.expect]]` each (files, by, days, timezone ...). "
            "Reported once when late, and once when they arrive. `loadsheet expected --suggest` proposes some"
        ),
    )
    runs_due_s: NonNegativeFloat = Field(
        0.0, description="Longest time between two runs, in seconds. A longer gap is reported once. 0: off"
    )

    @field_validator("expect")
    @classmethod
    def _each_has_its_name(cls, value: tuple[Expectation, ...]) -> tuple[Expectation, ...]:
        names = [expectation.called for expectation in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two have the name {name!r}; give each its own name")
        return value


def is_zone(name: str) -> str:
    """Return the name of a time zone. Raises ValueError if there is no such zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}; write one such as Europe/Berlin") from None
    return name


def _numbers(text: str) -> list[int]:
    """The days of a text such as `Mon`, `1` or `Fri-Sun`, as numbers from 0 (Monday)."""
    first, dash, last = text.partition("-")
    start = _number(first)
    end = _number(last) if dash else start
    return [day % 7 for day in range(start, (end if end >= start else end + 7) + 1)]


def _number(text: str) -> int:
    word = text.strip().casefold()
    if word.isdecimal() and 1 <= int(word) <= len(WEEKDAYS):
        return int(word) - 1
    names = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    for number, name in enumerate(names):
        if len(word) >= _LETTERS and name.startswith(word):
            return number
    raise ValueError(f"{text!r} is not a day of the week. Write Mon, Tue ... or 1 (Monday) to 7")

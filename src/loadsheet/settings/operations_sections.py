"""Settings for what happens around a run: expected files, reports, retention, notifications, schedules, monitoring, run archive, shared database."""

import re
import zoneinfo
from datetime import time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
)

from loadsheet.languages import Language
from loadsheet.settings.sections import Section

if TYPE_CHECKING:
    from loadsheet.schedules import Schedule

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""The days of the week as settings and reports name them, Monday first."""

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_LONGEST_S = 31 * 86_400.0
_LETTERS = 3  # enough to identify a day's name


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _time_of_day(value: str) -> str:
    if not _CLOCK.fullmatch(value):
        raise ValueError(f"{value!r} is not a time of day. Write HH:MM, such as 21:30")
    return value


def is_zone(name: str) -> str:
    """Return the name of a time zone. Raises ValueError if there is no such zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}; write one such as Europe/Berlin") from None
    return name


OneOrMany = BeforeValidator(_one_or_many)
TimeOfDay = Annotated[str, AfterValidator(_time_of_day)]
Zone = Annotated[str, AfterValidator(is_zone)]


class Expectation(BaseModel):
    """Files that should have arrived by a time of day, on some days of the week."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: Annotated[tuple[str, ...], OneOrMany] = Field(
        min_length=1,
        description="Patterns of file names, such as `acme_*.xlsx`. A pattern without a slash matches in every folder of the inbox",
    )
    by: TimeOfDay = Field(
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


class ReportSettings(Section):
    """Sizes and languages of reports."""

    page_documents_max: PositiveInt = Field(
        300,
        description="Most documents that run.html lists, those that need attention first. It counts the others",
    )
    index_runs_max: PositiveInt = Field(100, description="Most runs that index.html lists, newest first")
    working_days: str = Field(
        "",
        pattern=r"^([A-Z]{2}(-[A-Z0-9]{1,4})?)?$",
        description="Country (DE, or DE-SN with a region) whose holidays do not count in the age of exceptions. Empty: Monday to Friday",
    )
    results: Literal["same", "csv", "xlsx"] = Field(
        "same",
        description="Format of results files: the same as the dropped file (workbook or CSV), or always one of them",
    )
    feedback: Literal["workbook", "csv", "both"] = Field(
        "workbook", description="What senders of text files get back to fix: a workbook, a text file, or both"
    )
    fix_rows_max: PositiveInt = Field(
        100_000,
        le=1_000_000,
        description="Most rows of a text file in its fix workbook. Further records go into text files beside it",
    )
    language: Language = Field(
        "en", description="Language of what a shipper gets if the mapping names none, or one without texts"
    )


class RetentionSettings(Section):
    """How long originals, payloads, reports and log files are kept, and how many backups."""

    archive_days: NonNegativeInt = Field(
        0,
        description="Days for which archived originals are kept. 0: forever. Originals with open documents are kept longer",
    )
    payload_days: NonNegativeInt = Field(
        0,
        description="Days for which payloads, cells and answers of settled records stay in the ledger. 0: forever. Hashes, states, senders, totals and open records stay",
    )
    reports_days: NonNegativeInt = Field(
        0,
        description="Days for which the reports of a run are kept. 0: forever. Reports with an open exception stay",
    )
    log_days: NonNegativeInt = Field(90, description="Days for which the log files of runs are kept. 0: forever")
    backups: NonNegativeInt = Field(
        7,
        description="Daily copies of the ledger that are kept in STATE/backups, made after the first run of a day. 0: none",
    )


class NotificationSettings(Section):
    """Who is notified of changes, where health pings go, and who gets fix files."""

    urls: Annotated[tuple[SecretStr, ...], OneOrMany] = Field(
        (), description="Where notifications go, as apprise URLs. They may hold passwords"
    )
    urls_file: Path | None = Field(None, description="File with more such URLs, one a line. # starts a comment")
    after: PositiveInt = Field(
        2,
        description="Runs in a row with an unreachable exchange or a locked ledger (exit code 75) before a notification is sent",
    )
    again_days: NonNegativeFloat = Field(
        7.0, description="Days after which an open condition is reported again. 0: never"
    )
    digest_at: TimeOfDay = Field(
        "00:00",
        description="Local time (HH:MM): the first run after it sends a digest of what needs attention, if that has changed",
    )
    owners: dict[str, SecretStr] = Field(
        {},
        description="Owner (as in the workbook's column Owner) = URL. Each owner is notified of the exceptions assigned to them",
    )
    ping_url: SecretStr | None = Field(
        None,
        description="Health check service that expects a heartbeat. Called at URL/start and URL/EXIT_CODE with the last 10 kB of output",
    )
    ping_timeout_s: PositiveFloat = Field(10.0, description="Seconds for one heartbeat")
    fixes_to: Path | None = Field(None, description="Folder into which fix files for the shipper are copied")
    fixes_mail: Annotated[tuple[SecretStr, ...], OneOrMany] = Field(
        (),
        description="Where fix files are sent, as apprise URLs. Sent to the shipper only when there is something to fix",
    )

    @property
    def are_off(self) -> bool:
        """Whether nobody is notified and nothing is pinged or delivered."""
        people = self.urls or self.urls_file or self.owners or self.fixes_to or self.fixes_mail
        return not people and self.ping_url is None

    @field_validator("ping_url")
    @classmethod
    def _is_http(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value():
            return None
        if not re.match(r"https?://[^/\s]", value.get_secret_value()):
            raise ValueError("must begin with http:// or https://")
        return value


class ScheduleSettings(Section):
    """When runs start by schedule."""

    cron: tuple[str, ...] = Field(
        (),
        description="When runs are due: cron expressions (minute, hour, day, month, weekday), such as `30 21 * * Mon-Fri`. A watch or a worker starts them",
    )
    timezone: Zone = Field(
        "UTC",
        description="Time zone of `cron`, such as Europe/Berlin, regardless of the time zone of the machine",
    )
    catch_up_s: float = Field(
        86_400.0,
        ge=0,
        le=_LONGEST_S,
        description="Oldest missed run that is caught up, in seconds. All missed runs are caught up by one. 0: none",
    )

    @field_validator("cron", mode="before")
    @classmethod
    def _one_schedule_or_many(cls, value: object) -> object:
        return ((value,) if value.strip() else ()) if isinstance(value, str) else value

    @field_validator("cron")
    @classmethod
    def _are_schedules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            return ()
        from loadsheet import schedules

        return tuple(dict.fromkeys(schedules.read(expression) for expression in value))

    @property
    def timetable(self) -> "tuple[Schedule, ...]":
        """The schedules of `cron` in `timezone`."""
        from loadsheet.schedules import Schedule

        return tuple(Schedule(expression, self.timezone) for expression in self.cron)

    @property
    def catch_up(self) -> timedelta:
        """`catch_up_s` as a duration."""
        return timedelta(seconds=self.catch_up_s)


class MonitoringSettings(Section):
    """Logs, metrics, health and traces."""

    log_level: Literal["off", "error", "warning", "info", "debug"] = Field(
        "off",
        description="Lowest level of log lines on stderr. The file STATE/logs/RUN.jsonl always has info, or debug if set here",
    )
    log_format: Literal["auto", "human", "json"] = Field(
        "auto",
        description="Format of log lines on stderr: readable on a terminal and JSON in a pipe (auto), or always one of them",
    )
    metrics_file: Path | None = Field(
        None,
        description="File for the Prometheus textfile collector, such as /var/lib/node_exporter/loadsheet.prom. The name of a shipper is put before .prom",
    )
    health_address: str = Field(
        "",
        description="Address where a watch serves /health and /metrics, such as 127.0.0.1:9465, without authentication. Empty: off",
    )
    health_stale_s: PositiveFloat = Field(
        900.0, description="Seconds without progress in a run before the health check fails"
    )
    otlp_endpoint: str = Field(
        "",
        pattern=r"^(https?://\S+)?$",
        description="OpenTelemetry collector for traces of runs over HTTP, such as http://127.0.0.1:4318. Empty: none",
    )

    @field_validator("health_address")
    @classmethod
    def _has_a_port(cls, value: str) -> str:
        host, colon, port = value.rpartition(":")
        if value and not (colon and host and port.isascii() and port.isdigit() and int(port) < 2**16):
            raise ValueError(f"{value!r} is not an address with a port. Write 127.0.0.1:9465 or [::1]:9465")
        return value


class RunArchiveSettings(Section):
    """Whether runs are archived in capsules, and for how long capsules are kept."""

    capsules: Literal["off", "each"] = Field(
        "off",
        description="Archive each run that had something to do as STATE/capsules/RUN.capsule.zip (each), or not (off)",
    )
    capsule_days: NonNegativeInt = Field(
        0,
        description="Days for which these archives are kept. 0: forever. They hold originals and payloads, regardless of their own retention",
    )


class ClusterSettings(Section):
    """The schema of a shared ledger, and the number of runs of its workers."""

    database_schema: str = Field(
        "loadsheet",
        pattern=r"^[a-z][a-z0-9_]{0,19}$",
        description="Names of the schemas of a PostgreSQL ledger: NAME, NAME_SHIPPER, and NAME_fleet for what all share",
    )
    takeover_s: PositiveFloat = Field(
        30.0, description="Seconds without a heartbeat after which a process that shares the ledger counts as dead"
    )
    worker_places: PositiveInt = Field(2, description="Most concurrent runs of a worker")
    jobs_days: NonNegativeInt = Field(
        7, description="Days for which finished jobs and workers stay in the shared tables"
    )

"""Settings of schedules: when runs take place although nobody starts them and no file came."""

from datetime import timedelta

from pydantic import BaseModel, Field, field_validator

from loadsheet import schedules
from loadsheet.schedules import Schedule
from loadsheet.settings.expecting import is_zone

_LONGEST_S = 31 * 86_400.0


class Scheduling(BaseModel):
    """When runs are due by themselves."""

    schedule: tuple[str, ...] = Field(
        (),
        description="When runs are due: cron expressions (minute, hour, day, month, weekday), such as `30 21 * * Mon-Fri`; a watch or a"
        " worker starts them",
    )
    schedule_zone: str = Field(
        "UTC",
        description="Time zone of `schedule`, such as Europe/Berlin; not that of the machine, as several machines may differ in it",
    )
    catch_up_s: float = Field(
        86_400.0,
        ge=0,
        le=_LONGEST_S,
        description="Scheduled runs that were missed are caught up by one run for all of them, if they are not older than this (0: never)",
    )

    @field_validator("schedule", mode="before")
    @classmethod
    def _one_schedule_or_many(cls, value: object) -> object:
        return ((value,) if value.strip() else ()) if isinstance(value, str) else value

    @field_validator("schedule")
    @classmethod
    def _are_schedules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(schedules.read(one) for one in value))

    @field_validator("schedule_zone")
    @classmethod
    def _is_a_zone_of_schedules(cls, value: str) -> str:
        return is_zone(value)

    @property
    def timetable(self) -> tuple[Schedule, ...]:
        """What `schedule` and `schedule_zone` say together."""
        return tuple(Schedule(one, self.schedule_zone) for one in self.schedule)

    @property
    def catch_up(self) -> timedelta:
        """`catch_up_s` as a span of time."""
        return timedelta(seconds=self.catch_up_s)

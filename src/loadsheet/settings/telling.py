"""Settings of notices: who is told what, and how."""

import re
from pathlib import Path
from typing import Self

from pydantic import (
    BaseModel,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


class Telling(BaseModel):
    """Who is told of changes, and where health pings go."""

    notify: tuple[SecretStr, ...] = Field((), description="Where notices go, as apprise URLs; they may hold passwords")
    notify_file: Path | None = Field(None, description="File with more such URLs, one a line; # begins a remark")
    notify_after: PositiveInt = Field(
        2, description="An exchange out of reach, or a held ledger (exit code 75), is told after so many runs in a row"
    )
    notify_again_days: NonNegativeFloat = Field(
        7.0, description="Days after which what is still so is told once more (0: never)"
    )
    digest_at: str = Field(
        "00:00",
        description="Local time, HH:MM: the first run after it tells what is open for someone, if that has changed since the last time",
    )
    notify_owners: dict[str, SecretStr] = Field(
        {},
        description="Owner (as the workbook's Owner column names one) = URL: who is told of the owner's own exceptions",
    )
    ping_url: SecretStr | None = Field(
        None,
        description="Health check that expects a sign of life: asked at URL/start and URL/EXIT_CODE, with the last 10 kB of what was said",
    )
    ping_timeout_s: PositiveFloat = Field(10.0, description="Time for one such ping")
    fixes_to: Path | None = Field(None, description="Folder into which fix files for the shipper are copied")
    fixes_mail: tuple[SecretStr, ...] = Field(
        (), description="Where fix files are sent, as apprise URLs: to the shipper, only when there is something to fix"
    )

    @field_validator("notify", "fixes_mail", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("digest_at")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        if not _CLOCK.fullmatch(value):
            raise ValueError(f"{value!r} is no time of day; write it as HH:MM, such as 06:00")
        return value

    @field_validator("ping_url")
    @classmethod
    def _is_http(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value():
            return None
        if not re.match(r"https?://[^/\s]", value.get_secret_value()):
            raise ValueError("it begins neither with http:// nor with https://")
        return value

    @model_validator(mode="after")
    def _fixes_come_by_the_shipper(self) -> Self:
        inbox = getattr(self, "inbox", None)
        if self.fixes_to is not None and inbox is not None and self.fixes_to.resolve().is_relative_to(inbox.resolve()):
            raise ValueError(
                f"fixes_to ({self.fixes_to}) lies in the inbox ({inbox}), from where fix files would be taken before anybody fixed"
                " them; name a folder outside of it"
            )
        return self

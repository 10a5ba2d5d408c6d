"""Settings of folders, ledger, arrival and reading: where things are, when a file is taken, and the limits of reading one."""

from datetime import datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    BaseModel,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)

from loadsheet.file_modes import group_number
from loadsheet.settings.places import address_of, apart, checked

EMBEDDED = "embedded"
_ANSWERS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "": False,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class InboxSettings(BaseModel):
    """Where files, reports and the ledger are, and when a file is taken."""

    shipper: str = Field("", description="Name of the shipper whose settings these are; `--shipper` chooses it")
    inbox: Path = Field(
        Path("inbox"),
        description="Folder in which shippers drop files, or a place in an object store: s3://bucket/prefix",
    )
    mappings: Path = Field(Path("mappings"), description="Folder of mapping files")
    outbox: Path = Field(
        Path("outbox"), description="Folder for reports and for files set aside, or a place in an object store"
    )
    outbox_group: str = Field(
        "",
        description="Group, by name or number, that may read and annotate the reports in the outbox; empty: their owner alone",
    )
    allow_root: bool = Field(default=False, description="Run and serve as root without a warning")
    state: Path = Field(Path(".loadsheet"), description="Folder of ledger, archive and claimed files; on a local disk")
    archive: Path | None = Field(
        None,
        description="Where originals are kept, a folder or a place in an object store; empty: STATE/archive, with inbox and outbox in"
        " stores OUTBOX/archive",
    )
    exchange: str = Field(EMBEDDED, description="Base URL of the exchange, or 'embedded' for our own in this process")
    capabilities: Path | None = Field(
        None, description="File in which `loadsheet exchange probe` wrote what that exchange does: its assumptions"
    )
    token: SecretStr | None = Field(None, description="Bearer token; from the environment, never the command line")
    token_file: Path | None = Field(None, description="File whose first line is the bearer token")
    token_command: str = Field(
        "", description="Command that prints the bearer token; asked again when the exchange refuses the one it gave"
    )
    token_keyring: bool | str = Field(
        default=False,
        description="Take the bearer token from this system's keyring (extra `desk`): true, or the name it has there under loadsheet",
    )
    database: str = Field("", description="URL of the ledger; empty: sqlite:///STATE/ledger.db")
    allow_network_ledger: bool = Field(
        default=False, description="Let the ledger lie on a network file system, where a crash can lose what it knows"
    )
    accept_older_ledger: bool = Field(
        default=False,
        description="Take a ledger that was put back from a backup; what it would have sent is unknown and looked for first",
    )

    settle_s: NonNegativeFloat = Field(5.0, description="A file must have been quiet for so long before it is claimed")
    done_marker: str = Field(
        "",
        description="Name of the file that says that a file is complete, such as `{name}.done`; empty: none is needed",
    )
    unfinished_wait_s: NonNegativeFloat = Field(
        60.0, description="An empty file, or a workbook that lacks its end, is given so long before it is set aside"
    )
    companion_wait_s: PositiveFloat = Field(
        86_400.0, description="A file that has waited for its companion for longer is reported as overdue"
    )
    file_bytes_max: PositiveInt = Field(10_000_000_000, description="Larger files are left in the inbox and reported")
    ignore: tuple[str, ...] = Field(
        (
            "~$*",
            ".*",
            "*.tmp",
            "*.part",
            "*.partial",
            "*.filepart",
            "*.crdownload",
            "*.download",
            "*.swp",
            "*.icloud",
            "*.cloud",
            "*.nextcloud",
            "*.owncloud",
            "Thumbs.db",
            "desktop.ini",
        ),
        description="Names of files that are never claimed",
    )
    archive_days: NonNegativeInt = Field(
        0, description="Days for which archived originals are kept (0: for ever); unsettled ones are kept longer"
    )
    arrived_since: datetime | None = Field(
        None,
        description="Files last changed before this moment (ISO 8601, local time) stay in the inbox; `run --since` sets it",
    )
    watch_with: Literal["auto", "polling"] = Field(
        "auto", description="How `loadsheet watch` notices files: by events of the system, or by looking every `poll_s`"
    )
    poll_s: PositiveFloat = Field(5.0, description="Pause between two looks where the system tells of no events")
    rescan_s: PositiveFloat = Field(60.0, description="A watch looks at least so often, whatever the system tells")
    retry_s: PositiveFloat = Field(
        15.0, description="First pause of a watch after it could not go on, or with unknown entries; doubled each time"
    )
    retry_max_s: PositiveFloat = Field(900.0, description="Longest such pause")

    @field_validator("inbox", "outbox", "archive")
    @classmethod
    def _is_a_place(cls, value: Path | None) -> Path | None:
        return value if value is None else checked(value)

    @field_validator("outbox_group")
    @classmethod
    def _is_a_group(cls, value: str) -> str:
        if value:
            group_number(value)
        return value

    @field_validator("state", "mappings")
    @classmethod
    def _is_here(cls, value: Path) -> Path:
        if address_of(value):
            raise ValueError("must be a folder on this machine")
        return value

    @field_validator("done_marker")
    @classmethod
    def _names_its_file(cls, value: str) -> str:
        if value and ("/" in value or value.count("{name}") != 1 or value == "{name}"):
            raise ValueError("write {name} once and something around it, such as {name}.done")
        return value

    @field_validator("arrived_since")
    @classmethod
    def _has_a_zone(cls, value: datetime | None) -> datetime | None:
        return value if value is None or value.tzinfo else value.astimezone()

    @field_validator("token_keyring", mode="before")
    @classmethod
    def _words_are_answers(cls, value: object) -> object:
        if isinstance(value, str):
            return _ANSWERS.get(value.strip().casefold(), value.strip())
        return value

    @field_validator("capabilities", "arrived_since", "archive", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @model_validator(mode="after")
    def _nothing_comes_back(self) -> Self:
        apart("inbox", self.inbox, {"outbox": self.outbox, "archive": self.archive_place})
        return self

    @property
    def inbox_address(self) -> str:
        """The address of an inbox in an object store; empty for a folder."""
        return address_of(self.inbox)

    @property
    def outbox_address(self) -> str:
        """The address of an outbox in an object store; empty for a folder."""
        return address_of(self.outbox)

    @property
    def outbox_here(self) -> Path:
        """The folder in which reports are written: the outbox, or where they lie on this machine before they go to it."""
        return self.state / "outbox" if self.outbox_address else self.outbox

    @property
    def archive_place(self) -> Path:
        """Where originals are kept."""
        if self.archive is not None:
            return self.archive
        both = self.inbox_address and self.outbox_address
        return self.outbox / "archive" if both else self.state / "archive"


class ReadingSettings(BaseModel):
    """Limits of a file, and of the process that reads it."""

    cell_length_max: PositiveInt = Field(32_767, description="Longest cell that is read, in characters")
    record_lines_max: PositiveInt = Field(
        100, description="A quoted value of a text file runs over so many lines at most"
    )
    columns_max: PositiveInt = Field(2_000, description="Most columns that are read of a sheet")
    blank_rows_max: PositiveInt = Field(1_000, description="Reading a sheet ends after so many blank rows in a row")
    reading_process: Literal["child", "none"] = Field(
        "child", description="Files are read in a process of their own, or (for debugging) in ours: child or none"
    )
    reading_memory_mb: PositiveInt = Field(1_024, description="Reading one file may take so much memory")
    reading_cpu_s: PositiveFloat = Field(60.0, description="One pass over a file may take so much computing time ...")
    reading_wall_s: PositiveFloat = Field(300.0, description="... its reader may give no answer for so long ...")
    reading_s_per_mb: NonNegativeFloat = Field(5.0, description="... and both limits grow so much with each MB of it")
    inflated_bytes_max: PositiveInt = Field(2_000_000_000, description="A workbook may unpack to this size at most")
    dates_years_back: NonNegativeInt = Field(
        10, description="Dates and times of records that lie more years before the run are pointed out; 0: none"
    )
    dates_years_ahead: NonNegativeInt = Field(5, description="... and those that lie more years after it; 0: none")
    parts_bytes_min: PositiveInt = Field(
        16_000_000,
        description="Text files of one drop with so many bytes together are translated by processes of their own ...",
    )
    translation_processes: NonNegativeInt = Field(
        0,
        description="... so many with the one that plans; 0: one for each core, 4 at most; 1: all is done in that one",
    )

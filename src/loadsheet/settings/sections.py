"""Sections of the settings for the way through: arrival, reading, translation, sending, verification, reconciliation.

Each section is named after the room that reads it. `operations` holds the sections around the run.
"""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)


class Section(BaseModel):
    """One table of the settings file, such as `[dispatch]`. An empty text stands for a setting that is not set, if its default is none."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_set(cls, values: Any) -> Any:
        return without_empty(cls, values) if isinstance(values, dict) else values


def without_empty(model: type[BaseModel], values: dict[str, Any]) -> dict[str, Any]:
    """The values without the empty texts of settings whose default is none."""
    unset = {name for name, field in model.model_fields.items() if field.default is None}
    return {name: value for name, value in values.items() if value != "" or name not in unset}


class ArrivalSettings(Section):
    """When a file is taken from the inbox."""

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
    arrived_since: datetime | None = Field(
        None,
        description="Files last changed before this moment (ISO 8601, local time) stay in the inbox; `run --since` sets it",
    )

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

    @field_validator("arrived_since", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value


class WatchSettings(Section):
    """How a watch notices files, and how long it pauses after a failure."""

    method: Literal["auto", "polling"] = Field(
        "auto", description="How `loadsheet watch` notices files: by events of the system, or by looking every `poll_s`"
    )
    poll_s: PositiveFloat = Field(5.0, description="Pause between two looks where the system tells of no events")
    rescan_s: PositiveFloat = Field(60.0, description="A watch looks at least so often, whatever the system tells")
    retry_s: PositiveFloat = Field(
        15.0, description="First pause of a watch after it could not go on, or with unknown entries; doubled each time"
    )
    retry_max_s: PositiveFloat = Field(900.0, description="Longest such pause")


class ReadingSettings(Section):
    """Limits of a file and of the process that reads it."""

    cell_length_max: PositiveInt = Field(32_767, description="Longest cell that is read, in characters")
    record_lines_max: PositiveInt = Field(
        100, description="A quoted value of a text file runs over so many lines at most"
    )
    columns_max: PositiveInt = Field(2_000, description="Most columns that are read of a sheet")
    blank_rows_max: PositiveInt = Field(1_000, description="Reading a sheet ends after so many blank rows in a row")
    process: Literal["child", "none"] = Field(
        "child", description="Files are read in a process of their own, or (for debugging) in ours: child or none"
    )
    memory_mb: PositiveInt = Field(1_024, description="Reading one file may take so much memory")
    cpu_s: PositiveFloat = Field(60.0, description="One pass over a file may take so much computing time ...")
    wall_s: PositiveFloat = Field(300.0, description="... its reader may give no answer for so long ...")
    s_per_mb: NonNegativeFloat = Field(5.0, description="... and both limits grow so much with each MB of it")
    inflated_bytes_max: PositiveInt = Field(2_000_000_000, description="A workbook may unpack to this size at most")
    dates_years_back: NonNegativeInt = Field(
        10, description="Dates and times of records that lie more years before the run are pointed out; 0: none"
    )
    dates_years_ahead: NonNegativeInt = Field(5, description="... and those that lie more years after it; 0: none")


class TranslationSettings(Section):
    """When large text files are translated by several processes."""

    parts_bytes_min: PositiveInt = Field(
        16_000_000,
        description="Text files of one drop with so many bytes together are translated by processes of their own ...",
    )
    processes: NonNegativeInt = Field(
        0,
        description="... so many with the one that plans; 0: one for each core, 4 at most; 1: all is done in that one",
    )


class LedgerSettings(Section):
    """Which ledgers are accepted."""

    allow_network: bool = Field(
        default=False, description="Let the ledger lie on a network file system, where a crash can lose what it knows"
    )
    accept_older: bool = Field(
        default=False,
        description="Take a ledger that was put back from a backup; what it would have sent is unknown and looked for first",
    )


class DispatchSettings(Section):
    """Connections, timeouts, pace, and when sending stops."""

    allow_insecure: bool = Field(
        default=False, description="Allow http:// to another machine: the token travels in the clear"
    )
    proxy: SecretStr | None = Field(
        None,
        description=(
            "Proxy for calls to the exchange: http://host:port or http://user:password@host:port; environment: as HTTPS_PROXY, "
            "HTTP_PROXY and NO_PROXY say; empty: none"
        ),
    )
    ca_bundle: Path | None = Field(
        None,
        description=(
            "Certificates (a PEM file, or a folder made with openssl rehash) of the authorities to trust instead of the bundled ones "
            "and those of the system"
        ),
    )
    client_certificate: Path | None = Field(
        None, description="PEM file with the certificate that identifies loadsheet to the exchange, and perhaps its key"
    )
    client_key: Path | None = Field(
        None,
        description="PEM file with the key of client_certificate, not encrypted; empty: the key is in the same file",
    )
    connections: PositiveInt = Field(8, description="Most calls to the exchange at the same time")
    connections_start: PositiveInt = Field(
        2,
        description=(
            "So many at first, later as many as the last run at this exchange settled on; more while answers come as fast as before, "
            "half after a 429, a 503 or no answer"
        ),
    )
    connect_timeout_s: PositiveFloat = Field(10.0, description="Limit for connecting to the exchange")
    call_timeout_s: PositiveFloat = Field(60.0, description="Limit for a whole call, answer included")
    idle_connection_s: PositiveFloat = Field(4.0, description="A connection idle for longer is not used again")
    answer_bytes_max: PositiveInt = Field(268_435_456, description="Largest answer that is read, unpacked")
    listing_bytes_max: PositiveInt = Field(
        8_589_934_592,
        description="Largest listing that is read; what exceeds 8 MB is kept in the folder for temporary files",
    )
    listing_timeout_s: PositiveFloat = Field(900.0, description="Limit for reading a listing, however long it is")
    retry_after_max_s: PositiveFloat = Field(3600.0, description="Longest pause that the exchange may ask for")
    unreachable_max: PositiveInt = Field(5, description="So many calls in a row that reach nobody end the sending")
    unknown_max: PositiveInt = Field(20, description="So many calls in a row without a clear answer end the sending")
    outstanding_unknown_max: PositiveInt = Field(
        20, description="With so many unknown outcomes at the same time nothing more is created; the rest goes on"
    )
    window: PositiveInt = Field(
        256, description="Most entries marked as sending at the same time: so many can be unknown after a power cut"
    )
    canary: NonNegativeInt = Field(
        3,
        description=(
            "So many records of a mapping, or of a folder of the inbox, never accepted before go alone first; if all are refused the rest is "
            "held (0: off)"
        ),
    )
    error_share_max: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Nothing of a drop is sent if more than this share of its records is invalid (0 to 1; 1: off)",
    )
    run_entries_max: NonNegativeInt = Field(
        0, description="So many entries a run sends at most, the rest stays ready (0: all); `run --limit` sets it"
    )
    finish_by: str = Field(
        "",
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
        description="Local time (HH:MM) by which sending should be over; empty: none",
    )


class VerificationSettings(Section):
    """What counts as evidence after an unknown outcome, and what follows from it."""

    parents: Literal["look", "wait", "send"] = Field(
        "look",
        description="What may leave before its order or tender was accepted here: what a listing shows (look), nothing, all",
    )
    quiesce_s: NonNegativeFloat = Field(
        900.0, description="After a lost answer: no conclusion from absence and no second call for so long"
    )
    status_quiesce_s: NonNegativeFloat = Field(120.0, description="The same for status updates, which no listing shows")
    confirm_gap_s: NonNegativeFloat = Field(
        60.0, description="Absence is proved by two looks at the listing that lie so far apart"
    )
    fresh_witness: Literal["preferred", "required", "off"] = Field(
        "preferred",
        description="Must a listing that proves absence show a record accepted after the answer was lost? Preferred: said only",
    )
    create_after_absent: Literal["review", "resend"] = Field(
        "review", description="A create that is proved absent: a person decides, or it is sent again"
    )
    trust_quiesce: bool = Field(
        default=False,
        description="We vouch that the exchange applies nothing later than quiesce_s: lets creates be resent",
    )
    update_resend: bool = Field(
        default=True, description="An update is sent again when the listing shows its record as it was before"
    )
    delete_resend: bool = Field(
        default=True, description="A delete is sent again when the listing shows its record as it was before"
    )
    quote_on_unknown: Literal["review", "resend_once"] = Field(
        "review", description="A quote whose answer was lost: a person decides, or it is sent once more"
    )
    status_on_unknown: Literal["resend", "review"] = Field(
        "resend",
        description="A status update whose answer was lost: sent once more and named as possibly doubled, or not",
    )
    sends_max: PositiveInt = Field(3, description="Updates and deletes are sent at most so often")
    create_sends_max: PositiveInt = Field(2, description="Creates are sent at most so often")


class ReconcileSettings(Section):
    """Tolerances of the reconciliation."""

    weight_tolerance: NonNegativeFloat = Field(0.001, description="Weights and volumes that differ by no more agree")
    money_tolerance: NonNegativeFloat = Field(0.01, description="Amounts of money that differ by no more agree")
    unverified_share_max: float = Field(
        0.1,
        ge=0,
        le=1,
        description=(
            "Exit code 1 if more than this share of the documents cannot be verified because the exchange does not list all records (0 to 1; "
            "1: off)"
        ),
    )


class ServerSettings(Section):
    """Limits of our own exchange."""

    connections_max: PositiveInt = Field(
        1000, description="Our exchange: connections at the same time; another one is answered 429"
    )
    header_bytes_max: PositiveInt = Field(
        16_384, description="Our exchange: size of a request's first line and headers; a larger one is answered 400"
    )
    header_s: PositiveFloat = Field(10.0, description="Our exchange: time for the headers of a request")
    body_s: PositiveFloat = Field(30.0, description="Our exchange: time for the body of a request")
    send_s: PositiveFloat = Field(60.0, description="Our exchange: time a client may stop reading its answer")
    keep_alive_s: PositiveFloat = Field(5.0, description="Our exchange: a connection idle for longer is closed")
    calls_per_second: NonNegativeFloat = Field(
        0.0,
        description="Our exchange: calls a second for each token, in each server process (0: no limit); more are answered 429",
    )
    wrong_tokens_per_second: NonNegativeFloat = Field(
        10.0,
        description="Our exchange: refused tokens a second for each address and for each token (0: no limit); more wait up to 2 s, beyond that they are 429s",
    )
    database_s: PositiveFloat = Field(
        10.0,
        description="Our exchange: time to wait for its database, for an answer of PostgreSQL twice that; then calls are answered 503",
    )
    docs: Literal["open", "login"] = Field(
        "open", description="Who may read the manual and the OpenAPI document of `exchange serve`: all, or after login"
    )

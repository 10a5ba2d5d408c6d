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

    settle_s: NonNegativeFloat = Field(5.0, description="Seconds a file must be unchanged before it is claimed")
    done_marker: str = Field(
        "",
        description="Name of the file that marks a file as complete, such as `{name}.done`; empty: no marker",
    )
    unfinished_wait_s: NonNegativeFloat = Field(
        60.0, description="Seconds to wait before an empty file, or a workbook without its end, is set aside"
    )
    companion_wait_s: PositiveFloat = Field(
        86_400.0, description="Seconds after which a file that waits for its companion is reported as overdue"
    )
    file_bytes_max: PositiveInt = Field(10_000_000_000, description="Larger files stay in the inbox and are reported")
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
        "auto", description="How `loadsheet watch` notices files: by file system events, or by scanning every `poll_s`"
    )
    poll_s: PositiveFloat = Field(5.0, description="Seconds between two scans where there are no file system events")
    rescan_s: PositiveFloat = Field(60.0, description="Longest time between two scans, with or without events")
    retry_s: PositiveFloat = Field(
        15.0, description="First pause of a watch after a temporary failure or with unknown outcomes; doubled each time"
    )
    retry_max_s: PositiveFloat = Field(900.0, description="Longest pause of a watch")


class ReadingSettings(Section):
    """Limits of a file and of the process that reads it."""

    cell_length_max: PositiveInt = Field(32_767, description="Longest cell, in characters")
    record_lines_max: PositiveInt = Field(100, description="Most lines of a quoted value in a text file")
    columns_max: PositiveInt = Field(2_000, description="Most columns of a sheet")
    blank_rows_max: PositiveInt = Field(1_000, description="Reading a sheet ends after this many blank rows in a row")
    process: Literal["child", "none"] = Field(
        "child",
        description="Where files are read: in a sandboxed child process, or (none, for debugging) in this process",
    )
    memory_mb: PositiveInt = Field(1_024, description="Memory limit for reading one file")
    cpu_s: PositiveFloat = Field(60.0, description="CPU time limit for one pass over a file")
    wall_s: PositiveFloat = Field(
        300.0, description="Seconds without an answer after which the reading process is stopped"
    )
    s_per_mb: NonNegativeFloat = Field(5.0, description="Seconds added to both limits for each MB of the file")
    inflated_bytes_max: PositiveInt = Field(2_000_000_000, description="Largest unpacked size of a workbook")
    dates_years_back: NonNegativeInt = Field(
        10, description="Warn about dates more than this many years before the run; 0: never"
    )
    dates_years_ahead: NonNegativeInt = Field(
        5, description="Warn about dates more than this many years after the run; 0: never"
    )


class TranslationSettings(Section):
    """When large text files are translated by several processes."""

    parts_bytes_min: PositiveInt = Field(
        16_000_000,
        description="Text files of one drop that together reach this size are translated by several processes",
    )
    processes: NonNegativeInt = Field(
        0,
        description="Number of processes that translate large files; 0: one for each core, at most 4; 1: this process alone",
    )


class LedgerSettings(Section):
    """Which ledgers are accepted."""

    allow_network: bool = Field(
        default=False, description="Allow the ledger on a network file system, where a crash can damage it"
    )
    accept_older: bool = Field(
        default=False,
        description="Accept a ledger that was restored from a backup; what it would have sent is unknown and verified first",
    )


class DispatchSettings(Section):
    """Connections, timeouts, pace, and when sending stops."""

    allow_insecure: bool = Field(
        default=False, description="Allow http:// to another machine; the token is then sent unencrypted"
    )
    proxy: SecretStr | None = Field(
        None,
        description=(
            "Proxy for calls to the exchange: http://host:port or http://user:password@host:port; environment: use "
            "HTTPS_PROXY, HTTP_PROXY and NO_PROXY; empty: none"
        ),
    )
    ca_bundle: Path | None = Field(
        None,
        description=(
            "Certificates of the trusted authorities (a PEM file, or a folder made with openssl rehash), instead of the "
            "bundled ones and those of the system"
        ),
    )
    client_certificate: Path | None = Field(
        None,
        description="PEM file with the certificate that identifies loadsheet to the exchange; it may also contain the key",
    )
    client_key: Path | None = Field(
        None,
        description="PEM file with the unencrypted key of client_certificate; empty: the key is in the same file",
    )
    connections: PositiveInt = Field(8, description="Most concurrent calls to the exchange")
    connections_start: PositiveInt = Field(
        2,
        description=(
            "Initial number of concurrent calls, if no earlier run at this exchange settled on one. Doubles while latency "
            "is stable, halves after 429, 503 or a lost answer"
        ),
    )
    connect_timeout_s: PositiveFloat = Field(10.0, description="Time limit for connecting to the exchange")
    call_timeout_s: PositiveFloat = Field(60.0, description="Time limit for a whole call, including the response")
    idle_connection_s: PositiveFloat = Field(4.0, description="A connection that was idle for longer is not reused")
    answer_bytes_max: PositiveInt = Field(268_435_456, description="Largest response, unpacked")
    listing_bytes_max: PositiveInt = Field(
        8_589_934_592,
        description="Largest listing; above 8 MB it is kept in a temporary file",
    )
    listing_timeout_s: PositiveFloat = Field(900.0, description="Time limit for reading a listing")
    retry_after_max_s: PositiveFloat = Field(3600.0, description="Longest Retry-After that is obeyed")
    unreachable_max: PositiveInt = Field(
        5, description="Sending ends after this many calls in a row that did not reach the exchange"
    )
    unknown_max: PositiveInt = Field(
        20, description="Sending ends after this many calls in a row with an unknown outcome"
    )
    outstanding_unknown_max: PositiveInt = Field(
        20, description="No more records are created while this many outcomes are unknown; other calls continue"
    )
    window: PositiveInt = Field(
        256, description="Most entries marked as sending at the same time; so many can be unknown after a power failure"
    )
    canary: NonNegativeInt = Field(
        3,
        description=(
            "Number of records that are sent first if no record of their mapping or inbox folder was ever accepted; if all "
            "are refused, the rest is held (0: off)"
        ),
    )
    error_share_max: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Nothing of a drop is sent if a larger share of its records is invalid (0 to 1; 1: off)",
    )
    run_entries_max: NonNegativeInt = Field(
        0, description="Most entries that one run sends; the rest stays ready (0: no limit); `run --limit` sets it"
    )
    finish_by: str = Field(
        "",
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
        description="Local time (HH:MM) by which sending should be finished; empty: none",
    )


class VerificationSettings(Section):
    """What counts as evidence after an unknown outcome, and what follows from it."""

    parents: Literal["look", "wait", "send"] = Field(
        "look",
        description=(
            "Which entries may be sent before their order or tender was accepted here: those whose parent a listing shows "
            "(look), none (wait), all (send)"
        ),
    )
    quiesce_s: NonNegativeFloat = Field(
        900.0, description="Seconds after a lost answer in which absence proves nothing and nothing is sent again"
    )
    status_quiesce_s: NonNegativeFloat = Field(
        120.0, description="The same for status updates, which appear in no listing"
    )
    confirm_gap_s: NonNegativeFloat = Field(
        60.0, description="Seconds between the two listings that must both lack a record to prove its absence"
    )
    fresh_witness: Literal["preferred", "required", "off"] = Field(
        "preferred",
        description=(
            "Whether a listing that proves absence must show a record accepted after the answer was lost; preferred: only "
            "reported"
        ),
    )
    create_after_absent: Literal["review", "resend"] = Field(
        "review", description="A create that is proved absent: a person decides (review), or it is sent again (resend)"
    )
    trust_quiesce: bool = Field(
        default=False,
        description="Rely on the exchange to apply nothing later than quiesce_s, so that creates may be sent again",
    )
    update_resend: bool = Field(
        default=True, description="Send an update again when the listing shows the record unchanged"
    )
    delete_resend: bool = Field(
        default=True, description="Send a delete again when the listing still shows the record unchanged"
    )
    quote_on_unknown: Literal["review", "resend_once"] = Field(
        "review",
        description="A quote with a lost answer: a person decides (review), or it is sent once more (resend_once)",
    )
    status_on_unknown: Literal["resend", "review"] = Field(
        "resend",
        description=(
            "A status update with a lost answer: sent once more and reported as a possible duplicate (resend), or a person "
            "decides (review)"
        ),
    )
    sends_max: PositiveInt = Field(3, description="Most times that an update or delete is sent")
    create_sends_max: PositiveInt = Field(2, description="Most times that a create is sent")


class ReconcileSettings(Section):
    """Tolerances of the reconciliation."""

    weight_tolerance: NonNegativeFloat = Field(
        0.001, description="Largest difference of weights and volumes that counts as equal"
    )
    money_tolerance: NonNegativeFloat = Field(0.01, description="Largest difference of amounts that counts as equal")
    unverified_share_max: float = Field(
        0.1,
        ge=0,
        le=1,
        description=(
            "Exit code 1 if a larger share of the documents cannot be verified because the exchange does not list all "
            "records (0 to 1; 1: off)"
        ),
    )


class ServerSettings(Section):
    """Limits of our own exchange."""

    connections_max: PositiveInt = Field(
        1000, description="Our exchange: most concurrent connections; further ones get 429"
    )
    header_bytes_max: PositiveInt = Field(
        16_384, description="Our exchange: largest request line with headers; larger ones get 400"
    )
    header_s: PositiveFloat = Field(10.0, description="Our exchange: time limit for the headers of a request")
    body_s: PositiveFloat = Field(30.0, description="Our exchange: time limit for the body of a request")
    send_s: PositiveFloat = Field(
        60.0, description="Our exchange: time for which a client may stop reading its response"
    )
    keep_alive_s: PositiveFloat = Field(5.0, description="Our exchange: time after which an idle connection is closed")
    calls_per_second: NonNegativeFloat = Field(
        0.0,
        description="Our exchange: calls per second for each token, in each server process (0: no limit); further ones get 429",
    )
    wrong_tokens_per_second: NonNegativeFloat = Field(
        10.0,
        description=(
            "Our exchange: wrong tokens per second, for each address and for each token (0: no limit); further ones wait up"
            " to 2 s, then get 429"
        ),
    )
    database_s: PositiveFloat = Field(
        10.0,
        description="Our exchange: time limit for its database, twice that for a response of PostgreSQL; then calls get 503",
    )
    docs: Literal["open", "login"] = Field(
        "open",
        description="Who may read the manual and the OpenAPI document of `exchange serve`: everybody (open), or after login",
    )

"""The sections of settings for the stages of a run up to the reconciliation, in their order (arrival and watch concern the inbox,
verification belongs to dispatch), and for our own exchange (server).

`operations_sections` has those for the reports and for what happens around a run. The old names of settings are at the end.
"""

from collections.abc import Mapping
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
    """One table of the settings file, such as `[dispatch]`. An empty text means not set, if the default is none."""

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
    """When a file is claimed from the inbox."""

    settle_s: NonNegativeFloat = Field(5.0, description="Seconds without a change before a file is claimed")
    done_marker: str = Field(
        "",
        description="Name of the marker file that says a file is complete, such as `{name}.done`. Empty: no marker is needed",
    )
    unfinished_wait_s: NonNegativeFloat = Field(
        60.0, description="Seconds before an empty file or a truncated workbook is set aside"
    )
    companion_wait_s: PositiveFloat = Field(
        86_400.0, description="Seconds before a file that waits for its companion is reported as overdue"
    )
    file_bytes_max: PositiveInt = Field(
        10_000_000_000,
        description="Largest file that is claimed, in bytes. Larger files stay in the inbox and are reported",
    )
    run_files_max: NonNegativeInt = Field(
        0,
        description="Most files that a run takes, oldest first. Files that are read together stay together. The rest stays in the inbox for the next run. 0: no limit",
    )
    run_bytes_max: NonNegativeInt = Field(0, description="The same as a size in bytes, all files of a run together")
    check_folder: Path | None = Field(
        None,
        description="Folder whose files are only checked: each is answered there with what a run would do. Nothing is sent. Empty: none",
    )
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
        description="Files last changed before this time (ISO 8601, local time) stay in the inbox. Set by `run --since`",
    )

    @property
    def limits_runs(self) -> bool:
        """Whether a run may leave finished files for the next one."""
        return bool(self.run_files_max or self.run_bytes_max)

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


class WatchSettings(Section):
    """How a watch notices files, and how long it pauses after a failure."""

    method: Literal["auto", "polling"] = Field(
        "auto",
        description="How `loadsheet watch` notices files: by events of the operating system, or by polling every `poll_s`",
    )
    poll_s: PositiveFloat = Field(
        5.0, description="Seconds between two scans where the operating system reports no events"
    )
    rescan_s: PositiveFloat = Field(
        60.0, description="Seconds after which a watch scans the inbox even without an event"
    )
    retry_s: PositiveFloat = Field(
        15.0, description="Seconds before a watch retries after a failure or with unknown entries. Doubles each time"
    )
    retry_max_s: PositiveFloat = Field(900.0, description="Longest such pause, in seconds")


class ReadingSettings(Section):
    """Limits of a file and of the process that reads it."""

    cell_length_max: PositiveInt = Field(32_767, description="Longest cell that is read, in characters")
    record_lines_max: PositiveInt = Field(100, description="Most lines that a quoted value of a text file may span")
    columns_max: PositiveInt = Field(2_000, description="Most columns that are read from a sheet")
    blank_rows_max: PositiveInt = Field(1_000, description="Blank rows in a row after which reading a sheet ends")
    process: Literal["child", "none"] = Field(
        "child", description="Read files in a separate process (child) or, for debugging, in the main process (none)"
    )
    memory_mb: PositiveInt = Field(1_024, description="Memory limit for reading one file, in MB")
    cpu_s: PositiveFloat = Field(60.0, description="CPU seconds to read one file")
    wall_s: PositiveFloat = Field(300.0, description="Seconds without a response before the reading process is stopped")
    s_per_mb: NonNegativeFloat = Field(
        15.0, description="Seconds added to both limits for each MB of the file: it is read up to four times"
    )
    inflated_bytes_max: PositiveInt = Field(2_000_000_000, description="Largest size of an unpacked workbook, in bytes")
    dates_years_back: NonNegativeInt = Field(
        10, description="Dates more than this many years before the run are reported. 0: none"
    )
    dates_years_ahead: NonNegativeInt = Field(
        5, description="Dates more than this many years after the run are reported. 0: none"
    )


class LedgerSettings(Section):
    """Which ledgers are accepted, and who may decide about their records."""

    allow_network: bool = Field(
        default=False, description="Allow the ledger on a network file system, where a crash can lose data"
    )
    accept_older: bool = Field(
        default=False,
        description="Accept a ledger restored from a backup. Entries that were ready in it become unknown and are verified first",
    )
    deciders: tuple[str, ...] = Field(
        (),
        description="Users of this machine, and groups as @GROUP, who may decide with `resolve` and `retry`. Empty: everyone who can write the ledger",
    )


class DispatchSettings(Section):
    """Connections, timeouts, concurrency, and when sending stops."""

    allow_insecure: bool = Field(
        default=False, description="Allow http:// to another machine. The token travels unencrypted"
    )
    proxy: SecretStr | None = Field(
        None,
        description=(
            "Proxy for calls to the exchange: http://host:port or http://user:password@host:port. environment: "
            "use HTTPS_PROXY, HTTP_PROXY and NO_PROXY. Empty: none"
        ),
    )
    ca_bundle: Path | None = Field(
        None,
        description="Certificates of the trusted authorities (a PEM file, or a folder made with openssl rehash), instead of the bundled ones and those of the system",
    )
    client_certificate: Path | None = Field(
        None,
        description="PEM file with the certificate that identifies loadsheet to the exchange. It may also hold the key",
    )
    client_key: Path | None = Field(
        None,
        description="PEM file with the unencrypted key of client_certificate. Empty: the key is in the same file",
    )
    connections: PositiveInt = Field(8, description="Most concurrent calls to the exchange")
    connections_start: PositiveInt = Field(
        2,
        description=(
            "Initial number of concurrent calls. Later runs start where the last one at this exchange ended. "
            "Doubles while latency is stable, halves after 429, 503 or a timeout"
        ),
    )
    connect_timeout_s: PositiveFloat = Field(10.0, description="Seconds to connect to the exchange")
    call_timeout_s: PositiveFloat = Field(60.0, description="Seconds for a whole call, answer included")
    idle_connection_s: PositiveFloat = Field(
        4.0, description="Seconds after which an idle connection is not used again"
    )
    answer_bytes_max: PositiveInt = Field(16_777_216, description="Largest answer, unpacked, in bytes")
    listing_bytes_max: PositiveInt = Field(
        8_589_934_592,
        description="Largest listing, in bytes. What exceeds 8 MB is kept in the folder for temporary files",
    )
    listing_timeout_s: PositiveFloat = Field(900.0, description="Seconds to read a listing of any length")
    retry_after_max_s: PositiveFloat = Field(
        3600.0, description="Longest pause that the exchange may ask for, in seconds"
    )
    unreachable_max: PositiveInt = Field(5, description="Failed connections in a row after which sending stops")
    unknown_max: PositiveInt = Field(20, description="Calls without a clear answer in a row after which sending stops")
    outstanding_unknown_max: PositiveInt = Field(
        20, description="Number of unknown outcomes from which nothing more is created. Other calls continue"
    )
    window: PositiveInt = Field(
        256,
        description="Most entries marked as sending at the same time. After a power cut at most this many are unknown",
    )
    canary: NonNegativeInt = Field(
        3,
        description="Records of a mapping or inbox folder without an accepted record that are sent first. If all are refused, the rest is held. 0: off",
    )
    error_share_max: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of invalid records (0 to 1) above which nothing of a drop is sent. 1: off",
    )
    run_entries_max: NonNegativeInt = Field(
        0, description="Most entries that a run sends. The rest stays ready. 0: no limit. Set by `run --limit`"
    )
    finish_by: str = Field(
        "",
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
        description="Local time (HH:MM) at which sending should end. Empty: no limit",
    )


class VerificationSettings(Section):
    """What counts as evidence after an unknown outcome, and what is done then."""

    parents: Literal["look", "wait", "send"] = Field(
        "look",
        description="What may be sent before its order or tender was accepted here: what a listing shows (look), nothing (wait), everything (send)",
    )
    quiesce_s: NonNegativeFloat = Field(
        900.0, description="Seconds after a lost answer before absence counts as evidence or a call is repeated"
    )
    status_quiesce_s: NonNegativeFloat = Field(
        120.0, description="Seconds after a lost answer before a status update, which no listing shows, is repeated"
    )
    confirm_gap_s: NonNegativeFloat = Field(
        60.0, description="Seconds between the two listings that together prove absence"
    )
    fresh_witness: Literal["preferred", "required", "off"] = Field(
        "preferred",
        description="Whether a listing that proves absence must show a record accepted after the lost answer. preferred: a missing one is only mentioned",
    )
    create_after_absent: Literal["review", "resend"] = Field(
        "review",
        description="What happens to a create that is proved absent: a person decides (review) or it is sent again (resend)",
    )
    trust_quiesce: bool = Field(
        default=False,
        description="Vouch that the exchange applies nothing later than quiesce_s. Allows creates to be resent",
    )
    update_resend: bool = Field(
        default=True, description="Send an update again when the listing shows its record unchanged"
    )
    delete_resend: bool = Field(default=True, description="Send a delete again when the listing still shows its record")
    quote_on_unknown: Literal["review", "resend_once"] = Field(
        "review",
        description="What happens to a quote whose answer was lost: a person decides (review) or it is sent once more (resend_once)",
    )
    status_on_unknown: Literal["resend", "review"] = Field(
        "resend",
        description=(
            "What happens to a status update whose answer was lost: it is sent once more and reported as a "
            "possible duplicate (resend), or a person decides (review)"
        ),
    )
    sends_max: PositiveInt = Field(3, description="Most times that an update or a delete is sent")
    create_sends_max: PositiveInt = Field(2, description="Most times that a create is sent")


class ReconcileSettings(Section):
    """Tolerances of the reconciliation."""

    weight_tolerance: NonNegativeFloat = Field(
        0.001, description="Largest difference of weights and volumes that still agree"
    )
    money_tolerance: NonNegativeFloat = Field(
        0.01, description="Largest difference of amounts of money that still agree"
    )
    unverified_share_max: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of documents (0 to 1) above which a run ends with exit code 1 because the exchange does not list all records. 1: off",
    )


class ServerSettings(Section):
    """Limits of our own exchange."""

    connections_max: PositiveInt = Field(
        1000, description="Most concurrent connections to our exchange. Further ones are answered 429"
    )
    header_bytes_max: PositiveInt = Field(
        16_384,
        description="Largest first line and headers of a request to our exchange, in bytes. A larger one is answered 400",
    )
    header_s: PositiveFloat = Field(
        10.0, description="Seconds in which our exchange must receive the headers of a request"
    )
    body_s: PositiveFloat = Field(30.0, description="Seconds in which our exchange must receive the body of a request")
    send_s: PositiveFloat = Field(
        60.0, description="Seconds for which a client of our exchange may stop reading its answer"
    )
    keep_alive_s: PositiveFloat = Field(5.0, description="Seconds after which our exchange closes an idle connection")
    calls_per_second: NonNegativeFloat = Field(
        0.0,
        description="Calls a second for each token, in each process of our exchange. More are answered 429. 0: no limit",
    )
    wrong_tokens_per_second: NonNegativeFloat = Field(
        10.0,
        description="Unauthorised calls a second for each address and each token at our exchange. Further answers are delayed up to 2 s, then 429. 0: no limit",
    )
    database_s: PositiveFloat = Field(
        10.0,
        description="Seconds for which our exchange waits for its database, twice that for an answer of PostgreSQL. Then calls are answered 503",
    )
    docs: Literal["open", "login"] = Field(
        "open",
        description="Who may read the manual and the OpenAPI document of `exchange serve`: everyone (open), or users after login",
    )


# ---- old names: accepted until 0.7.0, from files and variables with a warning, from Python without ----

_SAME = {
    "arrival": "settle_s done_marker unfinished_wait_s companion_wait_s file_bytes_max ignore arrived_since",
    "watch": "poll_s rescan_s retry_s retry_max_s",
    "reading": "cell_length_max record_lines_max columns_max blank_rows_max inflated_bytes_max dates_years_back dates_years_ahead",
    "dispatch": "allow_insecure proxy ca_bundle client_certificate client_key connections connections_start connect_timeout_s call_timeout_s idle_connection_s answer_bytes_max listing_bytes_max listing_timeout_s retry_after_max_s unreachable_max unknown_max outstanding_unknown_max window canary error_share_max run_entries_max finish_by",
    "verification": "parents quiesce_s status_quiesce_s confirm_gap_s fresh_witness create_after_absent trust_quiesce update_resend delete_resend quote_on_unknown status_on_unknown sends_max create_sends_max",
    "reconcile": "weight_tolerance money_tolerance unverified_share_max",
    "reports": "page_documents_max index_runs_max working_days feedback fix_rows_max language",
    "retention": "archive_days payload_days reports_days log_days backups",
    "notifications": "digest_at ping_url ping_timeout_s fixes_to fixes_mail",
    "expected_files": "expect runs_due_s",
    "schedules": "catch_up_s",
    "monitoring": "log_level log_format metrics_file health_address health_stale_s otlp_endpoint",
    "run_archive": "capsules capsule_days",
    "cluster": "database_schema takeover_s worker_places jobs_days",
}
OLD_NAMES: dict[str, tuple[str, str]] = {
    **{name: (section, name) for section, names in _SAME.items() for name in names.split()},
    "watch_with": ("watch", "method"),
    "reading_process": ("reading", "process"),
    "reading_memory_mb": ("reading", "memory_mb"),
    "reading_cpu_s": ("reading", "cpu_s"),
    "reading_wall_s": ("reading", "wall_s"),
    "reading_s_per_mb": ("reading", "s_per_mb"),
    "allow_network_ledger": ("ledger", "allow_network"),
    "accept_older_ledger": ("ledger", "accept_older"),
    "exchange_connections_max": ("server", "connections_max"),
    "exchange_header_bytes_max": ("server", "header_bytes_max"),
    "exchange_header_s": ("server", "header_s"),
    "exchange_body_s": ("server", "body_s"),
    "exchange_send_s": ("server", "send_s"),
    "exchange_keep_alive_s": ("server", "keep_alive_s"),
    "exchange_calls_per_second": ("server", "calls_per_second"),
    "exchange_wrong_tokens_per_second": ("server", "wrong_tokens_per_second"),
    "exchange_database_s": ("server", "database_s"),
    "exchange_docs": ("server", "docs"),
    "notify": ("notifications", "urls"),
    "notify_file": ("notifications", "urls_file"),
    "notify_after": ("notifications", "after"),
    "notify_again_days": ("notifications", "again_days"),
    "notify_owners": ("notifications", "owners"),
    "schedule": ("schedules", "cron"),
    "schedule_zone": ("schedules", "timezone"),
}

RETIRED = {
    "batch_entries": "one process does a whole run",
    "parts_bytes_min": "one process translates a file",
    "translation_processes": "one process translates a file",
    "worker_wait_s": "a run needs no worker",
}
"""Settings of 0.5.0 that have no effect any more, and why. Accepted with a warning until 0.7.0."""


def in_sections(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with old names moved into their sections and retired ones removed. For callers in Python (`Settings(window=3)`); `sources`
    converts those of files and variables.
    """
    found = {name: value for name, value in values.items() if name not in OLD_NAMES and name not in RETIRED}
    for old in OLD_NAMES.keys() & values.keys():
        section, name = OLD_NAMES[old]
        there = found.get(section, {})
        table = (
            there if isinstance(there, Mapping) else {field: getattr(there, field) for field in there.model_fields_set}
        )
        found[section] = {**table, name: values[old]}
    return found

"""Every setting once: its name, default and meaning.

Precedence: command line > `LOADSHEET_*` environment > `loadsheet.toml` > the capabilities file (assumptions only) > the defaults
here. Units stand at the end of names.
"""

import difflib
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from loadsheet.capabilities import assumptions_for
from loadsheet.contract import Assumptions
from loadsheet.problems import SettingsError

EMBEDDED = "embedded"
CONFIG_FILE = Path("loadsheet.toml")


class Settings(BaseSettings):
    """All settings of translator and exchange. Build one with `Settings.load`."""

    model_config = SettingsConfigDict(
        env_prefix="LOADSHEET_", env_nested_delimiter="__", extra="forbid", frozen=True, validate_default=True
    )
    config_file: ClassVar[Path] = CONFIG_FILE

    inbox: Path = Field(Path("inbox"), description="Folder in which shippers drop files")
    mappings: Path = Field(Path("mappings"), description="Folder of mapping files")
    outbox: Path = Field(Path("outbox"), description="Folder for reports and for files set aside")
    state: Path = Field(Path(".loadsheet"), description="Folder of ledger, archive and claimed files; on a local disk")
    exchange: str = Field(EMBEDDED, description="Base URL of the exchange, or 'embedded' for our own in this process")
    capabilities: Path | None = Field(
        None, description="File in which `loadsheet exchange probe` wrote what that exchange does: its assumptions"
    )
    token: SecretStr | None = Field(None, description="Bearer token; from the environment, never the command line")
    token_file: Path | None = Field(None, description="File whose first line is the bearer token")
    token_command: str = Field(
        "", description="Command that prints the bearer token; asked again when the exchange refuses the one it gave"
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
    watch_with: Literal["auto", "polling"] = Field(
        "auto", description="How `loadsheet watch` notices files: by events of the system, or by looking every `poll_s`"
    )
    poll_s: PositiveFloat = Field(5.0, description="Pause between two looks where the system tells of no events")
    rescan_s: PositiveFloat = Field(60.0, description="A watch looks at least so often, whatever the system tells")
    retry_s: PositiveFloat = Field(
        15.0, description="First pause of a watch after it could not go on, or with unknown entries; doubled each time"
    )
    retry_max_s: PositiveFloat = Field(900.0, description="Longest such pause")
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

    allow_insecure: bool = Field(
        default=False, description="Allow http:// to another machine: the token travels in the clear"
    )
    connections: PositiveInt = Field(8, description="Most calls to the exchange at the same time")
    connections_start: PositiveInt = Field(
        2,
        description="So many at first; more while answers come as fast as before, half after a 429, a 503 or no answer",
    )
    connect_timeout_s: PositiveFloat = Field(10.0, description="Limit for connecting to the exchange")
    call_timeout_s: PositiveFloat = Field(60.0, description="Limit for a whole call, answer included")
    idle_connection_s: PositiveFloat = Field(4.0, description="A connection idle for longer is not used again")
    answer_bytes_max: PositiveInt = Field(268_435_456, description="Largest answer that is read, unpacked")
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
        description="So many records of a mapping never accepted before go alone first; if all are refused the rest is held (0: off)",
    )
    error_share_max: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Nothing of a drop is sent if more than this share of its records is invalid (0 to 1; 1: off)",
    )
    finish_by: str = Field(
        "",
        pattern=r"^(([01]\d|2[0-3]):[0-5]\d)?$",
        description="Local time (HH:MM) by which sending should be over; empty: none",
    )

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

    exchange_connections_max: PositiveInt = Field(
        1000, description="Our exchange: connections at the same time; another one is answered 429"
    )
    exchange_header_bytes_max: PositiveInt = Field(
        16_384, description="Our exchange: size of a request's first line and headers; a larger one is answered 400"
    )
    exchange_header_s: PositiveFloat = Field(10.0, description="Our exchange: time for the headers of a request")
    exchange_body_s: PositiveFloat = Field(30.0, description="Our exchange: time for the body of a request")
    exchange_send_s: PositiveFloat = Field(60.0, description="Our exchange: time a client may stop reading its answer")
    exchange_keep_alive_s: PositiveFloat = Field(
        5.0, description="Our exchange: a connection idle for longer is closed"
    )
    exchange_calls_per_second: NonNegativeFloat = Field(
        0.0,
        description="Our exchange: calls a second for each token, in each server process (0: no limit); more are answered 429",
    )
    exchange_wrong_tokens_per_second: NonNegativeFloat = Field(
        10.0,
        description="Our exchange: 401s a second for each address (0: no limit); more wait up to 2 s, beyond that they are 429s",
    )
    exchange_database_s: PositiveFloat = Field(
        10.0,
        description="Our exchange: time to wait for its database, for an answer of PostgreSQL twice that; then calls are answered 503",
    )

    weight_tolerance: NonNegativeFloat = Field(0.001, description="Weights and volumes that differ by no more agree")
    money_tolerance: NonNegativeFloat = Field(0.01, description="Amounts of money that differ by no more agree")
    page_documents_max: PositiveInt = Field(
        300,
        description="So many documents run.html shows one by one, those that need someone first; it counts the others",
    )
    index_runs_max: PositiveInt = Field(100, description="So many runs index.html lists, the newest")

    working_days: str = Field(
        "",
        pattern=r"^([A-Z]{2}(-[A-Z0-9]{1,4})?)?$",
        description="Country (DE, or DE-SN with its part) whose holidays are no working days for the ages of exceptions; empty: Monday to Friday",
    )

    feedback: Literal["workbook", "csv", "both"] = Field(
        "workbook", description="What senders of text files get back to fix: a workbook, text like theirs, or both"
    )
    fix_rows_max: PositiveInt = Field(
        100_000,
        le=1_000_000,
        description="Of a text file, a fix workbook takes so many rows; further records go into text files beside it",
    )
    language: Literal["en", "de"] = Field(
        "en", description="Language of fix workbooks, where the mapping does not tell that of the sheet"
    )

    exchange_docs: Literal["open", "login"] = Field(
        "open", description="Who may read the manual and the OpenAPI document of `exchange serve`: all, or after login"
    )

    assumptions: Assumptions = Field(Assumptions(), description="Our answers to what the interface leaves open")

    @field_validator("done_marker")
    @classmethod
    def _names_its_file(cls, value: str) -> str:
        if value and ("/" in value or value.count("{name}") != 1 or value == "{name}"):
            raise ValueError("write {name} once and something around it, such as {name}.done")
        return value

    @field_validator("capabilities", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        for name in ("quiesce_s", "status_quiesce_s"):
            if getattr(self, name) < self.call_timeout_s:
                raise ValueError(
                    f"{name} ({getattr(self, name):g}) is shorter than call_timeout_s ({self.call_timeout_s:g}): a call may still be"
                    f" under way then; make {name} at least as long"
                )
        proved = self._found_out("create_existing", "reject", "replace")
        if self.create_after_absent == "resend" and not (self.trust_quiesce or proved):
            raise ValueError(
                "create_after_absent = resend doubles orders unless the exchange refuses or replaces a second create: find out"
                " with loadsheet exchange probe (capabilities), or set assumptions.create_existing, or trust_quiesce"
            )
        if self.quote_on_unknown == "resend_once" and not self._found_out("quote_existing", "replace"):
            raise ValueError(
                "quote_on_unknown = resend_once doubles quotes unless a second one replaces the first: find out with"
                " loadsheet exchange probe (capabilities), or set assumptions.quote_existing = replace"
            )
        return self

    def _found_out(self, assumption: str, *values: str) -> bool:
        """Whether a probe or a person gave this assumption one of these values: a default of ours is nobody's word."""
        return assumption in self.assumptions.model_fields_set and getattr(self.assumptions, assumption) in values

    @property
    def database_url(self) -> str:
        """The SQLAlchemy URL of the ledger."""
        return self.database or f"sqlite:///{self.state / 'ledger.db'}"

    @classmethod
    def load(cls, config: Path | None = None, **given: Any) -> Self:
        """Settings from all sources; `given` are the command line's, where None means not given.

        Raises SettingsError naming each wrong setting, and for an unknown one the closest that exists.
        """
        if config is not None and not config.is_file():
            raise SettingsError(f"settings file {config} does not exist")
        chosen = type(cls.__name__, (cls,), {"config_file": config or CONFIG_FILE, "__module__": cls.__module__})
        try:
            return chosen(**{name: value for name, value in given.items() if value is not None})  # type: ignore[no-any-return]
        except ValidationError as error:
            raise SettingsError(
                "\n".join(_explain(details["loc"], details["msg"]) for details in error.errors())
            ) from None
        except ValueError as error:  # a broken TOML file
            raise SettingsError(f"{config or CONFIG_FILE}: {error}") from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 (signature is pydantic-settings')
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line, then environment, then the settings file, then what the exchange was found to do."""
        file = TomlConfigSettingsSource(settings_cls, cls.config_file)
        return (init_settings, env_settings, file, _FromCapabilities(settings_cls))


class _FromCapabilities(PydanticBaseSettingsSource):
    """The assumptions of the capabilities file that the sources before this one name, for the exchange that they name."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 (pydantic-settings')
        """Nothing: all comes at once."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """The one setting that the file speaks of, or none."""
        path = self.current_state.get("capabilities")
        if path is None or path == "":
            return {}
        return {"assumptions": assumptions_for(str(self.current_state.get("exchange", EMBEDDED)), Path(path))}


def _explain(location: tuple[int | str, ...], message: str) -> str:
    if not location:  # several settings that do not go together
        return message.removeprefix("Value error, ")
    name = ".".join(str(step) for step in location)
    known = [*Settings.model_fields, *(f"assumptions.{inner}" for inner in Assumptions.model_fields)]
    if "Extra inputs" not in message:
        return f"{name}: {message}"
    close = difflib.get_close_matches(name, known, n=1)
    return f"{name}: there is no such setting" + (f"; did you mean {close[0]}?" if close else "")

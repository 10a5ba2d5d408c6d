"""Every setting once: its name, default and meaning.

Precedence: command line > `LOADSHEET_*` environment > `loadsheet.toml` > the capabilities file (assumptions only) > the defaults
here. Units stand at the end of names.
"""

import difflib
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, SecretStr, ValidationError, field_validator
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
    database: str = Field("", description="URL of the ledger; empty: sqlite:///STATE/ledger.db")

    settle_s: NonNegativeFloat = Field(5.0, description="A file must have been quiet for so long before it is claimed")
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
            "Thumbs.db",
            "desktop.ini",
        ),
        description="Names of files that are never claimed",
    )
    cell_length_max: PositiveInt = Field(32_767, description="Longest cell that is read, in characters")
    record_lines_max: PositiveInt = Field(
        100, description="A quoted value of a text file runs over so many lines at most"
    )
    columns_max: PositiveInt = Field(2_000, description="Most columns that are read of a sheet")
    blank_rows_max: PositiveInt = Field(1_000, description="Reading a sheet ends after so many blank rows in a row")
    inflated_bytes_max: PositiveInt = Field(2_000_000_000, description="A workbook may unpack to this size at most")

    allow_insecure: bool = Field(
        default=False, description="Allow http:// to another machine: the token travels in the clear"
    )
    connections: PositiveInt = Field(8, description="Calls to the exchange at the same time")
    connect_timeout_s: PositiveFloat = Field(10.0, description="Limit for connecting to the exchange")
    call_timeout_s: PositiveFloat = Field(60.0, description="Limit for a whole call, answer included")
    idle_connection_s: PositiveFloat = Field(4.0, description="A connection idle for longer is not used again")
    answer_bytes_max: PositiveInt = Field(268_435_456, description="Largest answer that is read, unpacked")
    retry_after_max_s: PositiveFloat = Field(3600.0, description="Longest pause that the exchange may ask for")
    unreachable_max: PositiveInt = Field(5, description="So many calls in a row that reach nobody end the sending")
    unknown_max: PositiveInt = Field(20, description="So many calls in a row without a clear answer end the sending")
    window: PositiveInt = Field(256, description="Most entries that are marked as sending at the same time")

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

    exchange_docs: Literal["open", "login"] = Field(
        "open", description="Who may read the manual and the OpenAPI document of `exchange serve`: all, or after login"
    )

    assumptions: Assumptions = Field(Assumptions(), description="Our answers to what the interface leaves open")

    @field_validator("capabilities", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @property
    def database_url(self) -> str:
        """The SQLAlchemy URL of the ledger."""
        return self.database or f"sqlite:///{self.state / 'ledger.db'}"

    def read_token(self) -> str | None:
        """The bearer token from setting or file, or None. Raises SettingsError if the file cannot be read or is empty."""
        if self.token is not None and (token := self.token.get_secret_value().strip()):
            return token
        if self.token_file is None:
            return None
        try:
            read = self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingsError(f"token_file: {self.token_file} cannot be read ({error.strerror})") from error
        if not read:
            raise SettingsError(f"token_file: {self.token_file} is empty; write the token into its first line")
        return read

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
    name = ".".join(str(step) for step in location)
    known = [*Settings.model_fields, *(f"assumptions.{inner}" for inner in Assumptions.model_fields)]
    if "Extra inputs" not in message:
        return f"{name}: {message}"
    close = difflib.get_close_matches(name, known, n=1)
    return f"{name}: there is no such setting" + (f"; did you mean {close[0]}?" if close else "")

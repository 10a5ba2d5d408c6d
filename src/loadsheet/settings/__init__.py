"""Every setting once: its name, default and meaning, in one file for each concern; here they are put together and loaded.

Precedence: command line > `LOADSHEET_*` environment > the settings file > the capabilities file (assumptions only) > the defaults
here. For one shipper: command line > `LOADSHEET_SHIPPERS__NAME__*` > `LOADSHEET_*` > its table `[shippers.NAME]` > the rest of the
file > capabilities > defaults; `sources` says what of that is different for folders and tokens. Units stand at the end of names.
"""

import difflib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from loadsheet.contract import Assumptions
from loadsheet.exchange_profile import assumptions_for
from loadsheet.problems import SettingsError
from loadsheet.settings import shippers, sources
from loadsheet.settings.dispatch import DispatchSettings, VerificationSettings
from loadsheet.settings.exchange import ExchangeServerSettings
from loadsheet.settings.expected_files import ExpectedFilesSettings
from loadsheet.settings.inbox import EMBEDDED, InboxSettings, ReadingSettings
from loadsheet.settings.operations import (
    RETIRED,
    DatabaseSettings,
    MonitoringSettings,
    NotificationSettings,
    ReportSettings,
    RetentionSettings,
    RunArchiveSettings,
    ScheduleSettings,
)
from loadsheet.settings.sources import CONFIG_FILE, PREFIX, Layer

__all__ = ["CONFIG_FILE", "EMBEDDED", "Settings", "profiles", "shippers_in"]


class Settings(
    BaseSettings,
    ExchangeServerSettings,
    DatabaseSettings,
    RunArchiveSettings,
    RetentionSettings,
    MonitoringSettings,
    NotificationSettings,
    ExpectedFilesSettings,
    ScheduleSettings,
    ReportSettings,
    VerificationSettings,
    DispatchSettings,
    ReadingSettings,
    InboxSettings,
):
    """All settings of translator and exchange. Build one with `Settings.load`."""

    model_config = SettingsConfigDict(
        env_prefix="LOADSHEET_", env_nested_delimiter="__", extra="forbid", frozen=True, validate_default=True
    )
    file: ClassVar[Path | None] = CONFIG_FILE
    chosen: ClassVar[str] = ""  # the shipper that was asked for
    own: ClassVar[frozenset[str]] = frozenset()  # settings that are said for that shipper alone

    shippers: tuple[str, ...] = Field(
        (), description="Names of the shippers; each has a table [shippers.NAME] for settings of its own"
    )
    assumptions: Assumptions = Field(Assumptions(), description="Our answers to what the interface leaves open")

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_set(cls, values: Any) -> Any:
        """An empty text stands for a setting that is not set, where there is no other way to say that. What was retired is left out."""
        for name in RETIRED.keys() & values.keys():
            warnings.warn(f"{name} does nothing any more: {RETIRED[name]}; remove it", FutureWarning, stacklevel=2)
        kept = {name: value for name, value in values.items() if name not in RETIRED}
        return {name: value for name, value in kept.items() if value != "" or not _may_be_unset(name)}

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
        """The SQLAlchemy URL of the ledger; on PostgreSQL with where it lies there (see `ledger.postgres`)."""
        if not self.is_shared:
            return self.database or f"sqlite:///{self.state / 'ledger.db'}"
        place = f"schema={self.ledger_schema}&shared={self.database_schema}_fleet&shipper={self.shipper}"
        return f"{self.database}{'&' if '?' in self.database else '?'}{place}"

    @property
    def is_shared(self) -> bool:
        """Whether several processes may share the ledger: it lies on PostgreSQL."""
        return self.database.startswith("postgres")

    @property
    def ledger_schema(self) -> str:
        """The schema of a PostgreSQL ledger."""
        own = self.shipper.replace("-", "_").casefold()
        return f"{self.database_schema}_{own}" if own else self.database_schema

    @classmethod
    def load(cls, config: Path | None = None, *, shipper: str = "", **given: Any) -> Self:
        """Settings from all sources, those of `shipper` or, without one, those that all share; `given` are the command line's, where
        None means not given.

        Raises SettingsError naming each wrong setting, and for an unknown one the closest that exists.
        """
        file, names = _declared(config)
        wanted = shipper or os.environ.get(f"{PREFIX}SHIPPER", "")
        name = shippers.chosen(names, wanted, file) if wanted else ""
        kept = {name: value for name, value in given.items() if value is not None}
        layers = cls.layers(file, name, kept)
        own = sources.has_of_its_own(layers) if name else frozenset()
        named = {"file": file, "chosen": name, "own": own, "__module__": cls.__module__}
        chosen = type(cls.__name__, (cls,), named)
        try:
            return chosen(**kept)  # type: ignore[no-any-return]
        except ValidationError as error:
            told = [_explain(details["loc"], details["msg"], layers) for details in error.errors()]
            raise SettingsError("\n".join(told)) from None

    @classmethod
    def layers(cls, file: Path | None, shipper: str, given: Mapping[str, Any]) -> list[Layer]:
        """Where settings come from, the strongest first; capabilities and defaults come after them. Raises SettingsError."""
        if not shipper:
            return sources.shared(Settings, file, given)
        shippers.check_variables(Settings, shipper)
        return sources.of_shipper(Settings, file, shipper, given)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 (signature is pydantic-settings')
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The layers, and then what the exchange was found to do."""
        _line, *layers = cls.layers(cls.file, cls.chosen, {})
        found = (InitSettingsSource(settings_cls, layer.values) for layer in layers)
        return (init_settings, *found, _FromCapabilities(settings_cls))


def shippers_in(config: Path | None = None) -> tuple[str, ...]:
    """The names of the shippers that the settings file declares. Raises SettingsError for names and folders that cannot be."""
    return _declared(config)[1]


def profiles(config: Path | None = None, **given: Any) -> dict[str, Settings]:
    """The settings of every declared shipper by its name; where none is declared, the one and only ones under an empty name.

    Raises SettingsError as `Settings.load` does.
    """
    return {name: Settings.load(config, shipper=name, **given) for name in shippers_in(config) or ("",)}


def _declared(config: Path | None) -> tuple[Path | None, tuple[str, ...]]:
    file = sources.find(config)
    names = shippers.declared(file)
    shippers.refuse_meetings(Settings, file, names)
    return file, names


def _may_be_unset(name: str) -> bool:
    field = Settings.model_fields.get(name)
    return field is not None and field.default is None


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


def _explain(location: tuple[int | str, ...], message: str, layers: list[Layer]) -> str:
    if not location:  # several settings that do not go together
        return message.removeprefix("Value error, ")
    name = ".".join(str(step) for step in location)
    holder = next((layer.place for layer in layers if location[0] in layer.values), "")
    where = f"{holder} " if holder.endswith("]") else ""  # a shipper's table
    known = [*Settings.model_fields, *(f"assumptions.{inner}" for inner in Assumptions.model_fields)]
    if "Extra inputs" not in message:
        return f"{where}{name}: {message}"
    close = difflib.get_close_matches(name, known, n=1)
    return f"{where}{name}: there is no such setting" + (f"; did you mean {close[0]}?" if close else "")

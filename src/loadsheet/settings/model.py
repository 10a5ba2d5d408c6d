"""All settings as one model: the most common ones at the top, and a section for each package that reads settings.

Precedence: command line > `LOADSHEET_*` environment > the settings file > the capabilities file (assumptions only) > the defaults
here. For one shipper: command line > `LOADSHEET_SHIPPERS__NAME__*` > `LOADSHEET_*` > its table `[shippers.NAME]` > the rest of the
file > capabilities > defaults. Folders and tokens have exceptions (see `sources`). Names end in their unit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from loadsheet.contract import Assumptions, Tolerances
from loadsheet.places import BY_DAY_AND_RUN, address_of, check_apart, checked_place, checked_template, group_number
from loadsheet.settings.operations_sections import (
    ClusterSettings,
    ExpectedFilesSettings,
    MonitoringSettings,
    NotificationSettings,
    ReportSettings,
    RetentionSettings,
    RunArchiveSettings,
    ScheduleSettings,
)
from loadsheet.settings.sections import (
    OLD_NAMES,
    ArrivalSettings,
    DispatchSettings,
    LedgerSettings,
    ReadingSettings,
    ReconcileSettings,
    Section,
    ServerSettings,
    VerificationSettings,
    WatchSettings,
    in_sections,
    without_empty,
)

EMBEDDED = "embedded"
"""The value of `exchange` for our own exchange, in this process."""

Steps = tuple[str, ...]


class SettingOrigin(NamedTuple):
    """A value, its place as text for people, and the tables and name under which it is written in a file."""

    value: Any
    place: str
    written: Steps = ()


Layer = dict[Steps, SettingOrigin]
"""The settings of one source by path."""

_ANSWERS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("", "false", "no", "off", "0"), False),
}


@dataclass(frozen=True)
class Sources:
    """The origin of loaded settings: the file, the place of each value, and the names that are set only for the shipper."""

    file: Path | None = None
    origins: Layer = field(default_factory=dict)
    own: frozenset[str] = frozenset()


class Settings(BaseModel):
    """All settings of translator and exchange. `Settings.load` reads every source; `Settings(...)` uses its arguments and the defaults.

    Both accept old names without a section (`window=3` for `dispatch={"window": 3}`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    shipper: str = Field("", description="Name of the shipper whose settings these are. Set by `--shipper`")
    inbox: Path = Field(
        Path("inbox"),
        description="Folder in which shippers drop files, or a place in an object store: s3://bucket/prefix",
    )
    mappings: Path = Field(Path("mappings"), description="Folder of mapping files")
    outbox: Path = Field(
        Path("outbox"), description="Folder for reports and files set aside, or a place in an object store"
    )
    outbox_group: str = Field(
        "",
        description="Group, by name or number, that may read and annotate the reports in the outbox. Empty: only their owner",
    )
    state: Path = Field(Path(".loadsheet"), description="Folder of ledger, archive and claimed files; on a local disk")
    archive: Path | None = Field(
        None,
        description="Folder or object store for originals. Empty: STATE/archive, or OUTBOX/archive if inbox and outbox are in object stores",
    )
    archive_path: str = Field(
        BY_DAY_AND_RUN,
        description="Path of an original in the archive: {yyyy}, {mm} and {dd} of its run, {run}, and {name} at the end. Equal paths are numbered",
    )
    exchange: str = Field(EMBEDDED, description="Base URL of the exchange, or 'embedded' for the built-in one")
    capabilities: Path | None = Field(
        None, description="File written by `loadsheet exchange probe`: the assumptions that hold for this exchange"
    )
    token: SecretStr | None = Field(
        None, description="Bearer token. Taken from the environment, never from the command line"
    )
    token_file: Path | None = Field(None, description="File whose first line is the bearer token")
    token_command: str = Field(
        "", description="Command that prints the bearer token. Run again when the exchange refuses the token"
    )
    token_keyring: bool | str = Field(
        default=False,
        description="Read the bearer token from the system keyring (extra `desk`): true, or its name in the keyring under loadsheet",
    )
    database: str = Field("", description="URL of the ledger. Empty: sqlite:///STATE/ledger.db")
    quiet: bool | Literal["auto"] = Field(
        "auto",
        description="Print nothing when a run needs no attention: always (true), never (false), or if the output is no terminal (auto). `run --quiet` and `run --verbose` overrule it",
    )
    allow_root: bool = Field(default=False, description="Run and serve as root without a warning")

    arrival: ArrivalSettings = ArrivalSettings()
    watch: WatchSettings = WatchSettings()
    reading: ReadingSettings = ReadingSettings()
    ledger: LedgerSettings = LedgerSettings()
    dispatch: DispatchSettings = DispatchSettings()
    verification: VerificationSettings = VerificationSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    reports: ReportSettings = ReportSettings()
    retention: RetentionSettings = RetentionSettings()
    notifications: NotificationSettings = NotificationSettings()
    expected_files: ExpectedFilesSettings = ExpectedFilesSettings()
    schedules: ScheduleSettings = ScheduleSettings()
    monitoring: MonitoringSettings = MonitoringSettings()
    run_archive: RunArchiveSettings = RunArchiveSettings()
    cluster: ClusterSettings = ClusterSettings()
    server: ServerSettings = ServerSettings()

    assumptions: Assumptions = Field(Assumptions(), description="Our answers to what the interface leaves open")
    shippers: tuple[str, ...] = Field(
        (), description="Names of the shippers. Each has a table [shippers.NAME] for its own settings"
    )
    _sources: Sources = PrivateAttr(default_factory=Sources)

    def model_post_init(self, context: Any, /) -> None:
        """Store the origin of the values, if `load` passes it."""
        if isinstance(context, Sources):
            self._sources = context

    @model_validator(mode="before")
    @classmethod
    def _put_into_sections(cls, values: Any) -> Any:
        return without_empty(cls, in_sections(values)) if isinstance(values, dict) else values

    @field_validator("inbox", "outbox", "archive")
    @classmethod
    def _is_a_place(cls, value: Path | None) -> Path | None:
        return value if value is None else checked_place(value)

    @field_validator("archive_path")
    @classmethod
    def _is_a_template(cls, value: str) -> str:
        checked_template(value)
        return value

    @model_validator(mode="after")
    def _objects_have_paths_of_their_own(self) -> Self:
        if address_of(self.archive_place) and "{run}" not in self.archive_path:
            raise ValueError(
                "archive_path needs {run} if the archive is in an object store, where paths are not numbered"
            )
        return self

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

    @field_validator("token_keyring", mode="before")
    @classmethod
    def _as_flag_or_name(cls, value: object) -> object:
        if isinstance(value, str):
            return _ANSWERS.get(value.strip().casefold(), value.strip())
        return value

    @model_validator(mode="after")
    def _outbox_is_apart(self) -> Self:
        check_apart("inbox", self.inbox, {"outbox": self.outbox, "archive": self.archive_place})
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
        """The local folder for reports: the outbox, or the folder from which reports are uploaded to it."""
        return self.state / "outbox" if self.outbox_address else self.outbox

    @property
    def check_folder(self) -> Path | None:
        """The folder whose files are only checked: of a shipper, its own setting or its folder below the shared one. None: there is none."""
        folder = self.arrival.check_folder
        is_shared = folder is not None and self.shipper and "arrival.check_folder" not in self.own
        return folder / self.shipper if folder is not None and is_shared else folder

    @property
    def archive_place(self) -> Path:
        """Where originals are kept."""
        if self.archive is not None:
            return self.archive
        both = self.inbox_address and self.outbox_address
        return self.outbox / "archive" if both else self.state / "archive"

    @model_validator(mode="after")
    def _fixes_stay_outside_the_inbox(self) -> Self:
        fixes = self.notifications.fixes_to
        if fixes is not None and fixes.resolve().is_relative_to(self.inbox.resolve()):
            raise ValueError(
                f"notifications.fixes_to ({fixes}) is in the inbox ({self.inbox}), where fix files would be processed before they are"
                " corrected; name a folder outside the inbox"
            )
        return self

    @model_validator(mode="after")
    def _checks_stay_outside_the_inbox(self) -> Self:
        checks, inbox = self.arrival.check_folder, self.inbox.resolve()
        if checks is not None and (checks.resolve().is_relative_to(inbox) or inbox.is_relative_to(checks.resolve())):
            raise ValueError(
                f"arrival.check_folder ({checks}) and the inbox ({self.inbox}) lie one in the other, so files to be checked would be"
                " sent; name a folder beside the inbox"
            )
        return self

    @model_validator(mode="after")
    def _resends_are_safe(self) -> Self:
        rules, timeout = self.verification, self.dispatch.call_timeout_s
        for name, quiesce in (("quiesce_s", rules.quiesce_s), ("status_quiesce_s", rules.status_quiesce_s)):
            if quiesce < timeout:
                raise ValueError(
                    f"verification.{name} ({quiesce:g}) is shorter than dispatch.call_timeout_s ({timeout:g}), so a call may still be in"
                    f" progress; make {name} at least as long"
                )
        proved = self._is_known("create_existing", "reject", "replace")
        if rules.create_after_absent == "resend" and not (rules.trust_quiesce or proved):
            raise ValueError(
                "verification.create_after_absent = resend may duplicate orders unless the exchange refuses or replaces a second create;"
                " run loadsheet exchange probe (capabilities), or set assumptions.create_existing or verification.trust_quiesce"
            )
        if rules.quote_on_unknown == "resend_once" and not self._is_known("quote_existing", "replace"):
            raise ValueError(
                "verification.quote_on_unknown = resend_once may duplicate quotes unless a second one replaces the first; run"
                " loadsheet exchange probe (capabilities), or set assumptions.quote_existing = replace"
            )
        return self

    def _is_known(self, assumption: str, *values: str) -> bool:
        """Whether a probe or a person set this assumption to one of these values. Our defaults do not count."""
        return assumption in self.assumptions.model_fields_set and getattr(self.assumptions, assumption) in values

    @property
    def file(self) -> Path | None:
        """The settings file of these settings; None if there was none."""
        return self._sources.file

    @property
    def own(self) -> frozenset[str]:
        """The names of the settings that are set only for this shipper, by its variables or its table."""
        return self._sources.own

    @property
    def origins(self) -> Layer:
        """Each value from a source, by path, with its place."""
        return self._sources.origins

    @property
    def tolerances(self) -> Tolerances:
        """The largest differences from the exchange's values that still agree."""
        return Tolerances(Decimal(str(self.reconcile.weight_tolerance)), Decimal(str(self.reconcile.money_tolerance)))

    @property
    def database_url(self) -> str:
        """The SQLAlchemy URL of the ledger; for PostgreSQL, with its schemas as parameters (see `ledger.postgres`)."""
        if not self.is_shared:
            return self.database or f"sqlite:///{self.state / 'ledger.db'}"
        place = f"schema={self.ledger_schema}&shared={self.cluster.database_schema}_fleet&shipper={self.shipper}"
        return f"{self.database}{'&' if '?' in self.database else '?'}{place}"

    @property
    def is_shared(self) -> bool:
        """Whether several processes may share the ledger, because it is on PostgreSQL."""
        return self.database.startswith("postgres")

    @property
    def ledger_schema(self) -> str:
        """The schema of a PostgreSQL ledger."""
        own = self.shipper.replace("-", "_").casefold()
        return f"{self.cluster.database_schema}_{own}" if own else self.cluster.database_schema

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, which are not validated. `update` accepts the same names as `Settings(...)`. Values for a section replace
        only the named settings in it.
        """
        changed: dict[str, Any] = {}
        for name, value in (update or {}).items():
            section, inner = OLD_NAMES.get(name, (name, ""))
            values = {inner: value} if inner else value
            whole = changed.get(section, getattr(self, section))
            changed[section] = (
                whole.model_copy(update=values) if isinstance(values, dict) and isinstance(whole, Section) else value
            )
        return super().model_copy(update=changed, deep=deep)

    @classmethod
    def load(cls, config: Path | None = None, *, shipper: str = "", **given: Any) -> "Settings":
        """The settings from all sources: those of `shipper`, or the shared ones if it is empty. `given` are those of the command line; None
        means not given.

        Raises SettingsError that lists each wrong setting; an unknown name comes with the closest known one.
        """
        from loadsheet.settings import load  # reads sources by the fields declared here

        return load(config, shipper, given)


def every_field() -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Each setting by path, such as ("dispatch", "window"), in the order of the documentation. The assumptions count as one setting."""
    for name, whole in Settings.model_fields.items():
        if isinstance(whole.default, Section):
            for inner, one in type(whole.default).model_fields.items():
                yield (name, inner), one
        else:
            yield (name,), whole

"""Where settings come from: the file, which one that is, and the environment; and which of them wins.

Owns: the order of the layers, for the settings that all share and for those of one shipper. Values are not judged here.
"""

import os
import stat
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from loadsheet.problems import SettingsError

CONFIG_FILE = Path("loadsheet.toml")
SITE_FILE = Path("/etc/loadsheet/loadsheet.toml")
PREFIX = "LOADSHEET_"
BETWEEN = "__"
FOLDERS = ("inbox", "mappings", "outbox", "state")
TOKEN_SOURCES = ("token", "token_file", "token_command", "token_keyring")
TIED_TO_EXCHANGE = (*TOKEN_SOURCES, "capabilities")
"""What is said of one exchange, and must not go to another."""

_NOT_FROM_ENVIRONMENT = {"shipper", "shippers"}  # the first chooses, the second holds variables of single shippers


class Layer(NamedTuple):
    """Settings from one place, by name. `place` is `command line`, `environment`, a file (with the table in it), or `shipper`: what
    follows from a shipper's name. `prefix` begins the names of variables.
    """

    place: str
    values: dict[str, Any]
    prefix: str = ""


def find(config: Path | None = None, site: Path = SITE_FILE) -> Path | None:
    """The settings file: the one given, else that of `LOADSHEET_CONFIG`, ./loadsheet.toml, the user's own, that of the machine; None
    if there is none. Raises SettingsError if one that was named does not exist.
    """
    named = config or (Path(variable) if (variable := os.environ.get(f"{PREFIX}CONFIG", "")) else None)
    if named is not None:
        if not named.is_file():
            raise SettingsError(f"settings file {named} does not exist")
        return named
    if CONFIG_FILE.is_file():
        return CONFIG_FILE
    from platformdirs import user_config_path  # noqa: PLC0415 (asked for only where no file lies here)

    return next((path for path in (user_config_path("loadsheet") / CONFIG_FILE, site) if path.is_file()), None)


def read(path: Path | None) -> dict[str, Any]:
    """What stands in a settings file; nothing if there is none. Raises SettingsError if it cannot be read."""
    if path is None:
        return {}
    try:
        found = _tables(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: it is no text in UTF-8") from None
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    tables = found.get("shippers", {})
    holders = (
        [found, *(table for table in tables.values() if isinstance(table, dict))] if isinstance(tables, dict) else []
    )
    if any(holder.get("token") for holder in holders) and is_open(path):
        told = f"{path}: holds a token, and everybody on this machine can read it"
        raise SettingsError(f"{told}: chmod 600 {path}, or name a file for it with token_file")
    return found


@lru_cache(maxsize=2)
def _tables(text: str) -> dict[str, Any]:
    """What a text says; nobody changes it. The settings of hundreds of shippers are read from one file, one after the other."""
    return tomllib.loads(text)


def is_open(path: Path) -> bool:
    """Whether everybody on this machine can read a file that holds a secret; where that cannot be told, no."""
    return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)


class _Environment(EnvSettingsSource):
    """The variables with one prefix."""

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:  # noqa: FBT001 (pydantic-settings')
        """Drops what no variable can set."""
        if field_name in _NOT_FROM_ENVIRONMENT:
            return None
        return super().prepare_field_value(field_name, field, value, value_is_complex)


def environment(settings_cls: type[BaseSettings], shipper: str = "") -> Layer:
    """What the environment says: `LOADSHEET_NAME` for all, `LOADSHEET_SHIPPERS__ACME__NAME` for one shipper.

    Raises SettingsError for a variable of the shipper that names no setting, or is not JSON where that is needed.
    """
    prefix = variables_of(shipper) if shipper else PREFIX
    variables = tuple(sorted((name, value) for name, value in os.environ.items() if name.upper().startswith(prefix)))
    return Layer("environment", dict(_parsed(settings_cls, prefix, variables)) if variables else {}, prefix)


@lru_cache(maxsize=64)
def _parsed(
    settings_cls: type[BaseSettings],
    prefix: str,
    _variables: tuple[tuple[str, str], ...],  # they are what it comes from: with the same ones it comes to the same
) -> Mapping[str, Any]:
    try:
        return _Environment(settings_cls, env_prefix=prefix)()
    except ValueError as error:  # it names the setting in quotes, and says nothing of the value
        name = str(error).partition('"')[2].partition('"')[0].upper()
        raise SettingsError(f'{prefix}{name}: write it as JSON, such as ["a", "b"]') from None


def variables_of(shipper: str) -> str:
    """How the variables of a shipper begin."""
    return f"{PREFIX}SHIPPERS{BETWEEN}{shipper.replace('-', '_').upper()}{BETWEEN}"


def shared(settings_cls: type[BaseSettings], file: Path | None, given: Mapping[str, Any]) -> list[Layer]:
    """The layers of the settings that all share, the strongest first."""
    found = _small(read(file))
    tables = found.pop("shippers", {})
    if isinstance(tables, dict) and tables:
        found["shippers"] = tuple(tables)
    return [Layer("command line", dict(given)), environment(settings_cls), Layer(str(file), found)]


def of_shipper(
    settings_cls: type[BaseSettings], file: Path | None, shipper: str, given: Mapping[str, Any]
) -> list[Layer]:
    """The layers of one shipper's settings, the strongest first: command line, its variables, those for all, its table, the file.

    Folders for all are where its own folder lies. What it has of its own for the token goes before what all share, and what is said
    of the exchange of all (token, capabilities) is not told to one of its own.
    """
    line, everywhere, whole = shared(settings_cls, file, given)
    table = Layer(f"{file} [shippers.{shipper}]", _small(read(file)["shippers"][shipper]))
    own = environment(settings_cls, shipper)
    base = {**whole.values, **everywhere.values}
    if refused := _NOT_FROM_ENVIRONMENT & table.values.keys():
        raise SettingsError(f"{table.place} {min(refused)}: cannot be set for one shipper; take it out")
    hidden = {*FOLDERS, "archive", "shipper"}
    has = {*own.values, *table.values}
    if not has.isdisjoint(TOKEN_SOURCES):
        hidden.update(TOKEN_SOURCES)
    if "exchange" in has:
        hidden.update(TIED_TO_EXCHANGE)
    follows = Layer(f"[shippers.{shipper}]", {"shipper": shipper, **own_folders(settings_cls, shipper, base)})
    return [line, own, _without(everywhere, hidden), table, _without(whole, hidden), follows]


def has_of_its_own(layers: Sequence[Layer]) -> frozenset[str]:
    """What the layers of a shipper say for it alone: the settings of its variables and its table."""
    _line, variables, _everywhere, table, *_ = layers
    return frozenset({*variables.values, *table.values})


def own_folders(settings_cls: type[BaseSettings], shipper: str, base: Mapping[str, Any]) -> dict[str, Any]:
    """The folders of a shipper below those of all; its mappings are those of all if it has no folder there."""
    found = {name: Path(base.get(name, settings_cls.model_fields[name].default)) for name in FOLDERS}
    folders: dict[str, Any] = {
        name: folder / shipper for name, folder in found.items() if name != "mappings" or (folder / shipper).is_dir()
    }
    if base.get("archive"):
        folders["archive"] = Path(base["archive"]) / shipper
    return {"mappings": found["mappings"], **folders}


def _small(values: Mapping[str, Any]) -> dict[str, Any]:
    """The names as pydantic-settings takes them: whether a letter is a capital makes no difference."""
    return {name.lower(): value for name, value in values.items()}


def _without(layer: Layer, hidden: set[str]) -> Layer:
    return layer._replace(values={name: value for name, value in layer.values.items() if name not in hidden})

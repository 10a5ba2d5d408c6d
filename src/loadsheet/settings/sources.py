"""The sources of settings (command line, environment, file, capabilities) and their precedence.

Owns: the order of the sources, for the shared settings and for those of one shipper. Each source becomes a layer: values by path, such as
("dispatch", "window"), with the place of each. Values are not validated here.
"""

import json
import os
import stat
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel

from loadsheet.errors import SettingsError
from loadsheet.settings.model import EMBEDDED, Layer, SettingOrigin, Settings, Steps
from loadsheet.settings.sections import OLD_NAMES, RETIRED

CONFIG_FILE = Path("loadsheet.toml")
SITE_FILE = Path("/etc/loadsheet/loadsheet.toml")
PREFIX = "LOADSHEET_"
BETWEEN = "__"
FOLDERS = ("inbox", "mappings", "outbox", "state")
TOKEN_SOURCES = ("token", "token_file", "token_command", "token_keyring")
TIED_TO_EXCHANGE = (*TOKEN_SOURCES, "capabilities")
"""Settings that belong to one exchange and must not be used for another."""

_NOT_FROM_ENVIRONMENT = frozenset(
    {"shipper", "shippers"}
)  # the first selects a shipper, the second is the prefix of its variables


def find(config: Path | None = None, site: Path = SITE_FILE) -> Path | None:
    """The settings file: `config`, else that of `LOADSHEET_CONFIG`, ./loadsheet.toml, the user's, the machine's; None if there is none.
    Raises SettingsError if `config` or the file of the variable does not exist, and for a ./loadsheet.toml that another user put there.
    """
    named = config or (Path(variable) if (variable := os.environ.get(f"{PREFIX}CONFIG", "")) else None)
    if named is not None:
        if not named.is_file():
            raise SettingsError(f"settings file {named} does not exist")
        return named
    if CONFIG_FILE.is_file():
        _refuse_foreign(CONFIG_FILE)
        return CONFIG_FILE
    from platformdirs import user_config_path

    return next((path for path in (user_config_path("loadsheet") / CONFIG_FILE, site) if path.is_file()), None)


def _refuse_foreign(path: Path) -> None:
    """Raise SettingsError for a file that neither we nor root nor the owner of its folder wrote: such as one that a shipper dropped into an
    inbox. Its `token_command` would run, and its exchange would get our token.
    """
    if os.name == "posix" and (owner := path.stat().st_uid) not in (
        0,
        os.geteuid(),
        path.absolute().parent.stat().st_uid,
    ):
        raise SettingsError(
            f"{path.absolute()} belongs to another user ({owner}) and is not used. Go to a folder of your own, or name the file if you"
            f" trust it: --config {path}"
        )


def read(path: Path | None) -> dict[str, Any]:
    """The content of a settings file; empty if there is none. Raises SettingsError if it cannot be read."""
    if path is None:
        return {}
    try:
        found = _tables(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8 text") from None
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    tables = found.get("shippers", {})
    holders = (
        [found, *(table for table in tables.values() if isinstance(table, dict))] if isinstance(tables, dict) else []
    )
    if any(holder.get("token") for holder in holders) and is_world_readable(path):
        exposed = f"{path}: holds a token, and every user of this machine can read it"
        raise SettingsError(f"{exposed}: chmod 600 {path}, or move the token to a file and set token_file")
    return found


@lru_cache(maxsize=2)
def _tables(text: str) -> dict[str, Any]:
    """A parsed text; callers must not change it. Cached, because the settings of hundreds of shippers may come from one file."""
    return tomllib.loads(text)


def is_world_readable(path: Path) -> bool:
    """Whether every user of this machine can read a file with a secret; False if that cannot be determined."""
    return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)


def from_file(file: Path | None, shipper: str = "") -> Layer:
    """The shared settings of a settings file, or those in the table of one shipper. Names ignore case. Raises SettingsError."""
    found = read(file)
    tables: Steps = ("shippers", shipper) if shipper else ()
    own = (
        found["shippers"][shipper]
        if shipper
        else {name: value for name, value in found.items() if name.lower() != "shippers"}
    )
    place = f"{file} [shippers.{shipper}]" if shipper else str(file)
    layer = _layer(((SettingOrigin(value, place, (*tables, *steps)), steps) for steps, value in _flat(own)))
    if not shipper and (names := found.get("shippers")):
        layer["shippers",] = SettingOrigin(tuple(names), place)
    return layer


def from_environment(shipper: str = "") -> Layer:
    """The settings in variables: `LOADSHEET_DISPATCH__WINDOW` for all, `LOADSHEET_SHIPPERS__ACME__DISPATCH__WINDOW` for one shipper.

    Raises SettingsError for a variable that must be JSON and is not.
    """
    prefix = variables_of(shipper) if shipper else PREFIX
    variables = sorted((name, value) for name, value in os.environ.items() if name.upper().startswith(prefix))
    return dict(_from_variables(prefix, tuple(variables)))


@lru_cache(maxsize=64)
def _from_variables(prefix: str, variables: tuple[tuple[str, str], ...]) -> Layer:
    named = []
    for name, text in variables:
        steps = tuple(name[len(prefix) :].lower().split(BETWEEN))
        first = current_path(steps)[0]
        if first in RETIRED or (first in Settings.model_fields and first not in _NOT_FROM_ENVIRONMENT):
            place, value = f"environment {name.upper()}", _parsed(current_path(steps), name, text)
            nested = _flat(value) if isinstance(value, dict) else [((), value)]
            named += [(SettingOrigin(value, place), (*steps, *inner)) for inner, value in nested]
    return _layer(named)


def from_arguments(given: Mapping[str, Any]) -> Layer:
    """The settings of the command line; old names are accepted without a warning."""
    return {current_path(steps): SettingOrigin(value, "command line") for steps, value in _flat(given)}


def _layer(named: Iterable[tuple[SettingOrigin, Steps]]) -> Layer:
    """Values by their current path. Warns about old names; the new name wins if both are set."""
    layer: Layer = {}
    old: Layer = {}
    for found, steps in named:
        name, path = steps[0].lower(), current_path(steps)
        if name in RETIRED:
            warn(f"{found.place}: {name} has no effect any more: {RETIRED[name]}; remove it")
        elif name in OLD_NAMES:
            warn(
                f"{found.place}: {name} is now {'.'.join(OLD_NAMES[name])}; {_how_now(found, steps)}. The old name is removed in 0.7.0."
            )
            old[path] = found
        else:
            layer[path] = found
    return old | layer


def _how_now(found: SettingOrigin, steps: Steps) -> str:
    old = steps[0].lower()
    section, name = OLD_NAMES[old]
    if found.written:
        tables = found.written[: len(found.written) - len(steps)]
        return f"write {name} in the table [{'.'.join((*tables, section))}]"
    before, _, after = found.place.removeprefix("environment ").rpartition(old.upper())
    return f"set {before}{section.upper()}{BETWEEN}{name.upper()}{after}"


def warn(text: str) -> None:
    """Warn about settings that are not used as they are written."""
    # The source line is not shown: it may contain a secret. Each text is shown once: hundreds of shippers may share a file.
    warnings.warn_explicit(text, FutureWarning, "<settings>", 1, registry=_WARNED)


_WARNED: dict[Any, Any] = {}


def current_path(steps: Steps) -> Steps:
    """The current path of a name as it is written."""
    first, *rest = (steps[0].lower(), *steps[1:])
    if first in OLD_NAMES:
        return (*OLD_NAMES[first], *rest)
    if rest and first in Settings.model_fields and _is_model(Settings.model_fields[first].annotation):
        rest[0] = rest[0].lower()
    return (first, *rest)


def _flat(values: Mapping[str, Any], above: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*above, name))
        else:
            yield (*above, name), value


def _parsed(path: Steps, variable: str, text: str) -> Any:
    """The value of a variable: JSON for lists, tables and sections, else its text. Raises SettingsError."""
    annotation: Any = Settings
    for step in path:
        if not _is_model(annotation) or step not in annotation.model_fields:
            return text
        annotation = annotation.model_fields[step].annotation
    if not _is_model(annotation) and get_origin(annotation) not in (tuple, dict, list):
        return text
    try:
        return json.loads(text)
    except ValueError:  # the value may be a secret
        raise SettingsError(f'{variable.upper()}: write it as JSON, such as ["a", "b"]') from None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def variables_of(shipper: str) -> str:
    """The prefix of the variables of a shipper."""
    return f"{PREFIX}SHIPPERS{BETWEEN}{shipper.replace('-', '_').upper()}{BETWEEN}"


def shared(file: Path | None, given: Mapping[str, Any]) -> list[Layer]:
    """The layers of the shared settings, the strongest first."""
    return [from_arguments(given), from_environment(), from_file(file)]


def of_shipper(file: Path | None, shipper: str, given: Mapping[str, Any]) -> list[Layer]:
    """The layers of one shipper's settings, the strongest first: command line, its variables, shared variables, its table, the file.

    A shipper's folders are below the shared ones. Its own token source wins over the shared ones. A shipper with its own exchange does not
    use the token and the capabilities of the shared exchange.
    """
    line, everywhere, whole = shared(file, given)
    own, table = from_environment(shipper), from_file(file, shipper)
    if refused := _NOT_FROM_ENVIRONMENT & {path[0] for path in table}:
        raise SettingsError(f"{file} [shippers.{shipper}] {min(refused)}: cannot be set for one shipper; remove it")
    hidden, has = {*FOLDERS, "archive", "shipper"}, set_in(own, table)
    if not has.isdisjoint(TOKEN_SOURCES):
        hidden.update(TOKEN_SOURCES)
    if "exchange" in has:
        hidden.update(TIED_TO_EXCHANGE)
    folders = own_folders(shipper, whole | everywhere)
    place = f"follows from [shippers.{shipper}]"
    follows: Layer = {(name,): SettingOrigin(value, place) for name, value in {"shipper": shipper, **folders}.items()}
    return [line, own, _without(everywhere, hidden), table, _without(whole, hidden), follows]


def set_in(*layers: Layer) -> frozenset[str]:
    """The names of the settings in some layers, such as `dispatch.window`."""
    return frozenset(".".join(path) for layer in layers for path in layer)


def merged(layers: Sequence[Layer]) -> Layer:
    """Merge layers, the strongest first. The assumptions of the capabilities file are the weakest. Raises SettingsError."""
    found: Layer = {}
    for layer in reversed(layers):
        found |= layer
    capabilities, exchange = found.get(("capabilities",)), found.get(("exchange",))
    if capabilities is None or capabilities.value in (None, ""):
        return found
    from loadsheet.exchange_profile import assumptions_for

    probed = assumptions_for(str(exchange.value if exchange else EMBEDDED), Path(capabilities.value))
    return {
        ("assumptions", name): SettingOrigin(value, str(capabilities.value)) for name, value in probed.items()
    } | found


def nested(layer: Layer) -> dict[str, Any]:
    """The values of a layer as nested tables. A value in the place of a table stays: validation refuses it, or it is the whole table."""
    values: dict[str, Any] = {}
    for path in sorted(layer, key=len):
        table: Any = values
        for step in path[:-1]:
            table = table.setdefault(step, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table[path[-1]] = dict(value) if isinstance(value := layer[path].value, dict) else value
    return values


def own_folders(shipper: str, base: Layer) -> dict[str, Any]:
    """The folders of a shipper below the shared ones. Without a folder of its own, it uses the shared mappings."""
    found = {
        name: Path(base[name,].value if (name,) in base else Settings.model_fields[name].default) for name in FOLDERS
    }
    folders: dict[str, Any] = {
        name: folder / shipper for name, folder in found.items() if name != "mappings" or (folder / shipper).is_dir()
    }
    if ("archive",) in base and base["archive",].value:
        folders["archive"] = Path(base["archive",].value) / shipper
    return {"mappings": found["mappings"], **folders}


def _without(layer: Layer, hidden: set[str]) -> Layer:
    return {path: found for path, found in layer.items() if path[0] not in hidden}

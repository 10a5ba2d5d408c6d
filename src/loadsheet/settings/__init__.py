"""Settings: every setting, declared once; where values come from; and the settings of one shipper.

`model` has all of them in sections, `sources` the places of their values. This module loads the settings of a shipper or of all: which
shippers are declared, whether they conflict, and which one a command uses. It owns the rules for names, and that no two shippers share an
inbox, outbox, state or ledger: order numbers of two shippers, or of two exchanges, must never mix.
"""

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loadsheet.errors import SettingsError
from loadsheet.settings.model import EMBEDDED, Layer, Settings, Sources, every_field
from loadsheet.settings.sections import OLD_NAMES, RETIRED, ReadingSettings
from loadsheet.settings.sources import (
    BETWEEN,
    PREFIX,
    current_path,
    find,
    merged,
    nested,
    of_shipper,
    read,
    set_in,
    shared,
    variables_of,
    warn,
)

__all__ = ["EMBEDDED", "ReadingSettings", "Settings", "every_field", "shippers_in"]


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_TAKEN = frozenset(
    {"base", "lookups", "tests"}  # folders of mappings that belong to no shipper
    | {"fleet"}  # the schema of the shared tables
    | {"archive", "copying", "work"}  # folders in the state folder
    | {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}  # Windows
)

_CHECKED: set[tuple[object, ...]] = set()
"""The last valid input. The settings of hundreds of shippers may be loaded from the same file, one after the other."""


def load(config: Path | None, shipper: str, given: Mapping[str, Any]) -> Settings:
    """The settings from all sources, as `Settings.load` says."""
    file, names = _declared(config)
    _warn_of_variables()
    wanted = shipper or os.environ.get(f"{PREFIX}SHIPPER", "")
    kept = {name: value for name, value in given.items() if value is not None}
    own: frozenset[str] = frozenset()
    if wanted:
        name = chosen(names, wanted, file)
        check_variables(name)
        layers = of_shipper(file, name, kept)
        _line, variables, _everywhere, table, *_ = layers
        own = set_in(variables, table)
    else:
        layers = shared(file, kept)
    found = merged(layers)
    try:
        return Settings.model_validate(nested(found), context=Sources(file, found, own))
    except ValidationError as error:
        wrong = [_explain(details["loc"], details["msg"], found) for details in error.errors()]
        raise SettingsError("\n".join(dict.fromkeys(wrong))) from None


def shippers_in(config: Path | None = None) -> tuple[str, ...]:
    """The names of the shippers that the settings file declares. Raises SettingsError for invalid names and folders."""
    return _declared(config)[1]


def _declared(config: Path | None) -> tuple[Path | None, tuple[str, ...]]:
    file = find(config)
    names = declared(file)
    refuse_shared_places(file, names)
    return file, names


def _explain(location: tuple[int | str, ...], message: str, found: Layer) -> str:
    message = message.removeprefix("Value error, ").replace("Input should be", "must be").partition(", unable to")[0]
    for words, plain in _PLAIN.items():
        message = message.replace(words, plain)
    if not location:  # settings that contradict each other
        return message
    steps = tuple(str(step) for step in location)
    if steps[0] in _ALSO_A_WORD:  # one error for each kind of value that it takes
        steps, message = steps[:1], f"must be {_ALSO_A_WORD[steps[0]]}"
    name = ".".join(steps)
    lengths = range(len(steps), 0, -1)
    place = next((found[steps[:length]].place for length in lengths if steps[:length] in found), "")
    where = f"{place} " if place.endswith("]") else ""  # a shipper's table
    if "Extra inputs" not in message:
        variable = f" ({place})" if place.startswith("environment") else ""
        return f"{where}{name}: {message}{variable}"
    close = closest_name(name)
    return f"{where}{name}: unknown setting" + (f"; did you mean {close}?" if close else "")


_PLAIN = {"a valid integer": "a whole number", "a valid boolean": "true or false", "a valid dictionary": "a table"}
_ALSO_A_WORD = {"quiet": "true, false or auto", "token_keyring": "true, false or a name"}


def _warn_of_variables() -> None:
    """Warn about variables that look like one of a setting and are none. Others with our prefix may belong to other programs."""
    for variable in os.environ:
        path = tuple(variable.upper().removeprefix(PREFIX).lower().split(BETWEEN))
        is_ours = variable.upper().startswith(PREFIX) and path[0] not in _OTHER_VARIABLES
        if is_ours and not _is_setting(current_path(path)) and (close := closest_name(".".join(path), cutoff=0.8)):
            meant = f"{PREFIX}{close.upper().replace('.', BETWEEN)}"
            warn(f"{variable} is not a setting and has no effect; did you mean {meant}?")


_OTHER_VARIABLES = frozenset({"config", "shipper", "shippers"})


def declared(file: Path | None) -> tuple[str, ...]:
    """The names of the shippers that a settings file declares, in its order.

    Raises SettingsError for a value that is not a table, for a name that is not a valid folder name or too similar to another, and for
    variables of undeclared shippers.
    """
    tables = read(file).get("shippers", {})
    if not isinstance(tables, dict):
        raise SettingsError(
            f"{file}: shippers must be tables: write [shippers.NAME] and the shipper's settings below it"
        )
    wrong = [problem for name, table in tables.items() if (problem := _wrong_with(name, table))]
    known: dict[str, str] = {}
    for name in tables:
        other = known.setdefault(variables_of(name), name)
        if other != name:
            wrong.append(f"[shippers.{name}]: too similar to [shippers.{other}]; choose another name")
    if wrong:
        raise SettingsError("\n".join(f"{file}: {problem}" for problem in wrong))
    _refuse_variables(tables)
    return tuple(tables)


def _wrong_with(name: str, table: object) -> str:
    where = f"[shippers.{name}]"
    if not isinstance(table, dict):
        return f"shippers.{name}: must be a table; write {where} and the shipper's settings below it"
    if not _NAME.fullmatch(name) or BETWEEN in name:
        return f"{where}: a name has at most 40 letters, digits, - and single _, and begins with a letter or digit"
    return f"{where}: this name is reserved; choose another" if name.casefold() in _TAKEN else ""


def _refuse_variables(names: Iterable[str]) -> None:
    start, known = f"{PREFIX}SHIPPERS{BETWEEN}", {variables_of(name): name for name in names}
    for variable in os.environ:
        written = variable.upper()
        if written.startswith(start) and not any(written.startswith(prefix) for prefix in known):
            listed = ", ".join(known.values()) or "none"
            raise SettingsError(f"{variable}: unknown shipper; declared are: {listed}")


def check_variables(shipper: str) -> None:
    """Raise SettingsError if a variable of this shipper does not name a setting."""
    prefix = variables_of(shipper)
    for variable in os.environ:
        if not (written := variable.upper()).startswith(prefix):
            continue
        path = current_path(tuple(written.removeprefix(prefix).lower().split(BETWEEN)))
        if not _is_setting(path):
            close = closest_name(".".join(path))
            meant = f"; did you mean {prefix}{close.upper().replace('.', BETWEEN)}?" if close else ""
            raise SettingsError(f"{variable}: unknown setting{meant}")


def _is_setting(path: Sequence[str]) -> bool:
    if path[0] in RETIRED:
        return True
    if path[0] not in Settings.model_fields or path[0] in ("shipper", "shippers"):
        return False
    inner = getattr(Settings.model_fields[path[0]].annotation, "model_fields", None)
    return inner is None or len(path) == 1 or path[1] in inner


def closest_name(name: str, cutoff: float = 0.6) -> str:
    """The setting, such as `dispatch.window`, that a wrong name most likely means; empty if none is close (0 to 1)."""
    known = {old: ".".join(path) for old, path in OLD_NAMES.items()}
    for first, field in Settings.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        for second in inner or ():
            known[second] = known[f"{first}.{second}"] = f"{first}.{second}"
        if inner is None:
            known[first] = first
    leaf = name.rpartition(".")[2]
    if leaf in known:  # the right name in the wrong section
        return known[leaf]
    for wanted in (name, leaf):
        if close := difflib.get_close_matches(wanted, known, n=1, cutoff=cutoff):
            return known[close[0]]
    return ""


def chosen(names: Sequence[str], shipper: str, file: Path | None) -> str:
    """The name of the requested shipper as it is declared. Raises SettingsError if it is not declared."""
    by_fold = {name.casefold(): name for name in names}
    if found := by_fold.get(shipper.casefold()):
        return found
    if not names:
        where = file or "loadsheet.toml"
        raise SettingsError(f"there is no shipper {shipper}: none is declared; write [shippers.{shipper}] into {where}")
    close = difflib.get_close_matches(shipper, names, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise SettingsError(f"there is no shipper {shipper}: declared are {', '.join(names)}{meant}")


def refuse_shared_places(file: Path | None, names: Sequence[str]) -> None:
    """Raise SettingsError if two shippers share a place that each needs for itself, or one inbox is inside another.

    Checks only places: other errors in the settings of one shipper must not affect the others. Each shipper is compared with the owner of its
    places and of the folders above its inbox: comparing all pairs would take minutes for a thousand shippers.
    """
    if (key := _cache_key(file)) in _CHECKED:
        return
    places = {name: _places(of_shipper(file, name, {})) for name in names}
    owners: dict[tuple[str, object], str] = {}
    wrong = []
    for name, own in places.items():
        for kind, place in own.items():
            if (other := owners.setdefault((kind, place), name)) != name:
                what = f"the same {kind} {place}: give each its own"
                if kind == "database":
                    what = "the same ledger (database): give each its own, or leave database out"
                wrong.append(f"[shippers.{other}] and [shippers.{name}] have {what}")
    for name, own in places.items():
        inbox = Path(str(own["inbox"]))
        wrong += [
            f"[shippers.{other}] and [shippers.{name}] have one inbox inside the other ({above}, {inbox}): give each its own"
            for above in inbox.parents
            if (other := owners.get(("inbox", above), ""))
        ]
    if wrong:
        raise SettingsError("\n".join(f"{file}: {problem}" for problem in wrong))
    _CHECKED.clear()
    _CHECKED.add(key)


def _cache_key(file: Path | None) -> tuple[object, ...]:
    variables = tuple(sorted(item for item in os.environ.items() if item[0].upper().startswith(PREFIX)))
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise SettingsError(
            "the folder in which loadsheet was started no longer exists: start it in another"
        ) from error
    return (file, file.read_bytes() if file and file.is_file() else b"", here, variables)


def _places(layers: Sequence[Layer]) -> dict[str, object]:
    """The places that a shipper needs for itself, by setting."""

    def value(name: str) -> str:
        default = Settings.model_fields[name].default
        return str(next((layer[name,].value for layer in layers if (name,) in layer), default) or "")

    folders = {name: value(name) for name in ("inbox", "outbox", "state", "archive") if value(name)}
    places: dict[str, object] = {
        name: Path(os.path.normpath(Path(place).absolute())) for name, place in folders.items()
    }
    if (database := value("database")) and not database.startswith("postgres"):
        places["database"] = database
    return places

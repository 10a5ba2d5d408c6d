"""Shippers: which are declared, whether their names and folders conflict, and which one a command uses.

Owns: the rules for names, and that no two shippers share an inbox, outbox, state or ledger: order numbers of two shippers, or of two
exchanges, must never mix.
"""

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from loadsheet.problems import SettingsError
from loadsheet.settings.sources import (
    BETWEEN,
    OLD_NAMES,
    PREFIX,
    RETIRED,
    Layer,
    current_path,
    of_shipper,
    read,
    variables_of,
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_TAKEN = frozenset(
    {"base", "lookups", "tests"}  # folders of mappings that belong to no shipper
    | {"fleet"}  # the schema of the shared tables
    | {"archive", "copying", "work"}  # folders in the state folder
    | {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}  # Windows
)


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


def check_variables(model: type[BaseModel], shipper: str) -> None:
    """Raise SettingsError if a variable of this shipper does not name a setting."""
    prefix = variables_of(shipper)
    for variable in os.environ:
        if not (written := variable.upper()).startswith(prefix):
            continue
        path = current_path(model, tuple(written.removeprefix(prefix).lower().split(BETWEEN)))
        if not _is_setting(model, path):
            close = closest_name(model, ".".join(path))
            meant = f"; did you mean {prefix}{close.upper().replace('.', BETWEEN)}?" if close else ""
            raise SettingsError(f"{variable}: unknown setting{meant}")


def _is_setting(model: type[BaseModel], path: Sequence[str]) -> bool:
    if path[0] in RETIRED:
        return True
    if path[0] not in model.model_fields or path[0] in ("shipper", "shippers"):
        return False
    inner = getattr(model.model_fields[path[0]].annotation, "model_fields", None)
    return inner is None or len(path) == 1 or path[1] in inner


def closest_name(model: type[BaseModel], name: str) -> str:
    """The setting, such as `dispatch.window`, that a wrong name most likely means; empty if none is close."""
    known = {old: ".".join(path) for old, path in OLD_NAMES.items()}
    for first, field in model.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        for second in inner or ():
            known[second] = known[f"{first}.{second}"] = f"{first}.{second}"
        if inner is None:
            known[first] = first
    leaf = name.rpartition(".")[2]
    if leaf in known:  # the right name in the wrong section
        return known[leaf]
    for wanted in (name, leaf):
        if close := difflib.get_close_matches(wanted, known, n=1):
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


def refuse_meetings(model: type[BaseModel], file: Path | None, names: Sequence[str]) -> None:
    """Raise SettingsError if two shippers share a place that each needs for itself, or one inbox is inside another.

    Checks only places: other errors in the settings of one shipper must not affect the others.
    """
    if (key := _cache_key(file)) in _CHECKED:
        return
    places = {name: _Places(model, of_shipper(model, file, name, {})) for name in names}
    wrong = []
    for other, name in _pairs_to_check(places, names):
        wrong += [
            f"[shippers.{other}] and [shippers.{name}] {problem}" for problem in _conflicts(places[other], places[name])
        ]
    if wrong:
        raise SettingsError("\n".join(f"{file}: {problem}" for problem in wrong))
    _CHECKED.clear()
    _CHECKED.add(key)


_CHECKED: set[tuple[object, ...]] = set()
"""The last valid input. The settings of hundreds of shippers may be loaded from the same file, one after the other."""


def _cache_key(file: Path | None) -> tuple[object, ...]:
    variables = tuple(sorted(item for item in os.environ.items() if item[0].upper().startswith(PREFIX)))
    return (file, file.read_bytes() if file and file.is_file() else b"", os.getcwd(), variables)  # noqa: PTH109 (only compared)


def _pairs_to_check(places: Mapping[str, "_Places"], names: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs that share a place, or of which one inbox is inside another, in the order of declaration. Comparing all pairs would take
    minutes for a thousand shippers.
    """
    known: dict[tuple[str, object], list[int]] = {}
    for number, name in enumerate(names):
        for place in places[name].taken:
            known.setdefault(place, []).append(number)
    pairs = {(first, other) for numbers in known.values() for other in numbers for first in numbers if first < other}
    for number, name in enumerate(names):
        above = (("inbox", folder) for folder in places[name].inbox.parents)
        pairs.update((min(number, other), max(number, other)) for place in above for other in known.get(place, ()))
    return [(names[one], names[other]) for one, other in sorted(pairs, key=lambda pair: (pair[1], pair[0]))]


class _Places:
    """The places that each shipper needs for itself."""

    def __init__(self, model: type[BaseModel], layers: Sequence[Layer]) -> None:
        def value(name: str) -> Any:
            default = model.model_fields[name].default
            return next((layer[name,].value for layer in layers if (name,) in layer), default)

        def folder(name: str) -> Path:
            return Path(os.path.normpath(Path(str(value(name))).absolute()))

        self.inbox, self.outbox, self.state = folder("inbox"), folder("outbox"), folder("state")
        self.archive = folder("archive") if value("archive") else None
        self.database = str(value("database") or "")

    @property
    def taken(self) -> list[tuple[str, object]]:
        """The places that no other shipper may use, with their kind."""
        folders = [(name, getattr(self, name)) for name in ("inbox", "outbox", "state", "archive")]
        database = "" if self.database.startswith("postgres") else self.database
        return [(name, place) for name, place in (*folders, ("database", database)) if place]


def _conflicts(one: _Places, other: _Places) -> Iterable[str]:
    for name in ("inbox", "outbox", "state", "archive"):
        ours, theirs = getattr(one, name), getattr(other, name)
        if ours == theirs and ours is not None:
            yield f"have the same {name} {ours}: give each its own"
        elif name == "inbox" and (ours.is_relative_to(theirs) or theirs.is_relative_to(ours)):
            yield f"have one inbox inside the other ({ours}, {theirs}): give each its own"
    if one.database and one.database == other.database and not one.database.startswith("postgres"):
        yield "have the same ledger (database): give each its own, or leave database out"

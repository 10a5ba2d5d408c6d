"""Configuration files for the behaviour of the exchange, YAML or TOML by suffix: personalities and fault scripts.

A personality answers the open points of the interface like another exchange does. It uses the names of the register of
assumptions, at the top level or under `assumptions:`, so the `capabilities.yaml` of a probe is a personality as well.

Owns: the format of both files. They are read strictly: duplicate keys and YAML tags are refused.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from loadsheet.contract import Assumptions
from loadsheet.exchange.faults import FaultClass, FaultRule, FaultScript
from loadsheet.problems import SettingsError

_LARGEST_BYTES = 1_000_000
_TOML = ".toml"
_SUFFIXES = (_TOML, ".yaml", ".yml")
_UNDER = "assumptions"
_NAMES = {"from" if item.name == "from_" else item.name: item for item in fields(FaultRule)}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "every": int, "from": int, "until": int, "status": int, "bytes": int, "share": (int, float), "seconds": (int, float)
}  # fmt: skip


def read_personality(path: Path, settings: Assumptions) -> Assumptions:
    """The assumptions of a file, with the others from `settings`.

    Raises SettingsError for a name that is not in the register (suggesting the closest one) and for an invalid value.
    """
    script = _read_script(path)
    given = script.get(_UNDER, {}) if _UNDER in script else script
    if not isinstance(given, dict):
        raise SettingsError(f"{path}: {_UNDER}: expected a table of names and values")
    for name in given:
        if name not in Assumptions.model_fields:
            raise _unknown_name(path, str(name), Assumptions.model_fields)
    try:
        return Assumptions(**{**settings.model_dump(), **given})
    except ValidationError as error:
        wrong = [f"{path}: {detail['loc'][0]}: {detail['msg']}, got {detail['input']!r}" for detail in error.errors()]
        raise SettingsError("\n".join(wrong)) from None


def deviations(assumptions: Assumptions) -> list[str]:
    """The differences from the defaults of the register, one line each: `create_existing: replace (default: reject)`."""
    defaults = Assumptions()
    return [
        f"{name}: {_as_text(getattr(assumptions, name))} (default: {_as_text(getattr(defaults, name))})"
        for name in Assumptions.model_fields
        if getattr(assumptions, name) != getattr(defaults, name)
    ]


def _as_text(value: object) -> str:
    return str(value) or "(empty)"


def read_faults(path: Path) -> FaultScript:
    """The script of a file: `seed`, and a list of rules under `faults`. Raises SettingsError for an invalid file."""
    script = _read_script(path)
    for name in script:
        if name not in ("seed", "faults"):
            raise _unknown_name(path, name, ("seed", "faults"))
    seed, rules = script.get("seed", 0), script.get("faults", [])
    if type(seed) is not int or not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise SettingsError(f"{path}: expected seed (a whole number) and faults (a list of rules)")
    return FaultScript(tuple(_rule(path, rule) for rule in rules), seed)


def _rule(path: Path, given: Mapping[str, Any]) -> FaultRule:
    for name in given:
        if name not in _NAMES:
            raise _unknown_name(path, str(name), _NAMES)
    kinds = [kind.value for kind in FaultClass]
    if given.get("fault") not in kinds:
        raise _unknown_name(path, str(given.get("fault", "")), kinds)
    values: dict[str, Any] = {"fault": FaultClass._value2member_map_[given["fault"]]}
    for name, value in given.items():
        if name == "at":
            places = value if isinstance(value, list) else [value]
            if not all(type(place) is int for place in places):
                raise SettingsError(f"{path}: at: expected a whole number or a list of whole numbers, found {value!r}")
            values[name] = tuple(places)
        elif name in _TYPES:
            if isinstance(value, bool) or not isinstance(value, _TYPES[name]):
                raise SettingsError(f"{path}: {name}: expected a number, found {value!r}")
            values[_NAMES[name].name] = value
        elif name != "fault":
            values[name] = str(value)
    return FaultRule(**values)


def _read_script(path: Path) -> dict[str, Any]:
    """The values of a file. Raises SettingsError naming the file if it cannot be read or is not a table."""
    if path.suffix not in _SUFFIXES:
        raise SettingsError(f"{path}: unknown file type. Use the suffix .yaml or .toml")
    try:
        content = path.read_bytes()
        if len(content) > _LARGEST_BYTES:
            raise SettingsError(f"{path} is larger than {_LARGEST_BYTES:,} bytes")
        text = content.decode("utf-8")
        values = tomllib.loads(text) if path.suffix == _TOML else YAML(typ="safe", pure=True).load(text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, YAMLError, RecursionError) as error:
        raise SettingsError(f"{path}: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise SettingsError(f"{path}: expected a table of names and values")
    return values


def _unknown_name(path: Path, name: str, known: Iterable[str]) -> SettingsError:
    """The error for an unknown name, with the closest known one."""
    close = difflib.get_close_matches(name, list(known), 1)
    hint = f"; did you mean {close[0]}?" if close else f". Known: {', '.join(known)}"
    return SettingsError(f"{path}: unknown name {name!r}{hint}")

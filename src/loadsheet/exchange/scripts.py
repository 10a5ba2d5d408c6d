"""Personalities: files, YAML or TOML by suffix, that answer the open points of the interface like another exchange does.

A personality uses the names of the register of assumptions, at the top level or under `assumptions:`, so the `capabilities.yaml`
of a probe is a personality as well. It is read strictly: duplicate keys and YAML tags are refused.
"""

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from loadsheet.contract import Assumptions
from loadsheet.problems import SettingsError

_LARGEST_BYTES = 1_000_000
_TOML = ".toml"
_SUFFIXES = (_TOML, ".yaml", ".yml")
_UNDER = "assumptions"


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

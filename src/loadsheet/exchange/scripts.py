"""Files that tell the exchange how to behave, YAML or TOML by their names, as plain values.

Owns: reading them strictly (duplicate keys and YAML tags are refused). Knows nothing of what the values mean.
"""

import difflib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from loadsheet.problems import SettingsError

_LARGEST_BYTES = 1_000_000
_TOML = ".toml"
_SUFFIXES = (_TOML, ".yaml", ".yml")


def read_script(path: Path) -> dict[str, Any]:
    """The values of a file. Raises SettingsError, naming the file, for one that cannot be read or is no table of names."""
    if path.suffix not in _SUFFIXES:
        raise SettingsError(f"{path}: name it .yaml or .toml, so that it is clear how to read it")
    try:
        content = path.read_bytes()
        if len(content) > _LARGEST_BYTES:
            raise SettingsError(f"{path} is larger than {_LARGEST_BYTES} bytes")
        text = content.decode("utf-8")
        values = tomllib.loads(text) if path.suffix == _TOML else YAML(typ="safe", pure=True).load(text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, YAMLError, RecursionError) as error:
        raise SettingsError(f"{path}: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise SettingsError(f"{path}: expected names with their values")
    return values


def unknown_name(path: Path, name: str, known: Iterable[str]) -> SettingsError:
    """The error for a name that does not exist, with the closest one that does."""
    close = difflib.get_close_matches(name, list(known), 1)
    hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
    return SettingsError(f"{path}: unknown name {name!r}{hint}")

"""Where the value of each setting is from, for people: the layers of `sources` traced, and secrets hidden.

Owns: how a value is shown. A secret never is: neither one that is declared as such, nor a password in a URL, nor a command that may
hold one.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, SecretStr

from loadsheet.contract import Assumptions
from loadsheet.exchange_profile import assumptions_for
from loadsheet.settings import Settings
from loadsheet.settings.places import shown as place_shown
from loadsheet.settings.sources import BETWEEN, Layer

DEFAULT = "default"
_PASSWORD = re.compile(r"(?<=://)[^/\s@]+(?=@)|(?<=[?&]password=)[^&\s]+|(?<=[?&]sslpassword=)[^&\s]+")
HIDDEN = "set"
"""What is shown of a secret."""

_TABLE = re.compile(r"\s*\[(?P<name>[^\[\]]+)\]\s*(#.*)?")


class Traced(NamedTuple):
    """One setting: its value as it may be shown (a JSON value), whether it is another one than the default, and where it is from.
    An assumption is called `assumptions.NAME`.
    """

    name: str
    value: Any
    changed: bool
    origin: str
    secret: bool = False


def trace(settings: Settings) -> Iterator[Traced]:
    """Every setting, in the order in which they are declared, the assumptions last. `settings` come from `Settings.load`."""
    chosen = type(settings)
    layers = [layer for layer in chosen.layers(chosen.file, chosen.chosen, {}) if layer.values]
    for name, field in Settings.model_fields.items():
        if name == "assumptions":
            continue
        value = getattr(settings, name)
        shown, secret = _shown(name, value)
        yield Traced(name, shown, value != field.default, _origin(name, layers, chosen.file), secret)
    yield from _assumptions(settings, layers)


def _assumptions(settings: Settings, layers: Sequence[Layer]) -> Iterator[Traced]:
    probed = assumptions_for(settings.exchange, settings.capabilities) if settings.capabilities else {}
    inner = [
        layer._replace(values=dict(values))
        for layer in layers
        if isinstance(values := layer.values.get("assumptions"), Mapping)
    ]
    for name, field in Assumptions.model_fields.items():
        value = getattr(settings.assumptions, name)
        origin = _origin(name, inner, type(settings).file, within="assumptions")
        if origin == DEFAULT and name in probed:
            origin = str(settings.capabilities)
        yield Traced(f"assumptions.{name}", _plain(value), value != field.default, origin)


def _origin(name: str, layers: Sequence[Layer], file: Path | None, within: str = "") -> str:
    layer = next((layer for layer in layers if name in layer.values), None)
    if layer is None:
        return DEFAULT
    if layer.place == "environment":
        whole = f"{within}{BETWEEN}{name}" if within else name
        return f"environment {layer.prefix}{whole.upper()}"
    if layer.place.startswith("["):
        return f"follows from {layer.place}"
    _, _, table = layer.place.partition(" [")
    line = _line(file, name, ".".join(part for part in (table.removesuffix("]"), within) if part))
    return f"{layer.place} line {line}" if line else layer.place


def _line(file: Path | None, name: str, table: str) -> int:
    """The line of a file, from 1, on which a setting stands in a table; 0 if it is written in another way than `name = value`."""
    if file is None or not file.is_file():
        return 0
    here, wanted = "", re.compile(rf"\s*(?i:{re.escape(name)})\s*=")
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if heading := _TABLE.fullmatch(line):
            here = heading["name"].replace('"', "").strip()
        elif here == table and wanted.match(line):
            return number
    return 0


def _shown(name: str, value: Any) -> tuple[Any, bool]:
    """A value as it may be shown, and whether something is hidden."""
    if isinstance(value, SecretStr):
        return (HIDDEN, True) if value.get_secret_value() else ("", True)
    if isinstance(value, tuple) and any(isinstance(one, SecretStr) for one in value):
        return [HIDDEN] * len(value), True
    if isinstance(value, dict):
        return {key: _shown(name, one)[0] for key, one in value.items()}, True
    if name.endswith("_command") and value:
        return _program(str(value)), True
    return _plain(value), False


def _program(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return HIDDEN
    return words[0] + (" ..." if len(words) > 1 else "") if words else ""


def _plain(value: Any) -> Any:
    """A value as JSON has it, without the passwords of its URLs."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _PASSWORD.sub("***", place_shown(value) if isinstance(value, Path) else str(value))

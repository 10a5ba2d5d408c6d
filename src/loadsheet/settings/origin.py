"""Where the value of each setting is from, for people, and secrets hidden.

Owns: how a value is shown. A secret never is: neither one that is declared as such, nor a password in a URL, nor a command that may
hold one.
"""

import re
import shlex
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, SecretStr

from loadsheet.contract import Assumptions
from loadsheet.settings import Settings, every_field
from loadsheet.settings.places import shown as place_shown
from loadsheet.settings.sources import Steps

DEFAULT = "default"
_PASSWORD = re.compile(r"(?<=://)[^/\s@]+(?=@)|(?<=[?&]password=)[^&\s]+|(?<=[?&]sslpassword=)[^&\s]+")
HIDDEN = "set"
"""What is shown of a secret."""

_TABLE = re.compile(r"\s*\[(?P<name>[^\[\]]+)\]\s*(#.*)?")
_ASSIGNED = re.compile(r"\s*(?P<name>[\w\"'.-]+(\s*\.\s*[\w\"'-]+)*)\s*=")


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
    for path, field in every_field():
        if path == ("assumptions",):
            continue
        value = getattr(settings, path[0])
        value = getattr(value, path[1]) if path[1:] else value
        shown, secret = _shown(path[-1], value)
        yield Traced(".".join(path), shown, value != field.default, _origin(path, settings), secret)
    for name, field in Assumptions.model_fields.items():
        value = getattr(settings.assumptions, name)
        path = ("assumptions", name)
        yield Traced(".".join(path), _plain(value), value != field.default, _origin(path, settings))


def _origin(path: Steps, settings: Settings) -> str:
    """The place of a value, or of the first one in a table."""
    found = next((one for other, one in settings.found.items() if other[: len(path)] == path), None)
    if found is None:
        return DEFAULT
    line = _line(settings.file, found.written)
    return f"{found.place} line {line}" if line else found.place


def _line(file: Path | None, written: Steps) -> int:
    """The line of a file, from 1, on which a setting stands under these tables; 0 if it is written in another way than `name = value`."""
    if file is None or not file.is_file() or not written:
        return 0
    here, wanted = "", ".".join(written).casefold()
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if heading := _TABLE.fullmatch(line):
            here = f"{_bare(heading['name'])}."
        elif (name := _ASSIGNED.match(line)) and (here + _bare(name["name"])).casefold() == wanted:
            return number
    return 0


def _bare(name: str) -> str:
    return re.sub(r"[\s\"']", "", name)


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

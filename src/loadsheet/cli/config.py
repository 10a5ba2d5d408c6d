"""`loadsheet config`: shows the settings and where each comes from, and prints a sample settings file.

Secrets are never shown: declared secrets, passwords in URLs, and commands that may contain one. The sample file is generated from the
settings and lists all of them: a commented line for each, with its meaning and default.
"""

import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from loadsheet.cli.options import CONFIG, JSON, combined_options, load
from loadsheet.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from loadsheet.settings import Settings
    from loadsheet.settings.model import Steps

DEFAULT = "default"
_PASSWORD = re.compile(r"(?<=://)[^/\s@]+(?=@)|(?<=[?&]password=)[^&\s]+|(?<=[?&]sslpassword=)[^&\s]+")
HIDDEN = "set"
"""Shown instead of a secret."""
_TABLE = re.compile(r"\s*\[(?P<name>[^\[\]]+)\]\s*(#.*)?")
_ASSIGNED = re.compile(r"\s*(?P<name>[\w\"'.-]+(\s*\.\s*[\w\"'-]+)*)\s*=")
_WIDTH = 100
_NOT_IN_A_FILE = frozenset({"shipper", "shippers", "assumptions"})
_HEAD = """\
# Settings of loadsheet. Every line below is the default: uncomment what you change.
#
# The first existing file is used: --config FILE, $LOADSHEET_CONFIG, ./loadsheet.toml, the user's own
# (~/.config/loadsheet/loadsheet.toml on Linux), /etc/loadsheet/loadsheet.toml. Relative folders start from the folder in which
# loadsheet is started. The environment (LOADSHEET_NAME, LOADSHEET_SECTION__NAME) wins over this file, the command line over both.
# `loadsheet config --origin` shows where each value comes from.
"""
_SHIPPERS = """\
## Shippers
#
# Each shipper with a table here has its own inbox, mappings, outbox and ledger: INBOX/acme, MAPPINGS/acme (or MAPPINGS, if there is no
# such folder), OUTBOX/acme, STATE/acme. Its table may contain any setting of this file; the others are shared. `loadsheet run` and
# `watch` process all shippers, `--shipper acme` only one. LOADSHEET_SHIPPERS__ACME__NAME sets NAME only for acme.
#
## [shippers.acme]
## exchange = "https://exchange.example/api"
## token_file = "/etc/loadsheet/acme.token"
#
## [shippers.acme.dispatch]
## connections = 2
#
## [shippers.acme.assumptions]
## flag_form = "true/false"
"""


@click.command()
@click.option("--all", "every", is_flag=True, help="Show every setting, including defaults.")
@click.option(
    "--origin",
    is_flag=True,
    help="Show where each value comes from: command line, variable, file and line, or default.",
)
@click.option("--sample", is_flag=True, help="Print a settings file with every setting, its meaning and its default.")
@combined_options(CONFIG, JSON)
def config(*, every: bool, origin: bool, sample: bool, config: Path | None, as_json: bool) -> None:
    """Show the settings that differ from their defaults. Secrets are shown as set, never with their value.

    If shippers are declared, these are the shared settings; --shipper shows those of one shipper.
    """
    from loadsheet.settings.sources import CONFIG_FILE, SITE_FILE

    if sample:
        click.echo(sample_file(), nl=False)
        return
    settings = load(config)
    traced = (_with_credential(setting, settings) for setting in trace(settings))
    shown = [setting for setting in traced if every or setting.changed]
    file = str(settings.file) if settings.file is not None and settings.file.is_file() else None
    if as_json:
        values = [
            {"setting": one.name, "value": one.value, "default": not one.changed, "origin": one.origin} for one in shown
        ]
        print_json({"file": file, "settings": values})
        return
    nowhere = f"no settings file: neither {CONFIG_FILE} in this folder, nor the user's, nor {SITE_FILE} exists"
    say(f"settings file: {file}" if file else nowhere)
    if shown:
        rows = [[setting.name, shown_value(setting), *([setting.origin] if origin else [])] for setting in shown]
        print_table(["Setting", "Value", *(["Origin"] if origin else [])], rows)
    else:
        say("all settings have their defaults; --all shows them")
    if settings.shippers and not settings.shipper:
        say(f"{', '.join(settings.shippers)} may have different settings: --shipper NAME shows them")


class Traced(NamedTuple):
    """One setting: its value for display (a JSON value), whether it differs from the default, and its origin. Assumptions are named
    `assumptions.NAME`.
    """

    name: str
    value: Any
    changed: bool
    origin: str
    secret: bool = False


def trace(settings: "Settings") -> Iterator[Traced]:
    """Every setting in the order of declaration, the assumptions last. `settings` come from `Settings.load`."""
    from loadsheet.contract import Assumptions
    from loadsheet.settings import every_field

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


def _origin(path: "Steps", settings: "Settings") -> str:
    """The place of a value, or of the first one in a table."""
    origin = next((value for other, value in settings.origins.items() if other[: len(path)] == path), None)
    if origin is None:
        return DEFAULT
    line = _line(settings.file, origin.written)
    return f"{origin.place} line {line}" if line else origin.place


def _line(file: Path | None, written: "Steps") -> int:
    """The line number (from 1) of a setting under these tables; 0 if it is not written as `name = value`."""
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
    """A value for display, and whether it is a secret."""
    from pydantic import SecretStr

    if isinstance(value, SecretStr):
        return (HIDDEN, True) if value.get_secret_value() else ("", True)
    if isinstance(value, tuple) and any(isinstance(item, SecretStr) for item in value):
        return [HIDDEN] * len(value), True
    if isinstance(value, dict):
        return {key: _shown(name, item)[0] for key, item in value.items()}, True
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
    """A value as JSON value, without passwords in URLs."""
    from pydantic import BaseModel

    from loadsheet.places import place_text as place_shown

    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return _PASSWORD.sub("***", place_shown(value) if isinstance(value, Path) else str(value))


def sample_file() -> str:
    """The text of the sample file. Loaded as it is, or with every setting uncommented, it gives the defaults."""
    from loadsheet.settings import Settings
    from loadsheet.settings.sections import Section

    fields = Settings.model_fields.items()
    general = [(name, field) for name, field in fields if not isinstance(field.default, Section)]
    parts = [["## Folders, exchange, token and ledger"]]
    parts[0] += [line for name, field in general if name not in _NOT_IN_A_FILE for line in _setting(name, field)]
    for name, field in fields:
        if isinstance(field.default, Section):
            section = type(field.default)
            lines = [f"## {str(section.__doc__).strip().splitlines()[0].rstrip('.')}", "#", f"# [{name}]"]
            parts.append([*lines, *(line for inner in section.model_fields.items() for line in _setting(*inner))])
    texts = [_HEAD, *("\n".join(part) for part in parts), "\n".join(_assumptions()), _SHIPPERS]
    return "\n\n".join(text.rstrip("\n") for text in texts) + "\n"


def _setting(name: str, field: "FieldInfo") -> Iterator[str]:
    yield "#"
    yield from _remark(str(field.description))
    yield f"# {name} = {_toml(field.default)}"


def _assumptions() -> Iterator[str]:
    from loadsheet.contract import Assumptions, register

    yield "## Our answers to what the interface leaves open (`loadsheet exchange assumptions`)"
    yield "#"
    yield "# [assumptions]"
    points = {point.setting: point for point in register()}
    for name, field in Assumptions.model_fields.items():
        point = points[f"assumptions.{name}"]
        yield "#"
        yield from _remark(f"{point.question} ({point.choices})" if point.choices else point.question)
        yield f"# {name} = {_toml(field.default)}"


def _remark(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="#   ", subsequent_indent="#   ", break_on_hyphens=False)


def _toml(value: Any) -> str:
    """A default as TOML. JSON is the same for these values, except for None, which becomes an empty text."""
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return '""'
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, tuple):
        value = list(value)
    return "{}" if value == {} else json.dumps(value, ensure_ascii=False)


def _with_credential(setting: Traced, settings: "Settings") -> Traced:
    """Mark the token as set if the service manager provides it."""
    from loadsheet.credentials import credential_of

    if setting.name != "token" or setting.changed or (path := credential_of(settings)) is None:
        return setting
    return setting._replace(value=HIDDEN, secret=True, changed=True, origin=f"credential {path.name}")


def shown_value(setting: Traced) -> str:
    """A value as the table shows it."""
    if setting.secret and setting.value == HIDDEN:
        return f"set ({setting.origin})"
    if setting.value is None or setting.value in ("", [], {}):
        return "none"
    return setting.value if isinstance(setting.value, str) else json.dumps(setting.value, ensure_ascii=False)

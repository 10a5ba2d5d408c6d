"""A settings file to begin with: every setting as a line that only has to be uncommented, with its meaning and its default.

Owns: the text; it is made from the settings, so that it leaves none out. Settings are grouped as in the model, a table for each section.
"""

import json
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from loadsheet.contract import Assumptions, register
from loadsheet.settings import Settings
from loadsheet.settings.sections import Section

WIDTH = 100
_NOT_IN_A_FILE = frozenset({"shipper", "shippers", "assumptions"})
_HEAD = """\
# Settings of loadsheet. Every line below is the default: uncomment what you change.
#
# The first file that exists counts: --config FILE, $LOADSHEET_CONFIG, ./loadsheet.toml, the user's own
# (~/.config/loadsheet/loadsheet.toml on Linux), /etc/loadsheet/loadsheet.toml. Relative folders are those of the folder that loadsheet
# is started in. The environment (LOADSHEET_NAME, LOADSHEET_SECTION__NAME) wins over this file, and the command line over both.
# `loadsheet config --origin` says which value is from where.
"""
_SHIPPERS = """\
## Shippers
#
# Each shipper that has a table here has an inbox, mappings, an outbox and a ledger of its own: INBOX/acme, MAPPINGS/acme (or MAPPINGS,
# if there is no such folder), OUTBOX/acme, STATE/acme. Its table may hold any setting of this file; what it does not hold is as for
# all. `loadsheet run` and `watch` serve all of them, `--shipper acme` one. LOADSHEET_SHIPPERS__ACME__NAME sets NAME for acme alone.
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


def sample() -> str:
    """The text of the file. It loads as it is, and with every setting uncommented; both come to the defaults."""
    parts = [_HEAD, "\n".join(_general()), *("\n".join(_section(name)) for name in _sections())]
    parts += ["\n".join(_assumptions()), _SHIPPERS]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _sections() -> list[str]:
    return [name for name, field in Settings.model_fields.items() if isinstance(field.default, Section)]


def _general() -> Iterator[str]:
    yield "## Folders, exchange, token and ledger"
    for name, field in Settings.model_fields.items():
        if name not in _NOT_IN_A_FILE and not isinstance(field.default, Section):
            yield from _setting(name, field)


def _section(name: str) -> Iterator[str]:
    section = type(Settings.model_fields[name].default)
    yield f"## {str(section.__doc__).strip().splitlines()[0].rstrip('.')}"
    yield "#"
    yield f"# [{name}]"
    for inner, field in section.model_fields.items():
        yield from _setting(inner, field)


def _setting(name: str, field: FieldInfo) -> Iterator[str]:
    yield "#"
    yield from _remark(str(field.description))
    yield f"# {name} = {_toml(field.default)}"


def _assumptions() -> Iterator[str]:
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
    return textwrap.wrap(text, WIDTH, initial_indent="#   ", subsequent_indent="#   ", break_on_hyphens=False)


def _toml(value: Any) -> str:
    """A default as TOML: of these, JSON writes the same, but for nothing, which an empty text stands for."""
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return '""'
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, tuple):
        value = list(value)
    return "{}" if value == {} else json.dumps(value, ensure_ascii=False)

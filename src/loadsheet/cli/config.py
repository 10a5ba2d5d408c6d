"""`loadsheet config`: shows the settings and where each comes from, and prints a sample settings file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from loadsheet.cli.options import CONFIG, JSON, load, together
from loadsheet.cli.output import print_json, print_table, say
from loadsheet.credentials import credential_of
from loadsheet.settings import Settings
from loadsheet.settings.display import HIDDEN, Traced, trace
from loadsheet.settings.display import sample as sample_text
from loadsheet.settings.sources import CONFIG_FILE, SITE_FILE


@click.command()
@click.option("--all", "every", is_flag=True, help="Show every setting, including defaults.")
@click.option(
    "--origin",
    is_flag=True,
    help="Show where each value comes from: command line, variable, file and line, or default.",
)
@click.option("--sample", is_flag=True, help="Print a settings file with every setting, its meaning and its default.")
@together(CONFIG, JSON)
def config(*, every: bool, origin: bool, sample: bool, config: Path | None, as_json: bool) -> None:
    """Show the settings that differ from their defaults. Secrets are shown as set, never with their value.

    If shippers are declared, these are the shared settings; --shipper shows those of one shipper.
    """
    if sample:
        click.echo(sample_text(), nl=False)
        return
    settings = load(config)
    traced = [_with_credential(setting, settings) for setting in trace(settings)]
    shown = [setting for setting in traced if every or setting.changed]
    if as_json:
        print_json({"file": _file(settings), "settings": [_as_json(setting) for setting in shown]})
        return
    say(_file_line(settings))
    _print(shown, origin=origin)
    if settings.shippers and not settings.shipper:
        say(f"{', '.join(settings.shippers)} may have different settings: --shipper NAME shows them")


def _file(settings: Settings) -> str | None:
    file = settings.file
    return str(file) if file is not None and file.is_file() else None


def _file_line(settings: Settings) -> str:
    if file := _file(settings):
        return f"settings file: {file}"
    return f"no settings file: neither {CONFIG_FILE} in this folder, nor the user's, nor {SITE_FILE} exists"


def _with_credential(setting: Traced, settings: Settings) -> Traced:
    """Mark the token as set if the service manager provides it."""
    if setting.name != "token" or setting.changed or (path := credential_of(settings)) is None:
        return setting
    return setting._replace(value=HIDDEN, secret=True, changed=True, origin=f"credential {path.name}")


def _print(shown: Sequence[Traced], *, origin: bool) -> None:
    if not shown:
        say("all settings have their defaults; --all shows them")
        return
    heads, rows = ["Setting", "Value"], [[setting.name, _value(setting)] for setting in shown]
    if origin:
        heads, rows = [*heads, "Origin"], [[*row, setting.origin] for row, setting in zip(rows, shown, strict=True)]
    print_table(heads, rows)


def _value(setting: Traced) -> str:
    if setting.secret and setting.value == HIDDEN:
        return f"set ({setting.origin})"
    if setting.value is None or setting.value in ("", [], {}):
        return "none"
    return setting.value if isinstance(setting.value, str) else json.dumps(setting.value, ensure_ascii=False)


def _as_json(setting: Traced) -> dict[str, Any]:
    return {"setting": setting.name, "value": setting.value, "default": not setting.changed, "origin": setting.origin}

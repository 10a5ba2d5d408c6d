"""`loadsheet config`: which settings are in force, where each is from, and a settings file to begin with."""

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
    traced = [_with_credential(one, settings) for one in trace(settings)]
    shown = [one for one in traced if every or one.changed]
    if as_json:
        print_json({"file": _file(settings), "settings": [_as_json(one) for one in shown]})
        return
    say(_file_line(settings))
    _print(shown, origin=origin)
    if settings.shippers and not settings.shipper:
        say(f"{', '.join(settings.shippers)} may have others: --shipper NAME shows them")


def _file(settings: Settings) -> str | None:
    file = settings.file
    return str(file) if file is not None and file.is_file() else None


def _file_line(settings: Settings) -> str:
    if file := _file(settings):
        return f"settings file: {file}"
    return f"no settings file: there is neither {CONFIG_FILE} here, nor one of this user, nor {SITE_FILE}"


def _with_credential(one: Traced, settings: Settings) -> Traced:
    """The token as it comes from the service manager, which no setting says."""
    if one.name != "token" or one.changed or (path := credential_of(settings)) is None:
        return one
    return one._replace(value=HIDDEN, secret=True, changed=True, origin=f"credential {path.name}")


def _print(shown: Sequence[Traced], *, origin: bool) -> None:
    if not shown:
        say("every setting has its default; --all shows them")
        return
    heads, rows = ["Setting", "Value"], [[one.name, _value(one)] for one in shown]
    if origin:
        heads, rows = [*heads, "Origin"], [[*row, one.origin] for row, one in zip(rows, shown, strict=True)]
    print_table(heads, rows)


def _value(one: Traced) -> str:
    if one.secret and one.value == HIDDEN:
        return f"set ({one.origin})"
    if one.value is None or one.value in ("", [], {}):
        return "none"
    return one.value if isinstance(one.value, str) else json.dumps(one.value, ensure_ascii=False)


def _as_json(one: Traced) -> dict[str, Any]:
    return {"setting": one.name, "value": one.value, "default": not one.changed, "origin": one.origin}

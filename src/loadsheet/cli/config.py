"""`loadsheet config`: shows the settings and where each comes from, and prints a sample settings file."""

from pathlib import Path

import click

from loadsheet.cli.options import CONFIG, JSON, load, together
from loadsheet.cli.output import print_json, print_table, say


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
    from loadsheet.cli.settings_shown import sample_file, shown_value, trace_with_credential
    from loadsheet.settings.sources import CONFIG_FILE, SITE_FILE

    if sample:
        click.echo(sample_file(), nl=False)
        return
    settings = load(config)
    shown = [setting for setting in trace_with_credential(settings) if every or setting.changed]
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

"""Options that several commands share, and how they become settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from loadsheet.settings import Settings

Command = Callable[..., Any]

_FOLDER = click.Path(file_okay=False, path_type=Path)

CONFIG = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Settings file (default: loadsheet.toml here, if any).",
)
MAPPINGS = click.option("--mappings", type=_FOLDER, help="Folder of mapping files (default: mappings).")
STATE = click.option("--state", type=_FOLDER, help="Folder of ledger and archive (default: .loadsheet).")
INBOX = click.option("--inbox", type=_FOLDER, help="Folder in which shippers drop files (default: inbox).")
OUTBOX = click.option("--outbox", type=_FOLDER, help="Folder for reports (default: outbox).")
EXCHANGE = click.option(
    "--exchange", metavar="URL|embedded", help="Base URL of the exchange, or our own in this process."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Machine output: JSON on stdout.")


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def load(config: Path | None, **given: Any) -> Settings:
    """The settings of a command; options that were not given are None."""
    return Settings.load(config, **given)

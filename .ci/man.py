"""Writes a man page for every command: `man.py FOLDER`. click-man makes each; it does not find commands that are loaded when asked for."""

import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
from click_man.core import generate_man_page

from loadsheet.cli import loadsheet


def contexts(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    """A command and all below it, each as it would be called."""
    context = click.Context(command, info_name=name, parent=parent)
    if isinstance(command, click.Group):
        below = {inner: command.get_command(context, inner) for inner in command.list_commands(context)}
        command.commands = {inner: found for inner, found in below.items() if found is not None and not found.hidden}
    yield context
    if isinstance(command, click.Group):
        for inner, found in command.commands.items():
            yield from contexts(found, context, inner)


def main(folder: Path) -> None:
    """Write all pages."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # click-man's own
    folder.mkdir(parents=True, exist_ok=True)
    for context in contexts(loadsheet, None, "loadsheet"):
        page = generate_man_page(context, version=version("loadsheet"))
        (folder / f"{context.command_path.replace(' ', '-')}.1").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""`loadsheet init`: a folder in which `loadsheet run` works at once. `loadsheet demo`: the sample files through the sample mappings.

An existing file is never changed: it is kept, and the command says so.
"""

from pathlib import Path
from typing import Any

import click

from loadsheet.cli.mapping import suggest
from loadsheet.cli.output import print_lines, say
from loadsheet.cli.run import run
from loadsheet.display_text import count_of


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--exchange", metavar="URL|embedded", help="The exchange (asked on a terminal; default: embedded).")
@click.option(
    "--from",
    "sheet",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Draft the mapping from this file instead of the example.",
)
def init(folder: Path, *, exchange: str | None, sheet: Path | None) -> None:
    """Make FOLDER ready (default: this folder): settings, inbox, outbox, and a mapping with a sample file and a test.

    Then `loadsheet run` works there at once. Existing files are kept.
    """
    from loadsheet.cli import starter

    chosen = starter.checked(exchange or starter.asked())
    print_lines(starter.make(folder, chosen, with_example=sheet is None))
    if sheet is not None:
        draft = folder / "mappings" / f"{sheet.stem}.yaml"
        click.get_current_context().invoke(
            suggest, files=(sheet,), target=None, out=draft, mappings=draft.parent, config=None
        )
        print_lines([f"  created  {draft}  (a draft from {sheet.name})"])
    print_lines(["", *starter.next_steps(folder, sheet, chosen)])


@click.command()
@click.argument("folder", default="loadsheet-demo", type=click.Path(file_okay=False, path_type=Path))
def demo(folder: Path) -> int:
    """Send the sample files through the sample mappings to the embedded exchange, in FOLDER (default: loadsheet-demo).

    The samples contain typical mistakes, so that the reports have something to show. Nothing leaves this machine.
    """
    from loadsheet.cli import starter
    from loadsheet.settings import EMBEDDED

    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty; name another folder")
    say(f"{count_of(starter.copy_samples(folder), 'sample file')} and their mappings are in {folder}")
    places = {name: folder / name for name in ("inbox", "mappings", "outbox")} | {"state": folder / ".loadsheet"}
    options: dict[str, Any] = {"exchange": EMBEDDED, "exit_zero": True}
    options |= dict.fromkeys(("limit", "since", "config", "settle_s"))
    options |= dict.fromkeys(("dry_run", "quiet", "verbose", "as_json"), False)
    code: int = click.get_current_context().invoke(run, **places, **options)
    return code

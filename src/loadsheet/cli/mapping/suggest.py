"""`loadsheet mapping suggest`: a mapping drafted from a sheet."""

from pathlib import Path

import click

from loadsheet.cli.options import CONFIG, Target, load, together
from loadsheet.cli.output import say
from loadsheet.contract import WRITES
from loadsheet.mapping_tools.column_profiles import observe
from loadsheet.mapping_tools.suggest import CHECK, FILL_IN, draft
from loadsheet.mapping_tools.yaml_writer import warnings, write_draft


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--target",
    type=click.Choice([operation.name for operation in WRITES]),
    help="The operation that the records are meant for; else the likeliest.",
)
@click.option("--out", type=Target(), help="Write the draft to this file, which must not exist.")
@together(CONFIG)
def suggest(files: tuple[Path, ...], *, target: str | None, out: Path | None, config: Path | None) -> None:
    """Draft a mapping from FILES: one workbook, one text file, or several that belong together.

    Every guess has its evidence behind it as a comment; what the sheet cannot say is marked FILL IN.
    """
    if out is not None and out.exists():
        raise click.UsageError(f"{out} exists already; a draft never overwrites a mapping")
    made = draft(observe(files, load(config)), target)
    text = write_draft(made)
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
    for said in warnings(made):
        say(said)
    lines = text.splitlines()[4:]
    marks = {mark: sum(mark in line for line in lines) for mark in (FILL_IN, CHECK)}
    say(f"{out or 'the draft'}: {marks[FILL_IN]} places to fill in, {marks[CHECK]} to check")

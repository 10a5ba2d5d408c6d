"""`loadsheet mapping template`: the workbook that a shipper fills in."""

from pathlib import Path

import click

from loadsheet.cli.mapping.input_files import mapping_named
from loadsheet.cli.options import CONFIG, MAPPINGS, Target, load, together
from loadsheet.mapping_tools.template import write_template


@click.command()
@click.argument("name", metavar="MAPPING")
@click.option("--out", type=Target(), help="The workbook to write (default: MAPPING.xlsx).")
@together(MAPPINGS, CONFIG)
def template(name: str, *, out: Path | None, mappings: Path | None, config: Path | None) -> None:
    """Write the workbook that the shipper of MAPPING (a name or a file) fills in: lists, notes, an example and a guide.

    A mapping of several files gives one workbook for each, named for its role.
    """
    mapping = mapping_named(name, load(config, mappings=mappings))
    first = out or Path(f"{mapping.name}.xlsx")
    for role in mapping.layouts:
        path = first if len(mapping.layouts) == 1 else first.with_name(f"{first.stem}-{role}{first.suffix}")
        write_template(mapping, role, path)
        click.echo(str(path))

"""`loadsheet mapping suggest`, `template` and `schema`: files for an author and for a shipper."""

from pathlib import Path

import click
import msgspec

from loadsheet.cli.mapping.input_files import mapping_named
from loadsheet.cli.options import CONFIG, MAPPINGS, Target, load, together
from loadsheet.cli.output import say
from loadsheet.contract import WRITES
from loadsheet.mapping_tools.column_types import CHECK
from loadsheet.mapping_tools.json_schema import mapping_schema
from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import FILL_IN, draft
from loadsheet.mapping_tools.template import write_template
from loadsheet.mapping_tools.yaml_writer import warnings, write_draft


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--target",
    type=click.Choice([operation.name for operation in WRITES]),
    help="The operation of the records. Default: the most likely one.",
)
@click.option("--out", type=Target(), help="Write the draft to this file, which must not exist.")
@together(CONFIG)
def suggest(files: tuple[Path, ...], *, target: str | None, out: Path | None, config: Path | None) -> None:
    """Draft a mapping from FILES: one workbook, one text file, or several that belong together.

    A comment gives the evidence for each guess. Missing values are marked FILL IN.
    """
    if out is not None and out.exists():
        raise click.UsageError(f"{out} already exists; a draft never overwrites a mapping")
    made = draft(observe(files, load(config)), target)
    text = write_draft(made)
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
    for warning in warnings(made):
        say(warning)
    lines = text.splitlines()[4:]
    marks = {mark: sum(mark in line for line in lines) for mark in (FILL_IN, CHECK)}
    say(f"{out or 'the draft'}: {marks[FILL_IN]} marked {FILL_IN}, {marks[CHECK]} marked {CHECK}")


@click.command()
@click.argument("name", metavar="MAPPING")
@click.option("--out", type=Target(), help="The workbook to write (default: MAPPING.xlsx).")
@together(MAPPINGS, CONFIG)
def template(name: str, *, out: Path | None, mappings: Path | None, config: Path | None) -> None:
    """Write the workbook that the shipper of MAPPING (a name or a file) fills in, with lists, notes, an example and a guide.

    A mapping of several files gives one workbook for each, named after its role.
    """
    mapping = mapping_named(name, load(config, mappings=mappings))
    first = out or Path(f"{mapping.name}.xlsx")
    for role in mapping.layouts:
        path = first if len(mapping.layouts) == 1 else first.with_name(f"{first.stem}-{role}{first.suffix}")
        write_template(mapping, role, path)
        click.echo(str(path))


@click.command()
@click.option("--out", type=Target(), help="Write the schema to this file instead of stdout.")
def schema(*, out: Path | None) -> None:
    """Print the JSON Schema of mapping files (draft 2020-12), for completion and validation in editors.

    Put `# yaml-language-server: $schema=mapping.schema.json` into the first line of a mapping.
    """
    text = msgspec.json.format(msgspec.json.encode(mapping_schema()), indent=2).decode()
    if out is None:
        click.echo(text)
        return
    out.write_text(f"{text}\n", encoding="utf-8")
    say(f'{out} written; first line of a mapping: "# yaml-language-server: $schema={out}"')

"""`loadsheet mapping schema`: the JSON Schema of mapping files, for editors."""

from pathlib import Path

import click
import msgspec

from loadsheet.cli.options import Target
from loadsheet.cli.output import say
from loadsheet.mapping_tools.json_schema import mapping_schema


@click.command()
@click.option("--out", type=Target(), help="Write it to this file instead of stdout.")
def schema(*, out: Path | None) -> None:
    """Print the JSON Schema of mapping files (draft 2020-12): editors complete and check by it.

    Put `# yaml-language-server: $schema=mapping.schema.json` into the first line of a mapping.
    """
    text = msgspec.json.format(msgspec.json.encode(mapping_schema()), indent=2).decode()
    if out is None:
        click.echo(text)
        return
    out.write_text(f"{text}\n", encoding="utf-8")
    say(f'{out} is written; first line of a mapping: "# yaml-language-server: $schema={out}"')

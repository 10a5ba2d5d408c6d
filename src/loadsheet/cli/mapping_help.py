"""`loadsheet mapping help`: what a key, a function or an operator of mapping files means, with an example and its result."""

import click

from loadsheet.cli.options import JSON
from loadsheet.cli.output import print_json
from loadsheet.mapping.words import closest_or_known


@click.command("help")
@click.argument("name", required=False)
@JSON
def explain(name: str | None, *, as_json: bool) -> None:
    """Explain NAME: a key (`pad_left`, `source.fold`), a function (`$sum`), an attribute (`.as_upper`) or an operator (`??`) of mapping files.

    Each example is shown with its result. Without NAME, all names are listed. In a shell, write '$sum' in single quotes, or sum.
    """
    from loadsheet.mapping_tools.reference import entries, find
    from loadsheet.mapping_tools.reference_pages import as_json as json_of
    from loadsheet.mapping_tools.reference_pages import overview, shown

    found = find(name) if name is not None else list(entries().values())
    if name is not None and not found:
        short = {known.rpartition(".")[2] or known: known for known in entries()}
        hint = closest_or_known(name, [*entries(), *short], most=8)
        raise click.UsageError(f'"{name}" is not a word of mapping files; {hint}')
    if as_json:
        print_json([json_of(entry) for entry in found])
    elif name is None:
        click.echo(overview())
    else:
        click.echo("\n\n".join(shown(entry) for entry in found))

"""`loadsheet mapping help`: what a key, a function or an operator of mapping files means, with an example and its result."""

import click
from click.shell_completion import CompletionItem

from loadsheet.cli.options import JSON
from loadsheet.cli.output import print_json


def _words(_ctx: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
    """The words by their full and their short names."""
    from loadsheet.mapping_tools.reference import entries

    names = dict.fromkeys(name for full in entries() for name in (full, full.rpartition(".")[2]))
    return [CompletionItem(name) for name in names if name.startswith(begun)]


@click.command("help")
@click.argument("name", required=False, shell_complete=_words)
@JSON
def explain(name: str | None, *, as_json: bool) -> None:
    """Explain NAME: a key (`pad_left`, `source.fold`), a function (`$sum`), an operator (`??`), a target (`order.create`) or a field of the payload.

    Each example is shown with its result. Without NAME, all names are listed. In a shell, write '$sum' in single quotes, or sum.
    """
    from loadsheet.mapping_tools import reference_pages as pages
    from loadsheet.mapping_tools.reference import entries, find

    found = find(name) if name is not None else list(entries().values())
    fields = pages.fields_named(name) if name is not None else []
    if not found and not fields:
        from loadsheet.similar_text import closest_or_known

        short = {known.rpartition(".")[2] or known: known for known in entries()}
        hint = closest_or_known(name or "", [*entries(), *short], most=8)
        raise click.UsageError(f'"{name}" is not a word of mapping files; {hint}')
    if as_json:
        print_json([*(pages.as_json(entry) for entry in found), *fields])
    elif name is None:
        click.echo(pages.overview())
    else:
        click.echo("\n\n".join([*map(pages.shown, found), *map(pages.shown_field, fields)]))

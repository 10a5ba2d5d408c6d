"""`loadsheet mapping ...`: write a mapping with help from the sheet, look at what it does, prove it, and compare two of them."""

import importlib

import click

_VERBS = {  # verb: the module that holds it under the same name; imported only when it is asked for
    "suggest": "loadsheet.cli.mapping.drafts",
    "lint": "loadsheet.cli.mapping.lint",
    "preview": "loadsheet.cli.mapping.preview_and_diff",
    "template": "loadsheet.cli.mapping.drafts",
    "test": "loadsheet.cli.mapping.preview_and_diff",
    "diff": "loadsheet.cli.mapping.preview_and_diff",
    "schema": "loadsheet.cli.mapping.drafts",
}


class _Verbs(click.Group):
    """The verbs, each loaded when it is asked for: `lint` needs no workbook writer."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (signature is click's)
        """The names, in the order in which a mapping comes to be."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The verb of this name, or None."""
        if cmd_name not in _VERBS:
            return None
        command: click.Command = getattr(importlib.import_module(_VERBS[cmd_name]), cmd_name)
        return command


@click.group(cls=_Verbs)
def mapping() -> None:
    """Mapping files: what the shipper sends, and what the exchange gets."""

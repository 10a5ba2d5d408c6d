"""`loadsheet mapping ...`: draft a mapping from a sheet, preview it, test it, and compare it with another."""

import importlib

import click

_VERBS = {  # verb: the module with a function of that name, imported on use
    "suggest": "loadsheet.cli.mapping.drafts",
    "lint": "loadsheet.cli.mapping.lint",
    "preview": "loadsheet.cli.mapping.preview_and_diff",
    "template": "loadsheet.cli.mapping.drafts",
    "test": "loadsheet.cli.mapping.preview_and_diff",
    "diff": "loadsheet.cli.mapping.preview_and_diff",
    "schema": "loadsheet.cli.mapping.drafts",
}


class _Verbs(click.Group):
    """The verbs, each loaded on use: `lint` needs no workbook writer."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (signature is click's)
        """The names, in the order of use."""
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

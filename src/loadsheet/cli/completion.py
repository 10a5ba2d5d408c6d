"""What a shell offers for the arguments of commands: keys, runs and mappings.

A shell waits for every answer, so nothing here asks a server: keys and runs come from a ledger in a file only. Settings that are
wrong, and a ledger that is missing or damaged, give no offers and no message.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from loadsheet.cli.access import ledger_to_read
from loadsheet.cli.options import load
from loadsheet.problems import LoadsheetError

if TYPE_CHECKING:
    from loadsheet.ledger import Ledger
    from loadsheet.settings import Settings

Offers = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MOST = 100  # more names help nobody
_NAME = re.compile(r"^mapping: *[\"']?([^\s\"'#]+)", re.MULTILINE)


def _settings(ctx: click.Context) -> "Settings":
    """The settings of the command line as far as it is typed. Raises LoadsheetError and click.UsageError."""
    given = {name: ctx.params[name] for name in ("mappings", "state") if name in ctx.params}
    with ctx.scope(cleanup=False):
        return load(ctx.params.get("config"), **given)


@contextmanager
def _ledger(ctx: click.Context) -> Iterator["Ledger | None"]:
    """The ledger in a file of the command line, or None if it is on a server."""
    settings = _settings(ctx)
    if settings.is_shared:
        yield None
        return
    with ledger_to_read(settings) as ledger:
        yield ledger


def _quietly(offers: Offers) -> Offers:
    def offer(ctx: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
        with suppress(LoadsheetError, click.ClickException, OSError):
            return offers(ctx, option, begun)
        return []

    return offer


def keys(*states: str) -> Offers:
    """Offers the keys of entries in one of these states (values of State; default: any), those of the latest entries first."""

    @_quietly
    def offer(ctx: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
        from loadsheet.ledger import State

        with _ledger(ctx) as ledger:
            found = ledger.queries.keys_beginning(begun, [*map(State, states)], _MOST) if ledger else []
        return [CompletionItem(key) for key in found]

    return offer


@_quietly
def run_names(ctx: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the names of the latest runs, with their exit codes."""
    with _ledger(ctx) as ledger:
        found = ledger.queries.runs(_MOST) if ledger else []
    return [CompletionItem(run.name, help=f"exit code {run.exit_code}") for run in found if run.name.startswith(begun)]


def keys_and_runs(ctx: click.Context, option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the latest runs and the keys of all entries."""
    return [*run_names(ctx, option, begun), *keys()(ctx, option, begun)]


@_quietly
def mapping_names(ctx: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Offers the names of the mappings in the folder, with their files. The files are searched, not loaded."""
    from loadsheet.mapping import mapping_files

    settings = _settings(ctx)
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in mapping_files(settings.mappings)}
    named = ((found[1], path) for path, text in texts.items() if (found := _NAME.search(text)))
    return [CompletionItem(name, help=path.name) for name, path in named if name.startswith(begun)]

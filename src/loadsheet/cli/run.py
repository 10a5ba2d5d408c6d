"""`loadsheet run`: everything that is finished in the inbox, once."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from loadsheet import pipeline
from loadsheet.cli.options import CONFIG, EXCHANGE, INBOX, JSON, MAPPINGS, OUTBOX, STATE, load, together
from loadsheet.cli.output import print_lines, print_raw_json, progress, say
from loadsheet.dispatch import Client
from loadsheet.exchange import Embedded
from loadsheet.ledger import open_ledger
from loadsheet.problems import SettingsError
from loadsheet.settings import EMBEDDED, Settings


@click.command()
@together(INBOX, MAPPINGS, OUTBOX, STATE, EXCHANGE, CONFIG)
@click.option(
    "--settle", "settle_s", type=click.FloatRange(0), help="Seconds a file must have been quiet (default: 5)."
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 also if rows need someone (instead of 1 or 65).")
@click.option("--quiet", is_flag=True, help="Say nothing unless something needs someone.")
@JSON
def run(
    *,
    inbox: Path | None,
    mappings: Path | None,
    outbox: Path | None,
    state: Path | None,
    exchange: str | None,
    config: Path | None,
    settle_s: float | None,
    exit_zero: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Take in every finished file of the inbox, submit what is ready, and report what became of every row."""
    settings = load(
        config, inbox=inbox, mappings=mappings, outbox=outbox, state=state, exchange=exchange, settle_s=settle_s
    )
    settings.inbox.mkdir(parents=True, exist_ok=True)
    with (
        open_ledger(settings.database_url) as ledger,
        open_exchange(settings) as client,
        progress("sending") as advance,
    ):
        result = pipeline.run(settings, ledger, client, progress=advance)
    for problem in result.left:
        say(str(problem))
    if as_json:
        print_raw_json(result.reports.summary.to_json())
    elif result.exit_code or not quiet:
        print_lines(result.reports.sentences)
    if result.stopped:
        say(f"loadsheet: {result.stopped}")
    return 0 if exit_zero and result.exit_code in (1, 65) else result.exit_code


@contextmanager
def open_exchange(settings: Settings) -> Iterator[Client]:
    """A client of the exchange that the settings name; the embedded one is started for it, with a token of its own."""
    if settings.exchange != EMBEDDED:
        token = settings.read_token()
        if not token:
            raise SettingsError("no token: set LOADSHEET_TOKEN, or token_file in loadsheet.toml")
        with Client(settings.exchange, token, settings) as client:
            yield client
        return
    token = secrets.token_urlsafe(32)
    settings.state.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{settings.state / 'exchange.db'}"
    with Embedded(database, token, settings.assumptions) as served, Client(served.url, token, settings) as client:
        yield client

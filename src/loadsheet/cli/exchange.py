"""`loadsheet exchange ...`: the exchange alone, and the register of assumptions."""

import click

from loadsheet.cli.options import CONFIG, JSON, load
from loadsheet.cli.output import print_json, print_table
from loadsheet.contract import register
from loadsheet.exchange import serve as serve_exchange
from loadsheet.problems import SettingsError


@click.group()
def exchange() -> None:
    """Our own exchange: serve it, and see what it assumes."""


@exchange.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 lets the system choose."
)
@click.option("--database", default="sqlite:///exchange.db", show_default=True, help="Where records are kept.")
@CONFIG
def serve(host: str, port: int, database: str, config: str | None) -> None:
    """Run the exchange until it is stopped. The token comes from LOADSHEET_TOKEN or a token file."""
    settings = load(config)  # type: ignore[arg-type]
    token = settings.read_token()
    if not token:
        raise SettingsError("the exchange needs a token: set LOADSHEET_TOKEN, or token_file in loadsheet.toml")
    serve_exchange(
        host=host, port=port, database_url=database, token=token, assumptions=settings.assumptions, announce=click.echo
    )


@exchange.command()
@JSON
def assumptions(*, as_json: bool) -> None:
    """What the interface leaves open, what we do by default, and the setting that changes it."""
    names = ("section", "question", "default", "choices", "setting", "affects")
    rows = [[getattr(entry, name) for name in names] for entry in register()]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.capitalize() for name in names], rows)

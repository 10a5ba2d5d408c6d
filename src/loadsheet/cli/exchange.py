"""`loadsheet exchange ...`: the exchange alone, and the register of assumptions."""

from dataclasses import fields
from functools import partial
from pathlib import Path

import click

from loadsheet.cli.options import CONFIG, JSON, load
from loadsheet.cli.output import print_json, print_table
from loadsheet.cli.probe import probe
from loadsheet.cli.tokens import token
from loadsheet.contract import register
from loadsheet.credentials import read_token
from loadsheet.exchange import FaultClass, Limits, Tls, deviations, read_faults, read_personality
from loadsheet.exchange import serve as serve_exchange
from loadsheet.file_modes import write_privately
from loadsheet.settings import Settings

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def exchange() -> None:
    """Our own exchange: serve it, and see what it assumes."""


exchange.add_command(token)
exchange.add_command(probe)


@exchange.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 lets the system choose."
)
@click.option("--database", default="sqlite:///exchange.db", show_default=True, help="Where records are kept.")
@click.option("--tls-cert", type=_FILE, help="Certificate with its chain (PEM): serve https.")
@click.option("--tls-key", type=_FILE, help="The certificate's private key (PEM, without a passphrase).")
@click.option(
    "--tls-in-front", is_flag=True, help="Serve other machines without TLS, because a proxy in front speaks it."
)
@click.option("--personality", type=_FILE, help="File of assumptions by name; it wins over the settings.")
@click.option("--truth", type=_FILE, help="File to which every effect that really happened is appended.")
@click.option("--faults", type=_FILE, help="Script of misbehaviour, for tests; on a loopback host only.")
@CONFIG
def serve(
    *,
    host: str,
    port: int,
    database: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_in_front: bool,
    personality: Path | None,
    truth: Path | None,
    faults: Path | None,
    config: Path | None,
) -> None:
    """Run the exchange until it is stopped.

    The operator's token comes from LOADSHEET_TOKEN or a token file; `exchange token add` makes further ones for parties.
    Addresses that other machines reach need --tls-cert and --tls-key, or --tls-in-front.
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    settings = load(config)
    write_privately(partial(click.echo, err=True), allow_root=settings.allow_root)
    assumptions = read_personality(personality, settings.assumptions) if personality else settings.assumptions
    for line in deviations(assumptions):
        click.echo(f"assumptions.{line}", err=True)
    serve_exchange(
        host=host,
        port=port,
        database_url=database,
        token=read_token(settings),
        assumptions=assumptions,
        announce=click.echo,
        truth=truth,
        faults=read_faults(faults) if faults else None,
        limits=_limits(settings),
        docs_open=settings.exchange_docs == "open",
        database_s=settings.exchange_database_s,
        tls=Tls(tls_cert, tls_key) if tls_cert and tls_key else None,
        tls_in_front=tls_in_front,
    )


@exchange.command()
@JSON
def faults(*, as_json: bool) -> None:
    """The classes of misbehaviour that a script for `serve --faults` may name."""
    rows = [[kind.value, kind.doc, kind.happens.value] for kind in FaultClass]
    names = ("fault", "what the client meets", "effect")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.capitalize() for name in names], rows)


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


def _limits(settings: Settings) -> Limits:
    return Limits(**{limit.name: getattr(settings, f"exchange_{limit.name}") for limit in fields(Limits)})

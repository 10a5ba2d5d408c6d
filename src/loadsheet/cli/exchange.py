"""`loadsheet exchange ...`: serve our own exchange and manage its tokens, probe any exchange, list the assumptions. `loadsheet pull`:
download the records of any exchange as workbook, CSV or JSON, for analysts.
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from loadsheet import exit_codes
from loadsheet.cli.options import CONFIG, EXCHANGE, JSON, STATE, Target, clock, combined_options, grouped, load
from loadsheet.cli.output import print_json, print_lines, print_table, say
from loadsheet.errors import SettingsError
from loadsheet.places import write_privately

if TYPE_CHECKING:
    from loadsheet.dispatch.probe import ProbeResult
    from loadsheet.exchange import Token, TokenAdmin
    from loadsheet.reports.listing_export import Layout, Pulled


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def exchange() -> None:
    """Our own exchange: serve it, and list its assumptions."""


class Listening(NamedTuple):
    """Where `serve` listens, and its TLS files."""

    host: str
    port: int
    tls_cert: Path | None
    tls_key: Path | None
    tls_in_front: bool


@exchange.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 lets the system choose."
)
@click.option("--database", default="sqlite:///exchange.db", show_default=True, help="Database URL of the records.")
@click.option("--tls-cert", type=_FILE, help="Certificate with its chain (PEM): serve https.")
@click.option("--tls-key", type=_FILE, help="The certificate's private key (PEM, without a passphrase).")
@click.option(
    "--tls-in-front", is_flag=True, help="Serve other machines without TLS, because a proxy in front terminates it."
)
@click.option("--personality", type=_FILE, help="File of assumptions by name; overrides the settings.")
@click.option("--truth", type=_FILE, help="File to which every effect is appended, for tests.")
@CONFIG
@grouped(listening=Listening)
def serve(
    *, listening: Listening, database: str, personality: Path | None, truth: Path | None, config: Path | None
) -> None:
    """Run the exchange until it is stopped.

    The operator's token comes from LOADSHEET_TOKEN or a token file; `exchange token add` creates tokens for parties. Addresses that
    other machines can reach need --tls-cert and --tls-key, or --tls-in-front.
    """
    from loadsheet.credentials import read_token
    from loadsheet.exchange import Address, ExchangeSetup, Tls
    from loadsheet.exchange import serve as serve_exchange
    from loadsheet.exchange_profile import deviations, read_personality

    host, port, tls_cert, tls_key, tls_in_front = listening
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    settings = load(config)
    write_privately(partial(click.echo, err=True), allow_root=settings.allow_root)
    assumptions = read_personality(personality, settings.assumptions) if personality else settings.assumptions
    for line in deviations(assumptions):
        click.echo(f"assumptions.{line}", err=True)
    setup = ExchangeSetup(database, read_token(settings), assumptions, settings.server, truth)
    tls = Tls(tls_cert, tls_key) if tls_cert and tls_key else None
    serve_exchange(setup, Address(host, port, tls, tls_in_front), click.echo)


@exchange.command()
@JSON
def assumptions(*, as_json: bool) -> None:
    """List what the interface leaves open, the default, and the setting that changes it."""
    from loadsheet.contract import register

    names = ("section", "question", "default", "choices", "setting", "affects")
    rows = [[getattr(entry, name) for name in names] for entry in register()]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.capitalize() for name in names], rows)


_DATABASE: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--database", default="sqlite:///exchange.db", show_default=True, help="Database URL of the exchange."
)


@exchange.group()
def token() -> None:
    """Tokens of our own exchange: each belongs to a party, or to an operator, who sees everything."""


@token.command()
@click.option("--party", required=True, help="Sender or receiver as named in the records; '' for an operator.")
@click.option("--name", default="", help="Name of the token (default: made from the party).")
@click.option("--expires", "expires_days", metavar="DAYS", type=click.IntRange(min=1), help="Days until it expires.")
@_DATABASE
@JSON
def add(party: str, name: str, expires_days: int | None, database: str, as_json: bool) -> None:
    """Create a token and print it. It is never shown again."""
    with _token_admin(database) as admin:
        made, secret = admin.add(party, name=name, expires_days=expires_days)
    if as_json:
        print_json({"token": secret, **_described(made)})
        return
    print_lines([secret])
    until = f"until {made.expires:%Y-%m-%d %H:%M} UTC" if made.expires else "until it is revoked"
    say(
        f"token {made.name} (number {made.number}) for {made.party or 'an operator'}, {until}; keep it, it is not shown again"
    )


@token.command(name="list")
@_DATABASE
@JSON
def list_(database: str, as_json: bool) -> None:
    """List all tokens, including expired and revoked ones, without their text."""
    with _token_admin(database) as admin:
        described = [_described(each) for each in admin.all()]
    if as_json:
        print_json(described)
    else:
        heads = ("Number", "Name", "Party", "State", "Created", "Expires", "Revoked")
        print_table(heads, [[each[head.lower()] or "-" for head in heads] for each in described])


@token.command()
@click.argument("name_or_number")
@_DATABASE
@JSON
def revoke(name_or_number: str, database: str, as_json: bool) -> None:
    """Revoke a token for good. Running exchanges refuse it within a second."""
    with _token_admin(database) as admin:
        revoked = admin.revoke(name_or_number)
    if as_json:
        print_json(_described(revoked))
    else:
        print_lines([f"token {revoked.name} (number {revoked.number}) is revoked"])


def _token_admin(database: str) -> "TokenAdmin":
    from loadsheet.exchange import TokenAdmin

    return TokenAdmin(database)


def _described(each: "Token") -> dict[str, Any]:
    from loadsheet.exchange.auth import utc_now

    return {
        "number": each.number,
        "name": each.name,
        "party": each.party,
        "state": each.state(utc_now()),
        "created": each.created.isoformat(),
        "expires": each.expires.isoformat() if each.expires else None,
        "revoked": each.revoked.isoformat() if each.revoked else None,
    }


class ProbeOptions(NamedTuple):
    """How `probe` works: the consent, the file it writes, values of fields, seconds between calls, and whether it prints every call."""

    owned: bool
    out: Path
    given: tuple[str, ...]
    pause_s: float
    verbose: bool


@exchange.command()
@click.option(
    "--i-own-this-tenant",
    "owned",
    is_flag=True,
    help="Confirm it: orders and tenders named LSPROBE-... are created there and deleted again.",
)
@click.option(
    "--to",
    "--out",
    "out",
    type=Target(),
    default=Path("capabilities.yaml"),
    show_default=True,
    help="File for the findings; the setting `capabilities` reads it.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Value of a field in all records, such as a party that the tenant knows. May be given several times.",
)
@click.option(
    "--pause",
    "pause_s",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds between two calls.",
)
@click.option("--verbose", is_flag=True, help="Print every call on stderr.")
@combined_options(EXCHANGE, CONFIG, JSON)
@grouped(options=ProbeOptions)
def probe(*, options: ProbeOptions, exchange: str | None, config: Path | None, as_json: bool) -> int:
    """Find out how an exchange's sandbox handles what the interface leaves open. Writes to the tenant and cleans up."""
    from loadsheet.dispatch.probe import probe as ask_exchange
    from loadsheet.exchange_profile import write_capabilities
    from loadsheet.run_resources import exchange_client
    from loadsheet.settings import EMBEDDED

    settings = load(config, exchange=exchange, capabilities="")  # ignores earlier findings, which may be wrong
    owned, out, given, pause_s, verbose = options
    values = dict(_pair(text) for text in given)
    if settings.exchange == EMBEDDED:
        raise SettingsError("our own exchange needs no probe; name another one with --exchange URL")
    if not owned:
        raise SettingsError(
            f"a probe creates and deletes orders and tenders at {settings.exchange}; if that tenant is yours, add"
            " --i-own-this-tenant"
        )
    with exchange_client(settings) as client:
        found = ask_exchange(
            client,
            settings,
            given=values,
            pause_s=pause_s,
            report=say if verbose else lambda _line: None,
        )
    _print_findings(found, as_json=as_json)
    if found.stopped:
        say(f"stopped early; {out} was not written")
        raise found.stopped
    write_capabilities(out, found.capabilities)
    say(f"{out} was written; name it in the setting capabilities")
    return exit_codes.NEEDS_SOMEONE if found.left else 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise SettingsError(f"--set {text}: write FIELD=VALUE")
    return name, value


def _print_findings(found: "ProbeResult", *, as_json: bool) -> None:
    capabilities = found.capabilities
    names = ("question", "assumption", "value", "sent", "came_back", "finding", "confidence")
    if as_json:
        answers = [{name: getattr(answer, name) for name in names} for answer in capabilities.answers]
        stopped = str(found.stopped) if found.stopped else None
        print_json(
            {
                "exchange": capabilities.exchange,
                "probed_at": capabilities.probed_at.isoformat(timespec="seconds"),
                "calls": found.calls,
                "answers": answers,
                "left": found.left,
                "stopped": stopped,
            }
        )
    else:
        heads = ["Question", "Assumption", "Value", "Finding", "Confidence"]
        rows = [
            [answer.question, answer.assumption, _shown(answer.value), answer.finding, answer.confidence]
            for answer in capabilities.answers
        ]
        print_table(heads, rows)
    say(
        f"{found.calls} calls; "
        + ("everything was cleaned up" if not found.left else f"{len(found.left)} could not be removed:")
    )
    for line in found.left:
        say(f"  {line}")


def _shown(value: object) -> str:
    return "" if value is None else str(value) or "(empty)"


_SHOWN = 50
_HEADS = ("Key", "Status", "From", "To", "Pickup", "Packages")  # fits a narrow terminal


@click.command()
@click.argument("what", metavar="orders|tenders", type=click.Choice(["orders", "tenders"]))
@click.option(
    "--to",
    "--out",
    "target",
    metavar="FILE",
    type=Target(),
    help="File to write, ending in .xlsx, .csv, .json.",
)
@combined_options(EXCHANGE, STATE, CONFIG, JSON)
def pull(what: str, *, target: Path | None, as_json: bool, config: Path | None, **given: Any) -> int:
    """Download what the exchange lists: one sheet or file for the records, and one for each list in them.

    Without --to, prints a table on a terminal and CSV in a pipe; --json prints the listing as received. Exits with 1 if the listing
    does not hold all records of the exchange: the interface has no second page.
    """
    from loadsheet.contract import BY_NAME
    from loadsheet.reports.listing_export import FORMS, Pulled, layout, write_pulled
    from loadsheet.run_resources import exchange_client
    from loadsheet.settings import EMBEDDED

    subject = what.removesuffix("s")
    laid_out = layout(subject)
    if target is not None and target.suffix.lower() not in FORMS:
        raise click.BadParameter(f"{target}: the file must end in {', '.join(FORMS)}", param_hint="--to")
    settings = load(config, **given)
    with exchange_client(settings) as client:
        operation = BY_NAME[f"{subject}.list"]
        at = clock()().isoformat(timespec="seconds").replace("+00:00", "Z")
        pulled = Pulled(operation, client.whole_listing(operation))
    if target is None:
        _show(pulled, laid_out, as_json=as_json)
        written: list[Path] = []
    else:
        source = "the embedded exchange" if settings.exchange == EMBEDDED else client.base_url
        written = write_pulled(pulled, target, laid_out, source=source, at=at)
    return _report_completeness(pulled, written, as_json=as_json and target is not None)


def _show(pulled: "Pulled", laid_out: "Layout", *, as_json: bool) -> None:
    """The listing on stdout."""
    from loadsheet.reports.listing_export import write_json, write_table

    if as_json:
        write_json(pulled, sys.stdout)
        sys.stdout.flush()  # raises here if the disk is full
    elif not sys.stdout.isatty():
        write_table(pulled, sys.stdout, laid_out)
        sys.stdout.flush()
    else:
        print_table(_HEADS, [_overview_row(pulled, record) for record in islice(pulled.records(), _SHOWN)])
        if pulled.count > _SHOWN:
            say(f"the first {_SHOWN} are shown; --to FILE.xlsx writes all")


def _overview_row(pulled: "Pulled", record: dict[str, object]) -> list[object]:
    from loadsheet.contract import overview_of

    seen = overview_of(pulled.operation.record, record)
    ends = (", ".join(filter(None, (stop.city, stop.country))) for stop in (seen.pickup, seen.delivery))
    return [seen.key, seen.status, *ends, seen.pickup.early, seen.packages]


def _report_completeness(pulled: "Pulled", written: list[Path], *, as_json: bool) -> int:
    """Report how complete the listing is; returns the exit code."""
    if as_json:
        print_json(
            {
                "listed": pulled.coverage_text,
                "complete": pulled.complete,
                "records": pulled.count,
                "total_count": pulled.listing.total_count,
                "files": [str(path) for path in written],
            }
        )
    say(pulled.coverage_text)
    if written and not as_json:
        say(f"written: {', '.join(map(str, written))}")
    if not pulled.complete:
        if pulled.listing.todo:
            say(f"to see the others: {pulled.listing.todo}")
        return exit_codes.NEEDS_SOMEONE
    return 0

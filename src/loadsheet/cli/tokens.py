"""`loadsheet exchange token ...`: who may call our own exchange."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from loadsheet.cli.options import JSON
from loadsheet.cli.output import print_json, print_lines, print_table, say
from loadsheet.exchange import Token, TokenOffice
from loadsheet.exchange.tokens import utc_now

_DATABASE: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--database", default="sqlite:///exchange.db", show_default=True, help="Where the exchange keeps its records."
)


@click.group()
def token() -> None:
    """Tokens of our own exchange: each belongs to a party, or to an operator, who sees everything."""


@token.command()
@click.option("--party", required=True, help="Sender or receiver as records name it; '' for an operator.")
@click.option("--name", default="", help="What the token is called (default: made from the party).")
@click.option("--expires", "expires_days", metavar="DAYS", type=click.IntRange(min=1), help="Days until it expires.")
@_DATABASE
@JSON
def add(party: str, name: str, expires_days: int | None, database: str, as_json: bool) -> None:
    """Make a token and print it: this once and never again."""
    with TokenOffice(database) as office:
        made, secret = office.add(party, name=name, expires_days=expires_days)
    if as_json:
        print_json({"token": secret, **_described(made, utc_now())})
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
    """All tokens, also expired and revoked ones, without their text."""
    with TokenOffice(database) as office:
        described = [_described(each, utc_now()) for each in office.all()]
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
    """Make a token unusable for good; running exchanges refuse it a second later at the latest."""
    with TokenOffice(database) as office:
        revoked = office.revoke(name_or_number)
    if as_json:
        print_json(_described(revoked, utc_now()))
    else:
        print_lines([f"token {revoked.name} (number {revoked.number}) is revoked"])


def _described(each: Token, now: datetime) -> dict[str, Any]:
    return {
        "number": each.number,
        "name": each.name,
        "party": each.party,
        "state": each.state(now),
        "created": each.created.isoformat(),
        "expires": each.expires.isoformat() if each.expires else None,
        "revoked": each.revoked.isoformat() if each.revoked else None,
    }

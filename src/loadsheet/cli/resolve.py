"""`loadsheet resolve` and `retry`: show entries with an unknown outcome and all evidence; record decisions with who, when and why."""

import getpass
from typing import TYPE_CHECKING

import click

from loadsheet.cli.access import held_ledger, ledger_to_read, refuse_to_decide
from loadsheet.cli.completion import keys
from loadsheet.cli.options import EXCHANGE, JSON, STATE, with_settings
from loadsheet.cli.output import print_json, say

if TYPE_CHECKING:
    from loadsheet.settings import Settings

UNKNOWN_LEFT = 1
NOTHING_DECIDED = 1
NOTHING_FOUND = 1


@click.command()
@click.argument("key", required=False, shell_complete=keys("unknown", "sending"))
@click.option("--accepted", "choice", flag_value="accepted", help="The record is at the exchange: I looked.")
@click.option(
    "--send-again", "choice", flag_value="send again", help="The record is not at the exchange: send it again."
)
@click.option(
    "--give-up",
    "choice",
    flag_value="give up",
    help="Abandon the record: it is not sent again, and its outcome stays unknown.",
)
@click.option("--comment", default="", help="Reason; stored with the decision.")
@click.option("--who", default="", help="Name of the person who decides (default: the user's name).")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--i-know-it-may-double",
    "doubling",
    is_flag=True,
    help="With --yes: also allow creates and confirmations, which may then exist twice.",
)
@with_settings(STATE, EXCHANGE)
@JSON
def resolve(
    *,
    settings: "Settings",
    key: str | None,
    choice: str | None,
    comment: str,
    who: str,
    yes: bool,
    doubling: bool,
    as_json: bool,
) -> int:
    """Show records with an unknown outcome and all evidence, or decide about KEY.

    This command sends nothing: the next run sends what you release.
    """
    from loadsheet.cli import entry_decisions

    unresolved = entry_decisions.find_unresolved(settings, key)
    sending = entry_decisions.find_sending(settings, key)
    if choice is None:
        entry_decisions.show(unresolved, sending, as_json=as_json)
        return UNKNOWN_LEFT if unresolved or sending.orphaned else 0
    if not key or not comment.strip():
        raise click.UsageError("a decision needs a KEY and a --comment with the reason")
    refuse_to_decide(settings)
    if refusal := entry_decisions.refusal(key, unresolved, sending, choice):
        say(refusal)
        return NOTHING_DECIDED
    if not as_json:
        entry_decisions.show(unresolved, entry_decisions.NONE_SENDING, as_json=False)
    entry_decisions.confirm_choice(key, unresolved, choice, yes=yes, doubling=doubling)
    entry_decisions.decide(settings, unresolved, choice, who=who or getpass.getuser(), comment=comment.strip())
    if as_json:
        print_json([{**one.details, "decided": choice} for one in unresolved])
    return 0


@click.command()
@click.argument("key", required=False, shell_complete=keys("refused", "held"))
@click.option("--file", "file", help="All refused or held entries of this file.")
@click.option("--held", is_flag=True, help="Only held entries.")
@click.option("--refused", is_flag=True, help="Only entries that the exchange refused.")
@click.option("--comment", default="", help="Reason; stored with the decision.")
@click.option("--who", default="", help="Name of the person who decides (default: the user's name).")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent.")
@with_settings(STATE)
@JSON
def retry(
    *,
    settings: "Settings",
    key: str | None,
    file: str | None,
    held: bool,
    refused: bool,
    comment: str,
    who: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Make refused or held entries ready again: the next run sends them.

    A held change of an accepted record is sent as an update. Records with an unknown outcome are not released here: use loadsheet
    resolve.
    """
    from loadsheet.cli import entry_decisions
    from loadsheet.ledger import State

    if not (key or file or held or refused):
        raise click.UsageError("give a KEY, --file NAME, --held or --refused")
    if not dry_run:
        refuse_to_decide(settings)
    states = [state for state, wanted in ((State.HELD, held), (State.REFUSED, refused)) if wanted]
    with ledger_to_read(settings) if dry_run else held_ledger(settings) as ledger:
        found = list(entry_decisions.candidates(ledger, key, file, states or [State.HELD, State.REFUSED]))
        going = [candidate for candidate in found if not candidate.retry.refusal]
        if going and not dry_run:
            entry_decisions.release(ledger, going, who or getpass.getuser(), comment)
    entry_decisions.print_candidates(found, as_json=as_json, dry_run=dry_run)
    return 0 if going else NOTHING_FOUND

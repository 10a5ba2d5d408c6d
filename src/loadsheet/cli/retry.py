"""`loadsheet retry`: makes refused and held entries ready again, after a person has removed the cause."""

import getpass
from collections.abc import Iterator
from typing import NamedTuple

import click

from loadsheet.cli.ledger_access import held_ledger, ledger_to_read
from loadsheet.cli.options import JSON, STATE, with_settings
from loadsheet.cli.output import print_json, print_table
from loadsheet.ledger import Choice, Entry, Ledger, Settlement, State
from loadsheet.ledger.decisions import Retry, judge_retry
from loadsheet.settings import Settings

NOTHING_FOUND = 1


class Candidate(NamedTuple):
    """A requested entry, and whether it may be sent again."""

    entry: Entry
    retry: Retry


@click.command()
@click.argument("key", required=False)
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
    settings: Settings,
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
    if not (key or file or held or refused):
        raise click.UsageError("give a KEY, --file NAME, --held or --refused")
    states = [state for state, wanted in ((State.HELD, held), (State.REFUSED, refused)) if wanted]
    with ledger_to_read(settings) if dry_run else held_ledger(settings) as ledger:
        found = list(_candidates(ledger, key, file, states or [State.HELD, State.REFUSED]))
        going = [candidate for candidate in found if not candidate.retry.refusal]
        if going and not dry_run:
            _decide(ledger, going, who or getpass.getuser(), comment)
    _print_candidates(found, as_json=as_json, dry_run=dry_run)
    return 0 if going else NOTHING_FOUND


def _candidates(ledger: Ledger, key: str | None, file: str | None, states: list[State]) -> Iterator[Candidate]:
    """The requested entries in these states, each with the verdict on it."""
    queries = ledger.queries
    if file:
        entries: Iterator[Entry] = (entry for drop in queries.drops_named(file) for entry in queries.entries_of(drop))
    elif key:
        entries = iter(queries.entries_by_key(key))
    else:
        entries = queries.entries_in(*states)
    for entry in entries:
        if entry.state in states and (not key or entry.key == key or entry.key.startswith(f"{key}/")):
            traces = list(queries.traces_on([entry.lane], *State))
            yield Candidate(entry, judge_retry(entry, queries.attempts_of(entry.id), traces))


def _decide(ledger: Ledger, going: list[Candidate], who: str, comment: str) -> None:
    run = ledger.begin_run()
    reason = f"retried by {who}" + (f": {comment}" if comment else "")
    chosen = [
        Choice(
            candidate.entry,
            Settlement(candidate.entry.id, State.READY, reason),
            candidate.entry.reason,
            candidate.retry.operation,
        )
        for candidate in going
    ]
    ledger.decide(run, chosen, who=who, choice="retry", comment=comment)
    ledger.end_run(run, exit_code=0, summary={"entries": {}, "decided": len(chosen)})


def _print_candidates(found: list[Candidate], *, as_json: bool, dry_run: bool) -> None:
    rows = [
        {
            "entry": candidate.entry.id,
            "operation": candidate.retry.operation or candidate.entry.operation,
            "key": candidate.entry.key,
            "state": candidate.entry.state if dry_run or candidate.retry.refusal else State.READY,
            "told": candidate.retry.refusal or f"{'would be' if dry_run else 'is'} sent by the next run",
        }
        for candidate in found
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["Entry", "Operation", "Key", "State", ""], [list(row.values()) for row in rows])
    else:
        click.echo("no matching entry is refused or held", err=True)

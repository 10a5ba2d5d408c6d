"""`loadsheet resolve` and `retry`: show entries with an unknown outcome and all evidence; record who decided what, when and why."""

import getpass
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from loadsheet import exit_codes
from loadsheet.cli.options import EXCHANGE, JSON, STATE, existing_ledger, grouped, keys, ledger_to_read, with_settings
from loadsheet.cli.output import confirm, confirm_by_typing, local_time, print_json, print_lines, print_table, say
from loadsheet.display_text import as_argument
from loadsheet.errors import LoadsheetError
from loadsheet.problems import Problem

if TYPE_CHECKING:
    from loadsheet.dispatch import Listings
    from loadsheet.dispatch.unknown_rules import Case
    from loadsheet.ledger import Choice, Entry, Ledger, ListingFinding, Settlement, State
    from loadsheet.ledger.decisions import Retry
    from loadsheet.settings import Settings


class DecisionOptions(NamedTuple):
    """A decision: what is chosen (None: nothing), why, by whom, and which questions are answered already."""

    choice: str | None
    comment: str
    who: str
    yes: bool
    doubling: bool


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
@grouped(decision=DecisionOptions)
def resolve(*, settings: "Settings", key: str | None, decision: DecisionOptions, as_json: bool) -> int:
    """Show records with an unknown outcome and all evidence, or decide about KEY.

    This command sends nothing: the next run sends what you release.
    """
    choice, comment, who, yes, doubling = decision
    unresolved = find_unresolved(settings, key)
    sending = find_sending(settings, key)
    if choice is None:
        show(unresolved, sending, as_json=as_json)
        return exit_codes.NEEDS_SOMEONE if unresolved or sending.orphaned else 0
    if not key or not comment.strip():
        raise click.UsageError("a decision needs a KEY and a --comment with the reason")
    _refuse_to_decide(settings)
    if why := why_undecidable(key, unresolved, sending, choice):
        say(why)
        return exit_codes.NOTHING_FOUND
    if not as_json:
        show(unresolved, NONE_SENDING, as_json=False)
    confirm_choice(key, unresolved, choice, yes=yes, doubling=doubling)
    decide(settings, unresolved, choice, who=who or getpass.getuser(), comment=comment.strip())
    if as_json:
        print_json([{**one.details, "decided": choice} for one in unresolved])
    return 0


class RetryOptions(NamedTuple):
    """Which entries to release: those of keys, of a file, or all of these states; and whether they are only shown."""

    wanted: tuple[str, ...]
    file: str | None
    held: bool
    refused: bool
    dry_run: bool


@click.command()
@click.argument("wanted", metavar="[KEY]...", nargs=-1, shell_complete=keys("refused", "held"))
@click.option("--file", "file", help="All refused or held entries of this file.")
@click.option("--held", is_flag=True, help="Only held entries.")
@click.option("--refused", is_flag=True, help="Only entries that the exchange refused.")
@click.option("--comment", default="", help="Reason; stored with the decision.")
@click.option("--who", default="", help="Name of the person who decides (default: the user's name).")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent.")
@with_settings(STATE)
@JSON
@grouped(options=RetryOptions)
def retry(*, settings: "Settings", options: RetryOptions, comment: str, who: str, as_json: bool) -> int:
    """Make refused or held entries ready again: the next run sends them. Several KEYs may be given.

    A held change of an accepted record is sent as an update. Records with an unknown outcome are not released here: use loadsheet
    resolve.
    """
    from loadsheet.ledger import State

    wanted, file, held, refused, dry_run = options
    if not (wanted or file or held or refused):
        raise click.UsageError("give KEYs, --file NAME, --held or --refused")
    if not dry_run:
        _refuse_to_decide(settings)
    states = [state for state, wanted in ((State.HELD, held), (State.REFUSED, refused)) if wanted]
    with ledger_to_read(settings) if dry_run else existing_ledger(settings) as ledger:
        found = list(candidates(ledger, wanted, file, states or [State.HELD, State.REFUSED]))
        going = [candidate for candidate in found if not candidate.retry.refusal]
        if going and not dry_run:
            release(ledger, going, who or getpass.getuser(), comment)
    print_candidates(found, as_json=as_json, dry_run=dry_run)
    missing = [key for key in wanted if not any(_is_of(candidate.entry, key) for candidate in found)]
    if missing and found:
        say(f"no entry of {', '.join(missing)} is refused or held")
    return 0 if going and not missing else exit_codes.NOTHING_FOUND


def _refuse_to_decide(settings: "Settings") -> None:
    """Raise UsageError if `ledger.deciders` names neither the user of this process nor one of the user's groups."""
    allowed = settings.ledger.deciders
    user, groups = _user_and_groups()
    if allowed and user not in allowed and not {f"@{group}" for group in groups} & {*allowed}:
        raise click.UsageError(f"{user} may not decide: ledger.deciders names {', '.join(allowed)}. Ask one of them")


def _user_and_groups() -> tuple[str, set[str]]:
    """The user of this process and the names of the user's groups, by the operating system and not by variables."""
    try:
        import grp
        import pwd
    except ImportError:  # Windows
        return getpass.getuser(), set()
    known, groups = os.getuid(), {os.getgid(), *os.getgroups()}
    names = set()
    for number in groups:
        with suppress(KeyError):  # a number without a name
            names.add(grp.getgrgid(number).gr_name)
    try:
        return pwd.getpwuid(known).pw_name, names
    except KeyError:
        return str(known), names


class Unresolved(NamedTuple):
    """An entry with an unknown outcome, and the evidence about it."""

    entry: "Entry"
    evidence: str
    details: dict[str, Any]


class Sending(NamedTuple):
    """The entries marked as being sent, a sentence about them, and whether no process is sending them any more."""

    entries: "tuple[Entry, ...]" = ()
    text: str = ""
    orphaned: bool = False

    @property
    def details(self) -> list[dict[str, Any]]:
        """The entries as JSON values, like those with an unknown outcome."""
        names = {"entry": "id", "operation": "operation", "key": "key", "state": "state", "since": "changed_at"}
        return [
            {name: getattr(one, field) for name, field in names.items()} | {"now": self.text} for one in self.entries
        ]


NONE_SENDING = Sending()


def find_unresolved(settings: "Settings", key: str | None) -> list[Unresolved]:
    """The entries with an unknown outcome (for a key, also the abandoned ones), with the evidence of a current listing."""
    from loadsheet.contract import BY_NAME
    from loadsheet.dispatch import UnknownTimer
    from loadsheet.dispatch.verification import unknown_cases
    from loadsheet.ledger import State

    with ledger_to_read(settings) as ledger:
        queries = ledger.queries
        unknown = list(queries.entries_in(State.UNKNOWN))
        found = unknown
        if key:
            found = [entry for entry in queries.entries_by_key(key) if _is_unresolved(ledger, entry)]
            found = [entry for entry in found if entry.key == key] or found
        subjects = {BY_NAME[entry.operation].subject for entry in found if BY_NAME[entry.operation].proved_by}
        listings, unread = _listings(settings, subjects)
        cases = {case.entry.id: case for case in unknown_cases(listings, ledger, settings, UnknownTimer(ledger.now))}
        return [_with_evidence(ledger, entry, cases.get(entry.id), settings, unread) for entry in found]


def find_sending(settings: "Settings", key: str | None) -> Sending:
    """The entries marked as being sent (those of `key`, if given), and the process that sends them. Without one, their outcome is unknown."""
    from loadsheet.ledger import State
    from loadsheet.run_resources import holder_of

    with ledger_to_read(settings) as ledger:
        marked = ledger.queries.entries_by_key(key) if key else ledger.queries.entries_in(State.SENDING)
        found = tuple(entry for entry in marked if entry.state is State.SENDING)
        if not found:
            return NONE_SENDING
        run = ledger.queries.events_of(found[0].id)[-1].run
    are = "1 is" if len(found) == 1 else f"{len(found):,} are"
    if holder := holder_of(settings):
        return Sending(found, f"{are} being sent now, by {holder}: try again when it has ended")
    if settings.is_shared:
        text = f"{are} marked as being sent in run {run}, which no process holds now: `loadsheet workers` shows whether a worker continues it"
        return Sending(found, f"{text}; if none does, `loadsheet run` verifies them", orphaned=True)
    text = f"{are} marked as being sent by run {run}, which did not finish"
    return Sending(found, f"{text}: `loadsheet run` verifies them", orphaned=True)


def why_undecidable(key: str, unresolved: list[Unresolved], sending: Sending, choice: str) -> str:
    """Why nothing can be decided about a key, and what to do; empty if something can."""
    from loadsheet.ledger import State

    if not unresolved:
        return f"there is nothing to decide about {key}: {sending.text or f'`loadsheet show {as_argument(key)}` shows its state'}"
    abandoned = [one.entry.key for one in unresolved if one.entry.state is State.HELD]
    if choice == "give up" and abandoned:
        return f"{abandoned[0]} is already given up; use --send-again or --accepted to change that"
    return ""


def _is_unresolved(ledger: "Ledger", entry: "Entry") -> bool:
    from loadsheet.ledger import State
    from loadsheet.ledger.decisions import any_unknown

    if entry.state is State.UNKNOWN:
        return True
    return entry.state is State.HELD and any_unknown(ledger.queries.attempts_of(entry.id))


def _listings(settings: "Settings", subjects: set[str]) -> "tuple[Listings, str]":
    """The listings of these subjects, or why there are none."""
    from loadsheet.dispatch import Listings, fetch_listings
    from loadsheet.run_resources import exchange_client

    if not subjects:
        return Listings(), ""
    try:
        with exchange_client(settings) as client:
            return fetch_listings(client, subjects), ""
    except LoadsheetError as error:
        return dict.fromkeys(subjects), str(error)


def _with_evidence(
    ledger: "Ledger", entry: "Entry", case: "Case | None", settings: "Settings", unread: str
) -> Unresolved:
    from loadsheet.dispatch.unknown_rules import decide_case

    drop = ledger.queries.drop(entry.drop)
    attempts = ledger.queries.attempts_of(entry.id)
    now = decide_case(case, settings).text if case else entry.reason
    details = {
        "entry": entry.id,
        "operation": entry.operation,
        "key": entry.key,
        "state": entry.state,
        "since": entry.changed_at,
        "reason": entry.reason,
        "rows": [f"{drop.table(row.table).file}:{row.number}" for row in entry.rows],
        "attempts": attempts,
        "findings": [_finding_json(finding) for finding in ledger.queries.findings_of(entry.id)],
        "now": f"{now} ({unread})" if unread else now,
    }
    evidence = "; ".join([*(f"attempt {one.number}: {one.detail or 'no answer known'}" for one in attempts), now])
    return Unresolved(entry, evidence, details)


def _finding_json(finding: "ListingFinding") -> dict[str, Any]:
    named = {field.name: getattr(finding, field.name) for field in fields(finding)}
    return {"counts" if name == "proves_absence" else name: value for name, value in named.items()}


def show(unresolved: list[Unresolved], sending: Sending, *, as_json: bool) -> None:
    """Print the entries with the evidence about them."""
    if as_json:
        print_json([*(one.details for one in unresolved), *sending.details])
        return
    if unresolved:
        print_lines(["\n\n".join(_details_text(one.details) for one in unresolved)])
    elif not sending.entries:
        say("nothing is unknown")
    if sending.entries:
        say(sending.text)


def _minute(moment: str) -> str:
    return local_time(moment)[:16]


def _details_text(details: dict[str, Any]) -> str:
    lines = [
        f"{details['operation']} {details['key']}: {details['state']} since {_minute(details['since'])}, {details['reason']}"
    ]
    lines.append(f"  from     {', '.join(details['rows'])}")
    lines += [
        f"  attempt {one.number}  {_minute(one.started_at)}  {one.detail or 'no answer known'}"
        for one in details["attempts"]
    ]
    lines += [f"  looked   {_minute(one['at'])}  {one['text']}" for one in details["findings"][-3:]]
    lines.append(f"  now      {details['now']}")
    return "\n".join(lines)


def confirm_choice(key: str, unresolved: list[Unresolved], choice: str, *, yes: bool, doubling: bool) -> None:
    """Ask for confirmation. To send a create or a confirmation again, the user types the key or sets `doubling`."""
    from loadsheet.contract import BY_NAME, Action

    moves_goods = (Action.CREATE, Action.CONFIRM)  # must not be duplicated by accident
    grave = choice == "send again" and any(BY_NAME[one.entry.operation].action in moves_goods for one in unresolved)
    if yes and grave and not doubling:
        raise click.UsageError(
            f"{key} may already be at the exchange and would then exist twice: --yes also needs --i-know-it-may-double"
        )
    if yes:
        return
    if grave:
        confirm_by_typing(
            f"It may already be at the exchange and would then exist twice. Type {key} to send it again", key
        )
    else:
        confirm(f"{choice}: {len(unresolved)} of {key}?")


def _settlement(one: Unresolved, choice: str, reason: str) -> "Settlement":
    """What becomes of an entry by a decision; `reason` names the person."""
    from loadsheet.contract import BY_NAME
    from loadsheet.dispatch.unknown_rules import SAME_TWICE, possibly_doubled, sends_that_may_have_worked
    from loadsheet.ledger import Settlement, State

    entry, sends = one.entry, sends_that_may_have_worked(one.details["attempts"])
    if choice == "accepted":
        return Settlement(entry.id, State.ACCEPTED, f"found at the exchange by {reason}")
    if choice == "send again":
        repeatable = BY_NAME[entry.operation].action in SAME_TWICE
        problems = () if repeatable else (possibly_doubled(entry, sends),)
        return Settlement(entry.id, State.READY, f"sent again by decision of {reason}", problems=problems)
    unproven = Problem("X702", values={"text": f"its outcome was never proved; given up by {reason}"})
    return Settlement(entry.id, State.HELD, f"given up by {reason}; its outcome was never proved", problems=(unproven,))


def decide(settings: "Settings", unresolved: list[Unresolved], choice: str, *, who: str, comment: str) -> None:
    """Record the same decision about each of these entries."""
    from loadsheet.ledger import Choice

    chosen = [Choice(one.entry, _settlement(one, choice, f"{who}: {comment}"), one.evidence) for one in unresolved]
    with existing_ledger(settings) as ledger:
        _record(ledger, chosen, who=who, choice=choice, comment=comment)


def _record(ledger: "Ledger", chosen: "list[Choice]", *, who: str, choice: str, comment: str) -> None:
    """Record decisions as a run of their own, also if they fail."""
    run = ledger.begin_run()
    try:
        ledger.decide(run, chosen, who=who, choice=choice, comment=comment)
    except LoadsheetError as error:
        ledger.end_run(run, exit_code=error.exit_code, summary={"entries": {}, "decided": 0})
        raise
    ledger.end_run(run, exit_code=0, summary={"entries": {}, "decided": len(chosen)})


class RetryCandidate(NamedTuple):
    """A requested entry, and whether it may be sent again."""

    entry: "Entry"
    retry: "Retry"


def candidates(
    ledger: "Ledger", wanted: tuple[str, ...], file: str | None, states: "list[State]"
) -> Iterator[RetryCandidate]:
    """The requested entries in these states, each once, with the verdict on it."""
    from loadsheet.ledger.decisions import judge_retry

    queries = ledger.queries
    if file:
        entries: Iterator[Entry] = (entry for drop in queries.drops_named(file) for entry in queries.entries_of(drop))
    elif wanted:
        named = {entry.id: entry for key in wanted for entry in queries.entries_by_key(key)}
        entries = iter(named.values())
    else:
        entries = queries.entries_in(*states)
    for entry in entries:
        if entry.state in states and (not wanted or any(_is_of(entry, key) for key in wanted)):
            heads = queries.heads_beside(entry)
            yield RetryCandidate(entry, judge_retry(entry, queries.attempts_of(entry.id), heads))


def _is_of(entry: "Entry", key: str) -> bool:
    return entry.key == key or entry.key.startswith(f"{key}/")


def release(ledger: "Ledger", going: list[RetryCandidate], who: str, comment: str) -> None:
    """Make these entries ready, and record who decided it."""
    from loadsheet.ledger import Choice, Settlement, State

    reason = f"retried by {who}" + (f": {comment}" if comment else "")
    chosen = [
        Choice(entry, Settlement(entry.id, State.READY, reason), entry.reason, retry.operation)
        for entry, retry in going
    ]
    _record(ledger, chosen, who=who, choice="retry", comment=comment)


def print_candidates(found: list[RetryCandidate], *, as_json: bool, dry_run: bool) -> None:
    """Print the requested entries, each with what becomes of it."""
    from loadsheet.ledger import State

    rows = [
        {
            "entry": candidate.entry.id,
            "operation": candidate.retry.operation or candidate.entry.operation,
            "key": candidate.entry.key,
            "state": candidate.entry.state if dry_run or candidate.retry.refusal else State.READY,
            "message": candidate.retry.refusal or f"{'would be' if dry_run else 'is'} sent by the next run",
        }
        for candidate in found
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["Entry", "Operation", "Key", "State", ""], [list(row.values()) for row in rows])
    else:
        click.echo("no matching entry is refused or held", err=True)

"""`loadsheet resolve`: what is unknown with all evidence, and a person's decision about it, recorded with who, when and why."""

import getpass
from typing import Any, NamedTuple

import click

from loadsheet.cli.connections import exchange_client
from loadsheet.cli.ledger_access import held_ledger, holder_of, ledger_to_read
from loadsheet.cli.options import EXCHANGE, JSON, STATE, with_settings
from loadsheet.cli.output import confirm, confirm_by_typing, print_json, print_lines, say
from loadsheet.contract import BY_NAME, Action
from loadsheet.dispatch import Listings, UnknownTimer, fetch_listings
from loadsheet.dispatch.unknown_rules import SAME_TWICE, Case, conclude, possibly_doubled, sends_that_may_have_worked
from loadsheet.dispatch.verification import unknown_cases
from loadsheet.ledger import Choice, Entry, Ledger, Settlement, State
from loadsheet.ledger.decisions import unproved
from loadsheet.problems import LoadsheetError, Problem
from loadsheet.settings import Settings

UNKNOWN_LEFT = 1
NOTHING_DECIDED = 1
_MOVES_GOODS = (Action.CREATE, Action.CONFIRM)  # what must not be doubled by a slip of the hand


class Doubt(NamedTuple):
    """An entry with an unknown outcome, and the evidence about it."""

    entry: Entry
    evidence: str
    details: dict[str, Any]


class Sending(NamedTuple):
    """The entries marked as being sent, a sentence about them, and whether no process is sending them any more."""

    entries: tuple[Entry, ...] = ()
    text: str = ""
    orphaned: bool = False

    @property
    def details(self) -> list[dict[str, Any]]:
        """Each entry with what is known of it, as one of unknown outcome is told."""
        names = {"entry": "id", "operation": "operation", "key": "key", "state": "state", "since": "changed_at"}
        return [
            {name: getattr(one, field) for name, field in names.items()} | {"now": self.text} for one in self.entries
        ]


_NONE_SENDING = Sending()


@click.command()
@click.argument("key", required=False)
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
    settings: Settings,
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
    doubts = _doubts(settings, key)
    sending = _sending(settings, key)
    if choice is None:
        _show(doubts, sending, as_json=as_json)
        return UNKNOWN_LEFT if doubts or sending.orphaned else 0
    if not key or not comment.strip():
        raise click.UsageError("a decision needs a KEY and a --comment that says on what grounds")
    if refusal := _refusal(key, doubts, sending, choice):
        say(refusal)
        return NOTHING_DECIDED
    if not as_json:
        _show(doubts, _NONE_SENDING, as_json=False)
    _confirm(key, doubts, choice, yes=yes, doubling=doubling)
    _decide(settings, doubts, choice, who or getpass.getuser(), comment.strip())
    if as_json:
        print_json([{**one.details, "decided": choice} for one in doubts])
    return 0


def _doubts(settings: Settings, key: str | None) -> list[Doubt]:
    """What is unknown (of a key, also what was given up), with what a listing shows of it now."""
    with ledger_to_read(settings) as ledger:
        queries = ledger.queries
        unknown = list(queries.entries_in(State.UNKNOWN))
        found = unknown
        if key:
            found = [entry for entry in queries.entries_by_key(key) if _in_doubt(ledger, entry)]
            found = [entry for entry in found if entry.key == key] or found
        subjects = {BY_NAME[entry.operation].subject for entry in found if BY_NAME[entry.operation].proved_by}
        listings, unread = _look(settings, subjects)
        cases = {case.entry.id: case for case in unknown_cases(listings, ledger, settings, UnknownTimer(ledger.now))}
        return [_doubt(ledger, entry, cases.get(entry.id), settings, unread) for entry in found]


def _sending(settings: Settings, key: str | None) -> Sending:
    """The entries marked as being sent (those of `key`, if given), and by whom. If no process sends them any more, their outcome is unknown."""
    with ledger_to_read(settings) as ledger:
        marked = ledger.queries.entries_by_key(key) if key else ledger.queries.entries_in(State.SENDING)
        found = tuple(entry for entry in marked if entry.state is State.SENDING)
        if not found:
            return _NONE_SENDING
        run = ledger.queries.events_of(found[0].id)[-1].run
    are = "1 is" if len(found) == 1 else f"{len(found):,} are"
    if holder := holder_of(settings):
        return Sending(found, f"{are} being sent now, by {holder}: look again when that has ended")
    if settings.is_shared:
        text = f"{are} marked as being sent in run {run}, which no process holds now: `loadsheet workers` shows whether one works on it"
        return Sending(found, f"{text}; if none is, `loadsheet run` verifies them", orphaned=True)
    text = f"{are} marked as being sent by run {run}, which did not finish"
    return Sending(found, f"{text}: `loadsheet run` looks them up", orphaned=True)


def _refusal(key: str, doubts: list[Doubt], sending: Sending, choice: str) -> str:
    """Why nothing can be decided about a key, and what to do; empty if something can."""
    if not doubts:
        return f"nothing about {key} has to be decided: {sending.text or f'`loadsheet show {key}` shows its state'}"
    given_up = [one.entry.key for one in doubts if one.entry.state is State.HELD]
    if choice == "give up" and given_up:
        return f"{given_up[0]} was given up before; --send-again or --accepted decides about it anew"
    return ""


def _in_doubt(ledger: Ledger, entry: Entry) -> bool:
    if entry.state is State.UNKNOWN:
        return True
    return entry.state is State.HELD and unproved(ledger.queries.attempts_of(entry.id))


def _look(settings: Settings, subjects: set[str]) -> tuple[Listings, str]:
    """The listings of these subjects, or why there are none."""
    if not subjects:
        return Listings(), ""
    try:
        with exchange_client(settings) as client:
            return fetch_listings(client, subjects), ""
    except LoadsheetError as error:
        return dict.fromkeys(subjects), str(error)


def _doubt(ledger: Ledger, entry: Entry, case: Case | None, settings: Settings, unread: str) -> Doubt:
    drop = ledger.queries.drop(entry.drop)
    attempts = ledger.queries.attempts_of(entry.id)
    looks = ledger.queries.findings_of(entry.id)
    now = f"{case.observation.shown}; {conclude(case, settings).text}" if case else entry.reason
    details = {
        "entry": entry.id,
        "operation": entry.operation,
        "key": entry.key,
        "state": entry.state,
        "since": entry.changed_at,
        "reason": entry.reason,
        "rows": [f"{drop.table(row.table).file}:{row.number}" for row in entry.rows],
        "attempts": attempts,
        "findings": looks,
        "now": f"{now} ({unread})" if unread else now,
    }
    evidence = "; ".join([*(f"attempt {one.number}: {one.detail or 'no answer known'}" for one in attempts), now])
    return Doubt(entry, evidence, details)


def _show(doubts: list[Doubt], sending: Sending, *, as_json: bool) -> None:
    if as_json:
        print_json([*(one.details for one in doubts), *sending.details])
        return
    if doubts:
        print_lines(["\n\n".join(_details_text(one.details) for one in doubts)])
    elif not sending.entries:
        say("nothing is unknown")
    if sending.entries:
        say(sending.text)


def _details_text(details: dict[str, Any]) -> str:
    lines = [
        f"{details['operation']} {details['key']}: {details['state']} since {details['since']}, {details['reason']}"
    ]
    lines.append(f"  from     {', '.join(details['rows'])}")
    lines += [
        f"  attempt {one.number}  {one.started_at}  {one.detail or 'no answer known'}" for one in details["attempts"]
    ]
    lines += [f"  looked   {one.at}  {one.shown}: {one.text}" for one in details["findings"][-3:]]
    lines.append(f"  now      {details['now']}")
    return "\n".join(lines)


def _confirm(key: str, doubts: list[Doubt], choice: str, *, yes: bool, doubling: bool) -> None:
    """Ask whether it is meant. Sending a create or a confirmation again wants the key typed, or a flag that says what may happen."""
    grave = choice == "send again" and any(BY_NAME[one.entry.operation].action in _MOVES_GOODS for one in doubts)
    if yes and grave and not doubling:
        raise click.UsageError(
            f"{key} may be there already, and twice then: --yes wants --i-know-it-may-double for that"
        )
    if yes:
        return
    if grave:
        confirm_by_typing(f"It may be there already, and twice then. Type {key} to send it again", key)
    else:
        confirm(f"{choice}: {len(doubts)} of {key}?")


def _decide(settings: Settings, doubts: list[Doubt], choice: str, who: str, comment: str) -> None:
    chosen = [Choice(one.entry, _settlement(one, choice, who, comment), one.evidence) for one in doubts]
    with held_ledger(settings) as ledger:
        run = ledger.begin_run()
        try:
            ledger.decide(run, chosen, who=who, choice=choice, comment=comment)
        except LoadsheetError as error:
            ledger.end_run(run, exit_code=error.exit_code, summary={"entries": {}, "decided": 0})
            raise
        ledger.end_run(run, exit_code=0, summary={"entries": {}, "decided": len(chosen)})


def _settlement(doubt: Doubt, choice: str, who: str, comment: str) -> Settlement:
    entry, sends = doubt.entry, sends_that_may_have_worked(doubt.details["attempts"])
    said = f"{who}: {comment}"
    if choice == "accepted":
        return Settlement(entry.id, State.ACCEPTED, f"found at the exchange by {said}")
    if choice == "send again":
        repeatable = BY_NAME[entry.operation].action in SAME_TWICE
        problems = () if repeatable else (possibly_doubled(entry, sends),)
        return Settlement(entry.id, State.READY, f"sent again by decision of {said}", problems=problems)
    unproven = Problem("X702", values={"text": f"its outcome was never proved; given up by {said}"})
    return Settlement(entry.id, State.HELD, f"given up by {said}; its outcome was never proved", problems=(unproven,))

"""Decisions: what a person decides about an entry, in a hash chain, and whether a refused or held entry may be retried.

Owns: the statements on `decisions`, the hash of a decision, and the rules of a retry. An entry may not be retried if a newer version
replaced it, if the same content was sent since, or if its outcome was never proved. A changed create is retried as an update of the
created record. Opens no transaction: the methods of `Ledger` do.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from loadsheet.contract import BY_NAME, Action, update_of
from loadsheet.display_text import as_argument
from loadsheet.errors import LedgerError
from loadsheet.ledger import codec
from loadsheet.ledger.content_blocks import replace as replace_contents
from loadsheet.ledger.content_blocks import with_contents
from loadsheet.ledger.ledger_tables import Statement, decisions, streamed_within
from loadsheet.ledger.models import WITHOUT_OUTCOME, Attempt, Decision, Entry, EntryHead, Settlement, State, Waits
from loadsheet.ledger.transitions import PreviousState, Transaction, change_states
from loadsheet.mapping.documents import AlternativeForm

FORGET = "forget"
"""The choice of a decision that removed the contents of entries. Its evidence names the decisions whose words it removed."""

_HASH = re.compile(r"\b[0-9a-f]{64}\b")


class Choice(NamedTuple):
    """A person's choice for one entry: the entry as the person saw it, its new state, the evidence, and the operation to send it
    as, if that changes.
    """

    entry: Entry
    settlement: Settlement
    evidence: str = ""
    operation: str = ""


def apply_choices(transaction: Transaction, chosen: Sequence[Choice]) -> dict[int, PreviousState]:
    """Change entries to the states that a person chose. Returns their previous states by id. The caller chains the decisions in
    the same transaction. Raises LedgerError if an entry changed after the person looked at it.
    """
    connection = transaction.connection
    for choice in chosen:
        entry = choice.entry
        if not _UNCHANGED_ENTRY.rows(connection, entry=entry.id, state=entry.state.value, changed_at=entry.changed_at):
            raise LedgerError(f"{entry.key} has changed since you looked at it; nothing was decided, look at it again")
        if entry.removed and choice.settlement.state is State.READY:
            raise LedgerError(f"the contents of {entry.key} were removed on {entry.removed[:10]}; drop its file again")
        if choice.operation:
            _send_as(connection, entry, choice.operation)
    return change_states(transaction, [choice.settlement for choice in chosen])


def _send_as(connection: Connection, entry: Entry, operation: str) -> None:
    """Send an entry as this operation: in the other form of an upsert if it is that one's, else with the record that it has."""
    changed = {"entry": entry.id, "operation": operation}
    if entry.alternative_operation != operation:
        _SEND_AS.run(connection, [changed])
        return
    ((row, content),) = with_contents(connection, _FORMS.rows(connection, entry=entry.id))
    form, own = (
        codec.decode_alternative(row.instead),
        AlternativeForm(entry.operation, content.payload, entry.content_hash),
    )
    replace_contents(connection, {entry.id: content._replace(payload=form.payload)})
    _SWAP_FORMS.run(connection, [changed | {"hash": form.content_hash, "instead": codec.encode_alternative(own)}])


def append_to_chain(connection: Connection, decided: Sequence[Decision]) -> None:
    """Append decisions to the chain, each with its hash."""
    before = next((row.hash for row in _LAST_DECISION.rows(connection)), "")
    for made in decided:
        before = hash_in_chain(before, made)
        row = {"entry": made.entry, "at": made.at, "who": made.who, "choice": made.choice}
        row |= {"comment": made.comment, "evidence": made.evidence, "hash": before}
        _INSERT_DECISION.run(connection, [row])


def all_decisions(connection: Connection) -> Iterator[Decision]:
    """All decisions of people, oldest first."""
    columns = [decisions.c[name] for name in ("entry_id", "at", "who", "choice", "comment", "evidence", "hash")]
    return (Decision(*row) for row in streamed_within(connection, select(*columns).order_by(decisions.c.id)))


def hash_in_chain(before: str, decision: Decision) -> str:
    """The hash (hex SHA-256) of a decision that follows one with the hash `before` (empty: it is the first)."""
    fields = (decision.entry, decision.at, decision.who, decision.choice, decision.comment, decision.evidence)
    return hashlib.sha256(codec.encode([before, *fields]).encode()).hexdigest()


def first_broken_decision(recorded: Iterable[Decision]) -> Decision | None:
    """The first decision that was altered after it was recorded, or that follows a missing one. `recorded` is oldest first. A
    decision whose words were erased is valid if the later erasure decision names its hash.
    """
    before = ""
    erased: dict[str, Decision] = {}
    for decision in recorded:
        expected = hash_in_chain(before, decision)
        if decision.hash != expected:
            if decision.comment or decision.evidence:
                return decision
            erased[decision.hash] = decision
        elif decision.choice == FORGET:
            for named in _HASH.findall(decision.evidence):
                erased.pop(named, None)
        before = decision.hash
    return next(iter(erased.values()), None)


_ALIVE = (State.READY, State.SENDING, State.ACCEPTED, State.UNKNOWN)


class Retry(NamedTuple):
    """Why an entry may not be retried (empty: it may), and the operation to send it as, if that changes."""

    refusal: str = ""
    operation: str = ""


def any_unknown(attempts: Sequence[Attempt]) -> bool:
    """Whether an attempt of an entry has an unknown outcome."""
    return any(attempt.outcome in ("", "unknown") for attempt in attempts)


def judge_retry(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[EntryHead]) -> Retry:
    """Whether a refused or held entry may be retried. `lane` holds all entries of its lane."""
    if refusal := _barred(entry, attempts, lane):
        return Retry(refusal)
    family = [other for other in lane if other.id != entry.id and _same_thing(other, entry)]
    if any(
        other.state in _ALIVE and other.content_hash == entry.content_hash and other.id > entry.id for other in family
    ):
        return Retry("the same content was sent later, or will be sent")
    newer = [other for other in family if other.id > entry.id and other.state in (*_ALIVE, State.HELD, State.REFUSED)]
    if newer:
        return Retry(f"a newer version replaced it (entry {newer[-1].id})")
    if BY_NAME[entry.operation].creates:
        return _retry_create(entry, lane)
    creates = entry.alternative_operation and BY_NAME[entry.alternative_operation].creates
    return Retry(operation=entry.alternative_operation) if creates and _is_deleted(lane) else Retry()


def _barred(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[EntryHead]) -> str:
    """The reason that rules out a retry whatever happened to the record since. Empty if there is none."""
    if entry.removed:
        return f"its contents were removed on {entry.removed[:10]}; to send it again, drop its file again"
    if entry.state is State.HELD and any_unknown(attempts):
        return f"its outcome was never proved; decide it first: loadsheet resolve {as_argument(entry.key)}"
    if entry.waits is Waits.EARLIER or any(other.state in WITHOUT_OUTCOME for other in lane):
        return f"an earlier outcome is unknown; decide it first: loadsheet resolve {as_argument(entry.key)}"
    return ""


def _same_thing(other: EntryHead, entry: Entry) -> bool:
    """Whether another entry is a version of the same record. For repeatable operations only the same content counts."""
    if BY_NAME[entry.operation].repeatable:
        return other.operation == entry.operation and other.content_hash == entry.content_hash
    return other.operation in {entry.operation, _updating(entry)} and other.key == entry.key


def _retry_create(entry: Entry, lane: Sequence[EntryHead]) -> Retry:
    exists = False
    for other in lane:
        action = BY_NAME[other.operation].action
        if other.state is State.READY and action is Action.CREATE:
            return Retry(f"another version waits to be sent (entry {other.id})")
        if other.state is State.ACCEPTED and action in (Action.CREATE, Action.DELETE):
            exists = action is Action.CREATE
    return Retry(operation=_updating(entry)) if exists else Retry()


def _is_deleted(lane: Sequence[EntryHead]) -> bool:
    """Whether the record of a lane was deleted by the last call that made it or deleted it."""
    actions = [BY_NAME[other.operation].action for other in lane if other.state is State.ACCEPTED]
    return [one for one in actions if one in (Action.CREATE, Action.DELETE)][-1:] == [Action.DELETE]


def _updating(entry: Entry) -> str:
    operation = update_of(BY_NAME[entry.operation])
    return operation.name if operation else ""


_UNCHANGED_ENTRY = Statement("select 1 from entries where id = :entry and state = :state and changed_at = :changed_at")
_SEND_AS = Statement("update entries set operation = :operation where id = :entry")
_FORMS = Statement("select id, payload, rows, instead from entries where id = :entry")
_SWAP_FORMS = Statement(
    "update entries set operation = :operation, content_hash = :hash, instead = :instead where id = :entry"
)
_LAST_DECISION = Statement("select hash from decisions order by id desc limit 1")
_INSERT_DECISION = Statement(
    """
    insert into decisions (entry_id, at, who, choice, comment, evidence, hash)
    values (:entry, :at, :who, :choice, :comment, :evidence, :hash)
    """
)

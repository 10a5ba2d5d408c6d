"""Findings of listings, decisions of people in a chain of hashes, and whether a refused or held entry may be sent again.

Owns: the statements of findings and decisions, the hash of a decision, and the rules of a retry: nothing comes back that a newer version
replaced, that stands elsewhere already, or whose outcome was never proved; a changed create comes back as the update of what was created.
Opens no transaction: the verbs of `Ledger` do.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection

from loadsheet.contract import BY_NAME, Action, update_of
from loadsheet.ledger import codec
from loadsheet.ledger.statements import Statement
from loadsheet.ledger.states import Attempt, Decision, Entry, Finding, Run, Settlement, State, Trace, Waits
from loadsheet.ledger.transitions import PreviousState, Transaction, change
from loadsheet.problems import LedgerError

IN_DOUBT = "X702"

FORGET = "forget"
"""The choice of a decision that removed the contents of entries; its evidence names the decisions that lost their words by it."""

_HASH = re.compile(r"\b[0-9a-f]{64}\b")


class Choice(NamedTuple):
    """What a person chose for one entry: the entry as it was looked at, what is to become of it, on what grounds, and, if it is
    to be sent as another operation, as which.
    """

    entry: Entry
    settlement: Settlement
    evidence: str = ""
    operation: str = ""


def record_findings(connection: Connection, run: Run, found: Sequence[Finding]) -> None:
    """Record findings; what each says becomes the hint of its entry, as long as that is unknown."""
    for one in found:
        finding = {"entry": one.entry, "run": run.id, "at": one.at}
        finding |= {"shown": one.shown, "counts": int(one.counts), "text": one.text}
        _INSERT_FINDING.run(connection, [finding])
        for row in _UNKNOWN.rows(connection, entry=one.entry):
            problems = [
                replace(problem, hint=one.text) if problem.code == IN_DOUBT else problem
                for problem in codec.decode_problems(row.problems)
            ]
            _SET_PROBLEMS.run(connection, [{"entry": one.entry, "problems": codec.encode_problems(problems)}])


def apply_choices(transaction: Transaction, chosen: Sequence[Choice]) -> dict[int, PreviousState]:
    """Change the states of entries to what a person chose; returns their states before, by id. The caller chains the decisions in the same
    transaction. Raises LedgerError if an entry changed since the person looked at it.
    """
    connection = transaction.connection
    for one in chosen:
        entry = one.entry
        if not _AS_IT_WAS.rows(connection, entry=entry.id, state=entry.state.value, changed_at=entry.changed_at):
            raise LedgerError(f"{entry.key} has changed since it was looked at; nothing was decided, look again")
        if entry.removed and one.settlement.state is State.READY:
            raise LedgerError(f"the contents of {entry.key} were removed on {entry.removed[:10]}; drop its file again")
        if one.operation:
            _SEND_AS.run(connection, [{"entry": entry.id, "operation": one.operation}])
    return change(transaction, [one.settlement for one in chosen])


def chain(connection: Connection, decided: Sequence[Decision]) -> None:
    """Record decisions behind all others, each with its hash."""
    before = next((row.hash for row in _LAST_DECISION.rows(connection)), "")
    for made in decided:
        before = chained(before, made)
        row = {"entry": made.entry, "at": made.at, "who": made.who, "choice": made.choice}
        row |= {"comment": made.comment, "evidence": made.evidence, "hash": before}
        _INSERT_DECISION.run(connection, [row])


def chained(before: str, decision: Decision) -> str:
    """The hash of a decision that follows one with the hash `before` (empty: it is the first): hex SHA-256."""
    fields = (decision.entry, decision.at, decision.who, decision.choice, decision.comment, decision.evidence)
    return hashlib.sha256(codec.encode([before, *fields]).encode()).hexdigest()


def first_broken_decision(recorded: Iterable[Decision]) -> Decision | None:
    """The first of all decisions, oldest first, that is not as it was recorded, or that follows one which is missing. One whose words
    were removed at somebody's request is vouched for by the later decision that did so.
    """
    before = ""
    wordless: dict[str, Decision] = {}
    for decision in recorded:
        expected = chained(before, decision)
        if decision.hash != expected:
            if decision.comment or decision.evidence:
                return decision
            wordless[decision.hash] = decision
        elif decision.choice == FORGET:
            for named in _HASH.findall(decision.evidence):
                wordless.pop(named, None)
        before = decision.hash
    return next(iter(wordless.values()), None)


_ALIVE = (State.READY, State.SENDING, State.ACCEPTED, State.UNKNOWN)
_OPEN = (State.SENDING, State.UNKNOWN)


class Retry(NamedTuple):
    """Why an entry may not come back (empty: it may), and the operation as which it is sent, if that is another one."""

    refusal: str = ""
    operation: str = ""


def unproved(attempts: Sequence[Attempt]) -> bool:
    """Whether an attempt of an entry may have worked although nobody knows."""
    return any(attempt.outcome in ("", "unknown") for attempt in attempts)


def judge_retry(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[Trace]) -> Retry:
    """Whether a refused or held entry may come back; `lane` holds all entries of its lane."""
    if refusal := _barred(entry, attempts, lane):
        return Retry(refusal)
    family = [one for one in lane if one.id != entry.id and _same_thing(one, entry)]
    if any(one.state in _ALIVE and one.content_hash == entry.content_hash and one.id > entry.id for one in family):
        return Retry("the same content was sent since, or will be")
    newer = [one for one in family if one.id > entry.id and one.state in (*_ALIVE, State.HELD, State.REFUSED)]
    if newer:
        return Retry(f"a newer version took its place (entry {newer[-1].id})")
    if not BY_NAME[entry.operation].creates:
        return Retry()
    return _retry_create(entry, lane)


def _barred(entry: Entry, attempts: Sequence[Attempt], lane: Sequence[Trace]) -> str:
    """What bars an entry whatever else became of its record; empty if nothing does."""
    if entry.removed:
        return f"its contents were removed on {entry.removed[:10]}; to send it again, drop its file again"
    if entry.state is State.HELD and unproved(attempts):
        return f"whether it arrived was never proved; decide that: loadsheet resolve {entry.key}"
    if entry.waits is Waits.EARLIER or any(one.state in _OPEN for one in lane):
        return f"an earlier outcome is unknown; settle that first: loadsheet resolve {entry.key}"
    return ""


def _same_thing(one: Trace, entry: Entry) -> bool:
    """Whether another entry is a version of the same thing: for repeatable operations only one of the same content is."""
    if BY_NAME[entry.operation].repeatable:
        return one.operation == entry.operation and one.content_hash == entry.content_hash
    return one.operation in {entry.operation, _updating(entry)} and one.key == entry.key


def _retry_create(entry: Entry, lane: Sequence[Trace]) -> Retry:
    standing = False
    for one in sorted(lane):
        action = BY_NAME[one.operation].action
        if one.state is State.READY and action is Action.CREATE:
            return Retry(f"another version waits to be sent (entry {one.id})")
        if one.state is State.ACCEPTED and action in (Action.CREATE, Action.DELETE):
            standing = action is Action.CREATE
    return Retry(operation=_updating(entry)) if standing else Retry()


def _updating(entry: Entry) -> str:
    operation = update_of(BY_NAME[entry.operation])
    return operation.name if operation else ""


_INSERT_FINDING = Statement(
    """
    insert into findings (entry_id, run_id, at, shown, counts, text)
    values (:entry, :run, :at, :shown, :counts, :text)
    """
)
_UNKNOWN = Statement("select problems from entries where id = :entry and state = 'unknown'")
_SET_PROBLEMS = Statement("update entries set problems = :problems where id = :entry")
_AS_IT_WAS = Statement("select 1 from entries where id = :entry and state = :state and changed_at = :changed_at")
_SEND_AS = Statement("update entries set operation = :operation where id = :entry")
_LAST_DECISION = Statement("select hash from decisions order by id desc limit 1")
_INSERT_DECISION = Statement(
    """
    insert into decisions (entry_id, at, who, choice, comment, evidence, hash)
    values (:entry, :at, :who, :choice, :comment, :evidence, :hash)
    """
)

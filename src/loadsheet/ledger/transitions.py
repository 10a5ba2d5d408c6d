"""Changes of state: the only way in which an entry leaves a state, checked against the table of transitions, with an event each.

Owns: the statements of every change. Opens no transaction: the methods of `Ledger` do.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from loadsheet.contract import CREATES
from loadsheet.errors import LedgerError
from loadsheet.ledger import codec
from loadsheet.ledger.ledger_tables import Statement
from loadsheet.ledger.models import TRANSITIONS, WITHOUT_OUTCOME, Run, Settlement, State
from loadsheet.problems import Problem

CHUNK = 500
NEVER_SENT = "not sent: the ledger could not be reached before the call"
_RESTORED = "the ledger was restored from a backup; this may have been sent since"
_BEING_SENT = "being sent"
_OF_UPDATES = ("L626", "L627")
_LASTING = ("L608", *_OF_UPDATES)
"""The ledger's problems that later states do not end: a possible duplicate, and what an update does not clear or removes."""


class Transaction(NamedTuple):
    """A transaction that changes entries: its connection, the run that makes the changes, and their time (ISO 8601 UTC)."""

    connection: Connection
    run: Run
    now: str


class Intent(NamedTuple):
    """A ready entry that is about to be sent: the number of earlier attempts, and the hex SHA-256 of the request body."""

    entry: int
    attempts: int
    request_hash: str


class PreviousState(NamedTuple):
    """An entry before a change of state: its state (the value of a `State`), and what matters to other entries on its lane."""

    id: int
    state: str
    service_order: str
    problems: str
    attempts: int
    lane: str
    operation: str


def begin_sending(transaction: Transaction, intents: Sequence[Intent]) -> None:
    """Change ready entries to `sending`, each with an attempt and an event.

    Raises LedgerError if an entry is no longer as the caller read it. The caller must then roll back.
    """
    if not intents:
        return
    connection, run, now = transaction
    begun = [
        {
            "entry": intent.entry,
            "attempts": intent.attempts,
            "number": intent.attempts + 1,
            "reason": _BEING_SENT,
            "now": now,
        }
        for intent in intents
    ]
    if (marked := _BEGIN_SENDING.run(connection, begun)) != len(begun):
        raise LedgerError(
            f"{len(begun) - marked} of {len(begun)} entries are no longer ready; none was marked as sending"
        )
    record_events(
        transaction, [(intent.entry, State.READY.value, State.SENDING.value, _BEING_SENT) for intent in intents]
    )
    attempts = [
        {
            "entry": intent.entry,
            "number": intent.attempts + 1,
            "run": run.id,
            "now": now,
            "request_hash": intent.request_hash,
        }
        for intent in intents
    ]
    _INSERT_ATTEMPT.run(connection, attempts)


def change_states(transaction: Transaction, settlements: Sequence[Settlement]) -> dict[int, PreviousState]:
    """Change the states of entries, with an event each. Returns their previous states by id.

    Raises LedgerError if a transition is not allowed, if a settlement is not from the last attempt, or if another process changed
    an entry. The caller must then roll back.
    """
    if not settlements:
        return {}
    connection = transaction.connection
    before = _previous_states(connection, settlements)
    changes, events, outcomes = [], [], []
    for settlement in settlements:
        was = before[settlement.entry]
        if settlement.state not in TRANSITIONS[was.state] or (settlement.state is State.ACCEPTED and not was.attempts):
            raise LedgerError(f"entry {settlement.entry} is {was.state} and cannot become {settlement.state}")
        if settlement.attempt not in (0, was.attempts):
            raise LedgerError(
                f"entry {settlement.entry} has had {was.attempts} attempts; the outcome of attempt {settlement.attempt} no longer counts"
            )
        changes.append(
            {
                "entry": settlement.entry,
                "before": was.state,
                "after": settlement.state.value,
                "reason": settlement.reason,
                "problems": _problems_after(was, settlement.problems),
                "receipt": settlement.service_order or was.service_order,
                "now": transaction.now,
                "waits": settlement.waits.value,
            }
        )
        events.append((settlement.entry, was.state, settlement.state.value, settlement.reason))
        if settlement.outcome and was.attempts:
            outcomes.append(
                {
                    "entry": settlement.entry,
                    "number": was.attempts,
                    "outcome": str(settlement.outcome),
                    "status": settlement.status,
                    "detail": settlement.reason,
                    "duration_ms": settlement.duration_ms,
                }
            )
    if (changed := _CHANGE_STATE.run(connection, changes)) != len(changes):
        raise LedgerError(f"another process changed {len(changes) - changed} entries; nothing was recorded")
    record_events(transaction, events)
    if outcomes:
        _RECORD_OUTCOME.run(connection, outcomes)
    return before


def record_events(transaction: Transaction, changes: Sequence[tuple[int, str, str, str]]) -> None:
    """Record changes of entries: each with the entry, its state before (empty: new) and after, and the reason."""
    connection, run, now = transaction
    if changes:
        rows = [
            {"entry": entry, "run": run.id, "now": now, "before": before, "after": after, "reason": reason}
            for entry, before, after, reason in changes
        ]
        _INSERT_EVENT.run(connection, rows)


def _problems_after(was: PreviousState, added: Sequence[Problem]) -> str:
    """The problems of an entry after a change, encoded."""
    if was.problems == "[]":
        return codec.encode_problems(added)
    kept = [problem for problem in still_valid(codec.decode_problems(was.problems)) if problem not in added]
    if was.operation in CREATES:
        kept = [problem for problem in kept if problem.code not in _OF_UPDATES]  # it was an update when it was planned
    return codec.encode_problems([*kept, *added])


def still_valid(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems that stay valid after a change of state. Those that the exchange or the ledger raised for the old state end."""
    return tuple(problem for problem in problems if problem.code[0] not in "XL" or problem.code in _LASTING)


def still_applicable(connection: Connection, settlements: Sequence[Settlement]) -> list[Settlement]:
    """The settlements that still change something: those of the entry's last attempt while it has no outcome.

    For outcomes that may already be recorded, and those of a process that lost its ledger to a takeover.
    """
    before = _previous_states(connection, settlements)
    return [settlement for settlement in settlements if _counts(settlement, before[settlement.entry])]


def never_sent(connection: Connection, in_flight: Collection[int]) -> list[Settlement]:
    """Settlements that make entries ready again if they are recorded as `sending` but not `in_flight`."""
    return [
        Settlement(row.id, State.READY, NEVER_SENT, outcome="not sent", attempt=row.attempts)
        for row in _SENDING.rows(connection)
        if row.id not in in_flight
    ]


def interrupted_settlements(connection: Connection, reason: str) -> list[Settlement]:
    """Settlements that make entries `unknown` that a killed process left `sending`."""
    return [_unknown(row.id, reason) for row in _SENDING.rows(connection)]


def make_unsent_unknown(transaction: Transaction) -> None:
    """Make the ready entries of a restored ledger `unknown`, and hold waiting ones until a person decides."""
    connection = transaction.connection
    change_states(transaction, [Settlement(row.id, State.HELD, _RESTORED) for row in _WAITING.rows(connection)])
    ready = _READY.rows(connection)
    for start in range(0, len(ready), CHUNK):
        part = ready[start : start + CHUNK]
        begin_sending(transaction, [Intent(row.id, row.attempts, "") for row in part])
        change_states(transaction, [_unknown(row.id, _RESTORED) for row in part])


def _unknown(entry: int, reason: str) -> Settlement:
    problem = Problem("X702", values={"text": reason})
    return Settlement(entry, State.UNKNOWN, reason, problems=(problem,), outcome="unknown")


def _previous_states(connection: Connection, settlements: Sequence[Settlement]) -> dict[int, PreviousState]:
    rows = _CURRENT.rows_of(connection, [settlement.entry for settlement in settlements])
    return {row[0]: PreviousState._make(row) for row in rows}


def _counts(settlement: Settlement, now: PreviousState) -> bool:
    if settlement.attempt != now.attempts or now.state not in WITHOUT_OUTCOME:
        return False
    # `now.state` is a text from the database.
    return now.state == State.SENDING or settlement.state is not State.UNKNOWN


_BEGIN_SENDING = Statement(
    """
    update entries set state = 'sending', reason = :reason, attempts = :number, changed_at = :now
    where id = :entry and attempts = :attempts and state = 'ready' and waits = ''
    """
)
_CURRENT = Statement(
    "select id, state, receipt, problems, attempts, lane, operation from entries where id in (:wanted)"
)
_CHANGE_STATE = Statement(
    """
    update entries set state = :after, reason = :reason, problems = :problems, receipt = :receipt,
        changed_at = :now, waits = :waits
    where id = :entry and state = :before
    """
)
_INSERT_ATTEMPT = Statement(
    """
    insert into attempts (entry_id, number, run_id, started_at, request_hash, outcome, detail)
    values (:entry, :number, :run, :now, :request_hash, '', '')
    """
)
_RECORD_OUTCOME = Statement(
    """
    update attempts set outcome = :outcome, status = :status, detail = :detail, duration_ms = :duration_ms
    where entry_id = :entry and number = :number
    """
)
_INSERT_EVENT = Statement(
    """
    insert into events (entry_id, run_id, at, before, after, reason)
    values (:entry, :run, :now, :before, :after, :reason)
    """
)
_SENDING = Statement("select id, attempts from entries where state = 'sending'")
_READY = Statement("select id, attempts from entries where state = 'ready'")
_WAITING = Statement("select id from entries where state in ('held', 'ready') and waits <> ''")

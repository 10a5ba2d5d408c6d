"""Changes of state: the one way in which an entry leaves a state, guarded by the table of transitions, with an event for each.

Owns: the statements of every change. Opens no transaction: the verbs of `Ledger` do.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from loadsheet.ledger import codec
from loadsheet.ledger.statements import Statement
from loadsheet.ledger.states import TRANSITIONS, Run, Settlement, State
from loadsheet.problems import LedgerError, Problem

CHUNK = 500
NEVER_LEFT = "it never left: the ledger could not be reached before"
_RESTORED = "the ledger was put back from a backup; it may have been sent since"
_BEING_SENT = "being sent"
_OPEN = (State.SENDING, State.UNKNOWN)
_LASTING = ("L608",)  # that something may be there twice stays true whatever becomes of it


class Transaction(NamedTuple):
    """A transaction that changes entries: its connection, the run that makes the changes, and their time (ISO 8601 UTC)."""

    connection: Connection
    run: Run
    now: str


class Intent(NamedTuple):
    """A ready entry that is about to be sent: how many attempts there were, and the hex SHA-256 of the request's body."""

    entry: int
    attempts: int
    request_hash: str


class PreviousState(NamedTuple):
    """An entry that was brought into another state: what it was before (the value of a `State`), and what bears on others of its lane."""

    id: int
    state: str
    receipt: str
    problems: str
    attempts: int
    lane: str
    operation: str


def begin_sending(transaction: Transaction, intents: Sequence[Intent]) -> None:
    """Bring ready entries into `sending`, each with an attempt and an event.

    Raises LedgerError if one of them is no longer as the caller knew it; the caller's transaction is void then.
    """
    if not intents:
        return
    connection, run, now = transaction
    begun = [{"entry": one.entry, "attempts": one.attempts, "number": one.attempts + 1, "now": now} for one in intents]
    if (marked := _BEGIN_SENDING.run(connection, begun)) != len(begun):
        raise LedgerError(
            f"{len(begun) - marked} of {len(begun)} entries are not ready any more; none was marked as sending"
        )
    record_events(transaction, [(one.entry, State.READY.value, State.SENDING.value, _BEING_SENT) for one in intents])
    attempts = [
        {
            "entry": one.entry,
            "number": one.attempts + 1,
            "run": run.id,
            "now": now,
            "request_hash": one.request_hash,
        }
        for one in intents
    ]
    _INSERT_ATTEMPT.run(connection, attempts)


def change(transaction: Transaction, settlements: Sequence[Settlement]) -> dict[int, PreviousState]:
    """Bring entries into other states, with an event each. Returns by id what they were before.

    Raises LedgerError if a transition is not in the table, if an attempt speaks that is not the last one, or if an entry was changed
    by somebody else; the caller's transaction is void then.
    """
    if not settlements:
        return {}
    connection = transaction.connection
    before = _previous_states(connection, settlements)
    changes, events, outcomes = [], [], []
    for one in settlements:
        was = before[one.entry]
        if one.state not in TRANSITIONS[was.state] or (one.state is State.ACCEPTED and not was.attempts):
            raise LedgerError(f"entry {one.entry} is {was.state} and cannot become {one.state}")
        if one.attempt not in (0, was.attempts):
            raise LedgerError(
                f"entry {one.entry} was tried {was.attempts} times; attempt {one.attempt} settles nothing any more"
            )
        changes.append(
            {
                "entry": one.entry,
                "before": was.state,
                "after": one.state.value,
                "reason": one.reason,
                "problems": _problems_after(was.problems, one.problems),
                "receipt": one.receipt or was.receipt,
                "now": transaction.now,
                "waits": one.waits.value,
            }
        )
        events.append((one.entry, was.state, one.state.value, one.reason))
        if one.outcome and was.attempts:
            outcomes.append(
                {
                    "entry": one.entry,
                    "number": was.attempts,
                    "outcome": str(one.outcome),
                    "status": one.status,
                    "detail": one.reason,
                    "duration_ms": one.duration_ms,
                }
            )
    if (changed := _CHANGE_STATE.run(connection, changes)) != len(changes):
        raise LedgerError(f"{len(changes) - changed} entries changed under our hands; nothing was recorded")
    record_events(transaction, events)
    if outcomes:
        _RECORD_OUTCOME.run(connection, outcomes)
    return before


def record_events(transaction: Transaction, changes: Sequence[tuple[int, str, str, str]]) -> None:
    """Record changes of entries: each the entry, its state before (empty: it is new) and after, and the reason."""
    connection, run, now = transaction
    if changes:
        rows = [
            {"entry": entry, "run": run.id, "now": now, "before": before, "after": after, "reason": reason}
            for entry, before, after, reason in changes
        ]
        _INSERT_EVENT.run(connection, rows)


def _problems_after(stored: str, added: Sequence[Problem]) -> str:
    """The problems of an entry after a change, as they are stored."""
    if stored == "[]":
        return codec.encode_problems(added)
    return codec.encode_problems(still_true(codec.decode_problems(stored)) + tuple(added))


def still_true(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems that outlive a change of state: what the exchange or the ledger said of the state before is over with it."""
    return tuple(problem for problem in problems if problem.code[0] not in "XL" or problem.code in _LASTING)


def still_new(connection: Connection, settlements: Sequence[Settlement]) -> list[Settlement]:
    """The settlements that still change something: of the entry's last attempt, which nothing else has settled since.

    For outcomes that may have been recorded before, and those of a process whose ledger was taken over. Recording one twice changes nothing.
    """
    before = _previous_states(connection, settlements)
    return [one for one in settlements if _counts(one, before[one.entry])]


def never_left(connection: Connection, in_flight: Collection[int]) -> list[Settlement]:
    """Settlements that make entries ready again that are recorded as `sending` but are not `in_flight`."""
    return [
        Settlement(row.id, State.READY, NEVER_LEFT, outcome="not sent", attempt=row.attempts)
        for row in _SENDING.rows(connection)
        if row.id not in in_flight
    ]


def interrupted(connection: Connection, reason: str) -> list[Settlement]:
    """Settlements that make unknown what a killed process left `sending`: nobody can say whether it arrived."""
    return [_unknown(row.id, reason) for row in _SENDING.rows(connection)]


def doubt_unsent(transaction: Transaction) -> None:
    """Make ready entries of a restored ledger `unknown`, and hold waiting ones until a person decides."""
    connection = transaction.connection
    change(transaction, [Settlement(row.id, State.HELD, _RESTORED) for row in _WAITING.rows(connection)])
    ready = _READY.rows(connection)
    for start in range(0, len(ready), CHUNK):
        part = ready[start : start + CHUNK]
        begin_sending(transaction, [Intent(row.id, row.attempts, "") for row in part])
        change(transaction, [_unknown(row.id, _RESTORED) for row in part])


def _unknown(entry: int, reason: str) -> Settlement:
    problem = Problem("X702", values={"text": reason})
    return Settlement(entry, State.UNKNOWN, reason, problems=(problem,), outcome="unknown")


def _previous_states(connection: Connection, settlements: Sequence[Settlement]) -> dict[int, PreviousState]:
    rows = _CURRENT.rows_of(connection, [one.entry for one in settlements])
    return {row[0]: PreviousState._make(row) for row in rows}


def _counts(one: Settlement, now: PreviousState) -> bool:
    if one.attempt != now.attempts or now.state not in _OPEN:
        return False
    return now.state == State.SENDING or one.state is not State.UNKNOWN  # as the database has it: a text, no member


_BEGIN_SENDING = Statement(
    """
    update entries set state = 'sending', reason = 'being sent', attempts = :number, changed_at = :now
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

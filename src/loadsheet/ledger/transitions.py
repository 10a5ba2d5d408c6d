"""Changes of state: the one way in which an entry leaves a state, guarded by the table of transitions, with an event for each.

Owns: the statements of every change. Opens no transaction: the verbs of `Ledger` do.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.schema import attempts, entries, events
from loadsheet.ledger.statements import Chosen, Many, fixed, insert_many
from loadsheet.ledger.states import TRANSITIONS, Run, Settlement, State, Waits
from loadsheet.problems import LedgerError, Problem

NEVER_LEFT = "it never left: the ledger could not be reached before"
_OPEN = (State.SENDING, State.UNKNOWN)
_LASTING = ("L608",)  # that something may be there twice stays true whatever becomes of it


class Intent(NamedTuple):
    """A ready entry that is about to be sent: how many attempts there were, and the hex SHA-256 of the request's body."""

    entry: int
    attempts: int
    request_hash: str


def begin_sending(connection: Connection, run: Run, intents: Sequence[Intent], now: str) -> None:
    """Bring ready entries into `sending`, each with an attempt and an event; `now` is ISO 8601 UTC.

    Raises LedgerError if one of them is no longer as the caller knew it; the caller's transaction is void then.
    """
    if not intents:
        return
    begun = [(one.attempts + 1, now, one.entry, one.attempts) for one in intents]
    if (marked := _BEGIN.run(connection, begun)) != len(begun):
        raise LedgerError(
            f"{len(begun) - marked} of {len(begun)} entries are not ready any more; none was marked as sending"
        )
    record_events(connection, run, now, [(one.entry, _READY, _SENDING, _BEING_SENT) for one in intents])
    made = [(one.entry, one.attempts + 1, run.id, now, one.request_hash, "", None, "", None) for one in intents]
    _ATTEMPT.run(connection, made)


class PreviousState(NamedTuple):
    """An entry that was brought into another state: what it was before (the value of a `State`), and what bears on others of its lane."""

    id: int
    state: str
    receipt: str
    problems: str
    attempts: int
    lane: str
    operation: str


def change(connection: Connection, run: Run, settlements: Sequence[Settlement], now: str) -> dict[int, PreviousState]:
    """Bring entries into other states, with an event each; `now` is ISO 8601 UTC. Returns by id what they were before.

    Raises LedgerError if a transition is not in the table, if an attempt speaks that is not the last one, or if an entry changed under
    our hands; the caller's transaction is void then.
    """
    if not settlements:
        return {}
    rows = CURRENT.rows(connection, [settlement.entry for settlement in settlements])
    found = {row[0]: PreviousState._make(row) for row in rows}
    changes, history, outcomes = [], [], []
    for one in settlements:
        _, before, receipt, problems, tried, _, _ = found[one.entry]
        if one.state not in TRANSITIONS[before] or (one.state is State.ACCEPTED and not tried):
            raise LedgerError(f"entry {one.entry} is {before} and cannot become {one.state}")
        if one.attempt not in (0, tried):
            raise LedgerError(
                f"entry {one.entry} was tried {tried} times; attempt {one.attempt} settles nothing any more"
            )
        after = one.state.value
        kept = _problems_after(problems, one.problems)
        changes.append((after, one.reason, kept, one.receipt or receipt, now, one.waits.value, one.entry, before))
        history.append((one.entry, before, after, one.reason))
        if one.outcome and tried:
            outcomes.append((str(one.outcome), one.status, one.reason, one.duration_ms, one.entry, tried))
    if (changed := _CHANGE.run(connection, changes)) != len(changes):
        raise LedgerError(f"{len(changes) - changed} entries changed under our hands; nothing was recorded")
    record_events(connection, run, now, history)
    if outcomes:
        _OUTCOME.run(connection, outcomes)
    return found


def record_events(connection: Connection, run: Run, now: str, changes: Sequence[tuple[int, str, str, str]]) -> None:
    """Record changes of entries: each the entry, its state before (empty: it is new) and after, and the reason."""
    if changes:
        _EVENT.run(connection, [(entry, run.id, now, before, after, why) for entry, before, after, why in changes])


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
    if not settlements:
        return []
    found = {row[0]: PreviousState._make(row) for row in CURRENT.rows(connection, [one.entry for one in settlements])}
    return [one for one in settlements if _counts(one, found[one.entry])]


def never_left(connection: Connection, in_flight: Collection[int]) -> list[Settlement]:
    """Settlements that make entries ready again that are recorded as `sending` but are not `in_flight`."""
    sending = select(entries.c.id, entries.c.attempts).where(entries.c.state == State.SENDING)
    return [
        Settlement(row.id, State.READY, NEVER_LEFT, outcome="not sent", attempt=row.attempts)
        for row in connection.execute(sending)
        if row.id not in in_flight
    ]


def _counts(one: Settlement, now: PreviousState) -> bool:
    if one.attempt != now.attempts or now.state not in _OPEN:
        return False
    return now.state == State.SENDING or one.state is not State.UNKNOWN  # as the database has it: a text, no member


_READY, _SENDING = State.READY.value, State.SENDING.value
_BEING_SENT = "being sent"

# Parameters stand in the order in which SQL has them: first what is set, in the order of the table's columns.
_BEGIN = Many(
    update(entries)
    .where(
        entries.c.id == bindparam("entry"),
        entries.c.attempts == bindparam("before"),
        entries.c.state.in_(fixed(_READY)),
        entries.c.waits.in_(fixed(Waits.DECISION.value)),
    )
    .values(
        state=fixed(_SENDING)[0],
        reason=fixed(_BEING_SENT)[0],
        changed_at=bindparam("now"),
        attempts=bindparam("tried"),
    ),
    ("tried", "now", "entry", "before"),
)
CURRENT = Chosen(select(*(entries.c[name] for name in PreviousState._fields)), entries.c.id)
_CHANGE = Many(
    update(entries)
    .where(entries.c.id == bindparam("entry"), entries.c.state == bindparam("before"))
    .values(
        {name: bindparam(f"new_{name}") for name in ("state", "reason", "problems", "receipt", "changed_at", "waits")}
    ),
    ("new_state", "new_reason", "new_problems", "new_receipt", "new_changed_at", "new_waits", "entry", "before"),
)
_OUTCOME = Many(
    update(attempts)
    .where(attempts.c.entry_id == bindparam("entry"), attempts.c.number == bindparam("attempt"))
    .values({name: bindparam(f"new_{name}") for name in ("outcome", "status", "detail", "duration_ms")}),
    ("new_outcome", "new_status", "new_detail", "new_duration_ms", "entry", "attempt"),
)
_EVENT = insert_many(events, "id")
_ATTEMPT = insert_many(attempts)

"""Changes of state: the one way in which an entry leaves a state, guarded by the table of transitions, with an event for each.

Owns: the statements of every change. Opens no transaction: the verbs of `Ledger` do.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.schema import attempts, entries, events
from loadsheet.ledger.states import TRANSITIONS, Event, Run, Settlement, State
from loadsheet.problems import LedgerError, Problem

CHUNK = 500


def change(
    connection: Connection, run: Run, settlements: Sequence[Settlement], now: str, *, counts_attempt: bool = False
) -> None:
    """Bring entries into other states, with an event each; `now` is ISO 8601 UTC. `counts_attempt` says that each is being sent.

    Raises LedgerError if a transition is not in the table or an entry changed under our hands; the caller's transaction is void then.
    """
    if not settlements:
        return
    current = _current(connection, [settlement.entry for settlement in settlements])
    changes, history, outcomes = [], [], []
    for settlement in settlements:
        row = current[settlement.entry]
        before = State(row.state)
        if settlement.state not in TRANSITIONS[before]:
            raise LedgerError(f"entry {settlement.entry} is {before} and cannot become {settlement.state}")
        problems = _still_true(codec.decode_problems(row.problems)) + settlement.problems
        changes.append(
            {
                "entry": settlement.entry,
                "before": before,
                "state": settlement.state,
                "reason": settlement.reason,
                "receipt": settlement.receipt or row.receipt,
                "problems": codec.encode_problems(problems),
                "attempts": row.attempts + counts_attempt,
                "changed_at": now,
            }
        )
        change = Event(now, run.name, before, settlement.state, settlement.reason)
        history.append(event_record(run, settlement.entry, change))
        if settlement.outcome and row.attempts:
            outcomes.append(_outcome_record(settlement, row.attempts))
    changed = connection.execute(_CHANGE, changes).rowcount
    if changed != len(changes):
        raise LedgerError(f"{len(changes) - changed} entries changed under our hands; nothing was recorded")
    connection.execute(insert(events), history)
    if outcomes:
        connection.execute(_OUTCOME, outcomes)


def begin_attempts(connection: Connection, run: Run, begun: Sequence[tuple[int, int, str]], now: str) -> None:
    """Record attempts as they begin: entry, number and hex SHA-256 of the request's body of each."""
    if begun:
        connection.execute(insert(attempts), [_attempt_record(run, *attempt, now) for attempt in begun])


def _current(connection: Connection, wanted: Sequence[int]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for start in range(0, len(wanted), CHUNK):
        chosen = {"wanted": wanted[start : start + CHUNK]}
        found.update((row.id, row) for row in connection.execute(_CURRENT, chosen))
    return found


_CURRENT = select(*(entries.c[name] for name in ("id", "state", "receipt", "problems", "attempts"))).where(
    entries.c.id.in_(bindparam("wanted", expanding=True))
)
_CHANGE = (
    update(entries)
    .where(entries.c.id == bindparam("entry"), entries.c.state == bindparam("before"))
    .values({name: bindparam(name) for name in ("state", "reason", "receipt", "problems", "attempts", "changed_at")})
)
_OUTCOME = (
    update(attempts)
    .where(attempts.c.entry_id == bindparam("entry"), attempts.c.number == bindparam("attempt"))
    .values({name: bindparam(f"new_{name}") for name in ("outcome", "status", "detail", "duration_ms")})
)


def _still_true(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    # What the exchange said belongs to the state that it led to, and is over with it.
    return tuple(problem for problem in problems if not problem.code.startswith("X"))


def event_record(run: Run, entry: int, change: Event) -> dict[str, Any]:
    """The row of `events` for one change of an entry."""
    told = {"at": change.at, "before": change.before, "after": change.after, "reason": change.reason}
    return {"entry_id": entry, "run_id": run.id, **told}


def _attempt_record(run: Run, entry: int, number: int, digest: str, at: str) -> dict[str, Any]:
    return {
        "entry_id": entry,
        "number": number,
        "run_id": run.id,
        "started_at": at,
        "request_hash": digest,
        "outcome": "",
        "detail": "",
    }


def _outcome_record(settlement: Settlement, attempt: int) -> dict[str, Any]:
    return {
        "entry": settlement.entry,
        "attempt": attempt,
        "new_outcome": settlement.outcome,
        "new_status": settlement.status,
        "new_detail": settlement.reason,
        "new_duration_ms": settlement.duration_ms,
    }

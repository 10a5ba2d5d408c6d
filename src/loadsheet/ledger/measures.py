"""What the ledger says in figures: when something last worked, what is open and since when, and how calls went. Reads only.

Owns: the aggregates that metrics are made of. Whatever counts entries is answered from an index, and calls are found by the run's own
events, so that a night costs the same however long the history is.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, case, func, select

from loadsheet.ledger.schema import attempts, entries, events, exceptions, runs
from loadsheet.ledger.states import State

SUCCESS = (0, 1)
"""Exit codes of runs that did their work: all went well, or rows wait for people."""


class Standings(NamedTuple):
    """How things stand: when the last run that did its work ended (ISO 8601 UTC; empty: none did), how many exceptions were opened at each
    of the asked moments or before, how many are open in all, when the oldest entry that is ready or being sent was planned (empty: there
    is none), and how many entries are unknown.
    """

    last_success: str
    opened_by: tuple[int, ...]
    open: int
    oldest_unsent: str
    unknown: int


class Calls(NamedTuple):
    """The calls of one operation in a run: how many had an answer or failed, their seconds in all, and how many took no longer than
    each of the asked limits.
    """

    operation: str
    made: int
    seconds: float
    within: tuple[int, ...]


def standings(connection: Connection, moments: Sequence[str]) -> Standings:
    """How things stand; `moments` are ISO 8601 UTC."""
    success = select(func.max(runs.c.finished_at)).where(runs.c.exit_code.in_(SUCCESS))
    opened = [func.sum(case((exceptions.c.opened_at <= moment, 1), else_=0)) for moment in moments]
    counted = connection.execute(select(func.count(), *opened).where(exceptions.c.closed_at == "")).one()
    unsent = select(func.min(entries.c.created_at)).where(entries.c.state.in_((State.READY, State.SENDING)))
    unknown = select(func.count()).select_from(entries).where(entries.c.state == State.UNKNOWN)
    return Standings(
        last_success=connection.scalar(success) or "",
        opened_by=tuple(count or 0 for count in counted[1:]),
        open=counted[0],
        oldest_unsent=connection.scalar(unsent) or "",
        unknown=connection.scalar(unknown) or 0,
    )


def calls_by_outcome(connection: Connection, run: str) -> dict[tuple[str, str], int]:
    """The calls of the run of this name by operation and by what became of them (empty: nobody knows). A call whose records fared
    differently counts once for each outcome.
    """
    calls = _calls(run, attempts.c.outcome).subquery()
    query = select(calls.c.operation, calls.c.outcome, func.count()).group_by(calls.c.operation, calls.c.outcome)
    return {(operation, outcome): count for operation, outcome, count in connection.execute(query)}


def call_times(connection: Connection, run: str, limits_s: Sequence[float]) -> list[Calls]:
    """How long the calls of the run of this name took, by operation."""
    calls = _calls(run).subquery()
    took = calls.c.duration_ms
    within = [func.sum(case((took <= round(limit * 1000), 1), else_=0)) for limit in limits_s]
    query = select(calls.c.operation, func.count(), func.sum(took), *within).where(took.is_not(None))
    rows = connection.execute(query.group_by(calls.c.operation).order_by(calls.c.operation))
    return [Calls(row[0], row[1], float(row[2]) / 1000, tuple(row[3:])) for row in rows]


def _calls(run: str, *more: Any) -> Select[Any]:
    """The calls of a run, each once however many records it carried: they share their body and the moment of their intent."""
    sent = and_(events.c.run_id == runs.c.id, events.c.after == State.SENDING)
    query = (
        select(entries.c.operation, attempts.c.request_hash, attempts.c.started_at, attempts.c.duration_ms, *more)
        .select_from(runs)
        .join(events, sent)
        .join(entries, entries.c.id == events.c.entry_id)
        .join(attempts, and_(attempts.c.entry_id == events.c.entry_id, attempts.c.run_id == runs.c.id))
    )
    return query.where(runs.c.name == run).distinct()

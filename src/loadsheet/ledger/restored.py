"""A ledger that was put back from a backup: what it says of the time since then cannot be trusted.

Owns: what such a ledger may still claim. Whatever it would send may have been sent since, so it is unknown until a listing or a
person says more; what waited for something is not let go by itself. What was accepted or refused before stays so. Records that
were first sent after the backup are not in it at all: their files must not be dropped again unseen.
"""

from sqlalchemy import Connection, select

from loadsheet.ledger.location import Mark, Surroundings
from loadsheet.ledger.schema import entries, runs
from loadsheet.ledger.states import Run, Settlement, State, Waits
from loadsheet.ledger.transitions import Intent, begin_sending, change
from loadsheet.problems import LedgerError, Problem

CHUNK = 500
_LOST = "the ledger was put back from a backup; it may have been sent since"


def is_older(connection: Connection, place: Surroundings, where: str, *, accepted: bool) -> bool:
    """Whether the ledger is an older one than the last that this machine saw. Raises LedgerError if it is, and that was not `accepted`."""
    mark = place.read_mark()
    if mark is None or has_run(connection, mark):
        return False
    if accepted:
        return True
    told = f"the ledger {where} does not know run {mark.name} of {mark.started_at}, which was recorded here"
    accept = "set accept_older_ledger for one run: what it would have sent is then unknown and looked for first"
    todo = f"put the newest back (`loadsheet ledger restore FILE`), or {accept}"
    raise LedgerError(f"{told}: it is an older copy, or another one", todo=todo)


def has_run(connection: Connection, mark: Mark) -> bool:
    """Whether the ledger recorded the run that was the last one."""
    same = (runs.c.id == mark.id) & (runs.c.started_at == mark.started_at)
    return connection.scalar(select(runs.c.id).where(same)) is not None


def doubt(connection: Connection, run: Run, now: str) -> None:
    """Bring what is ready to `unknown`, and hold what waits, until a person looks at it; `now` is ISO 8601 UTC."""
    waiting = entries.c.state.in_((State.HELD, State.READY)) & (entries.c.waits != Waits.DECISION)
    hold = select(entries.c.id).where(waiting)
    change(connection, run, [Settlement(one, State.HELD, _LOST) for one in connection.scalars(hold)], now)
    ready = select(entries.c.id, entries.c.attempts).where(entries.c.state == State.READY)
    chosen = connection.execute(ready).all()
    for start in range(0, len(chosen), CHUNK):
        part = chosen[start : start + CHUNK]
        begin_sending(connection, run, [Intent(one, tried, "") for one, tried in part], now)
        problems = (Problem("X702", values={"text": _LOST}),)
        unknown = [Settlement(one, State.UNKNOWN, _LOST, problems=problems, outcome="unknown") for one, _ in part]
        change(connection, run, unknown, now)

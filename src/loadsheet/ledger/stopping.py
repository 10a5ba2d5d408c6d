"""A drop with too many errors: nothing of it is sent, in the transaction that records it.

Owns: when errors are too many, and what is said of the records that are right. They are held, so that every row stays accounted for
and a person can send them all the same. Opens no transaction: `Ledger.plan` does.
"""

from collections import Counter

from sqlalchemy import Connection, bindparam, select

from loadsheet.ledger.changing import change
from loadsheet.ledger.schema import entries
from loadsheet.ledger.states import Drop, Run, Settlement, State
from loadsheet.problems import Problem, Where

CHUNK = 500
TOO_MANY_ERRORS = "L611"
REASON = "too many errors in the files that it came with"


def has_too_many_errors(fates: Counter[State], share_max: float) -> bool:
    """Whether more than this share (0 to 1) of a drop's documents is invalid."""
    return fates[State.INVALID] > share_max * fates.total()


def stop(connection: Connection, run: Run, drop: Drop, fates: Counter[State], now: str, *, share_max: float) -> None:
    """Hold whatever of a drop is ready, and bring `fates` up to date; `now` is ISO 8601 UTC."""
    problem = too_many_errors(drop.name, fates[State.INVALID], fates.total(), share_max)
    after = 0
    while found := connection.execute(_READY_OF, {"drop": drop.id, "after": after}).scalars().all():
        change(connection, run, [Settlement(one, State.HELD, REASON, problems=(problem,)) for one in found], now)
        fates.subtract({State.READY: len(found)})
        fates.update({State.HELD: len(found)})
        after = found[-1]


def too_many_errors(name: str, invalid: int, count: int, share_max: float) -> Problem:
    """The problem that says it, of the drop with this name."""
    hint = f"correct the file and drop it again, or send what is right of it: loadsheet retry --file {name}"
    values = {"invalid": invalid, "count": count, "limit": f"{share_max * 100:.4g} %"}
    return Problem(TOO_MANY_ERRORS, Where(name), name, values, hint)


_READY_OF = (
    select(entries.c.id)
    .where(entries.c.drop_id == bindparam("drop"), entries.c.state == State.READY, entries.c.id > bindparam("after"))
    .order_by(entries.c.id)
    .limit(CHUNK)
)

"""A drop that must not go: with too many errors, or with doubts about all of it. Nothing of it is sent, in the transaction that records it.

Owns: when errors are too many, and what is said of the records that are right. They are held, so that every row stays accounted for
and a person can send them all the same. Opens no transaction: `Ledger.plan` does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, bindparam, select

from loadsheet.ledger.schema import entries
from loadsheet.ledger.states import Drop, Run, Settlement, State
from loadsheet.ledger.transitions import change
from loadsheet.problems import Problem, Where

CHUNK = 500
REASON = "something is wrong with all of the files that it came with"


def why_stopped(
    name: str, fates: Mapping[State, int], share_max: float, doubts: Sequence[Problem] = ()
) -> tuple[Problem, ...]:
    """Why nothing of the drop of this name may go, none if it may: more than a share (0 to 1) of its documents is invalid, or there are
    doubts about the others.
    """
    invalid, count = fates.get(State.INVALID, 0), sum(fates.values())
    errors = (_too_many_errors(name, invalid, count, share_max),) if invalid > share_max * count else ()
    return (*errors, *doubts)


def stop(
    connection: Connection, run: Run, drop: Drop, fates: Counter[State], now: str, *, why: Sequence[Problem]
) -> None:
    """Hold whatever of a drop is ready, and bring `fates` up to date; `now` is ISO 8601 UTC."""
    problems, after = tuple(why), 0
    while found := connection.execute(_READY_OF, {"drop": drop.id, "after": after}).scalars().all():
        change(connection, run, [Settlement(one, State.HELD, REASON, problems=problems) for one in found], now)
        fates.subtract({State.READY: len(found)})
        fates.update({State.HELD: len(found)})
        after = found[-1]


def _too_many_errors(name: str, invalid: int, count: int, share_max: float) -> Problem:
    """The problem that says it, of the drop with this name."""
    hint = f"correct the file and drop it again, or send what is right of it: loadsheet retry --file {name}"
    values = {"invalid": invalid, "count": count, "limit": f"{share_max * 100:.4g} %"}
    return Problem("L611", Where(name), name, values, hint)


_READY_OF = (
    select(entries.c.id)
    .where(entries.c.drop_id == bindparam("drop"), entries.c.state == State.READY, entries.c.id > bindparam("after"))
    .order_by(entries.c.id)
    .limit(CHUNK)
)

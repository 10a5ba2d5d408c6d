"""What may leave: the ready entries, oldest first, none past an earlier one of its lane.

Owns: these queries.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, Select, bindparam, or_, select, tuple_

from loadsheet.ledger.schema import drops, entries, mappings
from loadsheet.ledger.statements import Asked, fixed
from loadsheet.ledger.states import State, Waits


class Submission(NamedTuple):
    """What dispatch needs of a ready entry in order to send it; `batch_size` is its mapping's wish, if there is one."""

    id: int
    drop: int
    operation: str
    key: str
    lane: str
    payload: bytes
    attempts: int
    batch_size: int | None = None


class Which(IntEnum):
    """Which of them: all, those without some parts and operations, those of one part."""

    ALL = 0
    BUT = 1
    OF = 2


def submissions(connection: Connection, which: Which, values: Mapping[str, Any]) -> list[Submission]:
    """The ready entries that may leave. `values` are those of the query: `most`; `parts` and `operations` that are left out; `drop` and
    `operation` of the one part.
    """
    given = dict(values)
    if which is Which.BUT:
        given |= {"parts_out": values["parts"], "operations_out": values["operations"]}
    query = _READY[which]
    rows = Asked(query).rows(connection, **given) if which is Which.ALL else connection.execute(query, given)
    return [Submission._make(row) for row in rows]


others = entries.alias()
"""Other entries, on the lane of the one that is asked about."""

# An expression, so that no index of states is used: on a lane there are a few, in a state there may be all.
_state_of_others = others.c.state.concat("")
on_lane = others.c.lane == entries.c.lane
busy_on_lane = on_lane & _state_of_others.in_(fixed(State.SENDING.value, State.UNKNOWN.value))
before_on_lane = (
    on_lane
    & (_state_of_others == State.READY)
    & (others.c.waits == Waits.DECISION)  # a child that waits for its create is overtaken by it
    & (others.c.id < entries.c.id)
)

LEFT_SENDING = select(entries.c.id).where(entries.c.state == State.SENDING)
_PARTS: BindParameter[Any] = bindparam("parts", expanding=True)
_OPERATIONS: BindParameter[Any] = bindparam("operations", expanding=True)
# Names of their own: how an empty list is written depends on whether it is asked for or left out, and each name is written once.
_PARTS_OUT: BindParameter[Any] = bindparam("parts_out", expanding=True)
_OPERATIONS_OUT: BindParameter[Any] = bindparam("operations_out", expanding=True)
_overtaken = before_on_lane & or_(
    tuple_(others.c.drop_id, others.c.operation).in_(_PARTS), others.c.operation.in_(_OPERATIONS)
)
_overtaking = select(1).select_from(others).where(_overtaken).exists()


def _ready_queries() -> tuple[Select[Any], Select[Any], Select[Any]]:
    """What may be sent; that without some parts; that of one part. Built once: putting a statement together costs more than running it."""
    every = (
        select(
            *(entries.c[name] for name in ("id", "drop_id", "operation", "key", "lane", "payload", "attempts")),
            mappings.c.batch_size,
        )
        .join(drops, drops.c.id == entries.c.drop_id)
        .join(mappings, mappings.c.hash == drops.c.mapping_hash)
        .where(
            entries.c.state == State.READY,
            entries.c.waits == Waits.DECISION,
            ~select(1).select_from(others).where(busy_on_lane).exists(),
        )
        .order_by(entries.c.id)
        .limit(bindparam("most"))
    )
    part = tuple_(entries.c.drop_id, entries.c.operation)
    but = every.where(part.not_in(_PARTS_OUT), entries.c.operation.not_in(_OPERATIONS_OUT), ~_overtaking)
    of = every.where(
        entries.c.drop_id == bindparam("drop"), entries.c.operation == bindparam("operation"), ~_overtaking
    )
    return every, but, of


_READY = _ready_queries()

"""The queue: which ready entries may be sent, oldest first and in order per key, and which drops start with a canary.

Owns: these queries. The `lane` of an entry is its key together with its kind of record.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, Select, bindparam, or_, select, tuple_

from loadsheet.ledger.schema import drops, entries, events, files, mappings
from loadsheet.ledger.statements import Asked, fixed
from loadsheet.ledger.states import State, Waits

CANARY_FAILED = "the first records of its drop were all refused"
"""The reason of entries that are held because the canary of their drop failed."""

Part = tuple[int, str]  # a drop and an operation of its entries


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


def canary_candidates(connection: Connection) -> list[Part]:
    """The drops with ready entries, and the operation, whose first entries go alone (see `dispatch.canary`): no entry of that mapping
    and operation was ever accepted, or none at all from that folder of the inbox. Drops that a person released after a failed canary
    are left out.
    """
    waiting = select(entries.c.drop_id, entries.c.operation).where(entries.c.state == State.READY).distinct()
    known: dict[str, bool] = {}
    return [
        (drop, operation)
        for drop, operation in connection.execute(waiting).all()
        if connection.execute(_LET_GO, {"drop": drop, "reason": CANARY_FAILED}).first() is None
        if connection.execute(_ACCEPTED, {"drop": drop, "operation": operation}).first() is None
        or not _is_from_known(connection, drop, known)
    ]


def _is_from_known(connection: Connection, drop: int, known: dict[str, bool]) -> bool:
    """Whether any entry from this drop's folder of the inbox was ever accepted. True for a fix file: it comes from any folder. Results
    are cached in `known`, by folder.
    """
    query = select(files.c.name, drops.c.fixes).join(drops, drops.c.id == files.c.drop_id)
    name, fixes = connection.execute(query.where(drops.c.id == drop).order_by(files.c.id).limit(1)).one()
    folder, slash, _ = name.partition("/")
    if fixes is not None:
        return True
    place = folder + slash if slash else ""
    if place not in known:
        there = files.c.name.startswith(place, autoescape=True) if place else files.c.name.not_like("%/%")
        accepted = select(entries.c.id).join(files, files.c.drop_id == entries.c.drop_id)
        found = connection.execute(accepted.where(there, entries.c.state == State.ACCEPTED).limit(1))
        known[place] = found.first() is not None
    return known[place]


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


_mapping = select(drops.c.mapping_hash).where(drops.c.id == bindparam("drop")).scalar_subquery()
_ACCEPTED = (
    select(entries.c.id)
    .join(drops, drops.c.id == entries.c.drop_id)
    .where(
        drops.c.mapping_hash == _mapping,
        entries.c.operation == bindparam("operation"),
        entries.c.state == State.ACCEPTED,
    )
    .limit(1)
)
_LET_GO = (
    select(events.c.entry_id)
    .join(entries, entries.c.id == events.c.entry_id)
    .where(entries.c.drop_id == bindparam("drop"), events.c.after == State.HELD, events.c.reason == bindparam("reason"))
    .limit(1)
)

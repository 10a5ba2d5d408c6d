"""The queue: which ready entries may be sent, oldest first and in order per key.

The `lane` of an entry is its key together with its kind of record. Owns: the queries of the queue. `waiting` decides what waits. Only reads.
"""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection

from loadsheet.ledger.content_blocks import with_contents
from loadsheet.ledger.ledger_tables import Statement

CANARY_FAILED = "the first records of its drop were all refused"
"""The reason of entries that are held because their drop's canary failed."""

DropOperation = tuple[int, str]  # a drop and an operation of its entries


class Submission(NamedTuple):
    """The part of a ready entry that dispatch needs. `batch_size` is the number of records per call that its mapping sets."""

    id: int
    drop: int
    operation: str
    key: str
    lane: str
    payload: bytes
    attempts: int
    batch_size: int | None = None


class LeftOut(NamedTuple):
    """What may not be sent now: operations of single drops, and operations of all drops."""

    parts: Collection[DropOperation] = ()
    operations: Collection[str] = ()


def ready_submissions(
    connection: Connection, limit: int, left_out: LeftOut, part: DropOperation | None = None
) -> list[Submission]:
    """The oldest ready entries that may be sent, at most `limit`, of all drops or of one part. Skips lanes where an entry is being
    sent or unknown, entries that wait for their order or tender, and entries that would overtake a left-out one on its lane.
    """
    parts = [f"{drop} {operation}" for drop, operation in left_out.parts]
    given = {"most": limit, "parts": parts, "operations": list(left_out.operations)}
    if part is None:
        rows = _READY.rows(connection, **given)
    else:
        rows = _READY_OF_PART.rows(connection, **given, drop=part[0], operation=part[1])
    return [
        Submission(row.id, row.drop_id, row.operation, row.key, row.lane, content.payload, row.attempts, row.batch_size)
        for row, content in with_contents(connection, rows)
    ]


# `other.state || ''` is an expression, so that no index on states is used: a lane has few entries, a state may have all of them.
_MAY_BE_SENT = """
    select entries.id, entries.drop_id, entries.operation, entries.key, entries.lane, entries.payload, entries.rows,
        entries.attempts, mappings.batch_size
    from entries
    join drops on drops.id = entries.drop_id
    join mappings on mappings.hash = drops.mapping_hash
    where entries.state = 'ready' and entries.waits = ''
    and not exists (
        select 1 from entries other where other.lane = entries.lane and (
            other.state || '' in ('sending', 'unknown')
            or (
                other.state || '' = 'ready' and other.waits = '' and other.id < entries.id
                and (other.operation in (:operations) or other.drop_id || ' ' || other.operation in (:parts))
            )
        )
    )
"""
_NOT_LEFT_OUT = """
    and entries.operation not in (:operations) and entries.drop_id || ' ' || entries.operation not in (:parts)
    order by entries.id limit :most
"""
_OF_PART = """
    and entries.drop_id = :drop and entries.operation = :operation
    order by entries.id limit :most
"""
_READY = Statement(_MAY_BE_SENT + _NOT_LEFT_OUT)
_READY_OF_PART = Statement(_MAY_BE_SENT + _OF_PART)

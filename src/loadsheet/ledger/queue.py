"""The queue: which ready entries may be sent, oldest first and in order per key, and which drops start with a canary.

Owns: these queries. The `lane` of an entry is its key together with its kind of record.
"""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection

from loadsheet.ledger.statements import Statement

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


class LeftOut(NamedTuple):
    """What may not be sent now: drops and operations of theirs, and operations of all drops."""

    parts: Collection[Part] = ()
    operations: Collection[str] = ()


def submissions(connection: Connection, limit: int, left_out: LeftOut, part: Part | None = None) -> list[Submission]:
    """The oldest ready entries that may leave, at most `limit`, of all drops or of one part. None leaves on a lane where another one is
    being sent or unknown, none that waits for its order or tender, and none that would overtake something left out on its lane.
    """
    parts = [f"{drop} {operation}" for drop, operation in left_out.parts]
    given = {"most": limit, "parts": parts, "operations": list(left_out.operations)}
    if part is None:
        rows = _READY.rows(connection, **given)
    else:
        rows = _READY_OF_PART.rows(connection, **given, drop=part[0], operation=part[1])
    return [Submission._make(row) for row in rows]


def canary_candidates(connection: Connection) -> list[Part]:
    """The drops with ready entries, and the operation, whose first entries go alone (see `dispatch.canary`): no entry of that mapping
    and operation was ever accepted, or none at all from that folder of the inbox. Drops that a person released after a failed canary
    are left out.
    """
    known_folders: dict[str, bool] = {}
    return [
        (drop, operation)
        for drop, operation in _READY_PARTS.rows(connection)
        if not _CANARY_RELEASED.rows(connection, drop=drop, reason=CANARY_FAILED)
        if not _MAPPING_ACCEPTED.rows(connection, drop=drop, operation=operation)
        or not _is_from_known_folder(connection, drop, known_folders)
    ]


def _is_from_known_folder(connection: Connection, drop: int, known_folders: dict[str, bool]) -> bool:
    """Whether any entry from this drop's folder of the inbox was ever accepted. True for a fix file: it comes from any folder. Results
    are cached in `known_folders`.
    """
    (first,) = _FIRST_FILE.rows(connection, drop=drop)
    if first.fixes is not None:
        return True
    folder, slash, _ = first.name.partition("/")
    place = folder + slash if slash else ""
    if place not in known_folders:
        accepted = _FOLDER_ACCEPTED if place else _TOP_ACCEPTED
        given = {"folder": place, "length": len(place)} if place else {}
        known_folders[place] = bool(accepted.rows(connection, **given))
    return known_folders[place]


# The state of another entry is an expression, so that no index of states is used: on a lane there are a few, in a state there may be all.
_MAY_BE_SENT = """
    select entries.id, entries.drop_id, entries.operation, entries.key, entries.lane, entries.payload, entries.attempts,
        mappings.batch_size
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
_READY_PARTS = Statement("select distinct drop_id, operation from entries where state = 'ready'")
_CANARY_RELEASED = Statement(
    """
    select 1 from events join entries on entries.id = events.entry_id
    where entries.drop_id = :drop and events.after = 'held' and events.reason = :reason limit 1
    """
)
_MAPPING_ACCEPTED = Statement(
    """
    select 1 from entries join drops on drops.id = entries.drop_id
    where drops.mapping_hash = (select mapping_hash from drops where id = :drop)
    and entries.operation = :operation and entries.state = 'accepted' limit 1
    """
)
_FIRST_FILE = Statement(
    """
    select files.name, drops.fixes from files join drops on drops.id = files.drop_id
    where drops.id = :drop order by files.id limit 1
    """
)
_FOLDER_ACCEPTED = Statement(
    """
    select 1 from entries join files on files.drop_id = entries.drop_id
    where entries.state = 'accepted' and substr(files.name, 1, :length) = :folder limit 1
    """
)
_TOP_ACCEPTED = Statement(
    """
    select 1 from entries join files on files.drop_id = entries.drop_id
    where entries.state = 'accepted' and replace(files.name, '/', '') = files.name limit 1
    """
)

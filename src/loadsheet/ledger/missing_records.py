"""Which records of the last version of a file are missing from the new one. Reads only.

Owns: which drop was the last version of a file, and whether a drop is a new version of it at all or another night's file.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from loadsheet.ledger.exceptions import chunks
from loadsheet.ledger.schema import drops, entries, files, mappings, runs
from loadsheet.ledger.states import Drop

KEYS_MAX = 1_000
"""So many keys of missing records are listed of a file; the others are counted."""


@dataclass(frozen=True, slots=True)
class MissingRecords:
    """The records that the last version of a file had, which the run named `run` read, and that the new one has not: how many, and the
    first keys.
    """

    run: str
    count: int
    keys: tuple[str, ...]


def missing_records(connection: Connection, read: Sequence[Drop]) -> dict[int, MissingRecords]:
    """What is missing from these drops, all of one run, by drop. The last version is the latest earlier drop with the same mapping and the
    same file names.
    """
    usable = [drop for drop in read if _names(drop) and drop.fixes is None and not drop.set_aside]
    last = _latest(connection, usable) if usable else {}
    found = {}
    for drop in usable:
        identity = last.get((drop.mapping, drop.files[0].name))
        if identity is None or not _is_other_version(connection, identity, drop):
            continue
        if missing := _missing(connection, identity, drop.id):
            found[drop.id] = missing
    return found


def _names(drop: Drop) -> list[tuple[str, str]]:
    return sorted((file.name, file.sha256) for file in drop.files) if drop.mapping else []


def _latest(connection: Connection, read: Sequence[Drop]) -> dict[tuple[str, str], int]:
    """The latest drop before these that holds the first file of each, by mapping and name."""
    first = min(drop.id for drop in read)
    latest: dict[tuple[str, str], int] = {}
    query = (
        select(mappings.c.name.label("mapping"), files.c.name, func.max(drops.c.id).label("drop"))
        .select_from(files)
        .join(drops, drops.c.id == files.c.drop_id)
        .join(mappings, mappings.c.hash == drops.c.mapping_hash)
        .where(drops.c.id < first, drops.c.fixes.is_(None), files.c.problems == "[]")
        .group_by(mappings.c.name, files.c.name)
    )
    for some in chunks(sorted({drop.files[0].name for drop in read})):
        rows = connection.execute(query.where(files.c.name.in_(some)))
        latest |= {(row.mapping, row.name): row.drop for row in rows}
    return latest


def _is_other_version(connection: Connection, last: int, new: Drop) -> bool:
    """Whether two drops hold files of the same names, and not the same bytes."""
    rows = connection.execute(select(files.c.name, files.c.sha256).where(files.c.drop_id == last))
    before, now = sorted((row.name, row.sha256) for row in rows), _names(new)
    return before != now and [name for name, _ in before] == [name for name, _ in now]


def _missing(connection: Connection, last: int, new: int) -> MissingRecords | None:
    """The keys of the last version that the new one has not; None if there are none, or if it shares less than half of its own with it."""
    keys_of = {
        drop: select(entries.c.key).where(entries.c.drop_id == drop, entries.c.key != "") for drop in (last, new)
    }
    missing = keys_of[last].except_(keys_of[new]).subquery()
    first = select(missing.c.key, func.count().over()).order_by(missing.c.key).limit(KEYS_MAX)
    found = connection.execute(first).all()
    if not found:
        return None
    count, distinct = found[0][1], func.count(entries.c.key.distinct())
    before, now = (connection.scalar(one.with_only_columns(distinct)) or 0 for one in keys_of.values())
    shared = before - count
    if not shared or 2 * shared < now:
        return None
    run = select(runs.c.name).join(drops, drops.c.run_id == runs.c.id).where(drops.c.id == last)
    return MissingRecords(connection.scalar(run) or "", count, tuple(key for key, _ in found))

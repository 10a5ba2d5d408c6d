"""Which files came when, and which records of the last version of a file are missing from the new one. Reads only.

Owns: the statements about both. A file came when it was last changed, unless that is before the look that did not find it yet: then it came
when it was found, because some programs keep an older time. Fix files are no arrivals: nobody waits for them. The last version of a file is
the latest earlier drop with the same mapping and file names; a drop that shares less than half of its keys is another file.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from loadsheet import exit_codes
from loadsheet.ledger.exceptions import chunks
from loadsheet.ledger.schema import drops, entries, files, mappings, runs
from loadsheet.ledger.states import Drop

ALLOWANCE = timedelta(minutes=15)
"""So much earlier than the look before a file may say it came and be believed: it may have been young then, or held open."""


class Arrival(NamedTuple):
    """A file that came: its name in the inbox, when (aware, UTC), the run that took it, the mapping and role it was read with (both
    empty if it was set aside), and how many records its drop gave; `number` is that of the drop.
    """

    name: str
    came: datetime
    run: str
    mapping: str
    role: str
    records: int
    number: int

    @property
    def set_aside(self) -> bool:
        """Whether it could not be used: it came all the same."""
        return not self.mapping


def arrivals(connection: Connection, since: str, *, counted: bool) -> list[Arrival]:
    """The files of the runs that began at `since` (ISO 8601 UTC) or later, in the order in which they came; without `counted` the numbers
    of records are all 0, which spares a long look.
    """
    recent = runs.c.started_at >= since
    times = list(connection.scalars(_LOOKS.where(recent)))
    counts = {row.drop_id: row.records for row in connection.execute(_COUNTS.where(recent))} if counted else {}
    found = [
        Arrival(
            row.name,
            _came(row.arrived, row.started_at, times),
            row.run,
            row.mapping or "",
            row.role if row.mapping else "",
            counts.get(row.drop_id, 0),
            row.drop_id,
        )
        for row in connection.execute(_ARRIVALS.where(recent))
    ]
    return sorted(found, key=lambda one: (one.came, one.name))


def looks(connection: Connection) -> tuple[str, str]:
    """When the first and the last of the runs that were finished began (ISO 8601 UTC); both empty if there was none."""
    row = connection.execute(_FIRST_AND_LAST).one()
    return row[0] or "", row[1] or ""


def begun_before(connection: Connection, when: str) -> str:
    """When the last run before this moment began (ISO 8601 UTC both); empty if there was none."""
    return connection.scalar(select(func.max(runs.c.started_at)).where(runs.c.started_at < when)) or ""


def _came(arrived: str, taken: str, looked: list[str]) -> datetime:
    said, taken_at = _moment(arrived), _moment(taken)
    before = bisect_left(looked, taken)
    if before and said < _moment(looked[before - 1]) - ALLOWANCE:
        return taken_at
    return min(said, taken_at)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_LOOKS = select(runs.c.started_at).where(runs.c.exit_code.in_(exit_codes.WORK_DONE)).order_by(runs.c.id)
_FIRST_AND_LAST = select(func.min(runs.c.started_at), func.max(runs.c.started_at)).where(runs.c.finished_at != "")
_ARRIVALS = (
    select(
        files.c.name,
        files.c.arrived,
        files.c.role,
        files.c.drop_id,
        runs.c.started_at,
        runs.c.name.label("run"),
        mappings.c.name.label("mapping"),
    )
    .join(drops, drops.c.id == files.c.drop_id)
    .join(runs, runs.c.id == drops.c.run_id)
    .outerjoin(mappings, mappings.c.hash == drops.c.mapping_hash)
    .where(drops.c.fixes.is_(None))
)
_COUNTS = (
    select(entries.c.drop_id, func.count().label("records"))
    .join(drops, drops.c.id == entries.c.drop_id)
    .join(runs, runs.c.id == drops.c.run_id)
    .group_by(entries.c.drop_id)
)


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

"""Arrivals: which files came when, as the ledger knows it, for those who wait for some.

Owns: the statements about that, and when a file came. A file says itself when it was last changed, which is when it was dropped unless
its sender's program kept an older time. A time before the look that did not find it yet cannot be: such a file came when it was found.
Fix files are no arrivals: nobody waits for them.
"""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from loadsheet import exit_codes
from loadsheet.ledger.schema import drops, entries, files, mappings, runs

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

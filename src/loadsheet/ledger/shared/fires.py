"""Fired schedules, for all machines: the first process to record a due time runs it.

Owns: that each due time fires once on any number of machines, up to which time a schedule is done, and whether any machine still
has it. Does not know when a schedule is due.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from loadsheet.ledger import clock
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.shared.schema import fires, shared_meta

KEPT_DAYS = 400
"""Days for which fired runs are kept, so that a yearly schedule still shows its last run."""

GONE = timedelta(hours=1)
"""A schedule counts as removed if no machine had it for this long while its shipper was served. Machines with different settings
do not remove each other's schedules.
"""

_DONE = "schedule"  # prefix of names: the time up to which a schedule is done
_LOOKED = (
    "looked"  # prefix of names: when a machine last had a schedule or (without a schedule name) served the shipper
)
_LOOKED_EVERY = timedelta(minutes=5)


class ScheduleKey(NamedTuple):
    """A schedule: the name of its shipper (empty: the only one) and its own name."""

    shipper: str
    schedule: str


class DueMoment(NamedTuple):
    """A due time, the time up to which the schedule was done (both aware), and the number of missed runs it catches up."""

    due: datetime
    after: datetime
    caught_up: int = 0


class Fire(NamedTuple):
    """A fired run: when it was due, when and by whom it was recorded (aware, UTC), and the missed runs it catches up."""

    due: datetime
    at: datetime
    by: str
    caught_up: int


def done_until(connection: Connection) -> Mapping[ScheduleKey, datetime]:
    """The time (aware, UTC) up to which each schedule is done. Before that time nothing was missed."""
    return _moments(connection, _DONE)


def record_schedules(connection: Connection, served: Mapping[str, Collection[str]], now: datetime) -> None:
    """Record that this machine has these schedules, by shipper. Forget the schedules of the same shippers that no machine has
    any more: if one comes back, it has missed nothing.
    """
    looked = _moments(connection, _LOOKED)
    ours = {ScheduleKey(shipper, name) for shipper, names in served.items() for name in ("", *names)}
    new = {schedule_key for schedule_key in done_until(connection) if schedule_key.shipper in served} - looked.keys()
    stale = {
        schedule_key
        for schedule_key in ours
        if schedule_key not in looked or now - looked[schedule_key] > _LOOKED_EVERY
    }
    for schedule_key in sorted(stale | new):
        noted = insert(shared_meta).values(name=_named(schedule_key, _LOOKED), value=stamp(now))
        connection.execute(noted.on_conflict_do_update(index_elements=[shared_meta.c.name], set_={"value": stamp(now)}))
    tended = {shipper: looked.get(ScheduleKey(shipper, "")) for shipper in served}
    for schedule_key in sorted(looked.keys() - ours):
        last = tended.get(schedule_key.shipper)
        if last is not None and last - looked[schedule_key] > GONE:
            names = [_named(schedule_key), _named(schedule_key, _LOOKED)]
            connection.execute(delete(shared_meta).where(shared_meta.c.name.in_(names)))


def begin(connection: Connection, schedule_key: ScheduleKey, since: datetime) -> None:
    """Begin a schedule at this time (aware). Earlier runs do not count as missed."""
    connection.execute(
        insert(shared_meta).values(name=_named(schedule_key), value=stamp(since)).on_conflict_do_nothing()
    )


def fire(connection: Connection, schedule_key: ScheduleKey, moment: DueMoment, by: str) -> bool:
    """Record that a schedule fires. Returns whether this process was the first. A slower process gets False, even if it saw
    another due time.
    """
    same = shared_meta.c.name == _named(schedule_key)
    if connection.scalar(select(shared_meta.c.value).where(same).with_for_update()) != stamp(moment.after):
        return False
    values = {"shipper": schedule_key.shipper, "schedule": schedule_key.schedule, "due": stamp(moment.due)}
    recorded = insert(fires).values(**values, at=clock.now(connection), by=by, caught_up=moment.caught_up)
    if not connection.execute(recorded.on_conflict_do_nothing()).rowcount:
        return False
    connection.execute(update(shared_meta).where(same).values(value=stamp(moment.due)))
    return True


def last(connection: Connection) -> Mapping[ScheduleKey, Fire]:
    """The last fired run of each schedule."""
    newest = select(fires.c.shipper, fires.c.schedule, func.max(fires.c.due).label("due")).group_by(
        fires.c.shipper, fires.c.schedule
    )
    latest = newest.subquery()
    same = (
        (fires.c.shipper == latest.c.shipper) & (fires.c.schedule == latest.c.schedule) & (fires.c.due == latest.c.due)
    )
    rows = connection.execute(select(fires).join(latest, same))
    return {ScheduleKey(row.shipper, row.schedule): _fire(row.due, row.at, row.by, row.caught_up) for row in rows}


def forget(connection: Connection, days: int = KEPT_DAYS) -> int:
    """Delete fired runs older than `days` days and return their number. The times up to which schedules are done stay."""
    before = clock.now(connection) - days * 86_400
    return connection.execute(delete(fires).where(fires.c.at < before)).rowcount


def _moments(connection: Connection, sort: str) -> dict[ScheduleKey, datetime]:
    rows = connection.execute(
        select(shared_meta.c.name, shared_meta.c.value).where(shared_meta.c.name.startswith(f"{sort} "))
    )
    return {ScheduleKey(*row.name.split(" ", 2)[1:]): datetime.fromisoformat(row.value).astimezone(UTC) for row in rows}


def _named(schedule_key: ScheduleKey, sort: str = _DONE) -> str:
    return f"{sort} {schedule_key.shipper} {schedule_key.schedule}"


def _fire(due: str, at: float, by: str, caught_up: int) -> Fire:
    return Fire(datetime.fromisoformat(due).astimezone(UTC), clock.moment(at), by, caught_up)

"""Schedules that fired, for all machines together: the process that records a moment first runs it.

Owns: that a moment fires once however many machines look, up to which moment all of a schedule is done, and whether anybody has it still.
Knows nothing of when a schedule is due.
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
"""So long it is kept who ran what: a schedule of once a year still shows its last run."""

GONE = timedelta(hours=1)
"""A schedule that nobody had for so long, while its shipper was looked after, was taken away. Machines whose settings differ for a while, or
for ever, take nothing from each other.
"""

_DONE = "schedule"  # begins the names of the moments up to which all is done
_LOOKED = "looked"  # begins the names of moments at which a machine had a schedule, or (one without a name) served the shipper
_LOOKED_EVERY = timedelta(minutes=5)


class ScheduleKey(NamedTuple):
    """A schedule, by the name of its shipper (empty: the only one) and its own."""

    shipper: str
    schedule: str


class DueMoment(NamedTuple):
    """A moment at which a schedule is due, the moment up to which all was done (aware both), and how many missed moments it stands for."""

    due: datetime
    after: datetime
    caught_up: int = 0


class Fire(NamedTuple):
    """A moment that fired: when it was due and when it was recorded (aware, UTC), by whom, and how many missed ones it stands for as well."""

    due: datetime
    at: datetime
    by: str
    caught_up: int


def done_until(connection: Connection) -> Mapping[ScheduleKey, datetime]:
    """Up to which moment (aware, UTC) all of each schedule is done, or nobody waited for it yet."""
    return _moments(connection, _DONE)


def record_schedules(connection: Connection, served: Mapping[str, Collection[str]], now: datetime) -> None:
    """Record that this machine has these schedules, by shipper, and forget up to when those of the same shippers are done that no machine has
    any more: one that comes back has missed nothing.
    """
    looked = _moments(connection, _LOOKED)
    mine = {ScheduleKey(shipper, name) for shipper, names in served.items() for name in ("", *names)}
    new = {known for known in done_until(connection) if known.shipper in served} - looked.keys()
    stale = {known for known in mine if known not in looked or now - looked[known] > _LOOKED_EVERY}
    for known in sorted(stale | new):
        noted = insert(shared_meta).values(name=_named(known, _LOOKED), value=stamp(now))
        connection.execute(noted.on_conflict_do_update(index_elements=[shared_meta.c.name], set_={"value": stamp(now)}))
    tended = {shipper: looked.get(ScheduleKey(shipper, "")) for shipper in served}
    for known in sorted(looked.keys() - mine):
        last = tended.get(known.shipper)
        if last is not None and last - looked[known] > GONE:
            names = [_named(known), _named(known, _LOOKED)]
            connection.execute(delete(shared_meta).where(shared_meta.c.name.in_(names)))


def begin(connection: Connection, known: ScheduleKey, since: datetime) -> None:
    """Wait for a schedule from this moment (aware) on: what it would have been before was not missed."""
    connection.execute(insert(shared_meta).values(name=_named(known), value=stamp(since)).on_conflict_do_nothing())


def fire(connection: Connection, known: ScheduleKey, moment: DueMoment, by: str) -> bool:
    """Record that a schedule fires. Whether it was the first to do so: who was slower finds nothing left, also where he looked at another
    moment.
    """
    same = shared_meta.c.name == _named(known)
    if connection.scalar(select(shared_meta.c.value).where(same).with_for_update()) != stamp(moment.after):
        return False
    values = {"shipper": known.shipper, "schedule": known.schedule, "due": stamp(moment.due)}
    recorded = insert(fires).values(**values, at=clock.now(connection), by=by, caught_up=moment.caught_up)
    if not connection.execute(recorded.on_conflict_do_nothing()).rowcount:
        return False
    connection.execute(update(shared_meta).where(same).values(value=stamp(moment.due)))
    return True


def last(connection: Connection) -> Mapping[ScheduleKey, Fire]:
    """The last moment of each schedule that fired."""
    newest = select(fires.c.shipper, fires.c.schedule, func.max(fires.c.due).label("due")).group_by(
        fires.c.shipper, fires.c.schedule
    )
    latest = newest.subquery()
    same = (
        (fires.c.shipper == latest.c.shipper) & (fires.c.schedule == latest.c.schedule) & (fires.c.due == latest.c.due)
    )
    found = connection.execute(select(fires).join(latest, same))
    return {ScheduleKey(row.shipper, row.schedule): _fire(row.due, row.at, row.by, row.caught_up) for row in found}


def forget(connection: Connection, days: int = KEPT_DAYS) -> int:
    """Remove moments older than `days` days; returns how many. Up to when all is done stays known."""
    before = clock.now(connection) - days * 86_400
    return connection.execute(delete(fires).where(fires.c.at < before)).rowcount


def _moments(connection: Connection, sort: str) -> dict[ScheduleKey, datetime]:
    found = connection.execute(
        select(shared_meta.c.name, shared_meta.c.value).where(shared_meta.c.name.startswith(f"{sort} "))
    )
    return {
        ScheduleKey(*row.name.split(" ", 2)[1:]): datetime.fromisoformat(row.value).astimezone(UTC) for row in found
    }


def _named(known: ScheduleKey, sort: str = _DONE) -> str:
    return f"{sort} {known.shipper} {known.schedule}"


def _fire(due: str, at: float, by: str, caught_up: int) -> Fire:
    return Fire(datetime.fromisoformat(due).astimezone(UTC), clock.moment(at), by, caught_up)

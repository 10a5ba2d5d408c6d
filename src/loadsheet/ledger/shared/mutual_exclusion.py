"""What only one process of several machines gets: inbox objects, which cannot be renamed, due runs of schedules, and notices.

Owns: that one process gets a version of an object, and when a holder counts as dead: no heartbeat for `takeover_s`, by the database's
clock. Deleting the row ends a claim: the object is then in the archive or still in the inbox. Also owns that one machine at a time
sends notices. That is a session lock, so writes under it are durable at once. A process that lost its connection lost the lock and
cannot write. Also owns that each due time of a schedule fires once, up to which time a schedule is done, and whether any machine
still has it. Does not know when a schedule is due.
"""

import os
import secrets
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Double, Engine, cast, delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from loadsheet.errors import LedgerError, LedgerGone
from loadsheet.ledger.codec import stamp, utc_from_seconds
from loadsheet.ledger.ledger_tables import DATABASE_TIME, claims, database_time, fires, notices, shared_meta
from loadsheet.ledger.postgres import address_of, heartbeat, shared_engine

_PAUSE_S = 0.1
_NOW = cast(DATABASE_TIME, Double)


class SharedClaims:
    """The claims of one process for one shipper. Build one with `held_claims`."""

    def __init__(self, engine: Engine, shipper: str, holder: str, takeover_s: float) -> None:
        self._engine, self._shipper, self._holder, self._takeover_s = engine, shipper, holder, takeover_s

    def take(self, place: str, name: str, version: str, run: str) -> bool:
        """Claim a version. False if another live process holds it."""
        values = {"shipper": self._shipper, "place": place, "name": name, "version": version}
        mine = {"run": run, "holder": self._holder, "at": _NOW}
        free = or_(claims.c.holder == self._holder, claims.c.at < _NOW - self._takeover_s)
        taking = insert(claims).values(**values, **mine)
        keys = ("place", "name", "version")
        taking = taking.on_conflict_do_update(index_elements=keys, set_=mine, where=free)
        with self._engine.begin() as connection:
            return connection.execute(taking.returning(claims.c.id)).first() is not None

    def holds(self, place: str, name: str, version: str) -> bool:
        """Whether the claim is still ours. If so, this renews it."""
        mine = update(claims).where(*_of(place, name, version), claims.c.holder == self._holder)
        with self._engine.begin() as connection:
            return connection.execute(mine.values(at=_NOW)).rowcount == 1

    def release(self, place: str, name: str, version: str) -> None:
        """Give up one of our claims."""
        with self._engine.begin() as connection:
            connection.execute(delete(claims).where(*_of(place, name, version), claims.c.holder == self._holder))

    def drop_others(self, place: str) -> None:
        """Delete the claims of others in a place of this shipper. Only the holder of the ledger's tenure may plan, so those
        claims are useless.
        """
        theirs = (claims.c.shipper == self._shipper, claims.c.place == place, claims.c.holder != self._holder)
        with self._engine.begin() as connection:
            connection.execute(delete(claims).where(*theirs))

    def release_all(self) -> None:
        """Give up all our claims."""
        with self._engine.begin() as connection:
            connection.execute(delete(claims).where(claims.c.holder == self._holder))

    def renew(self) -> None:
        """Record a heartbeat for all our claims."""
        with self._engine.begin() as connection:
            connection.execute(update(claims).where(claims.c.holder == self._holder).values(at=_NOW))


@contextmanager
def held_claims(url: str, takeover_s: float) -> Iterator[SharedClaims]:
    """Claims in the shared tables of the ledger at a PostgreSQL URL, renewed for the `with` block. Raises LedgerError."""
    address = address_of(url)
    engine, shipper = shared_engine(address), address.shipper
    holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
    mine = SharedClaims(engine, shipper, holder, takeover_s)
    try:
        with heartbeat("claims", mine.renew, takeover_s):
            yield mine
    finally:
        with suppress(LedgerError):  # they expire by themselves
            mine.release_all()
        engine.dispose()


def _of(place: str, name: str, version: str) -> tuple[ColumnElement[bool], ...]:
    return claims.c.place == place, claims.c.name == name, claims.c.version == version


class NoticeMemory:
    """The stored notice state of one shipper, while this process holds the lock."""

    def __init__(self, connection: Connection, shipper: str, session: int) -> None:
        self._connection, self._shipper, self._session = connection, shipper, session

    def read(self) -> str:
        """The stored state. Empty if there is none."""
        with self._connection.begin():
            self._check()
            return self._connection.scalar(select(notices.c.memory).where(notices.c.shipper == self._shipper)) or ""

    def write(self, memory: str) -> None:
        """Replace the stored state, durably. Raises LedgerError."""
        statement = insert(notices).values(shipper=self._shipper, memory=memory)
        with self._connection.begin():
            self._check()
            self._connection.execute(
                statement.on_conflict_do_update(index_elements=["shipper"], set_={"memory": memory})
            )

    def _check(self) -> None:
        # The library replaces a broken connection, but the lock ended with the old one.
        if self._connection.scalar(_SESSION) != self._session:
            raise LedgerGone("the connection was lost, and its lock with it")


@contextmanager
def held_notices(engine: Engine, shipper: str, patience_s: float) -> Iterator[NoticeMemory | None]:
    """The notice memory of a shipper (empty: the only one), for one process at a time. None if another process still holds it
    after `patience_s` seconds. Raises LedgerError.
    """
    with engine.connect() as connection:
        session = _lock(connection, shipper, patience_s)
        if session is None:
            yield None
            return
        try:
            yield NoticeMemory(connection, shipper, session)
        finally:
            with suppress(LedgerError), connection.begin():  # a lost connection releases the lock as well
                connection.execute(_UNLOCK, {"shipper": shipper})


def _lock(connection: Connection, shipper: str, patience_s: float) -> int | None:
    """Take the lock and return the session id. None if another session still holds it after `patience_s` seconds."""
    deadline = time.monotonic() + patience_s
    while True:
        with connection.begin():
            if connection.scalar(_LOCK, {"shipper": shipper}):
                return int(connection.scalar(_SESSION) or 0)
        if time.monotonic() >= deadline:
            return None
        time.sleep(_PAUSE_S)


_KEY = "hashtextextended(current_schema() || ' notices ' || :shipper, 0)"
_LOCK = text(f"select pg_try_advisory_lock({_KEY})")
_UNLOCK = text(f"select pg_advisory_unlock({_KEY})")
_SESSION = text("select pg_backend_pid()")


# due runs of schedules

KEPT_DAYS = 400
"""Days for which fired runs are kept, so that a yearly schedule still shows its last run."""

GONE = timedelta(hours=1)
"""A schedule counts as removed if no machine had it for this long while its shipper was served. Machines with different settings
do not remove each other's schedules.
"""

_DONE = "schedule"  # prefix of names: the time up to which a schedule is done
# prefix of names: when a machine last had a schedule or (without a schedule name) served the shipper
_LAST_SEEN = "looked"
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


class ScheduledStart(NamedTuple):
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
    looked = _moments(connection, _LAST_SEEN)
    ours = {ScheduleKey(shipper, name) for shipper, names in served.items() for name in ("", *names)}
    new = {schedule_key for schedule_key in done_until(connection) if schedule_key.shipper in served} - looked.keys()
    stale = {
        schedule_key
        for schedule_key in ours
        if schedule_key not in looked or now - looked[schedule_key] > _LOOKED_EVERY
    }
    for schedule_key in sorted(stale | new):
        noted = insert(shared_meta).values(name=_named(schedule_key, _LAST_SEEN), value=stamp(now))
        connection.execute(noted.on_conflict_do_update(index_elements=[shared_meta.c.name], set_={"value": stamp(now)}))
    tended = {shipper: looked.get(ScheduleKey(shipper, "")) for shipper in served}
    for schedule_key in sorted(looked.keys() - ours):
        last = tended.get(schedule_key.shipper)
        if last is not None and last - looked[schedule_key] > GONE:
            names = [_named(schedule_key), _named(schedule_key, _LAST_SEEN)]
            connection.execute(delete(shared_meta).where(shared_meta.c.name.in_(names)))


def begin_schedule(connection: Connection, schedule_key: ScheduleKey, since: datetime) -> None:
    """Begin a schedule at this time (aware). Earlier runs do not count as missed."""
    connection.execute(
        insert(shared_meta).values(name=_named(schedule_key), value=stamp(since)).on_conflict_do_nothing()
    )


def record_firing(connection: Connection, schedule_key: ScheduleKey, moment: DueMoment, by: str) -> bool:
    """Record that a schedule fires. Returns whether this process was the first. A slower process gets False, even if it saw
    another due time.
    """
    same = shared_meta.c.name == _named(schedule_key)
    if connection.scalar(select(shared_meta.c.value).where(same).with_for_update()) != stamp(moment.after):
        return False
    values = {"shipper": schedule_key.shipper, "schedule": schedule_key.schedule, "due": stamp(moment.due)}
    recorded = insert(fires).values(**values, at=database_time(connection), by=by, caught_up=moment.caught_up)
    if not connection.execute(recorded.on_conflict_do_nothing()).rowcount:
        return False
    connection.execute(update(shared_meta).where(same).values(value=stamp(moment.due)))
    return True


def last_starts(connection: Connection) -> Mapping[ScheduleKey, ScheduledStart]:
    """The last fired run of each schedule."""
    newest = select(fires.c.shipper, fires.c.schedule, func.max(fires.c.due).label("due")).group_by(
        fires.c.shipper, fires.c.schedule
    )
    latest = newest.subquery()
    same = (
        (fires.c.shipper == latest.c.shipper) & (fires.c.schedule == latest.c.schedule) & (fires.c.due == latest.c.due)
    )
    rows = connection.execute(select(fires).join(latest, same))
    return {
        ScheduleKey(row.shipper, row.schedule): ScheduledStart(
            _parsed(row.due), utc_from_seconds(row.at), row.by, row.caught_up
        )
        for row in rows
    }


def delete_old_starts(connection: Connection) -> int:
    """Delete fired runs older than `KEPT_DAYS` days and return their number. The times up to which schedules are done stay."""
    before = database_time(connection) - KEPT_DAYS * 86_400
    return connection.execute(delete(fires).where(fires.c.at < before)).rowcount


def _moments(connection: Connection, sort: str) -> dict[ScheduleKey, datetime]:
    rows = connection.execute(
        select(shared_meta.c.name, shared_meta.c.value).where(shared_meta.c.name.startswith(f"{sort} "))
    )
    return {ScheduleKey(*row.name.split(" ", 2)[1:]): _parsed(row.value) for row in rows}


def _named(schedule_key: ScheduleKey, sort: str = _DONE) -> str:
    return f"{sort} {schedule_key.shipper} {schedule_key.schedule}"


def _parsed(stored: str) -> datetime:
    return datetime.fromisoformat(stored).astimezone(UTC)

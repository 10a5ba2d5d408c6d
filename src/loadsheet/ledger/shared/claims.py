"""Exclusive holds among several machines: claims on inbox objects, which cannot be renamed, and a shipper's notice memory.

Owns: that one process gets a version of an object, and when a holder counts as dead: no heartbeat for `takeover_s`, by the database's
clock. Deleting the row ends a claim: the object is then in the archive or still in the inbox. Also owns that one machine at a time
sends notices. That is a session lock, so writes under it are durable at once. A process that lost its connection lost the lock and
cannot write.
"""

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import ColumnElement, Connection, Double, Engine, cast, delete, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from loadsheet.ledger.clock import NOW
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.schema import claims, notices
from loadsheet.ledger.tenure import heartbeat
from loadsheet.problems import LedgerError, LedgerGone

_PAUSE_S = 0.1


class Claims:
    """The claims of one process for one shipper. Build one with `held_claims`."""

    def __init__(self, engine: Engine, shipper: str, holder: str, takeover_s: float) -> None:
        self._engine, self._shipper, self._holder, self._takeover_s = engine, shipper, holder, takeover_s

    def take(self, place: str, name: str, version: str, run: str) -> bool:
        """Claim a version. False if another live process holds it."""
        values = {"shipper": self._shipper, "place": place, "name": name, "version": version}
        mine = {"run": run, "holder": self._holder, "at": _now()}
        free = or_(claims.c.holder == self._holder, claims.c.at < _now() - self._takeover_s)
        taking = insert(claims).values(**values, **mine)
        keys = ("place", "name", "version")
        taking = taking.on_conflict_do_update(index_elements=keys, set_=mine, where=free)
        with self._engine.begin() as connection:
            return connection.execute(taking.returning(claims.c.id)).first() is not None

    def holds(self, place: str, name: str, version: str) -> bool:
        """Whether the claim is still ours. If so, this renews it."""
        mine = update(claims).where(*_of(place, name, version), claims.c.holder == self._holder)
        with self._engine.begin() as connection:
            return connection.execute(mine.values(at=_now())).rowcount == 1

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
            connection.execute(update(claims).where(claims.c.holder == self._holder).values(at=_now()))


@contextmanager
def held_claims(url: str, takeover_s: float) -> Iterator[Claims]:
    """Claims in the shared tables of the ledger at a PostgreSQL URL, renewed for the `with` block. Raises LedgerError."""
    address = address_of(url)
    engine, shipper = shared_engine(address), address.shipper
    holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
    mine = Claims(engine, shipper, holder, takeover_s)
    try:
        with heartbeat("claims", mine.renew, takeover_s):
            yield mine
    finally:
        with suppress(LedgerError):  # they expire by themselves
            mine.release_all()
        engine.dispose()


def _of(place: str, name: str, version: str) -> tuple[ColumnElement[bool], ...]:
    return claims.c.place == place, claims.c.name == name, claims.c.version == version


def _now() -> ColumnElement[float]:
    return cast(NOW, Double)


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

"""What one of several machines holds: claims on objects of inboxes, which cannot be renamed, and the memory of a shipper's notices.

Owns: that of all who want a version of an object one gets it, and when its holder is taken for dead: not heard of for `takeover_s`, by the
database's clock. A claim ends when its row goes: the object is then in the archive, or lies where it lay. And that one machine sends notices at a
time (a lock of the session, so that what is remembered is durable at once while it is held), and that who lost the lock with its connection
remembers nothing more.
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
        """Claim a version; False if another live process has it."""
        values = {"shipper": self._shipper, "place": place, "name": name, "version": version}
        mine = {"run": run, "holder": self._holder, "at": _now()}
        free = or_(claims.c.holder == self._holder, claims.c.at < _now() - self._takeover_s)
        taking = insert(claims).values(**values, **mine)
        keys = ("place", "name", "version")
        taking = taking.on_conflict_do_update(index_elements=keys, set_=mine, where=free)
        with self._engine.begin() as connection:
            return connection.execute(taking.returning(claims.c.id)).first() is not None

    def holds(self, place: str, name: str, version: str) -> bool:
        """Whether the claim is still ours; if it is, it will be for the next while."""
        mine = update(claims).where(*_of(place, name, version), claims.c.holder == self._holder)
        with self._engine.begin() as connection:
            return connection.execute(mine.values(at=_now())).rowcount == 1

    def release(self, place: str, name: str, version: str) -> None:
        """Give up a claim of ours."""
        with self._engine.begin() as connection:
            connection.execute(delete(claims).where(*_of(place, name, version), claims.c.holder == self._holder))

    def drop_others(self, place: str) -> None:
        """Drop the claims that others have in a place of this shipper: only the holder of the tenure of the ledger may
        plan, so theirs cannot be used any more.
        """
        theirs = (claims.c.shipper == self._shipper, claims.c.place == place, claims.c.holder != self._holder)
        with self._engine.begin() as connection:
            connection.execute(delete(claims).where(*theirs))

    def release_all(self) -> None:
        """Give up all claims of ours."""
        with self._engine.begin() as connection:
            connection.execute(delete(claims).where(claims.c.holder == self._holder))

    def renew(self) -> None:
        """Record that the holder is alive."""
        with self._engine.begin() as connection:
            connection.execute(update(claims).where(claims.c.holder == self._holder).values(at=_now()))


@contextmanager
def held_claims(url: str, takeover_s: float) -> Iterator[Claims]:
    """Claims in what the ledger at a PostgreSQL URL shares with others, kept alive while the `with` block lasts. Raises LedgerError."""
    address = address_of(url)
    engine, shipper = shared_engine(address), address.shipper
    holder = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
    mine = Claims(engine, shipper, holder, takeover_s)
    try:
        with heartbeat("claims", mine.renew, takeover_s):
            yield mine
    finally:
        with suppress(LedgerError):  # then they run out by themselves
            mine.release_all()
        engine.dispose()


def _of(place: str, name: str, version: str) -> tuple[ColumnElement[bool], ...]:
    return claims.c.place == place, claims.c.name == name, claims.c.version == version


def _now() -> ColumnElement[float]:
    return cast(NOW, Double)


class NoticeMemory:
    """The memory of one shipper, while it is held."""

    def __init__(self, connection: Connection, shipper: str, session: int) -> None:
        self._connection, self._shipper, self._session = connection, shipper, session

    def read(self) -> str:
        """What is remembered; empty if nothing is."""
        with self._connection.begin():
            self._check()
            return self._connection.scalar(select(notices.c.memory).where(notices.c.shipper == self._shipper)) or ""

    def write(self, memory: str) -> None:
        """Remember this instead, durably. Raises LedgerError."""
        statement = insert(notices).values(shipper=self._shipper, memory=memory)
        with self._connection.begin():
            self._check()
            self._connection.execute(
                statement.on_conflict_do_update(index_elements=["shipper"], set_={"memory": memory})
            )

    def _check(self) -> None:
        # A connection that broke is made anew by the library, and the lock went with the old one.
        if self._connection.scalar(_SESSION) != self._session:
            raise LedgerGone("the connection was lost, and what was held with it")


@contextmanager
def held_notices(engine: Engine, shipper: str, patience_s: float) -> Iterator[NoticeMemory | None]:
    """The memory of a shipper (empty: the only one), for one process at a time; None if another one has held it for so long. Raises
    LedgerError.
    """
    with engine.connect() as connection:
        session = _lock(connection, shipper, patience_s)
        if session is None:
            yield None
            return
        try:
            yield NoticeMemory(connection, shipper, session)
        finally:
            with suppress(LedgerError), connection.begin():  # then it went with the connection
                connection.execute(_UNLOCK, {"shipper": shipper})


def _lock(connection: Connection, shipper: str, patience_s: float) -> int | None:
    """Take the lock; returns the session that has it, None if it is another one for so long."""
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

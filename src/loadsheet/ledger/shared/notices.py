"""The memory of notices where several machines share it: a text for each shipper, held by one process at a time.

Owns: that only one tells at a time (a lock of the session, so that what is remembered is durable at once while it is held), and that who
lost the lock with its connection remembers nothing more.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.dialects.postgresql import insert

from loadsheet.ledger.shared.schema import notices
from loadsheet.problems import LedgerError, LedgerGone

_PAUSE_S = 0.1


class Row:
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
def held(engine: Engine, shipper: str, patience_s: float) -> Iterator[Row | None]:
    """The memory of a shipper (empty: the only one), for one process at a time; None if another one has held it for so long. Raises
    LedgerError.
    """
    with engine.connect() as connection:
        session = _lock(connection, shipper, patience_s)
        if session is None:
            yield None
            return
        try:
            yield Row(connection, shipper, session)
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

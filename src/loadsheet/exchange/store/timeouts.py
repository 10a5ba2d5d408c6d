"""A connection to PostgreSQL that does not wait for ever for a server that says nothing and does not close.

Owns: the time that one answer of the server may take. Imported only where PostgreSQL is used.
"""

from typing import TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

_Result = TypeVar("_Result")
_LOOK_UP_S = 0.1  # so often a waiting thread sees whether it was interrupted; psycopg's own value


class Patience(psycopg.Connection[tuple[object, ...]]):
    """A connection whose every wait ends after `answer_s` seconds (None: never) with an OperationalError; then it is closed.

    Neither TCP nor the server's own timeouts notice a server behind a firewall that has forgotten the connection, or behind a
    proxy that stands still: bytes are taken, and none come.
    """

    answer_s: float | None = None

    def wait(self, gen: PQGen[_Result], interval: float = _LOOK_UP_S, timeout: float | None = None) -> _Result:
        """As psycopg waits, but no longer than `answer_s` where it gives no time of its own."""
        try:
            return super().wait(gen, interval, self.answer_s if timeout is None else timeout)
        except psycopg.OperationalError as error:
            # A server that refuses a statement leaves the connection in error; one that is silent leaves it active.
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server has not answered within {self.answer_s:g} s") from error

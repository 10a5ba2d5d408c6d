"""The clock of the ledger: this machine's in UTC, or, where several machines share a ledger, the server's.

Owns: which clock moments are taken from. Machines' clocks differ; how long an outcome has been unknown must not depend on who looks.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, extract, func, select

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The present moment, aware, in UTC: the clock of every run outside tests."""
    return datetime.now(UTC)


def of_server(clock: Clock, connection: Connection) -> Clock:
    """This machine's clock, set by that of the server at the other end of a connection; one that was given for a purpose stays."""
    if clock is not utc_now:
        return clock
    ahead = connection.scalar(select(extract("epoch", func.clock_timestamp())))
    offset = timedelta(seconds=float(ahead or 0)) - (utc_now() - datetime(1970, 1, 1, tzinfo=UTC))
    return lambda: utc_now() + offset

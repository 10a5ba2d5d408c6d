"""Clocks: this machine's in UTC, and the database's own, for everything that several machines must agree on."""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

Clock = Callable[[], datetime]

NOW = func.extract("epoch", func.clock_timestamp())
"""The database's present time as an expression, in seconds since 1970; it advances within a transaction."""


def utc_now() -> datetime:
    """The present time, aware, in UTC: the clock of every run outside tests."""
    return datetime.now(UTC)


def now(connection: Connection) -> float:
    """The database's present time, in seconds since 1970."""
    return float(connection.scalar(select(NOW)) or 0.0)


def moment(seconds: float) -> datetime:
    """A time of the database's clock, aware, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)

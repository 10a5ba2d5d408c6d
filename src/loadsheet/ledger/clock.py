"""Clocks: this machine's clock in UTC, and the database's clock for times that several machines must agree on."""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

Clock = Callable[[], datetime]

NOW = func.extract("epoch", func.clock_timestamp())
"""The database's current time as an SQL expression, in seconds since 1970. It advances within a transaction."""


def utc_now() -> datetime:
    """The current time, aware, in UTC. Every run outside tests uses this clock."""
    return datetime.now(UTC)


def now(connection: Connection) -> float:
    """The database's current time, in seconds since 1970."""
    return float(connection.scalar(select(NOW)) or 0.0)


def moment(seconds: float) -> datetime:
    """A time of the database's clock as an aware datetime in UTC."""
    return datetime.fromtimestamp(seconds, UTC)

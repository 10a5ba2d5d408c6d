"""The database's own clock, by which everything goes that several machines have to agree on."""

from datetime import UTC, datetime

from sqlalchemy import Connection, func, select

NOW = func.extract("epoch", func.clock_timestamp())
"""The present moment as an expression, in seconds since 1970; it goes on within a transaction."""


def now(connection: Connection) -> float:
    """The present moment, in seconds since 1970."""
    return float(connection.scalar(select(NOW)) or 0.0)


def moment(seconds: float) -> datetime:
    """A moment of this clock, aware, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)

"""The statements that keep the sessions of the page, so that every process on one database knows them.

Owns: how a row becomes an `OpenSession`. Of the cookie only the hash is here, of the token only its mark (see `tokens`).
"""

from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from loadsheet.exchange.store.schema import SESSIONS

SESSIONS_MAX = 1000  # with one more the one that ends first goes


class OpenSession(NamedTuple):
    """A session as it is kept: hash of its cookie, mark of its token, proof of its forms, end (seconds since 1970, UTC)."""

    name: str
    mark: str
    form: str
    ends: int


def find(connection: Connection, name: str) -> OpenSession | None:
    """The session of this name, also if its time is over."""
    row = connection.execute(select(SESSIONS).where(SESSIONS.c.name == name)).one_or_none()
    return None if row is None else OpenSession(*row)


def add(connection: Connection, session: OpenSession, now: int) -> None:
    """Keep a session; those that are over by `now` go, and the one that ends first if there are too many."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.ends <= now))
    held = connection.scalar(select(func.count()).select_from(SESSIONS)) or 0
    if held >= SESSIONS_MAX:
        first = select(SESSIONS.c.name).order_by(SESSIONS.c.ends).limit(held - SESSIONS_MAX + 1)
        connection.execute(delete(SESSIONS).where(SESSIONS.c.name.in_(first)))
    connection.execute(insert(SESSIONS), session._asdict())


def remove(connection: Connection, name: str) -> None:
    """Forget a session."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.name == name))

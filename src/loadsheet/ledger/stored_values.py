"""Small values that one run stores for the next one in the table `meta`: named values, and the progress of schedules.

Owns: that a stored name never collides with the ledger's own names there. Nothing depends on such a value: the reader checks it and works
without it.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import msgspec
from sqlalchemy import Connection, Engine, insert, select, update

from loadsheet.ledger import codec
from loadsheet.ledger.schema import meta

_SCHEDULES = "schedules"


class StoredValues:
    """The named values. Made by `Ledger`; `keep` needs its lock."""

    def __init__(self, engine: Engine, writing: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._engine, self._writing = engine, writing

    def value(self, name: str) -> str:
        """The last value stored under this name; empty if there is none."""
        with self._engine.connect() as connection:
            return connection.scalar(select(meta.c.value).where(meta.c.name == _stored(name))) or ""

    def keep(self, name: str, value: str) -> None:
        """Store a value under this name, replacing the previous one."""
        with self._writing() as connection:
            if not connection.execute(update(meta).where(meta.c.name == _stored(name)).values(value=value)).rowcount:
                connection.execute(insert(meta).values(name=_stored(name), value=value))


def schedules_done(connection: Connection) -> dict[str, str]:
    """The time (ISO 8601 UTC) up to which each schedule is done, by its name."""
    return codec.decode_texts_by_name(
        connection.scalar(select(meta.c.value).where(meta.c.name == _SCHEDULES)) or codec.NOTHING
    )


def keep_schedules_done(connection: Connection, done: Mapping[str, str]) -> None:
    """Store what `schedules_done` returns."""
    value = msgspec.json.encode(dict(sorted(done.items()))).decode()
    if not connection.execute(update(meta).where(meta.c.name == _SCHEDULES).values(value=value)).rowcount:
        connection.execute(insert(meta).values(name=_SCHEDULES, value=value))


def _stored(name: str) -> str:
    return f"remembered: {name}"

"""Small values that one run leaves for the next, by name, in the ledger's own table `meta`.

Owns: that none of these names is one that the ledger itself uses there. Nothing that must be right rests on such a value: who reads it
checks it, and does without if it is missing.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine, insert, select, update

from loadsheet.ledger.schema import meta


class StoredValues:
    """The values. Made by `Ledger`, which has to be held for `keep`."""

    def __init__(self, engine: Engine, writing: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._engine, self._writing = engine, writing

    def value(self, name: str) -> str:
        """What was kept by this name last; empty if nothing was."""
        with self._engine.connect() as connection:
            return connection.scalar(select(meta.c.value).where(meta.c.name == _stored(name))) or ""

    def keep(self, name: str, value: str) -> None:
        """Keep a value by this name, in the place of the one before."""
        with self._writing() as connection:
            if not connection.execute(update(meta).where(meta.c.name == _stored(name)).values(value=value)).rowcount:
                connection.execute(insert(meta).values(name=_stored(name), value=value))


def _stored(name: str) -> str:
    return f"remembered: {name}"

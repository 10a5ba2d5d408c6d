"""Staging: documents that batches translated, kept until they are planned.

Owns: how chunks of documents lie in the ledger, and in which order they come out: by their numbers, whichever batch put them there. Knows
not what is in a chunk. What is planned is removed by the transaction that plans it, so that nothing is planned twice and nothing is left.
"""

import heapq
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from operator import itemgetter

from sqlalchemy import Connection, Engine, bindparam, delete, insert, select

from loadsheet.ledger.schema import staged

_AT_ONCE = 20  # chunks in one transaction, and in one answer of the database
_LEVEL = 1  # texts of cells shrink to a ninth even so


class Staging:
    """The verbs of staging. Made by `Ledger`."""

    def __init__(self, engine: Engine, writing: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._engine, self._writing = engine, writing

    def put(self, batch: int, chunks: Iterable[tuple[int, bytes]]) -> int:
        """Keep the chunks of a batch, each with its number, in place of all that was kept for it before; returns how many there are. The
        fence of the batch is checked again and again: who was taken over gets Superseded, and leaves nothing beside what his heir puts.
        """
        with self._writing() as connection:
            connection.execute(delete(staged).where(staged.c.batch_id == batch))
        count, stream = 0, iter(chunks)
        while some := list(islice(stream, _AT_ONCE)):
            rows = [
                {"batch_id": batch, "number": number, "documents": zlib.compress(content, _LEVEL)}
                for number, content in some
            ]
            with self._writing() as connection:
                connection.execute(insert(staged), rows)
            count += len(rows)
        return count

    def of(self, batches: Collection[int]) -> Iterator[bytes]:
        """The chunks of these batches, in the order of their numbers."""
        found = [self._of(batch) for batch in batches]
        return (zlib.decompress(content) for _, content in heapq.merge(*found, key=itemgetter(0)))

    def _of(self, batch: int) -> Iterator[tuple[int, bytes]]:
        last = -1
        while True:
            with self._engine.connect() as connection:
                rows = connection.execute(_NEXT, {"batch": batch, "last": last}).all()
            yield from ((row.number, row.documents) for row in rows)
            if len(rows) < _AT_ONCE:
                return
            last = rows[-1].number


def remove(connection: Connection, batches: Collection[int]) -> None:
    """Remove what these batches staged, within the transaction that planned it."""
    if batches:
        connection.execute(delete(staged).where(staged.c.batch_id.in_(batches)))


def remove_all(connection: Connection) -> None:
    """Remove whatever is staged, within the transaction that begins a run: it was left by one that ended before it could plan it."""
    connection.execute(delete(staged))


_NEXT = (
    select(staged.c.number, staged.c.documents)
    .where(staged.c.batch_id == bindparam("batch"), staged.c.number > bindparam("last"))
    .order_by(staged.c.number)
    .limit(_AT_ONCE)
)

"""Fences: what lets a process change a shared ledger, checked in the transaction of each change.

A batch guards what its worker records of the batch, a tenure what a run records beside that; each is taken by raising its epoch, so
that whoever had it before can record nothing more, however late he wakes up. A ledger in a file needs none: its lock dies with its holder.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, bindparam, select

from loadsheet.ledger.schema import batches, tenures
from loadsheet.ledger.statements import Asked
from loadsheet.problems import Superseded

OPEN = "open"


def _held(table: Table, *also: Any) -> Asked:
    return Asked(select(table.c.id).where(table.c.id == bindparam("one"), table.c.epoch == bindparam("epoch"), *also))


_HELD = {batches: _held(batches, batches.c.state == OPEN), tenures: _held(tenures)}


class Fence(NamedTuple):
    """A row whose epoch has to be what it was when it was taken."""

    table: Table
    id: int
    epoch: int

    def check(self, connection: Connection) -> None:
        """Raise Superseded if somebody else has taken over since, or the batch was closed. The transaction holds the ledger's lock, so that
        nobody can do so before it ends.
        """
        if not _HELD[self.table].rows(connection, one=self.id, epoch=self.epoch):
            raise Superseded(f"{self.table.name} {self.id}: another process has taken over since; nothing was recorded")


def of_batch(batch: int, epoch: int) -> Fence:
    """The fence of a worker that took a batch."""
    return Fence(batches, batch, epoch)


def of_tenure(epoch: int) -> Fence:
    """The fence of a run."""
    return Fence(tenures, 1, epoch)

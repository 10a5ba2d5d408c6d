"""The fence of a shared ledger: what lets a process change it, checked in the transaction of each change.

The tenure is taken by raising its epoch, so that whoever had it before can record nothing more, however late he wakes up. A ledger in
a file needs no fence: its lock dies with its holder.
"""

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from loadsheet.ledger.schema import tenures
from loadsheet.ledger.statements import Asked
from loadsheet.problems import Superseded


class Fence(NamedTuple):
    """The epoch that the tenure has to have still."""

    epoch: int

    def check(self, connection: Connection) -> None:
        """Raise Superseded if another process has taken over since. The transaction holds the ledger's lock, so that nobody can do so
        before it ends.
        """
        if not _HELD.rows(connection, epoch=self.epoch):
            raise Superseded("another process has taken this ledger over since; nothing was recorded")


_HELD = Asked(select(tenures.c.id).where(tenures.c.epoch == bindparam("epoch")))

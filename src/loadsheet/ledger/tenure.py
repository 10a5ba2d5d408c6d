"""The tenure of a shared ledger: the lease that allows one process at a time to change it. A heartbeat renews it.

Owns: when a holder counts as dead (its heartbeat is older than `takeover_s`, by the database's clock), and the fence. Each new holder
raises the epoch, and every change checks the epoch in its own transaction: a replaced holder can record nothing more. A wrong
takeover therefore interrupts a run but loses no record. A ledger in a file needs no fence: its lock ends with its holder.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, Engine, Text, cast, insert, select, update

from loadsheet.ledger import clock
from loadsheet.ledger.postgres import Address
from loadsheet.ledger.schema import tenures
from loadsheet.ledger.shared.schema import takeovers
from loadsheet.ledger.statements import Statement
from loadsheet.problems import LedgerBusy, LedgerError, Superseded

BEATS = 4
"""Heartbeats within `takeover_s`."""

_ROW = 1


class Fence(NamedTuple):
    """The epoch that this process holds."""

    epoch: int

    def check(self, connection: Connection) -> None:
        """Raise Superseded if another process has taken over. The transaction holds the ledger's lock: no takeover before its end."""
        if not _HELD.rows(connection, epoch=self.epoch):
            raise Superseded("another process has taken this ledger over; nothing was recorded")


@contextmanager
def held(engine: Engine, address: Address, holder: str, takeover_s: float) -> Iterator[Fence]:
    """Hold the tenure of a ledger for the `with` block. Raises LedgerBusy naming the current holder."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        fence = take(connection, address, holder, takeover_s)
    try:
        with heartbeat("tenure", partial(_renew, engine, fence), takeover_s):
            yield fence
    finally:
        with suppress(LedgerError):  # it expires by itself
            _give_back(engine, fence)


def take(connection: Connection, address: Address, holder: str, takeover_s: float) -> Fence:
    """Take the tenure in a transaction that holds the ledger's lock. Raises LedgerBusy if a live process holds it."""
    row = connection.execute(select(tenures.c.epoch, tenures.c.holder, tenures.c.since, tenures.c.seen_at)).first()
    now = _now(connection)
    if row is None:
        connection.execute(insert(tenures).values(id=_ROW, epoch=1, holder=holder, since=now, seen_at=now))
        return Fence(1)
    silent = float(now) - float(row.seen_at)
    if row.holder and silent < takeover_s:
        message = f"the ledger {address} is held by {row.holder} (last heartbeat {silent:.0f} s ago)"
        raise LedgerBusy(
            f"{message}; try again when it has finished, or {takeover_s:g} s after it died (cluster.takeover_s)"
        )
    if row.holder:
        takeover = {"shipper": address.shipper, "before": row.holder, "after": holder, "at": float(now)}
        connection.execute(insert(takeovers).values(takeover))
    values = {"epoch": row.epoch + 1, "holder": holder, "since": now, "seen_at": now}
    connection.execute(update(tenures).values(values))
    return Fence(row.epoch + 1)


@contextmanager
def heartbeat(name: str, beat: Callable[[], None], takeover_s: float) -> Iterator[None]:
    """Call `beat` from a thread named `name` for the `with` block, `BEATS` times in `takeover_s`. A LedgerError is ignored until
    the next call.
    """
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(takeover_s / BEATS):
            with suppress(LedgerError):
                beat()

    thread = threading.Thread(target=run, daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _renew(engine: Engine, fence: Fence) -> None:
    # One statement in autocommit: a process that is paused here locks no row that a successor needs.
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    with alone.connect() as connection:
        connection.execute(update(tenures).where(tenures.c.epoch == fence.epoch).values(seen_at=_NOW))


def _give_back(engine: Engine, fence: Fence) -> None:
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(update(tenures).where(tenures.c.epoch == fence.epoch).values(holder=""))


def _now(connection: Connection) -> str:
    """Seconds since 1970 by the database's clock, as text."""
    return str(connection.scalar(select(_NOW)))


_NOW = cast(clock.NOW, Text)
_HELD = Statement("select id from tenures where epoch = :epoch")

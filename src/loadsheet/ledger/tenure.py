"""The tenure of a shared ledger: one process at a time runs it. Taken, kept alive, and given back.

Owns: when somebody is taken for dead (his heartbeat is older than `takeover_s`, by the database's clock). A tenure that was taken over
cannot be used any more (see `fences`), so a wrong verdict costs its holder a run and no record.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from sqlalchemy import Connection, Engine, Text, cast, extract, func, insert, select, update

from loadsheet.ledger.fences import Fence
from loadsheet.ledger.heartbeat import beating
from loadsheet.ledger.postgres import Address
from loadsheet.ledger.schema import tenures
from loadsheet.ledger.shared.schema import takeovers
from loadsheet.problems import LedgerBusy, LedgerError

_ROW = 1


@contextmanager
def held(engine: Engine, address: Address, who: str, takeover_s: float) -> Iterator[Fence]:
    """Hold the tenure of a ledger while the `with` block lasts. Raises LedgerBusy naming its holder."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        fence = take(connection, address, who, takeover_s)
    try:
        with beating("tenure", partial(_beat, engine, fence), takeover_s):
            yield fence
    finally:
        with suppress(LedgerError):  # then it runs out by itself
            _give(engine, fence)


def take(connection: Connection, address: Address, who: str, takeover_s: float) -> Fence:
    """Take the tenure, within a transaction that holds the ledger's lock. Raises LedgerBusy if somebody alive has it."""
    found = connection.execute(select(tenures.c.epoch, tenures.c.holder, tenures.c.since, tenures.c.seen_at)).first()
    now = _now(connection)
    if found is None:
        connection.execute(insert(tenures).values(id=_ROW, epoch=1, holder=who, since=now, seen_at=now))
        return Fence(1)
    silent = float(now) - float(found.seen_at)
    if found.holder and silent < takeover_s:
        told = f"the ledger {address} is held by {found.holder}, heard of {silent:.0f} s ago"
        raise LedgerBusy(f"{told}; try again when it has finished, or {takeover_s:g} s after it died (takeover_s)")
    if found.holder:
        row = {"shipper": address.shipper, "before": found.holder, "after": who, "at": float(now)}
        connection.execute(insert(takeovers).values(row))
    values = {"epoch": found.epoch + 1, "holder": who, "since": now, "seen_at": now}
    connection.execute(update(tenures).values(values))
    return Fence(found.epoch + 1)


def _beat(engine: Engine, fence: Fence) -> None:
    # One statement by itself: whoever is stopped here keeps no row from those who want to take over.
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    with alone.connect() as connection:
        connection.execute(update(tenures).where(tenures.c.epoch == fence.epoch).values(seen_at=_NOW))


def _give(engine: Engine, fence: Fence) -> None:
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(update(tenures).where(tenures.c.epoch == fence.epoch).values(holder=""))


def _now(connection: Connection) -> str:
    """Seconds since 1970 by the database's clock, as a text."""
    return str(connection.scalar(select(_NOW)))


_NOW = cast(extract("epoch", func.clock_timestamp()), Text)

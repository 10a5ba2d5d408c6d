"""Paces and leases in the database: each change in one short transaction that holds the pace's row.

Owns: the tables `paces` and `leases`, and that everything in them goes by the database's clock. The rule stands in `leases`. A
lease is on the disk before it is used: one that a crash of the server forgot would be given to somebody else a second time.
"""

import hashlib
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, Row, bindparam, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from loadsheet.ledger import clock
from loadsheet.ledger.shared.leases import Ask, Lease, Standing, Terms, grant
from loadsheet.ledger.shared.schema import leases, paces
from loadsheet.problems import LedgerError

FORGOTTEN_S = 60.0
"""A lease that ran out so long ago is of a process that died, and is removed."""


class Figures(NamedTuple):
    """What all who send may do together: calls a second (0: no limit), and calls at the same time."""

    per_second: int
    connections: int


def pace_name(exchange: str, token: str) -> str:
    """The name of the pace of an exchange and a token: all who send with both share it. It tells neither."""
    return hashlib.sha256(f"loadsheet pace\0{exchange.rstrip('/')}\0{token}".encode()).hexdigest()[:32]


def begin(connection: Connection, name: str, exchange: str, per_second: int, connections: int) -> Figures | None:
    """Have a pace with these figures (a rate of 0: no limit), and return what they were before; of the exchange its origin is kept."""
    row = connection.execute(select(paces.c.per_second, paces.c.connections).where(paces.c.name == name)).first()
    parts = urlsplit(exchange)
    figures = {"per_second": per_second, "connections": connections}
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    made = insert(paces).values(name=name, exchange=origin, **figures)
    connection.execute(made.on_conflict_do_update(index_elements=[paces.c.name], set_=figures))
    return None if row is None else Figures(*row)


def renew(connection: Connection, name: str, worker: str, ask: Ask) -> Lease:
    """Give `worker` a lease of a pace, or another one; who asks for nothing gives his back. Raises LedgerError for a pace that never began."""
    terms, _, now = _held(connection, name)
    standings = _standings(connection, name)
    mine, short = grant(terms, standings, worker, ask, now)
    if mine.wanted or mine.charged or mine.charged_connections:
        connection.execute(_PUT, {"pace": name, **mine._asdict()})
    else:
        connection.execute(_DROP, {"pace": name, "gone": worker})
    for dead in standings:
        if dead.until < now - FORGOTTEN_S:
            connection.execute(_DROP, {"pace": name, "gone": dead.worker})
    return Lease(
        mine.number,
        mine.per_second,
        mine.connections,
        mine.until,
        mine.until - now,
        max(0.0, terms.paused_until - now),
        terms.share_at(now),
        short,
    )


def setback(connection: Connection, name: str, age_s: float, pause_s: float, reason: str) -> Terms:
    """The exchange protested against a call that left `age_s` ago, and asked for a pause: from now on that holds for all."""
    terms, said, now = _held(connection, name)
    after = terms.setback(now - age_s, pause_s, now)
    changed = {"share": after.share, "paused_until": after.paused_until, "setback_at": after.setback_at}
    if after.setback_at != terms.setback_at or not said:
        said = reason
    connection.execute(update(paces).where(paces.c.name == name).values(**changed, reason=said))
    return after


class PaceStatus(NamedTuple):
    """A pace as people look at it: what is set, what is left of it, and what is leased to how many processes."""

    name: str
    exchange: str
    per_second: int
    connections: int
    share: float
    paused_s: float
    reason: str
    leased_per_second: int
    leased_connections: int
    workers: int


def read_paces(connection: Connection) -> list[PaceStatus]:
    """All paces as they stand now, by exchange."""
    now = clock.now(connection)
    found = []
    for row in connection.execute(select(paces).order_by(paces.c.exchange, paces.c.name)):
        terms = _terms(row)
        alive = [one for one in _standings(connection, row.name) if one.until > now]
        found.append(
            PaceStatus(
                row.name,
                row.exchange,
                row.per_second,
                row.connections,
                terms.share_at(now),
                max(0.0, terms.paused_until - now),
                row.reason if terms.share_at(now) < 1 or terms.paused_until > now else "",
                sum(one.per_second for one in alive),
                sum(one.connections for one in alive),
                len(alive),
            )
        )
    return found


class SharedPace:
    """The pace of an exchange and a token as one process uses it, each change in a transaction of its own. What the server says comes as
    LedgerError, if the engine is one of `loadsheet.ledger.postgres`.
    """

    def __init__(self, engine: Engine, exchange: str, token: str, worker: str) -> None:
        self._engine, self._exchange, self._worker = engine, exchange, worker
        self.name = pace_name(exchange, token)

    def begin(self, per_second: int, connections: int) -> Figures | None:
        """Have it with these figures; returns what they were before."""
        with self._engine.begin() as connection:
            return begin(connection, self.name, self._exchange, per_second, connections)

    def renew(self, ask: Ask) -> Lease:
        """Another lease; who asks for nothing gives his back."""
        with self._engine.begin() as connection:
            return renew(connection, self.name, self._worker, ask)

    def setback(self, age_s: float, pause_s: float, reason: str) -> None:
        """The exchange protested against a call that left so long ago."""
        with self._engine.begin() as connection:
            setback(connection, self.name, age_s, pause_s, reason)


def _held(connection: Connection, name: str) -> tuple[Terms, str, float]:
    """A pace, why it was cut last, and the present moment; the row stays ours until the transaction ends."""
    row = connection.execute(_HOLD, {"name": name}).one_or_none()
    if row is None:
        raise LedgerError(f"pace {name} is not known in the shared tables; whoever sends makes it first")
    return _terms(row), row.reason, float(row.now)


def _terms(row: Row[tuple[object, ...]]) -> Terms:
    return Terms(row.per_second, row.connections, row.share, row.paused_until, row.setback_at)


def _standings(connection: Connection, name: str) -> list[Standing]:
    return [Standing(*row) for row in connection.execute(_STAND, {"pace": name})]


# The moment is read before the row is ours, if somebody else has it: a lease is then shorter by that, never longer.
_HOLD = select(paces, clock.NOW.label("now")).where(paces.c.name == bindparam("name")).with_for_update()
_STAND = select(*(leases.c[name] for name in Standing._fields)).where(leases.c.pace == bindparam("pace"))
_NEW = insert(leases).values({name: bindparam(name) for name in ("pace", *Standing._fields)})
_PUT = _NEW.on_conflict_do_update(
    index_elements=[leases.c.pace, leases.c.worker],
    set_={name: _NEW.excluded[name] for name in Standing._fields if name != "worker"},
)
_DROP = delete(leases).where((leases.c.pace == bindparam("pace")) & (leases.c.worker == bindparam("gone")))

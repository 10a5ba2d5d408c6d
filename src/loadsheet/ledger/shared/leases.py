"""The rate that all processes share, leased to each: how much of it and of the connections a process may use, for how long, and what a
complaint of the exchange changes for all. First the rule, which is pure; then the tables, where each change is one short transaction that
holds the pace's row and goes by the database's clock. A lease is on the disk before it is used: one that a crash of the server forgot would
be granted twice.

Owns: that what processes may use never adds up to more than there is. A process that is given less than it had still counts with what
it had until it asks again and says that it knows: its answer may be under way, or lost. Rates are whole calls a second, because calls
that leave at a whole, even rate are as many in every second, wherever it begins.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, Row, bindparam, select, update

from loadsheet.ledger import clock
from loadsheet.ledger.shared.schema import paces
from loadsheet.ledger.statements import Statement
from loadsheet.problems import LedgerError

TERM_S = 1.5
"""So long a lease lasts."""
UNLIMITED = 1_000_000
"""Calls a second where no limit is set."""
TURN_S = 10.0
"""Where there is less than one for each, those whose turn it is have it for so long."""
REGROWTH = 0.05
"""So much of the whole pace comes back in a second, after a setback and the pause that went with it."""
LEAST_SHARE = 1 / 64
FORGOTTEN_S = 60.0
"""A lease that ran out so long ago is of a process that died, and is removed."""


class Ask(NamedTuple):
    """What a process asks for: calls a second and connections that it could use (0: it has nothing to send), connections that calls of it
    are on now, and the number of the lease that it has in hand (0: none).
    """

    per_second: int
    connections: int
    using: int = 0
    holding: int = 0


class Lease(NamedTuple):
    """What a process may use: calls a second and connections, until a moment of the database's clock, `lasts_s` after it was given.

    `paused_s` is how long nothing may leave at all; `share` is what is left to all of the pace that is set, after protests of the exchange;
    `short` says that it is less than his part, because others have not let go of it yet.
    """

    number: int
    per_second: int
    connections: int
    until: float
    lasts_s: float
    paused_s: float
    share: float
    short: bool = False


class Terms(NamedTuple):
    """A pace as it is recorded: what is set (a rate of 0: no limit), and what the exchange's protests left of it at `setback_at`."""

    per_second: int
    connections: int
    share: float = 1.0
    paused_until: float = 0.0
    setback_at: float = 0.0

    def share_at(self, now: float) -> float:
        """What is left of it to all."""
        calm = max(0.0, now - max(self.setback_at, self.paused_until))
        return min(1.0, self.share + calm * REGROWTH)

    def whole(self, now: float) -> tuple[int, int]:
        """Calls a second and connections that all have together."""
        share = self.share_at(now)
        return max(1, int((self.per_second or UNLIMITED) * share)), max(1, int(self.connections * share))

    def setback(self, left_at: float, pause_s: float, now: float) -> "Terms":
        """After the exchange protested against a call that left at that moment, and asked for a pause. Calls that left before the last
        setback was known cut nothing again.
        """
        paused_until = max(self.paused_until, now + pause_s)
        if left_at <= self.setback_at:
            return self._replace(paused_until=paused_until)
        return self._replace(share=max(LEAST_SHARE, self.share_at(now) / 2), paused_until=paused_until, setback_at=now)


class LeaseRecord(NamedTuple):
    """The last lease of one process: what it wanted and was given, and, `charged`, what it may be using until then."""

    worker: str
    number: int
    wanted: int
    wanted_connections: int
    per_second: int
    connections: int
    charged: int
    charged_connections: int
    until: float


def grant(terms: Terms, records: Sequence[LeaseRecord], worker: str, ask: Ask, now: float) -> tuple[LeaseRecord, bool]:
    """How `worker` stands after it asked, and whether that is less than its part; `records` are all of the pace, its own included."""
    mine = next((one for one in records if one.worker == worker and one.until > now), None)
    others = [one for one in records if one.worker != worker and one.until > now]
    rate, connections = terms.whole(now)
    asking = {one.worker: (one.wanted, one.wanted_connections) for one in others}
    asking[worker] = (ask.per_second, ask.connections)
    wanting = sorted(name for name, wants in asking.items() if min(wants) > 0)
    serving = _having_turn(wanting, min(rate, connections), int(now / TURN_S))
    fair = _fair(rate, {name: asking[name][0] for name in serving}).get(worker, 0)
    fair_connections = _fair(connections, {name: asking[name][1] for name in serving}).get(worker, 0)
    given = max(0, min(fair, rate - sum(one.charged for one in others)))
    given_connections = max(0, min(fair_connections, connections - sum(one.charged_connections for one in others)))
    had, had_connections = _in_hand(mine, ask)
    stands = LeaseRecord(
        worker,
        number=(mine.number if mine else ask.holding) + 1,
        wanted=ask.per_second,
        wanted_connections=ask.connections,
        per_second=given,
        connections=given_connections,
        charged=max(given, had),
        charged_connections=max(given_connections, had_connections, ask.using),
        until=now + TERM_S,
    )
    return stands, given < fair or given_connections < fair_connections


def _in_hand(mine: LeaseRecord | None, ask: Ask) -> tuple[int, int]:
    """What the one who asks may be using still: his last lease, or, if that never reached him, the larger of it and the one before."""
    if mine is None or not ask.connections:  # who wants nothing has stopped before he says so
        return 0, 0
    if mine.number == ask.holding:
        return mine.per_second, mine.connections
    return mine.charged, mine.charged_connections


def _having_turn(names: Sequence[str], places: int, turn: int) -> Sequence[str]:
    """Those whose turn it is, where there are fewer places than names."""
    if len(names) <= places:
        return names
    first = turn * places % len(names)
    return [*names, *names][first : first + places]


def _fair(whole: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Divide it fairly: no process could have more without taking from one that has less."""
    found, left = {}, whole
    for done, (name, want) in enumerate(sorted(wanted.items(), key=lambda one: (one[1], one[0]))):
        found[name] = min(want, left // (len(wanted) - done))
        left -= found[name]
    return found


class Figures(NamedTuple):
    """What all who send may do together: calls a second (0: no limit), and calls at the same time."""

    per_second: int
    connections: int


def pace_name(exchange: str, token: str) -> str:
    """The name of the pace of an exchange and a token: all who send with both share it. A digest: neither can be read from it."""
    return hashlib.sha256(f"loadsheet pace\0{exchange.rstrip('/')}\0{token}".encode()).hexdigest()[:32]


def begin(connection: Connection, name: str, exchange: str, per_second: int, connections: int) -> Figures | None:
    """Have a pace with these figures (a rate of 0: no limit), and return what they were before; of the exchange its origin is kept."""
    row = connection.execute(select(paces.c.per_second, paces.c.connections).where(paces.c.name == name)).first()
    parts = urlsplit(exchange)
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    pace = {"name": name, "exchange": origin, "per_second": per_second, "connections": connections}
    _BEGIN.run(connection, [pace])
    return None if row is None else Figures(*row)


def renew(connection: Connection, name: str, worker: str, ask: Ask) -> Lease:
    """Give `worker` a lease of a pace, or another one; who asks for nothing gives his back. Raises LedgerError for a pace that never began."""
    terms, _, now = _held(connection, name)
    records = _records_of(connection, name)
    mine, short = grant(terms, records, worker, ask, now)
    if mine.wanted or mine.charged or mine.charged_connections:
        _PUT.run(connection, [{"pace": name, **mine._asdict()}])
    else:
        _DROP.run(connection, [{"pace": name, "worker": worker}])
    for dead in records:
        if dead.until < now - FORGOTTEN_S:
            _DROP.run(connection, [{"pace": name, "worker": dead.worker}])
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
    terms, before, now = _held(connection, name)
    after = terms.setback(now - age_s, pause_s, now)
    changed = {"share": after.share, "paused_until": after.paused_until, "setback_at": after.setback_at}
    if after.setback_at != terms.setback_at or not before:
        before = reason
    connection.execute(update(paces).where(paces.c.name == name).values(**changed, reason=before))
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
        alive = [one for one in _records_of(connection, row.name) if one.until > now]
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
        raise LedgerError(f"pace {name} is not in the shared tables; the first run that sends makes it")
    return _terms(row), row.reason, float(row.now)


def _terms(row: Row[tuple[object, ...]]) -> Terms:
    return Terms(row.per_second, row.connections, row.share, row.paused_until, row.setback_at)


def _records_of(connection: Connection, name: str) -> list[LeaseRecord]:
    return [LeaseRecord(*row) for row in _LEASES.rows(connection, pace=name)]


# The time is read before the row is locked: if another process holds it, the lease is shorter by the wait, never longer.
_HOLD = select(paces, clock.NOW.label("now")).where(paces.c.name == bindparam("name")).with_for_update()
_BEGIN = Statement(
    """
    insert into paces (name, exchange, per_second, connections, share, paused_until, setback_at, reason)
    values (:name, :exchange, :per_second, :connections, 1, 0, 0, '')
    on conflict (name) do update set per_second = excluded.per_second, connections = excluded.connections
    """
)
_LEASES = Statement(
    """
    select worker, number, wanted, wanted_connections, per_second, connections, charged, charged_connections, until
    from leases where pace = :pace
    """
)
_PUT = Statement(
    """
    insert into leases (
        pace, worker, number, wanted, wanted_connections, per_second, connections, charged, charged_connections, until
    ) values (
        :pace, :worker, :number, :wanted, :wanted_connections, :per_second, :connections, :charged, :charged_connections,
        :until
    ) on conflict (pace, worker) do update set
        number = excluded.number, wanted = excluded.wanted, wanted_connections = excluded.wanted_connections,
        per_second = excluded.per_second, connections = excluded.connections, charged = excluded.charged,
        charged_connections = excluded.charged_connections, until = excluded.until
    """
)
_DROP = Statement("delete from leases where pace = :pace and worker = :worker")

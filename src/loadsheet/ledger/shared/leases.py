"""Leases of the shared rate: the calls a second and connections that each process may use, and for how long. An overload of the
exchange (429, 503) slows all processes. First the pure rules, then the tables. Each change is one short transaction that locks the
row of the rate limit and uses the database's clock. A lease is durable before it is used: a lease lost in a server crash would be granted twice.

Owns: that the leases never add up to more than the limit. A process that gets a smaller lease is still charged for the old one until
it confirms the new one on its next renewal: the answer may be delayed or lost. Rates are whole calls a second, so that every second
holds the same number of calls, wherever it begins.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, Row, bindparam, select, update

from loadsheet.errors import LedgerError
from loadsheet.ledger.ledger_tables import DATABASE_TIME, Statement, database_time, paces

TERM_S = 1.5
"""Seconds that a lease lasts."""
UNLIMITED = 1_000_000
"""Calls a second where no limit is set."""
TURN_S = 10.0
"""Seconds of a turn, if there are more processes than connections or calls a second."""
REGROWTH = 0.05
"""Share of the full limits that comes back each second after an overload and its pause."""
LEAST_SHARE = 1 / 64
DELETED_AFTER_S = 60.0
"""Seconds after its end when a lease is deleted: its process has died."""


class LeaseRequest(NamedTuple):
    """A request for a lease: the calls a second and connections that the process can use (0: nothing to send). `using` is the
    number of connections in use now, `holding` the number of its current lease (0: none).
    """

    per_second: int
    connections: int
    using: int = 0
    holding: int = 0


class Lease(NamedTuple):
    """The calls a second and connections that a process may use until `until` by the database's clock, `lasts_s` after the grant.

    No call may leave for `paused_s` seconds. `share` is the part of the limits that is available after the last overloads of the
    exchange. `short`: the lease is below the fair part, because others have not released theirs yet.
    """

    number: int
    per_second: int
    connections: int
    until: float
    lasts_s: float
    paused_s: float
    share: float
    short: bool = False


class RateLimitState(NamedTuple):
    """A stored rate limit: the limits that are set (rate 0: no limit), and the `share` of them that was available after the overload at `overloaded_at`."""

    per_second: int
    connections: int
    share: float = 1.0
    paused_until: float = 0.0
    overloaded_at: float = 0.0

    def share_at(self, now: float) -> float:
        """The share of the limits that is available to all."""
        calm = max(0.0, now - max(self.overloaded_at, self.paused_until))
        return min(1.0, self.share + calm * REGROWTH)

    def available(self, now: float) -> tuple[int, int]:
        """The calls a second and connections available to all processes together."""
        share = self.share_at(now)
        return max(1, int((self.per_second or UNLIMITED) * share)), max(1, int(self.connections * share))

    def after_overload(self, left_at: float, pause_s: float, now: float) -> "RateLimitState":
        """The state after a call that left at `left_at` met an overloaded exchange, which asked for a pause. A call that left
        before the last overload does not reduce the share again.
        """
        paused_until = max(self.paused_until, now + pause_s)
        if left_at <= self.overloaded_at:
            return self._replace(paused_until=paused_until)
        return self._replace(
            share=max(LEAST_SHARE, self.share_at(now) / 2), paused_until=paused_until, overloaded_at=now
        )


class LeaseRecord(NamedTuple):
    """The last lease of one process: what it wanted, what it got, and in `charged` what it may still be using."""

    worker: str
    number: int
    wanted: int
    wanted_connections: int
    per_second: int
    connections: int
    charged: int
    charged_connections: int
    until: float


def grant(
    state: RateLimitState, records: Sequence[LeaseRecord], worker: str, request: LeaseRequest, now: float
) -> tuple[LeaseRecord, bool]:
    """The new lease of `worker`, and whether it is below its fair part. `records` are all leases of the rate limit, its own included."""
    mine = next((record for record in records if record.worker == worker and record.until > now), None)
    others = [record for record in records if record.worker != worker and record.until > now]
    rate, connections = state.available(now)
    asking = {record.worker: (record.wanted, record.wanted_connections) for record in others}
    asking[worker] = (request.per_second, request.connections)
    wanting = sorted(name for name, wants in asking.items() if min(wants) > 0)
    serving = _having_turn(wanting, min(rate, connections), int(now / TURN_S))
    fair = _fair(rate, {name: asking[name][0] for name in serving}).get(worker, 0)
    fair_connections = _fair(connections, {name: asking[name][1] for name in serving}).get(worker, 0)
    given = max(0, min(fair, rate - sum(record.charged for record in others)))
    given_connections = max(
        0, min(fair_connections, connections - sum(record.charged_connections for record in others))
    )
    had, had_connections = _in_use(mine, request)
    lease = LeaseRecord(
        worker,
        number=(mine.number if mine else request.holding) + 1,
        wanted=request.per_second,
        wanted_connections=request.connections,
        per_second=given,
        connections=given_connections,
        charged=max(given, had),
        charged_connections=max(given_connections, had_connections, request.using),
        until=now + TERM_S,
    )
    return lease, given < fair or given_connections < fair_connections


def _in_use(mine: LeaseRecord | None, request: LeaseRequest) -> tuple[int, int]:
    """What the process may still be using: its last lease, or the larger of the last two if it did not receive the last one."""
    if mine is None or not request.connections:  # a process stops before it asks for nothing
        return 0, 0
    if mine.number == request.holding:
        return mine.per_second, mine.connections
    return mine.charged, mine.charged_connections


def _having_turn(names: Sequence[str], places: int, turn: int) -> Sequence[str]:
    """The names whose turn it is, if there are fewer places than names."""
    if len(names) <= places:
        return names
    first = turn * places % len(names)
    return [*names, *names][first : first + places]


def _fair(whole: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Divide `whole` by max-min fairness: no process can get more without taking from one that has less."""
    parts, left = {}, whole
    for done, (name, want) in enumerate(sorted(wanted.items(), key=lambda item: (item[1], item[0]))):
        parts[name] = min(want, left // (len(wanted) - done))
        left -= parts[name]
    return parts


class RateLimits(NamedTuple):
    """The limits of all senders together: calls a second (0: no limit), and concurrent calls."""

    per_second: int
    connections: int


def rate_limit_name(exchange: str, token: str) -> str:
    """The name of the rate limit that all senders with this exchange and token share. A digest, so it reveals neither."""
    return hashlib.sha256(f"loadsheet pace\0{exchange.rstrip('/')}\0{token}".encode()).hexdigest()[:32]


class RateLimitStatus(NamedTuple):
    """A rate limit for display: its limits, the share left, and what is leased to how many processes."""

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


def read_rate_limits(connection: Connection) -> list[RateLimitStatus]:
    """The current status of all rate limits, by exchange."""
    now = database_time(connection)
    statuses = []
    for row in connection.execute(select(paces).order_by(paces.c.exchange, paces.c.name)):
        state = _state_of(row)
        alive = [record for record in _records_of(connection, row.name) if record.until > now]
        statuses.append(
            RateLimitStatus(
                row.name,
                row.exchange,
                row.per_second,
                row.connections,
                state.share_at(now),
                max(0.0, state.paused_until - now),
                row.reason if state.share_at(now) < 1 or state.paused_until > now else "",
                sum(record.per_second for record in alive),
                sum(record.connections for record in alive),
                len(alive),
            )
        )
    return statuses


class SharedRateLimit:
    """One process's access to the rate limit of an exchange and a token. Each change is a transaction of its own. Raises LedgerError
    for database errors if the engine comes from `loadsheet.ledger.postgres`.
    """

    def __init__(self, engine: Engine, exchange: str, token: str, worker: str) -> None:
        parts = urlsplit(exchange)
        self._origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # without credentials
        self._engine, self._worker = engine, worker
        self.name = rate_limit_name(exchange, token)

    def set_limits(self, per_second: int, connections: int) -> RateLimits | None:
        """Set the limits (rate 0: no limit) and return the previous ones. Only the origin of the exchange's URL is stored."""
        row = {"name": self.name, "exchange": self._origin, "per_second": per_second, "connections": connections}
        query = select(paces.c.per_second, paces.c.connections).where(paces.c.name == self.name)
        with self._engine.begin() as connection:
            before = connection.execute(query).first()
            _SET_LIMITS.run(connection, [row])
        return None if before is None else RateLimits(*before)

    def renew(self, request: LeaseRequest) -> Lease:
        """A new lease. A request for nothing returns the lease. Raises LedgerError if the limits were never set."""
        with self._engine.begin() as connection:
            state, _, now = self._held(connection)
            records = _records_of(connection, self.name)
            mine, short = grant(state, records, self._worker, request, now)
            gone = [record.worker for record in records if record.until < now - DELETED_AFTER_S]
            if mine.wanted or mine.charged or mine.charged_connections:
                _PUT.run(connection, [{"pace": self.name, **mine._asdict()}])
            else:
                gone.append(self._worker)
            if gone:
                _DROP.run(connection, [{"pace": self.name, "worker": worker} for worker in gone])
        return Lease(
            mine.number,
            mine.per_second,
            mine.connections,
            mine.until,
            mine.until - now,
            max(0.0, state.paused_until - now),
            state.share_at(now),
            short,
        )

    def report_overload(self, age_s: float, pause_s: float, reason: str) -> None:
        """Slow down all processes: a call that left `age_s` ago met an overloaded exchange, which asked for a pause."""
        with self._engine.begin() as connection:
            state, before, now = self._held(connection)
            after = state.after_overload(now - age_s, pause_s, now)
            changed = {"share": after.share, "paused_until": after.paused_until, "setback_at": after.overloaded_at}
            if after.overloaded_at != state.overloaded_at or not before:
                before = reason
            connection.execute(update(paces).where(paces.c.name == self.name).values(**changed, reason=before))

    def _held(self, connection: Connection) -> tuple[RateLimitState, str, float]:
        """The rate limit, the reason of its last overload, and the current time. Locks the row until the transaction ends."""
        row = connection.execute(_HOLD, {"name": self.name}).one_or_none()
        if row is None:
            todo = "it is created by the first run that sends"
            raise LedgerError(f"the shared rate limit for {self._origin} does not exist yet", todo=todo)
        return _state_of(row), row.reason, float(row.now)


def _state_of(row: Row[tuple[object, ...]]) -> RateLimitState:
    return RateLimitState(row.per_second, row.connections, row.share, row.paused_until, row.setback_at)


def _records_of(connection: Connection, name: str) -> list[LeaseRecord]:
    return [LeaseRecord(*row) for row in _LEASES.rows(connection, pace=name)]


# The time is read before the row is locked: waiting for the lock makes the lease shorter, never longer.
_HOLD = select(paces, DATABASE_TIME.label("now")).where(paces.c.name == bindparam("name")).with_for_update()
_SET_LIMITS = Statement(
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

"""The workers: their register, and the status of all that ledgers share at a moment (workers, queue, takeovers, rates).

Owns: who counts as alive (heard of within some seconds, by the database's clock), and what of the queue's own tables is shown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, delete, select, text, update
from sqlalchemy.dialects.postgresql import insert

from loadsheet.ledger import clock
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.leases import PaceStatus, read_paces
from loadsheet.ledger.shared.schema import takeovers, workers
from loadsheet.problems import LedgerError
from loadsheet.settings import Settings

DAY_S = 86_400


class WorkerInfo(NamedTuple):
    """What a worker registers when it begins: its name (unique), where it is, the shippers it serves (an empty name: the only one),
    and how many runs it does at the same time.
    """

    name: str
    host: str
    process: int
    version: str
    serves: Sequence[str]
    places: int


def record_heartbeat(connection: Connection, enrolled: WorkerInfo, doing: Sequence[str], done: int) -> None:
    """Record that a worker is alive, what it is doing (in words), and how many jobs it finished; registers it if it is not registered."""
    now = clock.now(connection)
    row = {
        "host": enrolled.host,
        "process": enrolled.process,
        "version": enrolled.version,
        "serves": json.dumps(list(enrolled.serves)),
        "places": enrolled.places,
        "doing": json.dumps(list(doing)),
        "done": done,
        "seen": now,
        "ended": None,
    }
    entered = insert(workers).values(name=enrolled.name, started=now, **row)
    connection.execute(entered.on_conflict_do_update(index_elements=[workers.c.name], set_=row))


def record_end(connection: Connection, name: str) -> None:
    """A worker has ended."""
    now = clock.now(connection)
    connection.execute(update(workers).where(workers.c.name == name).values(doing="[]", seen=now, ended=now))


def alive_workers(connection: Connection, within_s: float, shipper: str) -> list[str]:
    """The names of the workers that serve this shipper and had a heartbeat within `within_s` seconds."""
    query = select(workers.c.name, workers.c.serves).where(
        workers.c.ended.is_(None), workers.c.seen > clock.NOW - within_s
    )
    heard_of = [(row.name, json.loads(row.serves)) for row in connection.execute(query)]
    return [name for name, serves in heard_of if shipper in serves or not serves]


def forget(connection: Connection, days: int) -> int:
    """Remove workers without a heartbeat, and takeovers, older than `days` days; returns how many."""
    before = clock.NOW - days * DAY_S
    gone = connection.execute(delete(workers).where(workers.c.seen < before)).rowcount
    return gone + connection.execute(delete(takeovers).where(takeovers.c.at < before)).rowcount


class Worker(NamedTuple):
    """A process that takes runs: since when and when it was seen last (aware, UTC), whom it serves (empty: all), what it does now, and how
    many runs it finished. One that neither lives nor ended was silent for too long.
    """

    name: str
    host: str
    process: int
    version: str
    since: datetime
    seen: datetime
    serves: tuple[str, ...]
    places: int
    doing: tuple[str, ...]
    done: int
    alive: bool
    ended: bool

    @property
    def state(self) -> str:
        """How it is, in a word."""
        return "lives" if self.alive else "ended" if self.ended else "silent"


class QueueStatus(NamedTuple):
    """What is in the queue for one shipper: why runs are wanted, how many wait and are being done, and for how many seconds the oldest
    waits.
    """

    shipper: str
    reason: str
    waiting: int
    under_way: int
    oldest_s: float


class Takeover(NamedTuple):
    """A ledger that was taken over from a process that had fallen silent, by another one."""

    at: datetime
    shipper: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Everything, at one moment (aware, UTC, by the database's clock). The workers that live come first; `takeovers` are those of
    a day, newest first, `takeovers_ever` counts all that there were.
    """

    at: datetime
    workers: Sequence[Worker] = ()
    queue: Sequence[QueueStatus] = ()
    takeovers: Sequence[Takeover] = ()
    takeovers_ever: int = 0
    paces: Sequence[PaceStatus] = ()

    @property
    def alive(self) -> int:
        """How many workers live."""
        return sum(worker.alive for worker in self.workers)

    @property
    def waiting(self) -> int:
        """How much waits in the queue."""
        return sum(one.waiting for one in self.queue)

    @property
    def oldest_s(self) -> float:
        """For how many seconds the oldest in the queue waits; 0 if nothing does."""
        return max((one.oldest_s for one in self.queue), default=0.0)


def cluster_status(settings: Settings) -> ClusterStatus | None:
    """The fleet that a ledger belongs to; None for one that nobody shares. Raises LedgerGone if the database cannot be reached."""
    if not settings.is_shared:
        return None
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        return read_status(connection, settings.cluster.takeover_s)


def read_status(connection: Connection, silent_s: float) -> ClusterStatus:
    """The fleet, on a connection to the shared tables; who was silent for so long is not alive. Nobody, where the tables are not there yet."""
    now = clock.now(connection)
    if not has_shared_tables(connection):
        return ClusterStatus(clock.moment(now))
    recent_takeovers = [_takeover(row) for row in connection.execute(_TAKEOVERS, {"since": now - DAY_S})]
    found = [_worker(row, now, silent_s) for row in connection.execute(select(workers))]
    found.sort(key=lambda one: (not one.alive, one.host, one.since, one.name))
    return ClusterStatus(
        clock.moment(now),
        found,
        [QueueStatus(*row) for row in connection.execute(_QUEUE)],
        recent_takeovers,
        connection.scalar(_EVER) or 0,
        read_paces(connection),
    )


def has_shared_tables(connection: Connection) -> bool:
    """Whether the shared tables are there: the process that opens the first ledger makes them."""
    return connection.scalar(_MADE) is not None


def _worker(row: Any, now: float, silent_s: float) -> Worker:
    return Worker(
        row.name,
        row.host,
        row.process,
        row.version,
        clock.moment(row.started),
        clock.moment(row.seen),
        _texts(row.serves),
        row.places,
        _texts(row.doing),
        row.done,
        alive=row.ended is None and now - row.seen < silent_s,
        ended=row.ended is not None,
    )


def _texts(stored: str) -> tuple[str, ...]:
    """A JSON list for people: what is not text in it as the values that it holds."""
    try:
        found = msgspec.json.decode(stored, type=list[Any])
    except msgspec.DecodeError as error:
        raise LedgerError(f"the shared table workers holds {stored!r}, which is not a list ({error})") from error
    return tuple(one if isinstance(one, str) else " ".join(map(str, _values(one))) for one in found)


def _values(one: Any) -> Sequence[Any]:
    return list(one.values()) if isinstance(one, Mapping) else one if isinstance(one, list) else [one]


def _takeover(row: Any) -> Takeover:
    return Takeover(clock.moment(row.at), row.shipper, row.before, row.after)


_MADE = text("select to_regclass('workers')")
_EVER = text("select pg_sequence_last_value(pg_get_serial_sequence('takeovers', 'id'))")  # the oldest are forgotten
_TAKEOVERS = (
    select(takeovers).where(takeovers.c.at > text(":since")).order_by(takeovers.c.at.desc(), takeovers.c.id.desc())
)
_QUEUE = text(
    "select coalesce(job.args ->> 'shipper', '') as shipper, coalesce(job.args ->> 'reason', '') as reason, "
    "count(*) filter (where job.status = 'todo') as waiting, count(*) filter (where job.status = 'doing') as under_way, "
    "coalesce(extract(epoch from clock_timestamp() - min(made.at) filter (where job.status = 'todo')), 0)::float as oldest_s "
    "from procrastinate_jobs job left join procrastinate_events made on made.job_id = job.id and made.type = 'deferred' "
    "where job.status in ('todo', 'doing') group by 1, 2 order by 1, 2"
)

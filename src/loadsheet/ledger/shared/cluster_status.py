"""The register of workers, and the status of the cluster (workers, queue, takeovers, paces).

Owns: who counts as alive (a recent heartbeat by the database's clock), and which data of Procrastinate's tables is shown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, delete, select, text, update
from sqlalchemy.dialects.postgresql import insert

from loadsheet.errors import LedgerError
from loadsheet.ledger.codec import utc_from_seconds
from loadsheet.ledger.ledger_tables import DATABASE_TIME, database_time, takeovers, workers
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.leases import RateLimitStatus, read_rate_limits
from loadsheet.settings import Settings

DAY_S = 86_400


class WorkerInfo(NamedTuple):
    """What a worker registers at its start: its unique name, host, process and version, the shippers it serves (empty name: the
    only one), and its number of concurrent runs.
    """

    name: str
    host: str
    process: int
    version: str
    serves: Sequence[str]
    places: int


def record_heartbeat(connection: Connection, enrolled: WorkerInfo, doing: Sequence[str], done: int) -> None:
    """Record a heartbeat: the running jobs in words, and the number of finished jobs. Registers an unregistered worker."""
    now = database_time(connection)
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
    """Record that a worker has ended."""
    now = database_time(connection)
    connection.execute(update(workers).where(workers.c.name == name).values(doing="[]", seen=now, ended=now))


def alive_workers(connection: Connection, within_s: float, shipper: str) -> list[str]:
    """The names of the workers that serve this shipper and had a heartbeat within `within_s` seconds."""
    query = select(workers.c.name, workers.c.serves).where(
        workers.c.ended.is_(None), workers.c.seen > DATABASE_TIME - within_s
    )
    alive = [(row.name, json.loads(row.serves)) for row in connection.execute(query)]
    return [name for name, serves in alive if shipper in serves or not serves]


def delete_old_workers(connection: Connection, days: int) -> int:
    """Delete workers whose last heartbeat, and takeovers, are older than `days` days. Returns the number of rows."""
    before = DATABASE_TIME - days * DAY_S
    gone = connection.execute(delete(workers).where(workers.c.seen < before)).rowcount
    return gone + connection.execute(delete(takeovers).where(takeovers.c.at < before)).rowcount


class Worker(NamedTuple):
    """A worker process: its start and last heartbeat (aware, UTC), the shippers it serves (empty: all), its running jobs, and the
    number of finished runs. A worker that is neither alive nor ended has had no heartbeat for too long.
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
        """Its state in one word."""
        return "lives" if self.alive else "ended" if self.ended else "silent"


class QueueStatus(NamedTuple):
    """The queue of one shipper: the reason for the runs, how many wait and how many run, and how many seconds the oldest has
    waited.
    """

    shipper: str
    reason: str
    waiting: int
    under_way: int
    oldest_s: float


class Takeover(NamedTuple):
    """A takeover of a ledger from a process without heartbeat (`before`) by another one (`after`)."""

    at: datetime
    shipper: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The status of the cluster at one time (aware, UTC, by the database's clock). Live workers come first. `takeovers` are those
    of the last day, newest first; `takeovers_ever` counts all.
    """

    at: datetime
    workers: Sequence[Worker] = ()
    queue: Sequence[QueueStatus] = ()
    takeovers: Sequence[Takeover] = ()
    takeovers_ever: int = 0
    paces: Sequence[RateLimitStatus] = ()

    @property
    def alive(self) -> int:
        """The number of live workers."""
        return sum(worker.alive for worker in self.workers)

    @property
    def waiting(self) -> int:
        """The number of waiting jobs."""
        return sum(status.waiting for status in self.queue)

    @property
    def oldest_s(self) -> float:
        """Seconds that the oldest job in the queue has waited. 0 if none waits."""
        return max((status.oldest_s for status in self.queue), default=0.0)


def cluster_status(settings: Settings) -> ClusterStatus | None:
    """The status of the cluster of a ledger. None if the ledger is not shared. Raises LedgerGone if the database cannot be reached."""
    if not settings.is_shared:
        return None
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        return read_status(connection, settings.cluster.takeover_s)


def read_status(connection: Connection, silent_s: float) -> ClusterStatus:
    """The status of the cluster, on a connection to the shared tables. A worker without heartbeat for `silent_s` is not alive. Empty
    if the tables do not exist yet.
    """
    now = database_time(connection)
    if not has_shared_tables(connection):
        return ClusterStatus(utc_from_seconds(now))
    recent_takeovers = [
        Takeover(utc_from_seconds(row.at), row.shipper, row.before, row.after)
        for row in connection.execute(_TAKEOVERS, {"since": now - DAY_S})
    ]
    listed = [_worker(row, now, silent_s) for row in connection.execute(select(workers))]
    listed.sort(key=lambda worker: (not worker.alive, worker.host, worker.since, worker.name))
    return ClusterStatus(
        utc_from_seconds(now),
        listed,
        [QueueStatus(*row) for row in connection.execute(_QUEUE)],
        recent_takeovers,
        connection.scalar(_EVER) or 0,
        read_rate_limits(connection),
    )


def has_shared_tables(connection: Connection) -> bool:
    """Whether the shared tables exist. The process that opens the first ledger creates them."""
    return connection.scalar(_MADE) is not None


def _worker(row: Any, now: float, silent_s: float) -> Worker:
    return Worker(
        row.name,
        row.host,
        row.process,
        row.version,
        utc_from_seconds(row.started),
        utc_from_seconds(row.seen),
        _texts(row.serves),
        row.places,
        _texts(row.doing),
        row.done,
        alive=row.ended is None and now - row.seen < silent_s,
        ended=row.ended is not None,
    )


def _texts(stored: str) -> tuple[str, ...]:
    """A stored JSON list for display. Items that are not strings become the values they hold."""
    try:
        items = msgspec.json.decode(stored, type=list[Any])
    except msgspec.DecodeError as error:
        raise LedgerError(f"the shared table workers holds {stored!r}, which is not a list ({error})") from error
    return tuple(item if isinstance(item, str) else " ".join(map(str, _values(item))) for item in items)


def _values(item: Any) -> Sequence[Any]:
    return list(item.values()) if isinstance(item, Mapping) else item if isinstance(item, list) else [item]


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

"""Jobs: requested runs, in the tables of the queue (Procrastinate). Recovers lost jobs and deletes old ones.

Owns: the names of the task and of the queues. A job names a shipper and since when its run is due. At most one job of a shipper waits
and one runs. The queue only wakes workers. The tenure decides who may run a ledger, so a duplicate or late job does no harm. Each
ledger has a queue of its own, because Procrastinate selects jobs only by queue: a worker takes the jobs of the ledgers it serves. A
job is lost if its worker has had no heartbeat for `takeover_s`, or is recorded as its worker but does not run it.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, CursorResult, Engine, TextClause, bindparam, insert, inspect, select, text, update
from sqlalchemy.types import ARRAY, BigInteger, Text

from loadsheet.errors import LedgerError, SettingsError
from loadsheet.ledger.ledger_tables import shared_meta, shared_metadata, takeovers
from loadsheet.ledger.postgres import Address, make_schema

TASK = "run"
"""The only task. Its arguments are `ledger` (the schema), `shipper`, `reason` and `due` (since when the run is due)."""
FILES, SCHEDULE, RESEND = "files", "schedule", "resend"
"""Reasons for a run: files arrived, a schedule is due, or an earlier run died."""

_QUEUE_MAX = 40  # letters of a queue's name: the notification channel contains it, and PostgreSQL cuts that at 63
_DIGEST = 10
_UNIQUE_VIOLATION = "23505"  # PostgreSQL, appendix A
_VERSION, _TABLES = "queue_version", "tables_version"
_AT_ONCE = 5_000
_HOUR_S = 3_600


class OpenJob(NamedTuple):
    """The open job of a ledger: the reason for the run, and whether a worker is running it."""

    reason: str
    begun: bool


def request_run(connection: Connection, address: Address, reason: str, due: str) -> None:
    """Request a run of a ledger. If a job of this ledger already waits, it becomes due now. `due` is ISO 8601 UTC."""
    run: dict[str, str | int] = {
        "queue": queue_of(address.schema),
        "task": TASK,
        "ledger": address.schema,
        "shipper": address.shipper,
    }
    run |= {"reason": reason, "due": due, "priority": int(reason == RESEND)}
    while not connection.execute(_IS_DUE, run).rowcount:
        if _unless_another_waits(connection, _DEFER, run) is not None:
            return  # Procrastinate notifies workers of a new job
    _wake(connection)


def _unless_another_waits(
    connection: Connection, statement: TextClause, values: Mapping[str, Any]
) -> CursorResult[Any] | None:
    """Execute a statement that makes jobs wait. Returns None and changes nothing if another job of the same ledger now waits."""
    try:
        with connection.begin_nested():
            return connection.execute(statement, values)
    except LedgerError as error:
        if getattr(error.__cause__, "sqlstate", None) == _UNIQUE_VIOLATION:
            return None
        raise


def open_job(connection: Connection, address: Address) -> OpenJob | None:
    """The open job of a ledger, if there is one. Of two, the running one."""
    row = connection.execute(_OPEN, {"ledger": address.schema}).first()
    return None if row is None else OpenJob(row.reason, row.begun)


def _wake(connection: Connection) -> None:
    """Wake all workers. Procrastinate itself notifies them only of new jobs."""
    connection.execute(_NOTIFY)


def queue_of(ledger: str) -> str:
    """The queue name of a ledger, given its schema."""
    name = f"runs:{ledger}"
    if len(name) <= _QUEUE_MAX:
        return name
    return f"{name[: _QUEUE_MAX - _DIGEST - 1]}~{hashlib.sha256(ledger.encode()).hexdigest()[:_DIGEST]}"


def make_tables(engine: Engine, address: Address) -> None:
    """Create the shared schema, its tables and the tables of the queue if they are missing, and upgrade older ones. Raises
    SettingsError if Procrastinate is not installed.
    """
    if find_spec("procrastinate") is None:
        raise SettingsError("a ledger on PostgreSQL needs the extra `fleet`: pip install 'loadsheet[fleet]'")
    with engine.connect() as connection, connection.begin():
        make_schema(connection, address.shared)
        connection.exec_driver_sql(f'set local search_path to "{address.shared}"')
        if not inspect(connection).has_table(shared_meta.name, schema=address.shared):
            shared_metadata.create_all(connection)
        if connection.execute(_UPGRADED, {"name": _TABLES}).rowcount:  # 0.5.0 recorded takeovers of batches
            takeovers.drop(connection)
            takeovers.create(connection)
        _make_queue(connection)


def _make_queue(connection: Connection) -> None:
    from procrastinate import __version__ as newest
    from procrastinate.schema import SchemaManager, migrations_path

    known = connection.scalar(select(shared_meta.c.value).where(shared_meta.c.name == _VERSION))
    if known == newest:
        return
    if known is None:
        _run(connection, SchemaManager.get_schema())
        connection.execute(insert(shared_meta).values(name=_VERSION, value=newest))
        return
    for script in sorted(Path(str(migrations_path)).glob("*.sql")):
        if _parts(known) < _parts(script.name.split("_")[0]) <= _parts(newest):
            _run(connection, script.read_text(encoding="utf-8"))
    if _parts(newest) > _parts(known):
        connection.execute(update(shared_meta).where(shared_meta.c.name == _VERSION).values(value=newest))


def _run(connection: Connection, script: str) -> None:
    connection.connection.dbapi_connection.execute(script)  # type: ignore[union-attr]  # several statements at once


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


# lost jobs and finished jobs

FINISH = (
    "with mine as (select id from procrastinate_jobs where id = %(job)s and worker_id = %(worker)s and status = 'doing' for update) "
    "select procrastinate_finish_job_v1(mine.id, cast(%(status)s as procrastinate_job_status), %(remove)s) from mine"
)
"""Runs on Procrastinate's connection: finish a job if it still belongs to this worker."""
RETRY = (
    "with mine as (select id from procrastinate_jobs doing where id = %(job)s and worker_id = %(worker)s and status = 'doing' "
    "and not exists (select 1 from procrastinate_jobs other where other.queueing_lock = doing.queueing_lock and other.status = 'todo') "
    "for update) select procrastinate_retry_job_v2(mine.id, now() + make_interval(secs => %(after_s)s), cast(%(priority)s as integer), null, null), "
    'pg_notify(\'procrastinate_any_queue_v1\', \'{"type": "job_inserted", "job_id": 0}\') from mine'
)
"""Runs on Procrastinate's connection: retry a job after some seconds if it still belongs to this worker."""
DO_NOT_COUNT_ATTEMPT = (
    "update procrastinate_jobs set attempts = attempts - 1 "
    "where id = %(job)s and worker_id = %(worker)s and status = 'doing' returning id"
)
"""Runs on Procrastinate's connection, before RETRY: do not count this as an attempt."""
URGENT = (
    "select distinct queue_name from procrastinate_jobs where status = 'todo' and priority > 0 and queue_name = any(%(queues)s) "
    "and (scheduled_at is null or scheduled_at <= now())"
)
"""Runs on Procrastinate's connection: the queues with a due job of a dead worker or run. A queue holds one waiting job."""


def requeue_jobs_of_dead_workers(connection: Connection, takeover_s: float) -> list[int]:
    """Requeue the jobs of workers that are gone or had no heartbeat for `takeover_s` seconds, and delete these workers. Returns the ids of the
    jobs. No worker can send heartbeats while the server is down, so the server's start counts as a heartbeat of all.
    """
    lost = _wait_again(connection, _REAP, {"takeover_s": takeover_s})
    connection.execute(_FORGET, {"takeover_s": takeover_s})
    return lost


def seconds_until_next_dead_worker(connection: Connection, takeover_s: float) -> float:
    """Seconds until the worker with the oldest heartbeat counts as dead. `takeover_s` if there are no workers."""
    left_s = connection.scalar(_NEXT_DEATH, {"takeover_s": takeover_s})
    return takeover_s if left_s is None else max(0.0, float(left_s))


def running_jobs(connection: Connection, worker: int) -> set[int]:
    """The ids of the jobs that are recorded as running at this worker (by its id in Procrastinate)."""
    return set(connection.scalars(_DOING, {"worker": worker}))


def requeue_jobs_of_worker(connection: Connection, jobs: Collection[int], worker: int) -> list[int]:
    """Requeue those of these jobs that are recorded as running at this worker. Returns their ids."""
    return _wait_again(connection, _PUT_BACK, {"jobs": list(jobs), "worker": worker}) if jobs else []


def _wait_again(connection: Connection, statement: TextClause, values: Mapping[str, Any]) -> list[int]:
    while (put := _unless_another_waits(connection, statement, values)) is None:
        pass  # the next attempt sees the job that waits now
    back = [int(job) for job in put.scalars()]
    if back:
        _wake(connection)
    return back


def beat(connection: Connection, worker: int) -> bool:
    """Record a heartbeat of this worker. False if it is no longer registered because it counted as dead."""
    return connection.execute(_BEAT, {"worker": worker}).rowcount > 0


def seconds_until_free(connection: Connection, address: Address, takeover_s: float) -> float:
    """Seconds until the holder of a ledger counts as dead without a further heartbeat. 0 if it has no holder or does not exist."""
    if connection.scalar(_HAS_TENURES, {"table": f"{address.schema}.tenures"}) is None:
        return 0.0
    held = text(
        "select cast(seen_at as double precision) + :silent_s - extract(epoch from clock_timestamp()) "  # noqa: S608 (our own name)
        f"from \"{address.schema}\".tenures where holder <> ''"
    )
    return max(0.0, float(connection.scalar(held, {"silent_s": takeover_s}) or 0.0))


def count_due(connection: Connection, queues: Collection[str]) -> int:
    """The number of jobs in these queues that are due now."""
    return int(connection.scalar(_DUE_COUNT, {"queues": list(queues)}) or 0)


def request_runs_after_death(engine: Engine, ledgers: Iterable[Address], every_s: float) -> int:
    """Request a run for each of these ledgers whose last run died and has no job. Returns how many were requested. A run whose
    holder had a heartbeat within `every_s` seconds is not dead. A dead run is requested once only. Among several processes, one
    checks a ledger per `every_s`.
    """
    known = {address.schema: address for address in ledgers}
    with engine.begin() as connection:
        connection.execute(_MARKS, {"ledgers": list(known)})
        mine = list(connection.scalars(_MINE, {"ledgers": list(known), "every_s": every_s}))
    return sum(_sweep(engine, known[schema], every_s) for schema in mine)


def _sweep(engine: Engine, address: Address, silent_s: float) -> bool:
    with engine.begin() as connection:
        died = connection.scalar(_died(address.schema), {"silent_s": silent_s})
        if died is None or connection.scalar(_KNOWN, {"ledger": address.schema, "due": died}) is not None:
            return False
        request_run(connection, address, RESEND, died)
        return True


def _died(schema: str) -> TextClause:
    """The query for the start of a ledger's last run, if that run did not end and the ledger has no live holder."""
    return text(
        f'select started_at from "{schema}".runs where id = (select max(id) from "{schema}".runs) '  # noqa: S608 (our own name)
        f"and finished_at = '' and not exists (select 1 from \"{schema}\".tenures where holder <> '' "
        "and cast(seen_at as double precision) > extract(epoch from clock_timestamp()) - :silent_s)"
    )


def delete_old_jobs(engine: Engine, days: int, ended: Callable[[], bool] = lambda: False) -> int:
    """Delete jobs that ended more than `days` days ago, until none is left or `ended` returns True. Returns their number. Among
    several processes, one does this each hour.
    """
    count, gone = 0, _AT_ONCE
    with engine.begin() as connection:
        connection.execute(_MARKS, {"ledgers": [""]})
        if connection.scalar(_MY_TURN, {"every_s": _HOUR_S}) is None:
            return 0
    while gone == _AT_ONCE and not ended():
        with engine.begin() as connection:
            gone = connection.execute(_PURGE, {"days": days, "most": _AT_ONCE}).rowcount
        count += gone
    return count


_UPGRADED = text("insert into shared_meta (name, value) values (:name, '2') on conflict do nothing")
_IS_DUE = text(  # attempts of a requeued job start at 0
    "update procrastinate_jobs set attempts = 0, scheduled_at = null, "
    "args = args || jsonb_build_object('due', cast(:due as text), 'reason', cast(:reason as text)) "
    "where queueing_lock = 'run:' || :ledger and status = 'todo'"
)
_DEFER = text(
    "select procrastinate_defer_jobs_v1(array[row(cast(:queue as varchar), cast(:task as varchar), cast(:priority as integer), cast(:ledger as text), "
    "cast('run:' || :ledger as text), jsonb_build_object('ledger', cast(:ledger as text), 'shipper', cast(:shipper as text), "
    "'reason', cast(:reason as text), 'due', cast(:due as text)), null::timestamptz)::procrastinate_job_to_defer_v1])"
)
_NOTIFY = text(
    "select pg_notify('procrastinate_any_queue_v1', json_build_object('type', 'job_inserted', 'job_id', 0)::text)"
)
_OPEN = text(
    "select args ->> 'reason' as reason, status = 'doing' as begun from procrastinate_jobs "
    "where status in ('todo', 'doing') and args ->> 'ledger' = :ledger order by begun desc limit 1"
)

# One job per ledger may wait. If another already waits, a lost job fails instead of waiting.
_LOST_ONES = (
    "with lost as (select id, row_number() over (partition by coalesce(queueing_lock, id::text) order by id) as place, "
    "exists (select 1 from procrastinate_jobs other where other.queueing_lock = doing.queueing_lock and other.status = 'todo') "
    "as waits from procrastinate_jobs doing where doing.status = 'doing' and "
)
_ARE_PUT_BACK = (
    ") update procrastinate_jobs set status = cast(case when lost.place = 1 and not lost.waits then 'todo' else 'failed' end "
    "as procrastinate_job_status), worker_id = null, attempts = attempts + 1, scheduled_at = null, priority = 1, abort_requested = false "
    "from lost where procrastinate_jobs.id = lost.id and procrastinate_jobs.status = 'doing' returning procrastinate_jobs.id"
)
_SILENT = "greatest(last_heartbeat, pg_postmaster_start_time()) < now() - make_interval(secs => :takeover_s)"
_GONE = "(doing.worker_id is null or doing.worker_id in (select id from procrastinate_workers where " + _SILENT + "))"  # noqa: S608
_REAP = text(_LOST_ONES + _GONE + _ARE_PUT_BACK)
_NEXT_DEATH = text(
    "select extract(epoch from min(greatest(last_heartbeat, pg_postmaster_start_time())) - now()) + :takeover_s "
    "from procrastinate_workers"
)
_FORGET = text("delete from procrastinate_workers where " + _SILENT)  # noqa: S608 (nothing of it comes from outside)
_PUT_BACK = text(_LOST_ONES + "doing.id = any(:jobs) and doing.worker_id = :worker" + _ARE_PUT_BACK).bindparams(
    bindparam("jobs", type_=ARRAY(BigInteger))
)
_DOING = text("select id from procrastinate_jobs where status = 'doing' and worker_id = :worker")
_BEAT = text("update procrastinate_workers set last_heartbeat = now() where id = :worker")
_HAS_TENURES = text("select to_regclass(:table)")
_DUE_COUNT = text(
    "select count(*) from procrastinate_jobs where status = 'todo' and queue_name = any(:queues) "
    "and (scheduled_at is null or scheduled_at <= now())"
).bindparams(bindparam("queues", type_=ARRAY(Text)))
_some = bindparam("ledgers", type_=ARRAY(Text))
_MARKS = text(
    "insert into shared_meta (name, value) select 'swept ' || ledger, '0' from unnest(cast(:ledgers as text[])) as ledger "
    "on conflict do nothing"
).bindparams(_some)
_MINE = text(
    "update shared_meta set value = extract(epoch from clock_timestamp())::text from (select name from shared_meta "
    "where name in (select 'swept ' || ledger from unnest(cast(:ledgers as text[])) as ledger) "
    "and cast(value as double precision) <= extract(epoch from clock_timestamp()) - :every_s for update skip locked) as due "
    "where shared_meta.name = due.name and to_regclass(quote_ident(substr(due.name, 7)) || '.tenures') is not null "
    "returning substr(due.name, 7)"
).bindparams(_some)
_MY_TURN = text(
    "update shared_meta set value = extract(epoch from clock_timestamp())::text where name = 'swept ' "
    "and cast(value as double precision) <= extract(epoch from clock_timestamp()) - :every_s returning name"
)
_KNOWN = text(
    "select 1 from procrastinate_jobs where args ->> 'ledger' = :ledger "
    "and (status in ('todo', 'doing') or args ->> 'due' = :due) limit 1"
)
_PURGE = text(
    "delete from procrastinate_jobs where id in (select id from procrastinate_jobs job "
    "where status in ('succeeded', 'failed', 'cancelled', 'aborted') and not exists (select 1 from procrastinate_events event "
    "where event.job_id = job.id and event.at > now() - make_interval(days => :days)) limit :most)"
)

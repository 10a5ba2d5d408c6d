"""Jobs: runs that are wanted, in the queue (Procrastinate) and its own tables; lost jobs are found again, and old ones removed.

Owns: the name of the task and of the queues. A job says whose run is wanted, and since when; at most one of a shipper waits, and one is
being done. The queue only wakes workers: who may run a ledger is decided by its tenure, so a job that comes twice or late does no harm.
Each ledger has a queue of its own, because the queue selects jobs by nothing else: so a worker takes jobs of the ledgers it serves. Lost are
the jobs of a worker without a heartbeat for so long, and those that a worker is recorded to do and does not.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, CursorResult, Engine, TextClause, bindparam, insert, inspect, select, text, update
from sqlalchemy.types import ARRAY, BigInteger, Text

from loadsheet.ledger.postgres import Address, make_schema
from loadsheet.ledger.shared import schema
from loadsheet.problems import LedgerError, SettingsError

TASK = "run"
"""The one task; its arguments are `ledger` (the schema), `shipper`, `reason`, and since when it is wanted (`due`)."""
FILES, SCHEDULE, RESEND = "files", "schedule", "resend"
"""Why a run is wanted: files came, a schedule says so, or something is left of a run that ended early."""

_QUEUE_MAX = 40  # letters of a queue's name: the queue notifies on a channel of that name, which PostgreSQL cuts at 63
_DIGEST = 10
_UNIQUE_VIOLATION = "23505"  # PostgreSQL, appendix A
_VERSION, _TABLES = "queue_version", "tables_version"
_AT_ONCE = 5_000
_HOUR_S = 3_600


class Wanted(NamedTuple):
    """The open job of a ledger: why a run is wanted, and whether a worker is doing it."""

    reason: str
    begun: bool


def want_run(connection: Connection, address: Address, reason: str, due: str) -> None:
    """Have a worker run a ledger; where a job of it waits already, that one is due now. `due` is ISO 8601 UTC."""
    run: dict[str, str | int] = {
        "queue": queue_of(address.schema),
        "task": TASK,
        "ledger": address.schema,
        "shipper": address.shipper,
    }
    run |= {"reason": reason, "due": due, "priority": int(reason == RESEND)}
    while not connection.execute(_IS_DUE, run).rowcount:
        if _unless_another_waits(connection, _DEFER, run) is not None:
            return  # the queue itself notifies workers of a new job
    _wake(connection)


def _unless_another_waits(
    connection: Connection, statement: TextClause, values: Mapping[str, Any]
) -> CursorResult[Any] | None:
    """Execute a statement that makes jobs wait; None, and nothing done, if meanwhile another job of the same ledger came to wait."""
    try:
        with connection.begin_nested():
            return connection.execute(statement, values)
    except LedgerError as error:
        if getattr(error.__cause__, "sqlstate", None) == _UNIQUE_VIOLATION:
            return None
        raise


def wanted(connection: Connection, address: Address) -> Wanted | None:
    """The open job of a ledger, if there is one; of two, the one that is being done."""
    row = connection.execute(_OPEN, {"ledger": address.schema}).first()
    return None if row is None else Wanted(row.reason, row.begun)


def _wake(connection: Connection) -> None:
    """Have all workers look for jobs: the queue itself notifies them of new ones only."""
    connection.execute(_NOTIFY)


def queue_of(ledger: str) -> str:
    """The queue of a ledger (its schema)."""
    name = f"runs:{ledger}"
    if len(name) <= _QUEUE_MAX:
        return name
    return f"{name[: _QUEUE_MAX - _DIGEST - 1]}~{hashlib.sha256(ledger.encode()).hexdigest()[:_DIGEST]}"


def make_tables(engine: Engine, address: Address) -> None:
    """Make the schema and tables that all ledgers of a database share, and those of the queue, unless they are there; brings those of an
    older queue to the present. Raises SettingsError if the queue's library is not installed.
    """
    if find_spec("procrastinate") is None:
        raise SettingsError("a ledger on PostgreSQL needs the extra `fleet`: pip install 'loadsheet[fleet]'")
    with engine.connect() as connection, connection.begin():
        make_schema(connection, address.shared)
        connection.exec_driver_sql(f'set local search_path to "{address.shared}"')
        if not inspect(connection).has_table(schema.shared_meta.name, schema=address.shared):
            schema.metadata.create_all(connection)
        _upgrade(connection)
        _make_queue(connection)


def _upgrade(connection: Connection) -> None:
    """Bring tables that 0.5.0 made to the present: takeovers were those of batches, which are no more."""
    if connection.execute(_UPGRADED, {"name": _TABLES}).rowcount:
        schema.takeovers.drop(connection)
        schema.takeovers.create(connection)


def _make_queue(connection: Connection) -> None:
    from procrastinate import __version__ as newest
    from procrastinate.schema import SchemaManager, migrations_path

    known = connection.scalar(select(schema.shared_meta.c.value).where(schema.shared_meta.c.name == _VERSION))
    if known == newest:
        return
    if known is None:
        _run(connection, SchemaManager.get_schema())
        connection.execute(insert(schema.shared_meta).values(name=_VERSION, value=newest))
        return
    for script in sorted(Path(str(migrations_path)).glob("*.sql")):
        if _parts(known) < _parts(script.name.split("_")[0]) <= _parts(newest):
            _run(connection, script.read_text(encoding="utf-8"))
    if _parts(newest) > _parts(known):
        connection.execute(update(schema.shared_meta).where(schema.shared_meta.c.name == _VERSION).values(value=newest))


def _run(connection: Connection, script: str) -> None:
    connection.connection.dbapi_connection.execute(script)  # type: ignore[union-attr]  # several statements at once


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())


# what is lost, and what is over

FINISH = (
    "with mine as (select id from procrastinate_jobs where id = %(job)s and worker_id = %(worker)s and status = 'doing' for update) "
    "select procrastinate_finish_job_v1(mine.id, cast(%(status)s as procrastinate_job_status), %(remove)s) from mine"
)
"""For the queue's own connection: a job is over, if it is still this worker's; nothing if it is not."""
RETRY = (
    "with mine as (select id from procrastinate_jobs doing where id = %(job)s and worker_id = %(worker)s and status = 'doing' "
    "and not exists (select 1 from procrastinate_jobs other where other.queueing_lock = doing.queueing_lock and other.status = 'todo') "
    "for update) select procrastinate_retry_job_v2(mine.id, now() + make_interval(secs => %(after_s)s), cast(%(priority)s as integer), null, null), "
    'pg_notify(\'procrastinate_any_queue_v1\', \'{"type": "job_inserted", "job_id": 0}\') from mine'
)
"""For the queue's own connection: a job is to be done again after some seconds, if it is still this worker's; nothing if it is not."""
UNCOUNT = (
    "update procrastinate_jobs set attempts = attempts - 1 "
    "where id = %(job)s and worker_id = %(worker)s and status = 'doing' returning id"
)
"""For the queue's own connection, before RETRY: this time is not to count as an attempt."""
URGENT = (
    "select distinct queue_name from procrastinate_jobs where status = 'todo' and priority > 0 and queue_name = any(%(queues)s) "
    "and (scheduled_at is null or scheduled_at <= now())"
)
"""For the queue's own connection: the queues with a job of a dead worker or run that can be done now. A queue holds one waiting job."""


def reap(connection: Connection, takeover_s: float) -> list[int]:
    """Put back the jobs of workers that were not heard of for so long, or are gone; returns their ids. While the server was not there,
    nobody could be heard of: its start counts as a sign of life of all.
    """
    lost = _wait_again(connection, _REAP, {"takeover_s": takeover_s})
    connection.execute(_FORGET, {"takeover_s": takeover_s})
    return lost


def next_death_s(connection: Connection, takeover_s: float) -> float:
    """Seconds until the worker that has been silent for longest counts as dead; `takeover_s` if there is none."""
    left_s = connection.scalar(_NEXT_DEATH, {"takeover_s": takeover_s})
    return takeover_s if left_s is None else max(0.0, float(left_s))


def doing_of(connection: Connection, worker: int) -> set[int]:
    """The jobs that are recorded as under way at this worker (by the queue's own number)."""
    return set(connection.scalars(_DOING, {"worker": worker}))


def put_back(connection: Connection, jobs: Collection[int], worker: int) -> list[int]:
    """Put back those of these jobs that are recorded as under way at this worker; returns their ids."""
    return _wait_again(connection, _PUT_BACK, {"jobs": list(jobs), "worker": worker}) if jobs else []


def _wait_again(connection: Connection, statement: TextClause, values: Mapping[str, Any]) -> list[int]:
    while (put := _unless_another_waits(connection, statement, values)) is None:
        pass  # it looks again, and sees the one that waits now
    back = [int(job) for job in put.scalars()]
    if back:
        _wake(connection)
    return back


def beat(connection: Connection, worker: int) -> bool:
    """Say that this worker lives; False if it is not known any more: it was taken for dead."""
    return connection.execute(_BEAT, {"worker": worker}).rowcount > 0


def held_for_s(connection: Connection, address: Address, takeover_s: float) -> float:
    """Seconds until the holder of a ledger counts as dead, if it stays silent; 0 if nobody holds it, or there is no ledger yet."""
    if connection.scalar(_HAS_TENURES, {"table": f"{address.schema}.tenures"}) is None:
        return 0.0
    held = text(
        "select cast(seen_at as double precision) + :silent_s - extract(epoch from clock_timestamp()) "  # noqa: S608 (our own name)
        f"from \"{address.schema}\".tenures where holder <> ''"
    )
    return max(0.0, float(connection.scalar(held, {"silent_s": takeover_s}) or 0.0))


def left(connection: Connection, queues: Collection[str]) -> int:
    """How many jobs of these queues can be done now."""
    return int(connection.scalar(_LEFT, {"queues": list(queues)}) or 0)


def sweep(engine: Engine, ledgers: Iterable[Address], every_s: float) -> int:
    """See to it that each of these ledgers whose last run died has a job; returns how many had none. Who holds a ledger and was heard of
    within `every_s` is not a dead run; one that died is wanted again once, whatever becomes of that. Of several who sweep, one looks into a
    ledger within `every_s`.
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
        want_run(connection, address, RESEND, died)
        return True


def _died(schema: str) -> TextClause:
    """The beginning of a ledger's last run, if that did not end and nobody holds the ledger."""
    return text(
        f'select started_at from "{schema}".runs where id = (select max(id) from "{schema}".runs) '  # noqa: S608 (our own name)
        f"and finished_at = '' and not exists (select 1 from \"{schema}\".tenures where holder <> '' "
        "and cast(seen_at as double precision) > extract(epoch from clock_timestamp()) - :silent_s)"
    )


def purge(engine: Engine, days: int, ended: Callable[[], bool] = lambda: False) -> int:
    """Remove jobs that ended more than `days` days ago, until none is left or it has `ended`; returns how many. Of several processes one
    does it each hour.
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
_IS_DUE = text(  # one that was put back begins anew
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

# Of jobs of the same ledger one waits; were there another that waits already, this one would be too many.
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
_LEFT = text(
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

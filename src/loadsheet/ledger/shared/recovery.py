"""Recovery: jobs that nobody will do any more are found again, runs that died are wanted again, and old jobs are removed.

Owns: which jobs count as lost: those of a worker that was not heard of for so long, and those that a worker is said to do and does not.
A job that comes twice is harmless: who holds the ledger's tenure runs, the other one ends at once.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, TextClause, bindparam, text
from sqlalchemy.types import ARRAY, BigInteger, Text

from loadsheet.ledger.postgres import Address
from loadsheet.ledger.shared.jobs import RESEND, unless_another_waits, wake, want_run

_AT_ONCE = 5_000
_HOUR_S = 3_600

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
"""For the queue's own connection: a job is to be done again in so many seconds, if it is still this worker's; nothing if it is not."""
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
    """The jobs that this worker (by the queue's own number) is said to do."""
    return set(connection.scalars(_DOING, {"worker": worker}))


def put_back(connection: Connection, jobs: Collection[int], worker: int) -> list[int]:
    """Put back those of these jobs which this worker is said to do; returns their ids."""
    return _wait_again(connection, _PUT_BACK, {"jobs": list(jobs), "worker": worker}) if jobs else []


def _wait_again(connection: Connection, statement: TextClause, values: Mapping[str, Any]) -> list[int]:
    while (put := unless_another_waits(connection, statement, values)) is None:
        pass  # it looks again, and sees the one that waits now
    back = [int(job) for job in put.scalars()]
    if back:
        wake(connection)
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
    within `every_s` is no dead run; one that died is wanted again once, whatever becomes of that. Of several who sweep, one looks into a
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
    """Remove jobs that were over so many days ago, until nothing is left of them or it has `ended`; returns how many. Of several who do so,
    one does within the hour.
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

"""Recovery: jobs that nobody will do any more are found again, and old ones are removed.

Owns: which jobs count as lost (those of a worker that was not heard of for so long, and those that a worker is said to do and does not),
and that a batch which is open has a job. A job that comes twice is harmless: whoever takes the batch second supersedes the first.
"""

from collections.abc import Callable, Collection, Iterable

from sqlalchemy import Connection, Engine, bindparam, select, text
from sqlalchemy.types import ARRAY, BigInteger, Text

from loadsheet.ledger.batches import Batch, Kind
from loadsheet.ledger.fences import OPEN
from loadsheet.ledger.postgres import Address
from loadsheet.ledger.schema import batches
from loadsheet.ledger.shared.jobs import announce_again

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
    "for update) select procrastinate_retry_job_v2(mine.id, now() + make_interval(secs => %(after_s)s), null, null, null), "
    'pg_notify(\'procrastinate_any_queue_v1\', \'{"type": "job_inserted", "job_id": 0}\') from mine'
)
"""For the queue's own connection: a job is to be done again in so many seconds, if it is still this worker's; nothing if it is not."""
UNCOUNT = (
    "update procrastinate_jobs set attempts = attempts - 1 "
    "where id = %(job)s and worker_id = %(worker)s and status = 'doing' returning id"
)
"""For the queue's own connection, before RETRY: this time is not to count as an attempt."""


def reap(connection: Connection, takeover_s: float) -> list[int]:
    """Put back the jobs of workers that were not heard of for so long, or are gone; returns their ids. While the server was not there,
    nobody could be heard of: its start counts as a sign of life of all.
    """
    lost = list(connection.scalars(_REAP, {"takeover_s": takeover_s}))
    connection.execute(_FORGET, {"takeover_s": takeover_s})
    _wake(connection, lost)
    return lost


def doing_of(connection: Connection, workers: Collection[int]) -> set[int]:
    """The jobs that these workers (by the queue's own numbers) are said to do."""
    return set(connection.scalars(_DOING, {"workers": list(workers)}))


def put_back(connection: Connection, jobs: Collection[int], workers: Collection[int]) -> list[int]:
    """Put back those of these jobs which these workers are said to do; returns their ids."""
    back = list(connection.scalars(_PUT_BACK, {"jobs": list(jobs), "workers": list(workers)})) if jobs else []
    _wake(connection, back)
    return back


def beat(connection: Connection, workers: Collection[int]) -> set[int]:
    """Say that these workers live; returns those that are known: the others were taken for dead."""
    return set(connection.scalars(_BEAT, {"workers": list(workers)})) if workers else set()


def left(connection: Connection, queues: Collection[str]) -> int:
    """How many jobs of these queues can be done now."""
    return int(connection.scalar(_LEFT, {"queues": list(queues)}) or 0)


def failing(connection: Connection, ledger: str, tries: int) -> list[tuple[str, int, int]]:
    """The jobs of a ledger (its schema) that wait after they were tried so many times: kind, batch, and how often that was."""
    found = connection.execute(_FAILING, {"ledger": ledger, "tries": tries})
    return [(row.kind, row.batch, row.attempts) for row in found]


def sweep(engine: Engine, ledgers: Iterable[Address], every_s: float) -> int:
    """See to it that each open batch of these ledgers has a job; returns how many had none. Of several who do so, one looks into a ledger
    within `every_s`.
    """
    known = {address.schema: address for address in ledgers}
    with engine.begin() as connection:
        connection.execute(_MARKS, {"ledgers": list(known)})
        mine = list(connection.scalars(_MINE, {"ledgers": list(known), "every_s": every_s}))
    return sum(_sweep(engine, known[schema]) for schema in mine)


def _sweep(engine: Engine, address: Address) -> int:
    here = engine.execution_options(schema_translate_map={None: address.schema})
    with here.begin() as connection:
        lost = [
            Batch(row.id, Kind(row.kind), row.run_id) for row in connection.execute(_LOST, {"ledger": address.schema})
        ]
        if not lost:
            return 0
        connection.execute(_LOCK, {"ledger": address.schema})
        return announce_again(connection, address, lost)


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


def _wake(connection: Connection, jobs: Collection[int]) -> None:
    """Whoever waits for jobs looks at once: the queue itself tells of new ones only."""
    if jobs:
        connection.execute(_NOTIFY)


# Of jobs of the same batch one waits; were there another that waits already, this one would be too many.
_LOST_ONES = (
    "with lost as (select id, row_number() over (partition by coalesce(queueing_lock, id::text) order by id) as place, "
    "exists (select 1 from procrastinate_jobs other where other.queueing_lock = doing.queueing_lock and other.status = 'todo') "
    "as waits from procrastinate_jobs doing where doing.status = 'doing' and "
)
_ARE_PUT_BACK = (
    ") update procrastinate_jobs set status = cast(case when lost.place = 1 and not lost.waits then 'todo' else 'failed' end "
    "as procrastinate_job_status), worker_id = null, attempts = attempts + 1, scheduled_at = null, abort_requested = false "
    "from lost where procrastinate_jobs.id = lost.id and procrastinate_jobs.status = 'doing' returning procrastinate_jobs.id"
)
_SILENT = "greatest(last_heartbeat, pg_postmaster_start_time()) < now() - make_interval(secs => :takeover_s)"
_GONE = "(doing.worker_id is null or doing.worker_id in (select id from procrastinate_workers where " + _SILENT + "))"  # noqa: S608
_REAP = text(_LOST_ONES + _GONE + _ARE_PUT_BACK)
_FORGET = text("delete from procrastinate_workers where " + _SILENT)  # noqa: S608 (nothing of it comes from outside)
_ids = (bindparam("jobs", type_=ARRAY(BigInteger)), bindparam("workers", type_=ARRAY(BigInteger)))
_PUT_BACK = text(_LOST_ONES + "doing.id = any(:jobs) and doing.worker_id = any(:workers)" + _ARE_PUT_BACK).bindparams(
    *_ids
)
_DOING = text("select id from procrastinate_jobs where status = 'doing' and worker_id = any(:workers)").bindparams(
    _ids[1]
)
_BEAT = text(
    "update procrastinate_workers set last_heartbeat = now() where id = any(:workers) returning id"
).bindparams(_ids[1])
_NOTIFY = text(
    "select pg_notify('procrastinate_any_queue_v1', json_build_object('type', 'job_inserted', 'job_id', 0)::text)"
)
_LEFT = text(
    "select count(*) from procrastinate_jobs where status = 'todo' and queue_name = any(:queues) "
    "and (scheduled_at is null or scheduled_at <= now())"
).bindparams(bindparam("queues", type_=ARRAY(Text)))
_FAILING = text(
    "select args ->> 'kind' as kind, cast(args ->> 'batch' as bigint) as batch, attempts from procrastinate_jobs "
    "where status = 'todo' and args ->> 'ledger' = :ledger and attempts >= :tries order by id"
)
_some = bindparam("ledgers", type_=ARRAY(Text))
_MARKS = text(
    "insert into shared_meta (name, value) select 'swept ' || ledger, '0' from unnest(cast(:ledgers as text[])) as ledger "
    "on conflict do nothing"
).bindparams(_some)
_MINE = text(
    "update shared_meta set value = extract(epoch from clock_timestamp())::text from (select name from shared_meta "
    "where name in (select 'swept ' || ledger from unnest(cast(:ledgers as text[])) as ledger) "
    "and cast(value as double precision) <= extract(epoch from clock_timestamp()) - :every_s for update skip locked) as due "
    "where shared_meta.name = due.name and to_regclass(quote_ident(substr(due.name, 7)) || '.batches') is not null "
    "returning substr(due.name, 7)"
).bindparams(_some)
_MY_TURN = text(
    "update shared_meta set value = extract(epoch from clock_timestamp())::text where name = 'swept ' "
    "and cast(value as double precision) <= extract(epoch from clock_timestamp()) - :every_s returning name"
)
_LOCK = text("select pg_advisory_xact_lock(hashtextextended(:ledger, 1))")  # as whoever changes the ledger takes it
_LOST = (
    select(batches.c.id, batches.c.kind, batches.c.run_id)
    .where(
        batches.c.state == OPEN,
        text(
            "not exists (select 1 from procrastinate_jobs job where job.status in ('todo', 'doing') "
            "and job.queueing_lock = :ledger || ':' || batches.id)"
        ),
    )
    .order_by(batches.c.id)
)
_PURGE = text(
    "delete from procrastinate_jobs where id in (select id from procrastinate_jobs job "
    "where status in ('succeeded', 'failed', 'cancelled', 'aborted') and not exists (select 1 from procrastinate_events event "
    "where event.job_id = job.id and event.at > now() - make_interval(days => :days)) limit :most)"
)

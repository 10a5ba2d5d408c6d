"""What ledgers share on a real PostgreSQL, empty for each test, and things put into it as others would put them."""

import itertools
import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from databases import database
from sqlalchemy import insert, text

from loadsheet.ledger import ledger_tables as tables
from loadsheet.ledger.ledger_tables import database_time
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.cluster_status import ClusterStatus, QueueStatus, Takeover, Worker
from loadsheet.ledger.shared.leases import LeaseRequest, RateLimitStatus, SharedRateLimit
from loadsheet.settings import Settings

_numbers = itertools.count(1)


def shared_settings(**more):
    """Settings with shared tables of their own, which are not there yet."""
    return Settings(database=database(), database_schema=f"f{next(_numbers)}", **more)


def shared_memory():
    """What settings say of a fleet of their own."""
    settings = shared_settings()
    return {"database": settings.database, "database_schema": settings.cluster.database_schema}


def a_fleet(**changes):
    """A fleet as it might be seen, without a database."""
    at = datetime(2026, 3, 4, 2, 20, tzinfo=UTC)
    since, seen_at = at - timedelta(hours=2), at - timedelta(seconds=1)
    where = {"process": 7, "version": "1.0", "since": since, "seen": seen_at, "serves": ("acme",), "places": 2}
    one = Worker(
        name="alfa-7-aa",
        host="alfa",
        **where,
        doing=("acme run (files)",),
        done=1_204,
        alive=True,
        ended=False,
    )
    gone = one._replace(name="beta-9-bb", host="beta", doing=(), alive=False)
    taken = Takeover(at - timedelta(minutes=9), "acme", "process 9 on beta", "process 7 on alfa")
    queue = [QueueStatus("acme", "files", 12, 2, 400.0), QueueStatus("bolt", "schedule", 0, 1, 0.0)]
    pace = RateLimitStatus("d41d8cd98f00b204", "https://exchange.example", 50, 8, 0.5, 20.0, "429", 25, 4, 1)
    return replace(ClusterStatus(at, [one, gone], queue, [taken], 57, [pace]), **changes)


@contextmanager
def joined(settings):
    """A connection to the shared tables of these settings, which are made; each statement is committed."""
    with open_shared(settings.database_url, makes=True) as engine, engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


class Fleet:
    """Puts things into the shared tables; ages are in seconds before now, by the database's clock."""

    def __init__(self, connection):
        self.connection = connection

    def ago(self, seconds):
        return database_time(self.connection) - seconds

    def put(self, table, **values):
        self.connection.execute(insert(getattr(tables, table)).values(values))

    def worker(self, name, *, seen=1, age=600, ended=None, **more):
        given = {"host": name.partition("-")[0], "process": 7, "version": "1.0", "places": 2, **more}
        given |= {"started": self.ago(age), "seen": self.ago(seen), "ended": ended and self.ago(ended)}
        for name_of_list in ("serves", "doing"):
            given[name_of_list] = json.dumps(given.get(name_of_list, []))
        self.put("workers", name=name, **given)

    def takeover(self, after, *, age=60, **more):
        given = {"shipper": "acme", "before": "process 9 on beta"} | more
        self.put("takeovers", at=self.ago(age), after=after, **given)

    def pace(
        self, exchange="https://exchange.example", token="t", *, per_second=50, connections=8, wants=(), setback=None
    ):
        """A pace with the leases of these workers, each of whom wants so many calls a second and connections."""
        engine = self.connection.engine
        pace = SharedRateLimit(engine, exchange, token, "")
        pace.set_limits(per_second, connections)
        for worker, wanted, wanted_connections in wants:
            SharedRateLimit(engine, exchange, token, worker).renew(LeaseRequest(wanted, wanted_connections))
        if setback:
            pace.report_overload(0.0, *setback)
        return pace.name

    def job(self, shipper, reason="files", *, status="todo", age=0):
        """A job as `ledger.shared.jobs` announces it."""
        job = self.connection.scalar(
            text(
                "insert into procrastinate_jobs (queue_name, task_name, args, status) values ('runs:x', 'run', cast(:args as jsonb), "
                "cast(:status as procrastinate_job_status)) returning id"
            ),
            {"args": json.dumps({"ledger": "x", "shipper": shipper, "reason": reason}), "status": status},
        )
        self.connection.execute(
            text(
                "update procrastinate_events set at = clock_timestamp() - :age * interval '1 second' where job_id = :job"
            ),
            {"age": age, "job": job},
        )

"""Of one ledger at most one job waits, also when two make one wait in the same moment: who comes second finds the other's."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from worker_processes import house, until, want, working

from loadsheet.cluster.job_queue import Requeue
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import jobs

EARLIER, NOW = "2026-11-23T08:00:00.000Z", "2026-11-23T09:00:00.000Z"
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
STATES = "select status::text, args ->> 'due' from procrastinate_jobs order by id"
LOST = text("update procrastinate_jobs set status = 'doing', worker_id = null")


@pytest.fixture
def lost(acme, engine):
    """The ledger of a shipper, which has a job whose worker is gone."""
    address = address_of(acme.database_url)
    with engine.begin() as connection:
        jobs.request_run(connection, address, jobs.FILES, EARLIER)
        connection.execute(LOST)
    return address


def at_once(engine, ask, first, second):
    """Do the first, and begin the second before the first is committed; returns what the second returned."""
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            first(connection)
            other = pool.submit(transaction, engine, second)
            until(lambda: ask(WAITING) == [(1,)] or other.done())
        return other.result(timeout=60)


def transaction(engine, done):
    with engine.begin() as connection:
        return done(connection)


def want_now(address):
    return lambda connection: jobs.request_run(connection, address, jobs.FILES, NOW)


def reap(connection):
    return jobs.reap(connection, 0.0)


def test_a_run_is_wanted_while_its_lost_job_is_put_back(engine, ask, lost):
    at_once(engine, ask, reap, want_now(lost))
    assert ask(STATES) == [("todo", NOW)], "the job that was put back is due now"


def test_a_lost_job_is_put_back_while_its_run_is_wanted(engine, ask, lost):
    assert len(at_once(engine, ask, want_now(lost), reap)) == 1
    assert ask(STATES) == [("failed", EARLIER), ("todo", NOW)]


def test_a_run_is_wanted_twice_at_once(acme, engine, ask):
    address = address_of(acme.database_url)
    at_once(engine, ask, want_now(address), want_now(address))
    assert ask(STATES) == [("todo", NOW)]


@pytest.mark.journey
def test_a_run_is_wanted_while_a_worker_puts_its_job_back(tmp_path, database_url, engine, ask):
    """Procrastinate's issue 1408: a job that goes back to `todo` collides with one of its queueing lock that waits already."""
    acme = house(tmp_path, database_url, "acme", takeover_s=2.0)[
        "acme"
    ]  # as often jobs are looked for that nobody does
    address, goes_on, times = address_of(acme.database_url), threading.Event(), []

    def cannot_go_on_at_first(_settings, _due, _stopping):
        times.append(time.monotonic())
        if len(times) == 1:
            goes_on.wait(60)
            raise Requeue

    want(acme)
    with working(tmp_path, run=cannot_go_on_at_first) as worker:
        until(lambda: times, worker=worker)
        with engine.begin() as connection:
            want_now(address)(connection)
            goes_on.set()
            until(lambda: ask(WAITING) == [(1,)], worker=worker)
        until(lambda: [status for status, _ in ask(STATES)] == ["failed", "succeeded"], worker=worker)
    assert len(times) == 2
    assert not [said for said in worker.said if "waits" in said], "the database was there all the time"

"""Workers that are killed, paused or cut off from their database, and jobs that two want at once: what they had in hand goes on in time, once."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest
from command_processes import shared_nursery
from databases import forget_engines
from fleet_processes import TOKEN, exchange
from orders import MAPPINGS, write_orders
from sqlalchemy import text
from worker_processes import asking, began, house, process, until, want, working

from loadsheet.cluster.job_queue import Requeue
from loadsheet.ledger.ledger_opening import create_on_server
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import jobs
from loadsheet.settings import Settings, shippers_in

STATES = "select status::text from procrastinate_jobs order by id"


@pytest.fixture
def acme(tmp_path, database_url):
    """Here those who are lost are soon taken over."""
    return house(tmp_path, database_url, "acme", takeover_s=1.0)["acme"]


@pytest.mark.journey
def test_what_workers_had_in_hand_that_are_killed_or_paused_others_do(tmp_path, database_url, ask):
    found = house(tmp_path, database_url, "acme", "zeta", takeover_s=1.0)
    (tmp_path / "hold").touch()
    with process(tmp_path, places=1) as killed, process(tmp_path, places=1) as paused:
        until(lambda: len(ask("select 1 from workers")) == 2)
        for settings in found.values():
            want(settings)
        until(lambda: len(began(tmp_path)) == 2)
        killed.kill()
        killed.wait()
        paused.send_signal(signal.SIGSTOP)
        with working(tmp_path) as other:
            until(lambda: len(began(tmp_path)) == 4, worker=other)
            paused.send_signal(signal.SIGCONT)
            (tmp_path / "hold").unlink()
            until(lambda: ask(STATES) == [("succeeded",)] * 2, worker=other)
        assert sorted(shipper for shipper, _ in began(tmp_path)) == ["acme", "acme", "zeta", "zeta"]
        want(found["acme"])
        until(lambda: len(began(tmp_path)) == 5)
        assert began(tmp_path)[-1][1].startswith(f"{paused.pid}-"), "the one that was paused works on"
        paused.terminate()
        said = paused.stderr.read().splitlines()
        assert paused.wait() == 0
    assert [line for line in said if "worker" not in line and "stopped" not in line] == []
    assert ask("select distinct status::text from procrastinate_jobs") == [("succeeded",)]


def test_what_a_dead_worker_had_in_hand_goes_before_all_that_waits_although_its_row_is_gone(
    tmp_path, database_url, ask
):
    """Procrastinate's issue 1518: a job stays `doing` for ever when the row of its dead worker was pruned."""
    for settings in house(tmp_path, database_url, "acme", "bolt", "zeta", takeover_s=1.0).values():
        want(settings)
    ask("insert into procrastinate_workers (last_heartbeat) values (now())")
    ask(
        "update procrastinate_jobs set status = 'doing', worker_id = (select max(id) from procrastinate_workers)"
        " where args ->> 'shipper' = 'zeta'"
    )
    ask("delete from procrastinate_workers")
    with working(tmp_path, places=1) as worker:
        until(lambda: ask(STATES) == [("succeeded",)] * 3, worker=worker)
    assert [shipper for shipper, _ in began(tmp_path)] == ["zeta", "acme", "bolt"]


def test_a_worker_waits_for_its_database_and_goes_on(tmp_path, own_server):
    url = own_server.new_database()
    acme = house(tmp_path, url, "acme", takeover_s=2.0)["acme"]
    connected = asking(url)
    (tmp_path / "hold").touch()
    want(acme)
    with working(tmp_path) as worker:
        until(lambda: began(tmp_path), worker=worker)
        own_server.stop("immediate")
        until(lambda: len(worker.said) > 1, worker=worker)
        own_server.start()
        (tmp_path / "hold").unlink()
        until(lambda: "is back" in worker.said[-1], worker=worker)
        until(lambda: connected(STATES) == [("succeeded",)], worker=worker)
        want(acme)
        until(lambda: connected(STATES) == [("succeeded",)] * 2, worker=worker)
    told = worker.said[1:-1]  # on a slow machine a connection from before is found to be gone after others came back
    assert all("the worker waits" in away for away in told[::2])
    assert set(told[1::2]) == {"the database is back; the worker continues"}
    assert len(told) % 2 == 0


@pytest.mark.sweep
def test_a_restart_of_the_database_makes_nobody_dead_and_a_worker_can_end_while_it_is_away(tmp_path, own_server):
    """Nobody could be heard of in between: whoever comes first afterwards must not take the others for dead."""
    url = own_server.new_database()
    acme = house(tmp_path, url, "acme", takeover_s=10.0)["acme"]
    want(acme)
    connected = asking(url)
    connected("insert into procrastinate_workers (last_heartbeat) values (now() - interval '1 hour')")
    connected("update procrastinate_jobs set status = 'doing', worker_id = 1")
    own_server.stop()
    own_server.start()
    try:
        with working(tmp_path) as worker:
            until(lambda: worker.said, worker=worker)
            beats = connected("select seen from workers")
            until(lambda: connected("select seen from workers") != beats, worker=worker)
            assert began(tmp_path) == []
            own_server.stop()
            until(lambda: len(worker.said) > 1, worker=worker)
    finally:
        own_server.start()
    assert worker.code == 0


def test_a_worker_that_was_forgotten_enters_again(tmp_path, acme, ask):
    with working(tmp_path) as worker:
        until(lambda: ask("select count(*) from procrastinate_workers") == [(1,)], worker=worker)
        ask("delete from procrastinate_workers")
        ask("delete from workers")
        until(lambda: ask("select count(*) from procrastinate_workers") == [(1,)], worker=worker)
        want(acme)
        until(lambda: ask(STATES) == [("succeeded",)], worker=worker)
        assert ask("select count(*) from workers") == [(1,)]


@pytest.mark.sweep
def test_a_worker_that_is_asked_to_stop_is_not_taken_for_dead_before_its_run_is_over(tmp_path, acme, ask):
    """Procrastinate's issue 1543: a worker that shuts down stops its heartbeat before its last job is done."""
    over = threading.Event()
    ran = []

    def run(_settings, _due, _stopping):
        ran.append("began")
        over.wait(30)

    with working(tmp_path, run=run) as first:
        want(acme)
        until(lambda: ran, worker=first)
        first.stopping.set()
        with working(tmp_path, run=run) as second:
            time.sleep(3 * acme.cluster.takeover_s)
            assert ran == ["began"]
            over.set()
            until(lambda: ask(STATES) == [("succeeded",)], worker=second)
    assert ran == ["began"]


EARLIER, NOW = "2026-11-23T08:00:00.000Z", "2026-11-23T09:00:00.000Z"
WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
STATES_DUE = "select status::text, args ->> 'due' from procrastinate_jobs order by id"
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
    return jobs.requeue_jobs_of_dead_workers(connection, 0.0)


def test_a_run_is_wanted_while_its_lost_job_is_put_back(engine, ask, lost):
    at_once(engine, ask, reap, want_now(lost))
    assert ask(STATES_DUE) == [("todo", NOW)], "the job that was put back is due now"


def test_a_lost_job_is_put_back_while_its_run_is_wanted(engine, ask, lost):
    assert len(at_once(engine, ask, want_now(lost), reap)) == 1
    assert ask(STATES_DUE) == [("failed", EARLIER), ("todo", NOW)]


def test_a_run_is_wanted_twice_at_once(acme, engine, ask):
    address = address_of(acme.database_url)
    at_once(engine, ask, want_now(address), want_now(address))
    assert ask(STATES_DUE) == [("todo", NOW)]


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
        until(lambda: [status for status, _ in ask(STATES_DUE)] == ["failed", "succeeded"], worker=worker)
    assert len(times) == 2
    assert not [said for said in worker.said if "waits" in said], "the database was there all the time"


TAKEOVER_S, START_S = 2.0, 1.0
SHIPPERS = ("dies", "goes", "waits")


class Slowness:
    """How many times longer than alone a computation takes on this machine, while the `with` block lasts."""

    def __enter__(self):
        self._wall_s = self._cpu_s = 1e-9
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure)
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._ended.set()
        self._thread.join()

    def _measure(self):
        while not self._ended.wait(0.03):
            began, cpu = time.monotonic(), time.thread_time()
            while time.thread_time() - cpu < 0.005:
                pass
            self._wall_s += time.monotonic() - began
            self._cpu_s += time.thread_time() - cpu

    @property
    def factor(self):
        """1 on a machine that does nothing else."""
        return max(1.0, self._wall_s / self._cpu_s)


@pytest.fixture
def fleet(tmp_path, database_url):
    """What asks the database of three shippers with orders, sent at 20 calls a second together."""
    with exchange(tmp_path / "exchange") as (url, _):
        given = {"database": database_url, "exchange": url, "mappings": str(MAPPINGS), "reading.process": "none"}
        given |= {"cluster.takeover_s": TAKEOVER_S, "cluster.worker_places": 1, "arrival.settle_s": 0}
        given |= {"dispatch.canary": 0, "dispatch.connections": 4, "assumptions.calls_per_second": 20}
        lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
        lines += [f"[shippers.{name}]" for name in SHIPPERS]
        (tmp_path / "loadsheet.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for number, name in enumerate(shippers_in(tmp_path / "loadsheet.toml")):
            settings = Settings.load(tmp_path / "loadsheet.toml", shipper=name)
            write_orders(tmp_path / "inbox" / name, 900, first=900 * number)
            create_on_server(settings.database_url)
        forget_engines()

        def ask(statement):
            with psycopg.connect(database_url, autocommit=True) as connection:
                return connection.execute(statement).fetchall()

        yield ask


def begin(folder, ask, name):
    """Want a run; returns the process that holds the ledger once it has sent something."""
    settings = Settings.load(folder / "loadsheet.toml", shipper=name)
    want(settings)
    if name != "waits":
        until(lambda: ask(f"select 1 from loadsheet_{name}.entries where state = 'accepted' limit 1"))
        return int(ask(f"select holder from loadsheet_{name}.tenures")[0][0].split()[1])
    return 0


def kill_all(ask, workers):
    """Kill the workers and the runs that hold a ledger."""
    for worker in workers:
        worker.kill()
    for name in SHIPPERS:
        for (holder,) in ask(f"select holder from loadsheet_{name}.tenures where holder <> ''"):
            with suppress(ProcessLookupError):
                os.kill(int(holder.split()[1]), signal.SIGKILL)


@pytest.mark.sweep
def test_another_worker_takes_over_in_time_whatever_runs_and_waits(tmp_path, fleet):
    workers = []
    try:
        runs = []
        for name in ("dies", "goes"):
            workers.append(shared_nursery().start(tmp_path, "worker", LOADSHEET_TOKEN=TOKEN))
            heard = len(workers)
            until(lambda heard=heard: len(fleet("select 1 from loadsheet_fleet.workers")) == heard)
            runs.append(begin(tmp_path, fleet, name))
        begin(tmp_path, fleet, "waits")
        with Slowness() as machine:
            ((killed,),) = fleet("select extract(epoch from clock_timestamp())::float")
            os.kill(runs[0], signal.SIGKILL)
            workers[0].kill()
            ((taken, shipper),) = until(lambda: fleet("select at, shipper from loadsheet_fleet.takeovers"))
        print(f"taken over in {taken - killed:.2f} s on a machine {machine.factor:.1f} times slower than idle")
        assert shipper == "dies"
        took_s = taken - killed
        assert took_s >= TAKEOVER_S / 2, "nobody who lives is taken for dead"
        assert took_s <= TAKEOVER_S + START_S * machine.factor, f"{took_s:.2f} s, the machine {machine.factor:.1f}"
        ((holder,),) = fleet("select holder from loadsheet_goes.tenures")
        assert holder.split()[1] == str(runs[1]), "the run that had the only place goes on"

        following = f"select 1 from loadsheet_goes.tenures where holder <> '' and holder not like '%{runs[1]}%'"
        with Slowness() as machine:
            killed = time.monotonic()
            os.kill(runs[1], signal.SIGKILL)
            until(lambda: fleet(following))
            took_s = time.monotonic() - killed
        assert took_s <= TAKEOVER_S + START_S * machine.factor, f"{took_s:.2f} s, the machine {machine.factor:.1f}"
        print(f"the run alone: {took_s:.2f} s")
    finally:
        kill_all(fleet, workers)

"""How soon a run goes on whose process is killed: with its worker, while each place is taken and other runs wait, and alone."""

import json
import os
import signal
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime

import psycopg
import pytest
from command_processes import shared_nursery
from fleet_processes import TOKEN, exchange, until
from orders import MAPPINGS, write_orders

from loadsheet.ledger.codec import stamp
from loadsheet.ledger.ledger_opening import forget_engines, make
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import jobs, open_shared
from loadsheet.settings import Settings, shippers_in

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
    with exchange(shared_nursery(), tmp_path / "exchange") as (url, _):
        given = {"database": database_url, "exchange": url, "mappings": str(MAPPINGS), "reading.process": "none"}
        given |= {"cluster.takeover_s": TAKEOVER_S, "cluster.worker_places": 1, "arrival.settle_s": 0}
        given |= {"dispatch.canary": 0, "dispatch.connections": 4, "assumptions.calls_per_second": 20}
        lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
        lines += [f"[shippers.{name}]" for name in SHIPPERS]
        (tmp_path / "loadsheet.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for number, name in enumerate(shippers_in(tmp_path / "loadsheet.toml")):
            settings = Settings.load(tmp_path / "loadsheet.toml", shipper=name)
            write_orders(tmp_path / "inbox" / name, 900, first=900 * number)
            make(settings.database_url)
        forget_engines()

        def ask(statement):
            with psycopg.connect(database_url, autocommit=True) as connection:
                return connection.execute(statement).fetchall()

        yield ask


def begin(folder, ask, name):
    """Want a run; returns the process that holds the ledger once it has sent something."""
    settings = Settings.load(folder / "loadsheet.toml", shipper=name)
    with open_shared(settings.database_url) as engine, engine.begin() as connection:
        jobs.request_run(connection, address_of(settings.database_url), jobs.FILES, stamp(datetime.now(UTC)))
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


@pytest.mark.journey
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

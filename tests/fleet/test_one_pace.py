"""One pace for many processes over one PostgreSQL: what arrives at the exchange, whoever comes, goes and stands still."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import databases
import pytest
import scripted
import sendings
from departures import Departures, busiest
from scripted import Scripted, accepts_after, says

from loadsheet.dispatch.leasing import FleetPace
from loadsheet.ledger import open_ledger
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.shared.leases import TERM_S
from loadsheet.ledger.shared.paces import PaceOf, told

PER_SECOND = 100
LATE_S = 0.5
PROGRAM = """
import sys
sys.path[:0] = {path!r}
import sendings
from departures import listen
from loadsheet.dispatch import Client, send
from loadsheet.dispatch.leasing import FleetPace
from loadsheet.ledger import open_ledger
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.paces import PaceOf
listen({left!r})
with open_ledger("sqlite:///{ledger}") as ledger:
    run = ledger.begin_run()
    options = sendings.settings(connections=30, call_timeout_s=20, assumptions={{"calls_per_second": {rate}}})
    pace = PaceOf(shared_engine(address_of("{database}")), "{url}", sendings.TOKEN, "{name}")
    pace.begin({rate}, 30)
    print("ready", flush=True)
    sys.stdin.readline()
    with Client("{url}", "{name}", options) as client, FleetPace(pace.renew, pace.setback) as fleet:
        report = send(ledger, client, run, options, fleet_pace=fleet)
        print(report.accepted, report.unknown, flush=True)
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    url = databases.new_url("postgresql", tmp_path_factory.mktemp("pace"))
    engine = shared_engine(address_of(url))
    make_tables(engine, address_of(url))
    engine.dispose()
    return url


class Arrivals:
    """A sink that answers after 20 ms, and knows when each call came, and from whom: here each has a token of his own."""

    def __init__(self):
        self.moments, self.by = [], defaultdict(list)

    def __call__(self, _number, request):
        now = time.monotonic()
        self.moments.append(now)
        self.by[request.headers["authorization"].removeprefix("Bearer ")].append(now)
        return accepts_after(0.02)


def planned(folder, count):
    path = folder / "ledger.db"
    path.parent.mkdir()
    with open_ledger(f"sqlite:///{path}") as ledger:
        sendings.orders(ledger, ledger.begin_run(), count)
    return path


def start(tmp_path, name, url, database, count):
    """A process that has something to send; it waits for a line."""
    path = [*sys.path, str(Path(scripted.__file__).parent)]
    ledger = planned(tmp_path / name, count)
    given = {"ledger": ledger, "database": database, "url": url, "name": name, "rate": PER_SECOND}
    program = PROGRAM.format(path=path, left=str(tmp_path / "left"), **given)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", program], **pipes)


def go(*processes):
    """Let them begin together, once all of them can."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def end(process):
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return [int(word) for word in said.split()]


def check_rate(tmp_path, script, count):
    """In any second the rate leaves, within 5 %; what arrives is seen by a thread that may have to wait."""
    left = Departures(tmp_path / "left").moments()
    assert len(left) == count
    assert busiest(left) <= PER_SECOND * 1.05
    assert busiest(sorted(script.moments), 1 - LATE_S) <= PER_SECOND * 1.05


def test_three_processes_send_at_the_one_rate_and_use_it(tmp_path, database):
    script, counts = Arrivals(), (150, 150, 150)
    with Scripted(script) as server:
        processes = [start(tmp_path, f"w{number}", server.url, database, count) for number, count in enumerate(counts)]
        go(*processes)
        assert [end(process) for process in processes] == [[count, 0] for count in counts]
    check_rate(tmp_path, script, 450)
    took = max(script.moments) - min(script.moments)
    assert sum(counts) / took >= PER_SECOND * 0.2, "over 90 where there is a processor for each"


def test_a_process_that_stood_still_sends_nothing_on_its_old_lease(tmp_path, database):
    script = Arrivals()
    with Scripted(script) as server:
        one, other = (start(tmp_path, name, server.url, database, 200) for name in ("stops", "goes-on"))
        go(one, other)
        while min(len(script.by["stops"]), len(script.by["goes-on"])) < 20:
            time.sleep(0.005)
        os.kill(one.pid, signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            time.sleep(TERM_S + 0.4)
            resumed = time.monotonic()
        finally:
            os.kill(one.pid, signal.SIGCONT)
        assert [end(one), end(other)] == [[200, 0], [200, 0]]
    assert not [moment for moment in script.by["stops"] if stopped + 1 < moment < resumed]
    check_rate(tmp_path, script, 400)


def test_a_429_to_one_slows_all_within_a_lease_term(tmp_path, database):
    """Two who send on engines of their own; the first of them is told to wait for 3 s."""
    protested, before = [], []

    def script(number, _request):
        before.append(time.monotonic())
        if number == 80:
            protested.append(time.monotonic())
            return says(429, b"", "Retry-After: 3\r\n")
        return accepts_after(0.02)

    def sends(name, url, stopping):
        with open_ledger(f"sqlite:///{planned(tmp_path / name, 300)}") as ledger:
            run, options = ledger.begin_run(), sendings.settings(connections=16, canary=0)
            engine = shared_engine(address_of(database))
            pace = PaceOf(engine, url, sendings.TOKEN, name)
            pace.begin(PER_SECOND, 16)
            with sendings.client_of(url, options) as client, FleetPace(pace.renew, pace.setback) as fleet:
                sendings.send(ledger, client, run, options, fleet_pace=fleet, stopping=stopping)
            engine.dispose()

    stopping = []
    with Scripted(script) as server:
        threads = [threading.Thread(target=sends, args=(name, server.url, stopping)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        while not protested:
            time.sleep(0.01)
        time.sleep(4.4)
        while before[-1] <= protested[0] + 3.0:
            time.sleep(0.01)
        engine = shared_engine(address_of(database))
        with engine.begin() as connection:
            (shown,) = [one for one in told(connection) if one.exchange == server.url]
        engine.dispose()
        stopping.append(1)
        for thread in threads:
            thread.join()
    (at,) = protested
    moments = [moment - at for moment in before]
    assert not [moment for moment in moments if TERM_S <= moment < 2.9], "the other heard of it"
    assert sum(0 < moment < 2.9 for moment in moments) < 60
    assert sum(3.0 < moment < 4.2 for moment in moments) < 1.2 * 0.65 * PER_SECOND, "half as fast at first"
    assert shown.share < 0.65
    assert "429" in shown.reason

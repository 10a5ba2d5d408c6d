"""One pace for many processes over one PostgreSQL: what arrives at the exchange, whoever comes, goes and stands still."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import databases
import pytest
import ready_entries
import scripted_exchange
from call_times import Departures, busiest
from pydantic import SecretStr
from scripted_exchange import Scripted, accepts_after
from shared_ledger import joined, shared_settings

from loadsheet.ledger import open_ledger
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.shared.leases import TERM_S, read_paces
from loadsheet.run_resources import shared_rate

PER_SECOND = 100
LATE_S = 0.5
PROGRAM = """
import sys
sys.path[:0] = {path!r}
import ready_entries
from call_times import listen
from loadsheet.dispatch import Client, SendOptions, send
from loadsheet.dispatch.rate_limiter import SharedRate
from loadsheet.ledger import open_ledger
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.leases import SharedPace
listen({left!r})
with open_ledger("sqlite:///{ledger}") as ledger:
    run = ledger.begin_run()
    options = ready_entries.settings(connections=30, call_timeout_s=20, assumptions={{"calls_per_second": {rate}}})
    pace = SharedPace(shared_engine(address_of("{database}")), "{url}", ready_entries.TOKEN, "{name}")
    pace.begin({rate}, 30)
    print("ready", flush=True)
    sys.stdin.readline()
    with Client("{url}", "{name}", options) as client, SharedRate(pace.renew, pace.setback) as fleet:
        report = send(ledger, client, run, options, SendOptions(shared_rate=fleet))
        print(report.accepted, report.unknown, flush=True)
"""


@pytest.fixture
def database(tmp_path):
    url = databases.new_url("postgresql", tmp_path)
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


def start(tmp_path, name, url, database, count):
    """A process that has something to send; it waits for a line."""
    path, ledger = [*sys.path, str(Path(scripted_exchange.__file__).parent)], tmp_path / f"{name}.db"
    with open_ledger(f"sqlite:///{ledger}") as opened:
        ready_entries.orders(opened, opened.begin_run(), count)
    given = {"ledger": ledger, "database": database, "url": url, "name": name, "rate": PER_SECOND}
    program = PROGRAM.format(path=path, left=str(tmp_path / "left"), **given)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", program], **pipes)


def end(process):
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return [int(word) for word in said.split()]


@pytest.mark.journey
def test_a_process_that_stood_still_sends_nothing_on_its_old_lease(tmp_path, database):
    """And all the while no more leaves in any second than one may send alone, within 5 %."""
    script = Arrivals()
    with Scripted(script) as server:
        one, other = (start(tmp_path, name, server.url, database, 150) for name in ("stops", "goes-on"))
        for process in (one, other):
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            process.stdin.write("go\n")
            process.stdin.flush()
        while min(len(script.by["stops"]), len(script.by["goes-on"])) < 20:
            time.sleep(0.005)
        os.kill(one.pid, signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            time.sleep(TERM_S + 0.4)
            resumed = time.monotonic()
        finally:
            os.kill(one.pid, signal.SIGCONT)
        assert [end(one), end(other)] == [[150, 0], [150, 0]]
    assert not [moment for moment in script.by["stops"] if stopped + 1 < moment < resumed]
    left = Departures(tmp_path / "left").moments()
    assert len(left) == 300
    assert busiest(left) <= PER_SECOND * 1.05
    assert busiest(sorted(script.moments), 1 - LATE_S) <= PER_SECOND * 1.05  # a thread sees them that may have to wait


@pytest.fixture(scope="module")
def base():
    settings = shared_settings()
    with open_shared(settings.database_url, makes=True):
        return settings


@pytest.mark.parametrize(
    ("rate", "says"), [(50, []), (20, ["from 50 calls a second over 8 connections to 20 calls a second"])]
)
def test_the_pace_has_the_figures_of_who_began_last_and_a_change_is_said(base, rate, says):
    said = []
    for shipper, per_second in (("acme", 50), ("bolt", rate)):
        assumptions = base.assumptions.model_copy(update={"calls_per_second": per_second})
        given = {"shipper": shipper, "exchange": f"https://{rate}.example", "connections": 8}
        given["token"] = SecretStr("token-of-all")
        with shared_rate(base.model_copy(update={**given, "assumptions": assumptions}), said.append):
            pass
    with joined(base) as connection:
        figures = {one.exchange: (one.per_second, one.connections) for one in read_paces(connection)}
    assert figures[f"https://{rate}.example"] == (rate, 8)
    assert len(said) == len(says)
    assert all(expected in text for expected, text in zip(says, said, strict=True))

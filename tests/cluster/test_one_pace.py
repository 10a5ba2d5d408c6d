"""One pace for many processes: what arrives at the exchange over one PostgreSQL, whoever comes, goes and stands still; and the same on a clock that costs no time."""

import heapq
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import partial
from pathlib import Path

import databases
import pytest
import ready_entries
import scripted_exchange
from call_times import Departures, busiest
from pydantic import SecretStr
from scripted_exchange import Scripted, accepts_after
from shared_ledger import joined, shared_settings

from loadsheet.dispatch.shared_rate import SharedRate
from loadsheet.errors import LedgerError
from loadsheet.ledger import open_ledger
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.jobs import make_tables
from loadsheet.ledger.shared.leases import TERM_S, Lease, RateLimitState, grant, read_rate_limits
from loadsheet.run_resources import shared_rate

PER_SECOND = 100
LATE_S = 0.5
PROGRAM = """
import sys
sys.path[:0] = {path!r}
import ready_entries
from call_times import listen
from loadsheet.dispatch import Client, SendOptions, send
from loadsheet.dispatch.shared_rate import SharedRate
from loadsheet.ledger import open_ledger
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared.leases import SharedRateLimit
listen({left!r})
with open_ledger("sqlite:///{ledger}") as ledger:
    run = ledger.begin_run()
    options = ready_entries.settings(connections=30, call_timeout_s=20, assumptions={{"calls_per_second": {rate}}})
    pace = SharedRateLimit(shared_engine(address_of("{database}")), "{url}", ready_entries.TOKEN, "{name}")
    pace.set_limits({rate}, 30)
    print("ready", flush=True)
    sys.stdin.readline()
    with Client("{url}", "{name}", options) as client, SharedRate(pace.renew, pace.report_overload) as fleet:
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


@pytest.mark.sweep
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
def test_the_pace_has_the_figures_of_who_began_last_and_a_change_is_reported(base, rate, says):
    said = []
    for shipper, per_second in (("acme", 50), ("bolt", rate)):
        assumptions = base.assumptions.model_copy(update={"calls_per_second": per_second})
        given = {"shipper": shipper, "exchange": f"https://{rate}.example", "connections": 8}
        given["token"] = SecretStr("token-of-all")
        with shared_rate(base.model_copy(update={**given, "assumptions": assumptions}), said.append):
            pass
    with joined(base) as connection:
        figures = {one.exchange: (one.per_second, one.connections) for one in read_rate_limits(connection)}
    assert figures[f"https://{rate}.example"] == (rate, 8)
    assert len(said) == len(says)
    assert all(expected in text for expected, text in zip(says, said, strict=True))


class World:
    """A clock, what happens when, and the tables of one pace."""

    def __init__(self, rate, seed, connections=1000):
        self.now, self.terms, self.standings = 1000.0, RateLimitState(rate, connections), {}
        self.dice = random.Random(seed)
        self.left = []
        self.is_down = False
        self._events, self._order = [], itertools.count()

    def clock(self):
        return self.now

    def at(self, moment, event):
        heapq.heappush(self._events, (moment, next(self._order), event))

    def run(self, until):
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = until

    def renew(self, worker, ask):
        if self.is_down:
            raise LedgerError("the database is away")
        given, short = grant(self.terms, list(self.standings.values()), worker, ask, self.now)
        self.standings[worker] = given
        paused_s = max(0.0, self.terms.paused_until - self.now)
        share = self.terms.share_at(self.now)
        return Lease(given.number, given.per_second, given.connections, given.until, TERM_S, paused_s, share, short)

    def report_overload(self, age_s, pause_s, _reason):
        if self.is_down:
            raise LedgerError("the database is away")
        self.terms = self.terms.after_overload(self.now - age_s, pause_s, self.now)

    def busiest(self):
        moments = sorted(self.left)
        return max((bisect_left(moments, one + 1 - 1e-9) - place for place, one in enumerate(moments)), default=0)

    def between(self, since, until):
        moments = sorted(self.left)
        return bisect_right(moments, until) - bisect_left(moments, since)


class Process:
    """A process that sends all it may from `since` until `until`, and may stand still for a while; then its thread does, too."""

    def __init__(self, world, name, since, until, still=None):
        self._world, self._until, self._still = world, until, still
        self._fleet = SharedRate(partial(world.renew, name), world.report_overload, clock=world.clock)
        self.protests = []
        world.at(since, self._begin)

    def _begin(self):
        self._joined = self._fleet.join()
        self._gate = self._joined.__enter__()
        self._renew()
        self._send()

    def _later(self, seconds, event):
        """So much later, or whenever it is woken again."""
        due = self._world.now + seconds
        if self._still and self._still[0] <= due < self._still[1]:
            due = self._still[1]
        self._world.at(due, event)

    def _renew(self):
        if self._world.now >= self._until:
            self._joined.__exit__(None, None, None)
        after = self._fleet._step()
        if after is not None:
            self._later(after + self._world.dice.random() * 0.01, self._renew)

    def _send(self):
        world = self._world
        if world.now >= self._until:
            return
        while self._gate.try_acquire(world.now):
            world.left.append(world.now)
            self._gate.call_finished()
        if self.protests and self.protests[0] <= world.now:
            self.protests.pop(0)
            self._gate.report_overload(0.05, 2.0, "busy")
            self._renew()
        self._later(max(self._gate.delay_s(world.now), 0.0005) + world.dice.random() * 0.003, self._send)


@pytest.mark.parametrize("rate", [3, 30, 250])
@pytest.mark.parametrize("number", [1, 3, 8])
def test_what_leaves_in_any_second_is_within_5_percent_of_the_rate_and_uses_it(rate, number):
    world = World(rate, f"{rate} {number}")
    for place in range(number):
        Process(world, f"w{place}", 1000.0 + place * 0.05, 1100.0)
    world.run(1020.0)
    assert world.busiest() <= max(rate * 1.05, rate + 1)
    assert world.between(1003.0, 1020.0) >= 17 * rate * (0.95 if rate > number else 0.9 if rate == number else 0.8)


@pytest.mark.parametrize("seed", range(24))
def test_whoever_comes_goes_dies_and_stands_still_the_rate_is_kept(seed):
    dice = random.Random(seed)
    rate, number = dice.choice([20, 100, 250]), dice.randint(2, 6)
    world = World(rate, seed)
    for place in range(number):
        since = 1000 + dice.random() * 6
        still = (
            (since + (start := dice.random() * 5), since + start + dice.random() * 5) if dice.random() < 0.5 else None
        )
        Process(world, f"w{place}", since, since + dice.random() * 12, still)
    if dice.random() < 0.3:
        world.at(1004.0, lambda: setattr(world, "is_down", True))
        world.at(1004.0 + dice.random() * 4, lambda: setattr(world, "is_down", False))
    world.run(1025.0)
    assert world.busiest() <= rate * 1.05 + 1


def test_what_one_had_who_stands_still_goes_to_the_others_after_a_term_until_he_is_back():
    world = World(100, 7)
    for place in range(3):
        Process(world, f"w{place}", 1000.0 + place / 10, 1100.0, (1005.0, 1010.0) if place == 1 else None)
    world.run(1015.0)
    assert 60 <= world.between(1005.3, 1006.3) <= 70
    assert world.between(1005.0 + TERM_S + 0.6, 1009.9) >= 0.96 * 100 * (4.3 - TERM_S)
    assert world.standings["w1"].per_second in (33, 34)
    assert world.busiest() <= 105


@pytest.mark.parametrize("seed", range(6))
def test_a_protest_to_one_stops_all_within_a_term_and_half_comes_back(seed):
    world = World(100, seed)
    processes = [Process(world, f"w{place}", 1000.0 + place / 10, 1100.0) for place in range(4)]
    processes[seed % 4].protests = [1006.0]
    world.run(1015.0)
    assert world.between(1006.6, 1007.9) == 0
    assert 30 <= world.between(1008.1, 1009.1) <= 62
    assert world.between(1000.0, 1015.0) < 100 * 13

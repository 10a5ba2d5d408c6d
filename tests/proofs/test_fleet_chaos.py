"""Three workers that are killed, stopped and cut off from their PostgreSQL at random: each order arrives once, at the one pace."""

import os
import random
import signal
import time
from collections import Counter

import pytest
from call_times import Departures, busiest
from command_processes import nursery
from fleet_processes import Camp, exchange, resends
from invariants import check_laws
from killed_runs import MAPPINGS, orders
from postgres import running_server

COUNT = int(os.environ.get("LOADSHEET_CHAOS_ORDERS", "10000"))
EVENTS = int(os.environ.get("LOADSHEET_CHAOS_EVENTS", "100"))
SEED = int(os.environ.get("LOADSHEET_CHAOS_SEED", "9"))
PER_SECOND, WORKERS = 100, 3
LATE_S = 0.6  # the exchange tells when it committed an effect: so much later for one than for another, beside servers that start
TAKEOVER_S, ANSWER_S = 2.0, 0.03
SURE_S = 7.0  # longer than an intent may wait to leave, and its call takes
PAUSE_S = (0.2, 2 * TAKEOVER_S)
BETWEEN_S = (0.7, 1.3)
RUNS_MAX = 6
TIME_S = 900
FATES = {"kill": 46, "stop": 44, "fast": 3, "immediate": 4, "run": 3}  # how often, of a hundred


class Chaos:
    """What happens to a camp, one event after the other, the same for the same seed."""

    def __init__(self, camp, server, seed):
        self.camp, self.server, self.dice = camp, server, random.Random(seed)
        self.counted = Counter()
        self.workers = [camp.worker() for _ in range(WORKERS)]
        self.run = camp.start("run")
        self.asleep = []  # when whom to wake
        self.codes = Counter()

    @property
    def events(self):
        """How many there were; another start of a run that gave up is none."""
        return self.counted.total()

    def strike(self):
        """One event."""
        fate = self.dice.choices(list(FATES), list(FATES.values()))[0]
        place, pause_s = self.dice.randrange(WORKERS), self.dice.uniform(*PAUSE_S)
        self.counted[fate] += 1
        if fate == "kill":
            self.workers[place].kill()
            self.workers[place] = self.camp.worker()
        elif fate == "stop":
            self.workers[place].send(signal.SIGSTOP)
            self.asleep.append((time.monotonic() + pause_s, self.workers[place]))
        elif fate == "run":
            self.run.kill()
        else:
            self.server.stop(fate)
            self.server.start()

    def attend(self):
        """Wake whose time has come, as a supervisor start again who ended; whether the run is over."""
        for due, worker in [one for one in self.asleep if one[0] <= time.monotonic()]:
            self.asleep.remove((due, worker))
            worker.send(signal.SIGCONT)
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                assert worker.code == 75, (
                    f"a worker ended by itself:\n{worker.said}"
                )  # there was no database when it began
                self.codes["a worker: 75"] += 1
                self.workers[place] = self.camp.worker()
        if self.run.poll() is None:
            return False
        self.codes[self.run.code] += 1
        assert self.run.code in (0, 1, 75, -9), self.run.said
        if self.run.code in (0, 1):
            return True
        self.run = self.camp.start("run")
        return False

    def calm(self):
        """Wake everybody."""
        for _, worker in self.asleep:
            worker.send(signal.SIGCONT)
        self.asleep.clear()


def go_through(chaos):
    """Events, until there were enough or the run is over; then all who work are killed, and others finish it."""
    until_s = time.monotonic() + TIME_S
    next_s = time.monotonic() + 1.0
    while not chaos.attend():
        assert time.monotonic() < until_s, (chaos.counted, chaos.codes, chaos.camp.states(), chaos.run.said)
        if time.monotonic() >= next_s and chaos.events < EVENTS * 1.2:  # the last leg is run in peace
            chaos.strike()
            if os.environ.get("LOADSHEET_CHAOS_TOLD"):
                print(f"{time.monotonic() - until_s + TIME_S:.0f} s", chaos.counted, chaos.camp.states(), flush=True)
            next_s = time.monotonic() + chaos.dice.uniform(*BETWEEN_S)
        time.sleep(0.05)
    chaos.calm()


def settle(camp):
    """Runs until nothing is unknown any more; how many that were."""
    for number in range(1, RUNS_MAX + 1):
        time.sleep(SURE_S)
        run = camp.run(TIME_S)
        assert run.code in (0, 1), run.said
        if not run.code:
            return number
    raise AssertionError(f"not settled after {RUNS_MAX} runs: {camp.states()}")


@pytest.mark.sweep
@pytest.mark.alone
@pytest.mark.timeout(2400)
def test_whatever_happens_to_workers_each_order_arrives_once(tmp_path, record_property):
    with (
        running_server() as server,
        nursery(tmp_path / "says") as born,
        exchange(born, tmp_path / "exchange", delay_s=ANSWER_S, create_existing="reject") as (url, truth),
    ):
        given = resends(SURE_S)
        given["assumptions"] |= {"calls_per_second": PER_SECOND}
        given |= {"mappings": str(MAPPINGS), "batch_entries": 50, "canary": 0, "takeover_s": TAKEOVER_S}
        given |= {"outstanding_unknown_max": COUNT, "unreachable_max": 1000, "create_sends_max": 20}
        camp = Camp(tmp_path / "acme", born, server.new_database(), url, **given)
        left = Departures(tmp_path / "left")
        camp.environment |= left.heard
        (camp.folder / "inbox").mkdir()
        (camp.folder / "inbox" / "orders.csv").write_text(orders(range(COUNT)), encoding="utf-8")
        with camp.books_kept(tmp_path / "books"):
            began = time.monotonic()
            chaos = Chaos(camp, server, SEED)
            try:
                go_through(chaos)
            finally:
                took = time.monotonic() - began
                print(f"{took:.0f} s, {dict(chaos.counted)}, runs ended {dict(chaos.codes)}, seed {SEED}", flush=True)
            first, lines = camp.known(), truth.lines()
            check_laws(first, lines, stopped=True)  # what turned out not to have arrived goes with the next run
            unknown = {entry["key"] for entry in first.entries if entry["state"] == "unknown"}
            assert camp.summary()["balance"]["balances"] is True
            assert camp.summary()["entries"].get("unknown", 0) == len(unknown)
            for worker in chaos.workers:
                worker.kill()
            camp.worker()
            runs = settle(camp)
            arrived = Counter(line["key"] for line in truth.lines())
            print(f"{len(unknown)} unknown, settled by {runs} runs")
            print(f"of {PER_SECOND} in any second {busiest(left.moments())} left, {busiest(truth.moments())} arrived")
            assert camp.states() == {"accepted": COUNT}
            assert arrived == Counter(f"A-{number}" for number in range(COUNT))
            check_laws(camp.known(), truth.lines())
            assert camp.summary()["balance"]["balances"] is True
            assert len(left.moments()) >= COUNT
            assert busiest(left.moments()) <= PER_SECOND * 1.05
            assert busiest(truth.moments(), 1 - LATE_S) <= PER_SECOND * 1.05
            assert chaos.events >= EVENTS, chaos.counted
    for name, count in (("kills", chaos.counted["kill"]), ("stops", chaos.counted["stop"])):
        record_property(name, count)
    record_property("restarts", chaos.counted["fast"] + chaos.counted["immediate"])
    record_property("orders", COUNT)
    record_property("were unknown", len(unknown))

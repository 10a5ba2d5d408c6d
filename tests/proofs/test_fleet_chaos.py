"""Workers, their runs, a watch and PostgreSQL killed, stopped and started again at random while files come: each order arrives once."""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress

import psycopg
import pytest
from call_times import Departures, busiest
from command_processes import nursery
from fleet_processes import Camp, exchange, resends, until
from invariants import check_laws
from killed_runs import MAPPINGS, orders
from postgres import running_server

FILES = int(os.environ.get("LOADSHEET_CHAOS_FILES", "20"))
EVENTS = int(os.environ.get("LOADSHEET_CHAOS_EVENTS", "60"))
SEED = int(os.environ.get("LOADSHEET_CHAOS_SEED", "9"))
EACH, WORKERS, PER_SECOND = 200, 3, 100
LATE_S = 0.6  # the exchange tells when it committed an effect: so much later for one than for another, beside servers that start
TAKEOVER_S, ANSWER_S = 2.0, 0.03
SURE_S = 7.0  # longer than an intent may wait to leave, and its call takes
PAUSE_S = (0.2, 2 * TAKEOVER_S)
BETWEEN_S = (0.7, 1.3)
TIME_S = 900
FATES = {"run": 30, "worker": 20, "both": 10, "stop": 20, "watch": 6, "beside": 6, "fast": 3, "immediate": 5}
"""How often, of a hundred: a run, its worker or both are killed, a run stands still, the watch is killed, somebody runs by hand, or the
server is stopped in one of two ways."""


class Chaos:
    """What happens to a camp, one event after the other, the same for the same seed."""

    def __init__(self, camp, server, seed):
        self.camp, self.server, self.dice = camp, server, random.Random(seed)
        self.counted, self.codes = Counter(), Counter()
        self.workers, self.watch = [camp.worker() for _ in range(WORKERS)], camp.start("watch")
        self.asleep = []  # when whom to wake
        self.beside = []

    def strike(self):
        """One event."""
        fate = self.dice.choices(list(FATES), list(FATES.values()))[0]
        place, pause_s = self.dice.randrange(WORKERS), self.dice.uniform(*PAUSE_S)
        self.counted[fate] += 1
        if fate in ("worker", "both"):
            self.workers[place].kill()
            self.workers[place] = self.camp.worker()
        if fate in ("run", "both"):
            self._to_run(signal.SIGKILL)
        elif fate == "stop" and (stopped := self._to_run(signal.SIGSTOP)):
            self.asleep.append((time.monotonic() + pause_s, stopped))
        elif fate == "watch":
            self.watch.kill()
        elif fate == "beside":
            self.beside.append(self.camp.start("run"))
        elif fate in ("fast", "immediate"):
            self.server.stop(fate)
            self.server.start()

    def _to_run(self, number):
        """Send a signal to the process that runs the ledger, if there is one; returns it."""
        with suppress(psycopg.Error, ProcessLookupError):
            for (holder,) in self.camp.ask("select holder from tenures where holder <> ''"):
                os.kill(pid := int(holder.split()[1]), number)
                return pid
        return None

    def attend(self):
        """Wake whose time has come, and as a supervisor start again who ended."""
        for due, pid in [one for one in self.asleep if one[0] <= time.monotonic()]:
            self.asleep.remove((due, pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for place, worker in enumerate(self.workers):
            if worker.poll() is not None:
                assert worker.code == 75, (
                    f"a worker ended by itself:\n{worker.said}"
                )  # there was no database when it began
                self.workers[place] = self.camp.worker()
        if self.watch.poll() is not None:
            assert self.watch.code in (75, -9), self.watch.said
            self.watch = self.camp.start("watch")
        for run in [one for one in self.beside if one.poll() is not None]:
            assert run.code in (0, 1, 75, -9), run.said
            self.codes[run.code] += 1
            self.beside.remove(run)

    def calm(self):
        """Wake everybody."""
        for _, pid in self.asleep:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.asleep.clear()


def go_through(chaos, drop):
    """Files come while things happen; then, in peace, until every order is known to be accepted."""
    until_s, next_s, files = time.monotonic() + TIME_S, time.monotonic() + 1.0, 0
    while files < FILES or chaos.counted.total() < EVENTS or not all_accepted(chaos.camp, files):
        assert time.monotonic() < until_s, (chaos.counted, chaos.codes, chaos.camp.states(), chaos.watch.said)
        chaos.attend()
        if time.monotonic() >= next_s and chaos.counted.total() < EVENTS:
            chaos.strike()
            if files < FILES and chaos.counted.total() * FILES >= files * EVENTS:
                drop(files)
                files += 1
            next_s = time.monotonic() + chaos.dice.uniform(*BETWEEN_S)
        elif chaos.counted.total() >= EVENTS:
            chaos.calm()
        time.sleep(0.1)


def all_accepted(camp, files):
    with suppress(psycopg.Error):
        return camp.states() == {"accepted": files * EACH}
    return False


@pytest.mark.sweep
@pytest.mark.alone
@pytest.mark.timeout(1400)
def test_whatever_happens_to_workers_and_runs_each_order_arrives_once(tmp_path, record_property):
    with (
        running_server() as server,
        nursery(tmp_path / "says") as born,
        exchange(tmp_path / "exchange", delay_s=ANSWER_S, create_existing="reject") as (url, truth),
    ):
        given = resends(SURE_S)
        given["assumptions"] |= {"calls_per_second": PER_SECOND}
        given |= {
            "mappings": str(MAPPINGS),
            "dispatch.canary": 0,
            "cluster.takeover_s": TAKEOVER_S,
            "schedules.catch_up_s": TIME_S,
        }
        given |= {
            "dispatch.outstanding_unknown_max": FILES * EACH,
            "dispatch.unreachable_max": 1000,
            "verification.create_sends_max": 20,
        }
        camp = Camp(tmp_path / "acme", born, server.new_database(), url, **given)
        left = Departures(tmp_path / "left")
        camp.environment |= left.heard
        (camp.folder / "inbox").mkdir()

        def drop(number):
            rows = orders(range(number * EACH, (number + 1) * EACH))
            (camp.folder / "inbox" / f"orders {number}.csv").write_text(rows, encoding="utf-8")

        with camp.books_kept(tmp_path / "books"):
            began = time.monotonic()
            chaos = Chaos(camp, server, SEED)
            try:
                go_through(chaos, drop)
            finally:
                took = time.monotonic() - began
                print(
                    f"{took:.0f} s, {dict(chaos.counted)}, runs by hand ended {dict(chaos.codes)}, seed {SEED}",
                    flush=True,
                )
            for process in (*chaos.workers, chaos.watch, *chaos.beside):
                process.kill()
            until(
                lambda: camp.run().code == 0, TIME_S, TAKEOVER_S
            )  # tells of runs that died; one may be left that goes on
            print(f"of {PER_SECOND} in any second {busiest(left.moments())} left, {busiest(truth.moments())} arrived")
            check_laws(camp.known(), truth.lines())
            assert Counter(line["key"] for line in truth.lines()) == Counter(f"A-{n}" for n in range(FILES * EACH))
            told = camp.ask("select name from runs where finished_at = '' and summary = ''")
            assert told == [], "every run that died is told of by a later one"
            assert busiest(left.moments()) <= PER_SECOND * 1.05
            assert busiest(truth.moments(), 1 - LATE_S) <= PER_SECOND * 1.05
            (unknown,) = camp.ask("select count(*) from events where after = 'unknown'")[0]
    for name, count in chaos.counted.items():
        record_property(f"events: {name}", count)
    record_property("orders", FILES * EACH)
    record_property("were unknown", unknown)

"""`make bench`: orders/s and CPU of a whole run, split by stage, beside a plain script that does the same without a ledger.

Three servers, each in a process of its own: our exchange, a bare sink that only answers, and the sink with 50 ms latency at 256
connections. Every line is measured in a fresh process, once it has imported what it needs. CPU is that of the client's process with all
its threads, and of the processes that read files for it. Compare the shares and the ratios between lines, not the absolute figures of
one machine: client and server share its cores.
"""

import argparse
import gc
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pandas  # noqa: F401, ICN001 (a run imports it when it is needed; starting is not what is measured)
import xlsxwriter  # noqa: F401 (likewise)
from exchange_process import TOKEN, exchange
from orders import MAPPINGS, write_orders
from tests.benchmarks.sink import sink

from loadsheet.checking import check_files
from loadsheet.dispatch import Client, Dispatcher, RunContext, UnknownTimer, deliver
from loadsheet.ledger import open_ledger
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping import load_folder
from loadsheet.pipeline import reconcile_and_report
from loadsheet.settings import Settings

LATENCY_MS, MANY = 50, 256
SERVERS = {  # name: (words of the sink or None for the exchange, connections, window)
    "exchange": (None, 8, 256),
    "sink": (["--keep"], 8, 256),
    f"sink, {LATENCY_MS} ms": (["--keep", "--latency-ms", str(LATENCY_MS)], MANY, 4 * MANY),
}


class Clock:
    """Wall and CPU seconds since the last look."""

    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), cpu_s()

    def lap(self):
        wall, cpu = time.perf_counter(), cpu_s()
        passed = wall - self.wall, cpu - self.cpu
        self.wall, self.cpu = wall, cpu
        return passed


def cpu_s():
    """CPU seconds of this process, and, where /proc tells, of those that it has started and of theirs that are over."""
    ours = time.process_time()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                ours += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return ours


class Pace:
    """When how many entries were done: a progress that takes notes."""

    def __init__(self):
        self.points = []

    def __call__(self, done, _total):
        self.points.append((time.perf_counter(), done))

    def under_way(self):
        """Entries a second in the part between the first and the last quarter: without the start, which feels its way, and the end."""
        if not self.points:  # nothing was sent
            return 0.0
        total = self.points[-1][1]
        inner = [point for point in self.points if total / 4 <= point[1] <= total * 3 / 4]
        (began, first), (ended, last) = inner[0], inner[-1]
        return (last - first) / (ended - began) if ended > began else 0.0


class ClockedLedger:
    """A ledger that knows how much CPU its verbs took: those that every entry goes through."""

    def __init__(self, ledger):
        self._ledger, self.cpu = ledger, 0.0

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    @contextmanager
    def clocked(self):
        began = time.thread_time()
        yield
        self.cpu += time.thread_time() - began

    def plan(self, run, drop, lineage, items, rules):
        with self.clocked():
            return self._ledger.plan(run, drop, lineage, self._not_mine(items), rules)

    def _not_mine(self, documents):
        began = time.thread_time()
        for document in documents:
            self.cpu -= time.thread_time() - began
            yield document
            began = time.thread_time()
        self.cpu -= time.thread_time() - began

    def ready(self, *more, **named):
        with self.clocked():
            return self._ledger.ready(*more, **named)

    def mark_sending(self, *more):
        with self.clocked():
            self._ledger.mark_sending(*more)

    def settle(self, *more):
        with self.clocked():
            self._ledger.settle(*more)

    @contextmanager
    def one_transaction(self):
        together = self._ledger.one_transaction()
        together.__enter__()
        try:
            yield
        except BaseException:
            if not together.__exit__(*sys.exc_info()):
                raise
        else:
            with self.clocked():  # the commit
                together.__exit__(None, None, None)


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def settings_for(folder, connections, window, url=None):
    given = {"exchange": url} if url else {}
    return Settings.load(
        inbox=folder / "inbox",
        mappings=MAPPINGS,
        outbox=folder / "outbox",
        state=folder / "state",
        settle_s=0,
        connections=connections,
        window=window,
        **given,
    )


def measure(settings, count, *, alone):
    """One run over `count` orders; returns stages as (name, wall s, CPU s), the CPU of the ledger, and the peak of memory."""
    gc.set_threshold(50_000)  # as in the command line
    clock, stages = Clock(), []
    mappings = load_folder(settings.mappings, settings.assumptions)
    if alone:
        files = [settings.inbox / "orders.csv", settings.inbox / "packages.csv"]
        clock.lap()
        made = check_files(files, mappings, settings).usable
        assert made == count, made
        stages.append(("read + map + validate (alone)", *clock.lap()))
    with open_ledger(settings.database_url) as opened, Client(settings.exchange, TOKEN, settings) as client:
        ledger = ClockedLedger(opened)
        work = RunContext(settings, ledger, ledger.begin_run(), Dispatcher(client), UnknownTimer(ledger.now))
        clock.lap()
        ingested = ingest_files(settings, ledger, work.run, mappings)
        stages.append(("inbox + read + map + ledger", *clock.lap()))
        pace = Pace()
        sent = deliver(work, pace)
        assert sent.stopped is None, sent.stopped
        stages.append(("dispatch", *clock.lap()))
        reconcile_and_report(work, sent, ingested)
        stages.append(("reconcile + reports", *clock.lap()))
        told = {"ledger_cpu_s": ledger.cpu, "peak_mb": peak_mb(), "under_way": pace.under_way()}
        return {"stages": stages, **told}


@contextmanager
def served(name, folder):
    words = SERVERS[name][0]
    if words is None:
        with exchange(folder / "exchange.db") as there:
            yield there.url
    else:
        with sink(*words) as (url, _):
            yield url


def in_its_own_process(*words):
    """What a fresh Python says in its last line, as JSON."""
    done = subprocess.run([sys.executable, "-m", *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(name, count, folder, *, plain):
    """Measure one server with loadsheet and, if asked, with the plain script; prints the lines."""
    _, connections, window = SERVERS[name]
    write_orders(folder / "inbox", count)
    rate = "calls/s"
    print(f"\n{name}, up to {connections} connections")
    script = None
    if plain:
        with served(name, folder / "plain") as url:
            words = ("tests.benchmarks.plain_script", folder / "inbox", url, "--connections", connections)
            script = in_its_own_process(*words)
        assert script["good"] == count, script
        line("the plain script", script["wall_s"], script["cpu_s"], count)
    with served(name, folder) as url:
        told = in_its_own_process("tests.benchmarks.whole_run", "--one", folder, url, connections, window, count)
    stages = [stage for stage in told["stages"] if "alone" not in stage[0]]
    wall, cpu = (sum(stage[place] for stage in stages) for place in (1, 2))
    for stage in told["stages"]:
        line(f"  {stage[0]}", *stage[1:], count)
    line("loadsheet, the whole run", wall, cpu, count)
    notes = [f"ledger {told['ledger_cpu_s'] / cpu:.0%} of the CPU (aim: 15 %)", f"peak memory {told['peak_mb']:.0f} MB"]
    if script:
        notes.append(f"CPU {cpu / script['cpu_s']:.2f} of the plain script's (aim: 0.40)")
    if "ms" in name:
        possible = connections / LATENCY_MS * 1000
        reached = count / next(stage[1] for stage in stages if stage[0] == "dispatch")
        under_way = told["under_way"] / possible
        notes.append(f"{under_way:.0%} of the {possible:,.0f} {rate} that are possible once under way (aim: 90 %)")
        notes.append(f"{reached / possible:.0%} with the start, which begins with two")
    print("  " + "; ".join(notes))


def line(name, wall, cpu, count):
    print(f"{name:34}{wall:9.2f}{cpu / count * 1e6:15.0f}{count / wall:11.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--server", choices=list(SERVERS), action="append")
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument("--one", nargs=5, metavar=("FOLDER", "URL", "CONNECTIONS", "WINDOW", "ORDERS"))
    parser.add_argument("--no-alone", action="store_true", help="with --one: do not measure reading alone first")
    given = parser.parse_args()
    if given.one:
        folder, url, connections, window, count = given.one
        settings = settings_for(Path(folder), int(connections), int(window), url)
        alone = SERVERS["exchange"][1] == int(connections) and not given.no_alone
        print(json.dumps(measure(settings, int(count), alone=alone)))
        return
    print(f"{given.orders} orders with 3 packages each (two CSV files)\n")
    print(f"{'':34}{'wall s':>9}{'CPU us/order':>15}{'orders/s':>11}")
    for name in given.server or SERVERS:
        folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
        (folder / "plain").mkdir()
        try:
            compare(name, given.orders, folder, plain=not given.no_plain)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

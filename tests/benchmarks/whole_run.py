"""`make bench`: orders/s and CPU of a whole run, split by stage, beside a plain script that does the same without a ledger.

Three servers, each in a process of its own: our exchange, a bare sink that only answers, and the sink with 50 ms latency at 256
connections. Every line is measured in a fresh process, once it has imported what it needs. Compare the shares and the ratios between
lines, not the absolute figures of one machine: client and server share its cores.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pandas  # noqa: F401, ICN001 (a run imports it when it is needed; starting is not what is measured)
import xlsxwriter  # noqa: F401 (likewise)
from exchange_process import TOKEN, exchange
from orders import MAPPINGS, write_orders
from tests.benchmarks.measuring import Clock, Cost, head, line, scratch
from tests.benchmarks.sink import sink

from loadsheet.dispatch import Client, Dispatcher, RunContext, UnknownTimer, deliver
from loadsheet.ledger import open_ledger
from loadsheet.ledger_sink import ingest_files
from loadsheet.mapping.mapping_folder import load_folder
from loadsheet.pipeline import reconcile_and_report
from loadsheet.settings import Settings

LATENCY_MS, MANY, FEW = 50, 256, 8
SERVERS = {  # name: (words of the sink or None for the exchange, connections)
    "exchange": (None, FEW),
    "sink": (["--keep"], FEW),
    f"sink, {LATENCY_MS} ms": (["--keep", "--latency-ms", str(LATENCY_MS)], MANY),
}


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


def measure(folder, url, connections):
    """One run over the inbox of a folder: its stages as {name: Cost}, the CPU of the ledger in s, and the peak of memory in MB."""
    gc.set_threshold(50_000)  # as in the command line
    limits = {"connections": connections, "window": max(256, 4 * connections), "settle_s": 0}
    places = {name: folder / name for name in ("inbox", "outbox", "state")}
    settings = Settings.load(mappings=MAPPINGS, exchange=url, **places, **limits)
    mappings, stages = load_folder(settings.mappings, settings.assumptions), {}
    with open_ledger(settings.database_url) as opened, Client(settings.exchange, TOKEN, settings) as client:
        ledger = ClockedLedger(opened)
        work = RunContext(settings, ledger, ledger.begin_run(), Dispatcher(client), UnknownTimer(ledger.now))
        clock = Clock()
        ingested = ingest_files(settings, ledger, work.run, mappings)
        stages["inbox + read + map + ledger"] = clock.lap()
        sent = deliver(work)
        assert sent.stopped is None, sent.stopped
        stages["dispatch"] = clock.lap()
        reconcile_and_report(work, sent, ingested)
        stages["reconcile + reports"] = clock.lap()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"stages": stages, "ledger_cpu_s": ledger.cpu, "peak_mb": peak_mb}


@contextmanager
def served(name, folder):
    """A server by its name: its URL."""
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


def one_run(folder, url, connections=FEW):
    """What `measure` says in a fresh process, with the costs of its stages and of all together."""
    found = in_its_own_process("tests.benchmarks.whole_run", "--one", folder, url, connections)
    stages = {name: Cost(*cost) for name, cost in found["stages"].items()}
    wall, cpu, _ = map(sum, zip(*stages.values(), strict=True))
    return found | {"stages": stages, "all": Cost(wall, cpu, found["peak_mb"])}


def compare(name, count, folder):
    """Measure one server with the plain script and with loadsheet; prints the lines."""
    connections = SERVERS[name][1]
    write_orders(folder / "inbox", count)
    (folder / "plain").mkdir()
    print(f"\n{name}, up to {connections} connections")
    with served(name, folder / "plain") as url:
        words = ("tests.benchmarks.plain_script", folder / "inbox", url, "--connections", connections)
        script = in_its_own_process(*words)
    assert script["good"] == count, script
    first = line("the plain script", [Cost(script["wall_s"], script["cpu_s"], script["peak_mb"])], count)
    with served(name, folder) as url:
        found = one_run(folder, url, connections)
    for stage, cost in found["stages"].items():
        line(f"  {stage}", [cost], count)
    cpu = line("loadsheet, the whole run", [found["all"]], count, first=first, aim="aim: at most 0.30")
    print(f"  ledger {found['ledger_cpu_s'] / cpu:.0%} of the CPU (aim: 15 %)")
    if "ms" in name:
        possible, dispatch = connections / LATENCY_MS * 1000, found["stages"]["dispatch"]
        print(f"  {count / dispatch.wall_s / possible:.0%} of the {possible:,.0f} possible calls/s (aim: 90 %)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--server", choices=list(SERVERS), action="append")
    parser.add_argument("--one", nargs=3, metavar=("FOLDER", "URL", "CONNECTIONS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        folder, url, connections = given.one
        print(json.dumps(measure(Path(folder), url, int(connections))))
        return
    print(f"{given.orders} orders with 3 packages each (two CSV files)")
    head("order")
    for name in given.server or SERVERS:
        with scratch() as folder:
            compare(name, given.orders, folder)


if __name__ == "__main__":
    main()

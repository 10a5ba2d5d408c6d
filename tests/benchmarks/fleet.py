"""`make bench`: a fleet of 1, 2 and 3 workers beside the embedded mode, against a sink that answers after 50 ms.

Orders a second while they are sent; CPU an order of a worker, of PostgreSQL, of the run that plans; bytes an order in the ledger and in the
write-ahead log; how long after the plan's commit the first call leaves, and how long after a kill -9 the first call of a batch that was
taken over. Everything shares this machine's cores: compare ratios.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from command_processes import nursery
from fleet_processes import TAKEOVER_S, Camp, until
from orders import MAPPINGS, write_orders
from postgres import running_server
from tests.benchmarks.sink import sink

CONNECTIONS, LATENCY_MS = 64, 50
EMBEDDED = -1
TICK = os.sysconf("SC_CLK_TCK")


def cpu_s(pid):
    """CPU seconds of a process and of those of its children that are over."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def server_cpu_s(server):
    """The same of a PostgreSQL with all its processes."""
    main = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    found = cpu_s(main)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == main:
                found += sum(map(int, fields[11:13])) / TICK
    return found


class Seen:
    """When how many entries were settled, looked at from outside while a run goes on."""

    def __init__(self, camp, embedded):
        self.camp, self.embedded, self.points = camp, embedded, []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        if not self.embedded:
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        if not self.embedded:
            self._thread.join()

    def _look(self):
        while not self._over.wait(0.25):
            with suppress(Exception):
                self.points.append((time.perf_counter(), self.camp.states().get("accepted", 0)))

    def under_way(self, count):
        """Orders a second between the first and the last tenth."""
        inner = [point for point in self.points if count * 0.1 <= point[1] <= count * 0.9]
        if len(inner) < 2:
            return 0.0
        return (inner[-1][1] - inner[0][1]) / (inner[-1][0] - inner[0][0])


@contextmanager
def camped(server, born, count, *, embedded=False, **more):
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        with sink("--keep", "--latency-ms", str(LATENCY_MS)) as (url, _):
            database = f"sqlite:///{folder / 'ledger.db'}" if embedded else server.new_database()
            given = {"mappings": str(MAPPINGS), "canary": 0, "connections": CONNECTIONS, "log_level": "info", **more}
            camp = Camp(folder, born, database, url, **given)
            write_orders(folder / "inbox", count)
            yield camp
            for worker in camp.workers:
                worker.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stages(camp):
    """How long the stages of the last run took, in seconds, by its journal."""
    found = {}
    for path in sorted((camp.folder / ".loadsheet" / "logs").glob("*.jsonl")):
        for line in map(json.loads, path.read_text().splitlines()):
            if line["event"] == "stage over":
                found[line["stage"]] = line["duration_ms"] / 1000
    return found


def measure(server, born, workers, count):
    """One run with so many workers: its figures by name."""
    embedded = workers == EMBEDDED
    with camped(server, born, count, embedded=embedded) as camp, Seen(camp, embedded) as seen:
        for _ in range(max(workers, 0)):
            camp.worker()
        if camp.workers:
            camp.listens(workers)
        kept = (0, 0) if embedded else stored(camp)
        before = [cpu_s(worker.pid) for worker in camp.workers], server_cpu_s(server)
        began = time.perf_counter()
        run = camp.start("run")
        last = 0.0
        while run.poll() is None:
            with suppress(OSError):
                last = cpu_s(run.pid)
            time.sleep(0.05)
        wall = time.perf_counter() - began
        assert run.code == 0, run.said
        told = {"wall": wall, "run": last / count * 1e6}
        if embedded:
            return told | {"rate": count / stages(camp)["sending"]}
        told["workers"] = (
            sum(cpu_s(one.pid) - then for one, then in zip(camp.workers, before[0], strict=True)) / count * 1e6
        )
        told["server"] = (server_cpu_s(server) - before[1]) / count * 1e6
        told["rate"] = seen.under_way(count)
        told |= {
            name: (now - then) / count for name, now, then in zip(("bytes", "wal"), stored(camp), kept, strict=True)
        }
        return told | latency(camp)


def stored(camp):
    """Bytes in the database, and bytes that were ever written to the log."""
    return camp.ask(
        "select pg_database_size(current_database()), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
    )[0]


def latency(camp):
    """Seconds from the batches' commit to the first intent of a call."""
    asked = "select extract(epoch from min(a.started_at::timestamptz) - min(b.opened_at::timestamptz)) from attempts a, batches b where b.kind = 'calls'"
    return {"enqueue": float(camp.ask(asked)[0][0] or 0)}


def takeover(server, born):
    """Seconds from a kill -9 to the first intent of another worker in the same batch, and what of it was `takeover_s`."""
    with camped(server, born, 400, batch_entries=400, worker_places=1, assumptions={"calls_per_second": 40}) as camp:
        first = camp.worker()
        camp.listens()
        run = camp.start("run")
        until(lambda: camp.states().get("accepted", 0) > 5)
        camp.worker()
        camp.listens(2)
        killed = camp.ask("select extract(epoch from clock_timestamp())")[0][0]
        first.kill()
        taken = until(lambda: camp.ask("select batch, at from fleet.takeovers"))[0]
        asked = (
            "select extract(epoch from min(a.started_at::timestamptz)) from attempts a join entries e on e.id = a.entry_id "
            "where e.batch_id = %s and a.started_at::timestamptz >= to_timestamp(%s)"
        )
        sent = until(lambda: camp.ask(asked, taken[0], taken[1])[0][0])
        run.send(signal.SIGKILL)
        return float(taken[1]) - float(killed), float(sent) - float(killed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=10_000)
    parser.add_argument("--workers", type=int, action="append", help="-1 is the embedded mode")
    given = parser.parse_args()
    count = given.orders
    with running_server() as server, nursery(Path(tempfile.mkdtemp(prefix="loadsheet-says-"))) as born:
        print(
            f"{count} orders with 3 packages each, a sink that answers after {LATENCY_MS} ms, {CONNECTIONS} connections in all"
        )
        print(
            f"{'':24}{'orders/s':>9}{'wall s':>8}  CPU us/order:{'run':>7}{'workers':>9}{'PostgreSQL':>12}{'bytes':>8}{'WAL':>8}{'enqueue s':>11}"
        )
        for workers in given.workers or (EMBEDDED, 1, 2, 3):
            told = measure(server, born, workers, count)
            name = "embedded" if workers == EMBEDDED else f"{workers} worker{'s' * (workers > 1)}"
            shown = [
                told.get(name, 0.0) for name in ("rate", "wall", "run", "workers", "server", "bytes", "wal", "enqueue")
            ]
            print("{:24}{:9.0f}{:8.1f}{:21.0f}{:9.0f}{:12.0f}{:8.0f}{:8.0f}{:11.2f}".format(name, *shown), flush=True)
        taken, sent = takeover(server, born)
        print(
            f"after a kill -9 the batch was taken over in {taken:.1f} s and its next call left in {sent:.1f} s (takeover_s {TAKEOVER_S:g})"
        )


if __name__ == "__main__":
    main()

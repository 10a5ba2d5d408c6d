"""`make bench`: orders/s and CPU of a whole run, split by stage, against an exchange in a process of its own.

CPU is that of the translator's process (all threads); the exchange's own is printed apart. Compare the shares and the ratios
between lines, not the absolute figures of one machine.
"""

import argparse
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from orders import MAPPINGS, write_orders
from serving import TOKEN, exchange

from loadsheet import pipeline
from loadsheet.cli.check import documents_of
from loadsheet.dispatch import Client
from loadsheet.intake import take_in
from loadsheet.ledger import open_ledger
from loadsheet.mapping import load_folder
from loadsheet.settings import Settings


class Clock:
    """Wall and CPU seconds since the last look."""

    def __init__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def lap(self):
        wall, cpu = time.perf_counter(), time.process_time()
        passed = wall - self.wall, cpu - self.cpu
        self.wall, self.cpu = wall, cpu
        return passed


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(count, folder):
    """One run over `count` orders; yields (stage, wall s, CPU s)."""
    settings = Settings.load(
        inbox=folder / "inbox", mappings=MAPPINGS, outbox=folder / "outbox", state=folder / "state", settle_s=0
    )
    write_orders(settings.inbox, count)
    files = [settings.inbox / "orders.csv", settings.inbox / "packages.csv"]
    clock = Clock()
    mappings = load_folder(settings.mappings, settings.assumptions)
    yield "load mapping", *clock.lap()
    made = sum(1 for _ in documents_of(files, mappings, settings))
    assert made == count, made
    yield "read + map + validate (alone)", *clock.lap()
    with exchange(folder / "exchange.db") as served, open_ledger(settings.database_url) as ledger:
        settings = settings.model_copy(update={"exchange": served.url})
        with Client(served.url, TOKEN, settings) as client:
            clock.lap()
            yield from staged(settings, ledger, client, clock)


def staged(settings, ledger, client, clock):
    """The stages of the pipeline, one after the other, each with its lap."""
    run = ledger.begin_run()
    mappings = load_folder(settings.mappings, settings.assumptions)
    clock.lap()
    take_in(settings, ledger, run, mappings)
    yield "inbox + read + map + ledger", *clock.lap()
    stopped = pipeline.deliver(settings, ledger, client, run)
    assert stopped is None, stopped
    yield "dispatch", *clock.lap()
    pipeline.account(settings, ledger, client, run, stopped=stopped, left=[])
    yield "reconcile + reports", *clock.lap()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=10_000)
    count = parser.parse_args().orders
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        print(f"{count} orders with 3 packages each (two CSV files)\n")
        print(f"{'stage':34}{'wall s':>9}{'CPU ms/order':>15}{'orders/s':>11}")
        wall_total = cpu_total = 0.0
        for stage, wall, cpu in measure(count, folder):
            print(f"{stage:34}{wall:9.2f}{cpu / count * 1000:15.3f}{count / wall:11.0f}")
            if "alone" not in stage:
                wall_total, cpu_total = wall_total + wall, cpu_total + cpu
        print(f"{'whole run':34}{wall_total:9.2f}{cpu_total / count * 1000:15.3f}{count / wall_total:11.0f}")
        print(f"\npeak memory {peak_mb():.0f} MB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""`make bench`: what two busy CPU hogs leave of sending, and whether the concurrency limit holds beside them.

Orders are sent to a sink that answers after 50 ms, quiet and beside the hogs by turns; each time in a fresh process with a fresh ledger.
The sink stands for a machine elsewhere: it goes before the hogs where the system allows that (root on Linux). CPU seconds left are
those of all cores without those that the hogs took.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import ready_entries
from ledgers import ledger_in
from tests.benchmarks.load import cpu_seconds
from tests.benchmarks.sink import sink

from loadsheet.dispatch import Client, send

LATENCY_MS, CONNECTIONS, HOGS = 50, 64, 2
FIRST = -10
"""The priority of the sink."""


def client(url, count):
    """Send so many orders; says calls, seconds, CPU seconds of this process and the limit at the end, as JSON."""
    options = ready_entries.settings(connections=CONNECTIONS, window=4 * CONNECTIONS)
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        with ledger_in(folder) as ledger, Client(url, ready_entries.TOKEN, options) as made:
            run = ledger.begin_run()
            ready_entries.orders(ledger, run, count)
            wall, cpu = time.perf_counter(), time.process_time()
            report = send(ledger, made, run, options)
            told = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
            print(json.dumps({"calls": report.calls, "limit": report.connections, **told}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def hogs(count):
    """So many processes that never stop computing; gives what CPU seconds they used so far."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield lambda: sum(cpu_seconds(one.pid) for one in running)
    finally:
        for one in running:
            one.kill()
            one.wait()


def measure(url, count, beside):
    """One sending beside so many hogs: calls a second, per CPU second of its own and per CPU second left, and the limit."""
    with hogs(beside) as used:
        began, before = time.perf_counter(), used()
        command = [sys.executable, "-m", "tests.benchmarks.busy_machine", "--client", url, "--orders", str(count)]
        said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        taken = (used() - before) / (time.perf_counter() - began)  # cores
    calls, left = said["calls"], (os.cpu_count() - taken) * said["wall_s"]
    return calls / said["wall_s"], calls / said["cpu_s"], calls / left, said["limit"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        client(given.client, given.orders)
        return
    found = {0: [], HOGS: []}
    with sink("--latency-ms", str(LATENCY_MS)) as (url, process):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, FIRST)
        for _ in range(given.rounds):
            for beside, rounds in found.items():
                rounds.append(measure(url, given.orders, beside))
    print(
        f"{given.orders} orders, a sink that answers after {LATENCY_MS} ms, {CONNECTIONS} connections, {os.cpu_count()} cores"
    )
    print(f"{'':24}{'calls/s':>9}{'per own CPU s':>15}{'per CPU s left':>16}{'limit at the end':>18}")
    middle = {beside: [median(column) for column in zip(*rounds, strict=True)] for beside, rounds in found.items()}
    for beside, row in middle.items():
        print("{:24}{:9.0f}{:15.0f}{:16.0f}{:18.0f}".format(f"beside {beside} hogs" if beside else "quiet", *row))
    ratios = [busy / quiet for busy, quiet in zip(middle[HOGS], middle[0], strict=True)]
    print("{:24}{:9.2f}{:15.2f}{:16.2f}{:18.2f}".format("ratio", *ratios))


if __name__ == "__main__":
    main()

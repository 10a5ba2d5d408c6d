"""`make bench`: what a durable create costs, beside servers that store nothing, and how long a page of a listing takes.

All servers stand at the same time and take turns, so that whatever else the machine does meets each of them. The generator and
the server share the machine: compare the ratios, not the rates of one machine. CPU is that of the server's process, all its
threads; that of PostgreSQL's own processes is not in it.
"""

import argparse
import http.client
import importlib.util
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pytest
from exchange_calls import AUTHORISED, encode
from exchange_process import served
from payload_examples import ORDER
from postgres import running_server
from sqlalchemy import create_engine, insert, update
from tests.benchmarks.load import CONNECTIONS, Measured, load

from loadsheet.exchange import Store
from loadsheet.exchange.database import COUNTERS, ORDERS

BARE = "bare Starlette"
DURABLE = "all that `loadsheet exchange serve` does: token, strict JSON, check, effect, group commit with a flush, note, answer"
DOES = {
    BARE: "a Starlette route: json.loads, the contract's own check, JSONResponse; no token, no limits, nothing stored",
    "durable, SQLite": f"{DURABLE}; SQLite in the same process",
    "durable, PostgreSQL": f"{DURABLE}; the PostgreSQL beside it takes CPU too",
    "bare FastAPI": "a FastAPI route: pydantic models of the same fields by their types alone, answer; nothing else",
    "nginx, answers only": "reads no body and says the same 200 to all",
}
AIMS = {"durable, SQLite": 0.65, "durable, PostgreSQL": 0.50}  # of the bare Starlette route's rate
NGINX = """
worker_processes 1; daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 100000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{{"status":true}}'; }} }} }}
"""
PAGES, CHUNK = 200, 10_000


@contextmanager
def bare(kind):
    """A server of `bare.py`: its URL and its process."""
    command = [sys.executable, "-m", "tests.benchmarks.bare", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("listening on "), f"the {kind} server could not start; its reason stands above"
            yield line.removeprefix("listening on ").strip(), process
        finally:
            process.kill()


@contextmanager
def nginx(folder):
    """An nginx of one process that answers every request with the same 200."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    command = [shutil.which("nginx"), "-e", folder / "error.log", "-c", folder / "nginx.conf", "-p", folder]
    with subprocess.Popen(command) as process:
        try:
            time.sleep(1)  # it says nothing when it is ready
            assert process.poll() is None, "nginx could not start; its reason stands above"
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.terminate()


def servers(opened, folder):
    """Every server that can be had, by name: (URL, process); one line for each that cannot."""
    found = {BARE: opened.enter_context(bare("starlette"))}
    found["durable, SQLite"] = opened.enter_context(served(folder / "creates.db"))
    try:
        database = opened.enter_context(running_server()).new_database()
        found["durable, PostgreSQL"] = opened.enter_context(served(database))
    except pytest.skip.Exception as reason:
        print(f"PostgreSQL is left out: {reason}")
    if importlib.util.find_spec("fastapi"):
        found["bare FastAPI"] = opened.enter_context(bare("fastapi"))
    else:
        print("bare FastAPI is left out: fastapi is not installed (it is not a dependency; pip install fastapi)")
    if shutil.which("nginx"):
        found["nginx, answers only"] = opened.enter_context(nginx(folder))
    else:
        print("nginx is left out: there is none on this machine")
    return found


def creates(folder, rounds, seconds):
    """The table of creates."""
    with ExitStack() as opened:
        found = servers(opened, folder)
        for url, process in found.values():
            load(url, process.pid, 0.5)  # warm
        laps = {name: [] for name in found}
        for _ in range(rounds):
            for name, (url, process) in found.items():
                laps[name].append(load(url, process.pid, seconds))
    results = {name: Measured(*map(statistics.median, zip(*measured, strict=True))) for name, measured in laps.items()}
    print(f"\n{CONNECTIONS} connections, medians of {rounds} rounds of {seconds:g} s each in turn\n")
    for name in results:
        print(f"{name:22}{DOES[name]}")
    print(f"\n{'server':22}{'creates/s':>10}{'CPU us':>8}{'median ms':>11}{'p99 ms':>8}{'rate : bare':>13}{'aim':>6}")
    for name, result in results.items():
        ratio = f"{result.rate / results[BARE].rate:.0%}"
        figures = f"{result.rate:10.0f}{result.cpu_us:8.0f}{result.median_ms:11.1f}{result.p99_ms:8.1f}{ratio:>13}"
        print(f"{name:22}{figures}{f'{AIMS[name]:.0%}' if name in AIMS else '':>6}")


def fill(url, count):
    """A database with so many orders, written past the exchange."""
    Store(url).close()  # makes the tables
    order = encode({**ORDER, "order_id": "KEY"}).decode()
    engine = create_engine(url)
    party = {"sender": ORDER["sender_id"], "receiver": ORDER["receiver_id"]}
    with engine.begin() as connection:
        for start in range(1, count + 1, CHUNK):
            numbers = range(start, min(start + CHUNK, count + 1))
            rows = [
                {"number": n, "order_ref": f"SO-{n}", **party, "content": order.replace("KEY", f"SO-{n}")}
                for n in numbers
            ]
            connection.execute(insert(ORDERS), rows)
        connection.execute(update(COUNTERS).where(COUNTERS.c.name == ORDERS.name).values(last=count, held=count))
    engine.dispose()


def pages(folder, counts):
    """The table of listings: one client asks for a page of 100, again and again."""
    print(f"\n{'a page of 100 out of':22}{'median ms':>10}{'p99 ms':>8}   (SQLite, one client, {PAGES} times)")
    for count in counts:
        file = folder / f"{count}.db"
        fill(f"sqlite:///{file}", count)
        with served(file) as (url, _):
            caller, times = http.client.HTTPConnection(url.removeprefix("http://")), []
            for _ in range(PAGES):
                started = time.perf_counter()
                caller.request("GET", "/tmsapi/getOrders?page_size=100", headers=AUTHORISED)
                answer = caller.getresponse()
                assert answer.status == 200
                assert f'"total_count":{count}'.encode() in answer.read()
                times.append((time.perf_counter() - started) * 1000)
            caller.close()
        times.sort()
        print(f"{f'{count:,} orders':22}{times[len(times) // 2]:10.1f}{times[len(times) * 99 // 100]:8.1f}", flush=True)
        file.unlink()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one server in one round")
    parser.add_argument("--large", action="store_true", help="a listing of 1,000,000 orders too")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="loadsheet-bench-"))
    try:
        creates(folder, given.rounds, given.seconds)
        pages(folder, (10_000, 100_000, 1_000_000) if given.large else (10_000, 100_000))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

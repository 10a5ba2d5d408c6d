"""`make bench`: workers beside one process, on PostgreSQL and on a file, against a sink that answers after 50 ms.

Orders a second over the whole of the runs; CPU an order of loadsheet's processes and of PostgreSQL; bytes an order in the database and in its
write-ahead log; and how long after a kill -9 of a run and its worker another one has taken over. Everything
shares this machine's cores: compare ratios. `python -m tests.benchmarks.fleet --shippers 1000 --orders 1000 --latency-ms 20` instead runs that many
shippers with that many orders each over 1, 2 and 3 workers, each shipper with an account of its own at the sink, and so with a listing and a pace of its own.
"""

import argparse
import json
import os
import signal
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import psycopg
from command_processes import nursery
from databases import forget_engines
from fleet_processes import TOKEN, until
from orders import MAPPINGS, write_orders
from postgres import running_server
from tests.benchmarks.measuring import cpu_s, scratch
from tests.benchmarks.sink import sink

from loadsheet.ledger.codec import stamp
from loadsheet.ledger.ledger_opening import create_on_server
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import jobs, open_shared
from loadsheet.settings import Settings

CONNECTIONS, LATENCY_MS, TAKEOVER_S = 32, 50, 2.0


def server_cpu_s(server):
    """CPU seconds of a PostgreSQL with all its processes."""
    return cpu_s(int((server.folder / "data" / "postmaster.pid").read_text().split()[0]))


class Place:
    """The folder of some shippers with so many orders each, and their database."""

    def __init__(self, folder, born, database, url, *, shippers, orders, accounts=False, **more):
        self.folder, self._born, self.database = folder, born, database
        given = {
            "database": database,
            "exchange": url,
            "cluster.takeover_s": TAKEOVER_S,
            "arrival.settle_s": 0,
            "dispatch.canary": 0,
            **more,
        }
        given = {"mappings": str(MAPPINGS), "dispatch.connections": CONNECTIONS} | given
        names = [f"s{number}" for number in range(shippers)]
        lines = [f"{name} = {json.dumps(value)}" for name, value in given.items() if value != ""]
        token = folder / "token"
        token.write_text(TOKEN, encoding="utf-8")
        token.chmod(0o600)
        for name in names:
            lines.append(f"[shippers.{name}]")
            if accounts:
                lines += [f'exchange = "{url}/{name}"', f"token_file = {json.dumps(str(token))}"]
        file = folder / "loadsheet.toml"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.settings = [Settings.load(file, shipper=name) for name in names]
        for number, name in enumerate(names):
            write_orders(folder / "inbox" / name, orders, first=number * orders)

    def start(self, *words):
        """Start a command here."""
        return self._born.start(self.folder, *words, LOADSHEET_TOKEN=TOKEN)

    def want_all(self):
        """Have all ledgers run."""
        for settings in self.settings:
            create_on_server(settings.database_url)
            with open_shared(settings.database_url) as engine, engine.begin() as connection:
                jobs.request_run(connection, address_of(settings.database_url), jobs.FILES, stamp(datetime.now(UTC)))
        forget_engines()

    def ask(self, statement):
        with psycopg.connect(self.database, autocommit=True) as connection:
            return connection.execute(statement).fetchall()

    def stored(self):
        """Bytes in the database, and bytes that were ever written to the log."""
        return self.ask(
            "select pg_database_size(current_database()), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
        )[0]


@contextmanager
def placed(born, database, shippers, orders, *, latency_ms=LATENCY_MS, **more):
    with scratch() as folder, sink("--keep", "--latency-ms", str(latency_ms)) as (url, _):
        yield Place(folder, born, database, url, shippers=shippers, orders=orders, **more)


def alone(server, born, orders, *, on_a_server):
    """One `loadsheet run`: its figures by name."""
    with placed(born, server.new_database() if on_a_server else "", 1, orders) as place:
        if on_a_server:
            create_on_server(place.settings[0].database_url)
            forget_engines()
        before, server_before = place.stored() if on_a_server else (0, 0), server_cpu_s(server)
        began, last = time.perf_counter(), 0.0
        run = place.start("run", "--shipper", "s0")
        while run.poll() is None:
            with suppress(OSError):
                last = cpu_s(run.pid)
            time.sleep(0.05)
        wall_s = time.perf_counter() - began
        assert run.code == 0, run.said
        after = place.stored() if on_a_server else (0, 0)
        return told(orders, wall_s, ours_s=last, server_s=server_cpu_s(server) - server_before, stored=(before, after))


def fleet(server, born, workers, shippers, orders, *, latency_ms=LATENCY_MS, accounts=False):
    """Workers over so many shippers, all of whose runs are wanted at the same time. With `accounts`, each has one of its own at the sink."""
    more = {"latency_ms": latency_ms, "cluster.worker_places": 2, "accounts": accounts}
    with placed(born, server.new_database(), shippers, orders, **more) as place:
        place.want_all()
        before, server_before, began = place.stored(), server_cpu_s(server), time.perf_counter()
        born = [place.start("worker") for _ in range(workers)]
        over = "select count(*) from loadsheet_fleet.procrastinate_jobs where status = 'succeeded'"
        until(lambda: place.ask(over)[0][0] == shippers, 3600, 0.2)
        wall_s = time.perf_counter() - began
        cpu = sum(cpu_s(worker.pid) for worker in born)
        after, server_s = place.stored(), server_cpu_s(server) - server_before
        accepted = sum(
            place.ask(f"select count(*) from loadsheet_s{number}.entries where state = 'accepted'")[0][0]
            for number in range(shippers)
        )
        assert accepted == shippers * orders, f"{accepted} of {shippers * orders} orders were accepted"
        for worker in born:
            worker.stop()
        return told(shippers * orders, wall_s, ours_s=cpu, server_s=server_s, stored=(before, after))


def told(count, wall_s, *, ours_s, server_s, stored):

    return [
        count / wall_s,
        wall_s,
        ours_s / count * 1e6,
        server_s / count * 1e6,
        *((after - before) / count for before, after in zip(*stored, strict=True)),
    ]


def takeover(server, born):
    """Seconds from a kill -9 of a run and its worker until another run holds the ledger, and how many outcomes were unknown then."""
    with placed(born, server.new_database(), 1, 2_000, **{"assumptions.calls_per_second": 100}) as place:
        place.want_all()
        first = place.start("worker")
        until(lambda: place.ask("select 1 from loadsheet_s0.entries where state = 'accepted' limit 1"))
        second = place.start("worker")
        until(lambda: len(place.ask("select 1 from loadsheet_fleet.workers")) == 2)
        ((holder,),) = place.ask("select holder from loadsheet_s0.tenures")
        killed = float(place.ask("select extract(epoch from clock_timestamp())")[0][0])
        os.kill(int(holder.split()[1]), signal.SIGKILL)
        first.kill()
        ((taken,),) = until(lambda: place.ask("select at from loadsheet_fleet.takeovers"))
        ((unknown,),) = until(
            lambda: place.ask("select count(*) from loadsheet_s0.events where after = 'unknown' having count(*) > 0")
        )
        second.kill()
        return float(taken) - killed, unknown


def show(name, figures):
    print("{:32}{:9.0f}{:8.1f}{:24.0f}{:12.0f}{:8.0f}{:8.0f}".format(name, *figures), flush=True)


def compare(server, born, orders):
    """One run and workers over the same number of orders, and a takeover."""
    show("one run, a file", alone(server, born, orders, on_a_server=False))
    show("one run, PostgreSQL", alone(server, born, orders, on_a_server=True))
    for workers in (1, 2, 3):
        show(f"{workers} workers, 3 shippers", fleet(server, born, workers, 3, orders // 3))
    taken, unknown = takeover(server, born)
    print(
        f"after a kill -9 another run had the ledger in {taken:.1f} s (takeover_s {TAKEOVER_S:g}); {unknown} outcomes were unknown"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=6_000, help="in all; with --shippers of each")
    parser.add_argument("--shippers", type=int, default=0, help="measure only 1, 2 and 3 workers over so many")
    parser.add_argument("--latency-ms", type=int, default=LATENCY_MS, help="only with --shippers")
    given = parser.parse_args()
    latency_ms = given.latency_ms if given.shippers else LATENCY_MS
    with running_server() as server, scratch() as folder, nursery(folder) as born:
        print(
            f"orders with 3 packages each, a sink that answers after {latency_ms} ms, {CONNECTIONS} connections "
            f"{'a shipper' if given.shippers else 'for all together'}"
        )
        print(
            f"{'':32}{'orders/s':>9}{'wall s':>8}  CPU us/order:{'loadsheet':>10}{'PostgreSQL':>12}{'bytes':>8}{'WAL':>8}"
        )
        if not given.shippers:
            compare(server, born, given.orders)
            return
        for workers in (1, 2, 3):
            figures = fleet(server, born, workers, given.shippers, given.orders, latency_ms=latency_ms, accounts=True)
            show(f"{workers} workers, {given.shippers} shippers", figures)


if __name__ == "__main__":
    main()

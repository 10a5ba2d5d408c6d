"""The ledger alone: microseconds an order for its three durable changes (planned, being sent, settled), by size of group.

Beside it a bare sqlite3 that writes as many rows of the same size with nothing to guard them: what the disk and SQLite cost
anyway. Compare the lines with each other, not with another machine's. Run: python -m tests.benchmarks.ledger
"""

import argparse
import cProfile
import pstats
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import ledgers

from loadsheet.contract import BY_NAME
from loadsheet.ledger import ReadTotals, open_ledger

GROUPS = (1, 50, 256, 500)
STEPS = ("plan", "ready", "mark", "settle")
CREATE = BY_NAME["order.create"]


class Watch:
    """Wall and CPU seconds, added up by step."""

    def __init__(self):
        self.wall, self.cpu = dict.fromkeys(STEPS, 0.0), dict.fromkeys(STEPS, 0.0)

    def time(self, step, do):
        wall, cpu = time.perf_counter(), time.process_time()
        done = do()
        self.wall[step] += time.perf_counter() - wall
        self.cpu[step] += time.process_time() - cpu
        return done


def documents(count):
    cells = ("A-00001", "Empfänger", "01067", "412.5", "1000.99")
    return [ledgers.document("order.create", ledgers.order(at), [("orders", at + 2, cells)]) for at in range(count)]


def ours(made, group, folder):
    """Plan, mark and settle all documents, `group` a time; returns the watch."""
    watch = Watch()
    with open_ledger(f"sqlite:///{folder / 'ledger.db'}") as ledger:
        run = ledger.begin_run()
        drop = ledgers.drop_of(("orders", "orders.csv"))
        watch.time("plan", lambda: ledger.plan(run, drop, {}, [*made, ReadTotals({"orders": len(made)})]))
        while ready := watch.time("ready", lambda: ledger.ready(group)):
            calls = [([one], CREATE.body([one.payload])) for one in ready]
            watch.time("mark", lambda calls=calls: ledger.mark_sending(run, calls))
            settled = [ledgers.accepted(one) for one in ready]
            watch.time("settle", lambda settled=settled: ledger.settle(run, settled))
    return watch


def bare(made, group, folder):
    """The same number of rows and changes, in as many commits, by sqlite3 alone; seconds of wall and CPU."""
    database = sqlite3.connect(folder / "bare.db", isolation_level=None)
    database.executescript(
        """pragma journal_mode=WAL; pragma synchronous=FULL;
        create table entries (id integer primary key, key text, state text, payload blob, at text);
        create index by_state on entries (state, id);
        create table events (id integer primary key, entry integer, at text, before text, after text);
        create index by_entry on events (entry);
        create table attempts (entry integer, number integer, hash text, outcome text, primary key (entry, number))"""
    )
    now = "2026-03-04T02:15:00.000Z"
    wall, cpu = time.perf_counter(), time.process_time()
    rows = [(at, one.key, "ready", one.payload, now) for at, one in enumerate(made, 1)]
    database.execute("begin immediate")
    database.executemany("insert into entries values (?, ?, ?, ?, ?)", rows)
    database.executemany("insert into events values (null, ?, ?, '', 'ready')", [(row[0], now) for row in rows])
    database.execute("commit")
    for start in range(0, len(rows), group):
        some = [row[0] for row in rows[start : start + group]]
        database.execute("begin immediate")
        database.executemany("update entries set state = 'sending' where id = ? and state = 'ready'", zip(some))
        database.executemany("insert into events values (null, ?, '', 'ready', 'sending')", zip(some))
        database.executemany("insert into attempts values (?, 1, 'a4f1', '')", zip(some))
        database.execute("commit")
        database.execute("begin immediate")
        database.executemany("update entries set state = 'accepted' where id = ? and state = 'sending'", zip(some))
        database.executemany("insert into events values (null, ?, '', 'sending', 'accepted')", zip(some))
        database.executemany("update attempts set outcome = 'accepted' where entry = ? and number = 1", zip(some))
        database.execute("commit")
    database.close()
    return time.perf_counter() - wall, time.process_time() - cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--groups", type=int, nargs="+", default=GROUPS)
    parser.add_argument("--profile", action="store_true", help="show where the time of the last group goes")
    given = parser.parse_args()
    made = documents(given.orders)
    print(f"{given.orders} orders; us of CPU an order (of wall in all)\n")
    print(f"{'group':>6}" + "".join(f"{step:>9}" for step in STEPS) + f"{'all':>9}{'wall':>9}{'bare':>9}{'wall':>9}")
    for group in given.groups:
        with tempfile.TemporaryDirectory(prefix="loadsheet-ledger-") as folder:
            profile = cProfile.Profile()
            if given.profile:
                profile.enable()
            watch = ours(made, group, Path(folder))
            profile.disable()
            plain = bare(made, group, Path(folder))
        per = 1e6 / given.orders
        steps = "".join(f"{watch.cpu[step] * per:9.1f}" for step in STEPS)
        whole = f"{sum(watch.cpu.values()) * per:9.1f}{sum(watch.wall.values()) * per:9.1f}"
        print(f"{group:>6}{steps}{whole}{plain[1] * per:9.1f}{plain[0] * per:9.1f}")
    if given.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()

"""A run killed while it sends loses nothing, and sends nothing twice that was known to be accepted. The proofs kill it at every effect."""

import csv
import io
import shutil
import signal
import sqlite3
import time
from contextlib import closing

import requests
from command_in_process import loadsheet
from command_processes import shared_nursery
from exchange_process import TOKEN, exchange
from orders import MAPPINGS, order_id, write_orders

ORDERS = 20


def entries(folder):
    database = folder / ".loadsheet" / "ledger.db"
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as ledger:
        assert ledger.execute("pragma integrity_check").fetchone() == ("ok",)
        found = ledger.execute("select key, state, attempts from entries where state not in ('unchanged')").fetchall()
    return {key: (state, attempts) for key, state, attempts in found}


def listed(url):
    answer = requests.get(
        f"{url}/tmsapi/getOrders?page_size=10000", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30
    )
    return [order["order_id"] for order in answer.json()["results"]]


def reported(folder):
    """The keys of which the reports of runs that ended tell."""
    files = [path for run in (folder / "outbox").glob("*/run.json") for path in run.parent.glob("*.results.csv")]
    texts = (path.read_text(encoding="utf-8-sig") for path in files)
    return {row["key"] for text in texts for row in csv.DictReader(io.StringIO(text, newline=""))} - {""}


def check_laws(folder, url):
    """After a last, undisturbed run: every order is accepted or named as unknown, told in a report, and none was sent twice."""
    done = loadsheet(folder, "run", "--settle", "0", "--exchange", url)
    assert done.returncode in (0, 1), done.stderr
    assert reported(folder) == {order_id(number) for number in range(ORDERS)}
    known, held = entries(folder), listed(url)
    assert sorted(held) == sorted(set(held))
    assert known.keys() == {order_id(number) for number in range(ORDERS)}
    for key, (state, attempts) in known.items():
        # a second create of one id would have been answered 400: a refused entry is an order sent twice
        assert state in ("accepted", "unknown"), (key, state)
        assert attempts == 1, (key, attempts)
        assert (key in held) or state == "unknown", key
    before = entries(folder)
    assert loadsheet(folder, "run", "--settle", "0", "--exchange", url).returncode in (0, 1)
    assert entries(folder) == before


def test_a_run_that_is_killed_while_it_sends_is_told_by_the_next_one(tmp_path):
    write_orders(tmp_path / "inbox", ORDERS)
    (tmp_path / "inbox" / "nobody.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    with exchange(tmp_path / "exchange.db") as served:
        words = ("run", "--settle", "0", "--exchange", served.url)
        running = shared_nursery().start(tmp_path, *words, LOADSHEET_ASSUMPTIONS__CALLS_PER_SECOND="20")
        while running.poll() is None and not listed(served.url):
            time.sleep(0.05)
        assert running.kill() == -signal.SIGKILL
        assert not reported(tmp_path)
        check_laws(tmp_path, served.url)
    aside = [path.name for path in (tmp_path / "outbox").glob("*/*.results.csv") if "nobody" in path.name]
    assert [name.partition(".of-")[0] for name in aside] == ["nobody.csv"]  # though only the killed run touched it

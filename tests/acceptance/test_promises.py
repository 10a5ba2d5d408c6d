"""Promises that hold across rooms: the token stays secret, silence on success, one process at a time."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from command import start
from orders import MAPPINGS, order_id, write_orders
from serving import exchange
from warm import loadsheet

CANARY = "canary-7f3a91c4d2"


def house(folder, count=12):
    write_orders(folder / "inbox", count, first=1, wrong_every=5)
    return folder


def run(folder, *words, **more):
    return loadsheet(folder, "run", "--settle", "0", "--mappings", MAPPINGS, *words, **more)


def test_the_token_stands_in_no_file_and_no_output(tmp_path):
    with exchange(tmp_path / "exchange.db", token=CANARY) as served:
        words = ("--exchange", served.url)
        done = [run(house(tmp_path), *words, LOADSHEET_TOKEN=CANARY)]
        done.append(run(tmp_path, *words, LOADSHEET_TOKEN=f"{CANARY}-wrong"))
        done.append(loadsheet(tmp_path, "doctor", *words, LOADSHEET_TOKEN=f"{CANARY}-wrong"))
    done.append(run(tmp_path, *words, LOADSHEET_TOKEN=CANARY))  # nobody there any more
    assert [each.returncode for each in done[:2]] == [1, 0]
    assert all(CANARY not in each.stdout + each.stderr for each in done)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 8
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def test_the_token_may_stand_in_a_file(tmp_path):
    (tmp_path / "token").write_text(f"{CANARY}\n", encoding="utf-8")
    with exchange(tmp_path / "exchange.db", token=CANARY) as served:
        words = ("--exchange", served.url)
        assert run(house(tmp_path), *words, LOADSHEET_TOKEN="", LOADSHEET_TOKEN_FILE="token").returncode == 1
        assert run(tmp_path, *words, LOADSHEET_TOKEN="", LOADSHEET_TOKEN_FILE="nowhere").returncode == 78


def test_the_exchange_does_not_start_without_a_token(tmp_path):
    done = loadsheet(tmp_path, "exchange", "serve", "--port", "0", LOADSHEET_TOKEN="")
    assert done.returncode == 78
    assert "LOADSHEET_TOKEN" in done.stderr
    assert done.stdout == ""


def test_a_scheduler_hears_nothing_of_a_clean_run(tmp_path):
    write_orders(tmp_path / "inbox", 3)
    done = run(tmp_path, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_second_run_at_the_same_time_is_told_who_holds_the_ledger(tmp_path):
    write_orders(tmp_path / "inbox", 2000)
    first = start(tmp_path, "run", "--settle", "0", "--mappings", MAPPINGS)
    try:
        while not (tmp_path / ".loadsheet" / "ledger.db.holder").exists():
            assert first.poll() is None
        second = run(tmp_path)
        assert second.returncode == 75
        assert f"process {first.pid} " in second.stderr
    finally:
        first.communicate(timeout=120)
    assert first.returncode == 0


def test_a_file_that_still_waits_for_its_companion_stays_in_the_inbox(tmp_path):
    write_orders(tmp_path / "inbox", 3)
    (tmp_path / "inbox" / "packages.csv").rename(tmp_path / "packages.csv")
    done = run(tmp_path)
    assert done.returncode == 0
    assert "packages.csv" in done.stderr
    assert (tmp_path / "inbox" / "orders.csv").exists()
    (tmp_path / "packages.csv").rename(tmp_path / "inbox" / "packages.csv")
    assert "9 accepted" in run(tmp_path).stdout


def test_a_fault_of_our_own_is_filed_away_and_told_in_one_line(tmp_path):
    ledger = tmp_path / ".loadsheet" / "ledger.db"
    ledger.parent.mkdir()
    ledger.write_bytes(b"this is no database, but long enough to be taken for one" * 40)
    done = run(tmp_path)
    assert done.returncode == 70
    assert "Traceback" not in done.stderr
    assert str(ledger.name) in done.stderr


def test_the_package_runs_as_a_module_and_as_a_command(tmp_path):
    assert loadsheet(tmp_path, "--version").stdout.startswith("loadsheet ")
    assert (Path(sys.executable).parent / "loadsheet").exists()


def test_a_lost_create_that_the_exchange_shows_is_known_before_its_file_is_judged_again(tmp_path):
    write_orders(tmp_path / "inbox", 3)
    with exchange(tmp_path / "exchange.db") as served:
        words = ("--exchange", served.url)
        assert run(tmp_path, *words).returncode == 0
        with closing(sqlite3.connect(tmp_path / ".loadsheet" / "ledger.db")) as ledger, ledger:
            ledger.execute("update entries set state = 'sending' where key = ?", (order_id(1),))  # as a kill leaves it
        write_orders(tmp_path / "inbox", 3)
        again = run(tmp_path, *words)
    assert again.returncode == 0, again.stdout
    assert "3 unchanged" in again.stdout

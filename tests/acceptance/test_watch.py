"""`loadsheet watch` as an operator meets it: a real process, real files, real signals."""

import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing

import pytest
from command import environment
from orders import MAPPINGS, order_id, write_orders
from serving import exchange
from warm import loadsheet
from watched import started, watching


@pytest.fixture
def house(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "inbox").mkdir()
    return tmp_path


def arrive(house, count=3, **more):
    """Orders appear in the inbox as a careful shipper puts them there: written elsewhere, then renamed."""
    write_orders(house / "coming", count, **more)
    for path in (house / "coming").iterdir():
        path.rename(house / "inbox" / path.name)


def states(house):
    database = house / ".loadsheet" / "ledger.db"
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as ledger:
        try:
            found = ledger.execute("select key, state, attempts from entries where state != 'unchanged'").fetchall()
        except sqlite3.OperationalError:  # it is being made
            return {}
    return {key: (state, attempts) for key, state, attempts in found}


def accepted(house):
    return sum(state == "accepted" for state, _ in states(house).values())


def reports(house):
    return sorted(path.name for path in (house / "outbox").glob("2*"))


def test_files_are_taken_as_they_come_one_line_a_run_and_no_report_of_nothing(house):
    arrive(house, 3)
    with watching(house) as watch:
        watch.until(lambda: len(watch.out) == 1)
        arrive(house, 4, first=10, wrong_every=11)
        watch.until(lambda: len(watch.out) == 2)
        assert watch.stop() == 0
    assert "2 files, 3 accepted; exit code 0" in watch.out[0]
    assert "2 files, " in watch.out[1]
    assert "3 accepted" in watch.out[1]
    assert "1 invalid" in watch.out[1]
    assert "exit code 1" in watch.out[1]
    assert watch.err == ["watching inbox", "stopped; what is left is for the next start"]
    assert len(reports(house)) == 2


def test_machines_read_one_line_of_json_a_run(house):
    arrive(house, 3)
    with watching(house, "--json") as watch:
        watch.until(lambda: len(watch.out) == 1)
        assert watch.stop(signal.SIGINT) == 130
    told = json.loads(watch.out[0])
    assert (told["entries"], told["balance"]["balances"]) == ({"accepted": 3}, True)


def test_companions_may_arrive_hours_apart_and_the_same_bytes_are_said_to_be_known(house):
    with watching(house, LOADSHEET_COMPANION_WAIT_S="1.5") as watch:
        write_orders(house / "coming", 3)
        (house / "coming" / "orders.csv").rename(house / "inbox" / "orders.csv")
        watch.until(lambda: watch.says("orders.csv waits for its companion packages.csv"))
        watch.until(lambda: watch.says("orders.csv has waited 0 hours for its companion packages.csv"))
        (house / "coming" / "packages.csv").rename(house / "inbox" / "packages.csv")
        watch.until(lambda: accepted(house) == 3)
        arrive(house, 3)
        watch.until(lambda: watch.says("orders.csv has the same bytes as 2"))
        watch.until(lambda: any("3 unchanged" in line for line in watch.out))
        assert watch.stop() == 0


def test_a_run_beside_a_watch_is_told_who_holds_the_ledger_and_a_killed_watch_holds_nothing(house):
    with watching(house) as watch:
        watch.until(lambda: watch.says("watching"))
        for command in ("run", "watch"):
            beside = loadsheet(house, command)
            assert beside.returncode == 75
            assert f"process {watch.process.pid} " in beside.stderr
        assert watch.stop(signal.SIGKILL) == -signal.SIGKILL
    with watching(house) as watch:
        watch.until(lambda: watch.says("watching"))
        assert watch.stop() == 0


def test_a_watch_that_was_killed_while_it_worked_goes_on_where_it_was(house):
    with exchange(house / "exchange.db") as served:
        words = ("--exchange", served.url)
        with watching(house, *words) as watch:
            arrive(house, 400)
            watch.until(lambda: accepted(house) >= 20)
            watch.stop(signal.SIGKILL)
        arrive(house, 5, first=1000)
        with watching(house, *words) as watch:
            watch.until(lambda: len(states(house)) == 405)
            watch.until(lambda: {state for state, _ in states(house).values()} <= {"accepted", "unknown"})
            assert watch.stop() == 0
    assert {attempts for _, attempts in states(house).values()} == {1}
    assert not list((house / ".loadsheet" / "work").rglob("*.csv"))
    assert not list((house / "inbox").glob("*.csv"))


def test_sigterm_lets_the_calls_under_way_finish_and_the_rest_is_for_the_next_start(house):
    with exchange(house / "exchange.db") as served:
        words = ("--exchange", served.url)
        with watching(house, *words) as watch:
            arrive(house, 600)
            watch.until(lambda: accepted(house) >= 10)
            assert watch.stop() == 0
        left = {state for state, _ in states(house).values()}
        assert left <= {"accepted", "ready"}  # nothing is in doubt
        with watching(house, *words) as watch:
            watch.until(
                lambda: watch.says("watching") and accepted(house) == 600
            )  # one that was sent twice would have been refused
            assert watch.stop() == 0


def test_sigterm_while_files_are_taken_in_keeps_what_they_hold_for_the_next_start(house):
    with exchange(house / "exchange.db") as served:
        words = ("--exchange", served.url)
        with watching(house, *words) as watch:
            watch.until(lambda: watch.says("watching"))
            arrive(house, 4_000)
            watch.until(lambda: not list((house / "inbox").glob("*.csv")))  # claimed: they are read now
            assert watch.stop() == 0
        found = Counter(state for state, _ in states(house).values())
        assert found.keys() <= {"accepted", "ready"}
        assert found.total() in (0, 4_000)
        assert found["accepted"] < 4_000, "the signal came before the first of them left, and all left"
        with watching(house, *words) as watch:
            watch.until(lambda: accepted(house) == 4_000)
            assert watch.stop() == 0


def test_an_exchange_that_is_away_is_waited_for(house):
    with (
        socket.socket() as reserved
    ):  # to the end, so that nobody else gets the port: who does not listen refuses connections
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with watching(house, "--exchange", f"http://127.0.0.1:{port}") as watch:
            arrive(house, 3)
            watch.until(lambda: watch.says("the watch goes on in"))
            assert {state for state, _ in states(house).values()} == {"ready"}
            with exchange(house / "exchange.db", port=port):
                watch.until(lambda: accepted(house) == 3)
                assert watch.stop() == 0


def test_a_refused_token_or_a_wrong_mapping_ends_the_watch(house):
    with exchange(house / "exchange.db", token="another") as served, watching(house, "--exchange", served.url) as watch:
        arrive(house, 3)
        assert watch.ended() == 77
    with watching(house) as watch:
        watch.until(lambda: accepted(house) == 3)
        path = house / "mappings" / "bench-join.yaml"
        path.write_text(path.read_text(encoding="utf-8").replace("delivery_city:", "delivery_ciy:"), encoding="utf-8")
        arrive(house, 3, first=10)
        assert watch.ended() == 78
    assert (house / "inbox" / "orders.csv").exists()
    assert loadsheet(house, "watch").returncode == 78


def test_an_inbox_that_is_not_what_it_was_is_refused_by_run_and_waited_for_by_watch(house):
    assert loadsheet(house, "run", "--settle", "0").returncode == 0
    (house / "inbox").rename(house / "mounted")
    (house / "inbox").mkdir()
    done = loadsheet(house, "run", "--settle", "0")
    assert done.returncode == 75
    assert "is it mounted?" in done.stderr
    with watching(house) as watch:
        watch.until(lambda: watch.says("is it mounted?"))
        (house / "inbox").rmdir()
        (house / "mounted").rename(house / "inbox")
        arrive(house, 3)
        watch.until(lambda: accepted(house) == 3)
        assert watch.stop() == 0


LIMITED = 'echo 0 > /proc/sys/user/max_inotify_watches && exec "$0" -m loadsheet watch'


def test_where_the_system_gives_no_events_the_watch_polls_and_says_so_once(house):
    probe = ["unshare", "--user", "--map-root-user", "sh", "-c", "echo 0 > /proc/sys/user/max_inotify_watches"]
    if not shutil.which("unshare") or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody lower the limit for one process")
    command = [*probe[:-1], LIMITED, sys.executable]
    watch = started(house, command, environment(LOADSHEET_SETTLE_S="0.3", LOADSHEET_POLL_S="0.2"))
    try:
        watch.until(lambda: watch.says("the system gives us no events (inotify watch limit reached"))
        arrive(house, 3)
        watch.until(lambda: accepted(house) == 3)
        arrive(house, 3, first=10)
        watch.until(lambda: accepted(house) == 6)
        assert watch.stop() == 0
        assert sum("no events" in line for line in watch.err) == 1
    finally:
        watch.process.kill()
        watch.ended()
        watch.process.stdout.close()
        watch.process.stderr.close()


def test_originals_are_purged_but_not_those_of_entries_that_are_held(house):
    old = {"LOADSHEET_ARCHIVE_DAYS": "1"}
    arrive(house, 3)
    assert loadsheet(house, "run", "--settle", "0").returncode == 0
    arrive(house, 3)
    text = (house / "inbox" / "orders.csv").read_text(encoding="utf-8").replace("Hauptstraße 1,", "Nebenstraße 1,")
    (house / "inbox" / "orders.csv").write_text(text, encoding="utf-8")
    assert loadsheet(house, "run", "--settle", "0").returncode == 1
    assert states(house)[order_id(1)][0] == "held"
    archive = house / ".loadsheet" / "archive"
    (day,) = archive.glob("*/*/*")
    long_ago = archive / "2020" / "01" / "01"
    long_ago.parent.mkdir(parents=True)
    day.rename(long_ago)
    with closing(sqlite3.connect(house / ".loadsheet" / "ledger.db")) as ledger, ledger:
        ledger.execute("update files set kept_as = replace(kept_as, ?, '2020/01/01')", (f"{day.relative_to(archive)}",))
    assert loadsheet(house, "run", "--settle", "0", **old).returncode == 0
    kept = list(archive.rglob("*.csv"))
    assert sorted(path.name for path in kept) == ["orders.csv", "packages.csv"]
    assert all("Nebenstraße" in path.read_text(encoding="utf-8") for path in kept if path.name == "orders.csv")

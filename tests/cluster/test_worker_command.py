"""`loadsheet worker` as it is started: what it says and does, how it ends, and what its supervisor hears."""

import csv
import os
import shutil
import signal
import socket
import threading
from contextlib import suppress

import pytest
from command_in_process import loadsheet
from command_processes import shared_nursery
from exchange_process import exchange
from orders import MAPPINGS, write_orders
from worker_processes import house, until, want

from loadsheet.ledger.ledger_opening import create_on_server
from loadsheet.settings import Settings

ORDERS = 60


@pytest.fixture
def worker(tmp_path):
    """What starts a worker, which is killed at the end if it still lives, and with it the run that outlived it."""
    born = []

    def start(*words, **more):
        born.append(shared_nursery().start(tmp_path, "worker", *words, **more))
        return born[-1]

    yield start
    for one in born:
        one.kill()
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)


def serving(ask):
    """What the workers that live serve."""
    return [serves for (serves,) in ask("select serves from workers where ended is null")]


def listen(ear, heard):
    """Take the first line of each message at once: the socket keeps ten, and what comes then is lost."""
    while not heard or heard[-1] != "STOPPING=1":
        heard.append(ear.recv(1000).decode().splitlines()[0])


@pytest.mark.sweep
def test_a_worker_reads_its_settings_again_by_sighup_ends_by_a_signal_and_tells_its_supervisor(
    worker, tmp_path, database_url, ask
):
    house(tmp_path, database_url, "acme")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "ear"))
        heard = []
        threading.Thread(target=listen, args=(ear, heard), daemon=True).start()
        running = worker("--places", "3", NOTIFY_SOCKET=str(tmp_path / "ear"), WATCHDOG_USEC="200000")
        until(lambda: serving(ask) == ['["acme"]'])
        until(lambda: "WATCHDOG=1" in heard)
        assert heard[0] == "READY=1"
        assert "serves acme: 3 runs at a time" in running.said
        assert ask("select places from workers") == [(3,)]
        house(tmp_path, database_url, "acme", "zeta")
        running.send(signal.SIGHUP)
        until(lambda: serving(ask) == ['["acme", "zeta"]'])
        running.send(signal.SIGINT)
        until(lambda: "STOPPING=1" in heard)
        assert running.wait() == 130
    assert running.said.endswith("stopped; other workers or the next start do the remaining runs\n")
    assert serving(ask) == []


@pytest.mark.parametrize(
    ("words", "database", "code", "says"),
    [
        ([], "", 78, ["a worker needs a ledger on PostgreSQL", 'database = "postgresql://']),
        ([], "postgresql://nobody@/x?host=/nowhere", 75, ["when the server can be reached"]),
        (["--only", "acne"], None, 78, ["there is no shipper acne", "did you mean acme?"]),
    ],
)
@pytest.mark.usefixtures("acme")
def test_a_worker_that_cannot_work_says_why(tmp_path, words, database, code, says):
    more = {} if database is None else {"LOADSHEET_DATABASE": database}
    done = loadsheet(tmp_path, "worker", *words, **more)
    assert (done.returncode, done.stdout) == (code, "")
    for text in says:
        assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_once_is_for_schedulers(tmp_path, acme, ask):
    done = loadsheet(tmp_path, "worker", "--once")
    assert (done.returncode, done.stdout) == (0, "")
    assert ask("select count(*) from workers where ended is not null") == [(1,)]


def house_with_orders(folder, url, exchange_url, **more):
    given = {"database": f'"{url}"', "cluster.database_schema": '"t"', "exchange": f'"{exchange_url}"'}
    given |= {"arrival.settle_s": 0, "cluster.takeover_s": 20.0, **more}
    lines = [f"{name} = {value}" for name, value in given.items()]
    (folder / "loadsheet.toml").write_text("\n".join(lines), encoding="utf-8")
    write_orders(folder / "inbox", ORDERS)
    shutil.copytree(MAPPINGS, folder / "mappings")


@pytest.mark.sweep
def test_a_watch_has_a_worker_run_what_comes_and_runs_itself_when_none_lives(tmp_path, database_url, ask, worker):
    accepted = "select count(*) from t.entries where state = 'accepted'"
    with exchange(tmp_path / "exchange.db") as served:
        house_with_orders(tmp_path, database_url, served.url, **{"cluster.takeover_s": 2.0, "watch.rescan_s": 1.0})
        running = worker()
        until(lambda: serving(ask))
        watch = shared_nursery().start(tmp_path, "watch")
        until(lambda: ask("select to_regclass('t.entries')") != [(None,)] and ask(accepted) == [(ORDERS,)])
        until(lambda: ask("select status::text from procrastinate_jobs") == [("succeeded",)])
        assert ask("select args ->> 'reason' from procrastinate_jobs") == [("files",)]
        assert "run 20" not in watch.said
        assert running.stop() == 143, running.said
        write_orders(tmp_path / "inbox", 10, first=ORDERS)
        until(lambda: ask(accepted) == [(ORDERS + 10,)])
        assert watch.stop() == 0, watch.said
    assert ask("select count(*) from procrastinate_jobs") == [(1,)]
    assert "10 accepted" in watch.said
    assert ask("select count(*) from takeovers") == [(0,)]


@pytest.mark.journey
def test_the_run_of_a_worker_answers_the_check_folder_and_knows_what_was_sent(tmp_path, database_url, ask):
    with exchange(tmp_path / "exchange.db") as served:
        house_with_orders(tmp_path, database_url, served.url, **{"arrival.check_folder": '"check"'})
        write_orders(tmp_path / "check", 3, first=ORDERS - 2)
        settings = Settings.load(tmp_path / "loadsheet.toml")
        create_on_server(settings.database_url)
        want(settings)
        done = loadsheet(tmp_path, "worker", "--once")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "check" / "orders.csv.answer" / "orders.csv.results.csv").open(newline="") as file:
        assert [row["outcome"] for row in csv.DictReader(file)] == ["unchanged", "unchanged", "ready"]
    assert ask("select count(*), max(state) from t.entries") == [(ORDERS, "accepted")]


@pytest.mark.sweep
def test_a_second_signal_is_obeyed_at_once(tmp_path, database_url, acme, ask, worker):
    """The exchange takes connections and never answers: the first signal waits for calls that are under way."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        house_with_orders(tmp_path, database_url, f"http://127.0.0.1:{silent.getsockname()[1]}")
        running = worker()
        until(lambda: serving(ask))
        want(Settings.load(tmp_path / "loadsheet.toml"))
        silent.accept()[0].close()
        connection, _ = silent.accept()
        running.send(signal.SIGTERM)
        assert running.poll() is None
        until(lambda: running.poll() is not None or running.send(signal.SIGTERM))
        assert running.wait() == 143
        connection.close()
    assert "stopped" not in running.said
    assert len(serving(ask)) == 1, "it had no time to leave"

"""`loadsheet worker` as it is started: what it says, how it ends, and what its supervisor hears."""

import signal
import socket

import pytest
from command import start
from laboring import house, until
from warm import loadsheet
from watched import Watched


@pytest.fixture
def worker(tmp_path, acme):
    """What starts a worker; killed at the end if it still lives."""
    running = []

    def start_it(*words, **more):
        running.append(Watched(start(tmp_path, "worker", *words, **more)))
        return running[-1]

    yield start_it
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.ended()
        one.process.stdout.close()
        one.process.stderr.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_worker_ends_by_a_signal(worker, ask, number, code):
    running = worker("--places", "3")
    running.until(lambda: running.says("serves acme: 3 batches of calls at a time"))
    running.until(lambda: ask("select places from workers where ended is null") == [(3,)])
    assert running.stop(number) == code
    assert running.out == []
    assert running.err[-1] == "stopped; what is left is for others, or for the next start"
    assert ask("select count(*) from workers where ended is null") == [(0,)]


def test_settings_are_read_again_by_sighup(worker, tmp_path, database_url, ask):
    running = worker()
    running.until(lambda: ask("select serves from workers") == [('["acme"]',)])
    house(tmp_path, database_url, "acme", "zeta")
    running.process.send_signal(signal.SIGHUP)
    running.until(lambda: ask("select serves from workers") == [('["acme", "zeta"]',)])
    assert running.stop() == 143


def test_a_supervisor_hears_that_a_worker_is_ready_alive_and_stopping(worker, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "ear"))
        ear.settimeout(30)
        running = worker(NOTIFY_SOCKET=str(tmp_path / "ear"), WATCHDOG_USEC="200000")
        heard = [ear.recv(1000).decode().splitlines()[0] for _ in range(3)]
        assert heard[0] == "READY=1"
        assert "WATCHDOG=1" in heard
        running.process.terminate()
        until(lambda: ear.recv(1000).decode().startswith("STOPPING=1"))
        assert running.ended() == 143


def test_a_ledger_in_a_file_needs_no_worker(tmp_path):
    done = loadsheet(tmp_path, "worker")
    assert done.returncode == 78
    assert done.stdout == ""
    assert "a worker serves ledgers on PostgreSQL, and there is none" in done.stderr
    assert 'database = "postgresql://' in done.stderr


def test_a_database_that_cannot_be_reached_is_said(tmp_path):
    done = loadsheet(tmp_path, "worker", LOADSHEET_DATABASE=f"postgresql://nobody@/x?host={tmp_path}")
    assert done.returncode == 75
    assert "try again when the server can be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_shipper_that_is_not_declared_is_refused(tmp_path, acme):
    done = loadsheet(tmp_path, "worker", "--only", "acne")
    assert done.returncode == 78
    assert "there is no shipper acne" in done.stderr
    assert "did you mean acme?" in done.stderr


def test_once_is_for_schedulers(tmp_path, acme, ask):
    done = loadsheet(tmp_path, "worker", "--once")
    assert (done.returncode, done.stdout) == (0, "")
    assert ask("select count(*) from workers where ended is not null") == [(1,)]

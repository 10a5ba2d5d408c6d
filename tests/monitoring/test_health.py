"""Health of a watch: the endpoint over real sockets, the supervisor's messages on real datagram sockets, and both of a real watch."""

import http.client
import json
import os
import secrets
import socket
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from monitored_runs import Exchange, house, samples
from orders import MAPPINGS, write_orders
from watch_process import watching

from loadsheet.errors import SettingsError
from loadsheet.operations.health import WatchStatus, report_to_systemd, serve_health, serve_status
from loadsheet.settings import Settings


def asked(address, path, method="GET"):
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def health(address):
    status, body, _ = asked(address, "/health")
    return status, json.loads(body)


@pytest.fixture
def seconds():
    """A monotonic clock that stands still until somebody moves it."""
    return SimpleNamespace(now=1000.0)


@pytest.fixture
def board(seconds):
    return WatchStatus(Settings(rescan_s=60, health_stale_s=900), lambda: seconds.now)


@pytest.fixture
def address(board):
    with serve_health(Settings(health_address="127.0.0.1:0"), board) as found:
        yield found


# the endpoint


def test_a_watch_that_scans_is_well_and_one_that_does_not_is_not(address, board, seconds):
    """A run may take long, but not without progress."""
    board.checked()
    seconds.now += 80
    assert health(address) == (200, {"status": "ok", "reason": "", "quiet_s": 80.0, "shippers": {}})
    seconds.now += 30
    status, found = health(address)
    assert (status, found["reason"]) == (503, "no heartbeat for 110 s between two scans")
    board.checked()
    assert health(address)[0] == 200
    for done in range(5):
        seconds.now += 800
        board.progress(done, 5)
    assert health(address)[0] == 200
    seconds.now += 901
    status, found = health(address)
    assert (status, found["reason"]) == (503, "no heartbeat for 901 s during a run")


def test_the_last_run_of_a_shipper_decides_as_well(address, board):
    board.ended("acme", 0)
    for code, status in ((1, 200), (65, 200), (70, 503), (75, 503), (77, 503), (78, 503), (0, 200)):
        board.ended("bolt", code, "the token was\nrefused")
        answered, found = health(address)
        assert answered == status
        codes = {name: shipper["exit_code"] for name, shipper in found["shippers"].items()}
        assert codes == {"acme": 0, "bolt": code}
        why = f"the last run of bolt ended with exit code {code}: the token was\\nrefused"
        assert found["reason"] == (why if status == 503 else "")


def test_there_are_two_paths_and_nothing_can_be_changed(address):
    assert asked(address, "/metrics")[0] == 200
    assert asked(address, "/health?verbose=1")[0] == 200
    assert asked(address, "/health", "HEAD")[:2] == (200, b"")
    assert {asked(address, path)[0] for path in ("/", "/health/", "/../etc/passwd", "/metricsx")} == {404}
    assert {asked(address, "/health", method)[0] for method in ("POST", "PUT", "DELETE")} == {501}
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"GET /health HT")
        assert health(address)[0] == 200, "an unfinished request delays no other"


def test_metrics_of_runs_are_served_and_a_run_beats_from_its_beginning_to_its_end(tmp_path):
    with (
        house(tmp_path, Exchange(), health_address="127.0.0.1:0") as here,
        serve_status(here.settings, here.said.append) as board,
    ):
        beats, alive = [], board.heartbeat
        board.heartbeat = lambda: (beats.append(1), alive())
        assert here.night(3, board=board).exit_code == 0
        address = here.said[0].removeprefix("health and metrics are at http://").partition("/")[0]
        status, body, headers = asked(address, "/metrics")
        found = samples(body.decode())
        assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
        assert found["loadsheet_entries", ("operation", "order.create"), ("state", "accepted")] == 3
        assert health(address)[1]["shippers"][""]["exit_code"] == 0
    assert len(beats) > 10


def test_an_address_needs_a_host_and_a_free_port(board, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = pytest.raises(SettingsError, match=f"monitoring.health_address: cannot listen on {address}")
        with refused, serve_health(Settings(health_address=address), board):
            pass
    monkeypatch.chdir(tmp_path)
    for wrong in ("9465", "localhost", "127.0.0.1:", ":80", "127.0.0.1:99999", "127.0.0.1:http"):
        with pytest.raises(SettingsError, match=r"health_address: .*is not an address with a port"):
            Settings.load(health_address=wrong)


# the supervisor


class Supervisor:
    """What systemd is to a service: a datagram socket, at a path or, with @, in the abstract namespace."""

    def __init__(self, name):
        self.name, self._socket = name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name[1:]}" if name.startswith("@") else name)

    def hears(self):
        self._socket.settimeout(60)
        return self._socket.recv(4096).decode()

    def hears_no_more(self, seconds):
        self._socket.settimeout(seconds)
        try:
            return not self._socket.recv(4096)
        except TimeoutError:
            return True

    def hears_until(self, wanted):
        """Every message up to the one that holds this."""
        heard = [self.hears()]
        while wanted not in heard[-1]:
            heard.append(self.hears())
        return heard

    def close(self):
        self._socket.close()


@pytest.fixture
def supervisor(tmp_path):
    with closing(Supervisor(str(tmp_path / "notify"))) as found:
        yield found


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_a_supervisor_hears_ready_what_the_watch_does_and_stopping(tmp_path, board, kind):
    name = str(tmp_path / "notify") if kind == "path" else f"@loadsheet-{secrets.token_hex(8)}"
    with closing(Supervisor(name)) as supervisor:
        with report_to_systemd(board, {"NOTIFY_SOCKET": name}):
            assert supervisor.hears_no_more(0.05), "not ready before it looks"
            for _ in range(2):
                board.checked()
            assert supervisor.hears() == "READY=1\nSTATUS=watching"
            board.progress(120, 1200)
            assert supervisor.hears() == "STATUS=sending: 120 of 1200"
            board.ended("acme", 75, "the exchange\ncannot be reached")
            assert supervisor.hears() == "STATUS=the last run of acme ended with 75: the exchange\\ncannot be reached"
        assert supervisor.hears() == "STOPPING=1\nSTATUS=stopping"
        assert supervisor.hears_no_more(0.05)


def test_the_watchdog_hears_from_a_watch_that_turns_and_not_from_one_that_hangs(supervisor, board, seconds):
    environment = {"NOTIFY_SOCKET": supervisor.name, "WATCHDOG_USEC": "40000", "WATCHDOG_PID": str(os.getpid())}
    with report_to_systemd(board, environment):
        assert supervisor.hears_no_more(0.05), "nobody has looked yet"
        began = time.monotonic()
        board.checked()
        assert supervisor.hears().startswith("READY=1")
        assert [supervisor.hears() for _ in range(4)] == ["WATCHDOG=1"] * 4
        assert time.monotonic() - began >= 3 * 0.02 - 0.001, "half the time that it gives"
        seconds.now += 3600
        # what was on its way is heard still; one that goes on would be heard each time
        assert any(supervisor.hears_no_more(0.1) for _ in range(20))
        board.checked()
        assert supervisor.hears_until("WATCHDOG=1")


@pytest.mark.parametrize("more", [{}, {"WATCHDOG_USEC": "40000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}])
def test_a_watchdog_that_waits_for_nobody_or_for_another_process_hears_nothing(supervisor, board, more):
    with report_to_systemd(board, {"NOTIFY_SOCKET": supervisor.name, **more}):
        board.checked()
        assert supervisor.hears().startswith("READY=1")
        assert supervisor.hears_no_more(0.1)
    for name in ("", "relative/path", "/nowhere/notify"):  # no supervisor
        with report_to_systemd(board, {"NOTIFY_SOCKET": name, **more}):
            board.progress(1, 2)


# a real watch


@pytest.mark.journey
def test_a_watch_under_a_supervisor_answers_runs_and_says_when_it_stops(tmp_path, supervisor):
    write_orders(tmp_path / "inbox", 3)
    more = {
        "LOADSHEET_MAPPINGS": str(MAPPINGS),
        "LOADSHEET_MONITORING__HEALTH_ADDRESS": "127.0.0.1:0",
        "NOTIFY_SOCKET": supervisor.name,
        "WATCHDOG_USEC": "2000000",
    }
    with watching(tmp_path, **more) as watch:
        watch.until(lambda: len(watch.out) == 1)
        (line,) = [line for line in watch.err if line.startswith("health and metrics are at http://")]
        address = line.split("/")[2]
        status, found = health(address)
        assert (status, found["status"], found["shippers"][""]["exit_code"]) == (200, "ok", 0)
        found = samples(asked(address, "/metrics")[1].decode())
        assert found["loadsheet_entries", ("operation", "order.create"), ("state", "accepted")] == 3
        heard = supervisor.hears_until("STATUS=the last run ended with 0")
        supervisor.hears_until("WATCHDOG=1")
        assert watch.stop() == 0
    supervisor.hears_until("STOPPING=1")
    assert heard[0] == "READY=1\nSTATUS=watching"

"""Health of a watch: the endpoint over real sockets, the supervisor's messages on real datagram sockets, and both of a real watch."""

import http.client
import json
import os
import secrets
import socket
import time

import pytest
from monitored_runs import Clock, Exchange, house, samples
from orders import MAPPINGS, write_orders
from watch_process import watching

from loadsheet.operations.health import WatchStatus, report_to_systemd, serve_health, serve_status
from loadsheet.problems import SettingsError
from loadsheet.settings import Settings


class Seconds:
    """A monotonic clock that stands still until somebody moves it."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


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
    return Seconds()


@pytest.fixture
def board(seconds):
    return WatchStatus(Settings(rescan_s=60, health_stale_s=900), seconds)


@pytest.fixture
def address(board):
    with serve_health(Settings(health_address="127.0.0.1:0"), board) as found:
        yield found


# the endpoint


def test_a_watch_that_turns_is_well_and_one_that_does_not_is_not(address, board, seconds):
    board.checked()
    seconds.now += 80
    assert health(address) == (200, {"status": "ok", "reason": "", "quiet_s": 80.0, "shippers": {}})
    seconds.now += 30
    status, told = health(address)
    assert (status, told["reason"]) == (503, "no heartbeat for 110 s between two scans")
    board.checked()
    assert health(address)[0] == 200


def test_a_run_may_take_long_but_not_without_a_sign_of_life(address, board, seconds):
    for done in range(5):
        seconds.now += 800
        board.progress(done, 5)
    assert health(address)[0] == 200
    seconds.now += 901
    status, told = health(address)
    assert (status, told["reason"]) == (503, "no heartbeat for 901 s during a run")


@pytest.mark.parametrize(
    ("code", "status"), [(0, 200), (1, 200), (65, 200), (70, 503), (75, 503), (77, 503), (78, 503)]
)
def test_the_last_run_of_a_shipper_decides_as_well(address, board, code, status):
    board.ended("acme", 0)
    board.ended("bolt", code, "the token was\nrefused")
    found, told = health(address)
    assert found == status
    assert {name: shipper["exit_code"] for name, shipper in told["shippers"].items()} == {"acme": 0, "bolt": code}
    if status == 503:
        assert told["reason"] == f"the last run of bolt ended with exit code {code}: the token was\\nrefused"
        board.ended("bolt", 0)
        assert health(address)[0] == 200


def test_there_are_two_paths_and_nothing_can_be_changed(address):
    assert asked(address, "/metrics")[0] == 200
    assert asked(address, "/health?verbose=1")[0] == 200
    assert asked(address, "/health", "HEAD")[:2] == (200, b"")
    for path in ("/", "/health/", "/../etc/passwd", "/metricsx"):
        assert asked(address, path)[0] == 404
    for method in ("POST", "PUT", "DELETE"):
        assert asked(address, "/health", method)[0] == 501


def test_somebody_who_asks_and_says_no_more_holds_up_nobody(address):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"GET /health HT")
        assert health(address)[0] == 200


def test_metrics_of_the_nights_are_served(tmp_path):
    with (
        house(tmp_path, Exchange(), health_address="127.0.0.1:0") as here,
        serve_status(here.settings, here.said.append) as board,
    ):
        assert here.night(3, board=board).exit_code == 0
        address = here.said[0].removeprefix("health and metrics are at http://").partition("/")[0]
        status, body, headers = asked(address, "/metrics")
        found = samples(body.decode())
        assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
        assert found["loadsheet_entries", ("operation", "order.create"), ("state", "accepted")] == 3
        assert health(address)[1]["shippers"][""]["exit_code"] == 0


def test_a_run_beats_on_the_board_from_its_beginning_to_its_end(tmp_path, seconds):
    board = WatchStatus(Settings(), seconds)
    beats = []
    alive = board.heartbeat
    board.heartbeat = lambda: (beats.append(1), alive())
    with house(tmp_path, clock=Clock()) as here:
        here.night(2, board=board)
    assert len(beats) > 10


def test_an_address_that_is_taken_is_told_in_a_sentence(board):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = Settings(health_address=f"127.0.0.1:{port}")
        told = f"monitoring.health_address: cannot listen on 127.0.0.1:{port}"
        with pytest.raises(SettingsError, match=told), serve_health(chosen, board):
            pass


@pytest.mark.parametrize("wrong", ["9465", "localhost", "127.0.0.1:", ":80", "127.0.0.1:99999", "127.0.0.1:http"])
def test_an_address_needs_a_host_and_a_port(tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"health_address: .*is not an address with a port"):
        Settings.load(health_address=wrong)


# the supervisor


class Supervisor:
    """What systemd is to a service: a datagram socket."""

    def __init__(self, bound):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(bound)

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
def supervisor(request, tmp_path):
    kind = getattr(request, "param", "path")
    name = str(tmp_path / "notify") if kind == "path" else f"@loadsheet-{secrets.token_hex(8)}"
    found = Supervisor(f"\0{name[1:]}" if name.startswith("@") else name)
    found.name = name
    yield found
    found.close()


@pytest.mark.parametrize("supervisor", ["path", "abstract"], indirect=True)
def test_a_supervisor_hears_ready_what_the_watch_does_and_stopping(supervisor, board):
    with report_to_systemd(board, {"NOTIFY_SOCKET": supervisor.name}):
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


@pytest.mark.parametrize("name", ["", "relative/path", "/nowhere/notify"])
def test_without_a_supervisor_nothing_happens(board, name):
    with report_to_systemd(board, {"NOTIFY_SOCKET": name}):
        board.progress(1, 2)


# a real watch


@pytest.mark.journey
def test_a_watch_under_a_supervisor_answers_runs_and_says_when_it_stops(tmp_path, request):
    supervisor = Supervisor(str(tmp_path / "notify"))
    request.addfinalizer(supervisor.close)
    write_orders(tmp_path / "inbox", 3)
    more = {
        "LOADSHEET_MAPPINGS": str(MAPPINGS),
        "LOADSHEET_MONITORING__HEALTH_ADDRESS": "127.0.0.1:0",
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "WATCHDOG_USEC": "2000000",
    }
    with watching(tmp_path, **more) as watch:
        watch.until(lambda: len(watch.out) == 1)
        (line,) = [line for line in watch.err if line.startswith("health and metrics are at http://")]
        address = line.split("/")[2]
        status, told = health(address)
        assert (status, told["status"], told["shippers"][""]["exit_code"]) == (200, "ok", 0)
        found = samples(asked(address, "/metrics")[1].decode())
        assert found["loadsheet_entries", ("operation", "order.create"), ("state", "accepted")] == 3
        heard = supervisor.hears_until("STATUS=the last run ended with 0")
        supervisor.hears_until("WATCHDOG=1")
        assert watch.stop() == 0
    supervisor.hears_until("STOPPING=1")
    assert heard[0] == "READY=1\nSTATUS=watching"

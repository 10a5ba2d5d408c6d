"""The status of a watch: its heartbeat, the last run of each shipper, and when it counts as healthy.

It is reported to systemd (sd_notify) and served over HTTP: /health for supervisors, /metrics for Prometheus. The watch updates it from its own
thread; the endpoint and the supervisor read it from theirs. The endpoint only reads, and knows no secret.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from loadsheet import exit_codes, extras, run_log
from loadsheet.errors import SettingsError
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from prometheus_client import Metric

REQUEST_TIMEOUT_S = 5.0
"""Time a client has to send its request."""

GRACE_S = 30.0  # how late the heartbeat of an idle watch may be


class LastRun(NamedTuple):
    """The last run of a shipper: its exit code, when it ended (aware, UTC), and why it ended early, if it did."""

    exit_code: int
    ended: datetime
    reason: str = ""


class Health(NamedTuple):
    """Whether a watch is healthy, and if not, why."""

    is_healthy: bool
    reason: str = ""


class WatchStatus:
    """The status of one watch. `clock` counts monotonic seconds. `on_ready` is called once, at the first check of the inbox; `on_status`
    with a line about each change. `extra_metrics` gives current metrics that belong to no shipper.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s, self._busy_s = settings.watch.rescan_s + GRACE_S, settings.monitoring.health_stale_s
        self._clock = clock
        self._heartbeat_at = clock()
        self._idle = True
        self._lock = threading.Lock()
        self._last_runs: dict[str, LastRun] = {}
        self._metrics: dict[str, Sequence[Metric]] = {}
        self._status = ""
        self.ready = False
        self.on_ready: Callable[[], None] = lambda: None
        self.on_status: Callable[[str], None] = lambda _status: None
        self.extra_metrics: Callable[[], Sequence[Metric]] = tuple

    def checked(self) -> None:
        """Record that the watch has checked for work."""
        self._heartbeat_at, self._idle = self._clock(), True
        if not self.ready:
            self.ready = True
            self.on_ready()

    def heartbeat(self) -> None:
        """Record that a run makes progress. Called from the run."""
        self._heartbeat_at, self._idle = self._clock(), False

    def progress(self, done: int, total: int) -> None:
        """Record that `done` of `total` entries are sent."""
        self.heartbeat()
        self._set_status(f"sending: {done} of {total}")

    def ended(self, shipper: str, exit_code: int, reason: str = "") -> None:
        """Record that a run of this shipper ended."""
        with self._lock:
            self._last_runs[shipper] = LastRun(exit_code, datetime.now(UTC), reason)
        of = f" of {shipper}" if shipper else ""
        self._set_status(f"the last run{of} ended with {exit_code}" + (f": {reason}" if reason else ""))

    def set_metrics(self, shipper: str, metrics: "Sequence[Metric]") -> None:
        """Set the current metrics of this shipper."""
        with self._lock:
            self._metrics[shipper] = metrics

    def last_runs(self) -> dict[str, LastRun]:
        """The last run of each shipper that had one."""
        with self._lock:
            return dict(self._last_runs)

    def metrics(self) -> "list[Sequence[Metric]]":
        """The metrics of all shippers, and those that belong to none."""
        with self._lock:
            metrics = list(self._metrics.values())
        return [*metrics, self.extra_metrics()]

    @property
    def silent_s(self) -> float:
        """Seconds since the last heartbeat."""
        return self._clock() - self._heartbeat_at

    @property
    def liveness(self) -> Health:
        """Whether the heartbeat of the watch is recent, regardless of the results of its runs."""
        silent_s, busy = self.silent_s, not self._idle
        if silent_s <= (self._busy_s if busy else self._idle_s):
            return Health(is_healthy=True)
        doing = "during a run" if busy else "between two scans"
        return Health(is_healthy=False, reason=f"no heartbeat for {silent_s:.0f} s {doing}")

    @property
    def health(self) -> Health:
        """Whether the heartbeat is recent and the last run of every shipper did its work."""
        liveness = self.liveness
        if not liveness.is_healthy:
            return liveness
        for shipper, last in self.last_runs().items():
            if last.exit_code in exit_codes.FAILED:
                of = f" of {shipper}" if shipper else ""
                reason = f": {last.reason}" if last.reason else ""
                return Health(
                    is_healthy=False, reason=f"the last run{of} ended with exit code {last.exit_code}{reason}"
                )
        return liveness

    def _set_status(self, status: str) -> None:
        if status != self._status:
            self._status = status
            self.on_status(status)


# ---- systemd ----


class Notifier:
    """Sends messages to the supervisor. `address` is that of its socket in the environment: a path, or an abstract socket if it begins with @;
    empty if there is no supervisor.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self.address: str | bytes = name if name.startswith("/") else ""
        if name.startswith("@"):
            self.address = b"\0" + os.fsencode(name[1:])

    def send(self, *lines: str) -> None:
        """Send these lines (`READY=1`) as one message."""
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(0)  # a busy supervisor must not delay a run
            sender.sendto("\n".join(lines).encode(), self.address)


@contextmanager
def report_to_systemd(watch_status: WatchStatus, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Report this watch to systemd while the `with` block lasts: ready at the first check, each status, stopping at the end. Sends the
    watchdog signal twice per WATCHDOG_USEC while the heartbeat is recent.
    """
    notifier = Notifier(environment)
    if not notifier.address:
        yield
        return
    over = threading.Event()
    pulse = threading.Thread(
        target=_send_watchdog, args=(notifier, watch_status, over, _pause_s(environment)), daemon=True
    )
    watch_status.on_ready = lambda: notifier.send("READY=1", "STATUS=watching")
    watch_status.on_status = lambda text: notifier.send(f"STATUS={run_log.clean(text)}")
    pulse.start()
    try:
        yield
    finally:
        notifier.send("STOPPING=1", "STATUS=stopping")
        over.set()
        pulse.join()


def _pause_s(environment: Mapping[str, str]) -> float:
    """Half the watchdog interval; 0 if the supervisor wants no signal from this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    wanted = environment.get("WATCHDOG_USEC", "")
    return int(wanted) / 2_000_000 if wanted.isascii() and wanted.isdigit() else 0.0


def _send_watchdog(notifier: Notifier, watch_status: WatchStatus, over: threading.Event, pause_s: float) -> None:
    while pause_s and not over.is_set():
        if watch_status.ready and watch_status.liveness.is_healthy:
            notifier.send("WATCHDOG=1")
        over.wait(pause_s)


# ---- endpoint ----


@contextmanager
def serve_health(settings: Settings, watch_status: WatchStatus) -> Iterator[str]:
    """Serve `monitoring.health_address` while the `with` block lasts; gives the address with its port. Raises SettingsError if it is not
    free.
    """
    host, _, port = settings.monitoring.health_address.rpartition(":")
    host = host.strip("[]")
    try:
        server = _Server((host, int(port)), watch_status)
    except OSError as error:
        message = f"monitoring.health_address: cannot listen on {settings.monitoring.health_address} ({error.strerror})"
        raise SettingsError(f"{message}; give another port, or leave it empty") from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="health", daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], watch_status: WatchStatus) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.watch_status = watch_status
        super().__init__(address, _Answering)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client disconnected: not logged."""


class _Answering(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_S
    server_version, sys_version = "loadsheet", ""

    def do_GET(self) -> None:
        """Serve the two paths."""
        path = self.path.partition("?")[0]
        if path == "/health":
            self._health()
        elif path == "/metrics":
            from loadsheet.operations.metrics import CONTENT_TYPE, exposition

            self._answer(HTTPStatus.OK, CONTENT_TYPE, exposition(self.server.watch_status.metrics()))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"not found; use /health or /metrics\n")

    do_HEAD = do_GET  # noqa: N815 (the library's name)

    def _health(self) -> None:
        watch_status = self.server.watch_status
        health = watch_status.health
        response = {
            "status": "ok" if health.is_healthy else "unwell",
            "reason": run_log.clean(health.reason),
            "quiet_s": round(watch_status.silent_s, 1),
            "shippers": {
                shipper: {"exit_code": last.exit_code, "ended": last.ended.isoformat(timespec="seconds")}
                for shipper, last in watch_status.last_runs().items()
            },
        }
        status = HTTPStatus.OK if health.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, "application/json", msgspec.json.encode(response) + b"\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""


# ---- status, endpoint and supervisor together ----


@contextmanager
def serve_status(settings: Settings, say: Callable[[str], None]) -> Iterator[WatchStatus]:
    """The status of a watch, served at `monitoring.health_address` and reported to systemd, as far as these are configured; `say` takes the
    address. Raises SettingsError if the address is not free, or a library that the settings need is not installed.
    """
    extras.check(settings)
    watch_status = WatchStatus(settings)
    with ExitStack() as stack:
        if settings.monitoring.health_address:
            address = stack.enter_context(serve_health(settings, watch_status))
            say(f"health and metrics are at http://{address}/health and /metrics")
        if settings.is_shared:
            from loadsheet.operations.metrics import CachedClusterMetrics, writing_cluster_metrics

            watch_status.extra_metrics = CachedClusterMetrics(settings)
            stack.enter_context(writing_cluster_metrics(settings, say))
        stack.enter_context(report_to_systemd(watch_status))
        yield watch_status

"""The status of a watch: its heartbeat, the last run of each shipper, and when it counts as healthy. Reports it to systemd (sd_notify).

The watch updates it from its own thread; the health endpoint and the supervisor read it from theirs.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from loadsheet import exit_codes, run_log
from loadsheet.settings import Settings

if TYPE_CHECKING:
    from prometheus_client import Metric

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
    """Sends messages to the supervisor that the environment names, if it names one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))

    @property
    def is_supervised(self) -> bool:
        """Whether there is a supervisor."""
        return bool(self._address)

    def send(self, *lines: str) -> None:
        """Send these lines (`READY=1`) as one message."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(0)  # a busy supervisor must not delay a run
            sender.sendto("\n".join(lines).encode(), self._address)

    def ready(self) -> None:
        """Report that the watch has started."""
        self.send("READY=1", "STATUS=watching")

    def status(self, text: str) -> None:
        """Report in a line what the watch does."""
        self.send(f"STATUS={run_log.clean(text)}")


def _address(name: str) -> str | bytes:
    """The address of a socket by its name in the environment: a path, or an abstract socket if it begins with @."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    return name if name.startswith("/") else ""


@contextmanager
def report_to_systemd(watch_status: WatchStatus, environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Report this watch to systemd while the `with` block lasts: ready at the first check, each status, stopping at the end. Sends the
    watchdog signal twice per WATCHDOG_USEC while the heartbeat is recent.
    """
    notifier = Notifier(environment)
    if not notifier.is_supervised:
        yield
        return
    over = threading.Event()
    pulse = threading.Thread(
        target=_send_watchdog, args=(notifier, watch_status, over, _pause_s(environment)), daemon=True
    )
    watch_status.on_ready, watch_status.on_status = notifier.ready, notifier.status
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

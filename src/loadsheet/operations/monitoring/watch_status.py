"""The status of a watch: its heartbeat, the last run of each shipper, and when it counts as healthy.

The watch updates it from its own thread; the health endpoint and the supervisor read it from theirs.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from loadsheet import exit_codes
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
        """Whether the heartbeat of the watch is recent, whatever became of its runs."""
        silent_s, busy = self.silent_s, not self._idle
        if silent_s <= (self._busy_s if busy else self._idle_s):
            return Health(is_healthy=True)
        doing = "in the middle of a run" if busy else "between two looks into the inbox"
        return Health(is_healthy=False, reason=f"no sign of life for {silent_s:.0f} s {doing}")

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

"""Metrics of the cluster: workers, queue, takeovers, shared rate.

Every process reports the same values: aggregate them with max, not sum. They have their own file, because they belong to no shipper.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from loadsheet.ledger.shared.cluster_status import ClusterStatus, cluster_status
from loadsheet.operations.monitoring import metrics
from loadsheet.problems import LedgerError
from loadsheet.settings import Settings

FILE = "fleet"
"""Stands in the file name instead of a shipper's name; no shipper can have this name."""
CACHE_S = 5.0
"""How long values are cached, so that frequent scrapes do not load the database."""
PAUSE_S = 60.0
_SHORT = 12  # digits of the name of a shared rate, as a label

_Samples = Mapping[tuple[str, ...], float]


def collect_metrics(fleet: ClusterStatus) -> list[Metric]:
    """All metrics of a cluster."""
    return [*_of_workers(fleet), *_of_queue(fleet), *_of_paces(fleet)]


def _of_workers(fleet: ClusterStatus) -> Iterator[Metric]:
    yield _gauge("seen_timestamp_seconds", "Time of these metrics of the fleet.", {(): fleet.at.timestamp()})
    yield _gauge("workers", "Live worker processes.", {(): fleet.alive})
    help_text = "Ledgers taken over from a process without a heartbeat."
    taken = CounterMetricFamily("loadsheet_fleet_takeovers", help_text)
    taken.add_metric((), fleet.takeovers_ever)
    yield taken


def _of_queue(fleet: ClusterStatus) -> Iterator[Metric]:
    depth: dict[tuple[str, ...], float] = {}
    for queue in fleet.queue:
        depth[queue.shipper, queue.reason, "waiting"] = queue.waiting
        depth[queue.shipper, queue.reason, "under way"] = queue.under_way
    help_text = "Runs in the queue by reason, waiting or under way."
    yield _gauge("queue", help_text, depth, "shipper", "reason", "state")
    help_text = "Waiting time of the oldest run in the queue (0: none waits)."
    yield _gauge("oldest_waiting_seconds", help_text, {(): fleet.oldest_s})


def _of_paces(fleet: ClusterStatus) -> Iterator[Metric]:
    named = {(pace.exchange, pace.name[:_SHORT]): pace for pace in fleet.paces}
    leased: dict[tuple[str, ...], float] = {key: pace.leased_per_second for key, pace in named.items()}
    yield _gauge("leased_rate", "Calls a second that the workers together may make now.", leased, "exchange", "pace")
    allowed: dict[tuple[str, ...], float] = {key: pace.per_second for key, pace in named.items()}
    yield _gauge("allowed_rate", "Calls a second that the settings allow (0: no limit).", allowed, "exchange", "pace")
    shares: dict[tuple[str, ...], float] = {key: pace.share for key, pace in named.items()}
    help_text = "Share of rate and connections in use after the exchange asked to slow down (1: all)."
    yield _gauge("share", help_text, shares, "exchange", "pace")


def _gauge(name: str, help_text: str, values: _Samples, *labels: str) -> Metric:
    metric = GaugeMetricFamily(f"loadsheet_fleet_{name}", help_text, labels=labels)
    for label_values, value in values.items():
        metric.add_metric(label_values, value)
    return metric


class CachedMetrics:
    """Current metrics of the cluster, cached; empty while the database cannot be reached."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._lock = threading.Lock()
        self._taken: tuple[float, Sequence[Metric]] | None = None

    def __call__(self) -> Sequence[Metric]:
        """The metrics, at most `CACHE_S` old."""
        with self._lock:
            if self._taken is None or self._clock() - self._taken[0] >= CACHE_S:
                self._taken = (self._clock(), self._now())
            return self._taken[1]

    def _now(self) -> Sequence[Metric]:
        try:
            fleet = cluster_status(self._settings)
        except LedgerError:
            return ()
        return () if fleet is None else collect_metrics(fleet)


def write(settings: Settings, say: Callable[[str], None]) -> None:
    """Write the metrics of the cluster beside `monitoring.metrics_file`, if that is set and there is a cluster. Failures are passed to `say`."""
    if settings.monitoring.metrics_file is None or not settings.is_shared:
        return
    path = metrics.metrics_path(settings.monitoring.metrics_file, FILE)
    try:
        if fleet := cluster_status(settings):
            metrics.write(path, collect_metrics(fleet))
    except LedgerError as error:
        say(f"loadsheet: the metrics of the fleet cannot be read ({error})")
    except OSError as error:
        say(f"loadsheet: the metrics file {path} cannot be written ({error.strerror})")


@contextmanager
def write_regularly(settings: Settings, say: Callable[[str], None], pause_s: float = PAUSE_S) -> Iterator[None]:
    """Write the metrics of the cluster every `pause_s` while the `with` block lasts. A failure is passed to `say` when it differs from the
    last one.
    """
    if settings.monitoring.metrics_file is None or not settings.is_shared:
        yield
        return
    over, last_text = threading.Event(), [""]

    def say_if_new(text: str) -> None:
        if text != last_text[0]:
            last_text[0] = text
            say(text)

    def keep_writing() -> None:
        write(settings, say_if_new)
        while not over.wait(pause_s):
            write(settings, say_if_new)

    writing = threading.Thread(target=keep_writing, name="fleet metrics", daemon=True)
    writing.start()
    try:
        yield
    finally:
        over.set()
        writing.join(timeout=1.0)  # a thread that still waits for the database writes a complete file or none

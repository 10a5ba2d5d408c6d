"""Metrics of the last run, of the ledger and inbox after it, and of the cluster; in Prometheus text format, for the textfile collector or the
health endpoint.

Metrics of a run have the label `shipper`, empty if the settings declare none. They are gauges of the last run, not sums over all runs; values
that must survive a failed run come from the ledger. Metrics of the cluster belong to no shipper and have their own file. Every process
reports the same values: aggregate them with max, not sum.
"""

import hashlib
import platform
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from loadsheet import inbox, run_log
from loadsheet.errors import FolderError, LedgerError, SettingsError
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.shared.cluster_status import ClusterStatus, cluster_status
from loadsheet.operations.expected_files import Overdue
from loadsheet.places import leave_to_umask
from loadsheet.reports.run_document import RunOutcome
from loadsheet.settings import Settings

AGES = (("30+", 31), ("8-30", 8), ("2-7", 2), ("0-1", 0))
"""The age buckets of open exceptions, oldest first, each with the first whole day that belongs to it."""

CALL_LIMITS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

CLUSTER_FILE = "fleet"
"""Stands in the file name instead of a shipper's name; no shipper can have this name."""
CACHE_S = 5.0
"""How long values are cached, so that frequent scrapes do not load the database."""
PAUSE_S = 60.0
_SHORT = 12  # digits of the name of a shared rate, as a label

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]")

_Samples = Mapping[tuple[str, ...], float]


def collect_metrics(
    settings: Settings, outcome: RunOutcome, queries: LedgerQueries | None, late: Sequence[Overdue]
) -> list[Metric]:
    """All metrics after a run. Without those of the ledger if it cannot be read (`queries` is None), and without those of the inbox if it
    cannot be read.
    """
    found = [*_of_run(outcome), _gauge("late_arrivals", "Expected files and runs that are late.", {(): len(late)})]
    with suppress(FolderError, SettingsError):
        seen = inbox.scan_read_only(settings)
        found.append(_gauge("inbox_waiting", "Files in the inbox.", {(): len(seen.candidates) + len(seen.left)}))
    if (pace := run_log.figures().get("pace_connections")) is not None:
        help_text = "Concurrent calls on which the last run settled."
        found.append(_gauge("pace_connections", help_text, {(): pace}))
    if queries is not None:
        found += _of_ledger(queries, outcome)
        if outcome.run:
            found += _of_calls(queries, outcome.run)
    for metric in found:
        metric.samples = [
            sample._replace(labels={"shipper": outcome.shipper, **sample.labels}) for sample in metric.samples
        ]
    return found


def _of_run(outcome: RunOutcome) -> Iterator[Metric]:
    built: dict[tuple[str, ...], float] = {(version("loadsheet"), platform.python_version()): 1.0}
    yield _gauge("build_info", "The program that wrote these metrics; always 1.", built, "version", "python")
    yield _gauge("last_run_timestamp_seconds", "When the last run ended.", {(): outcome.ended.timestamp()})
    help_text = (
        "Exit code of the last run: 0 clean, 1 rows need someone, 65 nothing usable; 70, 75, 77 and 78: it failed."
    )
    yield _gauge("last_run_exit_code", help_text, {(): outcome.exit_code})
    duration_s = (outcome.ended - outcome.began).total_seconds()
    yield _gauge("run_duration_seconds", "Duration of the last run.", {(): duration_s})
    if outcome.summary is not None:
        counts: Counter[tuple[str, ...]] = Counter()
        for drop in outcome.summary.drops:
            counts.update({(drop.operation, state): count for state, count in drop.entries.items()})
        help_text = "Records of the drops that the last run read or changed, by operation and state."
        yield _gauge("entries", help_text, counts, "operation", "state")


def _of_ledger(queries: LedgerQueries, outcome: RunOutcome) -> Iterator[Metric]:
    moments = [stamp(outcome.ended - timedelta(days=days)) for _, days in AGES]
    found = queries.figures(moments)
    if found.last_success:
        help_text = "When the last successful run ended (exit code 0, 1 or 65)."
        yield _gauge(
            "last_success_timestamp_seconds", help_text, {(): datetime.fromisoformat(found.last_success).timestamp()}
        )
    older = 0
    buckets: dict[tuple[str, ...], float] = {}
    for (bucket, days), count in zip(AGES, found.opened_by, strict=True):
        by_now = count if days else found.open  # includes exceptions opened by a clock that is slightly ahead
        buckets[bucket,], older = by_now - older, by_now
    yield _gauge("open_exceptions", "Records that need someone, by age in whole days.", buckets, "bucket")
    age_s = (
        (outcome.ended - datetime.fromisoformat(found.oldest_unsent)).total_seconds() if found.oldest_unsent else 0.0
    )
    help_text = "Age of the oldest ready record that is not sent (0: none)."
    yield _gauge("oldest_unsent_seconds", help_text, {(): max(age_s, 0.0)})
    yield _gauge("unknown_entries", "Records with an unknown outcome.", {(): found.unknown})


def _of_calls(queries: LedgerQueries, run: str) -> Iterator[Metric]:
    outcomes, times = queries.calls_in(run, CALL_LIMITS_S)
    help_text = "Calls of the last run by operation and outcome. A call with several outcomes counts for each."
    counted: dict[tuple[str, ...], float] = {
        (operation, outcome or "none"): float(count) for (operation, outcome), count in outcomes.items()
    }
    yield _gauge("calls", help_text, counted, "operation", "outcome")
    taken = HistogramMetricFamily(
        "loadsheet_call_duration_seconds", "Duration of the calls of the last run.", labels=["operation"]
    )
    for calls in times:
        within = [(str(limit), float(count)) for limit, count in zip(CALL_LIMITS_S, calls.within, strict=True)]
        taken.add_metric([calls.operation], [*within, ("+Inf", float(calls.made))], calls.seconds)
    yield taken


def _gauge(name: str, help_text: str, values: _Samples, *labels: str) -> Metric:
    metric = GaugeMetricFamily(f"loadsheet_{name}", help_text, labels=labels)
    for label_values, value in values.items():
        metric.add_metric(label_values, value)
    return metric


# ---- files and responses ----


class _MergedCollector(Collector):
    """The metrics of several shippers, merged by name."""

    def __init__(self, parts: Iterable[Sequence[Metric]]) -> None:
        self._parts = list(parts)

    def collect(self) -> Iterator[Metric]:
        """Every metric with the samples of all shippers."""
        whole: dict[str, Metric] = {}
        for metric in (metric for part in self._parts for metric in part):
            mine = whole.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            mine.samples.extend(metric.samples)
        yield from whole.values()


def exposition(parts: Iterable[Sequence[Metric]]) -> bytes:
    """The metrics of these shippers as text."""
    return generate_latest(_registry(parts))


def write(path: Path, metrics: Sequence[Metric]) -> None:
    """Write the metrics of one shipper to a file, atomically. Raises OSError."""
    write_to_textfile(str(path), _registry([metrics]))
    leave_to_umask(path)  # for a collector, which runs as another user


def metrics_path(path: Path, shipper: str) -> Path:
    """The metrics file of a shipper. Each has its own, so that runs of several shippers never write to the same file."""
    if not shipper:
        return path
    name = _STRANGE.sub("_", shipper)
    if name != shipper:  # two names that become equal still get different files
        name = f"{name}-{hashlib.sha256(shipper.encode()).hexdigest()[:8]}"
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _registry(parts: Iterable[Sequence[Metric]]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_MergedCollector(parts))
    return registry


# ---- the cluster ----


def collect_cluster_metrics(cluster: ClusterStatus) -> list[Metric]:
    """All metrics of a cluster."""
    taken = CounterMetricFamily("loadsheet_fleet_takeovers", "Ledgers taken over from a process without a heartbeat.")
    taken.add_metric((), cluster.takeovers_ever)
    depth: dict[tuple[str, ...], float] = {}
    for queue in cluster.queue:
        depth[queue.shipper, queue.reason, "waiting"] = queue.waiting
        depth[queue.shipper, queue.reason, "under way"] = queue.under_way
    paces = {(pace.exchange, pace.name[:_SHORT]): pace for pace in cluster.paces}
    figures: list[tuple[str, str, _Samples]] = [
        ("seen_timestamp_seconds", "Time of these metrics of the fleet.", {(): cluster.at.timestamp()}),
        ("workers", "Live worker processes.", {(): cluster.alive}),
        (
            "oldest_waiting_seconds",
            "Waiting time of the oldest run in the queue (0: none waits).",
            {(): cluster.oldest_s},
        ),
    ]
    by_pace: list[tuple[str, str, _Samples]] = [
        (
            "leased_rate",
            "Calls a second that the workers together may make now.",
            {key: pace.leased_per_second for key, pace in paces.items()},
        ),
        (
            "allowed_rate",
            "Calls a second that the settings allow (0: no limit).",
            {key: pace.per_second for key, pace in paces.items()},
        ),
        (
            "share",
            "Share of rate and connections in use after the exchange asked to slow down (1: all).",
            {key: pace.share for key, pace in paces.items()},
        ),
    ]
    help_text = "Runs in the queue by reason, waiting or under way."
    return [
        *(_gauge(f"fleet_{name}", text, values) for name, text, values in figures),
        taken,
        _gauge("fleet_queue", help_text, depth, "shipper", "reason", "state"),
        *(_gauge(f"fleet_{name}", text, values, "exchange", "pace") for name, text, values in by_pace),
    ]


class CachedClusterMetrics:
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
            cluster = cluster_status(self._settings)
        except LedgerError:
            return ()
        return () if cluster is None else collect_cluster_metrics(cluster)


def write_cluster_metrics(settings: Settings, say: Callable[[str], None]) -> None:
    """Write the metrics of the cluster beside `monitoring.metrics_file`, if that is set and there is a cluster. Failures are passed to `say`."""
    if settings.monitoring.metrics_file is None or not settings.is_shared:
        return
    path = metrics_path(settings.monitoring.metrics_file, CLUSTER_FILE)
    try:
        if cluster := cluster_status(settings):
            write(path, collect_cluster_metrics(cluster))
    except LedgerError as error:
        say(f"loadsheet: the metrics of the fleet cannot be read ({error})")
    except OSError as error:
        say(f"loadsheet: the metrics file {path} cannot be written ({error.strerror})")


@contextmanager
def writing_cluster_metrics(settings: Settings, say: Callable[[str], None], pause_s: float = PAUSE_S) -> Iterator[None]:
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
        write_cluster_metrics(settings, say_if_new)
        while not over.wait(pause_s):
            write_cluster_metrics(settings, say_if_new)

    writing = threading.Thread(target=keep_writing, name="fleet metrics", daemon=True)
    writing.start()
    try:
        yield
    finally:
        over.set()
        writing.join(timeout=1.0)  # a thread that still waits for the database writes a complete file or none

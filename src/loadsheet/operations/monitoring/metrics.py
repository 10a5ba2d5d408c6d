"""Metrics of the last run, and of the ledger and inbox after it; in Prometheus text format, for the textfile collector or the health endpoint.

Each has the label `shipper`, empty if the settings declare none. Metrics of the run are gauges of the last run, not sums over all runs;
values that must survive a failed run come from the ledger.
"""

import hashlib
import platform
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest, write_to_textfile
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from loadsheet import inbox, run_log
from loadsheet.file_modes import leave_to_umask
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files import Overdue
from loadsheet.problems import FolderError, SettingsError
from loadsheet.reports.run_document import RunOutcome
from loadsheet.settings import Settings

AGES = (("30+", 31), ("8-30", 8), ("2-7", 2), ("0-1", 0))
"""The age buckets of open exceptions, oldest first, each with the first whole day that belongs to it."""

CALL_LIMITS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

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
    if (waiting := _waiting(settings)) is not None:
        found.append(_gauge("inbox_waiting", "Files in the inbox.", {(): waiting}))
    if (pace := run_log.figures().get("pace_connections")) is not None:
        help_text = "Concurrent calls on which the last run settled."
        found.append(_gauge("pace_connections", help_text, {(): pace}))
    if queries is not None:
        found += _of_ledger(queries, outcome)
        if outcome.run:
            found += _of_calls(queries, outcome.run)
    return [_of_shipper(metric, outcome.shipper) for metric in found]


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
        help_text = "When the last successful run ended (exit code 0 or 1)."
        yield _gauge("last_success_timestamp_seconds", help_text, {(): _moment(found.last_success).timestamp()})
    older = 0
    buckets: dict[tuple[str, ...], float] = {}
    for (bucket, days), count in zip(AGES, found.opened_by, strict=True):
        by_now = count if days else found.open  # includes exceptions opened by a clock that is slightly ahead
        buckets[bucket,], older = by_now - older, by_now
    yield _gauge("open_exceptions", "Records that need someone, by age in whole days.", buckets, "bucket")
    age_s = (outcome.ended - _moment(found.oldest_unsent)).total_seconds() if found.oldest_unsent else 0.0
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


def _of_shipper(metric: Metric, shipper: str) -> Metric:
    metric.samples = [sample._replace(labels={"shipper": shipper, **sample.labels}) for sample in metric.samples]
    return metric


def _waiting(settings: Settings) -> int | None:
    try:
        seen = inbox.peek(settings)
    except (FolderError, SettingsError):
        return None
    return len(seen.candidates) + len(seen.left)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


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

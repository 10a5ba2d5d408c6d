"""Metrics in Prometheus text format: a file for the textfile collector, and one response for all shippers of a watch."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest, write_to_textfile
from prometheus_client.registry import Collector

from loadsheet.file_modes import leave_to_umask

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]")


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
    leave_to_umask(path)  # for a collector, which is another user


def metrics_path(path: Path, shipper: str) -> Path:
    """The metrics file of a shipper. Each has its own, so that runs of several shippers never write to the same file."""
    if not shipper:
        return path
    name = _STRANGE.sub("_", shipper)
    if name != shipper:  # two names that look alike afterwards stay two files
        name = f"{name}-{hashlib.sha256(shipper.encode()).hexdigest()[:8]}"
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _registry(parts: Iterable[Sequence[Metric]]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_MergedCollector(parts))
    return registry

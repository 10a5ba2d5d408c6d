"""Figures as Prometheus reads them: in a file for its textfile collector, and in one answer for all shippers of a watch.

Owns: the registry, and where the file of a shipper is.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest, write_to_textfile
from prometheus_client.registry import Collector

from loadsheet.file_modes import leave_to_umask

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]")


class _All(Collector):
    """The figures of several shippers, each name once."""

    def __init__(self, parts: Iterable[Sequence[Metric]]) -> None:
        self._parts = list(parts)

    def collect(self) -> Iterator[Metric]:
        """Every metric with the samples of all shippers."""
        whole: dict[str, Metric] = {}
        for metric in (metric for part in self._parts for metric in part):
            mine = whole.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            mine.samples.extend(metric.samples)
        yield from whole.values()


def exposed(parts: Iterable[Sequence[Metric]]) -> bytes:
    """The figures of these shippers as text."""
    return generate_latest(_registry(parts))


def write(path: Path, figures: Sequence[Metric]) -> None:
    """Write the figures of one shipper to a file, which is there as a whole or as it was before. Raises OSError."""
    write_to_textfile(str(path), _registry([figures]))
    leave_to_umask(path)  # for a collector, which is another user


def file_of(path: Path, shipper: str) -> Path:
    """Where the figures of this shipper go: beside those of others, so that runs of several never write into one file."""
    if not shipper:
        return path
    name = _STRANGE.sub("_", shipper)
    if name != shipper:  # two names that look alike afterwards stay two files
        name = f"{name}-{hashlib.sha256(shipper.encode()).hexdigest()[:8]}"
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def _registry(parts: Iterable[Sequence[Metric]]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_All(parts))
    return registry

"""Metrics, health checks and traces. The log is in `run_log`.

`update_metrics` writes the metrics of a run for Prometheus; `serve_status` shows a watch or worker to systemd and at its health endpoint,
with the metrics of the cluster; `traced` sends traces; `shipped_file` gives dashboards and alert rules. Only reads.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import files

from loadsheet import run_log
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files import Overdue
from loadsheet.operations.monitoring.watch_status import WatchStatus, report_to_systemd
from loadsheet.problems import LedgerError, SettingsError
from loadsheet.reports.run_document import RunOutcome
from loadsheet.settings import Settings

__all__ = ["NAMES", "WatchStatus", "serve_status", "shipped_file", "traced", "update_metrics"]


def update_metrics(
    settings: Settings,
    outcome: RunOutcome,
    queries: LedgerQueries | None,
    late: Sequence[Overdue],
    say: Callable[[str], None],
    *,
    watch_status: WatchStatus | None = None,
) -> None:
    """Update the metrics after a run. A failure to write them is passed to `say`."""
    if watch_status is not None:
        watch_status.ended(outcome.shipper, outcome.exit_code, str(outcome.stopped or ""))
    exposition = watch_status is not None and settings.monitoring.health_address
    if not (exposition or settings.monitoring.metrics_file):
        return
    from loadsheet.operations.monitoring import metrics

    try:
        measured = metrics.collect_metrics(settings, outcome, queries, late)
    except LedgerError as error:
        say(f"loadsheet: the metrics lack the figures of the ledger ({error})")
        measured = metrics.collect_metrics(settings, outcome, None, late)
    if watch_status is not None:
        watch_status.set_metrics(outcome.shipper, measured)
    if settings.monitoring.metrics_file:
        path = metrics.metrics_path(settings.monitoring.metrics_file, outcome.shipper)
        try:
            metrics.write(path, measured)
        except OSError as error:
            say(f"loadsheet: the metrics file {path} cannot be written ({error.strerror})")
        if settings.is_shared:
            from loadsheet.operations.monitoring import cluster_metrics

            cluster_metrics.write(settings, say)


@contextmanager
def traced(settings: Settings, say: Callable[[str], None]) -> Iterator[run_log.Spans | None]:
    """A recorder that sends the stages and calls of a run to `monitoring.otlp_endpoint` as a trace; None if that setting is empty. `say` takes
    failures. Raises SettingsError if OpenTelemetry is not installed.
    """
    if not settings.monitoring.otlp_endpoint:
        yield None
        return
    try:
        from loadsheet.operations.monitoring.tracing import tracing
    except ImportError:
        raise SettingsError(
            "monitoring.otlp_endpoint: traces need OpenTelemetry, which is not installed; pip install 'loadsheet[otel]', or leave it empty"
        ) from None
    with tracing(settings.monitoring.otlp_endpoint, say) as spans:
        yield spans


@contextmanager
def serve_status(settings: Settings, say: Callable[[str], None]) -> Iterator[WatchStatus]:
    """The status of a watch, served at `monitoring.health_address` and reported to systemd, as far as these are configured; `say` takes the address.
    Raises SettingsError if the address is not free.
    """
    watch_status = WatchStatus(settings)
    with ExitStack() as stack:
        if settings.monitoring.health_address:
            from loadsheet.operations.monitoring.health_server import serve_health

            address = stack.enter_context(serve_health(settings, watch_status))
            say(f"health and metrics are at http://{address}/health and /metrics")
        if settings.is_shared:
            from loadsheet.operations.monitoring import cluster_metrics

            watch_status.extra_metrics = cluster_metrics.CachedMetrics(settings)
            stack.enter_context(cluster_metrics.write_regularly(settings, say))
        stack.enter_context(report_to_systemd(watch_status))
        yield watch_status


NAMES = ("grafana.json", "prometheus-alerts.yml", "datasette.yaml")


def shipped_file(name: str) -> bytes:
    """A file of NAMES for another program: a Grafana dashboard, Prometheus alert rules, or Datasette queries."""
    return files("loadsheet.operations.monitoring").joinpath("shipped", name).read_bytes()

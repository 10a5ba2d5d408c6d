"""Seeing: metrics, health and traces of runs, for whoever watches them from outside. Their lines are written by `journal`.

`measure` writes what a run came to for Prometheus; `shown` shows a watch or a worker to its supervisor and at its health endpoint, and the
figures of the fleet with it; `traced` sends traces; `shipped` gives the files for other programs. Reads nights, the ledger's history and
the fleet; changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from loadsheet import run_log
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.operations.expected_files import Late
from loadsheet.operations.monitoring.shipped_files import NAMES, shipped
from loadsheet.operations.monitoring.systemd import supervised
from loadsheet.operations.monitoring.watch_status import Board
from loadsheet.problems import LedgerError, SettingsError
from loadsheet.run_outcome import Night
from loadsheet.settings import Settings

__all__ = ["NAMES", "Board", "measure", "shipped", "shown", "traced"]


def measure(
    settings: Settings,
    night: Night,
    queries: LedgerQueries | None,
    late: Sequence[Late],
    say: Callable[[str], None],
    *,
    board: Board | None = None,
) -> None:
    """Bring the metrics up to date after a run; what cannot be written is said and changes nothing else."""
    if board is not None:
        board.ended(night.shipper, night.exit_code, str(night.stopped or ""))
    exposed = board is not None and settings.health_address
    if not (exposed or settings.metrics_file):
        return
    from loadsheet.operations.monitoring import prometheus, run_metrics  # noqa: PLC0415 (only for those who asked for metrics)

    try:
        measured = run_metrics.figures(settings, night, queries, late)
    except LedgerError as error:
        say(f"loadsheet: the metrics lack what the ledger knows ({error})")
        measured = run_metrics.figures(settings, night, None, late)
    if board is not None:
        board.measured(night.shipper, measured)
    if settings.metrics_file:
        path = prometheus.file_of(settings.metrics_file, night.shipper)
        try:
            prometheus.write(path, measured)
        except OSError as error:
            say(f"loadsheet: the metrics file {path} cannot be written ({error.strerror})")
        if settings.is_shared:
            from loadsheet.operations.monitoring import cluster_metrics  # noqa: PLC0415 (only for those who have one)

            cluster_metrics.write(settings, say)


@contextmanager
def traced(settings: Settings, say: Callable[[str], None]) -> Iterator[run_log.Spans | None]:
    """Who hears of the stages and calls of a run and sends them to `otlp_endpoint` as a trace; None if that is empty. `say` takes what
    goes wrong with it. Raises SettingsError if what that takes is not installed.
    """
    if not settings.otlp_endpoint:
        yield None
        return
    try:
        from loadsheet.operations.monitoring.tracing import tracing  # noqa: PLC0415 (an option, which need not be installed)
    except ImportError:
        raise SettingsError(
            "otlp_endpoint: traces need OpenTelemetry, which is not installed; pip install 'loadsheet[otel]', or leave it empty"
        ) from None
    with tracing(settings.otlp_endpoint, say) as spans:
        yield spans


@contextmanager
def shown(settings: Settings, say: Callable[[str], None]) -> Iterator[Board]:
    """The board of a watch, shown at `health_address` and to systemd as far as they are there; `say` hears where. Raises SettingsError
    if the address cannot be listened on.
    """
    board = Board(settings)
    with ExitStack() as stack:
        if settings.health_address:
            from loadsheet.operations.monitoring.health_server import served  # noqa: PLC0415 (most watches have none)

            address = stack.enter_context(served(settings, board))
            say(f"health and metrics are at http://{address}/health and /metrics")
        if settings.is_shared:
            from loadsheet.operations.monitoring import cluster_metrics  # noqa: PLC0415 (only for those who have one)

            board.live = cluster_metrics.Live(settings)
            stack.enter_context(cluster_metrics.written(settings, say))
        stack.enter_context(supervised(board))
        yield board

"""Traces of runs for an OpenTelemetry collector: a span for the run, one for each stage in it, and one for each call.

OpenTelemetry is optional and imported only if `monitoring.otlp_endpoint` is set. Span attributes pass the run log's filter; exceptions set the status
of a span but not its text. No trace header is sent to the exchange. An unreachable collector costs a run a few seconds at its end, once.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from loadsheet import run_log

TIMEOUT_S = 3.0
_QUEUE = 65_536  # spans that wait to be sent
_PATH = "/v1/traces"


@contextmanager
def tracing(endpoint: str, say: Callable[[str], None]) -> Iterator[run_log.Spans]:
    """A recorder that sends stages and calls to this collector, the last ones at the end of the block; `say` takes a failure."""
    logger = logging.getLogger("opentelemetry")  # silenced: a failure is reported once, at the end
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    traces_at = f"{endpoint.rstrip('/').removesuffix(_PATH)}{_PATH}"  # given the base address, or the full one
    exporter = _StopAfterFailure(OTLPSpanExporter(endpoint=traces_at, timeout=TIMEOUT_S))
    named = Resource({"service.name": "loadsheet", "service.version": version("loadsheet")})
    provider = TracerProvider(sampler=ALWAYS_ON, resource=named, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=_QUEUE))
    try:
        yield _Tracing(provider.get_tracer("loadsheet"))
    finally:
        provider.shutdown()
        if exporter.failed:
            say(f"loadsheet: the trace of this run could not be sent to {run_log.clean(endpoint)}")


class _StopAfterFailure(SpanExporter):
    """Stops after the first failure, so that a run waits only once for an unreachable collector."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter, self.failed = exporter, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans, unless an earlier batch failed."""
        if not self.failed:
            self.failed = self._exporter.export(spans) is not SpanExportResult.SUCCESS
        return SpanExportResult.FAILURE if self.failed else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the exporter."""
        self._exporter.shutdown()


class _Tracing:
    """Records stages and calls as spans, each inside the current stage."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._root: Span | None = None

    @contextmanager
    def stage(self, name: str, fields: Mapping[str, Any]) -> Iterator[None]:
        """A span for the `with` block; an exception sets its status to error."""
        with self._tracer.start_as_current_span(
            name, attributes=_plain(fields), record_exception=False, set_status_on_exception=False
        ) as span:
            self._root = self._root or span
            done = False
            try:
                yield
                done = True
            finally:
                if not done:
                    span.set_status(Status(StatusCode.ERROR))

    def call(self, name: str, seconds: float, fields: Mapping[str, Any]) -> None:
        """A span for a call that ends now."""
        ended = time.time_ns()
        began = ended - round(seconds * 1_000_000_000)
        self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=_plain(fields), start_time=began).end(ended)

    def set_attributes(self, **fields: Any) -> None:
        """Attributes of the whole run."""
        if self._root is not None:
            self._root.set_attributes(_plain(fields))


def _plain(fields: Mapping[str, Any]) -> dict[str, str | bool | int | float]:
    return {f"loadsheet.{name}": value for name, value in fields.items() if isinstance(value, str | bool | int | float)}

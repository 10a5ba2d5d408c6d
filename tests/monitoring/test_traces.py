"""Traces: what a collector receives over a real socket, decoded as it would decode it."""

import sys

import pytest
from monitored_runs import TOKEN, Exchange, house, order_id
from notification_servers import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from loadsheet.errors import LedgerBusy, SettingsError
from loadsheet.ledger import open_ledger


def spans_of(collector):
    """The spans that came, and the name of the service that sent them."""
    spans, services = [], set()
    for _, path, headers, body, _ in collector.got:
        kind = {name.casefold(): value for name, value in headers.items()}["content-type"]
        assert (path, kind) == ("/v1/traces", "application/x-protobuf")
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            services |= {one.value.string_value for one in resource.resource.attributes if one.key == "service.name"}
            spans += [span for scope in resource.scope_spans for span in scope.spans]
    return spans, services


def attributes(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_a_collector_gets_a_span_for_the_run_its_stages_and_each_call(tmp_path):
    with web() as collector:
        more = {"shipper": "acme", "otlp_endpoint": f"http://127.0.0.1:{collector.port}/"}
        with house(tmp_path, Exchange(refused=[order_id(1)]), **more) as here:
            assert here.night(3).exit_code == 1
        spans, services = spans_of(collector)
    assert services == {"loadsheet"}
    assert len({span.trace_id for span in spans}) == 1
    names = {span.span_id: span.name for span in spans}
    stages = [("run", stage) for stage in ("learn", "intake", "sending", "reconcile", "reports")]
    assert sorted((names.get(span.parent_span_id, ""), span.name) for span in spans) == sorted(
        [("", "run"), *stages, ("intake", "one drop"), *[("sending", "order.create")] * 3]
    )
    by_name = {span.name: span for span in spans}
    assert attributes(by_name["run"]).items() >= {
        ("loadsheet.run", "2026-03-04-01"),
        ("loadsheet.shipper", "acme"),
        ("loadsheet.exit_code", 1),
    }
    assert attributes(by_name["one drop"])["loadsheet.file"] == "orders.csv"
    calls = {attributes(span)["loadsheet.key"]: span for span in spans if span.name == "order.create"}
    assert attributes(calls[order_id(1)])["loadsheet.status"] == 400
    sending = by_name["sending"]
    for call in calls.values():
        assert call.kind == Span.SPAN_KIND_CLIENT
        assert sending.start_time_unix_nano <= call.start_time_unix_nano < call.end_time_unix_nano
        assert call.end_time_unix_nano <= sending.end_time_unix_nano
    assert all(span.status.code == Status.STATUS_CODE_UNSET for span in spans)
    sent = [request.headers for request in here.server.requests]
    assert sent
    ours = {"traceparent", "tracestate", "baggage"}
    assert not [headers for headers in sent if ours & headers.keys()], "not the exchange's business"
    assert all(TOKEN.encode() not in body for *_, body, _ in collector.got)
    assert here.said == []


def test_a_stage_that_fails_is_marked_and_the_reason_is_not_sent(tmp_path):
    with web() as collector, house(tmp_path, otlp_endpoint=f"http://127.0.0.1:{collector.port}/v1/traces") as here:
        here.settings.state.mkdir(parents=True)
        with open_ledger(here.settings.database_url), pytest.raises(LedgerBusy):
            here.night()
        ((span,), _) = spans_of(collector)
    assert (span.name, span.status.code) == ("run", Status.STATUS_CODE_ERROR)
    assert (span.status.message, list(span.events)) == ("", [])


def test_a_collector_that_takes_nothing_is_reported_once_and_changes_nothing_else(tmp_path):
    with web() as collector:
        collector.code = 400
        with house(tmp_path, otlp_endpoint=f"http://me:secret-word@127.0.0.1:{collector.port}") as here:
            assert here.night(2).exit_code == 0
    assert here.said == [f"loadsheet: the trace of this run could not be sent to http://***@127.0.0.1:{collector.port}"]
    assert len(collector.got) == 1


def test_without_an_endpoint_nothing_is_imported_and_with_one_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "loadsheet.operations.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with house(tmp_path / "without") as here:
        here.night(1)
    assert "loadsheet.operations.tracing" not in sys.modules
    with house(tmp_path / "with", otlp_endpoint="http://127.0.0.1:9") as here, pytest.raises(SettingsError) as raised:
        here.night(1)
    assert "pip install 'loadsheet[otel]'" in str(raised.value)
    assert (here.settings.inbox / "orders.csv").exists(), "nothing was begun"

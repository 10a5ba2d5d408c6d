"""Traces: what a collector receives over a real socket, decoded as it would decode it."""

import sys

import pytest
from monitored_runs import TOKEN, Exchange, house, order_id
from notification_servers import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from loadsheet.ledger import open_ledger
from loadsheet.problems import LedgerBusy, SettingsError


def spans_of(collector):
    """The spans that came, and the name of the service that sent them."""
    spans, services = [], set()
    for _, path, headers, body, _ in collector.got:
        kind = {name.casefold(): value for name, value in headers.items()}["content-type"]
        assert (path, kind) == ("/v1/traces", "application/x-protobuf")
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            services |= {one.value.string_value for one in resource.resource.attributes if one.key == "service.name"}
            spans += [span for scope in resource.scope_spans for span in scope.spans]
    return spans, services


def tree(spans):
    """The names of spans, each with the name of the one that it is inside of."""
    names = {span.span_id: span.name for span in spans}
    return sorted((names.get(span.parent_span_id, ""), span.name) for span in spans)


def attributes(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_a_collector_gets_a_span_for_the_run_its_stages_and_each_call(tmp_path):
    exchange = Exchange(refused=[order_id(1)])
    with (
        web() as collector,
        house(tmp_path, exchange, shipper="acme", otlp_endpoint=f"http://127.0.0.1:{collector.port}/") as here,
    ):
        assert here.night(3).exit_code == 1
        spans, services = spans_of(collector)
        sent = [request.headers for request in here.server.requests]
    assert services == {"loadsheet"}
    assert len({span.trace_id for span in spans}) == 1
    assert tree(spans) == sorted(
        [
            ("", "run"),
            *(("run", stage) for stage in ("learn", "intake", "sending", "reconcile", "reports")),
            ("intake", "one drop"),
            *[("sending", "order.create")] * 3,
        ]
    )
    by_name = {span.name: span for span in spans}
    of_run = attributes(by_name["run"])
    assert (of_run["loadsheet.run"], of_run["loadsheet.shipper"], of_run["loadsheet.exit_code"]) == (
        "2026-03-04-01",
        "acme",
        1,
    )
    assert attributes(by_name["one drop"])["loadsheet.file"] == "orders.csv"
    calls = {attributes(span)["loadsheet.key"]: span for span in spans if span.name == "order.create"}
    assert attributes(calls[order_id(1)])["loadsheet.status"] == 400
    sending = by_name["sending"]
    for call in calls.values():
        assert call.kind == Span.SPAN_KIND_CLIENT
        assert (
            sending.start_time_unix_nano
            <= call.start_time_unix_nano
            < call.end_time_unix_nano
            <= sending.end_time_unix_nano
        )
    assert all(span.status.code == Status.STATUS_CODE_UNSET for span in spans)
    assert sent
    assert not [headers for headers in sent if {"traceparent", "tracestate", "baggage"} & headers.keys()], (
        "not the exchange's business"
    )
    assert all(TOKEN.encode() not in body for *_, body, _ in collector.got)
    assert here.said == []


def test_a_stage_that_fails_is_marked_and_what_failed_is_not_told(tmp_path):
    with web() as collector, house(tmp_path, otlp_endpoint=f"http://127.0.0.1:{collector.port}/v1/traces") as here:
        here.settings.state.mkdir(parents=True)
        with open_ledger(here.settings.database_url), pytest.raises(LedgerBusy):
            here.night()
        ((span,), _) = spans_of(collector)
    assert (span.name, span.status.code, span.status.message, list(span.events)) == (
        "run",
        Status.STATUS_CODE_ERROR,
        "",
        [],
    )


def test_a_collector_that_takes_nothing_is_told_once_and_changes_nothing_else(tmp_path):
    with web() as collector:
        collector.code = 400
        with house(tmp_path, otlp_endpoint=f"http://me:secret-word@127.0.0.1:{collector.port}") as here:
            assert here.night(2).exit_code == 0
    assert here.said == [f"loadsheet: the trace of this run could not be sent to http://***@127.0.0.1:{collector.port}"]
    assert len(collector.got) == 1


def test_without_an_endpoint_nothing_of_it_is_even_imported(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "loadsheet.operations.tracing", raising=False)
    with house(tmp_path) as here:
        here.night(1)
    assert "loadsheet.operations.tracing" not in sys.modules


def test_where_it_is_not_installed_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "loadsheet.operations.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with house(tmp_path, otlp_endpoint="http://127.0.0.1:9") as here, pytest.raises(SettingsError) as raised:
        here.night(1)
    assert "pip install 'loadsheet[otel]'" in str(raised.value)
    assert (here.settings.inbox / "orders.csv").exists(), "nothing was begun"

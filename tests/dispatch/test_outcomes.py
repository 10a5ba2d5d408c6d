"""The outcome of each answer and each failure, and its words."""

import re
import socket
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import requests
import scripted_exchange
import urllib3.exceptions
from exchange_calls import encode
from payload_examples import GOOD
from ready_entries import client_of, settings
from scripted_exchange import Scripted

from loadsheet.contract import (
    BY_NAME,
    UNAUTHORISED,
    UNKNOWN_METHOD,
    WRITES,
    Assumptions,
    Fault,
    refusal_body,
    success_body,
)
from loadsheet.dispatch.outcomes import FAILURES, STATUSES, Failure, OutcomeKind, Phase, Reply, classify, excerpt
from loadsheet.dispatch.transport import failure_text

ASSUMPTIONS = Assumptions()
CREATE = BY_NAME["order.create"]
NOT_SENT, ACCEPTED, REFUSED, UNKNOWN, NOT_AUTHORISED = OutcomeKind


def payload_of(operation):
    good = GOOD[operation.name]
    return good["data"][0] if operation.batched else good


def judged(operation, status, body=b"", key=None, **more):
    raw = body if isinstance(body, bytes) else encode(body)
    keys = [operation.key_of(payload_of(operation)) if key is None else key]
    return classify(operation, keys, Reply(status, raw, **more), ASSUMPTIONS, wait_max_s=3600)


def library_exceptions():
    """The names of all exceptions of the libraries that make calls."""
    found = set()
    waiting = [requests.RequestException, urllib3.exceptions.HTTPError, urllib3.exceptions.ProxySchemeUnsupported]
    for module in (requests.exceptions, urllib3.exceptions):
        kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Exception)]
        waiting += [kind for kind in kinds if kind.__module__ == module.__name__]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += kind.__subclasses__()
    named = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in found if not issubclass(kind, Warning)}
    named.pop("json.decoder.JSONDecodeError", None)
    return named


def test_every_exception_of_the_libraries_is_named_and_none_shows_its_name():
    kinds = library_exceptions()
    mine = {name for name in kinds if name.startswith(("requests.", "urllib3."))}
    assert len(mine) > 45
    assert mine <= set(FAILURES)
    assert {name for name in FAILURES if not name.startswith("loadsheet.")} <= mine, "no name that is gone"
    for name, kind in kinds.items():
        error = kind.__new__(kind)
        error.args = ()
        assert not TECHNICAL.search(failure_text(error)), name


@pytest.mark.parametrize("left", [False, True])
def test_a_failure_is_not_sent_only_if_nothing_left_and_its_class_allows_it(left):
    for name, phase in {**FAILURES, "somewhere.NewError": Phase.AFTER}.items():  # nobody has named that one
        reply = Reply(failure=Failure(name, "it said so", left))
        outcome = classify(CREATE, ["k"], reply, ASSUMPTIONS, wait_max_s=10)
        assert outcome.kind is (UNKNOWN if left or phase is Phase.AFTER else NOT_SENT), name
        assert "said so" in outcome.reason


def test_a_documented_success_is_accepted_and_a_documented_refusal_refused_with_its_fields():
    for operation in WRITES:
        outcome = judged(
            operation, 200, success_body(operation, payload_of(operation), ASSUMPTIONS, service_order=880001)
        )
        assert outcome.kind is ACCEPTED
        assert outcome.service_order == ("880001" if operation.name in ("order.create", "order.update") else "")
        path, index = ("status_code", 3) if operation.batched else ("order_id", None)
        outcome = judged(operation, 400, refusal_body(operation, (Fault(path, "is wrong", index),)))
        assert outcome.kind is REFUSED
        assert [(fault.text.endswith("is wrong"), fault.index) for fault in outcome.faults] == [(True, index)]


def test_a_refusal_in_no_documented_shape_is_refused_and_kept_in_part():
    outcome = judged(CREATE, 400, b"<html>Bad\x00 Request from a proxy</html>")
    assert outcome.kind is REFUSED
    (fault,) = outcome.faults
    assert fault.path == ""
    assert "in an undocumented shape" in fault.text
    assert "<html>Bad Request from a proxy</html>" in fault.text


GOOD_BODY = success_body(CREATE, GOOD["order.create"], ASSUMPTIONS, service_order=1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"status": true}',
        *({**GOOD_BODY, "status": status} for status in (False, "true", 1, None)),
        {**GOOD_BODY, "message": 7},
        {**GOOD_BODY, "data": {"order_id": {"orders_data": []}}},
        {**GOOD_BODY, "data": {"order_id": {"orders_data": GOOD_BODY["data"]["order_id"]["orders_data"] * 2}}},
        encode(GOOD_BODY)[:-1],
        encode(GOOD_BODY).replace(b'"status"', b'"status":false,"status"', 1),
        encode(GOOD_BODY).replace(b"true", b"NaN"),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_success_in_another_shape_is_unknown(body):
    outcome = judged(CREATE, 200, body)
    assert (outcome.kind, outcome.status, outcome.stops_sending) == (UNKNOWN, 200, False)


def test_a_web_page_in_the_place_of_an_answer_is_unknown_and_ends_the_sending():
    outcome = judged(CREATE, 200, b"\n<!DOCTYPE html><title>Please log in</title>")
    assert (outcome.kind, outcome.status, outcome.stops_sending) == (UNKNOWN, 200, True)
    assert "Please log in" in outcome.reason


def test_an_answer_that_names_another_record_is_unknown():
    outcome = judged(CREATE, 200, GOOD_BODY, key="SO-1002")
    assert outcome.kind is UNKNOWN
    assert "SO-1001" in outcome.reason
    assert "SO-1002" in outcome.reason


def test_every_status_has_a_meaning_and_most_are_unknown():
    kinds = {status: judged(CREATE, status, b"{}") for status in range(100, 1000) if status not in (200, 400)}
    refused_whole = {403, 404, 405, 406, 407, 411, 413, 414, 415, 422, 431}
    by_kind = {kind: {status for status, one in kinds.items() if one.kind is kind} for kind in OutcomeKind}
    assert by_kind[NOT_AUTHORISED] == {401}
    assert by_kind[NOT_SENT] == {*refused_whole, 425, 429}
    assert by_kind[ACCEPTED] == by_kind[REFUSED] == set(), "all else is unknown"
    assert {status for status, one in kinds.items() if one.stops_sending} == {*range(300, 400), *refused_whole}
    assert set(STATUSES) <= set(kinds)


def test_the_documented_401_and_405_are_no_refusals():
    outcome = judged(CREATE, 401, UNAUTHORISED)
    said = 'the exchange refused the token: status 401, "You are not authorised to access this resource."'
    assert (outcome.kind, outcome.reason) == (NOT_AUTHORISED, said), "the message without the shape around it"
    assert judged(CREATE, 401, b'{"error": {"message": ""}}').reason.endswith(', "{"error": {"message": ""}}"')
    assert judged(CREATE, 401, b'{"error": {"message": "no \\ud800"}}').reason.endswith('"no ?"')
    outcome = judged(CREATE, 405, UNKNOWN_METHOD)
    assert (outcome.kind, outcome.stops_sending) == (NOT_SENT, True)
    assert "Unknown method" in outcome.reason


NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def http_date(moment):
    return format_datetime(moment, usegmt=True)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("", 0),
        ("-5", 0),
        ("soon", 0),
        ("1.5", 0),
        ("\N{ARABIC-INDIC DIGIT SEVEN}", 0),
        ("315360000", 3600),
        ("9" * 5000, 3600),
        (http_date(NOON + timedelta(seconds=90)), 90),
        (http_date(NOON - timedelta(days=1)), 0),
        (http_date(NOON + timedelta(days=900)), 3600),
        ("Wed, 99 Foo 2026 12:00:00 GMT", 0),
    ],
)
def test_a_retry_after_is_obeyed_up_to_a_cap(header, seconds):
    outcome = judged(CREATE, 429, retry_after=header, date=http_date(NOON))
    assert (outcome.kind, outcome.wait_s, outcome.stops_sending) == (NOT_SENT, seconds, False)


def test_a_retry_after_date_without_a_date_of_the_answer_is_taken_against_our_clock():
    soon = http_date(datetime.now(UTC) + timedelta(seconds=100))
    assert 90 < judged(CREATE, 429, retry_after=soon).wait_s <= 100


def test_an_excerpt_is_one_printable_line():
    assert excerpt(b"a\r\n\x1b[31m b\xff\t" + b"c" * 9999) == "a [31m b\N{REPLACEMENT CHARACTER} " + "c" * 190


def test_every_text_of_an_answer_becomes_one_printable_line():
    forged = "ok\r\n  attempt 2:\x1b[31m \u202eaccepted"
    line = "ok attempt 2: [31m accepted"
    assert judged(CREATE, 200, {**GOOD_BODY, "message": forged}).reason == line
    assert len(judged(CREATE, 200, {**GOOD_BODY, "message": "x" * 9_999}).reason) == 200
    outcome = judged(CREATE, 400, refusal_body(CREATE, (Fault(f"city {forged}", forged),)))
    assert outcome.faults == (Fault(f"city {line}", line),)
    assert outcome.reason == f"city {line}: {line}"
    named = encode(GOOD_BODY).replace(b"SO-1001", b"SO\\n-1002" + b"x" * 9_999)
    reason = judged(CREATE, 200, named).reason
    assert 'the answer names "SO -1002xxx' in reason
    assert len(reason) < 300


# failures in plain words

TECHNICAL = re.compile(r"Errno|[A-Z][a-z]+Error|Exception|object at 0x|_ssl\.c|urllib3|requests|[A-Z]+_[A-Z]+")


def failure_at(url, **changes):
    with client_of(url, settings(**{"call_timeout_s": 0.5, "connect_timeout_s": 0.3, **changes})) as client:
        return client.ask(CREATE, encode(GOOD["order.create"])).failure


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (scripted_exchange.closes_without_answer, "the exchange closed the connection without an answer"),
        (scripted_exchange.cuts(0.5), "the exchange closed the connection in the middle of an answer"),
        (scripted_exchange.resets_after_reading, "the connection was interrupted"),
        (scripted_exchange.hangs(5), "the call did not finish within 0.5 s (dispatch.call_timeout_s)"),
    ],
)
def test_a_call_without_an_answer_is_described_in_plain_words(move, words):
    with Scripted(move) as server:
        assert failure_at(server.url).text == words


def test_an_address_where_nobody_is_is_described_in_plain_words():
    with closing(socket.create_server(("127.0.0.1", 0))) as port:
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
    failure = failure_at(url)
    assert failure.text == "connection refused"
    assert failure.log == "NewConnectionError: [Errno 111] Connection refused"
    assert failure_at("https://no-such-host.invalid").text == "the host name of the exchange cannot be resolved"


def test_tls_to_a_plain_port_sends_nothing_and_is_described_without_the_words_of_openssl():
    with closing(socket.create_server(("127.0.0.1", 0))) as port:

        def answer():
            connection, _ = port.accept()
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        answering = threading.Thread(target=answer)
        answering.start()
        url = f"https://127.0.0.1:{port.getsockname()[1]}"
        failure = failure_at(url, call_timeout_s=30.0, connect_timeout_s=10.0)
        answering.join()
    assert failure.text == "no secure connection is possible (wrong version number) (is it http://?)"
    assert not failure.has_sent


@pytest.mark.parametrize("number", [32, 101, 103, 104, 110, 111, 113])
def test_no_failure_of_the_network_shows_its_number(number):
    words = failure_text(OSError(number, "What C Says"))
    assert not TECHNICAL.search(words), words
    assert "C Says" not in words

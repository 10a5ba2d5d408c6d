"""The outcome of each answer and each failure, and its words."""

import re
import socket
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest
import requests
import scripted_exchange
import urllib3.exceptions
from payload_examples import GOOD
from ready_entries import client_of, settings
from scripted_exchange import Scripted

from loadsheet.contract import BY_NAME, UNAUTHORISED, UNKNOWN_METHOD, WRITES, Assumptions, Fault, refusal, success
from loadsheet.dispatch.outcomes import FAILURES, STATUSES, Failure, OutcomeKind, Phase, Reply, classify, excerpt
from loadsheet.dispatch.transport import failure_text

ASSUMPTIONS = Assumptions()
CREATE = BY_NAME["order.create"]
NOT_SENT, ACCEPTED, REFUSED, UNKNOWN, NOT_AUTHORISED = OutcomeKind
encode = msgspec.json.Encoder(decimal_format="number").encode


def payload_of(operation):
    good = GOOD[operation.name]
    return good["data"][0] if operation.batched else good


def judged(operation, status, body=b"", key=None, **more):
    raw = body if isinstance(body, bytes) else encode(body)
    keys = [operation.key_of(payload_of(operation)) if key is None else key]
    return classify(operation, keys, Reply(status, raw, **more), ASSUMPTIONS, wait_max_s=3600)


def library_exceptions():
    found = set()
    waiting = [requests.RequestException, urllib3.exceptions.HTTPError, urllib3.exceptions.ProxySchemeUnsupported]
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += kind.__subclasses__()
    for module in (requests.exceptions, urllib3.exceptions):
        found |= {
            kind
            for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == module.__name__
        }
    return sorted(
        {f"{kind.__module__}.{kind.__qualname__}" for kind in found if not issubclass(kind, Warning)}
        - {"json.decoder.JSONDecodeError"}
    )


def test_every_exception_of_the_libraries_is_named():
    mine = {name for name in library_exceptions() if name.startswith(("requests.", "urllib3."))}
    assert len(mine) > 45
    assert mine <= set(FAILURES)
    assert {name for name in FAILURES if not name.startswith("loadsheet.")} <= mine, "no name that is gone"


@pytest.mark.parametrize("left", [False, True])
def test_a_failure_is_not_sent_only_if_nothing_left_and_its_class_allows_it(left):
    for name, phase in {**FAILURES, "somewhere.NewError": Phase.AFTER}.items():  # nobody has named that one
        reply = Reply(failure=Failure(name, "it said so", left))
        outcome = classify(CREATE, ["k"], reply, ASSUMPTIONS, wait_max_s=10)
        assert outcome.kind is (UNKNOWN if left or phase is Phase.AFTER else NOT_SENT), name
        assert "said so" in outcome.reason


def test_a_documented_success_is_accepted():
    for operation in WRITES:
        outcome = judged(operation, 200, success(operation, payload_of(operation), ASSUMPTIONS, service_order=880001))
        assert outcome.kind is ACCEPTED
        assert outcome.receipt == ("880001" if operation.name in ("order.create", "order.update") else "")


def test_a_documented_refusal_is_refused_with_its_fields():
    for operation in WRITES:
        path, index = ("status_code", 3) if operation.batched else ("order_id", None)
        outcome = judged(operation, 400, refusal(operation, (Fault(path, "is wrong", index),)))
        assert outcome.kind is REFUSED
        assert [(fault.text.endswith("is wrong"), fault.index) for fault in outcome.faults] == [(True, index)]


def test_a_refusal_in_no_documented_shape_is_refused_and_kept_in_part():
    outcome = judged(CREATE, 400, b"<html>Bad\x00 Request from a proxy</html>")
    assert outcome.kind is REFUSED
    (fault,) = outcome.faults
    assert fault.path == ""
    assert "in an undocumented shape" in fault.text
    assert "<html>Bad Request from a proxy</html>" in fault.text


GOOD_BODY = success(CREATE, GOOD["order.create"], ASSUMPTIONS, service_order=1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"status": true}',
        {**GOOD_BODY, "status": False},
        {**GOOD_BODY, "status": "true"},
        {**GOOD_BODY, "status": 1},
        {**GOOD_BODY, "status": None},
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
    assert outcome.kind is UNKNOWN
    assert not outcome.halts


def test_a_web_page_in_the_place_of_an_answer_is_unknown_and_ends_the_sending():
    outcome = judged(CREATE, 200, b"\n<!DOCTYPE html><title>Please log in</title>")
    assert outcome.kind is UNKNOWN
    assert outcome.halts
    assert "Please log in" in outcome.reason


def test_an_answer_that_names_another_record_is_unknown():
    outcome = judged(CREATE, 200, GOOD_BODY, key="SO-1002")
    assert outcome.kind is UNKNOWN
    assert "SO-1001" in outcome.reason
    assert "SO-1002" in outcome.reason


def test_every_status_has_a_meaning_and_most_are_unknown():
    kinds = {status: judged(CREATE, status, b"{}") for status in range(100, 1000) if status not in (200, 400)}
    named = {
        NOT_AUTHORISED: {401},
        NOT_SENT: {403, 404, 405, 406, 407, 411, 413, 414, 415, 422, 425, 429, 431},
    }
    for kind, statuses in named.items():
        assert {status for status, outcome in kinds.items() if outcome.kind is kind} == statuses
    assert {outcome.kind for outcome in kinds.values()} == {NOT_AUTHORISED, NOT_SENT, UNKNOWN}
    halting = {status for status, outcome in kinds.items() if outcome.halts}
    assert halting == {*range(300, 400), 403, 404, 405, 406, 407, 411, 413, 414, 415, 422, 431}
    for status in (201, 202, 204, 206, 302, 408, 409, 500, 502, 503, 504, 599):
        assert kinds[status].kind is UNKNOWN
    assert set(STATUSES) <= set(kinds)


def test_the_documented_401_and_405_are_no_refusals():
    assert judged(CREATE, 401, UNAUTHORISED).kind is NOT_AUTHORISED
    said = 'the exchange refused the token: status 401, "You are not authorised to access this resource."'
    assert judged(CREATE, 401, UNAUTHORISED).reason == said, "the message without the shape around it"
    assert judged(CREATE, 401, b'{"error": {"message": ""}}').reason.endswith(', "{"error": {"message": ""}}"')
    assert judged(CREATE, 401, b'{"error": {"message": "no \\ud800"}}').reason.endswith('"no ?"')
    outcome = judged(CREATE, 405, UNKNOWN_METHOD)
    assert (outcome.kind, outcome.halts) == (NOT_SENT, True)
    assert "Unknown method" in outcome.reason


NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


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
        (format_datetime(NOON + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOON - timedelta(days=1), usegmt=True), 0),
        (format_datetime(NOON + timedelta(days=900), usegmt=True), 3600),
        ("Wed, 99 Foo 2026 12:00:00 GMT", 0),
    ],
)
def test_a_retry_after_is_obeyed_up_to_a_cap(header, seconds):
    outcome = judged(CREATE, 429, retry_after=header, date=format_datetime(NOON, usegmt=True))
    assert (outcome.kind, outcome.wait_s, outcome.halts) == (NOT_SENT, seconds, False)


def test_a_retry_after_date_without_a_date_of_the_answer_is_taken_against_our_clock():
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < judged(CREATE, 429, retry_after=soon).wait_s <= 100


def test_an_excerpt_is_one_printable_line():
    assert excerpt(b"a\r\n\x1b[31m b\xff\t" + b"c" * 9999) == "a [31m b\N{REPLACEMENT CHARACTER} " + "c" * 190


# failures in plain words

BODY = scripted_exchange._encode(GOOD["order.create"])
QUICK = settings(call_timeout_s=0.5, connect_timeout_s=0.3)
TECHNICAL = re.compile(r"Errno|[A-Z][a-z]+Error|Exception|object at 0x|_ssl\.c|urllib3|requests|[A-Z]+_[A-Z]+")


def failure_at(url):
    with client_of(url, QUICK) as client:
        return client.ask(CREATE, BODY).failure


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (scripted_exchange.closes_without_answer, "the exchange closed the connection without an answer"),
        (scripted_exchange.cuts(0.5), "the exchange closed the connection in the middle of an answer"),
        (scripted_exchange.resets_after_reading, "the connection was interrupted"),
        (scripted_exchange.hangs(5), "the call did not finish within 0.5 s (dispatch.call_timeout_s)"),
    ],
)
def test_a_call_without_an_answer_is_told_in_plain_words(move, words):
    with Scripted(move) as server:
        assert failure_at(server.url).text == words


def test_where_nobody_listens_the_connection_is_refused():
    with closing(socket.create_server(("127.0.0.1", 0))) as port:
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
    failure = failure_at(url)
    assert failure.text == "connection refused"
    assert failure.log == "NewConnectionError: [Errno 111] Connection refused"


def test_a_name_that_nobody_has_is_not_known():
    assert failure_at("https://no-such-host.invalid").text == "the host name of the exchange cannot be resolved"


def test_a_port_that_speaks_no_tls_is_told_without_the_words_of_openssl():
    with closing(socket.create_server(("127.0.0.1", 0))) as port:

        def answer():
            connection, _ = port.accept()
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        answering = threading.Thread(target=answer)
        answering.start()
        with client_of(f"https://127.0.0.1:{port.getsockname()[1]}", settings()) as client:
            failure = client.ask(CREATE, BODY).failure
        answering.join()
    assert failure.text == "no secure connection is possible (wrong version number) (is it http://?)"


def test_no_exception_of_the_libraries_shows_its_name():
    for name in library_exceptions():
        module, _, kind = name.rpartition(".")
        found = getattr(__import__(module, fromlist=[kind]), kind)
        error = found.__new__(found)
        error.args = ()
        assert not TECHNICAL.search(failure_text(error)), name


@pytest.mark.parametrize("number", [32, 101, 103, 104, 110, 111, 113])
def test_no_failure_of_the_network_shows_its_number(number):
    words = failure_text(OSError(number, "What C Says"))
    assert not TECHNICAL.search(words), words
    assert "C Says" not in words

"""Requests as bytes over a real socket: which host they name, how they end, and what every answer says of itself."""

import socket

import pytest
from exchange_calls import AUTHORISED, OverSocket, embedded
from exchange_process import TOKEN


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with embedded(tmp_path_factory.mktemp("served") / "exchange.db", delete_unknown="accept") as caller:
        yield f"http://{caller.address}"


def connected(url):
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def answered(url, sent):
    """What comes back until the exchange closes the connection."""
    with connected(url) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def asked(url, head):
    """What answers a request without a body, the last one on its connection."""
    return answered(url, head + b"Connection: close\r\n\r\n")


def test_a_request_names_one_host(url):
    for version, hosts, status in (
        (b"1.1", b"", b"400"),
        (b"1.1", b"Host: a\r\nHost: b\r\n", b"400"),
        (b"1.1", b"Host: a\r\nhOST: a\r\n", b"400"),
        (b"1.0", b"Host: a\r\nHost: b\r\n", b"400"),
        (b"1.1", b"Host: a\r\n", b"401"),
        (b"1.0", b"", b"401"),
    ):
        answer = asked(url, b"GET /tmsapi/getOrders HTTP/" + version + b"\r\n" + hosts)
        assert answer.split(b" ", 2)[1] == status, (version, hosts)


def test_no_answer_is_kept_or_guessed_at(url):
    caller = OverSocket(url)
    for method, path, headers in (
        ("GET", "/tmsapi/getOrders", AUTHORISED),
        ("GET", "/tmsapi/getOrders", {}),
        ("POST", "/tmsapi/createOrder", AUTHORISED),
        ("GET", "/elsewhere", AUTHORISED),
        ("GET", "/", {}),
    ):
        answer = caller.send(method, path, b"{}" if method == "POST" else b"", headers)
        assert answer.headers["cache-control"] == "no-store", path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert "strict-transport-security" not in answer.headers  # only where it was asked over TLS


def test_a_request_that_cannot_be_read_is_answered_like_that_too(url):
    answer = asked(url, b"nonsense\r\n").lower()
    assert b"cache-control: no-store\r\n" in answer
    assert b"x-content-type-options: nosniff\r\n" in answer


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (b"/tmsapi/getOrders", b"200"),
        (b"/tmsapi/get%4Frders", b"200"),
        (b"/tmsapi%2FgetOrders", b"405"),
        (b"/tmsapi%2fgetOrders", b"405"),
        (b"/tmsapi%252FgetOrders", b"405"),
        (b"/x/../tmsapi/getOrders", b"405"),
        (b"/tmsapi/getOrders%00", b"405"),
        (b"//tmsapi/getOrders", b"405"),
    ],
)
def test_only_the_path_itself_leads_to_an_operation(url, path, status):
    head = b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nAuthorization: " + AUTHORISED["Authorization"].encode() + b"\r\n"
    assert asked(url, head).split(b" ", 2)[1] == status


START = b"POST /tmsapi/deleteOrder HTTP/1.1\r\nHost: x\r\n"
TRUSTED = f"Authorization: Bearer {TOKEN}\r\n".encode()
LAST = b"Connection: close\r\n"
SIZED = b"Content-Length: 16\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b'{"order_id":"1"}'
CHUNKS = b"10\r\n" + BODY + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "answers"),
    [
        (START + TRUSTED + LAST + SIZED + b"\r\n" + BODY, [200]),
        (START + TRUSTED + LAST + CHUNKED + b"\r\n" + CHUNKS, [200]),
        ((START + TRUSTED + SIZED + b"\r\n" + BODY) * 2 + START + TRUSTED + LAST + SIZED + b"\r\n" + BODY, [200] * 3),
        (START + TRUSTED + LAST + b"Expect: 100-continue\r\n" + SIZED + b"\r\n" + BODY, [100, 200]),
        (START + LAST + b"Expect: 100-continue\r\n" + SIZED + b"\r\n", [401]),  # not asked for its body
        (START + TRUSTED * 2 + LAST + SIZED + b"\r\n" + BODY, [401]),
        (b"BREW /tmsapi/deleteOrder HTTP/1.1\r\n\r\n", [400]),
    ],
)
def test_requests_as_bytes(url, request_bytes, answers):
    said = answered(url, request_bytes)
    assert [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]] == answers


def test_a_client_that_hangs_up_in_the_middle_of_a_body_harms_nobody(url):
    with connected(url) as connection:
        connection.sendall(START + TRUSTED + b"Content-Length: 5000\r\n\r\n" + BODY)
    caller = OverSocket(url)
    caller.done("order.delete", {"order_id": "1"})

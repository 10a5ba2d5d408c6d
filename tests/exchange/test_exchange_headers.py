"""Requests as bytes over a real socket: which host and path they name, how they end, and what every answer says of itself."""

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
    broken = answered(url, b"nonsense\r\n\r\n").lower()
    assert b"cache-control: no-store\r\n" in broken
    assert b"x-content-type-options: nosniff\r\n" in broken


START = b"POST /tmsapi/deleteOrder HTTP/1.1\r\nHost: x\r\n"
TRUSTED = f"Authorization: Bearer {TOKEN}\r\n".encode()
LAST = b"Connection: close\r\n"
SIZED = b"Content-Length: 16\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b'{"order_id":"1"}'
CHUNKS = b"10\r\n" + BODY + b"\r\n0\r\n\r\n"


def listing(head, version=b"1.1", path=b"/tmsapi/getOrders"):
    return b"GET " + path + b" HTTP/" + version + b"\r\n" + head + LAST + b"\r\n"


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
        # one host
        (listing(b""), [400]),
        (listing(b"Host: a\r\nHost: b\r\n"), [400]),
        (listing(b"Host: a\r\nhOST: a\r\n"), [400]),
        (listing(b"Host: a\r\nHost: b\r\n", b"1.0"), [400]),
        (listing(b"Host: a\r\n"), [401]),
        (listing(b"", b"1.0"), [401]),
        # and one path
        (listing(b"Host: a\r\n" + TRUSTED), [200]),
        (listing(b"Host: a\r\n" + TRUSTED, path=b"/tmsapi/get%4Frders"), [200]),
        (listing(b"Host: a\r\n" + TRUSTED, path=b"/tmsapi%2FgetOrders"), [405]),
        (listing(b"Host: a\r\n" + TRUSTED, path=b"/tmsapi%2fgetOrders"), [405]),
        (listing(b"Host: a\r\n" + TRUSTED, path=b"/tmsapi%252FgetOrders"), [405]),
        (listing(b"Host: a\r\n" + TRUSTED, path=b"/x/../tmsapi/getOrders"), [405]),
        (listing(b"Host: a\r\n" + TRUSTED, path=b"/tmsapi/getOrders%00"), [405]),
        (listing(b"Host: a\r\n" + TRUSTED, path=b"//tmsapi/getOrders"), [405]),
    ],
)
def test_requests_as_bytes_are_answered_each_and_a_body_is_not_asked_for_without_a_token(url, request_bytes, answers):
    said = answered(url, request_bytes)
    assert [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]] == answers


def test_a_client_that_hangs_up_in_the_middle_of_a_body_harms_nobody(url):
    with connected(url) as connection:
        connection.sendall(START + TRUSTED + b"Content-Length: 5000\r\n\r\n" + BODY)
    caller = OverSocket(url)
    caller.done("order.delete", {"order_id": "1"})

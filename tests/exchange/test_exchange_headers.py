"""Which host a request names, and what every answer says of itself, over a real socket."""

import socket

import pytest
from exchange_calls import AUTHORISED, OverSocket, embedded


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with embedded(tmp_path_factory.mktemp("served") / "exchange.db") as caller:
        yield f"http://{caller.address}"


def answered(url, head):
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head + b"Connection: close\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_request_names_one_host(url):
    for version, hosts, status in (
        (b"1.1", b"", b"400"),
        (b"1.1", b"Host: a\r\nHost: b\r\n", b"400"),
        (b"1.1", b"Host: a\r\nhOST: a\r\n", b"400"),
        (b"1.0", b"Host: a\r\nHost: b\r\n", b"400"),
        (b"1.1", b"Host: a\r\n", b"401"),
        (b"1.0", b"", b"401"),
    ):
        answer = answered(url, b"GET /tmsapi/getOrders HTTP/" + version + b"\r\n" + hosts)
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
    caller.close()


def test_a_request_that_cannot_be_read_is_answered_like_that_too(url):
    answer = answered(url, b"nonsense\r\n").lower()
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
    assert answered(url, head).split(b" ", 2)[1] == status

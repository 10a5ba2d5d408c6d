"""What every operation says to strangers and on wrong paths, as bytes too, and what the listings show. The transcript has good and bad calls to the letter."""

import socket

import pytest
from exchange_calls import AUTHORISED, OverSocket, embedded
from exchange_process import TOKEN
from payload_examples import CONFIRMATION, ORDER, QUOTE, TENDER

from loadsheet.contract import BY_NAME, OPERATIONS, UNAUTHORISED, When

UNKNOWN = {"results": [], "error": {"status": False, "error": "Unknown method."}}
TENDER_LISTED = [field.name for field in BY_NAME["tender.list"].record.fields if field.when is When.LISTED]
BEARER = AUTHORISED["Authorization"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": BEARER + "x"},
        {"Authorization": BEARER.lower()},
        {"Authorization": BEARER.removeprefix("Bearer ")},
        {"Authorization": BEARER.replace("Bearer", "Basic")},
        {"Authorization": f"{BEARER}, {BEARER}"},
        {"X-Authorization": BEARER},
        {"Cookie": BEARER},
    ],
)
def test_an_unauthorised_call_is_answered_401_to_the_letter(app, headers):
    for operation in OPERATIONS:
        answer = app.send(operation.method, operation.path, b"{not even json", headers)
        assert (answer.status, answer.body) == (401, UNAUTHORISED), operation.name
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_token_stands_in_its_header_alone_maybe_between_spaces(app):
    token = BEARER.removeprefix("Bearer ")
    assert app.send("GET", f"/tmsapi/getOrders?access_token={token}", b"", {}).status == 401
    assert app.send("GET", "/tmsapi/getOrders", b"", {"Authorization": f"  {BEARER}  "}).status == 200


def test_an_unknown_path_is_answered_405_after_the_token(app):
    for path in ("/", "/tmsapi/", "/tmsapi/unknown", "/tmsapi/createOrder/", "/TMSAPI/createOrder"):
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            assert app.send(method, path, b"", {}).status == 401, (method, path)
            answer = app.send(method, path)
            assert (answer.status, answer.body) == (405, UNKNOWN), (method, path)
    assert app.send("OPTIONS", "*").status == 405


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_another_method_is_answered_405_with_the_right_one(accepting, method):
    for operation in OPERATIONS:
        if method != operation.method:
            answer = accepting.send(method, operation.path, b"{}")
            assert (answer.status, answer.headers["allow"]) == (405, operation.method), operation.name
            assert method == "HEAD" or answer.body == UNKNOWN


def test_each_carrier_quotes_for_itself_and_a_deleted_tender_takes_its_quotes_with_it(app):
    app.done("tender.create", TENDER)
    for carrier, decision, message in (("C-1", "accept", "Quote accepted"), ("C-2", "reject", "Quote rejected")):
        app.done("tender.quote", {**QUOTE, "carrier_id": carrier})
        decided = app.done("tender.confirm", {**CONFIRMATION, "carrier_id": carrier, "status": decision})
        assert decided["results"] == {"status": True, "message": message, "tender_id": "T-1", "carrier_id": carrier}
    app.done("tender.delete", {"tender_id": "T-1"})
    assert app.errors("tender.quote", QUOTE) == {"tender_id": "is not known"}
    app.done("tender.create", TENDER)
    assert app.errors("tender.confirm", CONFIRMATION) == {"carrier_id": "has not quoted for this tender"}


def test_identifiers_that_look_alike_are_not_taken_for_each_other(app):
    for number in ("007", "7"):
        app.done("order.create", {**ORDER, "order_id": number})
    assert [order["order_id"] for order in app.orders()] == ["007", "7"]
    for tender in ("a", "a/b"):
        app.done("tender.create", {**TENDER, "tender_id": tender})
    app.done("tender.quote", {**QUOTE, "tender_id": "a/b", "carrier_id": "c"})
    other = {**CONFIRMATION, "tender_id": "a", "carrier_id": "b/c"}
    assert app.errors("tender.confirm", other) == {"carrier_id": "has not quoted for this tender"}


def test_the_tender_listing_shows_the_listing_only_fields_as_texts(app):
    app.done("tender.create", TENDER)
    app.done("tender.create", {**TENDER, "tender_id": "T-2", "packages": []})
    first, second = app.tenders()
    assert list(first) == [*TENDER, *TENDER_LISTED]
    assert first == {**TENDER, **dict.fromkeys(TENDER_LISTED, ""), "package_count": "1"}
    assert second["package_count"] == "0"


def test_the_page_size_is_read_from_query_or_body_and_cut(app):
    for query, body, shown in (
        ("", b"", 100),
        ("?page_size=7", b"", 7),
        ("?page_size=007", b"", 7),
        ("", b'{"page_size": 7}', 7),
        ("", b'{"page_size": "7"}', 7),
        ("", b"{}", 100),
        ("?page_size=8", b'{"page_size": 7}', 8),
        ("?page_size=100001", b"", 100_001),
        ("?page_size=" + "9" * 5000, b"", 999_999_999_999_999_999),
    ):
        assert app.send("GET", f"/tmsapi/getOrders{query}", body).body["page_size"] == shown, (query, body)


def test_a_page_size_that_is_no_count_is_refused(app):
    refused = {"page_size": "must be a whole number of 1 or more"}
    for size in ("0", "00", "-1", "abc", "", "1.5", "1e2", "+5", "%20", "%ff", "٣"):
        for listing in ("", "record=tender&"):
            answer = app.send("GET", f"/tmsapi/getOrders?{listing}page_size={size}")
            assert (answer.status, answer.body["errors"]) == (400, refused), (listing, size)
    sizes = [(b'{"page_size": %b}' % value, "page_size") for value in (b"0", b"true", b"null", b"[1]", b"1.0")]
    for body, field in (*sizes, (b"[1]", "body"), (b"{", "body")):
        answer = app.send("GET", "/tmsapi/getOrders", body)
        assert (answer.status, list(answer.body["errors"])) == (400, [field]), body


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

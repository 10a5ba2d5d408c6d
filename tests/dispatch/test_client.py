import contextlib
import socket
import threading
import time

import pytest
import scripted_exchange
from payload_examples import GOOD
from ready_entries import TOKEN, client_of, settings
from scripted_exchange import Move, Scripted, accepts, lists, says

from loadsheet.contract import BY_NAME, UNAUTHORISED, WRITES
from loadsheet.dispatch import Client
from loadsheet.dispatch.outcomes import DEADLINE, PACKED, TOO_LARGE
from loadsheet.problems import ExchangeUnreachable, SettingsError, TokenRefused

CREATE = BY_NAME["order.create"]
BODY = scripted_exchange._encode(GOOD["order.create"])
QUICK = settings(call_timeout_s=0.5)
"""For calls that are to run out of time."""

PATIENT = settings(call_timeout_s=60.0, answer_bytes_max=100_000)
BOTH = settings(call_timeout_s=2.5, answer_bytes_max=100_000)
"""For clients whose next call is answered."""


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://exchange.example", "unencrypted"),
        ("http://10.0.0.7:8080", "unencrypted"),
        ("https://anna:secret@exchange.example", "user name or password"),
        ("https://anna@exchange.example", "user name or password"),
        ("https://exchange.example/api?x=1", "not a base URL"),
        ("https://exchange.example/#top", "not a base URL"),
        ("ftp://exchange.example", "not a base URL"),
        ("exchange.example", "not a base URL"),
        ("https://", "not a base URL"),
        ("https://exchange.example:eighty", "not a URL"),
        ("", "not a base URL"),
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused(url, words):
    with pytest.raises(SettingsError, match=words) as caught:
        Client(url, TOKEN, settings())
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://exchange.example/base/", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost"]
)
def test_https_and_loopback_may_be_used(url):
    with Client(url, TOKEN, settings()) as client:
        assert client.base_url == url.rstrip("/")


def test_http_to_another_machine_needs_a_setting():
    with Client("http://exchange.example", TOKEN, settings(allow_insecure=True)) as client:
        assert client.base_url == "http://exchange.example"


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tab\t", "ümlaut", "nul\0"])
def test_a_token_that_cannot_stand_in_a_header_is_refused_without_being_shown(token):
    with pytest.raises(SettingsError) as caught:
        Client("https://exchange.example", token, settings())
    assert not token or token not in str(caught.value)


def reply_to(script, options=None):
    """The reply to one call."""
    with Scripted(script) as server, client_of(server.url, options or settings()) as client:
        return client.ask(CREATE, BODY)


def test_a_call_carries_what_the_interface_asks_for_and_little_else():
    with Scripted(accepts) as server, client_of(f"{server.url}/base/", settings()) as client:
        assert client.ask(CREATE, BODY).failure is None
        assert client.ask(CREATE, BODY + b" ").status == 200
        (first, second) = server.requests
    assert (first.method, first.target) == ("POST", "/base/tmsapi/createOrder")
    assert first.body == BODY
    assert second.body == BODY + b" "
    assert first.headers["authorization"] == f"Bearer {TOKEN}"
    assert first.headers["accept-encoding"] == "identity"
    assert first.headers["content-type"] == "application/json"
    assert set(first.headers) == {
        "host",
        "authorization",
        "accept-encoding",
        "content-type",
        "content-length",
        "user-agent",
    }
    assert server.connections == 1


def test_the_environment_changes_nothing(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login anna password secret\n")
    with Scripted(says(500)) as proxy, Scripted(accepts) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("NETRC", str(netrc))
        with client_of(server.url, settings()) as client:
            assert client.ask(CREATE, BODY).status == 200
        assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
        assert proxy.connections == 0


def test_no_redirect_is_followed_and_the_token_goes_nowhere_else():
    with Scripted(accepts) as elsewhere:
        for status in (301, 302, 303, 307, 308):
            redirect = says(status, b"", f"Location: {elsewhere.url}/tmsapi/createOrder\r\n")
            with (
                Scripted(redirect) as server,
                client_of(server.url, settings()) as client,
            ):
                assert client.ask(CREATE, BODY).status == status
                with pytest.raises(ExchangeUnreachable, match=str(status)):
                    client.listing(BY_NAME["order.list"], 10)
    assert elsewhere.connections == 0


_HANGS_S = 30.0
SLOW = {
    "silence": scripted_exchange.hangs(_HANGS_S),
    "dripping headers": scripted_exchange.drips(0.2, headers_too=True),
    "a dripping body": scripted_exchange.drips(0.2),
    "an old answer that drips": Move(
        lambda connection, request: [
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n"),
            *(time.sleep(0.2) or connection.sendall(b" ") for _ in range(40)),
        ]
    ),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_call_is_over_when_its_time_is_over(name):
    with Scripted(SLOW[name]) as server, client_of(server.url, QUICK) as client:
        began = time.monotonic()
        reply = client.ask(CREATE, BODY)
        took = time.monotonic() - began
    assert (reply.failure.name, reply.failure.has_sent) == (DEADLINE, True)
    assert 0.4 < took < _HANGS_S - 1  # the time is 0.5 s; a machine may stand still for a while
    assert 400 < reply.duration_ms <= took * 1000 + 1


def test_a_request_that_nobody_takes_in_is_over_when_its_time_is_over():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with client_of(url, settings(call_timeout_s=2.0)) as client:  # time enough to begin, on a slow machine too
            reply = client.ask(CREATE, b"x" * 20_000_000)
    assert reply.failure.has_sent
    assert reply.duration_ms < 20_000


def test_a_handshake_that_never_ends_sends_nothing():
    def trickle(listener):
        connection, _ = listener.accept()
        try:
            connection.sendall(b"\x16\x03\x03\x40\x00")
            while True:
                connection.sendall(b"\x00")
                time.sleep(0.1)
        except OSError:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        with client_of(f"https://127.0.0.1:{listener.getsockname()[1]}", QUICK) as client:
            reply = client.ask(CREATE, BODY)
        thread.join()
    assert not reply.failure.has_sent
    assert reply.duration_ms < 10_000


def test_answers_are_read_up_to_a_size_only():
    moves = [
        scripted_exchange.bombs,
        scripted_exchange.answers_without_end,
        says(200, b" " * 100_001),
        says(200, b" " * 100_000),
    ]
    with Scripted(lambda number, _: moves[number]) as server, client_of(server.url, PATIENT) as client:
        names = [client.ask(CREATE, BODY).failure for _ in moves]
    assert [failure and failure.name for failure in names] == [TOO_LARGE, TOO_LARGE, TOO_LARGE, None]


def test_a_packed_answer_is_unpacked_and_a_broken_one_is_no_answer():
    moves = [
        scripted_exchange.accepts_packed,
        says(200, b"\x1f\x8b\x08", "Content-Encoding: gzip\r\n"),
        says(200, b"no gzip", "Content-Encoding: gzip\r\n"),
        says(200, b"x", "Content-Encoding: zstd\r\n"),
    ]
    with Scripted(lambda number, _: moves[number]) as server, client_of(server.url, PATIENT) as client:
        good, *bad = [client.ask(CREATE, BODY) for _ in moves]
    assert b"Order created" in good.body
    assert [reply.failure.name for reply in bad] == [PACKED] * 3


def test_after_any_failure_the_next_call_gets_through():
    bad = [
        scripted_exchange.resets_before_reading,
        scripted_exchange.bombs,
        scripted_exchange.hangs(_HANGS_S),
        scripted_exchange.cuts(0.5),
        scripted_exchange.answers_twice,
    ]
    script = Scripted(lambda number, _: bad[number // 2] if number % 2 == 0 else accepts)
    with script as server, client_of(server.url, BOTH) as client:
        replies = [client.ask(CREATE, BODY) for _ in range(2 * len(bad))]
    assert [reply.status for reply in replies[1::2]] == [200] * len(bad)


def test_a_connection_that_the_exchange_closed_is_noticed():
    with (
        Scripted(scripted_exchange.accepts_and_closes) as server,
        client_of(server.url, settings()) as client,
    ):
        for _ in range(3):
            assert client.ask(CREATE, BODY).status == 200
            server.wait_until_all_are_closed()
    assert server.connections == 3


def test_a_connection_that_idled_is_not_used_again():
    options = settings(idle_connection_s=0.05)
    with Scripted(accepts) as server, client_of(server.url, options) as client:
        for _ in range(2):
            assert client.ask(CREATE, BODY).status == 200
            time.sleep(0.1)
    assert server.connections == 2


def test_every_write_goes_to_its_path():
    with Scripted(accepts) as server, client_of(server.url, settings()) as client:
        for operation in WRITES:
            assert client.ask(operation, scripted_exchange._encode(GOOD[operation.name])).status == 200
    assert {name for name, _ in server.applied} == {operation.name for operation in WRITES}


def test_the_token_shows_up_nowhere():
    echo = Move(
        lambda connection, request: connection.sendall(scripted_exchange.answer(400, f"no {TOKEN} here".encode()))
    )
    script = Scripted(lambda number, _: echo if number == 0 else scripted_exchange.resets_after_reading)
    with script as server, client_of(server.url, settings()) as client:
        replies = [client.ask(CREATE, BODY) for _ in range(2)]
        assert TOKEN not in repr(client) + str(client) + repr(replies)
    assert replies[0].body == b"no *** here"


@pytest.mark.parametrize("coding", [TOKEN, f"{'a' * 30}{TOKEN}", "".join(f"%{sign:02x}" for sign in TOKEN.encode())])
def test_a_token_in_the_name_of_a_coding_is_masked(coding):
    move = says(200, b"x", f"Content-Encoding: {coding}\r\n")
    reply = reply_to(move)
    assert reply.failure.name == PACKED
    assert "***" in reply.failure.text
    assert TOKEN[:8] not in reply.failure.text


def localhost(server):
    return server.url.replace("127.0.0.1", "localhost")


def test_a_certificate_nobody_vouches_for_is_not_accepted(certificate):
    with Scripted(accepts, tls=certificate[1]) as server, client_of(localhost(server), PATIENT) as client:
        reply = client.ask(CREATE, BODY)
    assert not reply.failure.has_sent
    assert reply.failure.text.startswith("the certificate of the exchange is not trusted: ")
    assert server.requests == []


def test_a_certificate_of_another_host_is_not_accepted(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))  # as a system that trusts it would have it
    with Scripted(accepts, tls=certificate[1]) as server, client_of(server.url, PATIENT) as client:
        reply = client.ask(CREATE, BODY)
    assert not reply.failure.has_sent
    assert "IP address mismatch" in reply.failure.text


def test_calls_over_tls_share_a_connection_and_end_in_time(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    moves = [accepts, accepts, scripted_exchange.drips(0.2), scripted_exchange.resets_after_reading, accepts]
    script = Scripted(lambda number, _: moves[number], tls=certificate[1])
    with script as server, client_of(localhost(server), BOTH) as client:
        replies = [client.ask(CREATE, BODY) for _ in moves]
        assert server.connections == 3
    assert [reply.status for reply in replies] == [200, 200, 0, 0, 200]
    assert [reply.failure.has_sent for reply in replies[2:4]] == [True, True]
    assert replies[2].failure.name == DEADLINE


def test_tls_to_a_plain_port_sends_nothing():
    with Scripted(accepts) as server, client_of(server.url.replace("http:", "https:"), QUICK) as client:
        reply = client.ask(CREATE, BODY)
    assert not reply.failure.has_sent
    assert server.applied.total() == 0


def with_trailers(trailers):
    """Apply the call and answer in one chunk, with trailers behind the body."""

    def act(connection, request):
        body = scripted_exchange._encode(scripted_exchange.good_body(request))
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        with contextlib.suppress(OSError):
            connection.sendall(head + b"%x\r\n%b\r\n0\r\n" % (len(body), body))
            for trailer in trailers:
                connection.sendall(trailer)
            connection.sendall(b"\r\n")
        return True

    return Move(act, applies=True)


@pytest.mark.parametrize("trailer", [b"X-T: " + b"a" * 993 + b"\r\n", b"a" * 1000], ids=["many", "without end"])
def test_an_answer_with_trailers_without_end_is_cut_off(trailer):
    move = with_trailers(trailer * 100 for _ in range(1_000))
    reply = reply_to(move)
    assert reply.failure is not None
    assert "the part after the body of the answer is larger than 262144 bytes" in reply.failure.text
    assert reply.failure.has_sent


def test_a_trailer_is_no_header():
    move = with_trailers([b"Content-Encoding: gzip\r\nRetry-After: 9\r\n"])
    reply = reply_to(move)
    assert (reply.failure, reply.status, reply.retry_after) == (None, 200, "")


# listings

ORDERS = BY_NAME["order.list"]
TENDERS = BY_NAME["tender.list"]


def ask(options, operation, move, page_size=7):
    with Scripted(move) as server, client_of(server.url, options) as client:
        return client.listing(operation, page_size), server.requests[-1]


def test_a_listing_is_asked_for_as_the_assumptions_say():
    records = [{"order_id": "A", "total_weight": 12.5}]
    listing, request = ask(settings(), ORDERS, lists(records))
    assert (request.method, request.target, request.body) == ("GET", "/tmsapi/getOrders?page_size=7", b"")
    assert str(listing.results[0]["total_weight"]) == "12.5"
    assert listing.complete
    _, request = ask(settings(), TENDERS, lists([]))
    assert request.target == "/tmsapi/getOrders?page_size=7&record=tender"
    _, request = ask(settings(assumptions={"page_size_in": "body"}), ORDERS, lists([]))
    assert (request.target, request.body) == ("/tmsapi/getOrders", b'{"page_size":7}')
    _, request = ask(settings(assumptions={"page_size_in": "both", "tender_listing_query": ""}), TENDERS, lists([]))
    assert (request.target, request.body) == ("/tmsapi/getOrders?page_size=7", b'{"page_size":7}')


RECORDS = [{"order_id": str(number)} for number in range(250)]


def page_sizes(server):
    """The page sizes that were asked for, in order."""
    return [int(request.target.partition("page_size=")[2]) for request in server.requests]


def cuts_to(most, records):
    """An exchange that lists so many records at most, and says so."""

    def move(_number, request):
        size = min(int(request.target.partition("page_size=")[2]), most)
        shown = records[:size]
        return says(200, {"page_size": size, "results": shown, "total_count": len(records), "total_pages": 9})

    return move


def refuses_above(most, records):
    """An exchange that answers 400 when it is asked for more records than it lists."""

    def move(_number, request):
        return lists(records) if int(request.target.partition("page_size=")[2]) <= most else says(400, b"{}")

    return move


LISTINGS = {
    # name: (script, page sizes asked for, records read, why there are no more)
    "complete": (lists(RECORDS), [1, 400], 250, ""),
    "short": (lists(RECORDS[:1], total=9), [1, 110, 110, 110], 1, "the exchange counts 9 records but lists 1"),
    "a long one": (
        lists(RECORDS[:1], total=1_000_000),
        [1, *[1_200_100] * 3],
        1,
        "counts 1,000,000 records but lists 1",
    ),
    "pages are cut": (cuts_to(100, RECORDS), [1, 400], 100, "the exchange lists at most 100 records"),
    "large pages are refused": (
        refuses_above(70, RECORDS),
        [1, 400, 200, 100, 50],
        50,
        "refuses a page_size of more than 50",
    ),
    "refused, but large enough": (refuses_above(300, RECORDS[:190]), [1, 328, 200], 190, ""),
    "every page is refused": (
        refuses_above(1, RECORDS),
        [1, 400, 200, 100, 50, 20, 10],
        1,
        "refuses a page_size of more than 1",
    ),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_whole_listing_is_read_as_far_as_the_exchange_lists_it(tmp_path, name):
    script, sizes, count, reason = LISTINGS[name]
    with Scripted(script) as server, client_of(server.url, settings(state=tmp_path)) as client:
        listing = client.whole_listing(ORDERS)
    assert page_sizes(server) == sizes
    assert (len(listing.results), listing.complete) == (count, not reason)
    assert reason in listing.reason


def test_the_page_size_that_an_exchange_took_is_remembered_for_that_exchange(tmp_path):
    with Scripted(refuses_above(70, RECORDS)) as server:
        for expected in ([1, 400, 200, 100, 50], [1, 400, 50]):
            server.requests.clear()
            with client_of(server.url, settings(state=tmp_path)) as client:
                client.whole_listing(ORDERS)
            assert page_sizes(server) == expected
    with Scripted(refuses_above(1000, RECORDS)) as other, client_of(other.url, settings(state=tmp_path)) as client:
        assert client.whole_listing(ORDERS).complete
        assert page_sizes(other) == [1, 400]


def test_a_whole_listing_has_its_own_limits_of_time_and_size():
    move = lists([{"order_id": "1", "delivery_city": "x" * 1_000}] * 200)
    options = settings(answer_bytes_max=10_000, listing_bytes_max=1_000_000)
    with Scripted(move) as server, client_of(server.url, options) as client:
        assert len(client.whole_listing(ORDERS).results) == 200
    options = settings(listing_bytes_max=10_000)
    with (
        Scripted(move) as server,
        client_of(server.url, options) as client,
        pytest.raises(ExchangeUnreachable, match="listing_bytes_max"),
    ):
        client.whole_listing(ORDERS)


def test_a_look_that_meets_nobody_is_repeated():
    move = [scripted_exchange.closes_without_answer, scripted_exchange.resets_before_reading, lists([])]
    with Scripted(lambda number, _: move[number]) as server, client_of(server.url, settings()) as client:
        assert client.listing(ORDERS, 1).total_count == 0


@pytest.mark.parametrize(
    ("move", "error"),
    [
        (says(401, UNAUTHORISED), TokenRefused),
        (says(405), ExchangeUnreachable),
        (says(500), ExchangeUnreachable),
        (says(200, b"<html>"), ExchangeUnreachable),
        (says(200, {"results": [1], "page_size": 1, "total_count": 1, "total_pages": 1}), ExchangeUnreachable),
        (says(200, b"[" * 50_000), ExchangeUnreachable),
        (scripted_exchange.closes_without_answer, ExchangeUnreachable),
    ],
)
def test_what_is_no_listing_is_said_so(move, error):
    with pytest.raises(error) as caught:
        ask(settings(), ORDERS, move)
    assert "127.0.0.1" in str(caught.value)
    assert TOKEN not in str(caught.value)

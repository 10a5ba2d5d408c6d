"""A client of the exchange: the URLs and tokens it takes, what a call carries, when a call is over, and what it reads of a listing."""

import contextlib
import errno
import socket
import threading
import time

import pytest
import scripted_exchange
from exchange_calls import encode
from payload_examples import GOOD
from ready_entries import TOKEN, client_of, settings
from scripted_exchange import Move, Scripted, accepts, answer, in_turn, lists, says
from urllib3.exceptions import ProtocolError

from loadsheet.contract import BY_NAME, UNAUTHORISED
from loadsheet.dispatch import Client
from loadsheet.dispatch.outcomes import DEADLINE, PACKED, TOO_LARGE
from loadsheet.dispatch.transport import _AnswerParser
from loadsheet.errors import ExchangeUnreachable, SettingsError, TokenRefused
from loadsheet.internal_errors import Terminated
from loadsheet.settings import Settings

CREATE, ORDERS, TENDERS = (BY_NAME[name] for name in ("order.create", "order.list", "tender.list"))
BODY = encode(GOOD["order.create"])
HANGS_S = 30.0
PATIENT = {"call_timeout_s": 60.0, "answer_bytes_max": 100_000}
BOTH = {"call_timeout_s": 2.5, "answer_bytes_max": 100_000}
"""For clients whose next call is answered."""


@contextlib.contextmanager
def talking(script, *, tls=None, path="", **options):
    """A scripted exchange and a client of it."""
    with Scripted(script, tls=tls) as server, client_of(server.url + path, settings(**options)) as client:
        yield server, client


def replies_to(*moves, **options):
    """The replies to one call for each move."""
    with talking(in_turn(*moves), **options) as (_, client):
        return [client.ask(CREATE, BODY) for _ in moves]


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


def test_https_and_loopback_may_be_used_and_http_to_another_machine_needs_a_setting():
    for url in ("https://exchange.example/base/", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost"):
        with client_of(url, settings()) as client:
            assert client.base_url == url.rstrip("/")
    with client_of("http://exchange.example", settings(allow_insecure=True)) as client:
        assert client.base_url == "http://exchange.example"


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tab\t", "ümlaut", "nul\0"])
def test_a_token_that_cannot_stand_in_a_header_is_refused_without_being_shown(token):
    with pytest.raises(SettingsError) as caught:
        Client("https://exchange.example", token, settings())
    assert not token or token not in str(caught.value)


def test_a_call_carries_what_the_interface_asks_for_and_little_else():
    with talking(accepts, path="/base/") as (server, client):
        assert [client.ask(CREATE, body).status for body in (BODY, BODY + b" ")] == [200, 200]
    (first, second) = server.requests
    assert (first.method, first.target, first.body) == ("POST", "/base/tmsapi/createOrder", BODY)
    assert second.body == BODY + b" "
    expected = {
        "authorization": f"Bearer {TOKEN}",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "content-length": str(len(BODY)),
    }
    assert {name: value for name, value in first.headers.items() if name not in ("host", "user-agent")} == expected
    assert server.connections == 1


def test_the_environment_changes_nothing(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login anna password secret\n")
    with Scripted(says(500)) as proxy, talking(accepts) as (server, _):
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
            with talking(says(status, b"", f"Location: {elsewhere.url}/tmsapi/createOrder\r\n")) as (_, client):
                assert client.ask(CREATE, BODY).status == status
                with pytest.raises(ExchangeUnreachable, match=str(status)):
                    client.listing(ORDERS, 10)
    assert elsewhere.connections == 0


# the time and the size of an answer


def drips_without_a_length(connection, _request):
    connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    for _ in range(40):
        time.sleep(0.2)
        connection.sendall(b" ")


SLOW = {
    "silence": scripted_exchange.hangs(HANGS_S),
    "dripping headers": scripted_exchange.drips(0.2, headers_too=True),
    "a dripping body": scripted_exchange.drips(0.2),
    "an old answer that drips": Move(drips_without_a_length),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_call_is_over_when_its_time_is_over(name):
    began = time.monotonic()
    (reply,) = replies_to(SLOW[name], call_timeout_s=0.5)
    assert (reply.failure.name, reply.failure.has_sent) == (DEADLINE, True)
    assert 400 < reply.duration_ms <= (time.monotonic() - began) * 1000 + 1
    assert reply.duration_ms < 1000 * (HANGS_S - 1)  # a machine may stand still for a while


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
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"\x16\x03\x03\x40\x00")
            while True:
                connection.sendall(b"\x00")
                time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with client_of(url, settings(call_timeout_s=0.5)) as client:
            reply = client.ask(CREATE, BODY)
        thread.join()
    assert not reply.failure.has_sent
    assert reply.duration_ms < 10_000


def test_answers_are_read_up_to_a_size_and_a_packed_one_is_unpacked():
    moves = {
        scripted_exchange.bombs: TOO_LARGE,
        scripted_exchange.answers_without_end: TOO_LARGE,
        says(200, b" " * 100_001): TOO_LARGE,
        says(200, b" " * 100_000): None,
        says(200, b"\x1f\x8b\x08", "Content-Encoding: gzip\r\n"): PACKED,
        says(200, b"no gzip", "Content-Encoding: gzip\r\n"): PACKED,
        says(200, b"x", "Content-Encoding: zstd\r\n"): PACKED,
        scripted_exchange.accepts_packed: None,
    }
    replies = replies_to(*moves, **PATIENT)
    assert [reply.failure and reply.failure.name for reply in replies] == list(moves.values())
    assert b"Order created" in replies[-1].body


def test_the_largest_answers_on_all_connections_fit_into_a_small_machine():
    dispatch = Settings().dispatch
    assert dispatch.connections * dispatch.answer_bytes_max <= 256 * 2**20


def with_trailers(trailers):
    """Apply the call and answer in one chunk, with trailers behind the body."""

    def act(connection, request):
        body = encode(scripted_exchange.good_body(request))
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
    (reply,) = replies_to(with_trailers(trailer * 100 for _ in range(1_000)))
    assert "the part after the body of the answer is larger than 262144 bytes" in reply.failure.text
    assert reply.failure.has_sent


def test_a_trailer_is_no_header():
    (reply,) = replies_to(with_trailers([b"Content-Encoding: gzip\r\nRetry-After: 9\r\n"]))
    assert (reply.failure, reply.status, reply.retry_after) == (None, 200, "")


# connections


def test_after_any_failure_the_next_call_gets_through():
    bad = [
        scripted_exchange.resets_before_reading,
        scripted_exchange.bombs,
        scripted_exchange.hangs(HANGS_S),
        scripted_exchange.cuts(0.5),
        scripted_exchange.answers_twice,
    ]
    replies = replies_to(*(move for one in bad for move in (one, accepts)), **BOTH)
    assert [reply.status for reply in replies[1::2]] == [200] * len(bad)


def test_a_connection_that_the_exchange_closed_or_that_idled_is_not_used_again():
    with talking(scripted_exchange.accepts_and_closes) as (server, client):
        for _ in range(3):
            assert client.ask(CREATE, BODY).status == 200
            server.wait_until_all_are_closed()
    assert server.connections == 3
    with talking(accepts, idle_connection_s=0.05) as (server, client):
        for _ in range(2):
            assert client.ask(CREATE, BODY).status == 200
            time.sleep(0.1)
    assert server.connections == 2


def test_calls_over_tls_share_a_connection_and_end_in_time(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    moves = [accepts, accepts, scripted_exchange.drips(0.2), scripted_exchange.resets_after_reading, accepts]
    with (
        Scripted(in_turn(*moves), tls=certificate[1]) as server,
        client_of(server.named_url, settings(**BOTH)) as client,
    ):
        replies = [client.ask(CREATE, BODY) for _ in moves]
        assert server.connections == 3
    assert [reply.status for reply in replies] == [200, 200, 0, 0, 200]
    assert [reply.failure.has_sent for reply in replies[2:4]] == [True, True]
    assert replies[2].failure.name == DEADLINE


@pytest.mark.parametrize("coding", [TOKEN, f"{'a' * 30}{TOKEN}", "".join(f"%{sign:02x}" for sign in TOKEN.encode())])
def test_the_token_shows_up_nowhere(coding):
    echo = scripted_exchange.sends(lambda _request: answer(400, f"no {TOKEN} here".encode()), applies=False)
    packed = says(200, b"x", f"Content-Encoding: {coding}\r\n")
    with talking(in_turn(echo, packed, scripted_exchange.resets_after_reading)) as (_, client):
        replies = [client.ask(CREATE, BODY) for _ in range(3)]
        assert TOKEN not in repr(client) + str(client) + repr(replies)
    assert replies[0].body == b"no *** here"
    assert replies[1].failure.name == PACKED
    assert "***" in replies[1].failure.text
    assert TOKEN[:8] not in replies[1].failure.text


# listings


def ask(operation, move, page_size=7, **options):
    with talking(move, **options) as (server, client):
        return client.listing(operation, page_size), server.requests[-1]


def test_a_listing_is_asked_for_as_the_assumptions_say():
    listing, request = ask(ORDERS, lists([{"order_id": "A", "total_weight": 12.5}]))
    assert (request.method, request.target, request.body) == ("GET", "/tmsapi/getOrders?page_size=7", b"")
    assert str(listing.results[0]["total_weight"]) == "12.5"
    assert listing.complete
    for operation, assumptions, target, body in (
        (TENDERS, {}, "?page_size=7&record=tender", b""),
        (ORDERS, {"page_size_in": "body"}, "", b'{"page_size":7}'),
        (TENDERS, {"page_size_in": "both", "tender_listing_query": ""}, "?page_size=7", b'{"page_size":7}'),
    ):
        _, request = ask(operation, lists([]), assumptions=assumptions)
        assert (request.target, request.body) == (f"/tmsapi/getOrders{target}", body)


def test_after_a_refused_token_every_request_has_the_new_one():
    def takes_the_new_one(_number, request):
        return lists([]) if request.headers["authorization"] == "Bearer new" else says(401, UNAUTHORISED)

    asked = []
    renew = lambda refused: asked.append(refused) or "new"  # noqa: E731 (a list and its answer)
    with Scripted(takes_the_new_one) as server, Client(server.url, "old", settings(), renew=renew) as client:
        client.release(client.connection())
        assert client.listing(ORDERS, 1).total_count == 0
        assert [client.connection().token, client.token, *asked] == ["new", "new", "old"]
        client.release(kept := client.connection())
        assert client.connection() is kept
        assert client.listing(ORDERS, 7).total_count == 0
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer old", "Bearer new", "Bearer new"]


RECORDS = [{"order_id": str(number)} for number in range(250)]


def page_size_of(request):
    return int(request.target.partition("page_size=")[2])


def cuts_to(most, records):
    """An exchange that lists so many records at most, and says so."""

    def move(_number, request):
        size = min(page_size_of(request), most)
        body = {"page_size": size, "results": records[:size], "total_count": len(records), "total_pages": 9}
        return says(200, body)

    return move


def refuses_above(most, records):
    """An exchange that answers 400 when it is asked for more records than it lists."""
    return lambda _number, request: lists(records) if page_size_of(request) <= most else says(400, b"{}")


LISTINGS = {
    # name: (script, page sizes asked for, records read, why there are no more)
    "complete": (lists(RECORDS), [1, 400], 250, ""),
    "short": (lists(RECORDS[:1], total=9), [1, 110, 110, 110], 1, "the exchange counts 9 records but lists 1"),
    "a long one": (lists(RECORDS[:1], total=10**6), [1, *[1_200_100] * 3], 1, "counts 1,000,000 records but lists 1"),
    "pages are cut": (cuts_to(100, RECORDS), [1, 400], 100, "the exchange lists at most 100 records"),
    "large are refused": (refuses_above(70, RECORDS), [1, 400, 200, 100, 50], 50, "a page_size of more than 50"),
    "refused, but large enough": (refuses_above(300, RECORDS[:190]), [1, 328, 200], 190, ""),
    "all are refused": (refuses_above(1, RECORDS), [1, 400, 200, 100, 50, 20, 10], 1, "a page_size of more than 1"),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_whole_listing_is_read_as_far_as_the_exchange_lists_it(tmp_path, name):
    script, sizes, count, reason = LISTINGS[name]
    with talking(script, state=tmp_path) as (server, client):
        listing = client.whole_listing(ORDERS)
    assert [page_size_of(request) for request in server.requests] == sizes
    assert (len(listing.results), listing.complete) == (count, not reason)
    assert reason in listing.reason


def test_the_page_size_that_an_exchange_took_is_remembered_for_that_exchange(tmp_path):
    with Scripted(refuses_above(70, RECORDS)) as server, Scripted(refuses_above(1000, RECORDS)) as other:
        for asked, expected in ((server, [1, 400, 200, 100, 50]), (server, [1, 400, 50]), (other, [1, 400])):
            asked.requests.clear()
            with client_of(asked.url, settings(state=tmp_path)) as client:
                assert client.whole_listing(ORDERS).complete is (asked is other)
            assert [page_size_of(request) for request in asked.requests] == expected


def test_a_whole_listing_has_its_own_limit_of_size():
    move = lists([{"order_id": "1", "delivery_city": "x" * 1_000}] * 200)
    with talking(move, answer_bytes_max=10_000, listing_bytes_max=1_000_000) as (_, client):
        assert len(client.whole_listing(ORDERS).results) == 200
    with talking(move, listing_bytes_max=10_000) as (_, client), pytest.raises(ExchangeUnreachable, match="listing_"):
        client.whole_listing(ORDERS)


def test_a_look_that_meets_nobody_is_repeated():
    moves = in_turn(scripted_exchange.closes_without_answer, scripted_exchange.resets_before_reading, lists([]))
    assert ask(ORDERS, moves, 1)[0].total_count == 0


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
        ask(ORDERS, move)
    assert "127.0.0.1" in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_an_answer_is_read_though_the_exchange_reset_the_connection_before_the_request_had_left():
    def refuse(connection, _):
        connection.sendall(answer(413, b"{}"))
        return False  # what was not read makes the close a reset

    with talking(Move(refuse, reads=False)) as (_, client):
        reply = client.ask(CREATE, BODY + b" " * 30_000_000)
        assert not client._thread_connection().is_reusable
    assert (reply.status, reply.failure) == (413, None)


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (Terminated(), Terminated, None),  # in the middle of a listing, for example: the run went on without it
        (OSError(errno.ENOSPC, "No space left on device"), ProtocolError, "could not be kept .No space left on device"),
    ],
)
def test_what_happens_while_an_answer_is_parsed_is_no_fault_of_the_answer(error, expected, words):
    class Failing:
        def add(self, _piece):
            raise error

    parser = _AnswerParser()
    parser.begin(Failing())
    with pytest.raises(expected, match=words):
        parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

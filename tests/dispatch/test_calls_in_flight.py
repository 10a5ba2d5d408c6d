"""Many calls under way at once: on which connections they travel, and what holds up what."""

import threading
import time

import ready_entries
from scripted_exchange import Move, Scripted, accepts, accepts_after, answer, good_body, says

from loadsheet.dispatch import Client

REFUSED = says(401, b"{}")


def test_calls_under_way_share_as_many_connections_as_there_may_be(ledger):
    run, drop = ready_entries.new_orders(ledger, 60)
    report, server = ready_entries.send_to(accepts_after(0.005), ledger, run, connections=4)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 60
    assert (report.calls, len(server.requests)) == (60, 60)
    assert 1 < server.connections <= 4


def test_calls_over_tls_are_under_way_together_too(ledger, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    run, drop = ready_entries.new_orders(ledger, 40)
    with Scripted(accepts_after(0.005), tls=certificate[1]) as server:
        ready_entries.send_all(ledger, run, localhost(server), ready_entries.settings(connections=4))
    assert ready_entries.states(ledger, drop) == ["accepted"] * 40
    assert server.connections <= 4


def test_a_request_too_large_for_one_piece_leaves_while_others_are_answered(ledger):
    run = ledger.begin_run()
    large = ready_entries.plan(
        ledger,
        run,
        "order.create",
        [ready_entries.ledgers.order(500, pickup_company="x" * 6_000_000)],
        file="large.csv",
    )
    others = ready_entries.orders(ledger, run, 20, pickup_city="Y")
    answered = threading.Event()

    def slowly(connection, request):
        answered.wait(5)
        return accepts.act(connection, request)

    def script(_, request):
        if int(request.headers["content-length"]) > 1_000_000:
            answered.wait(5)  # nobody reads: what was sent fills up the connection
            return Move(slowly, applies=True)
        return Move(told, applies=True)

    def told(connection, request):
        if request.number > 15:
            answered.set()
        return accepts.act(connection, request)

    ready_entries.send_to(script, ledger, run, connections=2, call_timeout_s=10.0)
    assert answered.is_set()
    assert ready_entries.states(ledger, large, others) == ["accepted"] * 21


def test_an_exchange_that_closes_without_a_word_loses_and_doubles_nothing(ledger):
    run, drop = ready_entries.new_orders(ledger, 30)

    def closes(connection, request):
        connection.sendall(answer(200, good_body(request)))
        return False

    _, server = ready_entries.send_to(Move(closes, applies=True), ledger, run, connections=1, unknown_max=100)
    states = ready_entries.states(
        ledger, drop
    )  # a close that crosses the next request on its way makes that one unknown
    assert set(states) <= {"accepted", "unknown"}
    assert states.count("accepted") == server.applied.total() == len(server.applied)
    assert server.connections >= server.applied.total()


def test_a_connection_on_which_an_answer_overtook_its_request_is_not_used_again(ledger):
    run = ledger.begin_run()
    ready_entries.plan(
        ledger,
        run,
        "order.create",
        [ready_entries.ledgers.order(500, pickup_company="x" * 6_000_000)],
        file="large.csv",
    )

    def early(connection, request):
        connection.sendall(answer(413, b"{}"))
        time.sleep(0.2)
        return False

    report, server = ready_entries.send_to(Move(early, reads=False), ledger, run, connections=2)
    assert server.connections == len(server.requests) == 1
    assert report.accepted == report.refused == 0


def test_while_another_token_is_asked_for_the_refused_calls_wait_and_are_made_once_more(ledger):
    run, drop = ready_entries.new_orders(ledger, 30)
    asked = []

    def renew(refused):
        asked.append(refused)
        time.sleep(0.1)
        return "another-token-9a1"

    def script(_, request):
        return accepts if request.headers["authorization"].endswith("another-token-9a1") else REFUSED

    options = ready_entries.settings(connections=4, connections_start=4)
    with Scripted(script) as server, Client(server.url, ready_entries.TOKEN, options, renew=renew) as client:
        report = ready_entries.send(ledger, client, run, options)
    assert asked == [ready_entries.TOKEN]
    assert ready_entries.states(ledger, drop) == ["accepted"] * 30
    assert report.stopped is None
    assert server.applied.total() == len(server.applied) == 30


def test_a_token_that_cannot_be_replaced_ends_the_sending_with_all_else_settled(ledger):
    run, drop = ready_entries.new_orders(ledger, 30)
    options = ready_entries.settings(connections=4)
    script = Scripted(lambda number, _: accepts if number < 10 else REFUSED)
    with script as server, Client(server.url, ready_entries.TOKEN, options, renew=lambda _: None) as client:
        report = ready_entries.send(ledger, client, run, options)
    states = ready_entries.states(ledger, drop)
    assert set(states) == {"accepted", "ready"}
    assert states.count("accepted") == server.applied.total() == 10
    assert report.stopped == "the token was refused"


def test_a_connection_that_lies_idle_too_long_is_not_used_again(ledger):
    run = ledger.begin_run()
    options = ready_entries.settings(connections=1, idle_connection_s=0.05)
    with Scripted(accepts) as server, Client(server.url, ready_entries.TOKEN, options) as client:
        ready_entries.orders(ledger, run, 1)
        ready_entries.send(ledger, client, run, options)
        time.sleep(0.1)
        ready_entries.plan(ledger, run, "order.create", [ready_entries.ledgers.order(50)], file="more.csv")
        ready_entries.send(ledger, client, run, options)
    assert server.applied.total() == server.connections == 2


def localhost(server):
    return server.url.replace("127.0.0.1", "localhost")

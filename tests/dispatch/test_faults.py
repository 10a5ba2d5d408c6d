"""Every class of misbehaviour on a real socket, and what the ledger knows afterwards: nothing lost, nothing sent twice."""

import socket
import time

import pytest
import scripted
import sendings
from scripted import Move, Scripted, accepts, says

from loadsheet.contract import UNAUTHORISED, UNKNOWN_METHOD
from loadsheet.dispatch import Stop

BAD_FIELD = {"results": [], "status": False, "message": "wrong", "errors": {"total_weight": "is odd"}}
HTML = b"<!DOCTYPE html><title>Sign in</title>"


def wrong_key(connection, request):
    request.body = request.body.replace(b'"A-', b'"B-')
    return accepts.act(connection, request)


_TIMEOUT_S, _HANGS_S = 2.5, 4.0
"""A call that hangs is over after the first; other calls of the same client are answered within it, on a slow machine too."""

FAULTS = {
    # name: (move, state of the entry afterwards, whether the exchange has it)
    "reset before the request is read": (scripted.resets_before_reading, "unknown"),
    "closed before the request is read": (scripted.closes_before_reading, "unknown"),
    "reset after the request was read": (scripted.resets_after_reading, "unknown"),
    "closed without an answer": (scripted.closes_without_answer, "unknown"),
    "applied, answer lost by reset": (scripted.applies_and_resets, "unknown"),
    "applied, answer lost by close": (scripted.applies_and_closes, "unknown"),
    "no answer in time": (scripted.hangs(_HANGS_S), "unknown"),
    "applied, no answer in time": (scripted.hangs(_HANGS_S, applies=True), "unknown"),
    "answer drips, headers too": (scripted.drips(0.05, headers_too=True), "unknown"),
    "answer drips": (scripted.drips(0.05), "unknown"),
    "answer cut in its headers": (scripted.cuts(0.1), "unknown"),
    "answer cut in its body": (scripted.cuts(0.9), "unknown"),
    "chunk cut": (scripted.cuts_chunk, "unknown"),
    "old protocol cut": (scripted.cuts_old, "unknown"),
    "packed bomb": (scripted.bombs, "unknown"),
    "answer without end": (scripted.answers_without_end, "unknown"),
    "no HTTP at all": (Move(lambda c, r: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")), "unknown"),
    "two lengths": (says(200, b"{}", "Content-Length: 5\r\n"), "unknown"),
    "500": (says(500, {"error": "x"}), "unknown"),
    "500 after the effect": (says(500, applies=True), "unknown"),
    "502": (says(502, HTML), "unknown"),
    "503": (says(503, b"", "Retry-After: 1\r\n"), "unknown"),
    "504": (says(504), "unknown"),
    "408": (says(408), "unknown"),
    "409": (says(409), "unknown"),
    "201": (says(201, {"status": True}, applies=True), "unknown"),
    "204": (says(204), "unknown"),
    "success that is none": (says(200, {"status": False, "message": "no"}), "unknown"),
    "success of wrong shape": (says(200, {"status": True}), "unknown"),
    "truncated JSON": (says(200, b'{"status": true, "mess', applies=True), "unknown"),
    "another record named": (Move(wrong_key, applies=True), "unknown"),
    "packed in an unknown way": (says(200, b"abc", "Content-Encoding: br\r\n"), "unknown"),
    "packed and broken": (says(200, b"abc", "Content-Encoding: gzip\r\n"), "unknown"),
    "documented refusal": (says(400, BAD_FIELD), "refused"),
    "refusal of a proxy": (says(400, HTML), "refused"),
    "accepted": (accepts, "accepted"),
    "accepted, then closed": (scripted.accepts_and_closes, "accepted"),
    "accepted in chunks after a 100": (scripted.accepts_in_chunks, "accepted"),
    "accepted, packed unasked": (scripted.accepts_packed, "accepted"),
    "accepted, with a second answer behind it": (scripted.answers_twice, "accepted"),
}
OPTIONS = {"answer_bytes_max": 1_000_000, "connections": 1}
HANGING = {name for name in FAULTS if "in time" in name or "drip" in name}


@pytest.mark.parametrize("name", FAULTS)
def test_one_bad_call_touches_no_other_and_is_never_repeated(ledger, name):
    move, state = FAULTS[name]
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 6)
    with Scripted(lambda number, _: move if number == 2 else accepts) as server:
        options = {**OPTIONS, "call_timeout_s": _TIMEOUT_S} if name in HANGING else OPTIONS
        report = sendings.send_all(ledger, run, server.url, sendings.settings(**options))
    assert sendings.states(ledger, drop) == ["accepted", "accepted", state, "accepted", "accepted", "accepted"]
    assert len(server.requests) == 6
    assert max(server.applied.values()) == 1
    assert (report.calls, report.stopped) == (6, None)
    check_record(ledger, drop, state)


def check_record(ledger, drop, state):
    third = list(ledger.history.entries_of(drop.id))[2]
    (attempt,) = ledger.history.attempts_of(third.id)
    assert attempt.outcome == state
    assert third.reason == attempt.detail != ""
    assert [problem.code for problem in third.problems] == {"unknown": ["X702"], "refused": ["X701"]}.get(state, [])
    assert [str(event.after) for event in ledger.history.events_of(third.id)] == ["ready", "sending", state]


HALTING = {
    "401": (says(401, UNAUTHORISED), Stop.TOKEN_REFUSED, "ready"),
    "403": (says(403, HTML), Stop.NOT_SERVED, "ready"),
    "404": (says(404, HTML), Stop.NOT_SERVED, "ready"),
    "405": (says(405, UNKNOWN_METHOD), Stop.NOT_SERVED, "ready"),
    "413": (says(413), Stop.NOT_SERVED, "ready"),
    "415": (says(415), Stop.NOT_SERVED, "ready"),
    "422": (says(422, {"detail": "x"}), Stop.NOT_SERVED, "ready"),
    "a web page": (says(200, HTML), Stop.NOT_SERVED, "unknown"),
    **{
        str(status): (says(status, b"", "Location: /elsewhere\r\n"), Stop.NOT_SERVED, "unknown")
        for status in (301, 302, 303, 307, 308)
    },
}


@pytest.mark.parametrize("name", HALTING)
def test_what_would_hit_every_call_ends_the_sending_at_once(ledger, name):
    move, stop, state = HALTING[name]
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 6)
    with Scripted(lambda number, _: move if number >= 2 else accepts) as server:
        report = sendings.send_all(ledger, run, server.url, sendings.settings(**OPTIONS))
    assert report.stopped is stop
    assert report.why
    assert sendings.states(ledger, drop) == ["accepted", "accepted", state, "ready", "ready", "ready"]
    assert len(server.requests) == 3
    assert sendings.count(ledger, "refused") == 0


@pytest.mark.parametrize("status", [425, 429])
def test_a_busy_exchange_is_left_alone_and_asked_again(ledger, status):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 6)
    busy = says(status, b"", "Retry-After: 40\r\n")
    naps = sendings.Naps()
    with Scripted(lambda number, _: busy if number in (2, 3) else accepts) as server:
        report = sendings.send_all(ledger, run, server.url, sendings.settings(**OPTIONS), naps=naps)
    assert sendings.states(ledger, drop) == ["accepted"] * 6
    assert report.stopped is None
    assert naps.slept >= 80
    third = list(ledger.history.entries_of(drop.id))[2]
    assert [attempt.outcome for attempt in ledger.history.attempts_of(third.id)] == ["not sent", "not sent", "accepted"]


def test_a_busy_exchange_without_end_pauses_the_run_and_marks_nothing(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 6)
    with Scripted(lambda *_: says(429)) as server:
        report = sendings.send_all(ledger, run, server.url, sendings.settings(unreachable_max=4, connections=2))
    assert (report.stopped, sendings.states(ledger, drop)) == (Stop.BUSY, ["ready"] * 6)
    assert len(server.requests) <= 2 + 3


def test_nobody_there_leaves_everything_ready(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 6)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    naps = sendings.Naps()
    report = sendings.send_all(ledger, run, f"http://127.0.0.1:{free}", naps=naps)
    assert report.stopped is Stop.UNREACHABLE
    assert "refused" in report.why
    assert sendings.states(ledger, drop) == ["ready"] * 6
    assert 0.5 < naps.slept < 10
    assert {problem.code for entry in ledger.history.entries_of(drop.id) for problem in entry.problems} == set()


def test_a_name_that_does_not_exist_leaves_everything_ready(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 2)
    options = sendings.settings(unreachable_max=1)
    report = sendings.send_all(ledger, run, "https://exchange.invalid", options)
    assert report.stopped is Stop.UNREACHABLE
    assert sendings.states(ledger, drop) == ["ready"] * 2


def test_an_exchange_that_comes_back_gets_everything(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 20)
    with Scripted(lambda *_: accepts) as server:
        port = int(server.url.rsplit(":", 1)[1])
    revived = []

    class Reviving(sendings.Naps):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.slept > 2 and not revived:
                revived.append(Scripted(lambda *_: accepts, port=port).__enter__())

    try:
        report = sendings.send_all(ledger, run, server.url, naps=Reviving())
    finally:
        for server in revived:
            server.__exit__()
    assert report.stopped is None
    assert sendings.states(ledger, drop) == ["accepted"] * 20
    assert max(revived[0].applied.values()) == 1


def test_many_unknown_outcomes_in_a_row_end_the_sending(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 30)
    with Scripted(lambda *_: says(500)) as server:
        report = sendings.send_all(ledger, run, server.url, sendings.settings(unknown_max=5, connections=1))
    assert report.stopped is Stop.UNKNOWN
    states = sendings.states(ledger, drop)
    assert states == ["unknown"] * report.unknown + ["ready"] * (30 - report.unknown)
    assert 5 <= report.unknown <= 7


def test_a_refusal_after_an_unknown_attempt_is_unknown(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 1)
    with Scripted(lambda number, _: scripted.applies_and_closes if number == 0 else says(400, BAD_FIELD)) as server:
        sendings.send_all(ledger, run, server.url)
        assert sendings.states(ledger, drop) == ["unknown"]
        (entry,) = ledger.history.entries_of(drop.id)
        ledger.settle(run, [sendings.Settlement(entry.id, sendings.State.READY, "send it again, said somebody")])
        sendings.send_all(ledger, run, server.url)
    (entry,) = ledger.history.entries_of(drop.id)
    assert str(entry.state) == "unknown"
    assert "refused after an attempt of unknown outcome" in entry.reason
    assert len(server.requests) == 2


def test_a_connection_that_idled_is_not_used_again(ledger):
    run = ledger.begin_run()
    options = sendings.settings(connections=1, idle_connection_s=1.0)
    with Scripted(lambda *_: accepts) as server, sendings.client_of(server.url, options) as client:
        for number, pause in enumerate((0, 1.3, 0)):
            sendings.plan(ledger, run, "order.create", [sendings.ledgers.order(number)])
            (ready,) = ledger.ready(1)
            operation = sendings.BY_NAME["order.create"]
            ledger.mark_sending(run, [([ready], ready.payload)])
            assert client.call(operation, ready.payload).status == 200
            time.sleep(pause)
    assert server.connections == 2


def test_faults_among_many_calls_at_once_lose_and_double_nothing(ledger):
    moves = [move for name, (move, _) in FAULTS.items() if name not in HANGING]
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 300)
    plenty = {"unknown_max": 1000, "outstanding_unknown_max": 1000}
    options = sendings.settings(answer_bytes_max=1_000_000, connections=8, **plenty)
    script = Scripted(lambda number, _: moves[number // 5 % len(moves)] if number % 5 == 0 else accepts)
    with script as server:
        report = sendings.send_all(ledger, run, server.url, options)
    assert report.calls == 300
    assert len(server.requests) in range(290, 301), "a call may meet a connection that is just being closed"
    assert report.accepted + report.refused + report.unknown == 300
    assert report.returned < 60, "only what waited to leave when a 503 asked for a pause comes back"
    applied = server.keys("order.create")
    assert max(applied.values()) == 1
    for entry in ledger.history.entries_of(drop.id):
        assert str(entry.state) in ("accepted", "refused", "unknown")
        if str(entry.state) == "accepted":
            assert applied[entry.key] == 1
        if str(entry.state) == "refused":
            assert applied[entry.key] == 0

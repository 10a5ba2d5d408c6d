"""Every class of misbehaviour on a real socket, and what the ledger knows afterwards: nothing lost, nothing sent twice."""

import socket

import pytest
import ready_entries
import scripted_exchange
from ready_entries import decide, entries, new_orders, send_all, send_to, states
from scripted_exchange import Move, Scripted, accepts, in_turn, says

from loadsheet.contract import UNAUTHORISED, UNKNOWN_METHOD
from loadsheet.dispatch import StopReason
from loadsheet.ledger import State

BAD_FIELD = {"results": [], "status": False, "message": "wrong", "errors": {"total_weight": "is odd"}}
HTML = b"<!DOCTYPE html><title>Sign in</title>"
TIMEOUT_S, HANGS_S = 5.0, 60.0
"""A call that hangs is over after the first; other calls of the same client are answered within it, on a slow machine too."""


def wrong_key(connection, request):
    request.body = request.body.replace(b'"A-', b'"B-')
    return accepts.act(connection, request)


UNKNOWN = {
    "reset before the request is read": scripted_exchange.resets_before_reading,
    "closed before the request is read": scripted_exchange.closes_before_reading,
    "reset after the request was read": scripted_exchange.resets_after_reading,
    "closed without an answer": scripted_exchange.closes_without_answer,
    "applied, answer lost by reset": scripted_exchange.applies_and_resets,
    "applied, answer lost by close": scripted_exchange.applies_and_closes,
    "no answer in time": scripted_exchange.hangs(HANGS_S),
    "applied, no answer in time": scripted_exchange.hangs(HANGS_S, applies=True),
    "answer drips, headers too": scripted_exchange.drips(0.2, headers_too=True),
    "answer drips": scripted_exchange.drips(0.2),
    "answer cut in its headers": scripted_exchange.cuts(0.1),
    "answer cut in its body": scripted_exchange.cuts(0.9),
    "chunk cut": scripted_exchange.cuts_chunk,
    "old protocol cut": scripted_exchange.cuts_old,
    "packed bomb": scripted_exchange.bombs,
    "answer without end": scripted_exchange.answers_without_end,
    "no HTTP at all": Move(lambda c, r: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")),
    "two lengths": says(200, b"{}", "Content-Length: 5\r\n"),
    "500": says(500, {"error": "x"}),
    "500 after the effect": says(500, applies=True),
    "502": says(502, HTML),
    "503": says(503, b"", "Retry-After: 1\r\n"),
    "201": says(201, {"status": True}, applies=True),
    "204": says(204),
    "success that is none": says(200, {"status": False, "message": "no"}),
    "success of wrong shape": says(200, {"status": True}),
    "truncated JSON": says(200, b'{"status": true, "mess', applies=True),
    "another record named": Move(wrong_key, applies=True),
    "packed in an unknown way": says(200, b"abc", "Content-Encoding: br\r\n"),
    "packed and broken": says(200, b"abc", "Content-Encoding: gzip\r\n"),
}
ANSWERED = {
    "documented refusal": (says(400, BAD_FIELD), "refused"),
    "refusal of a proxy": (says(400, HTML), "refused"),
    "accepted": (accepts, "accepted"),
    "accepted, then closed": (scripted_exchange.accepts_and_closes, "accepted"),
    "accepted in chunks after a 100": (scripted_exchange.accepts_in_chunks, "accepted"),
    "accepted, packed unasked": (scripted_exchange.accepts_packed, "accepted"),
    "accepted, with a second answer behind it": (scripted_exchange.answers_twice, "accepted"),
}
FAULTS = {name: (move, "unknown") for name, move in UNKNOWN.items()} | ANSWERED
"""By name: what the exchange does, and the state of the entry afterwards."""
OPTIONS = {"answer_bytes_max": 1_000_000, "connections": 1}
PLENTY = {"unknown_max": 1000, "outstanding_unknown_max": 1000, "unreachable_max": 1000}
HANGING = {name for name in FAULTS if "in time" in name or "drip" in name}


def by_order(moves):
    """The move for each order by its number, whichever comes first."""

    def act(connection, request):
        return moves[int(request.payloads[0]["order_id"].removeprefix("A-"))].act(connection, request)

    return Move(act, applies=True)


@pytest.mark.parametrize("hanging", [False, True], ids=["at once", "after a while"])
def test_one_bad_call_touches_no_other_and_is_never_repeated(ledger, hanging):
    """Each between two good ones: one after the other, or all at the same time where each takes a while."""
    names = [name for name in FAULTS if (name in HANGING) == hanging]
    moves = [move for name in names for move in (accepts, FAULTS[name][0], accepts)]
    run, drop = new_orders(ledger, len(moves))
    beside = {"connections": len(moves), "connections_start": len(moves), "call_timeout_s": TIMEOUT_S}
    options = OPTIONS | PLENTY | (beside if hanging else {})
    report, server = send_to(by_order(moves) if hanging else in_turn(*moves), ledger, run, **options)
    found = entries(ledger, drop)
    assert {str(entry.state) for place, entry in enumerate(found) if place % 3 != 1} == {"accepted"}
    bad = dict(zip(names, found[1::3], strict=True))
    assert {name: str(entry.state) for name, entry in bad.items()} == {name: FAULTS[name][1] for name in names}
    assert max(server.applied.values()) == 1
    assert (report.calls, len(server.requests), report.stopped) == (len(moves), len(moves), None)
    for entry in bad.values():
        state = str(entry.state)
        (attempt,) = ledger.queries.attempts_of(entry.id)
        assert attempt.outcome == state
        assert entry.reason == attempt.detail != ""
        assert [problem.code for problem in entry.problems] == {"unknown": ["X702"], "refused": ["X701"]}.get(state, [])
        assert [str(event.after) for event in ledger.queries.events_of(entry.id)] == ["ready", "sending", state]


def test_faults_among_many_calls_at_once_lose_and_double_nothing(ledger):
    moves = [move for name, (move, _) in FAULTS.items() if name not in HANGING]
    run, drop = new_orders(ledger, 200)
    report, server = send_to(
        lambda number, _: moves[number // 5 % len(moves)] if number % 5 == 0 else accepts,
        ledger,
        run,
        **{**OPTIONS, **PLENTY, "connections": 8},
    )
    assert report.calls == 200
    assert len(server.requests) in range(190, 201), "a call may meet a connection that is just being closed"
    assert report.accepted + report.refused + report.unknown == 200
    assert report.returned < 60, "only what waited to leave when a 503 asked for a pause comes back"
    applied = server.keys("order.create")
    assert max(applied.values()) == 1
    for entry in entries(ledger, drop):
        assert applied[entry.key] in {"accepted": {1}, "refused": {0}, "unknown": {0, 1}}[str(entry.state)]


NOT_SERVED = StopReason.NOT_SERVED
HALTING = {
    "401": (says(401, UNAUTHORISED), StopReason.TOKEN_REFUSED, "ready"),
    "405": (says(405, UNKNOWN_METHOD), NOT_SERVED, "ready"),
    **{str(status): (says(status, HTML), NOT_SERVED, "ready") for status in (403, 404, 413, 415, 422)},
    "a web page": (says(200, HTML), NOT_SERVED, "unknown"),
    **{
        str(status): (says(status, b"", "Location: /elsewhere\r\n"), NOT_SERVED, "unknown")
        for status in (301, 302, 303, 307, 308)
    },
}


def test_what_would_hit_every_call_ends_the_sending_at_once(tmp_path):
    for name, (move, stop, state) in HALTING.items():
        (tmp_path / name).mkdir()
        with ready_entries.ledgers.ledger_in(tmp_path / name) as ledger:
            run, drop = new_orders(ledger, 4)
            report, server = send_to(in_turn(accepts, move), ledger, run, **OPTIONS)
            assert (report.stopped, report.why != "", len(server.requests)) == (stop, True, 2), name
            assert states(ledger, drop) == ["accepted", state, "ready", "ready"], name


@pytest.mark.parametrize("status", [425, 429])
def test_a_busy_exchange_is_left_alone_and_asked_again(ledger, status):
    run, drop = new_orders(ledger, 6)
    busy, naps = says(status, b"", "Retry-After: 40\r\n"), ready_entries.Naps()
    script = in_turn(accepts, accepts, busy, busy, accepts)
    report, _ = send_to(script, ledger, run, **OPTIONS, naps=naps)
    assert states(ledger, drop) == ["accepted"] * 6
    assert report.stopped is None
    assert naps.slept >= 80
    third = entries(ledger, drop)[2]
    assert [attempt.outcome for attempt in ledger.queries.attempts_of(third.id)] == ["not sent", "not sent", "accepted"]


def test_a_busy_exchange_without_end_pauses_the_run_and_marks_nothing(ledger):
    run, drop = new_orders(ledger, 6)
    report, server = send_to(says(429), ledger, run, unreachable_max=4, connections=2)
    assert (report.stopped, states(ledger, drop)) == (StopReason.BUSY, ["ready"] * 6)
    assert len(server.requests) <= 2 + 3


def test_nobody_there_leaves_everything_ready(ledger):
    run, drop = new_orders(ledger, 6)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    naps = ready_entries.Naps()
    report = send_all(ledger, run, f"http://127.0.0.1:{free}", naps=naps)
    assert (report.stopped, "refused" in report.why) == (StopReason.UNREACHABLE, True)
    assert 0.5 < naps.slept < 10
    report = send_all(ledger, run, "https://exchange.invalid", ready_entries.settings(unreachable_max=1))
    assert report.stopped is StopReason.UNREACHABLE
    assert [(str(entry.state), entry.problems) for entry in entries(ledger, drop)] == [("ready", ())] * 6


def test_an_exchange_that_comes_back_gets_everything(ledger):
    run, drop = new_orders(ledger, 20)
    with Scripted(accepts) as server:
        port = int(server.url.rsplit(":", 1)[1])
    revived = []

    class Reviving(ready_entries.Naps):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.slept > 2 and not revived:
                revived.append(Scripted(accepts, port=port).__enter__())

    try:
        report = send_all(ledger, run, server.url, naps=Reviving())
    finally:
        for server in revived:
            server.__exit__()
    assert report.stopped is None
    assert states(ledger, drop) == ["accepted"] * 20
    assert max(revived[0].applied.values()) == 1


def test_many_unknown_outcomes_in_a_row_end_the_sending(ledger):
    run, drop = new_orders(ledger, 30)
    report, _ = send_to(says(500), ledger, run, unknown_max=5, connections=1)
    assert report.stopped is StopReason.UNKNOWN
    assert states(ledger, drop) == ["unknown"] * report.unknown + ["ready"] * (30 - report.unknown)
    assert 5 <= report.unknown <= 7


def test_a_refusal_after_an_unknown_attempt_is_unknown(ledger):
    run, drop = new_orders(ledger, 1)
    send_to(scripted_exchange.applies_and_closes, ledger, run)
    assert states(ledger, drop) == ["unknown"]
    decide(ledger, run, State.READY, *entries(ledger, drop))
    _, server = send_to(says(400, BAD_FIELD), ledger, run)
    (entry,) = entries(ledger, drop)
    assert str(entry.state) == "unknown"
    assert "refused after an attempt of unknown outcome" in entry.reason
    assert len(server.requests) == 1

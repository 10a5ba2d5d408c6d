"""Every class of misbehaviour on a real socket, and what the ledger knows afterwards: nothing lost, nothing sent twice."""

import socket

import pytest
import ready_entries
import scripted_exchange
from scripted_exchange import Move, Scripted, accepts, says

from loadsheet.contract import UNAUTHORISED, UNKNOWN_METHOD
from loadsheet.dispatch import StopReason

BAD_FIELD = {"results": [], "status": False, "message": "wrong", "errors": {"total_weight": "is odd"}}
HTML = b"<!DOCTYPE html><title>Sign in</title>"


def wrong_key(connection, request):
    request.body = request.body.replace(b'"A-', b'"B-')
    return accepts.act(connection, request)


_TIMEOUT_S, _HANGS_S = 5.0, 60.0
"""A call that hangs is over after the first; other calls of the same client are answered within it, on a slow machine too."""

FAULTS = {
    # name: (move, state of the entry afterwards, whether the exchange has it)
    "reset before the request is read": (scripted_exchange.resets_before_reading, "unknown"),
    "closed before the request is read": (scripted_exchange.closes_before_reading, "unknown"),
    "reset after the request was read": (scripted_exchange.resets_after_reading, "unknown"),
    "closed without an answer": (scripted_exchange.closes_without_answer, "unknown"),
    "applied, answer lost by reset": (scripted_exchange.applies_and_resets, "unknown"),
    "applied, answer lost by close": (scripted_exchange.applies_and_closes, "unknown"),
    "no answer in time": (scripted_exchange.hangs(_HANGS_S), "unknown"),
    "applied, no answer in time": (scripted_exchange.hangs(_HANGS_S, applies=True), "unknown"),
    "answer drips, headers too": (scripted_exchange.drips(0.2, headers_too=True), "unknown"),
    "answer drips": (scripted_exchange.drips(0.2), "unknown"),
    "answer cut in its headers": (scripted_exchange.cuts(0.1), "unknown"),
    "answer cut in its body": (scripted_exchange.cuts(0.9), "unknown"),
    "chunk cut": (scripted_exchange.cuts_chunk, "unknown"),
    "old protocol cut": (scripted_exchange.cuts_old, "unknown"),
    "packed bomb": (scripted_exchange.bombs, "unknown"),
    "answer without end": (scripted_exchange.answers_without_end, "unknown"),
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
    "accepted, then closed": (scripted_exchange.accepts_and_closes, "accepted"),
    "accepted in chunks after a 100": (scripted_exchange.accepts_in_chunks, "accepted"),
    "accepted, packed unasked": (scripted_exchange.accepts_packed, "accepted"),
    "accepted, with a second answer behind it": (scripted_exchange.answers_twice, "accepted"),
}
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
    run, drop = ready_entries.new_orders(ledger, len(moves))
    beside = {"connections": len(moves), "connections_start": len(moves), "call_timeout_s": _TIMEOUT_S}
    options = ready_entries.settings(**OPTIONS | PLENTY | (beside if hanging else {}))
    report, server = ready_entries.send_to(
        lambda number, _: by_order(moves) if hanging else moves[number], ledger, run, options
    )
    entries = list(ledger.queries.entries_of(drop.id))
    good = [entry for place, entry in enumerate(entries) if place % 3 != 1]
    assert {str(entry.state) for entry in good} == {"accepted"}
    assert {name: str(entry.state) for name, entry in zip(names, entries[1::3], strict=True)} == {
        name: FAULTS[name][1] for name in names
    }
    assert max(server.applied.values()) == 1
    assert (report.calls, len(server.requests), report.stopped) == (len(moves), len(moves), None)
    for name, entry in zip(names, entries[1::3], strict=True):
        check_record(ledger, entry, FAULTS[name][1])


def check_record(ledger, entry, state):
    (attempt,) = ledger.queries.attempts_of(entry.id)
    assert attempt.outcome == state
    assert entry.reason == attempt.detail != ""
    assert [problem.code for problem in entry.problems] == {"unknown": ["X702"], "refused": ["X701"]}.get(state, [])
    assert [str(event.after) for event in ledger.queries.events_of(entry.id)] == ["ready", "sending", state]


HALTING = {
    "401": (says(401, UNAUTHORISED), StopReason.TOKEN_REFUSED, "ready"),
    "403": (says(403, HTML), StopReason.NOT_SERVED, "ready"),
    "404": (says(404, HTML), StopReason.NOT_SERVED, "ready"),
    "405": (says(405, UNKNOWN_METHOD), StopReason.NOT_SERVED, "ready"),
    "413": (says(413), StopReason.NOT_SERVED, "ready"),
    "415": (says(415), StopReason.NOT_SERVED, "ready"),
    "422": (says(422, {"detail": "x"}), StopReason.NOT_SERVED, "ready"),
    "a web page": (says(200, HTML), StopReason.NOT_SERVED, "unknown"),
    **{
        str(status): (says(status, b"", "Location: /elsewhere\r\n"), StopReason.NOT_SERVED, "unknown")
        for status in (301, 302, 303, 307, 308)
    },
}


def test_what_would_hit_every_call_ends_the_sending_at_once(tmp_path):
    for name, (move, stop, state) in HALTING.items():
        (tmp_path / name).mkdir()
        with ready_entries.ledgers.ledger_in(tmp_path / name) as ledger:
            run, drop = ready_entries.new_orders(ledger, 4)
            report, server = ready_entries.send_to(
                lambda number, _, move=move: move if number else accepts, ledger, run, **OPTIONS
            )
            assert (report.stopped, report.why != "", len(server.requests)) == (stop, True, 2), name
            assert ready_entries.states(ledger, drop) == ["accepted", state, "ready", "ready"], name


@pytest.mark.parametrize("status", [425, 429])
def test_a_busy_exchange_is_left_alone_and_asked_again(ledger, status):
    run, drop = ready_entries.new_orders(ledger, 6)
    busy = says(status, b"", "Retry-After: 40\r\n")
    naps = ready_entries.Naps()
    report, _ = ready_entries.send_to(
        lambda number, _: busy if number in (2, 3) else accepts,
        ledger,
        run,
        **OPTIONS,
        naps=naps,
    )
    assert ready_entries.states(ledger, drop) == ["accepted"] * 6
    assert report.stopped is None
    assert naps.slept >= 80
    third = list(ledger.queries.entries_of(drop.id))[2]
    assert [attempt.outcome for attempt in ledger.queries.attempts_of(third.id)] == ["not sent", "not sent", "accepted"]


def test_a_busy_exchange_without_end_pauses_the_run_and_marks_nothing(ledger):
    run, drop = ready_entries.new_orders(ledger, 6)
    report, server = ready_entries.send_to(says(429), ledger, run, unreachable_max=4, connections=2)
    assert (report.stopped, ready_entries.states(ledger, drop)) == (StopReason.BUSY, ["ready"] * 6)
    assert len(server.requests) <= 2 + 3


def test_nobody_there_leaves_everything_ready(ledger):
    run, drop = ready_entries.new_orders(ledger, 6)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    naps = ready_entries.Naps()
    report = ready_entries.send_all(ledger, run, f"http://127.0.0.1:{free}", naps=naps)
    assert report.stopped is StopReason.UNREACHABLE
    assert "refused" in report.why
    assert ready_entries.states(ledger, drop) == ["ready"] * 6
    assert 0.5 < naps.slept < 10
    assert {problem.code for entry in ledger.queries.entries_of(drop.id) for problem in entry.problems} == set()


def test_a_name_that_does_not_exist_leaves_everything_ready(ledger):
    run, drop = ready_entries.new_orders(ledger, 2)
    options = ready_entries.settings(unreachable_max=1)
    report = ready_entries.send_all(ledger, run, "https://exchange.invalid", options)
    assert report.stopped is StopReason.UNREACHABLE
    assert ready_entries.states(ledger, drop) == ["ready"] * 2


def test_an_exchange_that_comes_back_gets_everything(ledger):
    run, drop = ready_entries.new_orders(ledger, 20)
    with Scripted(accepts) as server:
        port = int(server.url.rsplit(":", 1)[1])
    revived = []

    class Reviving(ready_entries.Naps):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.slept > 2 and not revived:
                revived.append(Scripted(lambda *_: accepts, port=port).__enter__())

    try:
        report = ready_entries.send_all(ledger, run, server.url, naps=Reviving())
    finally:
        for server in revived:
            server.__exit__()
    assert report.stopped is None
    assert ready_entries.states(ledger, drop) == ["accepted"] * 20
    assert max(revived[0].applied.values()) == 1


def test_many_unknown_outcomes_in_a_row_end_the_sending(ledger):
    run, drop = ready_entries.new_orders(ledger, 30)
    report, _ = ready_entries.send_to(says(500), ledger, run, unknown_max=5, connections=1)
    assert report.stopped is StopReason.UNKNOWN
    states = ready_entries.states(ledger, drop)
    assert states == ["unknown"] * report.unknown + ["ready"] * (30 - report.unknown)
    assert 5 <= report.unknown <= 7


def test_a_refusal_after_an_unknown_attempt_is_unknown(ledger):
    run, drop = ready_entries.new_orders(ledger, 1)
    with Scripted(
        lambda number, _: scripted_exchange.applies_and_closes if number == 0 else says(400, BAD_FIELD)
    ) as server:
        ready_entries.send_all(ledger, run, server.url)
        assert ready_entries.states(ledger, drop) == ["unknown"]
        (entry,) = ledger.queries.entries_of(drop.id)
        ledger.settle(
            run, [ready_entries.Settlement(entry.id, ready_entries.State.READY, "send it again, said somebody")]
        )
        ready_entries.send_all(ledger, run, server.url)
    (entry,) = ledger.queries.entries_of(drop.id)
    assert str(entry.state) == "unknown"
    assert "refused after an attempt of unknown outcome" in entry.reason
    assert len(server.requests) == 2


def test_faults_among_many_calls_at_once_lose_and_double_nothing(ledger):
    moves = [move for name, (move, _) in FAULTS.items() if name not in HANGING]
    run, drop = ready_entries.new_orders(ledger, 200)
    options = ready_entries.settings(**{**OPTIONS, **PLENTY, "connections": 8})
    script = Scripted(lambda number, _: moves[number // 5 % len(moves)] if number % 5 == 0 else accepts)
    with script as server:
        report = ready_entries.send_all(ledger, run, server.url, options)
    assert report.calls == 200
    assert len(server.requests) in range(190, 201), "a call may meet a connection that is just being closed"
    assert report.accepted + report.refused + report.unknown == 200
    assert report.returned < 60, "only what waited to leave when a 503 asked for a pause comes back"
    applied = server.keys("order.create")
    assert max(applied.values()) == 1
    for entry in ledger.queries.entries_of(drop.id):
        assert str(entry.state) in ("accepted", "refused", "unknown")
        if str(entry.state) == "accepted":
            assert applied[entry.key] == 1
        if str(entry.state) == "refused":
            assert applied[entry.key] == 0

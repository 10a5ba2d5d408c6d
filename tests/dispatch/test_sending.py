"""The rolling window on a real ledger and real sockets: what leaves when, in which order, and what is committed before."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path

import pytest
import ready_entries
import scripted_exchange
from ready_entries import new_orders, send_all, send_to, states
from scripted_exchange import CallsAtOnce, Scripted, accepts, accepts_after, accepts_when, in_turn, says, until

from loadsheet.contract import UNAUTHORISED
from loadsheet.dispatch import StopReason, sending
from loadsheet.dispatch.transport import CallConnection
from loadsheet.ledger import open_ledger

PARTIES = {"sender_id": "ACME", "receiver_id": "CARGO"}
EXPIRED = says(401, UNAUTHORISED)


def as_others_see(tmp_path, question, *values):
    """A number or a word of the ledger, as another process sees it."""
    with closing(sqlite3.connect(f"file:{tmp_path / 'ledger.db'}?mode=ro", uri=True)) as reader:
        return reader.execute(f"select {question}", values).fetchone()[0]


def test_everything_ready_is_sent_once_and_settled(ledger):
    run, made = new_orders(ledger, 40)
    told = ready_entries.events(ledger, run, 90, orders=40)
    heard = []
    report, server = send_to(accepts, ledger, run, progress=lambda *numbers: heard.append(numbers))
    assert states(ledger, made, told) == ["accepted"] * 130
    assert (report.accepted, report.refused, report.unknown, report.returned) == (130, 0, 0, 0)
    assert max(server.keys("order.create").values()) == 1
    assert server.applied.total() == 130
    assert heard[-1] == (130, 130)
    assert heard == sorted(heard)
    receipts = {entry.service_order for entry in ready_entries.entries(ledger, made)}
    assert len(receipts) == 40
    assert all(receipt.startswith("8800") for receipt in receipts)
    assert send_all(ledger, run, "http://127.0.0.1:9").calls == 0


def test_the_intent_is_on_disk_before_the_first_byte_is_sent(ledger, tmp_path):
    run, _ = new_orders(ledger, 40)
    seen = []

    def look(request):
        key = request.payloads[0]["order_id"]
        seen.append(as_others_see(tmp_path, "state from entries where key = ?", key))

    send_to(accepts_when(look), ledger, run)
    assert seen == ["sending"] * 40


class Watching(CallsAtOnce):
    """Also notes the order in which lanes are met, and calls that overlap on a lane."""

    def __init__(self, seconds):
        super().__init__(seconds)
        self.lanes, self.overlaps, self.order = Counter(), 0, defaultdict(list)

    def begins(self, request):
        keys = {payload["order_id"] for payload in request.payloads}
        self.overlaps += any(self.lanes[key] for key in keys)
        self.lanes.update(keys)
        for payload in request.payloads:
            self.order[payload["order_id"]].append(payload.get("status_location") or request.operation.name)

    def ends(self, request):
        self.lanes.subtract({payload["order_id"] for payload in request.payloads})


def test_as_many_calls_as_connections_are_under_way_and_no_more(ledger):
    run, _ = new_orders(ledger, 60)
    script = CallsAtOnce(0.02)
    report, server = send_to(script, ledger, run, connections=6)
    assert script.most == server.connections == report.connections == 6


def test_a_slow_call_holds_up_nobody_else(ledger):
    run, drop = new_orders(ledger, 60)
    others, waited = threading.Event(), []

    def script(number, _):
        if number == 59:
            others.set()
        return accepts if number else accepts_when(lambda _: waited.append(others.wait(20)))

    send_to(script, ledger, run, connections=4, call_timeout_s=30)
    assert waited == [True], "all others came while the first was under way"
    assert states(ledger, drop) == ["accepted"] * 60


def test_one_lane_is_one_call_at_a_time_and_keeps_its_order(ledger):
    run, _ = new_orders(ledger, 4)
    keys = [f"A-{number:05}" for number in range(4)]
    for turn in range(3):
        changes = [{"order_id": key, **PARTIES, "currency": f"C{turn}"} for key in keys]
        ready_entries.plan(ledger, run, "order.update", changes, file=f"u{turn}.csv")
        events = [{"order_id": key, "status_location": f"{turn}.{step}"} for step in range(5) for key in keys]
        ready_entries.plan(ledger, run, "order.status", events, file=f"s{turn}.csv")
    ready_entries.plan(ledger, run, "order.delete", [{"order_id": key} for key in keys], file="d.csv")
    script = Watching(0.003)
    send_to(script, ledger, run, connections=8)
    expected = ["order.create"]
    for turn in range(3):
        expected += ["order.update", *(f"{turn}.{step}" for step in range(5))]
    assert script.overlaps == 0
    assert dict(script.order) == {key: [*expected, "order.delete"] for key in keys}


def test_nothing_on_a_lane_is_sent_behind_an_unknown_outcome(ledger):
    run, made = new_orders(ledger, 3)
    told = ready_entries.events(ledger, run, 6, orders=3)
    moves = in_turn(accepts, scripted_exchange.applies_and_closes, accepts)
    report, _ = send_to(moves, ledger, run, connections=1)
    assert states(ledger, made) == ["accepted", "unknown", "accepted"]
    assert states(ledger, told) == ["accepted", "ready", "accepted"] * 2
    assert (report.stopped, report.unknown) == (None, 1)


WINDOWS = {
    # settings, orders, seconds that the exchange takes, how many are marked as being sent at most
    "a window of one": ({"window": 1, "connections": 4}, 90, 0.0, range(1, 2)),
    "a window": ({"window": 10, "connections": 4}, 90, 0.0, range(1, 11)),
    "fewer ahead where calls are slow": ({"connections": 2, "connections_start": 2}, 12, 0.25, range(3, 7)),
    "16 ahead": ({"connections": 2, "connections_start": 2}, 200, 0.0, range(11, 19)),
    "half as many ahead as connections": ({"connections": 48, "connections_start": 48}, 200, 0.0, range(61, 73)),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_no_more_than_a_window_is_marked_as_being_sent(ledger, tmp_path, monkeypatch, name):
    options, count, seconds, expected = WINDOWS[name]
    if "window" not in options:
        monkeypatch.setattr(sending, "GROUP_COMMIT_S", 1.0)  # groups as large as they get
    run, _ = new_orders(ledger, count)
    marked = []

    def look(_request):
        marked.append(as_others_see(tmp_path, "count(*) from entries where state = 'sending'"))
        time.sleep(seconds)

    report, _ = send_to(accepts_when(look), ledger, run, **options)
    assert max(marked) in expected
    assert report.accepted == count


def test_when_the_token_ends_in_the_middle_what_was_taken_back_is_ready_again_and_recorded_at_once(
    ledger, tmp_path, monkeypatch
):
    monkeypatch.setattr(sending, "GROUP_COMMIT_S", 1.0)
    run, drop = new_orders(ledger, 200)
    over = []

    def script(number, _):
        if over or as_others_see(tmp_path, "count(*) from entries where state <> 'ready'") - number > 12:
            over.append(number)
        return EXPIRED if over else accepts

    # a fixed number: on a fast machine more would be under way, and fewer taken back
    report, server = send_to(script, ledger, run, connections=4, connections_start=4)
    assert report.stopped is StopReason.TOKEN_REFUSED
    entries = ready_entries.entries(ledger, drop)
    left = {"accepted": server.applied.total(), "ready": 200 - report.accepted}
    assert Counter(str(entry.state) for entry in entries) == left
    back = [entry for entry in entries if entry.attempts and str(entry.state) == "ready"]
    changed_at = defaultdict(list)
    for entry in back:
        changed_at[str(ledger.queries.attempts_of(entry.id)[-1].outcome)].append(entry.changed_at)
    assert changed_at.keys() == {"not sent", "not authorised"}
    assert len(changed_at["not sent"]) > 4
    assert len(set(changed_at["not sent"])) <= 2, "those that had not left are recorded together"
    again, rest = send_to(accepts, ledger, run)
    assert again.accepted == 200 - report.accepted
    assert (server.applied + rest.applied).total() == 200


def test_a_call_that_breaks_by_our_own_fault_goes_through_after_the_others_are_settled(ledger, monkeypatch):
    run, drop = new_orders(ledger, 12)

    def begin(connection, operation, body):
        if b"A-00005" in body:
            raise ZeroDivisionError
        begins(connection, operation, body)

    begins = CallConnection.begin
    monkeypatch.setattr(CallConnection, "begin", begin)
    with Scripted(accepts) as server, pytest.raises(ZeroDivisionError):
        send_all(ledger, run, server.url, ready_entries.settings(connections=2))
    found = states(ledger, drop)
    assert found[5] == "sending"
    assert (found.count("accepted"), found.count("sending")) == (server.applied.total(), 1)
    ledger.begin_run()
    assert states(ledger, drop)[5] == "unknown"


@pytest.mark.parametrize(("connections", "unknown"), [(1, range(6, 7)), (2, range(6, 12))])
def test_with_many_unknown_outcomes_nothing_more_is_created_and_the_rest_goes_on(ledger, connections, unknown):
    run, made = new_orders(ledger, 40)
    events = [{"order_id": f"Z-{number}"} for number in range(30)]
    told = ready_entries.plan(ledger, run, "order.status", events, file="events.csv")
    options = ready_entries.settings(outstanding_unknown_max=6, connections=connections)
    lost = scripted_exchange.closes_without_answer
    report, _ = send_to(lambda _, request: lost if request.operation.creates else accepts, ledger, run, options)
    found = Counter(states(ledger, made))
    assert found["unknown"] in unknown, "beyond it only what was under way"
    assert found["unknown"] + found["ready"] == 40
    assert states(ledger, told) == ["accepted"] * 30
    assert report.stopped is StopReason.OUTSTANDING
    again, _ = send_to(accepts, ledger, run, options)
    assert (again.calls, again.stopped) == (0, StopReason.OUTSTANDING)


# a process of its own

PROGRAM = """
import sys
sys.path[:0] = {path!r}
import ready_entries
from loadsheet.ledger import open_ledger
with open_ledger("sqlite:///{ledger}") as ledger:
    options = ready_entries.settings(connections={connections}, connections_start={connections})
    try:
        with ready_entries.client_of("{url}", options) as client:
            ready_entries.send(ledger, client, ledger.begin_run(), options)
    except KeyboardInterrupt:
        raise SystemExit(130)
"""


def start(ledger_file, url, connections=4):
    path = [*sys.path, str(Path(ready_entries.__file__).parent)]
    program = PROGRAM.format(path=path, ledger=ledger_file, url=url, connections=connections)
    return subprocess.Popen([sys.executable, "-c", program])


def planned(tmp_path, count):
    path = tmp_path / "ledger.db"
    with open_ledger(f"sqlite:///{path}") as ledger:
        return path, new_orders(ledger, count)[1]


def test_a_signal_lets_calls_under_way_finish(tmp_path):
    path, drop = planned(tmp_path, 200)
    with Scripted(accepts_after(0.05)) as server:
        process = start(path, server.url)
        until(lambda: server.applied.total() > 10)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM
    with open_ledger(f"sqlite:///{path}") as ledger:
        found = states(ledger, drop)
    assert set(found) == {"accepted", "ready"}
    assert found.count("accepted") == server.applied.total() == len(server.requests)


def test_signals_that_the_process_was_started_to_ignore_end_nothing(tmp_path):
    path, drop = planned(tmp_path, 100)
    ignored = (signal.SIGINT, signal.SIGHUP)  # by a script that starts it with "&", by nohup
    with Scripted(accepts_after(0.02)) as server:
        before = [signal.signal(number, signal.SIG_IGN) for number in ignored]
        try:
            process = start(path, server.url)
        finally:
            for number, handler in zip(ignored, before, strict=True):
                signal.signal(number, handler)
        until(lambda: server.applied.total() > 10)
        for number in ignored:
            process.send_signal(number)
        assert process.wait(20) == 0
    with open_ledger(f"sqlite:///{path}") as ledger:
        assert set(states(ledger, drop)) == {"accepted"}


def test_a_kill_in_the_middle_loses_nothing_and_doubles_nothing(tmp_path):
    connections = 64
    path, drop = planned(tmp_path, 300)
    with Scripted(accepts_after(0.05)) as server:
        process = start(path, server.url, connections)
        until(lambda: server.applied.total() >= 100)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(0.1)
        before = server.keys("order.create")
    with open_ledger(f"sqlite:///{path}") as ledger:
        in_flight = {entry.key for entry in ready_entries.entries(ledger, drop) if str(entry.state) == "sending"}
        assert 0 < len(in_flight) <= connections + connections // 2, "as the guide says"
        run = ledger.begin_run()
        found = {entry.key: str(entry.state) for entry in ready_entries.entries(ledger, drop)}
        assert {key for key, state in found.items() if state == "unknown"} == in_flight
        assert all(before[key] == 1 for key, state in found.items() if state == "accepted")
        assert not any(found[key] == "ready" for key in before)
        _, again = send_to(accepts, ledger, run)
        both = before + again.keys("order.create")
        assert max(both.values()) == 1
        for entry in ready_entries.entries(ledger, drop):
            assert str(entry.state) in ("accepted", "unknown")
            assert both[entry.key] == 1 or str(entry.state) == "unknown"
        with ledger._engine.connect() as connection:
            assert connection.exec_driver_sql("pragma integrity_check").scalar() == "ok"

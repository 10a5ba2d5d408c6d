"""The rolling window on a real ledger and real sockets: what leaves when, in which order, and what is committed before."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import ledgers
import pytest
import ready_entries
import scripted_exchange
from exchange_calls import TOKEN as EXCHANGE_TOKEN
from scripted_exchange import CallsAtOnce, Move, Scripted, accepts, accepts_after, says, until

from loadsheet.contract import UNAUTHORISED, Assumptions
from loadsheet.dispatch import StopReason, sending
from loadsheet.dispatch.transport import CallConnection
from loadsheet.exchange import serve_embedded
from loadsheet.ledger import open_ledger

SUPPORT = Path(scripted_exchange.__file__).parent


def test_everything_ready_is_sent_once_and_settled(ledger):
    run, made = ready_entries.new_orders(ledger, 40)
    told = ready_entries.events(ledger, run, 90, orders=40)
    heard = []
    report, server = ready_entries.send_to(accepts, ledger, run, progress=lambda *numbers: heard.append(numbers))
    assert ready_entries.states(ledger, made, told) == ["accepted"] * 130
    assert (report.accepted, report.refused, report.unknown, report.returned) == (130, 0, 0, 0)
    assert max(server.keys("order.create").values()) == 1
    assert server.applied.total() == 130
    assert heard[-1] == (130, 130)
    assert heard == sorted(heard)
    receipts = {entry.receipt for entry in ledger.queries.entries_of(made.id)}
    assert len(receipts) == 40
    assert all(receipt.startswith("8800") for receipt in receipts)
    assert ready_entries.send_all(ledger, run, "http://127.0.0.1:9").calls == 0


def test_the_real_exchange_takes_orders_updates_events_and_deletes(ledger, tmp_path):
    run = ledger.begin_run()
    keys = [{"order_id": f"A-{number:05}"} for number in range(30)]
    parties = {"sender_id": "ACME", "receiver_id": "CARGO"}
    drops = [
        ready_entries.orders(ledger, run, 30),
        ready_entries.plan(
            ledger, run, "order.update", [{**key, **parties, "currency": "USD"} for key in keys], file="u.csv"
        ),
        ready_entries.events(ledger, run, 250, orders=30),
        ready_entries.plan(ledger, run, "order.delete", keys[:5], file="d.csv"),
        ready_entries.plan(ledger, run, "tender.create", [ledgers.tender(number) for number in range(5)], file="t.csv"),
    ]
    with serve_embedded(f"sqlite:///{tmp_path / 'exchange.db'}", EXCHANGE_TOKEN, Assumptions()) as url:
        report = ready_entries.send_all(ledger, run, url, token=EXCHANGE_TOKEN)
        with ready_entries.client_of(url, ready_entries.settings(), EXCHANGE_TOKEN) as client:
            held = client.whole_listing(ready_entries.BY_NAME["order.list"])
            tenders = client.whole_listing(ready_entries.BY_NAME["tender.list"])
    assert set(ready_entries.states(ledger, *drops)) == {"accepted"}
    assert report.stopped is None
    assert (held.total_count, tenders.total_count) == (25, 5)
    assert {record["currency"] for record in held.results} == {"USD"}


def test_the_intent_is_on_disk_before_the_first_byte_leaves(ledger, tmp_path):
    run, _ = ready_entries.new_orders(ledger, 40)
    seen = []

    def look(connection, request):
        with sqlite3.connect(f"file:{tmp_path / 'ledger.db'}?mode=ro", uri=True) as reader:
            key = request.payloads[0]["order_id"]
            seen.append(reader.execute("select state from entries where key = ?", (key,)).fetchone()[0])
        reader.close()
        return accepts.act(connection, request)

    ready_entries.send_to(Move(look, applies=True), ledger, run)
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
    run, _ = ready_entries.new_orders(ledger, 60)
    script = CallsAtOnce(0.02)
    _, server = ready_entries.send_to(script, ledger, run, connections=6)
    assert script.most == 6
    assert server.connections == 6


def test_a_slow_call_holds_up_nobody_else(ledger):
    run, drop = ready_entries.new_orders(ledger, 60)
    others, waited = threading.Event(), []

    def waits(connection, request):
        waited.append(others.wait(20))
        return accepts.act(connection, request)

    def script(number, _):
        if number == 59:
            others.set()
        return Move(waits, applies=True) if number == 0 else accepts

    ready_entries.send_to(script, ledger, run, connections=4, call_timeout_s=30)
    assert waited == [True], "all others came while the first was under way"
    assert ready_entries.states(ledger, drop) == ["accepted"] * 60


def test_one_lane_is_one_call_at_a_time_and_keeps_its_order(ledger):
    run = ledger.begin_run()
    keys = [f"A-{number:05}" for number in range(4)]
    parties = {"sender_id": "ACME", "receiver_id": "CARGO"}
    ready_entries.orders(ledger, run, 4)
    for turn in range(3):
        changes = [{"order_id": key, **parties, "currency": f"C{turn}"} for key in keys]
        ready_entries.plan(ledger, run, "order.update", changes, file=f"u{turn}.csv")
        events = [{"order_id": key, "status_location": f"{turn}.{step}"} for step in range(5) for key in keys]
        ready_entries.plan(ledger, run, "order.status", events, file=f"s{turn}.csv")
    ready_entries.plan(ledger, run, "order.delete", [{"order_id": key} for key in keys], file="d.csv")
    script = Watching(0.003)
    ready_entries.send_to(script, ledger, run, connections=8)
    expected = ["order.create"]
    for turn in range(3):
        expected += ["order.update", *(f"{turn}.{step}" for step in range(5))]
    assert script.overlaps == 0
    assert dict(script.order) == {key: [*expected, "order.delete"] for key in keys}


def test_nothing_on_a_lane_is_sent_behind_an_unknown_outcome(ledger):
    run, made = ready_entries.new_orders(ledger, 3)
    told = ready_entries.events(ledger, run, 6, orders=3)
    report, _ = ready_entries.send_to(
        lambda number, _: scripted_exchange.applies_and_closes if number == 1 else accepts,
        ledger,
        run,
        connections=1,
    )
    assert ready_entries.states(ledger, made) == ["accepted", "unknown", "accepted"]
    assert ready_entries.states(ledger, told) == ["accepted", "ready", "accepted"] * 2
    assert (report.stopped, report.unknown) == (None, 1)


def counted(tmp_path, condition):
    """How many entries of the ledger are so, as another process sees it."""
    with sqlite3.connect(f"file:{tmp_path / 'ledger.db'}?mode=ro", uri=True) as reader:
        (now,) = reader.execute(f"select count(*) from entries where {condition}").fetchone()
    reader.close()
    return now


def most_marked(ledger, tmp_path, options, *, seconds=0.0):
    """How many entries were `sending` at most while all that is ready was sent, to an exchange that takes so long; and the report."""
    most = [0]

    def look(connection, request):
        most[0] = max(most[0], counted(tmp_path, "state = 'sending'"))
        return accepts_after(seconds).act(connection, request)

    with Scripted(Move(look, applies=True)) as server:
        report = ready_entries.send_all(ledger, ledger.begin_run(), server.url, options)
    return most[0], report


@pytest.mark.parametrize("window", [1, 10])
def test_no_more_than_a_window_is_marked_as_sending(ledger, tmp_path, window):
    run, _ = ready_entries.new_orders(ledger, 30)
    ready_entries.events(ledger, run, 60, orders=30)
    most, report = most_marked(ledger, tmp_path, ready_entries.settings(window=window, connections=4))
    assert 1 <= most <= window
    assert report.accepted == 90


@pytest.mark.parametrize(
    ("connections", "seconds", "ahead"), [(2, 0.25, range(1, 5)), (2, 0.0, range(9, 17)), (48, 0.0, range(13, 25))]
)
def test_half_as_many_calls_as_connections_or_16_are_marked_ahead_and_fewer_where_they_are_slow(
    tmp_path, monkeypatch, connections, seconds, ahead
):
    monkeypatch.setattr(
        sending, "GROUP_COMMIT_S", 1.0
    )  # as if all that wait were over at once: groups as large as they get
    count = 12 if seconds else 200
    options = ready_entries.settings(connections=connections, connections_start=connections)
    with ledgers.ledger_in(tmp_path) as ledger:
        ready_entries.orders(ledger, ledger.begin_run(), count)
        most, report = most_marked(ledger, tmp_path, options, seconds=seconds)
    assert most - connections in ahead
    assert report.accepted == count


def test_calls_that_are_taken_back_are_ready_again_and_recorded_at_once(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "GROUP_COMMIT_S", 1.0)
    run, drop = ready_entries.new_orders(ledger, 200)
    over = []

    def script(number, _):
        if over or counted(tmp_path, "state <> 'ready'") - number > 12:
            over.append(number)
        return says(401, UNAUTHORISED) if over else accepts

    report, server = ready_entries.send_to(script, ledger, run)
    assert report.stopped is StopReason.TOKEN_REFUSED
    entries = list(ledger.queries.entries_of(drop.id))
    assert Counter(str(entry.state) for entry in entries) == {
        "accepted": server.applied.total(),
        "ready": 200 - report.accepted,
    }
    back = [entry for entry in entries if entry.attempts and str(entry.state) == "ready"]
    assert len(back) > 8
    changed_at = {}
    for entry in back:
        changed_at.setdefault(str(ledger.queries.attempts_of(entry.id)[-1].outcome), []).append(entry.changed_at)
    assert changed_at.keys() == {"not sent", "not authorised"}
    assert len(changed_at["not sent"]) > 4
    assert len(set(changed_at["not sent"])) <= 2, "those that had not left are recorded together"
    with Scripted(accepts) as again:
        assert ready_entries.send_all(ledger, run, again.url).accepted == 200 - report.accepted
    assert (server.applied + again.applied).total() == 200


def test_a_rate_is_kept(ledger):
    run, _ = ready_entries.new_orders(ledger, 30)
    options = ready_entries.settings(assumptions={"calls_per_second": 40}, connections=8)
    with Scripted(accepts) as server, ready_entries.client_of(server.url, options) as client:
        began = time.monotonic()
        report = ready_entries.send(ledger, client, run, options)
        took = time.monotonic() - began
    assert report.accepted == 30
    assert 0.65 < took < 6


@pytest.mark.parametrize("at", [0, 7])
def test_a_token_that_ends_in_the_middle_marks_nothing_refused(ledger, at):
    run, drop = ready_entries.new_orders(ledger, 30)
    expired = says(401, UNAUTHORISED)
    report, server = ready_entries.send_to(lambda number, _: expired if number >= at else accepts, ledger, run)
    assert report.stopped is StopReason.TOKEN_REFUSED
    states = Counter(ready_entries.states(ledger, drop))
    assert set(states) <= {"accepted", "ready"}
    assert states["accepted"] == server.applied.total() == at
    _, again = ready_entries.send_to(accepts, ledger, run)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 30
    assert not server.keys("order.create") & again.keys("order.create")


def test_a_call_that_breaks_by_our_own_fault_goes_through_after_the_others_are_settled(ledger, monkeypatch):
    run, drop = ready_entries.new_orders(ledger, 12)

    def begin(connection, operation, body):
        if b"A-00005" in body:
            raise ZeroDivisionError
        begins(connection, operation, body)

    begins = CallConnection.begin
    monkeypatch.setattr(CallConnection, "begin", begin)
    with Scripted(accepts) as server, pytest.raises(ZeroDivisionError):
        ready_entries.send_all(ledger, run, server.url, ready_entries.settings(connections=2))
    states = ready_entries.states(ledger, drop)
    assert states[5] == "sending"
    assert Counter(states)["accepted"] == server.applied.total()
    assert Counter(states)["sending"] == 1
    ledger.begin_run()
    assert ready_entries.states(ledger, drop)[5] == "unknown"


PROGRAM = """
import sys
sys.path[:0] = {path!r}
import ready_entries
from loadsheet.dispatch import Client, send
from loadsheet.ledger import open_ledger
with open_ledger("sqlite:///{ledger}") as ledger:
    run = ledger.begin_run()
    options = ready_entries.settings(connections={connections}, connections_start={connections})
    with Client("{url}", ready_entries.TOKEN, options) as client:
        try:
            report = send(ledger, client, run, options)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise SystemExit(130)
        print("finished", report.stopped, flush=True)
"""


def start(ledger_file, url, connections=4):
    path = [*sys.path[:1], *sys.path, str(SUPPORT)]
    program = PROGRAM.format(path=path, ledger=ledger_file, url=url, connections=connections)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def planned(tmp_path, count):
    path = tmp_path / "ledger.db"
    with open_ledger(f"sqlite:///{path}") as ledger:
        drop = ready_entries.orders(ledger, ledger.begin_run(), count)
    return path, drop


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_a_signal_lets_calls_under_way_finish(tmp_path, number, code):
    path, drop = planned(tmp_path, 200)
    with Scripted(accepts_after(0.05)) as server:
        process = start(path, server.url)
        until(lambda: server.applied.total() > 10)
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == code, out
    with open_ledger(f"sqlite:///{path}") as ledger:
        states = Counter(ready_entries.states(ledger, drop))
    assert set(states) == {"accepted", "ready"}
    assert states["accepted"] == server.applied.total() == len(server.requests)


@pytest.mark.parametrize(("connections", "seconds", "count", "killed_after"), [(4, 0.004, 80, 9), (64, 0.05, 300, 100)])
def test_a_kill_in_the_middle_loses_nothing_and_doubles_nothing(tmp_path, connections, seconds, count, killed_after):
    path, drop = planned(tmp_path, count)
    with Scripted(accepts_after(seconds)) as server:
        process = start(path, server.url, connections)
        until(lambda: server.applied.total() >= killed_after)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        time.sleep(0.1)
        before = server.keys("order.create")
    with open_ledger(f"sqlite:///{path}") as ledger:
        left = {entry.key: str(entry.state) for entry in ledger.queries.entries_of(drop.id)}
        assert 0 < list(left.values()).count("sending") <= connections + max(connections // 2, 16), "as the guide says"
        run = ledger.begin_run()
        found = {entry.key: str(entry.state) for entry in ledger.queries.entries_of(drop.id)}
        assert {key for key, state in found.items() if state == "unknown"} == {
            key for key, state in left.items() if state == "sending"
        }
        assert all(before[key] == 1 for key, state in found.items() if state == "accepted")
        assert {key for key in before if found[key] == "ready"} == set()
        _, again = ready_entries.send_to(accepts, ledger, run)
        both = before + again.keys("order.create")
        assert max(both.values()) == 1
        for entry in ledger.queries.entries_of(drop.id):
            assert str(entry.state) in ("accepted", "unknown")
            assert both[entry.key] == 1 or str(entry.state) == "unknown"
        with ledger._engine.connect() as connection:
            assert connection.exec_driver_sql("pragma integrity_check").scalar() == "ok"


@pytest.mark.parametrize(("connections", "unknown"), [(1, range(6, 7)), (2, range(6, 12))])
def test_with_many_unknown_outcomes_nothing_more_is_created_and_the_rest_goes_on(ledger, connections, unknown):
    run, made = ready_entries.new_orders(ledger, 40)
    told = ready_entries.plan(
        ledger, run, "order.status", [{"order_id": f"Z-{n}"} for n in range(30)], file="events.csv"
    )
    lost = Move(
        lambda c, r: scripted_exchange.closes_without_answer.act(c, r) if r.operation.creates else accepts.act(c, r),
        applies=True,
    )
    options = ready_entries.settings(outstanding_unknown_max=6, connections=connections)
    report, _ = ready_entries.send_to(lost, ledger, run, options)
    states = Counter(ready_entries.states(ledger, made))
    assert states["unknown"] in unknown, "beyond it only what was under way"
    assert states["unknown"] + states["ready"] == 40
    assert ready_entries.states(ledger, told) == ["accepted"] * 30
    assert report.stopped is StopReason.OUTSTANDING
    again, _ = ready_entries.send_to(accepts, ledger, run, options)
    assert (again.calls, again.stopped) == (0, StopReason.OUTSTANDING)


def test_the_report_names_the_limit_it_settled_on(ledger):
    run, _ = ready_entries.new_orders(ledger, 60)
    report, _ = ready_entries.send_to(accepts_after(0.02), ledger, run, connections=6)
    assert report.connections == 6

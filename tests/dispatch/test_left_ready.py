"""What a run leaves ready: what became ready at its end, which it says, and what a limit left out. The next one sends it."""

import pytest
import ready_entries
from exchange_process import TOKEN
from fault_rules import FaultClass
from faulty_exchange import misbehaving
from ledgers import Ticking, ledger_in
from scripted_exchange import Scripted, accepts, says

from loadsheet.dispatch import Client, UnknownTimer, deliver, send
from loadsheet.ingest import IngestResult
from loadsheet.problems import NotAllSent
from loadsheet.stages import Dispatcher, RunContext, deliver_ready, reconcile_and_report, resolve_earlier

UNANSWERED = {"fault": FaultClass("closed_before_effect"), "operation": "order.status", "at": (1,)}


def deliver_and_account(ledger, run, clock, url, settings, *, pause_s=0):
    """Deliver and account as `run` does, with a pause in between."""
    timer = UnknownTimer(ledger.now, lambda: clock().timestamp())
    with ready_entries.client_of(url, settings, TOKEN) as client:
        work = RunContext(settings, ledger, run, Dispatcher(client), timer)
        assert resolve_earlier(work) is None
        sent = deliver_ready(work)
        clock.pass_time(pause_s)
        return reconcile_and_report(work, sent, IngestResult((), None))


def test_a_lost_answer_that_is_judged_too_late_to_be_sent_again_ends_the_run_with_75(tmp_path):
    clock = Ticking()
    settings = ready_entries.settings(parents="send", outbox=tmp_path / "outbox", state=tmp_path)
    with misbehaving(tmp_path, UNANSWERED, status_unknown="accept") as served, ledger_in(tmp_path, clock) as ledger:
        url, run = served.exchange.url, ledger.begin_run()
        drop = ready_entries.events(ledger, run, 2)
        told = deliver_and_account(
            ledger, run, clock, url, settings, pause_s=settings.verification.status_quiesce_s + 1
        )
        assert ready_entries.states(ledger, drop) == ["ready", "ready"]
        assert (told.exit_code, type(told.stopped)) == (75, NotAllSent)
        assert [one.exit_code for one in ledger.queries.runs_named(run.name)] == [75]
        assert deliver_and_account(ledger, ledger.begin_run(), clock, url, settings).exit_code == 0
        assert ready_entries.states(ledger, drop) == ["accepted", "accepted"]


def test_what_a_limit_leaves_ready_is_left_on_purpose(tmp_path):
    settings = ready_entries.settings(run_entries_max=2, outbox=tmp_path / "outbox", state=tmp_path)
    clock = Ticking()
    with misbehaving(tmp_path) as served, ledger_in(tmp_path, clock) as ledger:
        drop = ready_entries.orders(ledger, run := ledger.begin_run(), 3)
        told = deliver_and_account(ledger, run, clock, served.exchange.url, settings)
        assert ready_entries.states(ledger, drop) == ["accepted", "accepted", "ready"]
        assert (told.exit_code, told.stopped) == (0, None)


def sent(ledger, url, most, run, **options):
    settings = ready_entries.settings(**options)
    naps = ready_entries.Naps()
    with Client(url, ready_entries.TOKEN, settings) as client:
        return send(ledger, client, run, settings, most=most, sleep=naps.sleep, clock=naps.clock)


@pytest.mark.parametrize("connections", [1, 4])
def test_so_many_are_sent_and_the_rest_stays_ready(ledger, connections):
    run = ledger.begin_run()
    drop = ready_entries.orders(ledger, run, 12)
    with Scripted(lambda *_: accepts) as server:
        report = sent(ledger, server.url, 5, run, connections=connections)
        assert (len(server.requests), report.calls, report.accepted) == (5, 5, 5)
    assert (report.limited, report.stopped) == (True, None)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 5 + ["ready"] * 7


def test_what_comes_back_unsent_does_not_count(ledger):
    run = ledger.begin_run()
    drop = ready_entries.orders(ledger, run, 6)
    with Scripted(lambda number, _: says(429, b"", "Retry-After: 1\r\n") if number % 2 == 0 else accepts) as server:
        report = sent(ledger, server.url, 3, run, connections=1)
    assert (report.accepted, report.returned > 0, report.limited) == (3, True, True)
    assert sorted(ready_entries.states(ledger, drop)) == ["accepted"] * 3 + ["ready"] * 3


def test_a_limit_counts_the_records_of_a_batch_and_changes_nothing_where_it_is_not_reached(ledger):
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 20)
    with Scripted(lambda *_: accepts) as server:
        assert sent(ledger, server.url, 7, run).limited
        assert sorted(ready_entries.states(ledger, drop)) == ["accepted"] * 7 + ["ready"] * 13
        for most, limited in ((13, False), (0, False), (None, False)):
            assert sent(ledger, server.url, most, run).limited is limited
        assert sum(len(request.payloads) for request in server.requests) == 20


def test_what_waits_for_an_order_that_was_left_out_waits_for_the_next_run_and_is_not_held(ledger):
    run = ledger.begin_run()
    orders = ready_entries.orders(ledger, run, 4)
    events = ready_entries.events(ledger, run, 4)
    for settings in (ready_entries.settings(run_entries_max=2), ready_entries.settings()):
        with Scripted(lambda *_: accepts) as server, Client(server.url, ready_entries.TOKEN, settings) as client:
            done = deliver(ledger, client, run, settings, timer=UnknownTimer(ledger.now))
        assert done.stopped is None
        states = ready_entries.states(ledger, orders, events)
        assert "held" not in states
        if settings.dispatch.run_entries_max:
            assert states.count("accepted") == 2
    assert set(states) == {"accepted"}

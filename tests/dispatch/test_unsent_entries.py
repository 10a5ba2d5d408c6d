"""What a run leaves ready and says about it: what became ready at its end, what a limit left out, and when the rest would be done."""

import signal
from datetime import UTC, datetime, timedelta

import pytest
import ready_entries
from exchange_process import TOKEN
from faulty_exchange import misbehaving
from ledgers import Ticking, ledger_in
from ready_entries import client_of, new_orders, states
from scripted_exchange import Scripted, accepts, in_turn, says

from loadsheet.dispatch import (
    DeliveryResult,
    Dispatcher,
    RunContext,
    SendOptions,
    UnknownTimer,
    deliver,
    next_time_of_day,
    remaining_time,
    send,
)
from loadsheet.dispatch.sending import RECENT_S, Rate
from loadsheet.errors import ExchangeUnreachable, NotAllSent
from loadsheet.ingest import IngestResult
from loadsheet.pipeline import reconcile_and_report, resolve_earlier

UNANSWERED = {"fault": "closed_before_effect", "operation": "order.status", "at": (1,)}


def deliver_and_account(ledger, run, clock, url, settings, *, pause_s=0):
    """Deliver and account as `run` does, with a pause in between."""
    timer = UnknownTimer(ledger.now, lambda: clock().timestamp())
    with client_of(url, settings, TOKEN) as client:
        work = RunContext(settings, ledger, run, Dispatcher(client), timer)
        assert resolve_earlier(work) is None
        sent = deliver(work)
        clock.pass_time(pause_s)
        return reconcile_and_report(work, sent, IngestResult((), None))


def test_a_lost_answer_that_is_judged_too_late_to_be_sent_again_ends_the_run_with_75(tmp_path):
    clock = Ticking()
    settings = ready_entries.settings(parents="send", outbox=tmp_path / "outbox", state=tmp_path)
    late_s = settings.verification.status_quiesce_s + 1
    with misbehaving(tmp_path, UNANSWERED, status_unknown="accept") as served, ledger_in(tmp_path, clock) as ledger:
        url, run = served.url, ledger.begin_run()
        drop = ready_entries.events(ledger, run, 2)
        told = deliver_and_account(ledger, run, clock, url, settings, pause_s=late_s)
        assert states(ledger, drop) == ["ready", "ready"]
        assert (told.exit_code, type(told.stopped)) == (75, NotAllSent)
        assert [one.exit_code for one in ledger.queries.runs_named(run.name)] == [75]
        assert deliver_and_account(ledger, ledger.begin_run(), clock, url, settings).exit_code == 0
        assert states(ledger, drop) == ["accepted", "accepted"]


def test_what_a_limit_leaves_ready_is_left_on_purpose(tmp_path):
    settings, clock = ready_entries.settings(run_entries_max=2, outbox=tmp_path / "outbox", state=tmp_path), Ticking()
    with misbehaving(tmp_path) as served, ledger_in(tmp_path, clock) as ledger:
        run, drop = new_orders(ledger, 3)
        told = deliver_and_account(ledger, run, clock, served.url, settings)
        assert states(ledger, drop) == ["accepted", "accepted", "ready"]
        assert (told.exit_code, told.stopped) == (0, None)


def test_a_signal_while_released_records_are_sent_leaves_the_rest_for_the_next_run(tmp_path):
    settings = ready_entries.settings(connections=1, outbox=tmp_path / "outbox", state=tmp_path)
    (tmp_path / "other").mkdir()
    signals = []
    with misbehaving(tmp_path) as served, ledger_in(tmp_path / "other") as other, ledger_in(tmp_path) as ledger:
        delivered(other, new_orders(other, 4)[0], served.url, TOKEN)
        run = ledger.begin_run()
        payloads = [ready_entries.payload_of("order.update", number) for number in range(1, 5)]
        drop = ready_entries.plan(ledger, run, "order.update", payloads, seen=False)
        with client_of(served.url, settings, TOKEN) as client:
            work = RunContext(settings, ledger, run, Dispatcher(client, stopping=signals), UnknownTimer(ledger.now))
            done = deliver(work, lambda _done, _of: signals.append(signal.SIGTERM))
            told = reconcile_and_report(work, done, IngestResult((), None))
        assert set(states(ledger, drop)) == {"accepted", "ready"}
        assert (done.ended_early, "document" in done.remaining_text, told.stopped) == (True, True, None)


def sent(ledger, server, most, run, **options):
    settings, naps = ready_entries.settings(**options), ready_entries.Naps()
    with client_of(server.url, settings) as client:
        return send(ledger, client, run, settings, SendOptions(most=most, sleep=naps.sleep, clock=naps.clock))


@pytest.mark.parametrize("connections", [1, 4])
def test_a_limit_of_entries_is_kept_and_the_rest_stays_ready(ledger, connections):
    run, drop = new_orders(ledger, 12)
    with Scripted(accepts) as server:
        report = sent(ledger, server, 5, run, connections=connections)
        assert (len(server.requests), report.calls, report.accepted) == (5, 5, 5)
    assert (report.limited, report.stopped) == (True, None)
    assert states(ledger, drop) == ["accepted"] * 5 + ["ready"] * 7


def test_a_limit_counts_what_was_sent_and_the_records_of_a_batch_and_changes_nothing_where_it_is_not_reached(ledger):
    run, orders = new_orders(ledger, 6)
    busy = says(429, b"", "Retry-After: 1\r\n")
    with Scripted(in_turn(busy, accepts, busy, accepts)) as server:
        report = sent(ledger, server, 3, run, connections=1)
        assert (report.accepted, report.returned > 0, report.limited) == (3, True, True)
        assert sorted(states(ledger, orders)) == ["accepted"] * 3 + ["ready"] * 3
        assert sent(ledger, server, None, run).accepted == 3
        already = len(server.requests)
        events = ready_entries.events(ledger, run, 20)
        for most, limited, accepted in ((7, True, 7), (13, False, 20), (0, False, 20), (None, False, 20)):
            assert sent(ledger, server, most, run).limited is limited
            assert states(ledger, events).count("accepted") == accepted
        assert sum(len(request.payloads) for request in server.requests[already:]) == 20


def delivered(ledger, run, url, token=ready_entries.TOKEN, **options):
    settings = ready_entries.settings(**options)
    with client_of(url, settings, token) as client:
        return deliver(RunContext(settings, ledger, run, Dispatcher(client), UnknownTimer(ledger.now)))


def test_what_waits_for_an_order_that_was_left_out_waits_for_the_next_run_and_is_not_held(ledger):
    run, orders = new_orders(ledger, 4)
    drops = orders, ready_entries.events(ledger, run, 4)
    with Scripted(accepts) as server:
        for most, accepted in ((2, 2), (0, 8)):
            assert delivered(ledger, run, server.url, run_entries_max=most).stopped is None
            assert "held" not in states(ledger, *drops)
            assert states(ledger, *drops).count("accepted") == accepted


def test_a_run_that_stops_says_whether_the_rest_is_done_in_time(ledger):
    _, drop = new_orders(ledger, 3)
    for finish_by in ("06:00", ""):
        run = ledger.begin_run()
        done = delivered(ledger, run, "http://127.0.0.1:9", unreachable_max=1, finish_by=finish_by)
        assert type(done.stopped) is ExchangeUnreachable
        assert done.remaining_text.startswith("3 documents left; none was finished recently")
        assert done.late == (done.remaining_text if finish_by else "")
    assert states(ledger, drop) == ["ready"] * 3


# the remaining time

NOW = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)


def test_the_rate_is_that_of_the_last_minute():
    rate = Rate(0.0)
    assert rate.per_second(0.0) == 0
    for second in range(1, 101):
        rate.note(10 * second, second)
    assert rate.per_second(100) == 10
    for second in range(101, 301):
        rate.note(1000 + 2 * (second - 100), second)
    assert abs(rate.per_second(300) - 2) < 0.2
    assert rate.per_second(300 + RECENT_S) < 1.1, "a pause counts"


def test_the_forecast_says_whether_the_rest_is_sent_in_time():
    until = NOW + timedelta(hours=2)
    good, bad, none = (
        remaining_time(3600, 1.0, NOW, until),
        remaining_time(36_000, 0.9, NOW, until),
        remaining_time(1200, 0.0, NOW, None),
    )
    assert (good.fits, bad.fits, remaining_time(1, 0.0, NOW, NOW).fits) == (True, False, False)
    assert (good.ends_at, none.ends_at) == (NOW + timedelta(hours=1), None)
    for told, words in (
        (good, "3,600 documents left at 1 a second"),
        (good, "in time for"),
        (bad, "3,240 an hour"),
        (bad, "too late for"),
        (none, "1,200 documents left"),
    ):
        assert words in str(told)
    assert remaining_time(7200, 1.0, NOW, until).fits
    assert remaining_time(0, 3.0, NOW, NOW - timedelta(hours=1)).fits
    assert remaining_time(10**12, 0.001, NOW, None).ends_at.year < 2040, "no date is out of range"


def test_a_delivery_says_what_is_left_and_whether_it_is_late():
    def told(remaining, per_second, finish_by=NOW + timedelta(hours=1)):
        return DeliveryResult(None, {}, remaining_time(remaining, per_second, NOW, finish_by))

    for nothing in (DeliveryResult(None, {}), told(0, 5.0)):
        assert (nothing.remaining_text, nothing.late) == ("", "")
    assert ("100 documents left" in told(100, 5.0).remaining_text, told(100, 5.0).late) == (True, "")
    assert "too late for" in told(100_000, 5.0).late
    assert told(10, 0.0).late == told(10, 0.0).remaining_text != ""
    assert told(10, 0.0, None).late == "", "nobody set a time"


@pytest.mark.parametrize(("minutes", "hours"), [(5, 0), (1, 0), (0, 24), (-1, 24), (-5, 24)])
def test_a_time_of_day_that_is_over_or_is_now_means_tomorrow(minutes, hours):
    assert next_time_of_day("", NOW) is None
    wanted = (NOW + timedelta(minutes=minutes)).astimezone()
    assert next_time_of_day(f"{wanted:%H:%M}", NOW) == wanted + timedelta(hours=hours)

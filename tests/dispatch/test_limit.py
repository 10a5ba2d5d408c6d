"""A run that may send so many entries sends no more, whatever comes back unsent, and leaves the others ready."""

import pytest
import ready_entries
from scripted_exchange import Scripted, accepts, says

from loadsheet.dispatch import Client, UnknownTimer, deliver, send


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

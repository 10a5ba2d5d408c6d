"""A run that may send so many entries sends no more, whatever comes back unsent, and leaves the others ready."""

import pytest
import sendings
from scripted import Scripted, accepts, says

from loadsheet.dispatch import Client, Patience, deliver, send


def sent(ledger, url, most, run, **options):
    settings = sendings.settings(**options)
    naps = sendings.Naps()
    with Client(url, sendings.TOKEN, settings) as client:
        return send(ledger, client, run, settings, most=most, sleep=naps.sleep, clock=naps.clock)


@pytest.mark.parametrize("connections", [1, 4])
def test_so_many_are_sent_and_the_rest_stays_ready(ledger, connections):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 12)
    with Scripted(lambda *_: accepts) as server:
        report = sent(ledger, server.url, 5, run, connections=connections)
        assert (len(server.requests), report.calls, report.accepted) == (5, 5, 5)
    assert (report.limited, report.stopped) == (True, None)
    assert sendings.states(ledger, drop) == ["accepted"] * 5 + ["ready"] * 7


def test_what_comes_back_unsent_does_not_count(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 6)
    with Scripted(lambda number, _: says(429, b"", "Retry-After: 1\r\n") if number % 2 == 0 else accepts) as server:
        report = sent(ledger, server.url, 3, run, connections=1)
    assert (report.accepted, report.returned > 0, report.limited) == (3, True, True)
    assert sorted(sendings.states(ledger, drop)) == ["accepted"] * 3 + ["ready"] * 3


def test_a_limit_counts_the_records_of_a_batch(ledger):
    run = ledger.begin_run()
    drop = sendings.events(ledger, run, 20)
    with Scripted(lambda *_: accepts) as server:
        sent(ledger, server.url, 7, run)
    assert sorted(sendings.states(ledger, drop)) == ["accepted"] * 7 + ["ready"] * 13


def test_a_limit_that_is_not_reached_changes_nothing(ledger):
    run = ledger.begin_run()
    sendings.orders(ledger, run, 3)
    with Scripted(lambda *_: accepts) as server:
        for most, limited in ((3, False), (0, False), (None, False)):
            assert sent(ledger, server.url, most, run).limited is limited
        assert len(server.requests) == 3


def test_what_waits_for_an_order_that_was_left_out_waits_for_the_next_run_and_is_not_held(ledger):
    run = ledger.begin_run()
    orders = sendings.orders(ledger, run, 4)
    events = sendings.events(ledger, run, 4)
    for settings in (sendings.settings(run_entries_max=2), sendings.settings()):
        with Scripted(lambda *_: accepts) as server, Client(server.url, sendings.TOKEN, settings) as client:
            done = deliver(ledger, client, run, settings, patience=Patience(ledger.now))
        assert done.stopped is None
        states = sendings.states(ledger, orders, events)
        assert "held" not in states
        if settings.run_entries_max:
            assert states.count("accepted") == 2
    assert set(states) == {"accepted"}

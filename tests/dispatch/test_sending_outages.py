"""A ledger on a server that goes away while calls are under way: each outcome counts once, and no call is made a second time."""

import time
from contextlib import contextmanager

import ledgers
import pytest
from ready_entries import TOKEN, orders, settings, states
from scripted_exchange import Scripted, accepts_after, closes_without_answer, says

from loadsheet.dispatch import Client, send
from loadsheet.ledger import Ledger
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.problems import LedgerGone, Superseded

REFUSED = b'{"status": false, "message": "Validation failed", "errors": {"pickup_city": ["unknown"]}}'


@pytest.fixture
def shared(tmp_path):
    """A ledger as one process has it on a server."""
    with ledgers.ledger_in(tmp_path) as ledger:
        yield ledgers.taken_over(ledger)


def planned(ledger, count):
    """A run with so many orders, and their drop."""
    run = ledger.begin_run()
    return run, orders(ledger, run, count)


def gone(times, real):
    """What raises LedgerGone so many times before it does what it is for."""
    left = [times]

    def act(*given, **more):
        if left[0]:
            left[0] -= 1
            raise LedgerGone("the server went away")
        return real(*given, **more)

    return act


@pytest.mark.parametrize("times", [1, 3])
def test_an_answer_that_cannot_be_judged_while_the_ledger_is_gone_is_not_asked_for_again(shared, monkeypatch, times):
    run, drop = planned(shared, 1)
    options = settings(takeover_s=20)
    with Scripted(says(400, REFUSED)) as server, Client(server.url, TOKEN, options) as client:
        monkeypatch.setattr(LedgerQueries, "entry", gone(times, LedgerQueries.entry))
        report = send(shared, client, run, options, stopping=[])
        assert len(server.requests) == 1
    assert report.refused == 1
    assert states(shared, drop) == ["refused"]
    assert len(shared.queries.attempts_of(1)) == 1


@pytest.mark.parametrize("verb", ["settle", "mark_sending"])
def test_what_was_being_recorded_when_the_ledger_went_counts_once(shared, monkeypatch, verb):
    run, drop = planned(shared, 6)
    options = settings(takeover_s=20, connections=2)
    with Scripted(accepts_after(0.0)) as server:
        monkeypatch.setattr(Ledger, verb, gone(1, getattr(Ledger, verb)))
        with Client(server.url, TOKEN, options) as client:
            report = send(shared, client, run, options, stopping=[])
        assert len(server.requests) == 6
    assert report.accepted == 6
    assert states(shared, drop) == ["accepted"] * 6
    assert shared.check() == []


def test_a_ledger_that_stays_away_ends_the_sending_and_nothing_leaves_any_more(shared, monkeypatch):
    run, _ = planned(shared, 6)
    options = settings(takeover_s=0.3, connections=1, connections_start=1)
    with Scripted(accepts_after(0.0)) as server:
        monkeypatch.setattr(Ledger, "settle", gone(10**6, None))
        monkeypatch.setattr(Ledger, "settle_after_outage", gone(10**6, None))
        with Client(server.url, TOKEN, options) as client, pytest.raises(LedgerGone):
            send(shared, client, run, options, stopping=[])
        assert len(server.requests) <= 2


def test_a_lost_call_is_unknown_although_the_ledger_went_and_is_not_made_anew_when_it_goes_again(shared, monkeypatch):
    run, drop = planned(shared, 4)
    options = settings(takeover_s=20, connections=1, connections_start=1, unknown_max=100)
    writing, outages = Ledger._unfenced, []

    @contextmanager
    def goes_now_and_then(ledger):
        with writing(ledger) as connection:
            yield connection
            if server.requests and len(outages) < len(server.requests):
                outages.append(len(server.requests))
                raise LedgerGone("the server went before the commit")

    monkeypatch.setattr(Ledger, "_unfenced", goes_now_and_then)
    with Scripted(lambda number, *_: closes_without_answer if number == 0 else accepts_after(0.0)) as server:
        with Client(server.url, TOKEN, options) as client:
            report = send(shared, client, run, options, stopping=[])
        assert len(server.requests) == 4
    assert len(outages) == 4
    assert (report.accepted, report.unknown) == (3, 1)
    assert states(shared, drop) == ["unknown", *["accepted"] * 3]
    assert shared.check() == []


def test_what_was_recorded_when_the_ledger_went_for_too_long_is_not_recorded_once_more(shared, monkeypatch):
    run, drop = planned(shared, 3)
    options = settings(connections=1, connections_start=1)
    writing, said = Ledger._unfenced, []

    @contextmanager
    def goes_after_a_commit(ledger):
        if len(said) == 1:
            said.append("away")
            raise LedgerGone("the server is away")
        with writing(ledger) as connection:
            yield connection
        if server.requests and not said:
            said.append("gone")
            raise LedgerGone("the server went after the commit")

    def hurried():
        return time.monotonic() + 1000 * len(said)

    monkeypatch.setattr(Ledger, "_unfenced", goes_after_a_commit)
    with Scripted(accepts_after(0.0)) as server, Client(server.url, TOKEN, options) as client:
        with pytest.raises(LedgerGone, match="after the commit"):
            send(shared, client, run, options, stopping=[], clock=hurried)
        later = ledgers.taken_over(shared)
        report = send(later, client, later.begin_run(), options, stopping=[])
        assert len(server.requests) == 3
    assert report.accepted == 2
    assert states(shared, drop) == ["accepted"] * 3
    assert shared.check() == []


def test_what_another_has_taken_over_is_recorded_late_and_sent_no_more(shared):
    run, drop = planned(shared, 4)
    options = settings(connections=1, connections_start=1)

    def answer(number, *_):
        if number == 1:
            ledgers.taken_over(shared).begin_run()
        return accepts_after(0.0)

    with Scripted(answer) as server, Client(server.url, TOKEN, options) as client:
        with pytest.raises(Superseded, match="another process has taken over this ledger"):
            send(shared, client, run, options, stopping=[])
        sent = len(server.requests)
    assert sent < 4
    assert states(shared, drop).count("accepted") == sent
    with pytest.raises(Superseded):
        shared.end_run(run, exit_code=0, summary={})

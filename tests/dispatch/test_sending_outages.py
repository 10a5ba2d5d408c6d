"""A ledger that goes away while calls are in flight: each outcome counts once, no order is sent twice, and none is lost."""

import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import ledgers
import pytest
from ready_entries import client_of, entries, new_orders, orders, settings, states
from scripted_exchange import Move, Scripted, accepts, answer, closes_without_answer, good_body, in_turn, says

from loadsheet.dispatch import SendOptions, send
from loadsheet.dispatch.shared_rate import SharedRate
from loadsheet.errors import LedgerGone, Superseded
from loadsheet.ledger import Ledger
from loadsheet.ledger.queries import LedgerQueries
from loadsheet.ledger.shared.leases import Lease

REFUSED = b'{"status": false, "message": "Validation failed", "errors": {"pickup_city": ["unknown"]}}'
ONE_BY_ONE = {"connections": 1, "connections_start": 1}


@pytest.fixture
def shared(tmp_path):
    """A ledger as one process has it on a server."""
    with ledgers.ledger_in(tmp_path) as ledger:
        yield ledgers.taken_over(ledger)


@contextmanager
def sending_to(script, **changes):
    """A scripted exchange, and what sends the ready entries of a ledger there and returns the report."""
    options = settings(**{"takeover_s": 20, **changes})
    with Scripted(script) as server, client_of(server.url, options) as client:

        def sends(ledger, run, **more):
            return send(ledger, client, run, options, SendOptions(stopping=[], **more))

        yield server, sends


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
def test_an_answer_that_cannot_be_judged_while_the_ledger_is_away_is_not_asked_for_again(shared, monkeypatch, times):
    run, drop = new_orders(shared, 1)
    with sending_to(says(400, REFUSED)) as (server, sends):
        monkeypatch.setattr(LedgerQueries, "entry", gone(times, LedgerQueries.entry))
        assert sends(shared, run).refused == 1
        assert len(server.requests) == 1
    assert states(shared, drop) == ["refused"]
    assert len(shared.queries.attempts_of(1)) == 1


@pytest.mark.parametrize("verb", ["settle", "mark_sending"])
def test_what_was_being_recorded_when_the_ledger_went_away_counts_once(shared, monkeypatch, verb):
    run, drop = new_orders(shared, 6)
    with sending_to(accepts, connections=2) as (server, sends):
        monkeypatch.setattr(Ledger, verb, gone(1, getattr(Ledger, verb)))
        assert sends(shared, run).accepted == 6
        assert len(server.requests) == 6
    assert states(shared, drop) == ["accepted"] * 6
    assert shared.check() == []


def test_a_ledger_that_stays_away_ends_the_sending_and_nothing_more_is_sent(shared, monkeypatch):
    run, _ = new_orders(shared, 6)
    with sending_to(accepts, takeover_s=0.3, **ONE_BY_ONE) as (server, sends):
        for verb in ("settle", "settle_after_outage"):
            monkeypatch.setattr(Ledger, verb, gone(10**6, None))
        with pytest.raises(LedgerGone):
            sends(shared, run)
        assert len(server.requests) <= 2


def test_a_ledger_that_stays_away_while_the_shared_rate_allows_no_call_ends_the_sending(shared, monkeypatch):
    run, drop = new_orders(shared, 2)

    def away(*_given, **_more):
        raise LedgerGone("the server went away")

    with sending_to(accepts, takeover_s=0.3) as (server, sends), SharedRate(away, away) as rate:
        for verb in ("ready", "settle_after_outage"):
            monkeypatch.setattr(Ledger, verb, away)
        with pytest.raises(LedgerGone):
            sends(shared, run, shared_rate=rate)
        assert not server.requests
    assert states(shared, drop) == ["ready"] * 2


def test_a_lost_call_is_unknown_although_the_ledger_went_away_and_is_never_made_anew(shared, monkeypatch):
    run, drop = new_orders(shared, 4)
    writing, outages = Ledger._unfenced, []

    @contextmanager
    def goes_now_and_then(ledger):
        with writing(ledger) as connection:
            yield connection
            if server.requests and len(outages) < len(server.requests):
                outages.append(len(server.requests))
                raise LedgerGone("the server went before the commit")

    monkeypatch.setattr(Ledger, "_unfenced", goes_now_and_then)
    with sending_to(in_turn(closes_without_answer, accepts), unknown_max=100, **ONE_BY_ONE) as (server, sends):
        report = sends(shared, run)
        assert len(server.requests) == len(outages) == 4
    assert (report.accepted, report.unknown) == (3, 1)
    assert states(shared, drop) == ["unknown", *["accepted"] * 3]
    assert shared.check() == []


def test_what_was_recorded_before_the_ledger_was_away_for_too_long_is_not_recorded_once_more(shared, monkeypatch):
    run, drop = new_orders(shared, 3)
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

    monkeypatch.setattr(Ledger, "_unfenced", goes_after_a_commit)
    with sending_to(accepts, **ONE_BY_ONE) as (server, sends):
        with pytest.raises(LedgerGone, match="after the commit"):
            sends(shared, run, clock=lambda: time.monotonic() + 1000 * len(said))
        later = ledgers.taken_over(shared)
        assert sends(later, later.begin_run()).accepted == 2
        assert len(server.requests) == 3
    assert states(shared, drop) == ["accepted"] * 3
    assert shared.check() == []


def test_what_another_has_taken_over_is_recorded_late_and_sent_no_more(shared):
    run, drop = new_orders(shared, 4)

    def script(number, _request):
        if number == 1:
            ledgers.taken_over(shared).begin_run()
        return accepts

    with sending_to(script, **ONE_BY_ONE) as (server, sends):
        with pytest.raises(Superseded, match="another process has taken over this ledger"):
            sends(shared, run)
        sent = len(server.requests)
    assert sent < 4
    assert states(shared, drop).count("accepted") == sent
    with pytest.raises(Superseded):
        shared.end_run(run, exit_code=0, summary={})


# Senders whose ledger comes and goes at every turn and is taken over, and an exchange that loses answers. Everything but the outages is
# real: threads, sockets, a ledger in a file.

_READS = ("entry", "attempts_of", "count_in", "count_unanswered", "origin")
_EXISTS = {"status": False, "message": "Validation failed", "errors": {"order_id": ["exists already"]}}
_BUSY = {"status": False, "message": "busy", "errors": {}}
_SENDERS_S = 60.0
_PLENTY = dict.fromkeys(("unreachable_max", "unknown_max", "outstanding_unknown_max"), 10**6)


class Outages:
    """When the ledger is away. `share` of its transactions meet an outage of up to `longest_s`: before they begin, or before or after they commit."""

    def __init__(self, dice):
        self._dice, self._back_at = dice, 0.0
        self.share, self._longest_s = 0.0, dice.choice([0.03, 0.1, 0.3])

    def look(self):
        """Raise LedgerGone while it is away."""
        if time.monotonic() < self._back_at:
            time.sleep(0.005)
            raise LedgerGone("away")

    def change(self):
        """Raise LedgerGone now and then; an outage begins."""
        if self._dice.random() < self.share:
            self._back_at = time.monotonic() + self._dice.random() * self._longest_s
            raise LedgerGone("it went")
        if self._dice.random() < self.share / 4:
            time.sleep(self._dice.random() * 0.3)  # longer than an intent may wait

    def apply(self, patch):
        """Apply to all ledgers from now on."""
        writing = Ledger._unfenced

        @contextmanager
        def unfenced(ledger):
            self.look()
            self.change()
            with writing(ledger) as connection:
                yield connection
                self.change()
            self.change()

        def looked_at(read):
            return lambda *given, **more: self.look() or read(*given, **more)

        patch.setattr(Ledger, "_unfenced", unfenced)
        for name in _READS:
            patch.setattr(LedgerQueries, name, looked_at(getattr(LedgerQueries, name)))


class Exchange:
    """Takes each order once, and says so to whoever sends it again. Now and then it is busy, gives no answer, or closes behind it."""

    def __init__(self, dice):
        self._dice, self._lock, self.arrived = dice, threading.Lock(), Counter()
        self._slow_s, self._lost = dice.choice([0, 0.01, 0.05]), dice.choice([0, 0.1, 0.3])
        self._closes, self._busy = dice.choice([0, 0.1]), dice.choice([0, 0.03])

    def script(self, _number, _request):
        """What it does with a request."""
        return Move(self._take)

    def _take(self, connection, request):
        dice, key = self._dice, request.payloads[0]["order_id"]
        if dice.random() < self._busy:
            connection.sendall(answer(429, _BUSY, "Retry-After: 0\r\n"))
            return True
        with self._lock:
            self.arrived[key] += 1
            is_first = self.arrived[key] == 1
        time.sleep(dice.random() * self._slow_s)
        if dice.random() < self._lost:
            return False
        closes = dice.random() < self._closes
        status, body = (200, good_body(request)) if is_first else (400, _EXISTS)
        connection.sendall(answer(status, body, "Connection: close\r\n" if closes else ""))
        return not closes


class Sender(threading.Thread):
    """Takes the ledger from whoever has it and sends what is ready, as a run does; tries again when the ledger went."""

    def __init__(self, ledger, url, dice, after_s):
        super().__init__()
        self._ledger, self._url, self._dice, self._after_s = ledger, url, dice, after_s
        rate, connections = dice.choice([0, 0, 50]), dice.choice([1, 4, 16])
        timing = {"takeover_s": dice.choice([0.2, 0.5]), "call_timeout_s": 1.0, "window": dice.choice([4, 64])}
        rates = {"connections": connections, "connections_start": 1, "assumptions": {"calls_per_second": rate}}
        self._settings = settings(**timing, **rates, **_PLENTY)
        self._lease = Lease(1, rate or 1000, 16, 0.0, 0.7, 0.0, 1.0)

    def run(self):
        """Until all is sent, or somebody else sends it."""
        time.sleep(self._after_s)
        while True:
            try:
                return self._sent()
            except LedgerGone:
                time.sleep(0.02)
            except Superseded:
                if self._dice.random() < 0.7:
                    return None

    def _sent(self):
        mine, shared_rate = ledgers.taken_over(self._ledger), SharedRate(lambda _ask: self._lease, lambda *_: None)
        with client_of(self._url, self._settings) as client, shared_rate:
            send(mine, client, mine.begin_run(), self._settings, SendOptions(stopping=[], shared_rate=shared_rate))


def send_through_outages(seed, patch):
    """Up to three send a drop of orders one after the other, or at once; and what must hold in the end."""
    dice = random.Random(seed)
    outages, exchange = Outages(dice), Exchange(dice)
    with (
        tempfile.TemporaryDirectory() as folder,
        ledgers.ledger_in(Path(folder)) as file,
        Scripted(exchange.script) as server,
    ):
        ledger = ledgers.taken_over(file)
        drop = orders(ledger, ledger.begin_run(), dice.choice([5, 10, 20]))
        outages.share = dice.choice([0.02, 0.1, 0.25])
        outages.apply(patch)
        number = dice.choice([1, 2, 3])
        senders = [Sender(ledger, server.url, dice, place * dice.random() * 0.6) for place in range(number)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(_SENDERS_S)
            assert not sender.is_alive(), "it goes on and on"
        outages.share = 0.0
        time.sleep(0.02)
        Sender(ledger, server.url, dice, 0.0).run()
        assert ledger.check() == []
        for entry in entries(ledger, drop):
            outcomes = [one.outcome for one in ledger.queries.attempts_of(entry.id)]
            state, arrived, may_be_there = str(entry.state), exchange.arrived[entry.key], "unknown" in outcomes
            told = (entry.key, state, outcomes, arrived)
            assert state in ("accepted", "unknown", "ready"), told  # neither refused for being there nor being sent
            assert arrived <= 1, told
            assert arrived == 1 or state != "accepted", told
            assert state != "ready" or not arrived or may_be_there, told
            assert state != "unknown" or may_be_there, told


SEEDS, SWEPT = (1, 3), 29


@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_is_sent_twice_and_none_is_lost(seed, monkeypatch):
    send_through_outages(seed, monkeypatch)


@pytest.mark.sweep
@pytest.mark.timeout(1500)
def test_no_order_is_sent_twice_with_many_seeds(record_property):
    seeds = sorted(set(range(SWEPT)) - set(SEEDS))
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            send_through_outages(seed, patch)
    record_property("outages", len(seeds))

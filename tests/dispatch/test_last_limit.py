"""What one run's concurrency limit settled on is what the next one starts with."""

import threading
import time

import pytest
import ready_entries
from scripted_exchange import Move, Scripted, accepts

from loadsheet.dispatch import Client, send
from loadsheet.dispatch.concurrency import Settled
from loadsheet.dispatch.last_limit import LastLimit

EXCHANGE = "https://exchange.example"


class UnderWay:
    """Accepts everything after 50 ms; `at_first` is how many calls there were before the first was answered, `most` at any time."""

    def __init__(self):
        self.at_first = self.most = self._now = 0
        self._answered = False
        self._lock = threading.Lock()

    def __call__(self, _number, _request):
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.at_first += not self._answered
        return Move(self._answer, applies=True)

    def _answer(self, connection, request):
        time.sleep(0.05)
        with self._lock:
            self._answered = True
            self._now -= 1
        return accepts.act(connection, request)


def one_run(ledger, count, port=0, **changes):
    """A run with so many new orders; returns what the exchange saw, and its port."""
    run, seen = ledger.begin_run(), UnderWay()
    payloads = [ready_entries.ledgers.order(run.id * 1000 + number) for number in range(count)]
    ready_entries.plan(ledger, run, "order.create", payloads, file=f"{run.name}.csv")
    options = ready_entries.settings(**{"connections": 16, **changes})
    with Scripted(seen, port=port) as server, Client(server.url, ready_entries.TOKEN, options) as client:
        report = send(ledger, client, run, options)
        assert report.accepted == count
        return seen, int(server.url.rpartition(":")[2])


def test_the_second_run_starts_with_what_the_first_settled_on(ledger):
    first, port = one_run(ledger, 200)
    assert (first.at_first, first.most) == (2, 16)
    second, _ = one_run(ledger, 40, port)
    assert second.at_first == 16


def test_what_is_kept_of_one_exchange_is_not_used_for_another(ledger):
    one_run(ledger, 200)
    other, _ = one_run(ledger, 40)
    assert other.at_first == 2


def test_it_is_no_bound_and_the_settings_are(ledger):
    _, port = one_run(ledger, 40, connections=3)
    more, _ = one_run(ledger, 200, port)
    assert more.at_first == 3
    assert more.most == 16
    less, _ = one_run(ledger, 20, port, connections=4)
    assert (less.at_first, less.most) == (4, 4)


@pytest.mark.parametrize(
    "broken",
    ["", "x", "[]", "{}", '{"limit":0,"wire_s":0.1,"shrank":false}', '{"limit":8,"wire_s":-1,"shrank":false}'],
)
def test_a_broken_value_is_as_good_as_none(ledger, broken):
    last = LastLimit(ledger, EXCHANGE)
    last.keep(Settled(8, 0.05, shrank=True))
    ledger.remembered.keep(f"concurrency limit of {EXCHANGE}", broken)
    assert last.read() is None
    last.keep(Settled(9, None, shrank=False))
    assert last.read() == Settled(9, None, shrank=False)


def test_a_run_without_enough_calls_changes_nothing(ledger):
    last = LastLimit(ledger, EXCHANGE)
    last.keep(Settled(8, 0.05, shrank=True))
    last.keep(None)
    assert last.read() == Settled(8, 0.05, shrank=True)
    assert LastLimit(ledger, "https://another.example").read() is None

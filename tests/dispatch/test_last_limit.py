"""What one run's concurrency limit settled on is what the next one starts with."""

import threading
import time

import pytest
import ready_entries
from scripted_exchange import Move, Scripted, accepts

from loadsheet.dispatch import Client, send
from loadsheet.dispatch.concurrency import LastLimit, SettledLimit

EXCHANGE = "https://exchange.example"


class UnderWay:
    """Accepts everything after 100 ms, but answers nothing before `awaited` calls are under way, or 5 s have passed. `at_first` is how many
    that were when it answered first, `most` how many at any time.
    """

    def __init__(self, awaited):
        self.at_first = self.most = self._now = 0
        self._awaited, self._changed = awaited, threading.Condition()

    def __call__(self, _number, _request):
        with self._changed:
            self._now += 1
            self.most = max(self.most, self._now)
            self._changed.notify_all()
        return Move(self._answer, applies=True)

    def _answer(self, connection, request):
        time.sleep(0.1)
        with self._changed:
            if not self.at_first:
                self._changed.wait_for(lambda: self._now >= self._awaited or self.at_first, 5)
                self.at_first = self.at_first or self._now
            self._now -= 1
            self._changed.notify_all()
        return accepts.act(connection, request)


def one_run(ledger, count, awaited, port=0, **changes):
    """A run with so many new orders; returns what the exchange saw, and its port."""
    run, seen = ledger.begin_run(), UnderWay(awaited)
    payloads = [ready_entries.ledgers.order(run.id * 1000 + number) for number in range(count)]
    ready_entries.plan(ledger, run, "order.create", payloads, file=f"{run.name}.csv")
    options = ready_entries.settings(**{"connections": 16, **changes})
    with Scripted(seen, port=port) as server, Client(server.url, ready_entries.TOKEN, options) as client:
        report = send(ledger, client, run, options)
        assert report.accepted == count
        return seen, int(server.url.rpartition(":")[2])


def test_the_second_run_starts_with_what_the_first_settled_on(ledger):
    first, port = one_run(ledger, 120, 2)
    assert first.at_first == 2
    settled = LastLimit(ledger, f"http://127.0.0.1:{port}").read().limit
    assert settled > 4
    second, _ = one_run(ledger, 40, settled, port)
    assert second.at_first == settled


def test_what_is_kept_of_one_exchange_is_not_used_for_another(ledger):
    one_run(ledger, 120, 2)
    other, _ = one_run(ledger, 40, 2)
    assert other.at_first == 2


def test_it_is_no_bound_and_the_settings_are(ledger):
    _, port = one_run(ledger, 40, 2, connections=3)
    more, _ = one_run(ledger, 120, 3, port)
    assert more.at_first == 3
    assert more.most > 4
    less, _ = one_run(ledger, 20, 4, port, connections=4)
    assert (less.at_first, less.most) == (4, 4)


@pytest.mark.parametrize(
    "broken",
    ["", "x", "[]", "{}", '{"limit":0,"wire_s":0.1,"shrank":false}', '{"limit":8,"wire_s":-1,"shrank":false}'],
)
def test_a_broken_value_is_as_good_as_none(ledger, broken):
    last = LastLimit(ledger, EXCHANGE)
    last.keep(SettledLimit(8, 0.05, shrank=True))
    ledger.stored_values.keep(f"concurrency limit of {EXCHANGE}", broken)
    assert last.read() is None
    last.keep(SettledLimit(9, None, shrank=False))
    assert last.read() == SettledLimit(9, None, shrank=False)


def test_a_run_without_enough_calls_changes_nothing(ledger):
    last = LastLimit(ledger, EXCHANGE)
    last.keep(SettledLimit(8, 0.05, shrank=True))
    last.keep(None)
    assert last.read() == SettledLimit(8, 0.05, shrank=True)
    assert LastLimit(ledger, "https://another.example").read() is None

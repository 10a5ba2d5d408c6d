"""A run that waits for others: it can be asked to stop, hears when nobody can do its work, and works by itself no longer than it has to."""

import re
import signal
import time
from contextlib import contextmanager

import databases
import pytest
from command_processes import shared_nursery
from fleet_processes import Camp, exchange, resends
from fleet_processes import until as until_in
from killed_runs import MAPPINGS, orders
from worker_processes import answer, house, labor, took, until, working

from loadsheet.dispatch import Patience
from loadsheet.fleet.clients import Clients
from loadsheet.fleet.hands import FleetHands, fleet_hands
from loadsheet.fleet.pacing import Paces
from loadsheet.fleet.parting import Parted
from loadsheet.fleet.work import Bench
from loadsheet.fleet.work import work as do
from loadsheet.fleet.worker import inside
from loadsheet.ledger import open_ledger
from loadsheet.ledger.batches import Kind
from loadsheet.stages import Work

PATIENCE_S = 240.0


@contextmanager
def waiting(settings):
    """What the stages of a new run share."""
    with open_ledger(settings.database_url) as ledger:
        yield Work(settings, ledger, ledger.begin_run(), Patience(ledger.now))


@pytest.mark.journey
def test_a_watch_is_a_worker_no_longer_than_its_run_and_stops_after_its_calls(tmp_path):
    born = shared_nursery()
    with exchange(born, tmp_path / "exchange", delay_s=0.5, create_existing="reject") as (url, truth):
        given = {"mappings": str(MAPPINGS), "batch_entries": 10, "canary": 0, **resends(3), "connections": 2}
        camp = Camp(tmp_path / "acme", born, databases.server().new_database(), url, **given)
        inbox = camp.folder / "inbox"
        inbox.mkdir()
        (inbox / "orders.csv").write_text(orders(range(3)), encoding="utf-8")
        watch = camp.start("watch")
        until_in(lambda: camp.states() == {"accepted": 3}, PATIENCE_S)
        until_in(lambda: camp.ask("select count(*) from fleet.procrastinate_workers") == [(0,)], PATIENCE_S)
        (inbox / "more.csv.part").write_text(orders(range(100, 300)), encoding="utf-8")
        (inbox / "more.csv.part").rename(inbox / "orders_more.csv")
        until_in(lambda: camp.states().get("accepted", 0) > 3, PATIENCE_S)
        watch.send(signal.SIGTERM)
        assert watch.wait(PATIENCE_S) == 0
        states = camp.states()
        assert states.keys() == {"accepted", "ready"}, "what is under way is settled, and nothing else is sent"
        assert camp.summary()["entries"] == {"accepted": states["accepted"] - 3, "ready": states["ready"]}
        assert len(truth.lines()) == states["accepted"]
        assert camp.ask("select count(*) from batches where state = 'open'") == [(0,)]


def test_a_run_that_is_asked_to_stop_leaves_its_batches_to_the_workers(tmp_path, acme):
    (tmp_path / "hold").touch()
    stopping = []
    with waiting(acme) as work, working(tmp_path) as worker:

        def asked(_seconds):
            until(lambda: took(tmp_path), worker=worker)
            stopping.append(signal.SIGTERM)

        hands = FleetHands(acme, lambda: 1, None, asked, stopping=stopping)
        with pytest.raises(Parted):
            hands._have(work, Kind.LOOKUP, {})
        (tmp_path / "hold").unlink()
        ((batch, _),) = took(tmp_path)
        until(lambda: answer(acme, batch), worker=worker)


def test_what_breaks_the_worker_inside_ends_the_run(tmp_path, acme, monkeypatch):
    def broken(_queue):
        raise ZeroDivisionError("the thread of the queue")

    monkeypatch.setattr("loadsheet.fleet.queue.Queue.run", broken)
    hands = FleetHands(acme, lambda: 0, lambda: inside(acme, print, work=labor(tmp_path)), time.sleep)
    with waiting(acme) as work, pytest.raises(ZeroDivisionError):
        hands._have(work, Kind.LOOKUP, {})


def test_what_no_worker_can_do_is_said_by_the_run_and_is_no_takeover(tmp_path, database_url, ask):
    acme = house(tmp_path, database_url, "acme", exchange="http://127.0.0.1:9", worker_wait_s=0.5)["acme"]
    said, stopping = [], []

    def say(text):
        said.append(text)
        stopping.append(signal.SIGTERM)

    with waiting(acme) as work, working(tmp_path, work=_real) as worker, fleet_hands(acme, say, stopping) as hands:
        until(lambda: ask("select count(*) from workers") == [(1,)], worker=worker)
        with pytest.raises(Parted):
            hands._have(work, Kind.LOOKUP, {})
        (error,) = [text for text in worker.said if "token" in text]
    assert error.startswith("batch 1 of acme: ")
    assert error.endswith("it is tried again in 1 s")
    (told,) = said
    assert re.fullmatch(r"nobody could do batch 1 \(lookup\) in \d tries; the messages of the workers say why", told)
    assert ask("select count(*) from takeovers") == [(0,)]


def _real(settings, batch, hand):
    """What a worker does with a batch; there is no token here."""
    do(settings, batch, Bench(hand.name, hand.shared, hand.stopping, Clients(), Paces(hand.shared, hand.name)))

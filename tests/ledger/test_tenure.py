"""One process at a time runs on a shared ledger: who holds it is named, who is silent is taken for dead, and he can record nothing more."""

import threading
from contextlib import ExitStack

import databases
import ledgers
import pytest
import ready_entries
from ledgers import refusal

from loadsheet.ledger import Opening, open_ledger, read_ledger
from loadsheet.ledger.ledger_opening import who
from loadsheet.ledger.postgres import address_of, ledger_engine
from loadsheet.problems import LedgerBusy, LedgerGone, Superseded


@pytest.fixture
def kind():
    return "postgresql"


def held(url, takeover_s=30.0):
    return open_ledger(url, Opening(takeover_s=takeover_s), clock=ledgers.Ticking())


def silence(url):
    """Let the holder have been heard of last an hour ago."""
    databases.ask(f"update {address_of(url).schema}.tenures set seen_at = (seen_at::float8 - 3600)::text")


def test_a_second_one_is_told_who_holds_it(ledger, ledger_url):
    caught = refusal(held(ledger_url), LedgerBusy, rf"is held by {who()} \(last heartbeat \d s ago\)")
    assert "30 s after it died (cluster.takeover_s)" in str(caught)
    with read_ledger(ledger_url) as reader:
        assert reader.queries.runs() == []


def test_who_is_silent_is_taken_over_and_records_nothing_more(ledger, ledger_url):
    run = ledger.begin_run()
    drop = ready_entries.orders(ledger, run, 2)
    (one, two) = ledger.ready(2)
    ledger.mark_sending(run, [([one], one.payload)])
    silence(ledger_url)
    with held(ledger_url) as other:
        other.begin_run()
        verbs = [
            ledger.begin_run,
            lambda: ready_entries.orders(ledger, run, 1, file="more.csv"),
            lambda: ledger.mark_sending(run, [([two], two.payload)]),
            lambda: ledger.settle(run, [ledgers.accepted(one)]),
            lambda: ledger.hold_waiting(run),
            lambda: ledger.release(run),
            lambda: ledger.archived(drop.id, "orders.csv", "x"),
            lambda: ledger.end_run(run, exit_code=0, summary={}),
            lambda: ledger.maintenance.record_removed({"x": 1}),
        ]
        for verb in verbs:
            with pytest.raises(Superseded, match="another process has taken this ledger over; nothing was recorded"):
                verb()
        assert ready_entries.states(other, drop) == ["unknown", "ready"]
        assert ledger.settle_late(run, [ledgers.accepted(one)._replace(attempt=1)]) == 1  # what is known is known
        assert ready_entries.states(other, drop) == ["accepted", "ready"]
        assert other.check() == []


def test_the_former_holder_gives_nothing_away_when_it_ends(ledger_url):
    with ExitStack() as stack:
        with held(ledger_url):
            silence(ledger_url)
            mine = stack.enter_context(held(ledger_url))
        mine.begin_run()  # it is mine still
        refusal(held(ledger_url), LedgerBusy)


def test_a_heartbeat_keeps_it(ledger_url):
    """Each beat stands in the table; nobody waits for one here but until it comes."""
    engine = ledger_engine(address_of(ledger_url), writes=True)
    with held(ledger_url, takeover_s=0.2):
        seen = f"select seen_at from {address_of(ledger_url).schema}.tenures"
        first = databases.ask(seen)
        waited = threading.Event()
        assert any(databases.ask(seen) != first or waited.wait(0.02) for _ in range(500))
    engine.dispose()


def test_a_heartbeat_waits_for_no_writer(ledger, ledger_url):
    """A long transaction of the holder's own keeps nobody from hearing that it lives."""
    beats = []
    with ledger.one_transaction():
        ledger.begin_run()
        with ledger._engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("set lock_timeout = '2s'")
            beats.append(connection.exec_driver_sql("update tenures set seen_at = seen_at").rowcount)
    assert beats == [1]


def test_it_is_not_lost_while_the_server_cannot_be_reached(ledger, ledger_url):
    databases.ask("select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'loadsheet'")
    try:
        ledger.begin_run()
    except LedgerGone:
        ledger.begin_run()
    refusal(held(ledger_url), LedgerBusy)

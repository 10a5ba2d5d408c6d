"""A disk that is full or may only be read stops the work and loses nothing: outcomes of calls already made are still recorded."""

import contextlib
from collections import Counter

import ledgers
import pytest
from ledgers import refusal
from ready_entries import events, mark, new_orders, orders, states
from small_disk import small_disk
from sqlalchemy import event

from loadsheet.errors import LedgerError, LedgerUnwritable
from loadsheet.ledger import State, open_ledger
from loadsheet.ledger.location import RESERVE_BYTES


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def accept(ledger, run, sent):
    ledger.settle(run, [ledgers.accepted(one) for one in sent])


def test_outcomes_are_recorded_on_a_full_disk_and_nothing_more_is_sent_until_there_is_space(disk):
    with open_ledger(disk.url) as ledger:
        run, drop = new_orders(ledger, 300)
        ledger.maintenance.truncate_log()
        sent = mark(ledger, run, 256)
        disk.fill()
        accept(ledger, run, sent)
        assert ledger.queries.count_in(State.ACCEPTED) == 256
        assert not list(disk.folder.glob("*.reserve"))
        disk.fill()  # the space that was given back is used up as well
        with pytest.raises(LedgerUnwritable, match="free some space and run again: unsent documents are still ready"):
            mark(ledger, run)
        assert Counter(states(ledger, drop)) == {"accepted": 256, "ready": 44}
        disk.free()
        accept(ledger, run, mark(ledger, run))
        ledger.end_run(run, exit_code=0, summary={})
        assert ledger.check() == []
    assert not list(disk.folder.glob("*.reserve"))


def test_outcomes_that_fit_nowhere_are_said_and_unknown_the_next_time(disk):
    with open_ledger(disk.url) as ledger:
        run, drop = new_orders(ledger, 30)
        sent = mark(ledger, run, 20)
        disk.fill()
        ledger._files.release_space()
        disk.fill()
        words = "full; free some space and run again; the last change was not recorded"
        for _ in range(2):  # persistently
            with pytest.raises(LedgerUnwritable, match=words):
                accept(ledger, run, sent)
        assert Counter(states(ledger, drop)) == {"sending": 20, "ready": 10}
    disk.free()
    with open_ledger(disk.url) as ledger:
        ledger.begin_run()
        assert Counter(states(ledger, drop)) == {"unknown": 20, "ready": 10}
        assert ledger.check() == []


def test_a_run_does_not_begin_without_space_for_its_outcomes(disk):
    with open_ledger(disk.url) as ledger:
        disk.fill(left=RESERVE_BYTES // 2)
        with pytest.raises(LedgerUnwritable, match="has no 4 MB left"):
            ledger.begin_run()
        assert ledger.queries.runs() == []
        disk.free()
        ledger.begin_run()


@pytest.mark.parametrize("left", [0, 60_000, 700_000])
def test_wherever_a_disk_becomes_full_what_was_recorded_stays_true(disk, left):
    recorded = set()
    with open_ledger(disk.url) as ledger, contextlib.suppress(LedgerUnwritable):
        run, _ = new_orders(ledger, 100)
        disk.fill(left)
        while ready := mark(ledger, run, 7):
            accept(ledger, run, ready)
            recorded |= {one.id for one in ready}
            events(ledger, run, 30)
    disk.free()
    with open_ledger(disk.url) as ledger:
        ledger.begin_run()
        assert {entry.id for entry in ledger.queries.entries_in(State.ACCEPTED)} >= recorded
        assert ledger.queries.count_in(State.UNKNOWN) <= 7
        assert ledger.check() == []


def test_a_disk_that_may_only_be_read_is_said(disk):
    with open_ledger(disk.url) as ledger:
        _, drop = new_orders(ledger, 3)
    disk.remount("ro")
    try:
        caught = refusal(open_ledger(disk.url), LedgerUnwritable)
    finally:
        disk.remount("rw")
    assert str(disk.folder) in str(caught)
    assert caught.exit_code == 75
    with open_ledger(disk.url) as ledger:
        assert states(ledger, drop) == ["ready"] * 3


def test_a_file_that_does_not_fit_is_not_recorded_at_all(tmp_path):
    with ledgers.ledger_in(tmp_path) as ledger:
        run, drop = new_orders(ledger, 3)

        def limit(connection, _record, _proxy):
            connection.execute("pragma max_page_count=60").fetchall()

        event.listen(ledger._engine, "checkout", limit)
        for _ in range(2):
            with pytest.raises(LedgerError, match="full; free some space") as caught:
                orders(ledger, run, 500)
            assert caught.value.exit_code == 75
        assert [one.id for one in ledger.queries.drops_of(run)] == [drop.id]
        assert states(ledger, drop) == ["ready"] * 3
        assert ledger.queries.count_in(State.READY) == 3
        assert ledger.check() == []

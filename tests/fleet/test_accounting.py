"""A reconciliation that was taken over leaves the reports to whoever has it now."""

import pytest
import sendings
from ledgers import ledger_at

from loadsheet.dispatch import Delivered, Listings, Patience
from loadsheet.ledger.batches import Kind
from loadsheet.problems import ExchangeUnreachable, Superseded
from loadsheet.stages import Work, account


class TakenOver:
    """A worker's ledger whose batch somebody else takes right after the verdicts were recorded."""

    def __init__(self, mine, take):
        self._mine, self._take = mine, take

    def __getattr__(self, name):
        return getattr(self._mine, name)

    def follow(self, *words):
        self._mine.follow(*words)
        self._take()


def test_who_was_taken_over_writes_no_report_any_more(acme, tmp_path):
    acme = acme.model_copy(update={"outbox": tmp_path / "outbox", "state": tmp_path})
    with ledger_at(acme.database_url) as ledger:
        run = ledger.begin_run()
        sendings.orders(ledger, run, 2)
        batch = ledger.batches.hand_out(run, Kind.RECONCILIATION, {})
        mine = ledger.for_batch(ledger.batches.take(batch, "me"))
        overtaken = TakenOver(mine, lambda: ledger.batches.take(batch, "them"))
        sent = Delivered(ExchangeUnreachable("nobody answers"), Listings())
        work = Work(acme, overtaken, run, Patience(ledger.now))
        with pytest.raises(Superseded):
            account(work, None, sent, fault=None, left=())
        assert not acme.outbox.exists()

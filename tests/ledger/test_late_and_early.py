"""A look that is older than an outcome settles nothing."""

import ledgers
import pytest

from loadsheet.ledger import Settlement, State


@pytest.fixture
def shared(tmp_path):
    """A ledger as one process has it on a server."""
    with ledgers.ledger_in(tmp_path) as ledger:
        yield ledgers.taken_over(ledger)


def _plan(ledger, run, operation, text):
    order = ledgers.order(1, pickup_address2=text)
    drop = ledgers.drop_of(("orders", f"{text}.csv"), mapping=operation, operation=operation)
    return ledgers.plan(ledger, run, drop, [ledgers.document(operation, order, [("orders", 2, (text,))])], seen=False)


def _states(ledger, *drops):
    return [(str(entry.state), str(entry.waits)) for drop in drops for entry in ledger.queries.entries_of(drop.id)]


def test_a_look_that_is_older_than_an_outcome_settles_nothing(shared):
    run = shared.begin_run()
    drop = _plan(shared, run, "order.create", "made")
    (one,) = shared.ready(10)
    shared.mark_sending(run, [([one], b"{}")])
    shared.settle(run, [ledgers.unknown(one)])
    seen = Settlement(one.id, State.READY, "proved absent", attempt=1)

    assert shared.settle_late(run, [ledgers.accepted(one)._replace(attempt=1)]) == 1
    assert shared.settle_from_listing(run, [seen]) == []
    assert _states(shared, drop) == [("accepted", "")]


def test_a_look_before_the_last_attempt_settles_nothing(shared):
    run = shared.begin_run()
    drop = _plan(shared, run, "order.create", "made")
    for _ in range(2):
        (one,) = shared.ready(10)
        shared.mark_sending(run, [([one], b"{}")])
        shared.settle(run, [ledgers.unknown(one)])
        if one.attempts == 0:
            first = Settlement(one.id, State.READY, "proved absent", attempt=1)
            assert shared.settle_from_listing(run, [first]) == [first]
    assert shared.settle_from_listing(run, [first]) == []
    assert _states(shared, drop) == [("unknown", "")]

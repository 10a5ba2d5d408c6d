"""Where work is handed out at once, nothing that came earlier is overtaken, and a look that is older than an outcome settles nothing."""

import ledgers
import pytest

from loadsheet.ledger import Ledger, Settlement, State
from loadsheet.ledger.batches import Sharing


@pytest.fixture
def shared(tmp_path):
    """A ledger that hands out what is planned, to nobody."""
    with ledgers.ledger_in(tmp_path) as ledger:
        sharing = Sharing(lambda _connection, _made: None)
        yield Ledger(ledger._engine, ledger._clock, ledger._place, sharing=sharing)


def _plan(ledger, run, operation, text):
    order = ledgers.order(1, pickup_address2=text)
    drop = ledgers.drop_of(("orders", f"{text}.csv"), mapping=operation, operation=operation)
    return ledgers.plan(ledger, run, drop, [ledgers.document(operation, order, [("orders", 2, (text,))])], seen=False)


def _states(ledger, *drops):
    return [(str(entry.state), str(entry.waits)) for drop in drops for entry in ledger.history.entries_of(drop.id)]


def test_a_held_child_is_not_overtaken_when_its_create_goes_out_with_its_plan(shared):
    run = shared.begin_run()
    early = _plan(shared, run, "order.update", "early")
    shared.hold_waiting(run)
    assert _states(shared, early) == [("held", "parent")]

    run = shared.begin_run()
    late = _plan(shared, run, "order.update", "late")
    made = _plan(shared, run, "order.create", "made")
    # whoever sends the create now lets both go, in their order: nobody has to release anything in between
    assert _states(shared, early, late, made) == [("ready", "parent"), ("ready", "parent"), ("ready", "")]


def test_a_look_that_is_older_than_an_outcome_settles_nothing(shared):
    run = shared.begin_run()
    drop = _plan(shared, run, "order.create", "made")
    (one,) = shared.ready(10)
    shared.mark_sending(run, [([one], b"{}")])
    shared.settle(run, [ledgers.unknown(one)])
    seen = Settlement(one.id, State.READY, "proved absent", attempt=1)

    assert shared.settle_late(run, [ledgers.accepted(one)._replace(attempt=1)]) == 1
    assert shared.settle_seen(run, [seen]) == []
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
            assert shared.settle_seen(run, [first]) == [first]
    assert shared.settle_seen(run, [first]) == []
    assert _states(shared, drop) == [("unknown", "")]

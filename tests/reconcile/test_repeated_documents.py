"""A document that comes again gets no better verdict than before, whatever became of the one before it, and is sent once."""

import pytest
from ledgers import Ticking, accepted, document, drop_of, ledger_in, order, plan, refused, send, unknown, weight_problem

from loadsheet.ledger import Settlement, State
from loadsheet.reconcile import AGREES, VERDICTS_THAT_NEED_SOMEONE, Verdict, reconcile_run
from loadsheet.settings import Settings

ORDER, EVENT = "order.create", "order.status"


@pytest.fixture
def ledger(tmp_path):
    with ledger_in(tmp_path, Ticking()) as found:
        yield found


def made(operation, *problems):
    status = {"order_id": "A-00001", "status_code": "DEP"}
    payload = order(1) if operation == ORDER else status
    return document(operation, payload, [("orders", 2, ("A-00001", "", "", "", ""))], *problems)


def dropped(ledger, operation, *problems, seen=True):
    """Plan the document in a run of its own; returns the run."""
    run = ledger.begin_run()
    plan(
        ledger, run, drop_of(("orders", f"{run.id}.csv"), operation=operation), [made(operation, *problems)], seen=seen
    )
    return run


def settled(ledger, run):
    return reconcile_run(ledger.queries, {}, run, Settings())


def level(verdict):
    """How good it is: agrees, waits or cannot be verified, needs someone."""
    return 0 if verdict in AGREES else 2 if verdict in VERDICTS_THAT_NEED_SOMEONE else 1


def send_all(ledger, run, answer):
    """Send what is ready; an answer of None: it stays ready."""
    if answer is not None:
        send(ledger, run, answer)


def give_up(ledger, run):
    (lost,) = ledger.queries.entries_in(State.UNKNOWN)
    ledger.settle(run, [Settlement(lost.id, State.HELD, "given up")])


FATES = {"ready": None, "refused": refused, "unknown": unknown, "given up": unknown, "accepted": accepted}


@pytest.mark.parametrize("operation", [ORDER, EVENT])
@pytest.mark.parametrize("fate", FATES)
def test_a_document_that_comes_again_gets_no_better_verdict_than_before(ledger, fate, operation):
    first = dropped(ledger, operation)
    send_all(ledger, first, FATES[fate])
    if fate == "given up":
        give_up(ledger, first)
    (before,) = settled(ledger, first).verdicts
    ready_before = len(ledger.ready(9))
    for _ in range(2):
        run = dropped(ledger, operation)
        found = settled(ledger, run)
        if fate == "refused" and operation == EVENT:  # it goes once more, to be refused once more
            send(ledger, run, refused)
            found = settled(ledger, run)
        for verdict in found.verdicts:
            assert level(verdict) >= level(before)
        assert len(ledger.ready(9)) == ready_before
        assert {fate: count for fate, count in found.balance.rows.items() if count} == found.states


@pytest.mark.parametrize("operation", [ORDER, EVENT])
def test_an_invalid_document_is_invalid_again(ledger, operation):
    for _ in range(3):
        found = settled(ledger, dropped(ledger, operation, weight_problem("1.csv", 2)))
        assert found.verdicts == {Verdict.INVALID: 1}


def test_an_event_that_waits_for_its_order_waits_in_every_drop(ledger):
    for run in (dropped(ledger, EVENT, seen=False) for _ in range(3)):
        ledger.hold_waiting(run)
        found = settled(ledger, run)
        assert (found.verdicts, found.balance.rows[State.HELD]) == ({Verdict.HELD: 1}, 1)
        assert found.needs_someone == 1


@pytest.mark.parametrize(
    ("answer", "verdict", "still_open"),
    [(refused, Verdict.REFUSED, 2), (accepted, Verdict.UNCHANGED, 0)],
)
def test_a_repetition_of_a_waiting_event_follows_it_to_its_end(ledger, answer, verdict, still_open):
    first = dropped(ledger, EVENT, seen=False)
    ledger.hold_waiting(first)
    second = dropped(ledger, EVENT, seen=False)
    ledger.record_exceptions(second, settled(ledger, second).exceptions.statuses)
    third = ledger.begin_run()
    ledger.record_seen(third, {"order:A-00001"})
    ledger.release(third)
    send(ledger, third, answer)
    assert settled(ledger, second).verdicts == {verdict: 1}
    assert len(list(settled(ledger, third).exceptions.open)) == still_open


def test_a_repetition_of_a_waiting_order_closes_no_exception_of_it(ledger):
    lost = dropped(ledger, ORDER)
    send(ledger, lost, unknown)
    waiting = dropped(ledger, ORDER)  # for the outcome
    ledger.record_exceptions(waiting, settled(ledger, waiting).exceptions.statuses)
    again = dropped(ledger, ORDER)  # repeats the one that waits
    found = settled(ledger, again)
    assert found.verdicts == {Verdict.HELD: 1}
    assert [(one.verdict, len(one.versions)) for one in found.exceptions.open] == [("not sent: held", 2)]

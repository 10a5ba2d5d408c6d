"""A document that comes again gets no better verdict than before, whatever became of the one before it, and is sent once."""

import pytest
from ledgers import Ticking, accepted, document, drop_of, ledger_in, order, plan, refused, send, unknown, weight_problem

from loadsheet.ledger import Settlement, State
from loadsheet.reconcile import AGREES, NEEDS_SOMEONE, Verdict, settle
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
    """Plan the document in a night of its own; returns the run."""
    run = ledger.begin_run()
    plan(
        ledger, run, drop_of(("orders", f"{run.id}.csv"), operation=operation), [made(operation, *problems)], seen=seen
    )
    return run


def told(ledger, run):
    return settle(ledger.queries, {}, run, Settings())


def level(verdict):
    """How good it is: agrees, waits or cannot be verified, needs someone."""
    return 0 if verdict in AGREES else 2 if verdict in NEEDS_SOMEONE else 1


def give_up(ledger, run):
    (lost,) = ledger.queries.entries_in(State.UNKNOWN)
    ledger.settle(run, [Settlement(lost.id, State.HELD, "given up")])


def nothing(_ledger, _run):
    """It stays ready."""


def answered(answer):
    return lambda ledger, run: send(ledger, run, answer)


def lost_and_given_up(ledger, run):
    send(ledger, run, unknown)
    give_up(ledger, run)


FATES = {
    "ready, as a limit kept it back": nothing,
    "refused": answered(refused),
    "unknown": answered(unknown),
    "given up": lost_and_given_up,
    "accepted": answered(lambda _: None),
}


@pytest.mark.parametrize("operation", [ORDER, EVENT])
@pytest.mark.parametrize("fate", FATES)
def test_a_document_that_comes_again_is_told_no_better_than_before(ledger, fate, operation):
    first = dropped(ledger, operation)
    FATES[fate](ledger, first)
    (before,) = told(ledger, first).verdicts
    ready_before = len(ledger.ready(9))
    for _ in range(2):
        run = dropped(ledger, operation)
        found = told(ledger, run)
        again_after_a_refusal = fate == "refused" and operation == EVENT  # goes once more, to be refused once more
        if again_after_a_refusal:
            send(ledger, run, refused)
            found = told(ledger, run)
        for verdict in found.verdicts:
            assert level(verdict) >= level(before)
        assert len(ledger.ready(9)) == ready_before
        assert {fate: count for fate, count in found.balance.rows.items() if count} == found.states


@pytest.mark.parametrize("operation", [ORDER, EVENT])
def test_what_is_invalid_is_invalid_again(ledger, operation):
    for _ in range(3):
        found = told(ledger, dropped(ledger, operation, weight_problem("1.csv", 2)))
        assert found.verdicts == {Verdict.INVALID: 1}


def test_an_event_that_waits_for_its_order_waits_in_every_drop(ledger):
    runs = []
    for _ in range(3):
        runs.append(dropped(ledger, EVENT, seen=False))
        ledger.hold_waiting(runs[-1])
    for run in runs:
        found = told(ledger, run)
        assert found.verdicts == {Verdict.HELD: 1}
        assert found.balance.rows[State.HELD] == 1
        assert found.needs_someone == 1


@pytest.mark.parametrize(
    ("answer", "verdict", "still_open"),
    [(refused, Verdict.REFUSED, 2), (accepted, Verdict.UNCHANGED, 0)],
)
def test_what_repeats_a_waiting_event_follows_it_to_its_end(ledger, answer, verdict, still_open):
    first = dropped(ledger, EVENT, seen=False)
    ledger.hold_waiting(first)
    second = dropped(ledger, EVENT, seen=False)
    ledger.record_exceptions(second, told(ledger, second).exceptions.standings)
    third = ledger.begin_run()
    ledger.record_seen(third, {"order:A-00001"})
    ledger.release(third)
    send(ledger, third, answer)
    assert told(ledger, second).verdicts == {verdict: 1}
    assert len(list(told(ledger, third).exceptions.open)) == still_open


def test_what_repeats_a_waiting_order_closes_no_exception_of_it(ledger):
    lost = dropped(ledger, ORDER)
    send(ledger, lost, unknown)
    held = dropped(ledger, ORDER)  # waits for the outcome
    ledger.record_exceptions(held, told(ledger, held).exceptions.standings)
    again = dropped(ledger, ORDER)  # repeats the one that waits
    found = told(ledger, again)
    assert found.verdicts == {Verdict.HELD: 1}
    assert [(one.verdict, len(one.versions)) for one in found.exceptions.open] == [("not sent: held", 2)]

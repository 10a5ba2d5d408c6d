"""A drop with too many errors is recorded whole, and none of it can be sent: in the one transaction that records it."""

import databases
import pytest
from ledgers import document, drop_of, left_out, order, plan, send, tender, weight_problem
from ready_entries import entries, states

from loadsheet.errors import DoesNotBalance
from loadsheet.ledger import PlanningRules, ReadTotals, State
from loadsheet.ledger.decisions import judge_retry
from loadsheet.ledger.recording import CHUNK

DROP = drop_of(("orders", "a.csv"))


def items(good, bad, *, first=0):
    """So many documents that are right, then so many that are wrong."""
    rows = range(first + 2, first + 2 + good + bad)
    right = [document("order.create", order(row - 2), [("orders", row, (f"A-{row}",))]) for row in rows[:good]]
    wrong = [
        document("order.create", None, [("orders", row, (f"B-{row}",))], weight_problem("a.csv", row))
        for row in rows[good:]
    ]
    return [*right, *wrong]


@pytest.mark.parametrize(
    ("good", "bad", "share", "held"),
    [
        (8, 2, 0.2, False),  # as many as allowed
        (8, 3, 0.2, True),
        (0, 3, 0.2, False),  # there is nothing to hold
        (9, 1, 0.0, True),
        (9, 0, 0.0, False),
        (1, 99, 1.0, False),  # off
        (CHUNK * 2 + 1, CHUNK, 0.25, True),
    ],
)
def test_what_is_right_is_held_above_the_share_and_ready_below_it(ledger, good, bad, share, held):
    drop = plan(ledger, ledger.begin_run(), DROP, items(good, bad), error_share_max=share)
    assert states(ledger, drop) == ["held" if held else "ready"] * good + ["invalid"] * bad
    assert len(ledger.ready(10_000)) == (0 if held else good)
    assert ledger.check() == []


@databases.ON_BOTH
def test_rows_left_out_are_no_records_of_the_share_and_each_says_why(ledger, run):
    drop = plan(ledger, run, DROP, [*items(1, 1), *(left_out(number) for number in range(50, 90))], error_share_max=0.4)
    assert states(ledger, drop) == ["held", "invalid"]
    held, _ = entries(ledger, drop)
    (problem,) = held.problems
    assert (problem.code, problem.where.file) == ("L611", "a.csv")
    assert problem.text == "1 of 2 records of a.csv are invalid, more than 40 %, so none of them was sent"
    assert [event.after for event in ledger.queries.events_of(held.id)] == ["ready", "held"]


def test_nothing_is_held_where_nothing_was_recorded(ledger, run):
    with pytest.raises(DoesNotBalance):
        ledger.plan(run, DROP, {}, [*items(2, 2), ReadTotals({"orders": 5})], PlanningRules(error_share_max=0.2))
    assert ledger.ready(10) == []
    assert states(ledger, plan(ledger, run, DROP, items(2, 0), error_share_max=0.2)) == ["ready"] * 2


def test_a_held_one_may_be_brought_back_until_its_content_comes_again(ledger, run):
    drop = plan(ledger, run, DROP, items(1, 1), error_share_max=0.2)
    held, _ = entries(ledger, drop)

    def refusal():
        lane = list(ledger.queries.heads_on([held.lane], *State))
        return judge_retry(held, ledger.queries.attempts_of(held.id), lane).refusal

    assert refusal() == ""
    assert states(ledger, plan(ledger, run, DROP, items(1, 0), error_share_max=0.2)) == ["ready"]
    assert "same content" in refusal()


def test_what_waited_before_and_what_other_drops_hold_is_not_touched(ledger, run):
    before = plan(ledger, run, DROP, items(2, 0, first=50))
    quotes = drop_of(("orders", "q.csv"), mapping="quotes", operation="tender.create")
    other = plan(ledger, run, quotes, [document("tender.create", tender(1), [("orders", 2, ("T-1",))])])
    plan(ledger, run, DROP, items(1, 1), error_share_max=0.2)
    assert states(ledger, before, other) == ["ready"] * 3
    send(ledger, run)
    assert states(ledger, before) == ["accepted"] * 2

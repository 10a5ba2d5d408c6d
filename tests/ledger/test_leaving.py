"""What may leave while some of it is on trial, on both kinds of database."""

from ledgers import document, drop_of, order, plan


def planned(ledger, run, file, numbers):
    items = [
        document("order.create", order(number), [("orders", number + 2, (f"A-{number:05}",))]) for number in numbers
    ]
    return plan(ledger, run, drop_of(("orders", file)), items)


def test_what_is_left_out_leaves_the_others(ledger):
    """A list of parts, and none of operations: an empty list leaves nothing out."""
    run = ledger.begin_run()
    one, other = planned(ledger, run, "a.csv", range(3)), planned(ledger, run, "b.csv", range(3, 5))
    tried, rest = (one.id, "order.create"), [submission.key for submission in ledger.ready(9)][3:]
    assert [submission.key for submission in ledger.ready(9, parts_out=[tried])] == rest
    assert [submission.drop for submission in ledger.ready_of(tried, 9, parts_out=[tried])] == [one.id] * 3
    assert ledger.ready(9, parts_out=[tried], operations_out=["order.create"]) == []
    assert len(ledger.ready(9, operations_out=["order.delete"])) == 5
    assert other.id != one.id

"""What a check copies of the ledger: the verdicts are those of a run, and the cost grows with the file, not with the ledger."""

from dataclasses import replace

import databases
import pytest
from ledgers import accepted, document, drop_of, ledger_in, order, plan, refused, send, unknown, weight_problem
from ready_entries import payload_of
from sqlalchemy import func, select

from loadsheet.ledger import State
from loadsheet.ledger.exporting import EarlierRows
from loadsheet.ledger.ledger_tables import drops, entries, events

ORDERS = ("orders", "orders.csv")
EVENTS = ("milestones", "milestones.csv")


def orders(*records):
    return [document("order.create", one, [("orders", row, ("",))]) for row, one in enumerate(records, start=2)]


def status_of(number, row):
    return document("order.status", payload_of("order.status", number), [("milestones", row, ("",))])


@pytest.fixture
def used(ledger):
    """A ledger with orders that were accepted, refused, never answered and held, and many others."""
    first = ledger.begin_run()
    outcome = {"A-00002": refused, "A-00003": unknown}
    plan(ledger, first, drop_of(ORDERS), orders(*map(order, range(40))))
    send(ledger, first, lambda one: outcome.get(one.key, accepted)(one))
    plan(ledger, first, drop_of(ORDERS), orders(order(4, currency="CHF")))
    ledger.end_run(first, exit_code=1, summary={"entries": {"accepted": 38}})
    return ledger


def new_documents():
    records = [order(0), order(1, total_packages=9), order(2), order(3), order(4, currency="CHF"), order(77), order(77)]
    wrong = document("order.create", None, [("orders", 9, ("A-00005",))], weight_problem("orders.csv", 9))
    return [*orders(*records), wrong]


def plan_both(ledger, run, **rules):
    """Plan the new file: orders, then milestones of a known and of an unknown order."""
    plan(ledger, run, drop_of(ORDERS), new_documents(), **rules)
    found = [status_of(0, 2), status_of(88, 3)]
    plan(ledger, run, drop_of(EVENTS, operation="order.status"), found, seen=False, **rules)
    return [
        [
            (one.key, one.state, one.reason.partition(" (")[0], [problem.code for problem in one.problems])
            for one in planned
        ]
        for drop in ledger.queries.drops_of(run)
        if drop.run == run.name and (planned := list(ledger.queries.entries_of(drop.id)))
    ]


def size(ledger, table):
    return ledger.in_transaction(lambda connection: connection.scalar(select(func.count()).select_from(table)))


@databases.ON_BOTH
def test_a_check_judges_as_a_run_and_copies_only_what_it_needs(used, tmp_path):
    before = size(used, entries), size(used, events)
    with used.queries.at_one_moment() as connection, ledger_in(tmp_path / "check") as trial:
        known = EarlierRows(connection)
        trial.in_transaction(known.begin)
        checked = plan_both(trial, trial.begin_run(name="check"), known=known)
        copied = [one for one in range(1, before[0] + 1) if trial.queries.keys_of([one])]
        for entry in copied:
            assert trial.queries.attempts_of(entry) == used.queries.attempts_of(entry)
            assert trial.queries.events_of(entry) == used.queries.events_of(entry)
        assert size(trial, entries) == len(copied) + sum(map(len, checked))
        assert size(trial, drops) == 4
    assert (size(used, entries), size(used, events)) == before
    assert copied == [1, 2, 3, 4, 5, 6, 41]  # of the orders in the file, and the last entry
    assert checked == plan_both(used, used.begin_run())
    states = [state for _, state, *_ in checked[0]]
    assert states == [
        State.UNCHANGED, State.HELD, State.REFUSED, State.HELD, State.HELD, State.READY, State.UNCHANGED, State.INVALID,
    ]  # fmt: skip


def test_a_fix_file_brings_the_drops_that_it_corrects(used, tmp_path):
    run = used.begin_run()
    first = plan(used, run, drop_of(ORDERS, mapping="first"), orders(order(90)))
    fix = plan(used, run, replace(drop_of(ORDERS), fixes=first.id), orders(order(91)))
    plan(used, run, drop_of(ORDERS), orders(order(92)))
    with used.queries.at_one_moment() as connection, ledger_in(tmp_path / "check") as trial:
        known = EarlierRows(connection)
        trial.in_transaction(known.begin)
        plan(trial, (run := trial.begin_run()), replace(drop_of(ORDERS), fixes=fix.id), orders(order(93)), known=known)
        (planned,) = (drop for drop in trial.queries.drops_of(run) if drop.run == run.name)
        assert trial.queries.original(planned) == used.queries.drop(first.id)

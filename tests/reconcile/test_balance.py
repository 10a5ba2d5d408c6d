"""Every row of a file has one fate, and the fates add up to the rows that were read."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from ledgers import document, drop_of, left_out, order, plan, send, unreadable, weight_problem
from reported_runs import run_begun

from loadsheet.ledger import ReadTotals
from loadsheet.mapping.documents import RowLinks
from loadsheet.problems import Problem
from loadsheet.reconcile import FATES, reconcile_run


def fates(found):
    return {fate: count for fate, count in found.balance.rows.items() if count}


@pytest.mark.parametrize(
    ("statement", "faults"),
    [
        ("select 1", []),
        ("delete from ignored", ["in.csv: 4 rows read, 3 accounted for"]),
        ("update ignored set number = 4", ["in.csv: 1 rows are accounted for more than once"]),  # though the sums agree
        ("update tables set rows = 3", ["in.csv: 3 rows read, 4 accounted for"]),
    ],
    ids=["as it was", "lost", "two fates", "too many"],
)
def test_a_row_that_is_lost_counted_twice_or_too_many_does_not_balance(tmp_path, statement, faults):
    items = [
        document("order.create", order(1), [("orders", 2, ("a",)), ("orders", 3, ("b",))]),
        document("order.create", order(2), [("orders", 4, ("c",))], weight_problem("in.csv", 4)),
        left_out(5),
    ]
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "in.csv")), items)
        send(ledger, run)
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection, connection:
            connection.execute(statement)
        found = reconcile_run(ledger.queries, {}, run, settings)
    assert (found.balances, list(found.faults())) == (not faults, faults)
    if not faults:
        assert tuple(found.balance.rows) == FATES
        assert fates(found) == {"accepted": 2, "invalid": 1, "ignored": 1}


def test_a_run_without_a_file_or_with_one_that_was_set_aside_balances(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        found = reconcile_run(ledger.queries, {}, run, settings)
        assert (found.balances, found.balance.read) == (True, 0)
        assert not found.matches
        assert not found.totals
        ledger.set_aside(run, unreadable("broken.xlsx", Problem("R202")))
        found = reconcile_run(ledger.queries, {}, run, settings)
        assert (found.balances, found.balance.read) == (True, 0)


@pytest.mark.parametrize("shared", [0, 1], ids=["its own document last", "its own document first"])
@pytest.mark.parametrize("wrong", ["first", "second", "neither"])
def test_a_row_of_which_one_document_is_invalid_counts_as_invalid(tmp_path, wrong, shared):
    row = ("orders", 2, ("A-00001", "", "", "", ""))
    events = [
        document(
            "order.status",
            {"order_id": "A-00001", "status_code": code},
            [row],
            *[weight_problem("in.csv", 2)] * (wrong == place),
        )
        for place, code in (("first", "DEP"), ("second", "ARR"))
    ]
    events[shared] = replace(events[shared], links=RowLinks(shared=(0,)))
    with run_begun(tmp_path) as (ledger, run, settings):
        ledger.record_seen(run, {"order:A-00001"})
        drop = drop_of(("orders", "in.csv"), operation="order.status")
        ledger.plan(run, drop, {}, [*events, ReadTotals({"orders": 1})])
        send(ledger, run)
        found = reconcile_run(ledger.queries, {}, run, settings)
    assert fates(found) == {"accepted" if wrong == "neither" else "invalid": 1}
    assert found.balances

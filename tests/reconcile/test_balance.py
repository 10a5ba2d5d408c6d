import sqlite3
from dataclasses import replace

import pytest
from ledgers import document, drop_of, ledger_in, left_out, order, plan, send, unreadable, weight_problem

from loadsheet.ledger import ReadTotals
from loadsheet.mapping.documents import SHARED
from loadsheet.problems import Problem
from loadsheet.reconcile import FATES, settle
from loadsheet.settings import Settings

SETTINGS = Settings()


@pytest.fixture
def tampered(tmp_path):
    """Settles a small night after a statement has been run on the ledger behind its back."""

    def settle_after(statement):
        with ledger_in(tmp_path) as ledger:
            run = ledger.begin_run()
            items = [
                document("order.create", order(1), [("orders", 2, ("a",)), ("orders", 3, ("b",))]),
                document("order.create", order(2), [("orders", 4, ("c",))], weight_problem("in.csv", 4)),
                left_out(5),
            ]
            plan(ledger, run, drop_of(("orders", "in.csv")), items)
            send(ledger, run)
            with sqlite3.connect(tmp_path / "ledger.db") as connection:
                connection.execute(statement)
            connection.close()
            return settle(ledger.queries, {}, run, SETTINGS)

    return settle_after


def test_every_fate_is_named_even_if_nothing_has_it(tampered):
    found = tampered("select 1")
    assert found.balances
    assert tuple(found.balance.rows) == FATES
    assert found.balance.rows == {**dict.fromkeys(FATES, 0), "accepted": 2, "invalid": 1, "ignored": 1}


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("delete from ignored", "in.csv: 4 rows read, 3 accounted for"),
        ("update ignored set number = 4", "in.csv: 1 rows are accounted for more than once"),  # though the sums agree
        ("update tables set rows = 3", "in.csv: 3 rows read, 4 accounted for"),
    ],
    ids=["lost", "two fates", "too many"],
)
def test_a_row_that_is_lost_counted_twice_or_too_many_does_not_balance(tampered, statement, fault):
    found = tampered(statement)
    assert not found.balances
    assert list(found.faults()) == [fault]


def test_a_file_that_was_set_aside_has_no_rows_and_balances(tmp_path):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        ledger.set_aside(run, unreadable("broken.xlsx", Problem("R202")))
        found = settle(ledger.queries, {}, run, SETTINGS)
        assert found.balances
        assert found.balance.read == 0


def test_a_run_that_found_nothing_balances(tmp_path):
    with ledger_in(tmp_path) as ledger:
        found = settle(ledger.queries, {}, ledger.begin_run(), SETTINGS)
        assert found.balances
        assert not found.matches
        assert not found.totals


@pytest.mark.parametrize("shared", [0, 1], ids=["its own document last", "its own document first"])
@pytest.mark.parametrize("wrong", ["first", "second", "neither"])
def test_a_row_of_which_one_document_is_invalid_counts_as_invalid(tmp_path, wrong, shared):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        row = ("orders", 2, ("A-00001", "", "", "", ""))
        problems = {"first": ((weight_problem("in.csv", 2),), ()), "second": ((), (weight_problem("in.csv", 2),))}
        events = [
            document("order.status", {"order_id": "A-00001", "status_code": code}, [row], *some)
            for code, some in zip(("DEP", "ARR"), problems.get(wrong, ((), ())), strict=True)
        ]
        events[shared] = replace(events[shared], items={SHARED: (0,)})
        ledger.record_seen(run, {"order:A-00001"})
        drop = drop_of(("orders", "in.csv"), operation="order.status")
        ledger.plan(run, drop, {}, [*events, ReadTotals({"orders": 1})])
        send(ledger, run)
        found = settle(ledger.queries, {}, run, SETTINGS)
        fate = "accepted" if wrong == "neither" else "invalid"
        assert {name: count for name, count in found.balance.rows.items() if count} == {fate: 1}
        assert found.balances

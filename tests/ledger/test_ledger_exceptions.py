"""Exceptions and remarks are kept alike on each kind of database."""

from dataclasses import replace

import databases
import ledgers
import pytest
import ready_entries

from loadsheet.contract import Difference
from loadsheet.ledger import ExceptionStatus, Remark, WorkbookRead

pytestmark = databases.ON_BOTH
LATER = "2026-03-05T10:00:00.000Z"


def status(run, entry, **more):
    return ExceptionStatus(entry, run.name, run.started_at, "not sent: invalid", **more)


@pytest.fixture(autouse=True)
def _planned(ledger, run):
    ready_entries.orders(ledger, run, 502)  # more than one part of a list


def test_they_are_opened_changed_and_closed_and_the_same_again_changes_nothing(ledger, run):
    many = [status(run, entry) for entry in range(1, 503)]
    ledger.record_exceptions(run, many)
    assert [one._replace(versions=()) for one in ledger.queries.exceptions_at(run)] == many
    second, closed_at = ledger.begin_run(), set()
    other = status(run, 7)._replace(verdict="value difference", found=(Difference("city", "Köln", ""),))
    gone = status(run, 8, closed="explained")
    for _ in range(2):
        ledger.record_exceptions(second, [other, gone, *many[8:]])
        with ledger._engine.connect() as connection:
            closed_at.add(connection.exec_driver_sql("select closed_at from exceptions where entry_id = 8").scalar())
    assert len(closed_at) == 1
    kept = ledger.queries.exceptions_of([7, 8, 9])
    assert (kept[7], kept[8]) == (other, gone._replace(closed_run=second.name))
    assert [one.entry for one in ledger.queries.exceptions_at(second) if one.closed] == [8]
    assert 8 not in [one.entry for one in ledger.queries.exceptions_at(ledger.begin_run())]


def test_of_remarks_the_latest_of_each_kind_counts_and_a_comment_stops_nothing(ledger, run):
    ledger.record_exceptions(run, [status(run, 1), status(run, 2)])
    remarks = [Remark(1, "owner", "Ada", "A", LATER), Remark(3, "owner", "Eve", "E", LATER)]
    assert ledger.record_remarks(remarks, {}) == 1
    assert ledger.record_remarks([remarks[0]._replace(value="Bert")], {}) == 1
    ledger.record_remarks([Remark(2, "comment", "called them", "ann", LATER)], {})
    ledger.record_exceptions(ledger.begin_run(), [status(run, 2)._replace(verdict="refused")])
    assert ledger.queries.exceptions_of([2])[2].verdict == "refused"
    found = ledger.queries.remarks_on([1, 2, 3])
    assert (found[1]["owner"].value, list(found[2])) == ("Bert", ["comment"])
    assert ledger.queries.owners() == ["Bert", "Ada"]


def test_a_fix_of_a_fix_goes_back_to_the_first_drop(ledger, run):
    for fixes in (None, 2, 3):
        drop = replace(ledgers.drop_of(("orders", "o.csv")), fixes=fixes)
        ledgers.plan(ledger, run, drop, [ledgers.document("order.create", ledgers.order(1), [("orders", 2, ("x",))])])
    assert ledger.queries.origins_of([503, 504, 505]) == {503: (2, 2), 504: (3, 2), 505: (4, 2)}


def test_the_workbooks_that_were_read_are_known(ledger):
    assert ledger.queries.workbooks_read() == {}
    for saved in (5, 6):
        read = {"2026-03-01-01/reconciliation.xlsx": WorkbookRead(saved, {1: "a: b"})}
        ledger.record_remarks([], read)
        assert ledger.queries.workbooks_read() == read

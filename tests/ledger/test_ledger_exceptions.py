"""Exceptions and remarks are kept alike on each kind of database."""

from dataclasses import replace

import databases
import ledgers
import ready_entries

from loadsheet.contract import Difference
from loadsheet.ledger import ExceptionStatus, Remark, WorkbookRead

pytestmark = databases.ON_BOTH
LATER = "2026-03-05T10:00:00.000Z"


def status(run, entry, **more):
    return ExceptionStatus(entry, run.name, run.started_at, "not sent: invalid", **more)


def test_they_are_opened_changed_and_closed(ledger, run):
    ready_entries.orders(ledger, run, 502)  # more than one part of a list
    many = [status(run, entry) for entry in range(1, 503)]
    ledger.record_exceptions(run, many)
    assert [one._replace(versions=()) for one in ledger.queries.exceptions_at(run)] == many
    second = ledger.begin_run()
    other = status(run, 7)._replace(verdict="value difference", found=(Difference("city", "Köln", ""),))
    gone = status(run, 8, closed="explained")
    ledger.record_exceptions(second, [other, gone, *many[8:]])
    kept = ledger.queries.exceptions_of([7, 8, 9])
    assert (kept[7], kept[8]) == (other, gone._replace(closed_run=second.name))
    assert [one.entry for one in ledger.queries.exceptions_at(second) if one.closed] == [8]
    assert 8 not in [one.entry for one in ledger.queries.exceptions_at(ledger.begin_run())]


def test_the_same_again_changes_nothing(ledger, run):
    ready_entries.orders(ledger, run, 1)
    closed = set()
    for _ in range(2):
        ledger.record_exceptions(run, [status(run, 1, closed="matched")])
        with ledger._engine.connect() as connection:
            closed.add(connection.exec_driver_sql("select closed_at from exceptions").scalar())
    assert len(closed) == 1


def test_of_remarks_the_latest_of_each_kind_counts(ledger, run):
    ready_entries.orders(ledger, run, 3)
    ledger.record_exceptions(run, [status(run, 1), status(run, 2)])
    remarks = [Remark(1, "owner", "Ada", "A", LATER), Remark(3, "owner", "Eve", "E", LATER)]
    assert ledger.record_remarks(remarks, {}) == 1
    assert ledger.record_remarks([remarks[0]._replace(value="Bert")], {}) == 1
    assert ledger.queries.remarks_on([1, 2, 3])[1]["owner"].value == "Bert"
    assert ledger.queries.owners() == ["Bert", "Ada"]


def test_a_fix_of_a_fix_goes_back_to_the_first_drop(ledger, run):
    for fixes in (None, 1, 2):
        drop = replace(ledgers.drop_of(("orders", "o.csv")), fixes=fixes)
        ledgers.plan(ledger, run, drop, [ledgers.document("order.create", ledgers.order(1), [("orders", 2, ("x",))])])
    assert ledger.queries.origins_of([1, 2, 3]) == {1: (1, 1), 2: (2, 1), 3: (3, 1)}


def test_the_workbooks_that_were_read_are_known(ledger):
    assert ledger.queries.workbooks_read() == {}
    for saved in (5, 6):
        read = {"2026-03-01-01/reconciliation.xlsx": WorkbookRead(saved, {1: "a: b"})}
        ledger.record_remarks([], read)
        assert ledger.queries.workbooks_read() == read


def test_a_comment_without_a_status_does_not_stop_what_is_said_next(ledger, run):
    ready_entries.orders(ledger, run, 1)
    ledger.record_exceptions(run, [status(run, 1)])
    ledger.record_remarks([Remark(1, "comment", "called them", "ann", LATER)], {})
    ledger.record_exceptions(ledger.begin_run(), [status(run, 1)._replace(verdict="refused")])
    assert ledger.queries.exceptions_of([1])[1].verdict == "refused"
    assert list(ledger.queries.remarks_on([1])[1]) == ["comment"]

"""Exceptions, remarks and what keeping removes, counts and hands out: the same on each kind of database."""

from dataclasses import replace

import databases
import ledgers
import ready_entries
from ledgers import drop_of, plan, refused, send
from retention_runs import PERSON
from retention_runs import orders as orders_of

from loadsheet.contract import Difference
from loadsheet.ledger import ExceptionStatus, Remark, WorkbookRead
from loadsheet.ledger.exporting import exports

pytestmark = databases.ON_BOTH
LATER = "2026-03-05T10:00:00.000Z"
KEPT_AS = "archive/2026/03/04/orders.csv"


def status(run, entry, **more):
    return ExceptionStatus(entry, run.name, run.started_at, "not sent: invalid", **more)


def test_they_are_opened_changed_and_closed_and_the_same_again_changes_nothing(ledger, run):
    ready_entries.orders(ledger, run, 502)  # more than one part of a list
    many = [status(run, entry) for entry in range(1, 503)]
    ledger.record_exceptions(run, many)
    assert [one._replace(versions=(), current=()) for one in ledger.queries.exceptions_at(run)] == many
    second, closed_at = ledger.begin_run(), set()
    other = status(run, 7)._replace(verdict="value difference", differences=(Difference("city", "Köln", ""),))
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
    ready_entries.orders(ledger, run, 3)
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


# what keeping removes and hands out


def filled(ledger, count=3):
    run = ledger.begin_run()
    drop = plan(ledger, run, drop_of(("orders", "orders.csv")), orders_of(*range(1, count + 1)))
    send(ledger, run, lambda one: refused(one) if one.key == "A-00002" else None)
    ledger.record_exceptions(run, [status(run, 2)._replace(verdict="refused")])
    return run, drop


def test_more_than_one_transaction_takes_is_emptied_all_the_same(ledger):
    _, drop = filled(ledger, 503)
    assert ledger.maintenance.remove_contents_of_drop(drop.id, "9999") == 502
    assert [entry.key for entry in ledger.queries.entries_of(drop.id) if not entry.removed] == ["A-00002"]


def test_every_table_is_handed_out_whole_or_since_a_day(ledger):
    run, drop = filled(ledger)
    tables = {table.name: table for table in exports(payloads=True)}
    rows = {name: list(ledger.maintenance.rows_of(table)) for name, table in tables.items()}
    assert {name: len(some) for name, some in rows.items()} == {"runs": 1, "entries": 3, "attempts": 3, "exceptions": 1}
    assert all(len(row) == len(tables[name].columns) for name, some in rows.items() for row in some)
    names = [column.name for column in tables["entries"].columns]
    second = dict(zip(names, rows["entries"][1], strict=True))
    expected = {"key": "A-00002", "state": "refused", "problems": "X701", "exception": "refused", "run": run.name}
    expected |= {"file": "orders.csv", "drop": drop.id, "removed_at": None}
    assert {name: second[name] for name in expected} == expected
    assert PERSON in second["payload"]
    later = exports(since="2026-03-05T00:00:00.000Z")
    assert [list(ledger.maintenance.rows_of(table)) for table in later] == [[], [], [], []]
    assert "payload" not in [column.name for column in later[1].columns]


def test_runs_and_originals_that_are_needed_and_what_was_removed_are_known(ledger):
    run, _ = filled(ledger)
    maintenance = ledger.maintenance
    assert maintenance.runs_before("9999") == []  # it has not ended
    assert maintenance.originals_needed() == {KEPT_AS}
    ledger.record_exceptions(ledger.begin_run(), [status(run, 2, closed="explained")])
    assert maintenance.originals_needed() == set()
    assert [(kept.run, kept.kept_as) for kept in maintenance.originals()] == [(run.name, KEPT_AS)]
    maintenance.record_originals_removed([KEPT_AS])
    assert list(maintenance.originals()) == []
    assert maintenance.counts() == {"runs": 2, "entries": 3, "decisions": 0}
    assert maintenance.removed_by_rule() == {}
    for removed in ({"payloads": 2}, {"payloads": 3, "reports": 1}):
        maintenance.record_removed(removed)
    noted = maintenance.removed_by_rule()
    assert (noted["payloads"], noted["reports"], noted["at"][:11]) == (5, 1, "2026-03-04T")

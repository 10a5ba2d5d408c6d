"""What keeping removes, counts and hands out is the same on each kind of database."""

import databases
from ledgers import drop_of, plan, refused, send
from retention_runs import PERSON, orders

from loadsheet.ledger import ExceptionStatus
from loadsheet.ledger.exporting import exports

pytestmark = databases.ON_BOTH
KEPT_AS = "archive/2026/03/04/orders.csv"


def filled(ledger, count=3):
    run = ledger.begin_run()
    drop = plan(ledger, run, drop_of(("orders", "orders.csv")), orders(*range(1, count + 1)))
    send(ledger, run, lambda one: refused(one) if one.key == "A-00002" else None)
    ledger.record_exceptions(run, [ExceptionStatus(2, run.name, run.started_at, "refused")])
    return run, drop


def test_more_than_one_transaction_takes_is_emptied_all_the_same(ledger):
    _, drop = filled(ledger, 503)
    assert ledger.maintenance.empty(drop.id, "9999") == 502
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
    closed = ExceptionStatus(2, run.name, run.started_at, "refused", closed="explained")
    ledger.record_exceptions(ledger.begin_run(), [closed])
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

"""What keeping removes, counts and hands out is the same on each kind of database."""

import databases
from ledgers import drop_of, plan, refused, send
from retention_runs import PERSON, orders

from loadsheet.ledger import ExceptionStatus
from loadsheet.ledger.exporting import exports

pytestmark = databases.ON_BOTH


def filled(ledger, count=3):
    run = ledger.begin_run()
    drop = plan(ledger, run, drop_of(("orders", "orders.csv")), orders(*range(1, count + 1)))
    send(ledger, run, lambda one: refused(one) if one.key == "A-00002" else None)
    standing = ExceptionStatus(drop.id + 1, run.name, run.started_at, "refused")
    ledger.record_exceptions(run, [standing])
    return run, drop


def test_more_than_one_transaction_takes_is_emptied_all_the_same(ledger):
    _, drop = filled(ledger, 503)
    assert ledger.maintenance.empty(drop.id, "9999") == 502
    assert [entry.key for entry in ledger.queries.entries_of(drop.id) if not entry.removed] == ["A-00002"]


def test_notes_add_up(ledger):
    assert ledger.maintenance.removed_by_rule() == {}
    ledger.maintenance.record_removed({"payloads": 2})
    ledger.maintenance.record_removed({"payloads": 3, "reports": 1})
    noted = ledger.maintenance.removed_by_rule()
    assert (noted["payloads"], noted["reports"]) == (5, 1)
    assert str(noted["at"]).startswith("2026-03-04T")


def test_every_table_is_handed_out_whole_or_since_a_day(ledger):
    run, drop = filled(ledger)
    tables = {table.name: table for table in exports(payloads=True)}
    rows = {name: list(ledger.maintenance.rows_of(table)) for name, table in tables.items()}
    assert {name: len(some) for name, some in rows.items()} == {"runs": 1, "entries": 3, "attempts": 3, "exceptions": 1}
    names = [column.name for column in tables["entries"].columns]
    second = dict(zip(names, rows["entries"][1], strict=True))
    assert (second["key"], second["state"], second["problems"], second["exception"]) == (
        "A-00002",
        "refused",
        "X701",
        "refused",
    )
    assert (second["run"], second["file"], second["drop"], second["removed_at"]) == (
        run.name,
        "orders.csv",
        drop.id,
        None,
    )
    assert PERSON in second["payload"]
    assert all(len(row) == len(tables[name].columns) for name, some in rows.items() for row in some)
    later = exports(since="2026-03-05T00:00:00.000Z")
    assert [list(ledger.maintenance.rows_of(table)) for table in later] == [[], [], [], []]
    assert "payload" not in [column.name for column in later[1].columns]


def test_runs_and_originals_that_are_needed_are_known(ledger):
    run, drop = filled(ledger)
    maintenance = ledger.maintenance
    assert maintenance.runs_before("9999") == []  # it has not ended
    assert maintenance.originals_needed() == {"archive/2026/03/04/orders.csv"}
    later = ledger.begin_run()
    ledger.record_exceptions(
        later, [ExceptionStatus(drop.id + 1, run.name, run.started_at, "refused", closed="explained")]
    )
    assert maintenance.originals_needed() == set()
    (kept,) = maintenance.originals()
    assert (kept.run, kept.kept_as) == (run.name, "archive/2026/03/04/orders.csv")
    maintenance.record_originals_removed([kept.kept_as])
    assert list(maintenance.originals()) == []
    assert maintenance.counts() == {"runs": 2, "entries": 3, "decisions": 0}

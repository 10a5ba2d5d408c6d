"""Exceptions and remarks are kept alike on each kind of database."""

import databases
import pytest
from sqlalchemy import func, insert, select

from loadsheet.contract import Difference
from loadsheet.ledger import ExceptionStatus, Remark, Run, WorkbookRead, exceptions
from loadsheet.ledger.schema import drops, entries, runs
from loadsheet.ledger.schema import exceptions as table

pytestmark = databases.ON_BOTH
RUNS = [Run(number, f"2026-03-0{number}-01", f"2026-03-0{number}T02:00:00.000Z") for number in (1, 2, 3)]
ENTRY = {
    "operation": "order.create",
    "lane": "order:1",
    "state": "invalid",
    "reason": "",
    "payload": b"",
    "content_hash": "",
    "rows": b"[]",
    "items": "{}",
    "problems": "[]",
    "receipt": "",
    "attempts": 0,
    "created_at": "",
    "changed_at": "",
}


@pytest.fixture
def connection(ledger):
    with ledger._unfenced() as opened:
        for run in RUNS:
            opened.execute(insert(runs).values(id=run.id, name=run.name, started_at=run.started_at))
        for drop, fixes in ((1, None), (2, 1), (3, 2)):
            opened.execute(insert(drops).values(id=drop, run_id=1, fixes=fixes))
        opened.execute(
            insert(entries), [{"id": at, "drop_id": min(at, 3), "key": f"A-{at}", **ENTRY} for at in range(1, 503)]
        )
        yield opened


def standing(entry, run=RUNS[0], **more):
    return ExceptionStatus(entry, run.name, run.started_at, "not sent: invalid", **more)


def test_they_are_opened_changed_and_closed(connection):
    many = [standing(entry) for entry in range(1, 503)]
    exceptions.record_exceptions(connection, RUNS[0], many, "2026-03-01T03:00:00.000Z")
    assert exceptions.statuses_at(connection, RUNS[0]) == many
    other = standing(7)._replace(verdict="value difference", found=(Difference("city", "Köln", ""),))
    gone = standing(8)._replace(closed="explained")
    exceptions.record_exceptions(connection, RUNS[1], [other, gone, *many[8:]], "2026-03-02T03:00:00.000Z")
    kept = exceptions.statuses_of(connection, [7, 8, 9])
    assert (kept[7], kept[8]) == (other, gone._replace(closed_run=RUNS[1].name))
    assert gone.entry in [one.entry for one in exceptions.statuses_at(connection, RUNS[1])]
    assert gone.entry not in [one.entry for one in exceptions.statuses_at(connection, RUNS[2])]
    assert connection.scalar(select(func.count()).select_from(table).where(table.c.closed_at != "")) == 1


def test_the_same_again_changes_nothing(connection):
    closed = standing(1)._replace(closed="matched")
    for now in ("2026-03-01T03:00:00.000Z", "2026-03-01T04:00:00.000Z"):
        exceptions.record_exceptions(connection, RUNS[0], [closed], now)
    assert connection.scalar(select(table.c.closed_at)) == "2026-03-01T03:00:00.000Z"


def test_of_remarks_the_latest_of_each_kind_counts(connection):
    exceptions.record_exceptions(connection, RUNS[0], [standing(1), standing(2)], "2026-03-01T03:00:00.000Z")
    said = [
        Remark(1, "owner", "Ada", "A", "2026-03-01T10:00:00.000Z"),
        Remark(3, "owner", "Eve", "E", "2026-03-01T10:00:00.000Z"),
    ]
    assert exceptions.keep_remarks(connection, said) == 1
    assert exceptions.keep_remarks(connection, [said[0]._replace(value="Bert")]) == 1
    assert exceptions.latest_remarks(connection, [1, 2, 3])[1]["owner"].value == "Bert"
    assert exceptions.owners(connection) == ["Bert", "Ada"]


def test_a_fix_of_a_fix_goes_back_to_the_first_drop(connection):
    assert exceptions.origins_of(connection, [1, 2, 3, 4]) == {1: (1, 1), 2: (2, 1), 3: (3, 1), 4: (3, 1)}


def test_the_workbooks_that_were_read_are_known(connection):
    assert exceptions.workbooks_read(connection) == {}
    for saved in (5, 6):
        read = {"2026-03-01-01/reconciliation.xlsx": WorkbookRead(saved, {1: "a: b"})}
        exceptions.note_workbooks(connection, read)
        assert exceptions.workbooks_read(connection) == read


def test_a_comment_without_a_status_does_not_stop_what_is_said_next(connection):
    exceptions.record_exceptions(connection, RUNS[0], [standing(7)], RUNS[0].started_at)
    exceptions.keep_remarks(connection, [Remark(7, "comment", "called them", "ann", RUNS[0].started_at)])
    exceptions.record_exceptions(connection, RUNS[1], [standing(7)._replace(verdict="refused")], RUNS[1].started_at)
    assert exceptions.statuses_of(connection, [7])[7].verdict == "refused"
    assert list(exceptions.latest_remarks(connection, [7])[7]) == ["comment"]

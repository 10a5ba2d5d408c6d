"""The fleet as a real PostgreSQL holds it."""

import pytest
from fleets import Fleet, joined, shared_settings

from loadsheet.ledger.shared.opening import shared
from loadsheet.ledger.shared.sight import fleet_of, seen
from loadsheet.problems import LedgerGone
from loadsheet.settings import Settings


@pytest.fixture
def fleet():
    with joined(shared_settings()) as connection:
        yield Fleet(connection)


def test_workers_live_until_they_are_silent_or_have_ended(fleet):
    fleet.worker("b-1-aa", seen=2)
    fleet.worker("a-1-bb", seen=29, serves=["acme"], doing=["calls 17 of acme", {"kind": "lookup", "batch": 3}], done=4)
    fleet.worker("a-2-cc", seen=31)
    fleet.worker("a-3-dd", seen=1, ended=1)
    found = seen(fleet.connection, 30)
    assert [(one.name, one.alive) for one in found.workers] == [
        ("a-1-bb", True),
        ("b-1-aa", True),
        ("a-2-cc", False),
        ("a-3-dd", False),
    ]
    first = found.workers[0]
    assert (first.host, first.serves, first.doing, first.done) == ("a", ("acme",), ("calls 17 of acme", "lookup 3"), 4)
    assert 595 < (found.at - first.since).total_seconds() < 660
    assert found.alive == 2


def test_takeovers_of_a_day_are_counted_with_who_took_over(fleet):
    fleet.worker("a-1-bb")
    for age in (60, 3_600, 90_000):
        fleet.takeover("a-1-bb/2f", age=age)
    fleet.takeover("somebody else")
    found = seen(fleet.connection, 30)
    assert (len(found.takeovers), found.takeovers_ever, found.workers[0].takeovers) == (3, 4, 2)
    newest = found.takeovers[0]
    assert (newest.shipper, newest.batch, newest.kind, newest.before, newest.unknown) == (
        "acme",
        4,
        "calls",
        "dead-1",
        3,
    )


def test_the_queue_is_told_by_shipper_and_kind_with_the_oldest_that_waits(fleet):
    for age in (10, 400):
        fleet.job("acme", "calls", age=age)
    fleet.job("acme", "calls", status="doing", age=9_000)
    fleet.job("acme", "calls", status="succeeded", age=90_000)
    fleet.job("bolt", "run", age=20)
    fleet.job("bolt", "lookup", status="doing")
    found = seen(fleet.connection, 30)
    assert [(one.shipper, one.kind, one.waiting, one.under_way) for one in found.queue] == [
        ("acme", "calls", 2, 1),
        ("bolt", "lookup", 0, 1),
        ("bolt", "run", 1, 0),
    ]
    assert 400 <= found.queue[0].oldest_s == found.oldest_s < 460
    assert found.queue[1].oldest_s == 0
    assert found.waiting == 3


def test_of_a_pace_is_told_what_is_leased_and_what_the_exchange_made_of_it(fleet):
    fleet.pace(wants=[("a", 20, 3)])
    fleet.pace(token="other", setback=(30.0, "429"))
    one, two = sorted(seen(fleet.connection, 30).paces, key=lambda pace: -pace.share)
    assert (one.exchange, one.per_second, one.connections, one.share, one.reason) == (
        "https://exchange.example",
        50,
        8,
        1,
        "",
    )
    assert 0 < one.leased_per_second <= 50
    assert (two.share < 1, two.reason, two.workers) == (True, "429", 0)
    assert 20 < two.paused_s <= 30


def test_where_nobody_worked_yet_there_is_nobody():
    settings = shared_settings()
    found = fleet_of(settings)
    assert (found.alive, found.waiting, found.oldest_s, list(found.workers)) == (0, 0, 0.0, [])
    with shared(settings.database_url, makes=True):
        assert fleet_of(settings).alive == 0


def test_a_ledger_of_one_process_has_no_fleet():
    assert fleet_of(Settings()) is None


def test_a_server_that_cannot_be_reached_is_said_without_the_password(tmp_path):
    with pytest.raises(LedgerGone) as gone:
        fleet_of(Settings(database=f"postgresql://me:hunter2@/there?host={tmp_path}"))
    assert gone.value.exit_code == 75
    assert "hunter2" not in str(gone.value)
    assert "try again when the server can be reached" in str(gone.value)

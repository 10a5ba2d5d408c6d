"""Schedules of a fleet on a real PostgreSQL: one firing however many machines look, and missed ones once."""

import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from shared_ledger import joined, shared_settings
from sqlalchemy import update

from loadsheet.cluster.timetable import tick
from loadsheet.ledger import ledger_tables
from loadsheet.ledger.codec import moment, stamp
from loadsheet.ledger.ledger_tables import shared_meta
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.cluster_status import read_status
from loadsheet.ledger.shared.jobs import SCHEDULE, request_run
from loadsheet.ledger.shared.mutual_exclusion import (
    DueMoment,
    ScheduleKey,
    begin_schedule,
    done_until,
    fire,
    forget_fires,
    last_fires,
    record_schedules,
)
from loadsheet.ledger.statements import database_time
from loadsheet.settings import Settings

MINUTELY = "* * * * *"
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture(scope="module")
def base():
    return shared_settings()


@pytest.fixture
def connection(base):
    with joined(base) as found:
        yield found
        found.execute(ledger_tables.fires.delete())
        found.execute(shared_meta.delete().where(shared_meta.c.name.regexp_match("^(schedule|looked)")))
        found.exec_driver_sql("delete from procrastinate_jobs")


@pytest.fixture
def daily(base, connection):
    """Settings whose schedule was due two minutes ago, and is due again tomorrow."""
    due = moment(database_time(connection)) - 2 * MINUTE
    return chosen(base, schedule=f"{due.minute} {due.hour} * * *", catch_up_s=7 * 86_400)


def chosen(base, **more):
    return Settings(database=base.database, database_schema=base.cluster.database_schema, **more)


def known_as(settings, shipper="acme"):
    return ScheduleKey(shipper, settings.schedules.timetable[0].name)


def was_done(connection, known, ago):
    """The fleet did all that was due until so long ago, to the full minute."""
    until = (moment(database_time(connection)) - ago).replace(second=0, microsecond=0)
    begin_schedule(connection, known, until)
    connection.execute(update(shared_meta).where(shared_meta.c.name.startswith("schedule")).values(value=stamp(until)))
    return until


def test_a_schedule_that_nobody_knew_begins_now_and_another_zone_is_another_schedule(daily, connection):
    assert tick(connection, {"acme": daily}, "a") == []
    assert tick(connection, {"acme": daily}, "a") == []
    ((known, since),) = done_until(connection).items()
    assert known == known_as(daily)
    assert abs(since - datetime.now(UTC)) < 5 * MINUTE
    assert last_fires(connection) == {}
    was_done(connection, known_as(daily), DAY / 2)
    elsewhere = chosen(daily, schedule=daily.schedules.cron, schedule_zone="Etc/GMT")
    assert tick(connection, {"acme": elsewhere}, "a") == []


def test_what_is_due_fires_once_and_missed_moments_with_it(daily, connection):
    was_done(connection, known_as(daily), 3 * DAY + 5 * MINUTE)
    (fired,) = tick(connection, {"acme": daily}, "a")
    assert (fired.shipper, fired.schedule, fired.due.caught_up) == ("acme", daily.schedules.timetable[0], 3)
    assert tick(connection, {"acme": daily}, "b") == []
    (fire,) = last_fires(connection).values()
    assert (fire.due, fire.by, fire.caught_up) == (fired.due.moment, "a", 3)
    assert done_until(connection) == {known_as(daily): fired.due.moment}


def test_each_shipper_has_a_schedule_of_its_own_and_an_age_up_to_which_it_is_caught_up(daily, connection):
    was_done(connection, known_as(daily, "acme"), 3 * DAY + 5 * MINUTE)
    was_done(connection, known_as(daily, "bolt"), 3 * DAY + 5 * MINUTE)
    late = chosen(daily, schedule=daily.schedules.cron, catch_up_s=0)
    found = tick(connection, {"bolt": daily, "acme": late, "idle": chosen(daily)}, "a")
    assert [(one.shipper, one.due.caught_up) for one in found] == [("acme", 0), ("bolt", 3)]


def test_machines_that_look_at_the_same_time_start_one_run(base, connection):
    """Five of them, again and again: of each round one wins, and of the missed moments none is run twice."""
    rounds, machines, settings = 4, 5, chosen(base, schedule=MINUTELY)
    for _ in range(rounds):
        until = was_done(connection, known_as(settings), timedelta(minutes=30))
        started, found = threading.Barrier(machines), []
        threads = [threading.Thread(target=_look, args=(settings, started, f"m{n}", found)) for n in range(machines)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        covered = sorted((one.due.moment - MINUTE * one.due.caught_up, one.due.moment) for one in found)
        assert covered[0][0] == until + MINUTE
        assert all(later[0] == earlier[1] + MINUTE for earlier, later in pairwise(covered))
        connection.execute(ledger_tables.fires.delete())


def _look(settings, started, name, found):
    with open_shared(settings.database_url) as engine, engine.connect() as connection:
        started.wait()
        with connection.begin():
            found += tick(connection, {"acme": settings}, name)


def test_who_was_slower_starts_nothing_and_what_was_done_is_known_longer_than_by_whom(daily, connection):
    known = known_as(daily, "")
    until = was_done(connection, known, timedelta(minutes=10))
    assert fire(connection, known, DueMoment(until + MINUTE, until), "a")
    assert not fire(connection, known, DueMoment(until + MINUTE, until), "b")
    assert not fire(connection, known, DueMoment(until + 2 * MINUTE, until, 1), "b")
    assert fire(connection, known, DueMoment(until + 2 * MINUTE, until + MINUTE), "b")
    assert forget_fires(connection) == 0
    connection.execute(ledger_tables.fires.update().values(at=database_time(connection) - 401 * 86_400))
    assert forget_fires(connection) == 2
    assert done_until(connection) == {known: until + 2 * MINUTE}


def test_a_run_is_in_the_queue_with_its_fire_or_neither_is(daily, connection):
    was_done(connection, known_as(daily), DAY / 2)
    with open_shared(daily.database_url) as engine, engine.connect() as other:
        transaction = other.begin()
        assert tick(other, {"acme": daily}, "a")
        transaction.rollback()
        assert last_fires(connection) == {}
        with other.begin():
            (fired,) = tick(other, {"acme": daily}, "b")
            address = address_of(chosen(daily, shipper="acme").database_url)
            request_run(other, address, SCHEDULE, stamp(fired.due.moment))
    (queued,) = read_status(connection, 30).queue
    assert (queued.shipper, queued.reason, queued.waiting) == ("acme", "schedule", 1)


def looked(connection, settings, hours_ago, *schedules):
    """Somebody looked after the shipper so long ago, with these schedules and not those of the settings."""
    now = moment(database_time(connection))
    names = schedules or [one.name for one in settings.schedules.timetable]
    record_schedules(connection, {"acme": names}, now - timedelta(hours=hours_ago))


OTHER = ("0 1 * * * UTC",)


@pytest.mark.parametrize(
    ("looks", "due"),
    [
        ([(9, ()), (6, OTHER), (3, OTHER)], 0),  # it came back, and has missed nothing
        (
            [(ago, which) for hours in range(9, 0, -1) for ago, which in ((hours, OTHER), (hours - 0.1, ()))],
            1,
        ),  # both look
        ([(20, ()), (0, OTHER)], 1),  # nobody was there; whichever comes first
    ],
)
def test_machines_with_different_schedules_take_nothing_from_each_other(daily, connection, looks, due):
    was_done(connection, known_as(daily), DAY)
    for hours_ago, schedules in looks:
        assert known_as(daily) in done_until(connection)
        looked(connection, daily, hours_ago, *schedules)
    assert len(tick(connection, {"acme": daily}, "w1")) == due
    assert done_until(connection)[known_as(daily)] > moment(database_time(connection)) - 3 * MINUTE

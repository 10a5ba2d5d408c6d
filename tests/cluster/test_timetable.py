"""Schedules: a watch or one of a fleet runs although no file came, each moment once, also when the process was away or was killed."""

import os
import shutil
import signal
import sqlite3
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from databases import KINDS, new_url
from exchange_process import exchange
from inbox_files import settings_in
from ledgers import Ticking
from orders import MAPPINGS
from shared_ledger import joined, shared_settings
from sqlalchemy import update
from watch_process import watching

from loadsheet.cluster.timetable import SharedTimetable, Timetable, tick
from loadsheet.errors import ExchangeUnreachable
from loadsheet.inbox_watch import WakeEvents, Watch, WatchedRun, watch
from loadsheet.ledger import ledger_tables, open_ledger
from loadsheet.ledger.codec import stamp, utc_from_seconds
from loadsheet.ledger.ledger_tables import database_time, shared_meta
from loadsheet.ledger.postgres import address_of
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.cluster_status import read_status
from loadsheet.ledger.shared.jobs import SCHEDULE, request_run
from loadsheet.ledger.shared.mutual_exclusion import (
    DueMoment,
    ScheduleKey,
    begin_schedule,
    delete_old_starts,
    done_until,
    last_starts,
    record_firing,
    record_schedules,
)
from loadsheet.settings import Settings

NIGHTLY = "30 21 * * *"
FAST = {"settle_s": 0.1, "poll_s": 0.05, "rescan_s": 30, "retry_s": 0.02, "retry_max_s": 0.1}


@pytest.fixture
def clock():
    found = Ticking()
    found.now = datetime(2026, 3, 4, 20, 0, tzinfo=UTC)
    return found


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    return new_url(request.param, tmp_path)


def at(text):
    return datetime.fromisoformat(f"2026-03-{text}:00+00:00")


@contextmanager
def timetable_of(tmp_path, clock, **settings):
    """The timetable of a watch that begins now, and ends with the block."""
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", clock=clock) as ledger:
        yield Timetable(Settings(**settings), ledger, clock)


def test_a_run_is_due_at_its_moment_and_after_it_not_until_the_next(tmp_path, clock):
    with timetable_of(tmp_path, clock, schedule=NIGHTLY) as timetable:
        assert timetable.due_s() == pytest.approx(5_400, abs=1)
        clock.now = at("04T21:30")
        assert timetable.due_s() == 0
        assert timetable.late() == ""
        timetable.record_run(clock())
        assert timetable.due_s() == pytest.approx(86_400, abs=1)
        clock.now = at("05T21:40")
        timetable.record_run(at("05T21:29"))
        assert timetable.due_s() == 0, "a run that began before the moment does not stand for it"


def test_what_was_missed_while_nobody_watched_is_caught_up_once_and_reported(url, clock):
    settings = Settings(schedule=[NIGHTLY, "0 6 * * Mon"])
    with open_ledger(url, clock=clock) as ledger:
        assert Timetable(settings, ledger, clock).due() == {}
    clock.now = at("05T12:00")
    for times in (1, 0):
        with open_ledger(url, clock=clock) as ledger:
            timetable = Timetable(settings, ledger, clock)
            assert len(timetable.due()) == times
            assert (timetable.late() == "30 21 * * * UTC was due Wed 2026-03-04 21:30") == bool(times)
            timetable.record_run(clock())
    clock.now = at("07T12:00")
    with open_ledger(url, clock=clock) as ledger:
        timetable = Timetable(Settings(schedule=NIGHTLY, catch_up_s=7 * 86_400), ledger, clock)
        assert timetable.late() == "30 21 * * * UTC was due Fri 2026-03-06 21:30 (1 missed before it)"


def test_without_catching_up_only_what_came_while_it_was_busy_is_due(tmp_path, clock):
    settings = {"schedule": NIGHTLY, "catch_up_s": 0}
    with timetable_of(tmp_path, clock, **settings):
        pass
    clock.now = at("05T12:00")
    with timetable_of(tmp_path, clock, **settings) as timetable:
        assert timetable.due() == {}
        clock.now = at("06T02:00")  # a run of another shipper took so long
        assert len(timetable.due()) == 1


def test_a_schedule_that_is_new_or_came_back_has_missed_nothing_and_without_one_nothing_is_kept(tmp_path, clock):
    with timetable_of(tmp_path, clock) as timetable:
        timetable.record_run(clock())
        assert timetable.due_s() is None
    for schedule in (NIGHTLY, "0 1 * * *", NIGHTLY):
        with timetable_of(tmp_path, clock, schedule=schedule) as timetable:
            assert timetable.due() == {}
        clock.pass_time(20 * 3_600)


def test_of_several_watches_of_a_shared_ledger_one_runs(tmp_path):
    settings = shared_settings(schedule="0 * * * *", shipper="acme")
    now = [0.0]
    watches = [SharedTimetable(settings, name, lambda: now[0]) for name in ("a", "b")]
    assert all(1e-3 < one.due_s() <= 60 for one in watches), "the schedule begins now"
    with joined(settings) as connection:
        mark = update(shared_meta).where(shared_meta.c.name.startswith("schedule"))
        before = clock_of_the_database(connection).replace(second=0, microsecond=0) - timedelta(hours=5)
        connection.execute(mark.values(value=stamp(before)))
        now[0] += 60
        first, second = (one.due_s() for one in watches)
        assert first == 0 < second
        assert "missed before it" in watches[0].late()
        assert watches[0].due_s() == 0, "until it ran"
        watches[0].record_run(datetime.now(UTC))
        assert watches[0].due_s() > 0
        assert [fire.by for fire in last_starts(connection).values()] == ["a"]
    away = Settings(database=f"postgresql://me@/there?host={tmp_path}", schedule=NIGHTLY)
    assert SharedTimetable(away, "a").due_s() == pytest.approx(60, abs=1), "it goes on while the ledger is away"
    assert SharedTimetable(Settings(database=away.database), "a").due_s() is None


def clock_of_the_database(connection):
    return utc_from_seconds(database_time(connection))


def test_a_watch_runs_when_it_is_time_and_tries_again_what_could_not_go_on(tmp_path, clock):
    place, ran = settings_in(tmp_path, **FAST), []
    clock.now = datetime(2026, 3, 4, 20, 0, 30, tzinfo=UTC)
    with open_ledger(new_url("sqlite", tmp_path), clock=clock) as ledger:
        timetable = Timetable(Settings(schedule="* * * * *"), ledger, clock)

        def run():
            began = clock()
            ran.append(began)
            if len(ran) < 3:
                return WatchedRun(75, ExchangeUnreachable("nobody there"))
            timetable.record_run(began)
            os.kill(os.getpid(), signal.SIGTERM)
            return WatchedRun(0, None)

        clock.pass_time(60)
        with WakeEvents([place], print) as wake_events:
            watch([Watch(place, run, lambda: 0, lambda _: None, scheduled_s=timetable.due_s)], wake_events)
    assert len(ran) == 3
    assert timetable.due() == {}


def test_the_command_runs_by_schedule_and_remembers_it_when_it_is_started_again(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "inbox").mkdir()
    yesterday = datetime.now(UTC) - timedelta(hours=23)
    (tmp_path / "loadsheet.toml").write_text(f'schedules.cron = "{yesterday.minute} {yesterday.hour} * * *"\n')
    with watching(tmp_path) as watch:
        watch.until(lambda: watch.says("watching"))
        assert watch.stop() == 0
    assert watch.out == []
    ledger = tmp_path / ".loadsheet" / "ledger.db"
    (name,) = Settings.load(tmp_path / "loadsheet.toml").schedules.timetable
    with closing(sqlite3.connect(ledger)) as opened, opened:  # as if it had been away since the day before yesterday
        before = stamp(yesterday - timedelta(days=1))
        opened.execute("update meta set value = json_object(?, ?) where name = 'schedules'", (name.name, before))
    with watching(tmp_path) as watch:
        watch.until(lambda: len(watch.out) == 1)
        assert watch.says(f"catching up: {name.name} was due ")
        assert watch.stop() == 0
    with closing(sqlite3.connect(ledger)) as opened:
        (kept,) = opened.execute("select value from meta where name = 'schedules'").fetchone()
    assert stamp(yesterday)[:16] in kept


def test_the_command_runs_by_schedule_where_the_ledger_is_shared(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "inbox").mkdir()
    cron = f"0 {(datetime.now(UTC) - timedelta(hours=2)).hour} * * *"  # due for more than an hour, whenever this is
    settings = shared_settings(schedule=cron)
    (tmp_path / "loadsheet.toml").write_text(
        f'database = "{settings.database}"\ncluster.database_schema = "{settings.cluster.database_schema}"\nschedules.cron = "{cron}"\n'
    )
    with joined(settings) as connection:
        two_days = clock_of_the_database(connection) - timedelta(days=2)
        begin_schedule(connection, ScheduleKey("", settings.schedules.timetable[0].name), two_days)
        with exchange(tmp_path / "exchange.db") as there, watching(tmp_path, "--exchange", there.url) as watch:
            watch.until(lambda: len(watch.out) == 1)
            assert watch.says(f"catching up: {cron} UTC was due ")
            assert watch.stop() == 0
        ((known, fire),) = last_starts(connection).items()
    assert (known.shipper, fire.by.partition(" ")[0]) == ("", "process")
    assert "exit code 0" in watch.out[0]


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
    due = utc_from_seconds(database_time(connection)) - 2 * MINUTE
    return chosen(base, schedule=f"{due.minute} {due.hour} * * *", catch_up_s=7 * 86_400)


def chosen(base, **more):
    return Settings(database=base.database, database_schema=base.cluster.database_schema, **more)


def known_as(settings, shipper="acme"):
    return ScheduleKey(shipper, settings.schedules.timetable[0].name)


def was_done(connection, known, ago):
    """The fleet did all that was due until so long ago, to the full minute."""
    until = (utc_from_seconds(database_time(connection)) - ago).replace(second=0, microsecond=0)
    begin_schedule(connection, known, until)
    connection.execute(update(shared_meta).where(shared_meta.c.name.startswith("schedule")).values(value=stamp(until)))
    return until


def test_a_schedule_that_nobody_knew_begins_now_and_another_zone_is_another_schedule(daily, connection):
    assert tick(connection, {"acme": daily}, "a") == []
    assert tick(connection, {"acme": daily}, "a") == []
    ((known, since),) = done_until(connection).items()
    assert known == known_as(daily)
    assert abs(since - datetime.now(UTC)) < 5 * MINUTE
    assert last_starts(connection) == {}
    was_done(connection, known_as(daily), DAY / 2)
    elsewhere = chosen(daily, schedule=daily.schedules.cron, schedule_zone="Etc/GMT")
    assert tick(connection, {"acme": elsewhere}, "a") == []


def test_what_is_due_fires_once_and_missed_moments_with_it(daily, connection):
    was_done(connection, known_as(daily), 3 * DAY + 5 * MINUTE)
    (fired,) = tick(connection, {"acme": daily}, "a")
    assert (fired.shipper, fired.schedule, fired.due.caught_up) == ("acme", daily.schedules.timetable[0], 3)
    assert tick(connection, {"acme": daily}, "b") == []
    (fire,) = last_starts(connection).values()
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
    assert record_firing(connection, known, DueMoment(until + MINUTE, until), "a")
    assert not record_firing(connection, known, DueMoment(until + MINUTE, until), "b")
    assert not record_firing(connection, known, DueMoment(until + 2 * MINUTE, until, 1), "b")
    assert record_firing(connection, known, DueMoment(until + 2 * MINUTE, until + MINUTE), "b")
    assert delete_old_starts(connection) == 0
    connection.execute(ledger_tables.fires.update().values(at=database_time(connection) - 401 * 86_400))
    assert delete_old_starts(connection) == 2
    assert done_until(connection) == {known: until + 2 * MINUTE}


def test_a_run_is_in_the_queue_with_its_fire_or_neither_is(daily, connection):
    was_done(connection, known_as(daily), DAY / 2)
    with open_shared(daily.database_url) as engine, engine.connect() as other:
        transaction = other.begin()
        assert tick(other, {"acme": daily}, "a")
        transaction.rollback()
        assert last_starts(connection) == {}
        with other.begin():
            (fired,) = tick(other, {"acme": daily}, "b")
            address = address_of(chosen(daily, shipper="acme").database_url)
            request_run(other, address, SCHEDULE, stamp(fired.due.moment))
    (queued,) = read_status(connection, 30).queue
    assert (queued.shipper, queued.reason, queued.waiting) == ("acme", "schedule", 1)


def looked(connection, settings, hours_ago, *schedules):
    """Somebody looked after the shipper so long ago, with these schedules and not those of the settings."""
    now = utc_from_seconds(database_time(connection))
    names = schedules or [one.name for one in settings.schedules.timetable]
    record_schedules(connection, {"acme": names}, now - timedelta(hours=hours_ago))


OTHER = ("0 1 * * * UTC",)


@pytest.mark.parametrize(
    ("looks", "due"),
    [
        ([(4.5, ()), (3, OTHER), (1.5, OTHER)], 0),  # it came back, and has missed nothing
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
    assert done_until(connection)[known_as(daily)] > utc_from_seconds(database_time(connection)) - 3 * MINUTE

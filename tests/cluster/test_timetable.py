"""Schedules of a watch: runs take place although no file came, each once, also when the process was away or was killed."""

import os
import shutil
import signal
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from databases import KINDS, new_url
from exchange_process import exchange
from inbox_files import settings_in
from ledgers import Ticking
from orders import MAPPINGS
from shared_ledger import joined, shared_settings
from sqlalchemy import update
from watch_process import watching

from loadsheet.cluster.timetable import SharedTimetable, Timetable
from loadsheet.inbox_watch import WakeEvents, Watch, WatchedRun, watch
from loadsheet.ledger import open_ledger
from loadsheet.ledger.codec import moment, stamp
from loadsheet.ledger.ledger_tables import shared_meta
from loadsheet.ledger.shared.mutual_exclusion import ScheduleKey, begin_schedule, last_fires
from loadsheet.ledger.statements import database_time
from loadsheet.problems import ExchangeUnreachable
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


def test_what_was_missed_while_nobody_watched_is_caught_up_once_and_said(url, clock):
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
        assert [fire.by for fire in last_fires(connection).values()] == ["a"]
    away = Settings(database=f"postgresql://me@/there?host={tmp_path}", schedule=NIGHTLY)
    assert SharedTimetable(away, "a").due_s() == pytest.approx(60, abs=1), "it goes on while the ledger is away"
    assert SharedTimetable(Settings(database=away.database), "a").due_s() is None


def clock_of_the_database(connection):
    return moment(database_time(connection))


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
        ((known, fire),) = last_fires(connection).items()
    assert (known.shipper, fire.by.partition(" ")[0]) == ("", "process")
    assert "exit code 0" in watch.out[0]

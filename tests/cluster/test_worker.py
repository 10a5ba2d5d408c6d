"""Workers do the runs of the ledgers they serve, share them, and put back what could not be done."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import databases
import pytest
from worker_processes import began, house, until, want, working

from loadsheet.cluster.worker_process import Housekeeping
from loadsheet.errors import LedgerBusy, LedgerError, SettingsError
from loadsheet.ledger import open_ledger
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared import cluster_status, jobs
from loadsheet.ledger.shared.mutual_exclusion import ScheduleKey, begin_schedule

STATES = "select status::text from procrastinate_jobs order by id"


def serve_once(folder, *only):
    with working(folder, *only, once=True) as worker:
        assert worker.ended() == 0
    return worker


def test_several_workers_share_the_runs_of_their_shippers(tmp_path, database_url, ask):
    (tmp_path / "hold").touch()
    found = house(tmp_path, database_url, "acme", "bolt", "zeta")
    with working(tmp_path, places=1) as one, working(tmp_path, places=1) as other:
        for settings in found.values():
            want(settings)
        until(lambda: len(began(tmp_path)) == 2, worker=one)
        assert ask("select count(*) from procrastinate_jobs where status = 'todo'") == [(1,)]  # no place is free for it
        (tmp_path / "hold").unlink()
        until(lambda: ask(STATES) == [("succeeded",)] * 3, worker=other)
    assert (one.code, other.code) == (0, 0)
    assert sorted(shipper for shipper, _ in began(tmp_path)) == ["acme", "bolt", "zeta"]


def test_of_one_shipper_one_run_is_done_at_a_time_and_one_waits_at_most(tmp_path, acme, ask):
    (tmp_path / "hold").touch()
    with working(tmp_path, places=2) as one, working(tmp_path, places=2):
        want(acme)
        until(lambda: began(tmp_path), worker=one)
        for _ in range(3):
            want(acme)
        assert ask("select count(*) from procrastinate_jobs") == [(2,)]
        assert len(began(tmp_path)) == 1
        (tmp_path / "hold").unlink()
        until(lambda: ask(STATES) == [("succeeded",)] * 2, worker=one)
    assert len(began(tmp_path)) == 2


def test_a_run_whose_ledger_another_process_holds_waits_for_it_and_keeps_no_place(tmp_path, database_url, ask):
    found = house(tmp_path, database_url, "acme", "zeta")
    with open_ledger(found["acme"].database_url), working(tmp_path, places=1) as worker:
        want(found["acme"])
        until(lambda: ask("select scheduled_at is not null from procrastinate_jobs") == [(True,)], worker=worker)
        want(found["zeta"])
        until(lambda: [shipper for shipper, _ in began(tmp_path)] == ["zeta"], worker=worker)
    with working(tmp_path, places=1) as worker:
        until(lambda: [shipper for shipper, _ in began(tmp_path)] == ["zeta", "acme"], worker=worker)
        until(lambda: ask(STATES) == [("succeeded",)] * 2, worker=worker)


def test_a_worker_that_stops_hands_back_at_once(tmp_path, database_url, ask):
    acme = house(tmp_path, database_url, "acme", takeover_s=60.0)["acme"]
    (tmp_path / "hold").touch()
    want(acme)
    with working(tmp_path) as first:
        until(lambda: began(tmp_path), worker=first)
        with working(tmp_path) as second:
            assert first.stop() == 0
            until(lambda: len(began(tmp_path)) == 2, worker=second)
            (tmp_path / "hold").unlink()
            until(lambda: ask(STATES) == [("succeeded",)], worker=second)
    assert "other workers or the next start do the remaining runs" in first.said[-1]


def test_a_fault_is_reported_and_the_run_is_tried_again(tmp_path, database_url, ask):
    found = house(tmp_path, database_url, "acme", "zeta")
    faults = {"acme": ZeroDivisionError("1/0"), "zeta": LedgerError("the ledger is upside down")}

    def run(settings, _due, _stopping):
        if settings.shipper in faults:
            raise faults.pop(settings.shipper)

    for settings in found.values():
        want(settings)
    with working(tmp_path, run=run) as worker:
        until(lambda: ask(STATES) == [("succeeded",)] * 2, worker=worker)
    ours, ledgers = sorted(worker.said[1:3])
    assert ours.startswith("the run of acme: an internal error (ZeroDivisionError)")
    assert ours.endswith("it is retried in 1 s")
    assert ledgers == "the run of zeta: the ledger is upside down; it is retried in 1 s"
    assert "1/0" in Path(ours.split("traceback is in ")[1].split(";")[0]).read_text(encoding="utf-8")
    assert ask("select distinct attempts from procrastinate_jobs") == [(2,)]


def test_a_job_that_nobody_does_although_the_queue_says_so_is_done(tmp_path, database_url, ask):
    found = house(tmp_path, database_url, "acme", "zeta", takeover_s=1.0)  # as often they are looked for
    (tmp_path / "hold").touch()
    want(found["acme"])
    with working(tmp_path) as worker:
        until(lambda: began(tmp_path), worker=worker)
        ask("update procrastinate_workers set last_heartbeat = last_heartbeat")
        want(found["zeta"])
        ask(  # as when the queue's answer was lost on its way to the worker that is to do the job now
            "update procrastinate_jobs set status = 'doing', worker_id = (select max(worker_id) from procrastinate_jobs"
            " where status = 'doing') where args ->> 'shipper' = 'zeta' and status = 'todo'"
        )
        (tmp_path / "hold").unlink()
        until(lambda: ask(STATES) == [("succeeded",)] * 2, worker=worker)


def test_a_run_that_died_is_wanted_again_once_and_one_that_goes_on_or_has_ended_is_not(acme, ask, engine):
    address = address_of(acme.database_url)
    with open_ledger(acme.database_url) as ledger:
        run = ledger.begin_run()
        assert jobs.request_runs_after_death(engine, [address], 30.0) == 0
        ledger.end_run(run, exit_code=0, summary={})
    assert jobs.request_runs_after_death(engine, [address], 0.0) == 0
    with open_ledger(acme.database_url) as ledger:
        ledger.begin_run()
    ask("update shared_meta set value = '0' where name like 'swept%'")  # as an hour later
    assert [jobs.request_runs_after_death(engine, [address], every_s) for every_s in (60.0, 60.0, 0.0)] == [1, 0, 0]
    assert ask("select args ->> 'reason', args ->> 'shipper' from procrastinate_jobs") == [("resend", "acme")]
    ask("update procrastinate_jobs set status = 'failed'")
    assert jobs.request_runs_after_death(engine, [address], 0.0) == 0  # whatever became of it


def test_a_worker_of_one_shipper_leaves_the_others_runs(tmp_path, database_url, ask):
    for settings in house(tmp_path, database_url, "acme", "zeta").values():
        want(settings)
    serve_once(tmp_path, "ZETA")
    assert ask("select serves from workers") == [('["zeta"]',)]
    assert [shipper for shipper, _ in began(tmp_path)] == ["zeta"]
    assert ask(STATES) == [("todo",), ("succeeded",)]


def test_settings_are_read_again_when_asked_and_wrong_ones_change_nothing(tmp_path, database_url):
    acme = house(tmp_path, database_url, "acme")["acme"]
    with working(tmp_path) as worker:
        until(lambda: worker.said, worker=worker)
        (tmp_path / "loadsheet.toml").write_text("database = 7", encoding="utf-8")
        worker.reread.set()
        until(lambda: any("the previous settings stay" in text for text in worker.said), worker=worker)
        want(acme)
        until(lambda: len(began(tmp_path)) == 1, worker=worker)
        zeta = house(tmp_path, database_url, "acme", "zeta")["zeta"]
        want(zeta)
        worker.reread.set()
        until(lambda: len(began(tmp_path)) == 2, worker=worker)


def test_wrong_settings_of_one_shipper_are_nobody_elses_affair_but_two_databases_are_refused(tmp_path, acme):
    file = tmp_path / "loadsheet.toml"
    fleet = file.read_text(encoding="utf-8")
    file.write_text(f"{fleet}[shippers.zeta]\narrival.settle_s = 'soon'\n", encoding="utf-8")
    want(acme)
    worker = serve_once(tmp_path)
    assert began(tmp_path)
    assert any("zeta" in text and "settle_s" in text for text in worker.said)
    file.write_text(f"{fleet}[shippers.zeta]\ndatabase = '{databases.database()}'\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"acme, zeta are in several databases.*--only"), working(tmp_path):
        pass


def test_a_worker_stands_in_the_register_while_it_lives(tmp_path, database_url, ask, engine):
    def living(shipper):
        with engine.connect() as connection:
            return cluster_status.alive_workers(connection, 60.0, shipper)

    acme = house(tmp_path, database_url, "acme", takeover_s=2.0)["acme"]  # a sign of life each half second
    (tmp_path / "hold").touch()
    want(acme)
    with working(tmp_path, places=3) as worker:
        until(lambda: ask("select doing from workers") == [('["acme run (files)"]',)], worker=worker)
        (name,) = living("acme")
        assert living("zeta") == []
        (tmp_path / "hold").unlink()
        until(lambda: ask("select doing, done, places from workers") == [("[]", 1, 3)], worker=worker)
    assert ask("select name, ended is not null from workers") == [(name, True)]
    assert living("acme") == []


# runs of schedules


def scheduled(tmp_path, database_url):
    """A shipper whose schedule was due ten minutes ago and was looked at an hour before that, and not since: its settings and the moment."""
    then = (datetime.now(UTC) - timedelta(minutes=10)).replace(second=0, microsecond=0)
    acme = house(tmp_path, database_url, "acme", **{"schedules.cron": f"{then.minute} {then.hour} * * *"})["acme"]
    engine = shared_engine(address_of(acme.database_url))
    with engine.begin() as connection:
        begin_schedule(connection, ScheduleKey("acme", acme.schedules.timetable[0].name), then - timedelta(hours=1))
    engine.dispose()
    return acme, then


def test_settings_that_are_read_again_while_schedules_are_looked_at_do_no_harm(tmp_path, database_url, ask):
    acme, _ = scheduled(tmp_path, database_url)
    changing = SimpleNamespace(by_shipper={"acme": acme}, addresses={})  # acme is served no more, since just now
    engine = shared_engine(address_of(acme.database_url))
    me = cluster_status.WorkerInfo("me", "here", 1, "1", (), 1)
    kept = Housekeeping(engine, changing, None, me, acme.cluster)
    kept._tick()
    engine.dispose()
    assert ask("select args ->> 'shipper' from procrastinate_jobs") == [("acme",)]


def test_a_run_that_is_due_is_started_once_by_one_of_the_workers(tmp_path, database_url, ask):
    _, then = scheduled(tmp_path, database_url)
    ran = []

    def run(settings, moment, stopping):
        ran.append((settings.shipper, moment, stopping.is_set()))

    with working(tmp_path, run=run) as one, working(tmp_path, run=run) as other:
        until(lambda: ran, worker=one)
        until(lambda: ask(STATES) == [("succeeded",)], worker=other)
    assert ran == [("acme", then, False)]
    assert ask("select count(*) from fires") == [(1,)]


def test_a_run_that_cannot_go_on_now_is_tried_as_long_as_it_would_be_caught_up(tmp_path, acme, ask):
    ran = []
    want(acme, due=datetime.now(UTC) - timedelta(hours=1))
    ask("update procrastinate_jobs set attempts = 9")

    def run(_settings, moment, _stopping):
        ran.append(moment)
        raise LedgerBusy("the run of acme could not continue")

    with working(tmp_path, run=run) as worker:
        for times in (1, 2):
            until(lambda times=times: len(ran) == times, worker=worker)
            until(lambda: ask(STATES) == [("todo",)], worker=worker)
            later = "select attempts, scheduled_at > now() + interval '9 seconds' from procrastinate_jobs"
            assert ask(later) == [(9, True)]
            ask("update procrastinate_jobs set scheduled_at = now()")  # the queue looks every few seconds
        (told,) = [text for text in worker.said if "could not continue" in text]
        assert told.startswith("the run of acme that was due ")
        assert "; it is retried, after pauses of up to 5 minutes, until " in told
        ask("delete from procrastinate_jobs")
        want(acme, due=datetime.now(UTC) - timedelta(days=2))
        until(lambda: ask("select status::text, attempts from procrastinate_jobs") == [("todo", 1)], worker=worker)
        ask("update procrastinate_jobs set attempts = 9, scheduled_at = now()")
        until(lambda: ask(STATES) == [("failed",)], worker=worker)
    assert any(text.endswith("it is not retried") for text in worker.said)


def test_a_run_that_waits_to_be_tried_again_is_that_of_the_moment_that_comes_next(acme, ask):
    then = datetime.now(UTC) - timedelta(hours=1)
    want(acme, due=then - timedelta(days=1))
    ask("update procrastinate_jobs set attempts = 9, scheduled_at = now() + interval '4 minutes'")
    for _ in range(2):  # the second finds that one waits
        want(acme, due=then, reason=jobs.SCHEDULE)
    told = "select args ->> 'due', args ->> 'reason', attempts, scheduled_at from procrastinate_jobs"
    assert ask(told) == [(stamp(then), "schedule", 0, None)]


def test_old_jobs_workers_and_takeovers_are_removed(tmp_path, database_url, ask):
    for settings in house(tmp_path, database_url, "acme", "zeta").values():
        want(settings)
    serve_once(tmp_path)
    ask("update procrastinate_events set at = at - interval '8 days' where job_id = 1")
    ask("update workers set seen = seen - 8 * 86400")
    ask("update shared_meta set value = '0' where name = 'swept '")  # as an hour later
    ask("insert into takeovers (at, shipper, before, after) values (1, 'acme', 'a', 'b')")
    serve_once(tmp_path)
    assert ask("select id from procrastinate_jobs") == [(2,)]
    assert ask("select (select count(*) from takeovers), (select count(*) from workers)") == [(0, 1)]


def test_names_of_queues_fit_into_the_channels_that_tell_of_them(tmp_path, database_url):
    """PostgreSQL refuses to notify on a channel of more than 63 letters."""
    long = "shipper_with_a_long_name_as_they_come"
    names = [jobs.queue_of(f"loadsheet_{long}{end}") for end in ("_a", "_b")]
    assert len(set(names)) == 2
    assert max(map(len, names)) <= 63 - len("procrastinate_queue_v1#")
    assert jobs.queue_of("loadsheet_acme") == "runs:loadsheet_acme"
    want(house(tmp_path, database_url, long)[long])
    serve_once(tmp_path)
    assert [shipper for shipper, _ in began(tmp_path)] == [long]


def test_a_ledger_without_shippers_is_served(tmp_path, database_url, ask):
    want(house(tmp_path, database_url)[""])
    serve_once(tmp_path)
    assert ask(STATES) == [("succeeded",)]
    assert ask("select serves from workers") == [('[""]',)]

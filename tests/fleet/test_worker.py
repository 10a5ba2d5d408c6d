"""Workers take batches of the ledgers they serve, share them, and put back what they could not do."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import databases
import pytest
import ready_entries
from ledgers import ledger_at
from worker_processes import answer, hand_out, house, labor, took, until, working

from loadsheet.dispatch import Delivered, Listings, Patience
from loadsheet.fleet.housekeeping import Housekeeping
from loadsheet.fleet.outage import Outage
from loadsheet.fleet.worker import inside
from loadsheet.ledger.batches import Kind
from loadsheet.ledger.codec import stamp
from loadsheet.ledger.postgres import address_of, shared_engine
from loadsheet.ledger.shared import fires, jobs, recovery, workers
from loadsheet.ledger.shared.fires import Known
from loadsheet.problems import ExchangeUnreachable, LedgerBusy, LedgerError, SettingsError, Superseded
from loadsheet.stages import Work, account


@pytest.fixture
def engine(acme):
    found = shared_engine(address_of(acme.database_url))
    yield found
    found.dispose()


def serve_once(folder, *only):
    with working(folder, *only, once=True) as worker:
        assert worker.ended() == 0
    return worker


def test_several_workers_do_what_is_handed_out_before_and_after_they_began(tmp_path, acme):
    (tmp_path / "hold").touch()
    made = hand_out(acme, 1, Kind.CALLS)
    with working(tmp_path, places=1) as one, working(tmp_path, places=2) as other:
        made += hand_out(acme, 2, Kind.CALLS)
        until(lambda: len(took(tmp_path)) == 3, worker=one)
        made += hand_out(acme, 1, Kind.RECONCILIATION)
        until(lambda: len(took(tmp_path)) == 4, worker=one)  # others than calls have places of their own
        (tmp_path / "hold").unlink()
        until(lambda: all(answer(acme, batch) for batch in made), worker=other)
    assert (one.code, other.code) == (0, 0)
    names = [name.split("/")[0] for batch, name in took(tmp_path) if batch in made[:3]]
    assert sorted(names.count(name) for name in set(names)) == [1, 2]


def test_a_worker_that_stops_hands_back_at_once(tmp_path, database_url):
    acme = house(tmp_path, database_url, "acme", takeover_s=60.0)["acme"]
    (tmp_path / "hold").touch()
    (batch,) = hand_out(acme)
    with working(tmp_path) as first:
        until(lambda: took(tmp_path), worker=first)
        with working(tmp_path) as second:
            assert first.stop() == 0
            until(lambda: len(took(tmp_path)) == 2, worker=second)
            (tmp_path / "hold").unlink()
            until(lambda: answer(acme, batch), worker=second)
    assert "what is left is for others" in first.said[-1]


def test_a_fault_is_told_and_the_batch_is_tried_again(tmp_path, acme, ask):
    made = hand_out(acme, 2)
    faults = dict(zip(made, (ZeroDivisionError("1/0"), LedgerError("the ledger is upside down")), strict=True))

    def work(settings, batch, hand):
        if batch in faults:
            raise faults.pop(batch)
        labor(tmp_path)(settings, batch, hand)

    with working(tmp_path, work=work) as worker:
        until(lambda: all(answer(acme, batch) for batch in made), worker=worker)
    ours, ledgers = worker.said[1:3]
    assert f"batch {made[0]} of acme: a fault of our own (ZeroDivisionError)" in ours
    assert ours.endswith("it is tried again in 1 s")
    assert ledgers == f"batch {made[1]} of acme: the ledger is upside down; it is tried again in 1 s"
    assert "1/0" in Path(ours.split("traceback is in ")[1].split(";")[0]).read_text(encoding="utf-8")
    assert ask("select distinct status::text, attempts from procrastinate_jobs") == [("succeeded", 2)]


def test_jobs_that_were_lost_given_up_or_in_nobodys_hand_are_made_anew_while_their_batches_are_open(
    tmp_path, database_url, ask
):
    acme = house(tmp_path, database_url, "acme", takeover_s=1.0)["acme"]  # as often they are looked for
    failing, lost = hand_out(acme, 2)
    ask("update procrastinate_jobs set attempts = 9")
    ask(f"delete from procrastinate_jobs where args ->> 'batch' = '{lost}'")
    faults = [LedgerError("the ledger is upside down")]

    def work(settings, batch, hand):
        if batch == failing and faults:
            raise faults.pop()
        labor(tmp_path)(settings, batch, hand)

    (tmp_path / "hold").touch()
    with working(tmp_path, work=work) as worker:
        until(lambda: took(tmp_path), worker=worker)
        (late,) = hand_out(acme)
        ask(  # as when the queue's answer was lost on its way to the worker that is to do the job now
            "update procrastinate_jobs set status = 'doing', worker_id = (select max(worker_id) from procrastinate_jobs"
            f" where status = 'doing') where args ->> 'batch' = '{late}' and status = 'todo'"
        )
        (tmp_path / "hold").unlink()
        until(lambda: all(answer(acme, batch) for batch in (failing, lost, late)), worker=worker)
    assert f"batch {failing} of acme: the ledger is upside down; it is given up for now" in worker.said


def test_of_several_one_sweeps_a_ledger_at_a_time(acme, ask, engine):
    address = address_of(acme.database_url)
    hand_out(acme)
    ask("delete from procrastinate_jobs")
    assert [recovery.sweep(engine, [address], 60.0) for _ in range(2)] == [1, 0]
    ask("delete from procrastinate_jobs")
    assert [recovery.sweep(engine, [address], every_s) for every_s in (60.0, 0.0, 0.0)] == [0, 1, 0]


def test_a_worker_of_one_shipper_leaves_the_others_batches(tmp_path, database_url, ask):
    both = house(tmp_path, database_url, "acme", "zeta")
    acme, zeta = (hand_out(settings)[0] for settings in both.values())
    serve_once(tmp_path, "ZETA")
    assert ask("select serves from workers") == [('["zeta"]',)]
    assert answer(both["zeta"], zeta)
    assert answer(both["acme"], acme) is None
    assert ask("select status::text from procrastinate_jobs order by id") == [("todo",), ("succeeded",)]


def test_settings_are_read_again_when_asked_and_wrong_ones_change_nothing(tmp_path, database_url):
    acme = house(tmp_path, database_url, "acme")["acme"]
    with working(tmp_path) as worker:
        until(lambda: worker.said, worker=worker)
        (tmp_path / "loadsheet.toml").write_text("database = 7", encoding="utf-8")
        worker.reread.set()
        until(lambda: any("from before stay" in text for text in worker.said), worker=worker)
        (batch,) = hand_out(acme)
        until(lambda: answer(acme, batch), worker=worker)
        zeta = house(tmp_path, database_url, "acme", "zeta")["zeta"]
        (batch,) = hand_out(zeta)
        worker.reread.set()
        until(lambda: answer(zeta, batch), worker=worker)


def test_wrong_settings_of_one_shipper_are_nobody_elses_affair(tmp_path, acme):
    with (tmp_path / "loadsheet.toml").open("a", encoding="utf-8") as file:
        file.write("[shippers.zeta]\nsettle_s = 'soon'\n")
    (batch,) = hand_out(acme)
    worker = serve_once(tmp_path)
    assert answer(acme, batch)
    assert any("zeta" in text and "settle_s" in text for text in worker.said)


def test_ledgers_in_two_databases_are_refused(tmp_path, acme):
    with (tmp_path / "loadsheet.toml").open("a", encoding="utf-8") as file:
        file.write(f"[shippers.zeta]\ndatabase = '{databases.database()}'\n")
    with pytest.raises(SettingsError, match=r"acme, zeta lie in several databases.*--only"), working(tmp_path):
        pass


def test_a_worker_inside_a_process_serves_its_ledger_and_stands_in_no_register(tmp_path, database_url, ask):
    both = house(tmp_path, database_url, "acme", "zeta")
    said = []
    with inside(both["acme"], said.append, work=labor(tmp_path)):
        (theirs,), (batch,) = hand_out(both["zeta"]), hand_out(both["acme"])
        until(lambda: answer(both["acme"], batch))
        assert ask("select count(*) from workers") == [(0,)]
    assert answer(both["zeta"], theirs) is None
    assert said == []
    assert ask("select count(*) from procrastinate_workers") == [(0,)]


def test_a_worker_stands_in_the_register_while_it_lives(tmp_path, acme, ask, engine):
    def living(shipper):
        with engine.connect() as connection:
            return workers.living(connection, 60.0, shipper)

    (tmp_path / "hold").touch()
    (batch,) = hand_out(acme)
    with working(tmp_path, places=3) as worker:
        until(lambda: ask("select doing from workers") == [(f'["acme lookup {batch}"]',)], worker=worker)
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
    acme = house(tmp_path, database_url, "acme", schedule=f"{then.minute} {then.hour} * * *")["acme"]
    engine = shared_engine(address_of(acme.database_url))
    with engine.begin() as connection:
        fires.begin(connection, Known("acme", acme.timetable[0].name), then - timedelta(hours=1))
    engine.dispose()
    return acme, then


def test_settings_that_are_read_again_while_schedules_are_looked_at_do_no_harm(tmp_path, database_url, ask):
    acme, _ = scheduled(tmp_path, database_url)
    changing = SimpleNamespace(by_shipper={"acme": acme}, addresses={})  # acme is served no more, since just now
    engine = shared_engine(address_of(acme.database_url))
    kept = Housekeeping(engine, changing, None, Outage(print), enrolled=None, takeover_s=1.0, jobs_days=1, ticks=True)
    kept._tick()
    engine.dispose()
    assert ask("select args ->> 'shipper' from procrastinate_jobs") == [("acme",)]


def test_a_run_that_is_due_is_started_once_by_one_of_the_workers(tmp_path, database_url, ask):
    _, then = scheduled(tmp_path, database_url)
    ran = []

    def run(settings, moment, hand):
        ran.append((settings.shipper, moment, bool(hand.stopping)))

    with working(tmp_path, run=run) as one, working(tmp_path, run=run) as other:
        until(lambda: ran, worker=one)
        until(lambda: ask("select status::text from procrastinate_jobs") == [("succeeded",)], worker=other)
    assert ran == [("acme", then, False)]
    assert ask("select count(*) from fires") == [(1,)]


def due(engine, acme, moment):
    """Tell the queue of a run that was due at this moment."""
    with engine.begin() as connection:
        jobs.announce_run(connection, address_of(acme.database_url), stamp(moment))


def test_a_run_that_cannot_go_on_now_is_tried_as_long_as_it_would_be_caught_up(tmp_path, acme, ask, engine):
    ran = []
    due(engine, acme, datetime.now(UTC) - timedelta(hours=1))
    ask("update procrastinate_jobs set attempts = 9")

    def run(_settings, moment, _hand):
        ran.append(moment)
        raise LedgerBusy("the run of acme could not go on")

    with working(tmp_path, run=run) as worker:
        for times in (1, 2):
            until(lambda times=times: len(ran) == times, worker=worker)
            until(lambda: ask("select status::text from procrastinate_jobs") == [("todo",)], worker=worker)
            later = "select attempts, scheduled_at > now() + interval '4 minutes' from procrastinate_jobs"
            assert ask(later) == [(9, True)]
            ask("update procrastinate_jobs set scheduled_at = now()")  # the queue looks every few seconds
        (told,) = [text for text in worker.said if "could not go on" in text]
        assert told.startswith("the run of acme that was due ")
        assert "; it is tried again every 5 minutes until " in told
        ask("delete from procrastinate_jobs")
        due(engine, acme, datetime.now(UTC) - timedelta(days=2))
        until(lambda: ask("select status::text, attempts from procrastinate_jobs") == [("todo", 1)], worker=worker)
        ask("update procrastinate_jobs set attempts = 9, scheduled_at = now()")
        until(lambda: ask("select status::text from procrastinate_jobs") == [("failed",)], worker=worker)
    assert any(text.endswith("it is given up for now") for text in worker.said)


def test_a_run_that_waits_to_be_tried_again_is_that_of_the_moment_that_comes_next(tmp_path, acme, ask, engine):
    then = datetime.now(UTC) - timedelta(hours=1)
    due(engine, acme, then - timedelta(days=1))
    ask("update procrastinate_jobs set attempts = 9")
    for _ in range(2):  # the second finds that one waits
        due(engine, acme, then)
    assert ask("select args ->> 'due', attempts from procrastinate_jobs") == [(stamp(then), 0)]
    serve_once(tmp_path)  # a worker that runs nothing
    assert ask("select status::text, args ->> 'shipper' from procrastinate_jobs") == [("todo", "acme")]


def test_old_jobs_workers_and_takeovers_are_removed(tmp_path, database_url, ask):
    acme = house(tmp_path, database_url, "acme")["acme"]
    hand_out(acme, 2)
    serve_once(tmp_path)
    ask("update procrastinate_events set at = at - interval '8 days' where job_id = 1")
    ask("update workers set seen = seen - 8 * 86400")
    ask("update shared_meta set value = '0' where name = 'swept '")  # as an hour later
    columns = "at, shipper, batch, kind, before, after, unknown"
    ask(f"insert into takeovers ({columns}) values (1, 'acme', 1, 'look', 'a', 'b', 0)")
    serve_once(tmp_path)
    assert ask("select id from procrastinate_jobs") == [(2,)]
    assert ask("select count(*) from takeovers") == [(0,)]
    assert ask("select count(*) from workers") == [(1,)]
    house(tmp_path, database_url, "acme", jobs_days=0)
    (batch,) = hand_out(acme)
    ask("delete from procrastinate_jobs where id = 2")
    serve_once(tmp_path)
    assert answer(acme, batch)
    assert ask("select count(*) from procrastinate_jobs") == [(0,)]


def test_names_of_queues_fit_into_the_channels_that_tell_of_them(tmp_path, database_url):
    """PostgreSQL refuses to notify on a channel of more than 63 letters, and the plan would be refused with it."""
    long = "shipper_with_a_long_name_as_they_come"
    names = [
        jobs.queue_of(group, f"loadsheet_{long}{end}") for group in (jobs.CALLS, jobs.RUNS) for end in ("_a", "_b")
    ]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 63 - len("procrastinate_queue_v1#")
    assert jobs.queue_of(jobs.CALLS, "loadsheet_acme") == "calls:loadsheet_acme"
    settings = house(tmp_path, database_url, long)[long]
    (batch,) = hand_out(settings)
    serve_once(tmp_path)
    assert answer(settings, batch)


def test_a_ledger_without_shippers_is_served(tmp_path, database_url, ask):
    settings = house(tmp_path, database_url)[""]
    made = hand_out(settings, 3)
    serve_once(tmp_path)
    assert all(answer(settings, batch) for batch in made)
    assert ask("select serves from workers") == [('[""]',)]


class TakenOver:
    """A worker's ledger whose batch somebody else takes right after the verdicts were recorded."""

    def __init__(self, mine, take):
        self._mine, self._take = mine, take

    def __getattr__(self, name):
        return getattr(self._mine, name)

    def follow(self, *words):
        self._mine.follow(*words)
        self._take()


def test_who_was_taken_over_writes_no_report_any_more(acme, tmp_path):
    acme = acme.model_copy(update={"outbox": tmp_path / "outbox", "state": tmp_path})
    with ledger_at(acme.database_url) as ledger:
        run = ledger.begin_run()
        ready_entries.orders(ledger, run, 2)
        batch = ledger.batches.hand_out(run, Kind.RECONCILIATION, {})
        mine = ledger.for_batch(ledger.batches.take(batch, "me"))
        work = Work(acme, TakenOver(mine, lambda: ledger.batches.take(batch, "them")), run, Patience(ledger.now))
        with pytest.raises(Superseded):
            account(work, None, Delivered(ExchangeUnreachable("nobody answers"), Listings()), fault=None, left=())
        assert not acme.outbox.exists()

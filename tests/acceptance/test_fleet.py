"""A whole fleet: runs that plan and wait, workers that send, killed and stopped while they do; what comes of it is what one process does."""

import shutil
import signal
import socket
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import databases
import pytest
from command_processes import nursery
from fleet_processes import TOKEN, Camp, exchange, resends, until
from invariants import check_laws, read_ledger
from killed_runs import MAPPINGS, orders
from postgres import running_server

ROOT = Path(__file__).parents[2]
SLOW_S = 0.1
SAMPLES = (  # all operations, and what waits for other files
    *("acme_orders_2026-03.xlsx", "order_updates.csv", "order_deletes.csv", "status_rotterdam_2026-03-05.csv"),
    *(
        "tender_spring_lanes.xlsx",
        "tender_updates.csv",
        "tender_withdrawals.csv",
        "quotes_carrier7.csv",
        "confirmations.csv",
    ),
)


pytestmark = pytest.mark.timeout(170)


@pytest.fixture(scope="module")
def born(tmp_path_factory):
    with nursery(tmp_path_factory.mktemp("says")) as found:
        yield found


@pytest.fixture
def camp(tmp_path, born):
    """A camp whose exchange takes its time with each of 60 orders, which travel in batches of 10."""
    with pitched(tmp_path, born, databases.server()) as found:
        yield found


@pytest.fixture
def patient_camp(tmp_path, born):
    """A camp that takes nobody for dead who has only little of a processor."""
    with pitched(tmp_path, born, databases.server(), takeover_s=6) as found:
        yield found


@contextmanager
def pitched(tmp_path, born, server, **settings):
    with exchange(born, tmp_path / "exchange", delay_s=SLOW_S, create_existing="reject") as (url, truth):
        database = server.new_database()
        given = {
            "mappings": str(MAPPINGS),
            "batch_entries": 10,
            "canary": 0,
            "connections": 4,
            **resends(3),
            **settings,
        }
        found = Camp(tmp_path / "acme", born, database, url, **given)
        found.truth = truth
        drop(found, range(60))
        yield found
        for worker in found.workers:
            worker.send(signal.SIGKILL)


def drop(camp, numbers, name="orders.csv"):
    inbox = camp.folder / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / name).write_text(orders(numbers), encoding="utf-8")


def accepted(camp):
    """How many orders are known to be accepted."""
    return camp.states().get("accepted", 0)


def all_is_well(camp, count=60):
    """Each order arrived once, each is accepted, and the last report says so."""
    known = camp.known()
    check_laws(known, camp.truth.lines())
    assert camp.states() == {"accepted": count}
    assert sorted(line["key"] for line in camp.truth.lines()) == sorted(f"A-{n}" for n in range(count))


def owners(camp):
    """The processes that took batches."""
    return {name.partition("/")[0] for (name,) in camp.ask("select owner from batches where kind = 'calls'")}


@pytest.mark.journey
def test_three_workers_do_what_one_process_does(tmp_path, born):
    told = {}
    for place, workers in (("alone", 0), ("fleet", 3)):
        (tmp_path / place / "inbox").mkdir(parents=True)
        for name in SAMPLES:
            shutil.copy(ROOT / "inbox_samples" / name, tmp_path / place / "inbox")
        database = databases.server().new_database() if workers else f"sqlite:///{tmp_path / 'ledger.db'}"
        with exchange(born, tmp_path / f"exchange of {place}") as (url, truth):
            camp = Camp(tmp_path / place, born, database, url, mappings=str(ROOT / "mappings"), batch_entries=20)
            started = [camp.worker() for _ in range(workers)]
            if workers:
                camp.listens(workers)
            run = camp.run()
            assert run.code == 1, run.said
            assert [worker.stop() for worker in started] == [143] * workers
            known = camp.known() if workers else read_ledger(tmp_path / "ledger.db")
            check_laws(known, truth.lines())
            told[place] = known, camp.summary(), sorted(path.name for path in camp.folder.glob("outbox/*/*"))
            if workers:
                assert len(owners(camp)) > 1
                holds_no_token(camp, born)
    (alone, summary, names), (fleet, summary_of_fleet, names_of_fleet) = told["alone"], told["fleet"]
    facts = ("operation", "key", "state", "reason", "content_hash", "rows")
    assert [[one[name] for name in facts] for one in by_key(fleet)] == [
        [one[name] for name in facts] for one in by_key(alone)
    ]
    for part in ("balance", "entries", "verdicts"):
        assert summary_of_fleet[part] == summary[part]
    assert summary["balance"]["balances"] is True
    assert names_of_fleet == names


def by_key(known):
    return sorted(known.entries, key=lambda one: (one["operation"], one["key"], one["rows"] or ""))


def holds_no_token(camp, born):
    """Neither what lies in the database, nor any file, nor what was said."""
    tables = camp.ask(
        "select table_schema, table_name from information_schema.tables where table_schema like 'loadsheet%%' and table_type = 'BASE TABLE'"
    )
    assert len(tables) > 20
    for schema, table in tables:
        for (row,) in camp.ask(f'select one::text from "{schema}"."{table}" one'):
            assert TOKEN not in row, table
    for path in [path for path in camp.folder.rglob("*") if path.is_file()] + [one.says for one in born.children]:
        assert TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.sweep
def test_without_workers_a_run_does_it_itself_and_those_who_come_later_help(camp):
    drop(camp, range(200))  # enough to be still at it when a worker has started
    run = camp.start("run")
    until(lambda: accepted(camp) > 5)
    later = camp.worker()
    assert run.wait() == 0, run.said
    assert later.stop() == 143
    all_is_well(camp, 200)
    assert len(owners(camp)) == 2
    assert camp.summary()["balance"]["balances"] is True


@pytest.mark.journey
def test_when_all_workers_die_others_finish_and_the_next_run_settles_what_is_unknown(camp):
    first = [camp.worker(), camp.worker()]
    camp.listens(2)
    run = camp.start("run")
    until(lambda: accepted(camp) > 10)
    for worker in first:
        worker.kill()
    third = camp.worker()
    assert run.wait() in (0, 1), (
        run.said
    )  # 0: its last look at the exchange showed of all that was unknown what became of it
    check_laws(
        camp.known(), camp.truth.lines(), stopped=True
    )  # what turned out not to have arrived goes with the next run
    assert camp.ask("select sum(unknown) from fleet.takeovers")[0][0] >= camp.states().get("unknown", 0)
    until(lambda: camp.run().code == 0)
    all_is_well(camp)
    assert third.stop() == 143


@pytest.mark.sweep
def test_a_run_that_is_killed_while_it_waits_is_carried_on_by_the_next(patient_camp):
    camp = patient_camp
    camp.worker()
    camp.listens()
    run = camp.start("run")
    until(lambda: accepted(camp) > 5)
    run.kill()
    until(lambda: camp.run().code != 75)
    all_is_well(camp)
    assert not camp.ask("select * from fleet.takeovers"), "the worker went on all the while"
    assert len({entry["drop_id"] for entry in camp.known().entries}) == 1


@pytest.mark.sweep
def test_a_run_and_its_workers_wait_for_a_server_that_is_started_again(tmp_path, born):
    with running_server() as server, pitched(tmp_path, born, server) as camp:
        camp.worker()
        camp.listens()
        run = camp.start("run")
        until(lambda: accepted(camp) > 5)
        server.stop("immediate")
        server.start()
        assert run.wait() in (0, 1), run.said
        # what was recorded and had not left when the server went is looked for, and goes with the next run
        check_laws(camp.known(), camp.truth.lines(), stopped=True)
        until(lambda: camp.run().code == 0)
        all_is_well(camp)


@pytest.mark.sweep
def test_a_second_run_at_the_same_time_names_who_is_at_it(camp):
    drop(camp, range(200))  # enough to be still at it when the second has started
    run = camp.start("run")
    until(lambda: accepted(camp) > 0)
    second = camp.run()
    assert second.code == 75
    assert f"held by process {run.pid} on {socket.gethostname()}" in second.said
    assert run.wait() == 0, run.said
    all_is_well(camp, 200)


@pytest.mark.sweep
def test_a_worker_that_is_asked_to_stop_hands_its_batch_on_at_once(patient_camp):
    camp = patient_camp
    first = camp.worker()
    camp.listens()
    run = camp.start("run")
    until(lambda: accepted(camp) > 5)
    second = camp.worker()
    camp.listens(2)
    assert first.stop() == 143, first.said
    assert run.wait() == 0, run.said
    all_is_well(camp)
    assert not camp.ask("select * from fleet.takeovers")
    assert camp.ask("select count(*) from attempts where outcome not in ('accepted', 'not sent')") == [(0,)], (
        "nothing was cut off"
    )
    second.send(signal.SIGINT)
    assert second.wait() == 130


@pytest.mark.journey
def test_a_worker_that_stood_still_sends_no_more_of_what_was_taken_over_and_its_late_outcomes_count(camp):
    first = camp.worker()
    camp.listens()
    run = camp.start("run")
    until(lambda: accepted(camp) > 5)
    first.send(signal.SIGSTOP)
    camp.worker()
    taken = "select coalesce(sum(unknown), 0) from fleet.takeovers"
    unknown = until(lambda: camp.ask(taken)[0][0])
    woken = datetime.now(UTC)
    first.send(signal.SIGCONT)
    assert run.wait() == 0, (run.said, camp.states())
    all_is_well(camp)
    turned = (
        "select e.key, v.after, e.attempts from events v join entries e on e.id = v.entry_id where v.before = 'unknown'"
    )
    late = {key: attempts for key, after, attempts in camp.ask(turned) if after == "accepted"}
    assert len(camp.ask(turned)) >= unknown, "each is settled in the end"
    assert late, "of what was under way it had the answers"
    arrived = {line["key"]: datetime.fromisoformat(line["time"]) for line in camp.truth.lines()}
    assert all(arrived[key] < woken for key, attempts in late.items() if attempts == 1)

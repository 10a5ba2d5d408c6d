"""Workers that do the runs of a shared ledger, killed and stopped while they do; what comes of it is what one process does."""

import shutil
import signal
from contextlib import contextmanager
from datetime import UTC, datetime

import databases
import pytest
from command_processes import shared_nursery
from fleet_processes import TOKEN, Camp, exchange, resends, until
from invariants import check_laws, read_ledger
from killed_runs import MAPPINGS, orders
from workspace import ROOT, copy_mappings

SLOW_S = 0.1
SAMPLES = {  # all operations, and what waits for other files; with their mappings
    "acme_orders_2026-03.xlsx": "acme-flat",
    "order_updates.csv": "order-updates",
    "order_deletes.csv": "order-deletes",
    "status_rotterdam_2026-03-05.csv": "carrier-status",
    "tender_spring_lanes.xlsx": "spring-tenders",
    "tender_updates.csv": "tender-updates",
    "tender_withdrawals.csv": "tender-withdrawals",
    "quotes_carrier7.csv": "carrier7-quotes",
    "confirmations.csv": "quote-confirmations",
}


pytestmark = pytest.mark.timeout(170)


@pytest.fixture
def born():
    return shared_nursery()


@pytest.fixture
def camp(tmp_path, born):
    """A camp whose exchange takes its time with each of 60 orders."""
    with pitched(tmp_path, born, databases.server()) as found:
        yield found


@contextmanager
def pitched(tmp_path, born, server, **settings):
    with exchange(born, tmp_path / "exchange", delay_s=SLOW_S, create_existing="reject") as (url, truth):
        database = server.new_database()
        given = {
            "mappings": str(MAPPINGS),
            "dispatch.canary": 0,
            "dispatch.connections": 4,
            **resends(3),
            **settings,
        }
        found = Camp(tmp_path / "acme", born, database, url, **given)
        found.truth = truth
        drop(found, range(60))
        yield found
        for child in found.children:
            child.send(signal.SIGKILL)


def drop(camp, numbers, name="orders.csv"):
    inbox = camp.folder / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / name).write_text(orders(numbers), encoding="utf-8")


def accepted(camp):
    """How many orders are known to be accepted."""
    return camp.states().get("accepted", 0)


def all_is_well(camp):
    """Each order arrived once, each is accepted, and the last report says so."""
    known = camp.known()
    check_laws(known, camp.truth.lines())
    assert camp.states() == {"accepted": 60}
    assert sorted(line["key"] for line in camp.truth.lines()) == sorted(f"A-{n}" for n in range(60))


def wait_for(camp, count):
    """Until so many orders are accepted."""
    until(lambda: accepted(camp) >= count)


@pytest.mark.journey
def test_a_worker_does_what_one_process_does(tmp_path, born):
    told = {}
    copy_mappings(tmp_path / "mappings", *SAMPLES.values())
    for place in ("alone", "fleet"):
        (tmp_path / place / "inbox").mkdir(parents=True)
        for name in SAMPLES:
            shutil.copy(ROOT / "inbox_samples" / name, tmp_path / place / "inbox")
        database = databases.server().new_database() if place == "fleet" else f"sqlite:///{tmp_path / 'ledger.db'}"
        with exchange(born, tmp_path / f"exchange of {place}") as (url, truth):
            camp = Camp(tmp_path / place, born, database, url, mappings=str(tmp_path / "mappings"))
            if place == "fleet":
                worker = camp.worker()
                camp.listens()
                watch = camp.start("watch")
                until(lambda camp=camp: list((camp.folder / "outbox").glob("*/run.json")))
                done = "select 1 from fleet.procrastinate_jobs where status = 'succeeded'"
                until(lambda camp=camp, done=done: camp.ask(done))
                assert (watch.stop(), worker.stop()) == (0, 143), (watch.said, worker.said)
                holds_no_token(camp)
            else:
                run = camp.run()
                assert run.code == 1, run.said
            known = camp.known() if place == "fleet" else read_ledger(tmp_path / "ledger.db")
            check_laws(known, truth.lines())
            told[place] = known, camp.summary(), sorted(path.name for path in camp.folder.glob("outbox/*/*"))
    (alone, summary, names), (fleet, summary_of_fleet, names_of_fleet) = told["alone"], told["fleet"]
    facts = ("operation", "key", "state", "reason", "content_hash", "rows")
    assert [[one[name] for name in facts] for one in by_key(fleet)] == [
        [one[name] for name in facts] for one in by_key(alone)
    ]
    for part in ("balance", "entries", "verdicts", "exit_code"):
        assert summary_of_fleet[part] == summary[part]
    assert summary["balance"]["balances"] is True
    assert names_of_fleet == names


def by_key(known):
    return sorted(known.entries, key=lambda one: (one["operation"], one["key"], one["rows"] or ""))


def holds_no_token(camp):
    """Neither what lies in the database, nor any file, nor what was said."""
    tables = camp.ask(
        "select table_schema, table_name from information_schema.tables where table_schema like 'loadsheet%%' and table_type = 'BASE TABLE'"
    )
    assert len(tables) > 20
    for schema, table in tables:
        for (row,) in camp.ask(f'select one::text from "{schema}"."{table}" one'):
            assert TOKEN not in row, table
    for path in [path for path in camp.folder.rglob("*") if path.is_file()] + [one.says for one in camp.children]:
        assert TOKEN.encode() not in path.read_bytes(), path


def stopped_amid_calls(camp, run):
    run.send(signal.SIGSTOP)
    if camp.states().get("sending"):
        return True
    run.send(signal.SIGCONT)
    return False


@pytest.mark.sweep
def test_a_run_that_stood_still_sends_no_more_and_its_late_outcomes_count(camp):
    run = camp.start("run")
    wait_for(camp, 6)
    until(lambda: stopped_amid_calls(camp, run))
    other = camp.start("watch")
    until(lambda: camp.ask("select 1 from events where after = 'unknown'"))
    assert camp.ask("select * from fleet.takeovers")
    woken = datetime.now(UTC)
    run.send(signal.SIGCONT)
    assert run.wait() == 75, run.said
    assert "another process has taken" in run.said
    wait_for(camp, 60)
    all_is_well(camp)
    turned = (
        "select e.key, v.after, e.attempts from events v join entries e on e.id = v.entry_id where v.before = 'unknown'"
    )
    late = {key: attempts for key, after, attempts in camp.ask(turned) if after == "accepted"}
    assert late, "of what was under way it had the answers"
    arrived = {line["key"]: datetime.fromisoformat(line["time"]) for line in camp.truth.lines()}
    assert all(arrived[key] < woken for key, attempts in late.items() if attempts == 1)
    other.kill()


@pytest.mark.sweep
def test_a_worker_that_is_asked_to_stop_hands_its_run_on_at_once(tmp_path, born):
    with pitched(tmp_path, born, databases.server(), **{"cluster.takeover_s": 60}) as camp:
        first = camp.worker()
        camp.listens()
        camp.start("watch")
        wait_for(camp, 5)
        second = camp.worker()
        camp.listens(2)
        assert first.stop() == 143, first.said
        wait_for(camp, 60)
        all_is_well(camp)
        assert not camp.ask("select * from fleet.takeovers")
        assert camp.ask("select count(*) from attempts where outcome not in ('accepted', 'not sent')") == [(0,)], (
            "nothing was cut off"
        )
        second.send(signal.SIGINT)
        assert second.wait() == 130

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


@contextmanager
def pitched(tmp_path, **settings):
    """A camp whose exchange takes its time with each of 60 orders, which lie in the inbox."""
    born = shared_nursery()
    with exchange(born, tmp_path / "exchange", delay_s=0.1, create_existing="reject") as (url, truth):
        given = {"mappings": str(MAPPINGS), "dispatch.canary": 0, "dispatch.connections": 4, **resends(3), **settings}
        camp = Camp(tmp_path / "acme", born, databases.server().new_database(), url, **given)
        camp.truth = truth
        (camp.folder / "inbox").mkdir()
        (camp.folder / "inbox" / "orders.csv").write_text(orders(range(60)), encoding="utf-8")
        yield camp
        for child in camp.children:
            child.send(signal.SIGKILL)


def wait_for(camp, count):
    """Until so many orders are accepted."""
    until(lambda: camp.states().get("accepted", 0) >= count)


def all_is_well(camp):
    """Each order arrived once, each is accepted, and the last report says so."""
    known = camp.known()
    check_laws(known, camp.truth.lines())
    assert camp.states() == {"accepted": 60}
    assert sorted(line["key"] for line in camp.truth.lines()) == sorted(f"A-{n}" for n in range(60))


@pytest.mark.journey
def test_a_worker_does_what_one_process_does(tmp_path):
    found, born = {}, shared_nursery()
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
            said = camp.summary()
            parts = {part: said[part] for part in ("balance", "entries", "verdicts", "exit_code")}
            found[place] = by_key(known), parts, sorted(path.name for path in camp.folder.glob("outbox/*/*"))
    assert found["fleet"] == found["alone"]
    assert found["alone"][1]["balance"]["balances"] is True


def by_key(known):
    facts = ("operation", "key", "rows", "state", "reason", "content_hash")
    return sorted([[one[name] or "" for name in facts] for one in known.entries])


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


@pytest.mark.sweep
def test_a_run_that_stood_still_sends_no_more_and_its_late_outcomes_count(tmp_path):
    def stopped_amid_calls():
        run.send(signal.SIGSTOP)
        if camp.states().get("sending"):
            return True
        run.send(signal.SIGCONT)
        return False

    with pitched(tmp_path) as camp:
        run = camp.start("run")
        wait_for(camp, 6)
        until(stopped_amid_calls)
        other = camp.start("watch")
        until(
            lambda: camp.ask("select 1 from events where after = 'unknown'"),
            what=lambda: (camp.states(), camp.ask("select pid, state, wait_event, query from pg_stat_activity")),
        )
        assert camp.ask("select * from fleet.takeovers")
        woken = datetime.now(UTC)
        run.send(signal.SIGCONT)
        assert run.wait() == 75, run.said
        assert "another process has taken" in run.said
        wait_for(camp, 60)
        all_is_well(camp)
        turned = camp.ask(
            "select e.key, v.after, e.attempts from events v join entries e on e.id = v.entry_id where v.before = 'unknown'"
        )
        late = {key: attempts for key, after, attempts in turned if after == "accepted"}
        assert late, "of what was under way it had the answers"
        arrived = {line["key"]: datetime.fromisoformat(line["time"]) for line in camp.truth.lines()}
        assert all(arrived[key] < woken for key, attempts in late.items() if attempts == 1)
        other.kill()


@pytest.mark.sweep
def test_a_worker_that_is_asked_to_stop_hands_its_run_on_at_once(tmp_path):
    with pitched(tmp_path, **{"cluster.takeover_s": 60}) as camp:
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
        cut_off = camp.ask("select count(*) from attempts where outcome not in ('accepted', 'not sent')")
        assert cut_off == [(0,)]
        second.send(signal.SIGINT)
        assert second.wait() == 130

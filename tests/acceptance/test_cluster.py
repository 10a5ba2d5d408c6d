"""Workers that do the runs of a shared ledger, killed and stopped while they do; what comes of it is what one process does."""

import shutil

import databases
import pytest
from command_processes import shared_nursery
from fleet_processes import TOKEN, Camp, exchange, until
from invariants import check_laws, read_ledger
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


@pytest.mark.sweep
def test_a_worker_does_what_one_process_does(tmp_path):
    found, born = {}, shared_nursery()
    copy_mappings(tmp_path / "mappings", *SAMPLES.values())
    for place in ("alone", "fleet"):
        (tmp_path / place / "inbox").mkdir(parents=True)
        for name in SAMPLES:
            shutil.copy(ROOT / "inbox_samples" / name, tmp_path / place / "inbox")
        database = databases.server().new_database() if place == "fleet" else f"sqlite:///{tmp_path / 'ledger.db'}"
        with exchange(tmp_path / f"exchange of {place}") as (url, truth):
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

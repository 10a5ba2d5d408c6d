"""Whole nights as an operator runs them: what an old night's contents were needed for is answered after they are gone."""

import json

import pytest
from workspace import ROOT, Workspace

PERSON = "Kowalski-am-Wald"


@pytest.fixture
def night(tmp_path):
    """A folder whose payloads are kept for 30 days, and its first run, with an order of a person and a wrong one."""
    house = Workspace(tmp_path, ROOT / "tests" / "proofs" / "mappings")
    house.variables |= {"LOADSHEET_READING__PROCESS": "none", "LOADSHEET_RETENTION__PAYLOAD_DAYS": "30"}
    drop(house, "orders.csv", f"A-1,{PERSON},5", "A-2,Essen,6", "A-3,Ulm,many")
    assert house.run().returncode == 1
    run = house.reports()[0].name
    before = house.run_json()
    forty_days_go_by(house)
    return house, run, before


def drop(house, name, *lines):
    house.drop(name, "Order,City,Weight\n" + "".join(f"{line}\n" for line in lines))


def forty_days_go_by(house):
    """Everything in the ledger is forty days older."""
    for table, columns in {"runs": ("started_at", "finished_at"), "entries": ("created_at", "changed_at")}.items():
        for column in columns:
            house.change(f"update {table} set {column} = strftime('%Y-%m-%dT%H:%M:%S.000Z', {column}, '-40 days')")
    (house.state / "last_run_of_ledger.db.json").unlink()  # it tells of the last run by its time


def last(house, key):
    return json.loads(house.command("show", key, "--json").stdout)[-1]


def test_after_its_days_an_order_is_shown_reported_and_dropped_again_without_its_contents(night):
    house, run, before = night
    done = house.run()
    assert (done.returncode, "retention failed" in done.stderr) == (0, False), done.stderr

    shown = house.command("show", "A-1")
    assert (shown.returncode, "removed  payload and cells on" in shown.stdout) == (0, True)
    assert PERSON not in shown.stdout
    assert "many" in house.command("show", "A-3").stdout  # open: kept
    assert house.command("ledger", "check").returncode in (0, 1)

    assert house.command("report", "--run", run).returncode == 1
    folder = house.outbox / run
    again = json.loads((folder / "run.json").read_bytes())
    same = ("entries", "verdicts", "balance", "totals")
    assert {name: again[name] for name in same} == {name: before[name] for name in same}
    assert PERSON not in (folder / "run.html").read_text(encoding="utf-8")
    assert "many" in (folder / "orders.csv.results.csv").read_text(encoding="utf-8-sig")

    assert "no matching entry is refused or held" in house.command("retry", "A-1").stderr
    drop(house, "orders_again.csv", f"A-1,{PERSON},5", "A-2,Bonn,6")
    house.run()
    assert [last(house, key)["state"] for key in ("A-1", "A-2")] == ["unchanged", "held"]
    assert "the accepted content has been removed" in last(house, "A-2")["problems"][0]
    assert house.command("retry", "A-2").returncode == 0
    house.run()
    changed = last(house, "A-2")
    assert (changed["operation"], changed["state"]) == ("order.update", "accepted")


def test_the_fix_file_of_an_old_run_is_processed_after_its_other_orders_were_emptied(night):
    house, run, _ = night
    house.variables["LOADSHEET_REPORTS__FEEDBACK"] = "csv"
    house.run()
    assert house.command("report", "--run", run).returncode == 1
    fix = (house.outbox / run / "orders.fix.csv").read_text(encoding="utf-8-sig")
    assert PERSON not in fix
    house.drop("orders.fix.csv", fix.replace("many", "7"))
    done = house.run()
    assert done.returncode == 0, done.stderr
    assert last(house, "A-3")["state"] == "accepted"

"""Whole nights as an operator runs them: what an old night's contents were needed for is answered after they are gone."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from loadsheet.cli import invoke

MAPPINGS = Path(__file__).parents[1] / "proofs" / "mappings"
PERSON = "Kowalski-am-Wald"
HEAD = "Order,City,Weight\n"


@pytest.fixture
def loadsheet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOADSHEET_ARRIVAL__SETTLE_S", "0")
    monkeypatch.setenv("LOADSHEET_READING__PROCESS", "none")
    (tmp_path / "mappings").mkdir()
    (tmp_path / "inbox").mkdir()
    for path in MAPPINGS.glob("orders*.yaml"):
        shutil.copy(path, tmp_path / "mappings")

    def command(*words):
        code = invoke(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def drop(name, *lines):
    Path("inbox", name).write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")


def forty_days_go_by():
    """Everything in the ledger is forty days older."""
    back = "strftime('%Y-%m-%dT%H:%M:%S.000Z', {0}, '-40 days')"
    with closing(sqlite3.connect(".loadsheet/ledger.db")) as database, database:
        for table, columns in {"runs": ("started_at", "finished_at"), "entries": ("created_at", "changed_at")}.items():
            for column in columns:
                database.execute(f"update {table} set {column} = {back.format(column)}")
    Path(".loadsheet/last_run_of_ledger.db.json").unlink()  # it tells of the last run by its time


def test_after_its_days_an_order_is_shown_reported_and_dropped_again_without_its_contents(loadsheet, monkeypatch):
    drop("orders.csv", f"A-1,{PERSON},5", "A-2,Essen,6", "A-3,Ulm,many")
    assert loadsheet("run")[0] == 1
    run = json.loads(loadsheet("runs", "--json")[1])[0]["run"]
    before = json.loads(Path("outbox", run, "run.json").read_bytes())
    monkeypatch.setenv("LOADSHEET_RETENTION__PAYLOAD_DAYS", "30")
    forty_days_go_by()
    code, _, err = loadsheet("run")
    assert code == 0, err
    assert "keeping" not in err

    code, out, _ = loadsheet("show", "A-1")
    assert code == 0
    assert "removed  payload and cells on" in out
    assert PERSON not in out
    assert "many" in loadsheet("show", "A-3")[1]  # open: kept
    assert loadsheet("ledger", "check")[0] in (0, 1)

    assert loadsheet("report", "--run", run)[0] == 0
    again = json.loads(Path("outbox", run, "run.json").read_bytes())
    same = ("entries", "verdicts", "balance", "totals")
    assert {name: again[name] for name in same} == {name: before[name] for name in same}
    assert PERSON not in Path("outbox", run, "run.html").read_text(encoding="utf-8")
    assert "many" in Path("outbox", run, "orders.csv.results.csv").read_text(encoding="utf-8-sig")

    assert "no matching entry is refused or held" in loadsheet("retry", "A-1")[2]
    drop("orders_again.csv", f"A-1,{PERSON},5", "A-2,Bonn,6")
    loadsheet("run")
    told = {key: json.loads(loadsheet("show", key, "--json")[1])[-1] for key in ("A-1", "A-2")}
    assert [told[key]["state"] for key in ("A-1", "A-2")] == ["unchanged", "held"]
    assert "the accepted content has been removed" in told["A-2"]["problems"][0]
    code, _, _ = loadsheet("retry", "A-2")
    assert code == 0
    loadsheet("run")
    last = json.loads(loadsheet("show", "A-2", "--json")[1])[-1]
    assert (last["operation"], last["state"]) == ("order.update", "accepted")


def test_the_fix_file_of_an_old_night_is_taken_when_its_other_orders_have_lost_their_contents(loadsheet, monkeypatch):
    drop("orders.csv", f"A-1,{PERSON},5", "A-3,Ulm,many")
    assert loadsheet("run")[0] == 1
    run = json.loads(loadsheet("runs", "--json")[1])[0]["run"]
    monkeypatch.setenv("LOADSHEET_RETENTION__PAYLOAD_DAYS", "30")
    monkeypatch.setenv("LOADSHEET_REPORTS__FEEDBACK", "csv")
    forty_days_go_by()
    loadsheet("run")
    assert loadsheet("report", "--run", run)[0] == 0
    fix = Path("outbox", run, "orders.fix.csv").read_text(encoding="utf-8-sig")
    assert PERSON not in fix
    Path("inbox", "orders.fix.csv").write_text(fix.replace("many", "7"), encoding="utf-8")
    code, _, err = loadsheet("run")
    assert code == 0, err
    fixed = json.loads(loadsheet("show", "A-3", "--json")[1])[-1]
    assert fixed["state"] == "accepted"

"""The fate of every row of a run that failed before its reports stands in those of the next one."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from capsule_runs import House
from exchange_process import exchange

from loadsheet.problems import FolderError
from loadsheet.run_archive.replay import replay


@pytest.fixture
def house(workspace):
    """An inbox of 12 orders, two of them wrong, and an exchange of its own."""
    workspace.write_orders(12, first=1, wrong_every=5)
    with exchange(workspace / "exchange.db") as served:
        workspace.variables["LOADSHEET_EXCHANGE"] = served.url
        yield workspace


def in_the_way(outbox):
    """Let the reports of the first run of today, and of tomorrow, be impossible to write."""
    outbox.mkdir()
    places = [outbox / f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}-01" for days in (0, 1)]
    for place in places:
        place.write_text("in the way", encoding="utf-8")
    return places


def told(house):
    (folder,) = house.reports()
    return house.run_json(), folder


def test_what_a_run_without_reports_did_is_told_by_the_next_one_and_not_again(house):
    """And the reports of both can be made again."""
    places = in_the_way(house.outbox)
    failed = house.run()
    assert failed.returncode == 75, failed.stderr
    done = house.run()
    assert done.returncode == 1, done.stderr
    dead = next(place.name for place in places if f"run {place.name} did not finish" in done.stderr)
    summary, folder = told(house)
    assert summary["entries"] == {"accepted": 10, "invalid": 2}
    assert summary["verdicts"] == {"matched": 10, "not sent: invalid": 2}
    assert summary["balance"]["balances"] is True
    assert [remark for remark in summary["remarks"] if f"run {dead} did not finish" in remark]
    assert [row["outcome"] for row in house.results(f"packages.csv.of-{dead}")].count("invalid") == 6
    assert list(folder.glob("*.fix.xlsx"))
    assert sorted(path.name for path in (folder / "ack").glob("*.json"))
    shown = house.command("runs").stdout
    assert f"not finished, reported by {folder.name}" in shown
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(folder)
    assert house.command("report", "--run", folder.name).returncode == 1
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    shutil.rmtree(folder)
    again = house.run()
    assert again.returncode == 0, again.stderr
    assert "did not finish" not in again.stderr
    summary, folder = told(house)
    assert summary["entries"] == {}
    shutil.rmtree(folder)
    for place in places:
        place.unlink()
    assert house.command("report", "--run", dead).returncode == 1
    assert told(house)[0]["entries"] == {"accepted": 10, "invalid": 2}


def test_the_capsule_of_a_run_that_tells_of_a_dead_one_replays_the_same(tmp_path):
    house = House(tmp_path, "alder-parcels", "nordic-join")
    house.drop("alder_2026-03-10.csv")
    house.settings.outbox.mkdir()
    place = house.settings.outbox / "2026-03-05-01"
    place.write_text("in the way", encoding="utf-8")
    with pytest.raises(FolderError):
        house.run()
    house.drop("nordic")
    name = house.run()
    assert house.said == []
    found = replay(house.capsule(name))
    assert found.is_same, found
    assert house.last.drops[0].run == "2026-03-05-01"


def test_an_outbox_that_cannot_be_written_is_said_before_anything_is_taken(house):
    house.outbox.write_text("in the way", encoding="utf-8")
    done = house.run()
    assert done.returncode == 75
    assert "reports cannot be written to the folder outbox (it is a file); nothing was read or sent" in done.stderr
    assert sorted(path.name for path in house.inbox.iterdir()) == ["orders.csv", "packages.csv"]
    assert "-01" not in house.command("runs").stdout


def test_an_empty_ledger_in_the_place_of_another_leaves_the_reports_that_are_there(house):
    assert house.run().returncode == 1
    before, folder = told(house)
    shutil.rmtree(house.state)
    assert house.run().returncode == 0
    assert json.loads((folder / "run.json").read_text(encoding="utf-8")) == before
    assert len(house.reports()) == 2

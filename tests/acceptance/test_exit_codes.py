"""What breaks at the end of a run: exit code, ledger and run.json say the same, and the next run reports what a run without reports did."""

import json
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, redirect_stderr
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from capsule_runs import House
from command import TOKEN, environment
from command_in_process import nobody_reads, stdout_to
from command_processes import shared_nursery
from exchange_process import exchange
from small_disk import small_disk
from watch_process import watching

from loadsheet.cli import invoke
from loadsheet.errors import FolderError
from loadsheet.ledger import open_ledger
from loadsheet.run_archive.replay import replay

SETTINGS = """\
arrival.settle_s = 0
run_archive.capsules = "each"
run_archive.capsule_days = 3
retention.backups = 3
monitoring.metrics_file = "loadsheet.prom"
notifications.urls_file = "addresses.txt"
"""
FULL = Path("/dev/full")
CAPSULE = "the capsule"
ELSE = "its last steps"


@pytest.fixture
def house(workspace):
    (workspace / "loadsheet.toml").write_text(SETTINGS, encoding="utf-8")
    (workspace / "addresses.txt").write_text("", encoding="utf-8")
    workspace.write_orders(2)
    workspace.state.mkdir()
    return workspace


def recorded(house):
    """What the ledger and run.json say of the last run: its exit code, what was not done, what became of its orders."""
    told = house.run_json()
    undone = {one["what"]: one["why"] for one in told["undone"]}
    ((code, summary),) = house.ask("select exit_code, summary from runs order by id desc limit 1")
    summary = json.loads(summary)
    assert (code, summary.get("undone", {})) == (told["exit_code"], undone)
    assert summary["entries"] == told["entries"] == {"accepted": 2}
    return code, undone


def test_what_could_not_be_written_is_said_and_changes_no_exit_code(house, tmp_path):
    for in_the_way in (".loadsheet/.notices.json.tmp", ".loadsheet/capsules.jsonl"):
        (house / in_the_way).mkdir()
    (house.state / "backups").write_text("no folder", encoding="utf-8")
    with small_disk(tmp_path / "disk", mb=1) as disk:
        house.edit("loadsheet.toml", "loadsheet.prom", f"{disk.folder}/loadsheet.prom")
        disk.fill()
        done = house.run()
    assert done.returncode == 0, done.stderr
    unwritten = (
        "notices.json cannot be written",
        "no capsule of run",
        "retention failed for backups: ",
        "the metrics file ",
    )
    assert [said for said in unwritten if said not in done.stderr] == []
    assert recorded(house) == (0, {})


def test_a_watch_records_a_capsule_that_breaks_and_goes_on(house):
    (house.state / "capsules").write_text("no folder", encoding="utf-8")
    with watching(house) as watch:
        watch.until(lambda: len(watch.out) == 1)
        (line,) = watch.out
        assert "2 accepted; exit code 70" in line
        watch.until(lambda: watch.says(f"an internal error: {CAPSULE} ("))
        assert recorded(house)[0] == 70
        assert watch.stop() == 0
    code, undone = recorded(house)
    assert (code, list(undone)) == (70, [CAPSULE])


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
def test_a_full_disk_under_what_is_said_is_in_all_of_them(house, monkeypatch):
    monkeypatch.chdir(house)
    monkeypatch.setenv("LOADSHEET_TOKEN", TOKEN)
    with stdout_to(FULL.open("w")):
        assert invoke(["run"]) == 75
    code, undone = recorded(house)
    assert (code, list(undone)) == (75, [ELSE])
    assert undone[ELSE].startswith("the output could not be written: the disk is full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize(("words", "code"), [(["run"], 1), (["runs", "--config", "none.toml"], 78), (["nope"], 2)])
def test_a_full_disk_under_messages_changes_no_exit_code(house, monkeypatch, words, code):
    (house.inbox / "link.csv").symlink_to("orders_1.csv")  # stays, with a message
    monkeypatch.chdir(house)
    monkeypatch.setenv("LOADSHEET_TOKEN", TOKEN)
    with FULL.open("w") as full, redirect_stderr(full):
        assert invoke(words) == code


@pytest.mark.journey
def test_a_process_that_nobody_reads_does_and_records_its_work(house):
    house.drop("notes.txt", "no mapping reads this")  # needs someone, and is said on both
    words = [sys.executable, "-m", "loadsheet", "run", "--verbose"]
    variables = environment(**house.variables, LOADSHEET_READING__PROCESS="none")
    with nobody_reads() as out, nobody_reads() as err:
        done = subprocess.run(words, check=False, cwd=house, env=variables, stdout=out, stderr=err)
    assert done.returncode == 1
    assert recorded(house) == (1, {})


@pytest.mark.parametrize("another_run", [False, True])
def test_a_signal_while_a_notice_is_sent_is_in_all_of_them(house, another_run):
    """Unless another run holds the ledger by then, which is said."""
    with closing(socket.create_server(("127.0.0.1", 0))) as nobody, ExitStack() as beside:
        ping = f'notifications.ping_url = "http://127.0.0.1:{nobody.getsockname()[1]}/"'
        house.edit("loadsheet.toml", "retention.backups = 3", ping)
        process = shared_nursery().start(house, "run", LOADSHEET_READING__PROCESS="none")
        nobody.accept()[0].close()  # that it begins
        waits, _ = nobody.accept()  # that it ended, which is not answered
        assert recorded(house) == (0, {})
        if another_run:
            beside.enter_context(open_ledger(f"sqlite:///{house.state / 'ledger.db'}"))
        assert process.stop() == 143, process.said
        waits.close()
    assert house.run_json()["exit_code"] == 143
    assert ("the ledger still shows exit code" in process.said) == another_run
    if not another_run:
        assert recorded(house)[0] == 143


@pytest.fixture
def home(workspace):
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


def told(home):
    (folder,) = home.reports()
    return home.run_json(), folder


def test_the_work_of_a_run_without_reports_is_reported_by_the_next_one_and_not_again(home):
    """And the reports of both can be made again."""
    places = in_the_way(home.outbox)
    failed = home.run()
    assert failed.returncode == 75, failed.stderr
    done = home.run()
    assert done.returncode == 1, done.stderr
    dead = next(place.name for place in places if f"run {place.name} did not finish" in done.stderr)
    summary, folder = told(home)
    assert summary["entries"] == {"accepted": 10, "invalid": 2}
    assert summary["verdicts"] == {"matched": 10, "not sent: invalid": 2}
    assert summary["balance"]["balances"] is True
    assert [remark for remark in summary["remarks"] if f"run {dead} did not finish" in remark]
    assert [row["outcome"] for row in home.results(f"packages.csv.of-{dead}")].count("invalid") == 6
    assert list(folder.glob("*.fix.xlsx"))
    assert sorted(path.name for path in (folder / "ack").glob("*.json"))
    shown = home.command("runs").stdout
    assert f"not finished, reported by {folder.name}" in shown
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(folder)
    assert home.command("report", "--run", folder.name).returncode == 1
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    shutil.rmtree(folder)
    again = home.run()
    assert again.returncode == 0, again.stderr
    assert "did not finish" not in again.stderr
    summary, folder = told(home)
    assert summary["entries"] == {}
    shutil.rmtree(folder)
    for place in places:
        place.unlink()
    assert home.command("report", "--run", dead).returncode == 1
    assert told(home)[0]["entries"] == {"accepted": 10, "invalid": 2}


@pytest.mark.sweep
def test_the_capsule_of_a_run_that_reports_a_dead_one_replays_the_same(tmp_path):
    home = House(tmp_path, "alder-parcels", "nordic-join")
    home.drop("alder_2026-03-10.csv")
    home.settings.outbox.mkdir()
    place = home.settings.outbox / "2026-03-05-01"
    place.write_text("in the way", encoding="utf-8")
    with pytest.raises(FolderError):
        home.run()
    home.drop("nordic")
    name = home.run()
    assert home.said == []
    found = replay(home.capsule(name))
    assert found.is_same, found
    assert home.last.drops[0].run == "2026-03-05-01"


def test_an_outbox_that_cannot_be_written_is_said_before_anything_is_taken(home):
    home.outbox.write_text("in the way", encoding="utf-8")
    done = home.run()
    assert done.returncode == 75
    assert "reports cannot be written to the folder outbox (it is a file); nothing was read or sent" in done.stderr
    assert sorted(path.name for path in home.inbox.iterdir()) == ["orders.csv", "packages.csv"]
    assert "-01" not in home.command("runs").stdout


def test_an_empty_ledger_in_the_place_of_another_leaves_the_reports_that_are_there(home):
    assert home.run().returncode == 1
    before, folder = told(home)
    shutil.rmtree(home.state)
    assert home.run().returncode == 0
    assert json.loads((folder / "run.json").read_text(encoding="utf-8")) == before
    assert len(home.reports()) == 2


def test_a_run_that_stops_early_counts_what_earlier_runs_left(house):
    house.edit("loadsheet.toml", "arrival.settle_s", "dispatch.unreachable_max = 1\narrival.settle_s")
    for new, all_of_them in ((2, 2), (1, 3), (0, 3)):
        if new:
            house.write_orders(new, first=all_of_them - new)
        done = house.run("--exchange", "http://127.0.0.1:9")
        counted = f"{all_of_them} documents go with the next run" in done.stdout
        assert (done.returncode, counted) == (75, True), done.stdout
        assert house.run_json()["ready"] == all_of_them

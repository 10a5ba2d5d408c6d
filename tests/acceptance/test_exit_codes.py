"""The exit code of a run, its row in the ledger and its run.json say the same, whatever breaks once its end is recorded."""

import json
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from command import TOKEN, environment
from command_in_process import nobody_reads, stdout_to
from command_processes import shared_nursery
from small_disk import small_disk
from watch_process import watching

from loadsheet.cli import invoke
from loadsheet.ledger import open_ledger

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
ELSE = "the steps after the end of the run"


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


def test_a_capsule_that_breaks_is_in_all_of_them(house):
    (house.state / "capsules").write_text("no folder", encoding="utf-8")
    done = house.run()
    assert (done.returncode, f"an internal error: {CAPSULE} (" in done.stderr) == (70, True), done.stderr
    code, undone = recorded(house)
    assert (code, list(undone)) == (70, [CAPSULE])
    assert json.loads(house.command("runs", "--json").stdout)[0]["exit_code"] == 70


def test_a_watch_records_it_as_well_and_goes_on(house):
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
        assert invoke(["run"]) == 70
    assert recorded(house) == (70, {ELSE: "No space left on device"})


@pytest.mark.journey
@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
def test_a_process_whose_readers_have_gone_away_does_and_records_its_work(house, closed):
    house.drop("notes.txt", "no mapping reads this")  # needs someone, and is said on both
    words = [sys.executable, "-m", "loadsheet", "run", "--verbose"]
    variables = environment(**house.variables, LOADSHEET_READING__PROCESS="none")
    with ExitStack() as stack:
        ends = {name: stack.enter_context(nobody_reads()) for name in ("stdout", "stderr") if closed in (name, "both")}
        done = subprocess.run(words, check=False, cwd=house, env=variables, **ends)
    assert done.returncode == 1
    assert recorded(house) == (1, {})


@pytest.mark.parametrize("another_run", [False, True])
def test_a_signal_while_somebody_is_told_is_in_all_of_them(house, another_run):
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

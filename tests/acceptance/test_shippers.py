"""Several shippers in one installation: each has its inbox, its ledger and its exchange, and nobody's trouble is another's."""

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing

import pytest
from command import start
from orders import MAPPINGS, order_id, write_orders
from serving import TOKEN, exchange
from warm import loadsheet
from watched import watching

DAY = 86_400


@pytest.fixture
def house(tmp_path):
    """A folder with mappings and two shippers, of whom each drops an order under the same number."""
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "loadsheet.toml").write_text("settle_s = 0\n[shippers.acme]\n[shippers.birch]\n", encoding="utf-8")
    write_orders(tmp_path / "inbox" / "acme", 3)
    write_orders(tmp_path / "inbox" / "birch", 2)
    return tmp_path


def states(house, shipper):
    with closing(sqlite3.connect(house / ".loadsheet" / shipper / "ledger.db")) as ledger:
        return dict(ledger.execute("select key, state from entries order by id").fetchall())


def tree(folder):
    """Every file below a folder, with its bytes and time of change."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_serves_all_shippers_each_with_its_own_ledger_and_reports(house):
    done = loadsheet(house, "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert set(states(house, "acme")) == {order_id(0), order_id(1), order_id(2)}
    assert set(states(house, "birch")) == {order_id(0), order_id(1)}, "the same numbers, and no meeting"
    assert set(states(house, "birch").values()) == {"accepted"}
    lines = done.stdout.splitlines()
    assert lines[0] == "acme:"
    assert "birch:" in lines
    assert list((house / "outbox" / "birch").glob("2*/run.json"))
    assert not (house / ".loadsheet" / "ledger.db").exists()


def test_one_shippers_failure_stops_no_other_and_the_worst_exit_code_counts(house):
    with exchange(house / "exchange.db") as served:
        (house / "loadsheet.toml").write_text(
            "settle_s = 0\n"
            "[shippers.wrong]\nconections = 3\n"
            '[shippers.gone]\nexchange = "http://127.0.0.1:9"\ntoken_command = "echo x"\n'
            f'[shippers.acme]\nexchange = "{served.url}"\ntoken_command = "printf {TOKEN}"\n'
            f'[shippers.shut]\nexchange = "{served.url}"\ntoken_command = "echo another"\n'
            "[shippers.birch]\n",
            encoding="utf-8",
        )
        write_orders(house / "inbox" / "gone", 2)
        write_orders(house / "inbox" / "shut", 2, first=50)
        write_orders(house / "inbox" / "birch", 3, wrong_every=3)
        done = loadsheet(house, "run", "--json")
    told = json.loads(done.stdout)
    codes = {name: shipper["exit_code"] for name, shipper in told["shippers"].items()}
    assert codes == {"wrong": 78, "gone": 75, "acme": 0, "shut": 77, "birch": 1}
    assert done.returncode == told["exit_code"] == 78
    assert "wrong: loadsheet.toml [shippers.wrong] conections: there is no such setting" in done.stderr
    assert "conections" in told["shippers"]["wrong"]["stopped"]
    assert told["shippers"]["wrong"]["summary"] is None
    assert told["shippers"]["acme"]["summary"]["entries"] == {"accepted": 3}
    assert set(states(house, "acme").values()) == {"accepted"}
    assert set(states(house, "shut").values()) == set(states(house, "gone").values()) == {"ready"}


def test_a_fault_of_ours_at_one_shipper_ends_with_70_and_the_others_go_on(house):
    loadsheet(house, "run", "--shipper", "acme")
    with closing(sqlite3.connect(house / ".loadsheet" / "acme" / "ledger.db")) as ledger, ledger:
        ledger.execute("update entries set problems = 'no JSON at all'")
    write_orders(house / "inbox" / "acme", 3)
    done = loadsheet(house, "run")
    assert done.returncode == 70, done.stderr
    assert "acme: a fault of our own" in done.stderr
    assert set(states(house, "birch").values()) == {"accepted"}


def test_one_shipper_alone_is_told_as_if_there_were_no_other(house):
    done = loadsheet(house, "run", "--shipper", "ACME", "--json")
    assert json.loads(done.stdout)["entries"] == {"accepted": 3}
    assert (house / "inbox" / "birch" / "orders.csv").exists()
    shown = loadsheet(house, "show", order_id(0), "--shipper", "acme")
    assert shown.returncode == 0
    assert "acme" in shown.stdout or "accepted" in shown.stdout
    again = loadsheet(house, "runs", LOADSHEET_SHIPPER="acme")
    assert again.returncode == 0


@pytest.mark.parametrize("words", [("show", "x"), ("resolve",), ("retry", "--held"), ("report",)])
def test_commands_that_look_ask_which_shipper_is_meant(house, words):
    done = loadsheet(house, *words)
    assert done.returncode == 2
    assert "which shipper? --shipper acme|birch" in done.stderr


def test_the_only_shipper_need_not_be_named(house):
    (house / "loadsheet.toml").write_text("settle_s = 0\n[shippers.acme]\n", encoding="utf-8")
    done = loadsheet(house, "run", "--json")
    assert json.loads(done.stdout)["entries"] == {"accepted": 3}
    assert "2 files lie in inbox outside" in done.stderr
    assert loadsheet(house, "show", order_id(0)).returncode == 0
    assert loadsheet(house, "runs").stdout.startswith("Run\t")


def test_runs_lists_those_of_all_shippers_and_says_of_whom_nothing_can_be_said(house):
    loadsheet(house, "run", "--shipper", "acme")
    done = loadsheet(house, "runs")
    assert "there is no ledger at .loadsheet/birch/ledger.db yet" in done.stderr
    heads, row = (line.split("\t") for line in done.stdout.splitlines())
    assert (heads[:2], row[0], row[-1]) == (["Shipper", "Run"], "acme", "3 accepted")
    loadsheet(house, "run")
    told = json.loads(loadsheet(house, "runs", "--json").stdout)
    assert sorted(one["shipper"] for one in told) == ["acme", "acme", "birch"]


@pytest.mark.parametrize("option", ["--inbox", "--outbox", "--state", "--mappings"])
def test_a_folder_on_the_command_line_is_one_shippers(house, option):
    done = loadsheet(house, "run", option, "elsewhere")
    assert done.returncode == 2
    assert f"{option} is about one shipper, and several are declared: add --shipper acme|birch" in done.stderr
    write_orders(house / "elsewhere", 1)
    if option == "--inbox":
        assert loadsheet(house, "run", option, "elsewhere", "--shipper", "acme").returncode == 0
        assert set(states(house, "acme")) == {order_id(0)}


def test_files_outside_of_the_shippers_folders_are_said(house):
    for name in ("orders.csv", "brich/orders.csv"):
        (house / "inbox" / name).parent.mkdir(exist_ok=True)
        (house / "inbox" / name).write_text("x", encoding="utf-8")
    done = loadsheet(house, "run", "--quiet")
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    told = (
        "2 files lie in inbox outside of the shippers' folders, where nobody takes them: brich/orders.csv, orders.csv"
    )
    assert line == told


def test_with_needs_someone_the_next_command_names_the_shipper(house):
    write_orders(house / "inbox" / "acme", 3, wrong_every=3)
    done = loadsheet(house, "run", "--quiet")
    assert done.returncode == 1
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("next: loadsheet ")]
    assert command.endswith(" --shipper acme")
    assert "birch:" not in done.stdout, "what needs nobody is not said"
    assert loadsheet(house, *command.removeprefix("next: loadsheet ").split()).returncode == 0


def test_secrets_of_shippers_come_from_variables_of_theirs(house):
    with exchange(house / "exchange.db") as served:
        (house / "loadsheet.toml").write_text(
            f'settle_s = 0\nexchange = "{served.url}"\n[shippers.acme]\n[shippers.birch]\n', encoding="utf-8"
        )
        done = loadsheet(house, "run", "--quiet", LOADSHEET_TOKEN="of-nobody", LOADSHEET_SHIPPERS__ACME__TOKEN=TOKEN)
    assert done.returncode == 77
    assert set(states(house, "acme").values()) == {"accepted"}
    assert set(states(house, "birch").values()) == {"ready"}
    assert "of-nobody" not in done.stdout + done.stderr


def test_a_watch_serves_all_shippers_and_what_ends_one_ends_no_other(house):
    with exchange(house / "exchange.db") as served:
        (house / "loadsheet.toml").write_text(
            "[shippers.acme]\n"
            "[shippers.wrong]\nconections = 3\n"
            f'[shippers.shut]\nexchange = "{served.url}"\ntoken_command = "echo another"\n'
            "[shippers.birch]\n",
            encoding="utf-8",
        )
        (house / "inbox" / "stray.csv").write_text("x", encoding="utf-8")
        write_orders(house / "inbox" / "shut", 1, first=50)
        with watching(house) as watch:
            watch.until(lambda: watch.says("shut: ") and any(line.startswith("birch: ") for line in watch.out))
            write_orders(house / "coming", 4, first=70)
            for path in (house / "coming").iterdir():
                path.rename(house / "inbox" / "birch" / path.name)
            watch.until(lambda: any(line.startswith("birch: ") and " 4 accepted" in line for line in watch.out))
            beside = loadsheet(house, "run", "--shipper", "acme")
            freed = loadsheet(house, "run", "--shipper", "shut")
            assert watch.stop() == 0
    assert watch.says("wrong: loadsheet.toml [shippers.wrong] conections: there is no such setting")
    assert watch.says("watching inbox/acme, inbox/shut, inbox/birch")
    assert watch.says("1 file lies in inbox outside of the shippers' folders")
    assert watch.says("this shipper is watched no more (exit code 77), the others are")
    assert beside.returncode == 75, "its ledger is held"
    assert freed.returncode == 77, "that of a shipper that is watched no more is not"
    assert len(states(house, "acme")) == 3
    assert len(states(house, "birch")) == 6
    assert set(states(house, "shut").values()) == {"ready"}


def test_a_watch_of_which_nothing_is_left_ends_with_the_worst_exit_code(house):
    (house / "loadsheet.toml").write_text("[shippers.acme]\nconections = 3\n[shippers.birch]\n", encoding="utf-8")
    shutil.rmtree(house / "mappings")
    with watching(house) as watch:
        assert watch.ended() == 78
    assert watch.says("acme: ")
    assert watch.says("birch: ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_run_that_is_told_to_end_ends_after_the_calls_under_way_and_the_next_one_goes_on(house, number, code):
    shutil.rmtree(house / "inbox")
    (house / "loadsheet.toml").write_text("settle_s = 0\ncall_timeout_s = 30\n", encoding="utf-8")
    write_orders(house / "inbox", 300)
    with exchange(house / "exchange.db") as served:
        process = start(house, "run", "--exchange", served.url)
        ledger = house / ".loadsheet" / "ledger.db"
        deadline = time.monotonic() + 60
        while not (ledger.exists() and counted(ledger).get("accepted", 0) >= 5):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == code, said
        assert "interrupted; the state is safe, the next run goes on from here" in said
        assert set(counted(ledger)) <= {"accepted", "ready"}
        assert counted(ledger)["ready"] > 0, "it was in the middle"
        assert loadsheet(house, "run", "--exchange", served.url).returncode == 0
    assert counted(ledger) == {"accepted": 300}


def counted(ledger):
    with closing(sqlite3.connect(ledger)) as opened:
        try:
            return dict(opened.execute("select state, count(*) from entries group by state").fetchall())
        except sqlite3.OperationalError:  # it is being made
            return {}


# a run's own options


@pytest.fixture
def alone(tmp_path):
    """A folder without shippers: five orders."""
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    write_orders(tmp_path / "inbox", 5)
    return tmp_path


def run(house, *words, **more):
    return loadsheet(house, "run", "--settle", "0", *words, **more)


def entries(house):
    with closing(sqlite3.connect(house / ".loadsheet" / "ledger.db")) as ledger:
        return sorted(state for (state,) in ledger.execute("select state from entries"))


def test_a_limit_sends_so_many_and_the_next_run_goes_on(alone):
    done = run(alone, "--limit", "2")
    assert done.returncode == 0, done.stderr
    assert entries(alone) == ["accepted"] * 2 + ["ready"] * 3
    assert "3 entries stay ready (a run sends 2 at most)" in done.stderr
    assert run(alone, LOADSHEET_RUN_ENTRIES_MAX="2").returncode == 0
    assert run(alone, "--limit", "2").stderr == ""
    assert entries(alone) == ["accepted"] * 5


def test_since_takes_what_changed_since_then_and_counts_the_rest(alone):
    old = time.time() - 3 * DAY
    write_orders(alone / "inbox" / "older", 2, first=70)
    for path in (alone / "inbox" / "older").iterdir():
        os.utime(path, (old, old))
    yesterday = time.strftime("%Y-%m-%d", time.localtime(time.time() - DAY))
    done = run(alone, "--since", yesterday)
    assert done.returncode == 0
    assert f"2 files last changed before {yesterday} 00:00" in done.stderr
    assert len(entries(alone)) == 5
    assert len(list((alone / "inbox" / "older").iterdir())) == 2
    assert run(alone, "--since", "tomorrow").returncode == 2
    assert run(alone).returncode == 0
    assert len(entries(alone)) == 7


def test_quiet_says_nothing_of_a_run_that_needs_nobody_and_verbose_says_it_all_the_same(alone):
    (alone / "inbox" / "link.csv").symlink_to("nowhere")
    done = run(alone, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    write_orders(alone / "inbox", 1, first=20)
    by_setting = run(alone, LOADSHEET_QUIET="true")
    assert (by_setting.returncode, by_setting.stdout, by_setting.stderr) == (0, "", "")
    write_orders(alone / "inbox", 1, first=21)
    said = run(alone, "--verbose", LOADSHEET_QUIET="true")
    assert "1 accepted" in said.stdout
    assert "link.csv is a symbolic link" in said.stderr
    assert "entries planned" in said.stderr, "as it happens"
    write_orders(alone / "inbox", 3, first=30, wrong_every=2)
    assert "need" in run(alone, "--quiet").stdout


def test_a_dry_run_says_what_would_be_and_leaves_everything_as_it_is(alone):
    write_orders(alone / "inbox", 8, wrong_every=4)
    (alone / "inbox" / "holiday.jpg").write_bytes(b"\xff\xd8")
    before = tree(alone)
    done = run(alone, "--dry-run", "--limit", "3")
    assert (done.returncode, tree(alone)) == (1, before)
    assert "orders.csv + packages.csv (bench-join): 6 would be sent, 2 invalid" in done.stdout
    assert "holiday.jpg: would be set aside: no mapping file names holiday.jpg" in done.stdout
    assert "6 records would be sent; 3 of them by this run, and the rest by later ones" in done.stdout
    told = json.loads(run(alone, "--dry-run", "--json").stdout)
    assert (told["dry_run"], told["exit_code"], told["records"]) == (True, 1, {"ready": 6, "invalid": 2})
    assert tree(alone) == before


def test_a_dry_run_foresees_what_the_run_then_does(alone):
    run(alone, "--limit", "2")
    write_orders(alone / "inbox", 7)
    text = (alone / "inbox" / "orders.csv").read_text(encoding="utf-8").replace("Hauptstraße 0,", "Nebenstraße 0,")
    (alone / "inbox" / "orders.csv").write_text(text, encoding="utf-8")
    foretold = json.loads(run(alone, "--dry-run", "--json").stdout)
    done = json.loads(run(alone, "--json").stdout)
    assert foretold["exit_code"] == done["exit_code"] == 1
    assert foretold["records"] == {"held": 1, "unchanged": 4, "ready": 2}
    assert foretold["already"] == {"ready": 3, "unknown": 0}
    assert done["entries"] == {"held": 1, "unchanged": 4, "accepted": 2 + 5}, "five are of the drop that was under way"


def test_a_dry_run_with_a_wrong_mapping_ends_with_78(alone):
    path = alone / "mappings" / "bench-join.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("delivery_city:", "delivery_ciy:"), encoding="utf-8")
    assert run(alone, "--dry-run").returncode == 78

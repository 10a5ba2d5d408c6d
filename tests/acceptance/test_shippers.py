"""Several shippers in one installation: each has its inbox, its ledger and its exchange, and nobody's trouble is another's."""

import json
import os
import shutil
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing

import pytest
from command_processes import shared_nursery
from exchange_process import TOKEN, exchange
from faulty_exchange import misbehaving
from orders import order_id, write_orders
from watch_process import watching

DAY = 86_400
STRAYS = "2 files are in inbox, outside the shippers' folders: no run processes them: brich/orders.csv, orders.csv"


@pytest.fixture
def house(workspace):
    """Two shippers, of whom each drops orders under the same numbers."""
    declare(workspace, "[shippers.acme]\n[shippers.birch]\n")
    write_orders(workspace.inbox / "acme", 3)
    write_orders(workspace.inbox / "birch", 2)
    return workspace


def declare(house, text):
    (house / "loadsheet.toml").write_text(text, encoding="utf-8")


def ledger_of(house, shipper):
    return closing(sqlite3.connect(house.state / shipper / "ledger.db"))


def states(house, shipper):
    with ledger_of(house, shipper) as ledger:
        return dict(ledger.execute("select key, state from entries order by id").fetchall())


def tree(house):
    """Every file with its bytes and time of change."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in house.folder.rglob("*") if path.is_file()}


def test_a_run_serves_all_shippers_each_with_its_own_ledger_and_reports(house):
    done = house.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert states(house, "acme").keys() == {order_id(0), order_id(1), order_id(2)}
    assert states(house, "birch") == dict.fromkeys([order_id(0), order_id(1)], "accepted"), "the same numbers"
    lines = done.stdout.splitlines()
    assert (lines[0], "birch:" in lines) == ("acme:", True)
    assert list((house.outbox / "birch").glob("2*/run.json"))
    assert not (house.state / "ledger.db").exists()
    for words in (("show", "x"), ("resolve",), ("retry", "--held"), ("report",)):
        asked = house.command(*words)
        assert (asked.returncode, "which shipper? --shipper acme|birch" in asked.stderr) == (2, True), words
    for option in ("--inbox", "--outbox", "--state", "--mappings"):
        asked = house.run(option, "elsewhere")
        needs = f"{option} needs one shipper, and several are declared: add --shipper acme|birch"
        assert (asked.returncode, needs in asked.stderr) == (2, True)
    write_orders(house / "elsewhere", 1, first=40)
    assert house.run("--inbox", "elsewhere", "--shipper", "acme").returncode == 0
    assert order_id(40) in states(house, "acme")


@pytest.mark.parametrize("words", [("check",), ("mapping", "preview")], ids=" ".join)
def test_files_that_mappings_of_shippers_read_need_the_name_of_one(house, words):
    (house / "some.csv").write_text("Order\nA-1\n", encoding="utf-8")
    shared = house.command(*words, "some.csv")
    assert "A101" in shared.stdout + shared.stderr
    for name in ("acme", "birch"):
        (house / "mappings" / name).mkdir()
    asked = house.command(*words, "some.csv")
    assert (asked.returncode, "which shipper? --shipper acme|birch" in asked.stderr) == (2, True)


def test_one_shipper_alone_is_shown_as_if_there_were_no_other_and_one_that_needs_someone_is_named(house):
    done = house.run("--shipper", "ACME", "--json")
    assert json.loads(done.stdout)["entries"] == {"accepted": 3}
    assert (house.inbox / "birch" / "orders.csv").exists()
    shown = house.command("show", order_id(0), "--shipper", "acme")
    assert (shown.returncode, "accepted" in shown.stdout) == (0, True)
    assert house.command("runs", LOADSHEET_SHIPPER="acme").returncode == 0
    done = house.command("runs")
    assert "there is no ledger at .loadsheet/birch/ledger.db yet" in done.stderr
    heads, row = (line.split("\t") for line in done.stdout.splitlines())
    assert (heads[:2], row[0], row[-1]) == (["Shipper", "Run"], "acme", "All 3 documents were accepted")
    write_orders(house.inbox / "acme", 3, first=20, wrong_every=3)
    for name in ("orders.csv", "brich/orders.csv"):
        house.drop(name, "x")
    done = house.run("--quiet")
    assert (done.returncode, done.stderr.splitlines()) == (1, [STRAYS])
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("→ Look into: loadsheet ")]
    assert command.endswith(" show --shipper acme 00000021")
    assert "birch:" not in done.stdout, "what needs nobody is not said"
    assert house.command(*command.removeprefix("→ Look into: loadsheet ").split()).returncode == 0
    told = json.loads(house.command("runs", "--json").stdout)
    assert sorted(one["shipper"] for one in told) == ["acme", "acme", "birch"]


@pytest.mark.journey
def test_one_shippers_failure_stops_no_other_and_the_worst_exit_code_counts(house):
    """Nor does a fault of ours. Secrets of shippers may come from variables of theirs."""
    with exchange(house / "exchange.db") as served:
        declare(
            house,
            f'exchange = "{served.url}"\n[shippers.wrong]\nconections = 3\n'
            '[shippers.gone]\nexchange = "http://127.0.0.1:9"\ntoken_command = "echo x"\n'
            "[shippers.acme]\n[shippers.shut]\n"
            '[shippers.ours]\nexchange = "embedded"\n[shippers.birch]\nexchange = "embedded"\n',
        )
        write_orders(house.inbox / "gone", 2)
        write_orders(house.inbox / "shut", 2, first=50)
        write_orders(house.inbox / "birch", 3, wrong_every=3)
        write_orders(house.inbox / "ours", 1)
        assert house.run("--shipper", "ours").returncode == 0
        with ledger_of(house, "ours") as ledger, ledger:
            ledger.execute("update entries set problems = 'no JSON at all'")
        write_orders(house.inbox / "ours", 1)
        done = house.run(
            "--json",
            LOADSHEET_DISPATCH__UNREACHABLE_MAX="2",
            LOADSHEET_TOKEN="of-nobody",
            LOADSHEET_SHIPPERS__ACME__TOKEN=TOKEN,
        )
    told = json.loads(done.stdout)
    codes = {name: shipper["exit_code"] for name, shipper in told["shippers"].items()}
    assert codes == {"wrong": 78, "gone": 75, "acme": 0, "shut": 77, "ours": 70, "birch": 1}
    assert done.returncode == told["exit_code"] == 70
    assert "ours: an internal error" in done.stderr
    assert "wrong: loadsheet.toml [shippers.wrong] conections: unknown setting" in done.stderr
    assert "conections" in told["shippers"]["wrong"]["stopped"]
    assert told["shippers"]["wrong"]["summary"] is None
    assert told["shippers"]["acme"]["summary"]["entries"] == {"accepted": 3}
    assert set(states(house, "acme").values()) == {"accepted"}
    assert set(states(house, "shut").values()) == set(states(house, "gone").values()) == {"ready"}
    assert "of-nobody" not in done.stdout + done.stderr


def test_the_only_shipper_need_not_be_named(house):
    declare(house, "[shippers.acme]\n")
    done = house.run("--json")
    assert json.loads(done.stdout)["entries"] == {"accepted": 3}
    assert "2 files are in inbox, outside" in done.stderr
    assert (done.returncode, house.run("--exit-zero").returncode) == (1, 0), "nobody reads these files"
    assert house.command("show", order_id(0)).returncode == 0
    assert house.command("runs").stdout.startswith("Run\t")


@pytest.mark.sweep
def test_a_watch_serves_all_shippers_and_what_ends_one_ends_no_other(house):
    with exchange(house / "exchange.db") as served:
        declare(
            house,
            "[shippers.acme]\n"
            "[shippers.wrong]\nconections = 3\n"
            f'[shippers.shut]\nexchange = "{served.url}"\ntoken_command = "echo another"\n'
            "[shippers.birch]\n",
        )
        house.drop("stray.csv", "x")
        write_orders(house.inbox / "shut", 1, first=50)
        with watching(house) as watch:
            watch.until(lambda: watch.says("shut: ") and any(line.startswith("birch: ") for line in watch.out))
            write_orders(house / "coming", 4, first=70)
            for path in (house / "coming").iterdir():
                path.rename(house.inbox / "birch" / path.name)
            watch.until(lambda: any(line.startswith("birch: ") and " 4 accepted" in line for line in watch.out))
            beside, freed = (house.run("--shipper", name) for name in ("acme", "shut"))
            assert watch.stop() == 0
            for said in (
                "wrong: loadsheet.toml [shippers.wrong] conections: unknown setting",
                "watching inbox/acme, inbox/shut, inbox/birch",
                "1 file is in inbox, outside the shippers' folders",
                "this shipper is no longer watched (exit code 77); the others are",
            ):
                assert watch.says(said), said
    assert beside.returncode == 75, "its ledger is held"
    assert freed.returncode == 77, "that of a shipper that is no longer watched is not"
    assert (len(states(house, "acme")), len(states(house, "birch"))) == (3, 6)
    assert set(states(house, "shut").values()) == {"ready"}


def test_a_watch_of_which_nothing_is_left_ends_with_the_worst_exit_code(house):
    declare(house, "[shippers.acme]\nconections = 3\n[shippers.birch]\n")
    shutil.rmtree(house / "mappings")
    with watching(house) as watch:
        assert watch.ended() == 78
        assert all(watch.says(name) for name in ("acme: ", "birch: "))


@pytest.mark.journey
def test_a_run_that_is_asked_to_end_ends_after_the_calls_under_way_and_the_next_one_goes_on(workspace, tmp_path):
    def counted():
        return Counter(state for (state,) in workspace.ask("select state from entries"))

    workspace.write_orders(100)
    slow = {"fault": "slow_effect", "operation": "order.create", "at": range(6, 101), "seconds": 0.1}
    with misbehaving(tmp_path, slow) as served:
        words = ("run", "--exchange", served.url)
        for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)):
            before = counted()["accepted"]
            process = shared_nursery().start(workspace, *words, **workspace.variables)
            deadline = time.monotonic() + 60
            while counted()["accepted"] < before + 5:
                assert time.monotonic() < deadline
                assert process.poll() is None, process.said
                time.sleep(0.01)
            process.send(number)
            assert process.wait() == code, process.said
            assert "interrupted; the state is safe, the next run continues from here" in process.said
            assert counted().keys() == {"accepted", "ready"}, "it was in the middle"
        assert workspace.command(*words).returncode == 0
    assert counted() == {"accepted": 100}


# a run's own options


@pytest.fixture
def alone(workspace):
    """No shippers, and five orders."""
    workspace.write_orders(5)
    return workspace


def entries(house):
    return sorted(state for (state,) in house.ask("select state from entries"))


def test_a_limit_and_a_day_say_what_a_run_takes_and_the_next_run_goes_on(alone):
    old = time.time() - 3 * DAY
    write_orders(alone.inbox / "older", 2, first=70)
    for path in (alone.inbox / "older").iterdir():
        os.utime(path, (old, old))
    yesterday = time.strftime("%Y-%m-%d", time.localtime(time.time() - DAY))
    done = alone.run("--since", yesterday, "--limit", "2")
    assert done.returncode == 0, done.stderr
    assert f"files last changed before {yesterday} 00:00+00:00, not taken (arrival.arrived_since): 2" in done.stderr
    assert "3 documents left for the next run: a run sends at most 2" in done.stderr
    assert done.stdout.startswith("! 2 of 5 documents accepted · 3 documents wait to be sent"), (
        "no cross beside exit code 0"
    )
    assert entries(alone) == ["accepted"] * 2 + ["ready"] * 3
    assert alone.run("--since", "tomorrow").returncode == 2
    assert alone.run(LOADSHEET_DISPATCH__RUN_ENTRIES_MAX="2").returncode == 0
    assert entries(alone).count("accepted") == 4
    assert "1 document left for the next run" in alone.run("--limit", "2").stderr
    assert alone.run("--dry-run").stdout.startswith("1 record would be sent; 1 of them ready since earlier runs")
    assert alone.run("--limit", "9").stderr == ""
    assert entries(alone) == ["accepted"] * 7


@pytest.mark.parametrize(
    ("words", "variables"),
    [(["--quiet"], {}), ([], {"LOADSHEET_QUIET": "true"}), ([], {"LOADSHEET_QUIET": "auto"})],
    ids=["option", "setting", "in a pipe"],
)
def test_quiet_says_nothing_of_a_run_that_needs_nobody(alone, words, variables):
    (alone.inbox / "begun.csv").touch()
    done = alone.run(*words, **variables, LOADSHEET_ALLOW_ROOT="false")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    alone.write_orders(3, first=30, wrong_every=2)
    assert "need" in alone.run(*words, **variables).stdout


def test_where_runs_are_quiet_json_and_verbose_say_it_all_the_same(alone):
    (alone.inbox / "begun.csv").touch()
    alone.variables["LOADSHEET_QUIET"] = "true"
    assert json.loads(alone.run("--json").stdout)["exit_code"] == 0
    assert alone.run().stdout == "", "an inbox without orders"
    alone.write_orders(1, first=21)
    said = alone.run("--verbose")
    assert "rows: 3 accepted" in said.stdout
    assert "begun.csv is empty" in said.stderr
    assert "entries planned" in said.stderr, "as it happens"
    assert "accounted for" in alone.run(LOADSHEET_QUIET="false").stdout


def test_a_dry_run_says_what_would_be_foresees_what_the_run_does_and_changes_nothing(alone):
    alone.run("--limit", "2")
    alone.write_orders(8, wrong_every=4)
    alone.drop("holiday.jpg", b"\xff\xd8")
    alone.edit("inbox/orders.csv", "Hauptstraße 1,", "Nebenstraße 1,")
    before = tree(alone)
    done = alone.run("--dry-run", "--limit", "3")
    assert (done.returncode, tree(alone)) == (1, before)
    of_file = "3 would be sent, 1 would be held, 2 invalid, 2 unchanged"
    assert f"orders.csv + packages.csv (bench-join): {of_file}" in done.stdout
    assert "holiday.jpg: would be set aside: no mapping matches holiday.jpg" in done.stdout
    assert "by later runs" in done.stdout
    foretold = json.loads(alone.run("--dry-run", "--json").stdout)
    assert tree(alone) == before
    assert (foretold["dry_run"], foretold["exit_code"]) == (True, 1)
    done = json.loads(alone.run("--json").stdout)
    assert done["exit_code"] == 1
    assert foretold["records"] == {"held": 1, "unchanged": 2, "invalid": 2, "ready": 3}
    assert foretold["already"] == {"ready": 3, "unknown": 0}
    assert done["entries"] == {"held": 1, "unchanged": 2, "invalid": 2, "accepted": 5 + 3}, "five are of the first drop"
    alone.edit("mappings/bench-join.yaml", "delivery_city:", "delivery_ciy:")
    assert alone.run("--dry-run").returncode == 78

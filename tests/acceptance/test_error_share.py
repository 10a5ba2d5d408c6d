"""A drop with too many errors: nothing of it is sent, every row stays accounted for, and both ways on work."""

import csv
import json
import shutil
import sqlite3

import pytest
from orders import MAPPINGS, order_id, write_orders
from warm import loadsheet


@pytest.fixture
def house(tmp_path):
    """A folder with an inbox of 12 orders, three of them wrong, and a mapping that stops at a fifth."""
    write_orders(tmp_path / "inbox", 12, first=1, wrong_every=4)
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    stop_at(tmp_path, "20%")
    return tmp_path


def stop_at(folder, share):
    path = folder / "mappings" / "bench-join.yaml"
    path.write_text(path.read_text(encoding="utf-8") + f"\nerrors:\n  stop_at: {share}\n", encoding="utf-8")


def run(folder, *words, **more):
    return loadsheet(folder, "run", "--settle", "0", *words, **more)


def summary(folder):
    (latest, *_) = sorted((folder / "outbox").glob("*/run.json"), reverse=True)
    return json.loads(latest.read_text(encoding="utf-8"))


def states(folder):
    with sqlite3.connect(folder / ".loadsheet" / "ledger.db") as ledger:
        found = ledger.execute("select state, count(*) from entries group by state").fetchall()
    ledger.close()
    return dict(found)


def test_nothing_of_a_drop_with_too_many_errors_is_sent(house):
    done = run(house)
    assert done.returncode == 1, done.stderr
    assert states(house) == {"held": 9, "invalid": 3}
    told = summary(house)
    assert told["balance"]["balances"] is True
    assert told["balance"]["rows"] == {"invalid": 12, "held": 36}
    (said,) = [problem for problem in told["problems"] if problem["code"] == "L611"]
    assert said["count"] == 9
    (results,) = (house / "outbox").glob("*/orders.csv.results.csv")
    with results.open(newline="", encoding="utf-8-sig") as file:
        rows = [row for row in csv.DictReader(file) if row["outcome"] == "held"]
    assert all("3 of 12 records of orders.csv are invalid, more than the 20 %" in row["problem"] for row in rows)
    assert "loadsheet retry --file orders.csv" in rows[0]["what to do"]


def test_what_is_right_of_it_goes_when_a_person_says_so(house):
    run(house)
    assert loadsheet(house, "retry", "--file", "orders.csv").returncode == 0
    assert run(house).returncode == 1 or states(house)["accepted"] == 9
    assert states(house) == {"accepted": 9, "invalid": 3}


def test_the_corrected_file_goes_whole(house):
    run(house)
    write_orders(house / "inbox", 12, first=1)
    done = run(house)
    assert done.returncode == 0, done.stderr
    assert states(house) == {"accepted": 12, "held": 9, "invalid": 3}
    assert loadsheet(house, "retry", "--held").returncode == 1  # the same content was sent since


def test_as_many_errors_as_the_share_allows_stop_nothing(house):
    write_orders(house / "inbox", 10, first=1, wrong_every=5)
    run(house)
    assert states(house) == {"accepted": 8, "invalid": 2}


def test_the_setting_holds_for_mappings_that_say_nothing_and_theirs_comes_first(house, tmp_path):
    shutil.rmtree(house / "mappings")
    shutil.copytree(MAPPINGS, house / "mappings")
    run(house, LOADSHEET_ERROR_SHARE_MAX="0.1")
    assert states(house) == {"held": 9, "invalid": 3}
    shutil.rmtree(house / ".loadsheet")
    stop_at(house, "30 %")
    write_orders(house / "inbox", 12, first=1, wrong_every=4)
    run(house, LOADSHEET_ERROR_SHARE_MAX="0.1")
    assert states(house) == {"accepted": 9, "invalid": 3}


def test_check_folds_problems_by_cause_and_says_that_a_run_would_hold_the_rest(house):
    done = loadsheet(house, "check", "inbox/orders.csv", "inbox/packages.csv")
    assert done.returncode == 65, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == 'C302 error: column Weight: "heavy" is not a number as en_US writes it, in 3 rows'
    assert lines[1].startswith("    at packages.csv:")
    assert lines[1].endswith(": heavy")
    assert lines[2] == "    en_US writes 1,234.5"
    assert lines[3].startswith("L611 error: 3 of 12 records of orders.csv are invalid, more than the 20 %")
    assert lines[-1] == "0 documents could be sent; 4 errors, 0 warnings"


def test_check_says_every_problem_on_wish_and_counts_causes_for_machines(house):
    files = ("inbox/orders.csv", "inbox/packages.csv")
    lines = loadsheet(house, "check", "--all", *files).stderr.splitlines()
    assert sum("packages.csv:" in line and ": C302 error: " in line for line in lines) == 3
    told = json.loads(loadsheet(house, "check", "--json", *files).stdout)
    first, second = told["causes"]
    assert (first["code"], first["column"], first["count"], first["keys"]) == ("C302", "Weight", 3, 3)
    assert second["code"] == "L611"
    assert len(told["problems"]) == 4


def test_payload_lines_name_the_mapping_its_version_and_its_hash(house):
    done = loadsheet(house, "check", "--payloads", "inbox/orders.csv", "inbox/packages.csv")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["mapping"]["name"] for line in lines} == {"bench-join"}
    assert {(line["mapping"]["version"], len(line["mapping"]["hash"])) for line in lines} == {(1, 64)}
    assert order_id(4) not in {line["key"] for line in lines}

"""A drop with too many errors: nothing of it is sent, every row stays accounted for, and both ways on work."""

import json
from collections import Counter

import pytest


@pytest.fixture
def house(workspace):
    """An inbox of 12 orders, three of them wrong, and a mapping that stops at a fifth."""
    workspace.write_orders(12, first=1, wrong_every=4)
    stop_at(workspace, "20%")
    return workspace


def stop_at(house, share):
    path = house / "mappings" / "bench-join.yaml"
    path.write_text(path.read_text(encoding="utf-8") + f"\nerrors:\n  stop_at: {share}\n", encoding="utf-8")


def states(house):
    return Counter(state for (state,) in house.ask("select state from entries"))


def test_nothing_of_a_drop_with_too_many_errors_is_sent_until_a_person_says_so(house):
    done = house.run()
    assert done.returncode == 1, done.stderr
    assert states(house) == {"held": 9, "invalid": 3}
    told = house.run_json()
    assert (told["balance"]["balances"], told["balance"]["rows"]) == (True, {"invalid": 12, "held": 36})
    (said,) = [problem for problem in told["problems"] if problem["code"] == "L611"]
    assert said["count"] == 9
    rows = [row for row in house.results("orders.csv") if row["outcome"] == "held"]
    assert all("3 of 12 records of orders.csv are invalid, more than 20 %" in row["problem"] for row in rows)
    assert "ask the people who run loadsheet to send the other records" in rows[0]["what to do"]
    assert house.command("retry", "--file", "orders.csv").returncode == 0
    house.run()
    assert states(house) == {"accepted": 9, "invalid": 3}


def test_the_corrected_file_goes_whole(house):
    house.run()
    house.write_orders(12, first=1)
    done = house.run()
    assert done.returncode == 0, done.stderr
    assert states(house) == {"accepted": 12, "held": 9, "invalid": 3}
    assert house.command("retry", "--held").returncode == 1  # the same content was sent later


def test_the_share_is_that_of_the_mapping_else_of_the_setting_and_as_many_errors_as_it_allows_stop_nothing(workspace):
    workspace.variables["LOADSHEET_DISPATCH__ERROR_SHARE_MAX"] = "0.1"
    workspace.write_orders(12, first=1, wrong_every=4)
    workspace.run()
    assert states(workspace) == {"held": 9, "invalid": 3}
    stop_at(workspace, "25 %")
    workspace.write_orders(12, first=21, wrong_every=4)
    workspace.run()
    assert states(workspace) == {"held": 9, "invalid": 6, "accepted": 9}


def test_check_folds_problems_by_cause_and_says_that_a_run_would_hold_the_rest(house):
    files = ("inbox/orders.csv", "inbox/packages.csv")
    done = house.command("check", *files)
    assert done.returncode == 65, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == 'C302 error: column Weight: "heavy" is not a number, in 3 rows'
    assert lines[1].startswith("    at packages.csv:")
    assert lines[1].endswith(": heavy")
    assert lines[2] == "    write it like 1,234.5"
    assert lines[3].startswith("L611 error: 3 of 12 records of orders.csv are invalid, more than 20 %")
    assert lines[-1] == "0 documents could be sent; 4 errors, 0 warnings"
    lines = house.command("check", "--all", *files).stdout.splitlines()
    assert sum("packages.csv:" in line and ": C302 error: " in line for line in lines) == 3
    found = json.loads(house.command("check", "--json", *files).stdout)
    first, second = found["causes"]
    assert (first["code"], first["column"], first["count"], first["keys"]) == ("C302", "Weight", 3, 3)
    assert (second["code"], len(found["problems"])) == ("L611", 4)

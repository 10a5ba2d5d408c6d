"""`loadsheet check` on files as people name them on the command line."""

import json
import shutil

import pytest
from workspace import SAMPLES

from loadsheet.inbox import Candidate
from loadsheet.ingest import FilesInPlace

SAMPLE = "alder_2026-03-10.csv"


def test_files_of_one_name_in_several_folders_are_all_checked(workspace):
    workspace.use_shipped("alder-parcels")
    for folder in ("monday", "tuesday"):
        (workspace / folder).mkdir()
        shutil.copy(SAMPLES / SAMPLE, workspace / folder)
    counts = [
        json.loads(workspace.command("check", "--json", *files).stdout)
        for files in ([f"monday/{SAMPLE}"], [f"monday/{SAMPLE}", f"tuesday/{SAMPLE}", f"monday/{SAMPLE}"])
    ]
    (one, both) = [(found["usable"], found["errors"], len(found["problems"])) for found in counts]
    assert one[0] > 0
    assert both == tuple(2 * count for count in one)


def test_a_fix_workbook_under_its_own_name_is_said_to_be_one(workspace):
    workspace.use_shipped("alder-parcels")
    workspace.drop(SAMPLE, SAMPLES / SAMPLE)
    workspace.run()
    (fix,) = workspace.outbox.glob("*/*.fix.xlsx")
    shutil.copy(fix, workspace / "my corrections.xlsx")
    done = workspace.command("check", "my corrections.xlsx")
    assert done.returncode == 65
    assert "this is a fix file: drop it into the inbox under any name" in done.stdout + done.stderr


def test_a_file_that_is_gone_before_it_is_read_is_not_taken(tmp_path):
    assert FilesInPlace().claim(Candidate("gone.csv", tmp_path / "gone.csv")) is None


TOTALS = """
mapping: loads
version: 1
target: order.delete
source: {files: "*.csv", locale: en_GB, tables: {rows: {RULE}}}
columns: {order: {label: Order, required: true}, kg: {label: Kg, type: decimal}}
payload: {order_id: {col: order}}
"""


@pytest.mark.parametrize(
    ("rule", "suspects"),
    [
        ("totals: {where: 'order == \"Total\"', sum: [kg]}", []),
        ("ignore_rows: 'order == \"Total\"'", []),
        ("ignore_rows: 'order == \"A1\"'", ["R242"]),
    ],
)
def test_a_row_of_totals_that_a_rule_leaves_out_is_not_suspected_to_be_a_record(workspace, rule, suspects):
    workspace.use({"loads": TOTALS.replace("RULE", rule)})
    (workspace / "loads.csv").write_text("Order,Kg\nA1,2\nA2,3\nTotal,5\n", encoding="utf-8")
    said = json.loads(workspace.command("check", "--json", "loads.csv").stdout)
    assert [problem["code"] for problem in said["problems"]] == suspects


def test_a_total_that_does_not_agree_is_not_suspected_too_but_a_second_row_of_totals_is(workspace):
    workspace.use({"loads": TOTALS.replace("RULE", "totals: {where: 'order == \"Total\"', sum: [kg]}")})
    for last, codes in (("", ["G408"]), ("Sum,5\n", ["G408", "R242"])):
        (workspace / "loads.csv").write_text(f"Order,Kg\nA1,2\nA2,3\nTotal,6\n{last}", encoding="utf-8")
        said = json.loads(workspace.command("check", "--json", "loads.csv").stdout)
        assert sorted(problem["code"] for problem in said["problems"]) == codes


def test_the_result_of_a_check_is_on_stdout_and_all_else_on_stderr(workspace):
    workspace.write_orders(3, first=1, wrong_every=2)
    files = ("inbox/orders.csv", "inbox/packages.csv")
    plain = workspace.command("check", *files)
    summary = plain.stdout.splitlines()[-1]
    assert (summary, plain.stderr) == ("2 documents could be sent; 1 error, 0 warnings", "")
    as_json = workspace.command("check", *files, "--json")
    assert (json.loads(as_json.stdout)["usable"], as_json.stderr) == (2, "")
    records = workspace.command("check", *files, "--payloads")
    assert [json.loads(line)["payload"]["order_id"] for line in records.stdout.splitlines()] == ["00000001", "00000003"]
    assert summary in records.stderr
    failed = workspace.command("check", "nowhere.csv")
    assert (failed.stdout, "nowhere.csv" in failed.stderr) == ("", True)


def test_try_shows_what_the_proposed_values_would_clear_and_changes_no_file(workspace):
    workspace.write_orders(4)
    orders, packages = workspace.inbox / "orders.csv", workspace.inbox / "packages.csv"
    text = orders.read_text(encoding="utf-8").replace(",Road,", ",Raod,").replace(",Sea,", ",Raod,")
    orders.write_text(text, encoding="utf-8")
    packages.write_text(packages.read_text(encoding="utf-8").replace("PLT", "Palette"), encoding="utf-8")
    before = (orders.read_bytes(), packages.read_bytes())
    files = ("inbox/orders.csv", "inbox/packages.csv")
    plain = workspace.command("check", *files)
    tried = workspace.command("check", *files, "--try")
    assert tried.returncode == plain.returncode == 65
    assert tried.stdout.startswith(plain.stdout)
    assert "tried Raod -> Road in 4 cells" in tried.stdout
    found = json.loads(workspace.command("check", *files, "--try", "--correct", "Palette=PLT", "--json").stdout)
    assert found["tried"]["usable"] == 4
    assert found["tried"]["errors"] == 0
    assert {"old": "Raod", "new": "Road", "cells": 4} in found["tried"]["values"]
    assert found["usable"] == 0
    assert (orders.read_bytes(), packages.read_bytes()) == before
    assert "Nothing to try" in workspace.command("check", *files, "--correct", "x=y").stdout
    assert workspace.command("check", *files, "--correct", "x").returncode == 2

"""`loadsheet check` on files as people name them on the command line."""

import json
import shutil

import pytest
from workspace import SAMPLES

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


TOTALS = """
mapping: loads
version: 1
target: order.delete
source: {files: "*.csv", locale: en_GB, tables: {rows: {RULE}}}
columns: {order: {label: Order, required: true}, kg: {label: Kg, type: decimal}}
payload: {order_id: {col: order}}
"""


SUM = "totals: {where: 'order == \"Total\"', sum: [kg]}"


@pytest.mark.parametrize(
    ("rule", "last", "codes"),
    [
        (SUM, "Total,5", []),
        ("ignore_rows: 'order == \"Total\"'", "Total,5", []),
        ("ignore_rows: 'order == \"A1\"'", "Total,5", ["R242"]),
        (SUM, "Total,6", ["G408"]),
        (SUM, "Total,6\nSum,5", ["G408", "R242"]),
    ],
    ids=["compared", "ignored", "no rule", "a wrong total", "a second one"],
)
def test_a_row_of_totals_is_suspected_to_be_a_record_only_if_no_rule_reads_it(workspace, rule, last, codes):
    workspace.use({"loads": TOTALS.replace("RULE", rule)})
    (workspace / "loads.csv").write_text(f"Order,Kg\nA1,2\nA2,3\n{last}\n", encoding="utf-8")
    said = json.loads(workspace.command("check", "--json", "loads.csv").stdout)
    assert sorted(problem["code"] for problem in said["problems"]) == codes


def test_the_result_of_a_check_is_on_stdout_all_else_on_stderr_and_nothing_is_sent(workspace):
    workspace.write_orders(3, first=1, wrong_every=2)
    files = ("inbox/orders.csv", "inbox/packages.csv")
    plain = workspace.command("check", *files)
    summary = plain.stdout.splitlines()[-1]
    assert (summary, plain.stderr) == ("2 documents could be sent; 1 error, 0 warnings", "")
    as_json = workspace.command("check", *files, "--json")
    assert (json.loads(as_json.stdout)["usable"], as_json.stderr) == (2, "")
    records = workspace.command("check", *files, "--payloads")
    assert records.returncode == 1
    first, last = (json.loads(line) for line in records.stdout.splitlines())
    assert (first["operation"], first["key"], last["key"]) == ("order.create", "00000001", "00000003")
    assert first["payload"]["order_id"] == "00000001"
    assert first["rows"][0] == {"file": "orders.csv", "sheet": "", "row": 2}
    assert {name: value for name, value in first["mapping"].items() if name != "hash"} == {
        "name": "bench-join",
        "version": 1,
    }
    assert len(first["mapping"]["hash"]) == 64
    assert (summary in records.stderr, "heavy" in records.stderr) == (True, True)
    assert not workspace.state.exists()
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

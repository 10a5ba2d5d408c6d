"""A file that was cut at the end of a row looks whole (A3): what a mapping declares of its totals tells it."""

import json
import shutil

import pytest
from command_in_process import loadsheet
from openpyxl import Workbook
from orders import MAPPINGS, write_orders
from sheets import ASSUMED, codes, documents, load_text

from loadsheet.checking import Checked, Unusable, check_files
from loadsheet.languages import words_in
from loadsheet.mapping import load
from loadsheet.reports.fix_workbook.wording import word_problem
from loadsheet.settings import Settings

DELETES = """\
mapping: deletes
version: 1
target: order.delete
source:
  files: "*.csv"
  locale: en_US
  tables: {rows: {totals: {where: 'order == "TOTAL"', sum: [quantity]OVER}}}
columns: {order: {label: Order, required: true, key: true}, quantity: {label: Qty, type: decimal}}
payload: {order_id: {col: order}}
"""
WHOLE = ["Order,Qty", "A-1,1", "A-2,2", "A-3,3", "TOTAL,6"]


def found(mapping, *paths):
    findings = []
    check_files(paths, [mapping], Settings(), findings.append)
    return findings


def said(mapping, path, lines):
    """The codes of what is said of a file of these lines."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [one.problem.code for one in found(mapping, path) if isinstance(one, Unusable)]


def test_a_file_cut_at_any_row_end_before_its_total_is_refused(tmp_path):
    mapping = load_text(tmp_path, DELETES.replace("OVER", ""))
    found = [said(mapping, tmp_path / "d.csv", WHOLE[:cut]) for cut in range(1, len(WHOLE) + 1)]
    assert found == [["G409"]] * (len(WHOLE) - 1) + [[]]


def test_a_total_of_quantities_is_compared_in_their_unit_and_names_it(tmp_path):
    kilos = DELETES.replace("OVER", "").replace("type: decimal", "type: quantity, from_unit: lb, unit: kg")
    made = documents(load_text(tmp_path, kilos), [["A-1", "1000"], ["A-2", "2010 kg"], ["TOTAL", "1010"]])
    (problem,) = [problem for one in made for problem in one.problems]
    summed = "2,463.59237 kg (1010 = 458.1282937 kg)"
    assert problem.text == f"Qty in the row of totals: 1010; the rows add up to {summed}"
    assert (
        word_problem(problem, words_in("de"), {}).text == f"Qty in der Summenzeile: 1010; die Zeilen ergeben {summed}"
    )
    right = documents(load_text(tmp_path, kilos), [["A-1", "1000"], ["A-2", "1 kg"], ["TOTAL", "454.59237 kg"]])
    assert [codes(one) for one in right] == [[], []]


def test_of_totals_of_blocks_one_must_be_there_if_rows_are(tmp_path):
    mapping = load_text(tmp_path, DELETES.replace("OVER", ", over: block"))
    blocks = ["Order,Qty", "A-1,1", "A-2,2", "TOTAL,3", "A-3,3"]
    assert [said(mapping, tmp_path / "d.csv", blocks[:cut]) for cut in range(1, 6)] == [[], ["G409"], ["G409"], [], []]


def test_where_no_total_is_declared_an_order_that_lost_packages_is_refused_by_its_check(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    path = tmp_path / "mappings" / "bench-join.yaml"
    text = path.read_text(encoding="utf-8").replace(
        "    value: {label: Value, type: decimal, min: 0}", "    value: {label: Value, type: integer, min: 0}"
    )
    path.write_text(
        text + "checks: [{id: count, rule: '$count(packages) == value', say: packages are missing}]\n", encoding="utf-8"
    )
    write_orders(tmp_path, 3)
    rows = [row.split(",") for row in (tmp_path / "orders.csv").read_text(encoding="utf-8").splitlines()]
    rows[1:] = [[*row[:8], "3", *row[9:]] for row in rows[1:]]
    (tmp_path / "orders.csv").write_text("\n".join(",".join(row) for row in rows) + "\n", encoding="utf-8")
    mapping, packages = load(path, ASSUMED), tmp_path / "packages.csv"
    lines = packages.read_text(encoding="utf-8").splitlines(keepends=True)
    for cut in range(1, 1 + 3 * 3):
        packages.write_text("".join(lines[:cut]), encoding="utf-8")
        made = found(mapping, tmp_path / "orders.csv", packages)
        usable = [one for one in made if isinstance(one, Checked) and one.document.usable]
        assert len(usable) == (cut - 1) // 3, "those whose three packages are there"


def test_a_run_sets_a_cut_file_aside_and_sends_nothing_of_it(tmp_path):
    (tmp_path / "mappings").mkdir()
    load_text(tmp_path / "mappings", DELETES.replace("OVER", ""))
    (tmp_path / "inbox").mkdir()
    for place in (tmp_path, tmp_path / "inbox"):
        (place / "d.csv").write_text("\n".join(WHOLE[:3]) + "\n", encoding="utf-8")
    checked = loadsheet(tmp_path, "check", "d.csv", "--json")
    assert (checked.returncode, json.loads(checked.stdout)["usable"]) == (65, 0)
    done = loadsheet(tmp_path, "run", "--settle", "0", "--json")
    (drop,) = json.loads(done.stdout)["drops"]
    assert (done.returncode, drop["entries"]) == (65, {})
    assert "there is no row with the totals" in drop["files"][0]["set_aside"][0]


UNREAD = """\
mapping: loads
version: 1
target: order.delete
source: {files: "*.xlsx", locale: en_GB, tables: {rows: {totals: {where: 'order == "Total"', sum: [boxes]}}}}
columns: {order: {label: Order, key: true, required: true}, boxes: {label: Boxes, type: integer}}
payload: {order_id: {col: order}}
"""


@pytest.mark.parametrize(
    ("total", "code"), [("=SUM(B2:B3)", "R208"), ("five", "C302"), (5.5, "C303")], ids=["no value", "text", "part"]
)
def test_a_file_whose_total_cannot_be_read_is_set_aside_without_a_record(workspace, total, code):
    workspace.use({"loads": UNREAD})

    def run_with(total, name):
        book = Workbook()
        for row in (["Order", "Boxes"], ["A-1", 2], ["A-2", 3], ["Total", total]):
            book.active.append(row)
        book.save(workspace.inbox / name)
        return workspace.run()

    assert run_with(total, "first.xlsx").returncode == 65
    problems = [(problem["code"], problem["places"]) for problem in workspace.run_json()["problems"]]
    assert problems == [(code, ["first.xlsx:Sheet!B4"])]
    assert workspace.ask("select count(*) from entries") == [(0,)]
    run_with(5, "again.xlsx")
    assert workspace.ask("select key from entries order by id") == [("A-1",), ("A-2",)]

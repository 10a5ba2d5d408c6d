"""What holds for every file that a run writes for a sender: results, fix files and acknowledgements beside the pages."""

import json
import re
from dataclasses import replace

import openpyxl
import pytest
from ledgers import (
    HEADER,
    accepted,
    document,
    drop_of,
    order,
    plan,
    refused,
    send,
    unreadable,
    weight_problem,
)
from outcome_check import result_lines
from reported_runs import run_begun, written

from loadsheet.ledger import ColumnGuide
from loadsheet.problems import Problem, Where
from loadsheet.workbook_marks import PROPERTY

ATTACKS = ("=cmd|' /C calc'!A0", "=1+1", "@SUM(1)", "\t=x", "\r=x", "a;=1", "<r>x</r>", "http://evil.example")


def cells(path):
    """All cells of a workbook."""
    return [cell for sheet in openpyxl.load_workbook(path) for line in sheet.iter_rows() for cell in line]


def fields(path):
    """All fields of a results file or of an acknowledgement as text."""
    return [field for lines in result_lines(path).values() for line in lines for field in line]


def test_no_file_overwrites_another_and_those_of_an_earlier_run_say_so_in_their_names(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        for number, name in enumerate(("a/in.csv", "a__in.csv", "A/IN.csv"), start=1):
            item = document("order.create", order(number), [("orders", 2, (name,))], weight_problem(name, 2))
            plan(ledger, run, drop_of(("orders", name), mapping=name), [item])
        report = written(ledger, run, settings)
        assert f"→ Send back: 3 fix files in {report.folder}/" in report.lines()
        files = report.summary.reports
        results = ["a__in.csv.results.csv", "a__in.csv-2.results.csv", "A__IN.csv-3.results.csv"]
        assert [name for name in files if name.endswith("results.csv")] == results
        assert [fields(report.folder / name)[17] for name in results] == ["a/in.csv", "a__in.csv", "A/IN.csv"]
        fixes = [name for drop in report.summary.drops for name in drop.fix]
        assert fixes == ["a__in.fix.xlsx", "a__in-2.fix.xlsx", "A__IN-3.fix.xlsx"]
        answers = [name for name in files if name.endswith("ack.json")]
        named = {json.loads((report.folder / name).read_bytes())["file"] for name in answers}
        assert named == {"a/in.csv", "a__in.csv", "A/IN.csv"}
    with run_begun(tmp_path / "later") as (ledger, run, settings):
        item = document("order.create", order(1), [("orders", 2, ("x",))])
        plan(ledger, run, drop_of(("orders", "in.csv")), [item])
        ledger.end_run(run, exit_code=75, summary={})
        later = ledger.begin_run()
        send(ledger, later, refused)
        of = f"of-{run.name}"
        names = {f"in.csv.{of}.results.csv", f"in.{of}.fix.xlsx", f"ack/in.csv.{of}.ack.json"}
        assert names < set(written(ledger, later, settings).summary.reports)


def test_a_file_that_was_set_aside_is_answered_with_what_to_do_and_names_no_file_of_others(tmp_path):
    empty = Problem("R202", Where("broken.xlsx"), hint="send the file with its rows")
    hint = "give it a name that a mapping takes"
    unknown = Problem("A101", Where("x.csv"), "x.csv", {"patterns": "rival_*.csv"}, hint)
    with run_begun(tmp_path) as (ledger, run, settings):
        for problem in (empty, unknown):
            ledger.set_aside(run, unreadable(problem.where.file, problem))
        folder = written(ledger, run, settings).folder
    ((_, line),) = result_lines(folder / "broken.xlsx.results.xlsx").values()
    assert line[:4] == ["", "set aside", "The file holds no rows [R202]", "Send the file with its rows"]
    book = openpyxl.load_workbook(folder / "broken.fix.xlsx")
    first = [cell.value for cell in book["broken"][2]]
    assert first == ["The file holds no rows. Send the file with its rows", "broken.xlsx", "R202"]
    assert book["Read me"]["B3"].value == "broken.xlsx could not be read, so nothing from it was sent."
    assert PROPERTY not in book.custom_doc_props.names
    text = "No mapping matches a file named x.csv"
    assert openpyxl.load_workbook(folder / "x.fix.xlsx")["x"]["A2"].value.startswith(
        f"{text}. Give your file the agreed"
    )
    assert "rival" not in str([cell.value for cell in cells(folder / "x.fix.xlsx")])
    for name, expected in (
        ("x.csv.results.csv", text),
        ("ack/x.csv.ack.json", "no mapping matches a file named x.csv"),
        ("ack/x.csv.ack.csv", ""),
    ):
        content = (folder / name).read_text(encoding="utf-8-sig")
        assert (expected in content, "rival" in content) == (True, False), name


@pytest.mark.parametrize("text", ATTACKS)
def test_nothing_that_was_sent_or_answered_becomes_a_formula_or_a_link(tmp_path, text):
    def wrong(file):
        return weight_problem(file, 2, found=text, hint=text, sheet=text if file.endswith("xlsx") else "", cell="D2")

    rows = [("orders", 2, (text,) * 5), ("orders", 3, (text,) * 5)]
    header = (text, *HEADER[1:])
    with run_begun(tmp_path) as (ledger, run, settings):
        for file in ("in.csv", "book.xlsx"):
            drop = drop_of(("orders", file, wrong(file).where.sheet), mapping=file, header=header)
            keyed = document("order.status", {"order_id": f"{text}{file}", "status_code": text}, rows)
            drop = replace(drop, guide={"orders": {"PLZ": ColumnGuide(text, (text, "b"))}})
            plan(ledger, run, drop, [keyed, document("order.create", order(1), rows, wrong(file))])
        send(ledger, run, lambda one: refused(one, one.key))
        report = written(ledger, run, settings)
    for name in (one for one in report.summary.reports if one.endswith(".csv")):
        assert not [one for one in fields(report.folder / name) if one[:1] in tuple("=@\t\r") or ";=" in one], name
    for name in ("book.fix.xlsx", "in.fix.xlsx", "book.xlsx.results.xlsx"):
        for cell in cells(report.folder / name):
            assert cell.data_type == "s" or cell.value is None or isinstance(cell.value, int), (name, cell.coordinate)
            assert cell.hyperlink is None or re.search(r"![A-E]2$", cell.hyperlink.location)
    if text.isprintable() and not text.startswith("<r>"):
        sheet = openpyxl.load_workbook(report.folder / "book.fix.xlsx").worksheets[0]
        assert [cell.value for cell in sheet[2]][1:6] == [text] * 5


@pytest.mark.parametrize("answer", [accepted, lambda one: refused(one, "no\x1b[2J\u202e")], ids=["accepted", "refused"])
def test_no_control_character_that_was_sent_or_answered_reaches_a_text_or_a_page(tmp_path, answer):
    hidden = "\x00\x1b[2J\x7f\x9b\u202ex\u2066"
    key = f"A{hidden}"
    with run_begun(tmp_path) as (ledger, run, settings):
        problem = weight_problem("in.csv", 2, found=hidden, hint=hidden, level="warning")
        rows = [("orders", 2, (hidden, "two\nlines\t", "", "", ""))]
        item = document("order.status", {"order_id": key, "status_code": hidden}, rows, problem)
        plan(ledger, run, drop_of(("orders", "in.csv"), header=(hidden, *HEADER[1:])), [item])
        send(ledger, run, answer)
        report = written(ledger, run, settings)
    assert "two\nlines\t" in fields(report.folder / "in.csv.results.csv")
    acknowledgement = json.loads((report.folder / "ack" / "in.csv.ack.json").read_bytes())
    assert [record["key"] for record in acknowledgement["records"]] == [key]
    shown = ("in.csv.results.csv", "run.html", "run.json", "ack/in.csv.ack.csv", "ack/in.csv.ack.json", "../index.html")
    for name in shown:
        text = (report.folder / name).read_text(encoding="utf-8")
        assert not set(text) & set(hidden) - set("x[2J"), name
        assert "\ufffd[2J" in text or name.endswith(("index.html", ".json")), name

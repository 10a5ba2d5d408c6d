"""LibreOffice reads our workbooks, calculates their formulas to what we stored, and what it saves is read back."""

import os
import re
import shutil
import zipfile
from collections import Counter

import openpyxl
import pytest
from ledgers import HEADER, Ticking, document, drop_of, ledger_in, order, plan, weight_problem
from libreoffice import convert_all
from reported_runs import ReportedRuns, create, edit_exceptions, report_of_everything, run_begun, sheet_lines, written

from loadsheet.annotations import import_annotations

ATTACKS = ("=cmd|' /C calc'!A0", "=1+1", "@SUM(1)", "+1", "-1", "\t=1", "\r=1", "http://evil.example", "<r>x</r>")
PAGES = ("Summary", "Ageing", "Control totals", "Sign-off", "Run")


def spoilt(source, target):
    """A copy of a workbook in which every stored number of a formula is wrong."""
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for name in before.namelist():
            after.writestr(name, re.sub(rb"(</f><v>)[-.0-9]+(</v>)", rb"\g<1>77777\2", before.read(name)))
    return target


def values(sheet):
    return [[cell.value for cell in line] for line in sheet.iter_rows()]


@pytest.mark.sweep
def test_libreoffice_calculates_our_formulas_keeps_foreign_text_and_saves_words_that_come_back(tmp_path):
    everything = report_of_everything(tmp_path / "all", "=1+1", orders=12).folder / "reconciliation.xlsx"
    cells = [(f"A-{number}", text, "01067", "412,5", "-5") for number, text in enumerate(ATTACKS, start=2)]
    fix = fix_workbook(tmp_path / "fix", cells)
    (tmp_path / "words").mkdir()
    clock = Ticking()
    with ledger_in(tmp_path / "words", clock) as ledger:
        runs = ReportedRuns(tmp_path / "words", ledger, clock)
        wrong = [create(number, weight_problem("in1.csv", number + 1)) for number in (1, 2)]
        annotated = edit_exceptions(runs.report(wrong), {"E-2": {"Owner": "Ада", "Status": "accepted difference"}})
        paths = [spoilt(everything, tmp_path / "spoilt.xlsx"), fix, annotated]
        calculated, sent_back, saved = convert_all(paths, "xlsx", tmp_path, calculate=True)
        words_come_back(runs, annotated, saved)
    formulas_agree(everything, openpyxl.load_workbook(calculated, data_only=True))
    sheet = openpyxl.load_workbook(sent_back)["Aufträge"]
    assert not sheet.protection.sheet
    assert {str(one.sqref) for one in sheet.data_validations.dataValidation if one.type == "custom"} >= {"A1:G1"}
    head, *lines = values(sheet)
    assert head == ["What to fix", *HEADER, "_row"]
    read_back = [tuple(one.replace("\r", "\n") for one in line[1:6]) for line in lines]
    assert read_back == [tuple(one.replace("\r", "\n") for one in line) for line in cells]


def fix_workbook(folder, cells):
    items = [
        document("order.create", order(n), [("orders", n, line)], weight_problem("book.xlsx", n, sheet="Aufträge"))
        for n, line in enumerate(cells, start=2)
    ]
    with run_begun(folder) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "book.xlsx", "Aufträge")), items)
        return written(ledger, run, settings).folder / "book.fix.xlsx"


def words_come_back(runs, path, saved):
    at = path.stat().st_mtime + 5
    shutil.copy(saved, path)
    os.utime(path, (at, at))
    assert import_annotations(runs.settings, runs.ledger) == 2
    words = {name: remark.value for name, remark in runs.ledger.queries.remarks_on([2])[2].items()}
    assert words == {"owner": "Ада", "status": "accepted difference"}
    assert [line["Closed because"] for line in sheet_lines(runs.report(), "Closed")] == ["accepted difference"]


def formulas_agree(path, calculated):
    live, stored = openpyxl.load_workbook(path), openpyxl.load_workbook(path, data_only=True)
    assert calculated.sheetnames == stored.sheetnames
    checked = Counter()
    for sheet in live:
        ours, theirs = stored[sheet.title], calculated[sheet.title]
        for cell in (cell for line in sheet.iter_rows() for cell in line if cell.data_type == "f"):
            checked[sheet.title] += 1
            value = ours[cell.coordinate].value
            expected = pytest.approx(value, abs=1e-9) if isinstance(value, int | float) else value
            assert theirs[cell.coordinate].value == expected, (sheet.title, cell.coordinate)
        if sheet.title not in PAGES:
            lines = [[[value for value in line if value is not None] for line in values(one)] for one in (ours, theirs)]
            assert lines[1][: len(lines[0])] == lines[0]
    assert checked["Control totals"] > 40
    assert checked["Ageing"] > 150
    assert checked["Sign-off"] == 1

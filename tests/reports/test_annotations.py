"""What analysts write into a workbook is in the next one, whatever else they do to it."""

import os
from datetime import datetime

import pytest
from ledgers import order, weight_problem
from reported_runs import create, edit_exceptions, sheet_lines

from loadsheet.annotations import import_annotations


def wrong(*numbers):
    return [create(number, weight_problem("in1.csv", number + 1)) for number in numbers]


def read(runs):
    """How many remarks are read from the workbooks now."""
    return import_annotations(runs.settings, runs.ledger)


def remarks(runs, entry):
    return {name: remark.value for name, remark in runs.ledger.queries.remarks_on([entry]).get(entry, {}).items()}


def test_remarks_come_back_with_who_wrote_them_and_when(runs):
    first = runs.report(wrong(1, 2))
    given = {"Owner": "Bert", "Reason": "mapping", "Comment": "asked them, =1+1", "Status": "open"}
    path = edit_exceptions(first, {"E-1": given})
    assert read(runs) == 3
    assert remarks(runs, 1) == {"owner": "Bert", "reason": "mapping", "comment": "asked them, =1+1"}
    assert remarks(runs, 2) == {}
    owner = runs.ledger.queries.remarks_on([1])[1]["owner"]
    assert owner.who == "Ada Lovelace"
    assert abs(path.stat().st_mtime - datetime.fromisoformat(owner.at).timestamp()) < 0.01
    second = runs.report()
    assert [sheet_lines(second)[0][head] for head in ("Owner", "Reason", "Comment")] == list(given.values())[:3]
    edit_exceptions(second, {"E-1": {"Owner": None}})
    assert read(runs) == 1
    assert remarks(runs, 1) == {"owner": "", "reason": "mapping", "comment": "asked them, =1+1"}


@pytest.mark.parametrize(("later_ns", "expected"), [(-1, 0), (0, 0), (1, 1)])
def test_a_workbook_was_saved_if_it_is_younger_than_the_last_file_of_its_run(runs, later_ns, expected):
    report = runs.report(wrong(1))
    path = edit_exceptions(report, {"E-1": {"Owner": "Bert"}})
    ours = (report.folder / "run.json").stat().st_mtime_ns
    os.utime(path, ns=(ours, ours + later_ns))
    assert read(runs) == expected
    assert list(runs.ledger.queries.workbooks_read()) == [f"{runs.run.name}/reconciliation.xlsx"] * expected


def test_a_workbook_is_read_once_for_each_time_it_was_saved(runs):
    report = runs.report(wrong(1))
    edit_exceptions(report, {"E-1": {"Owner": "Bert"}})
    assert [read(runs), read(runs)] == [1, 0]
    edit_exceptions(report, {"E-1": {"Owner": "Carl"}})
    assert read(runs) == 1
    assert remarks(runs, 1) == {"owner": "Carl"}


def test_rows_may_be_sorted_filtered_and_inserted(runs):
    def change(sheet, rows):
        rows["E-3"]["Owner"].value = "Bert"
        rows["E-2"]["Comment"].value = 4711
        lines = [[cell.value for cell in line] for line in sheet.iter_rows(min_row=2)]
        for at, line in enumerate(reversed(lines), start=2):
            for column, value in enumerate(line, start=1):
                sheet.cell(at, column).value = value
        sheet.insert_rows(3)
        sheet.cell(3, 1, "a note of mine")
        sheet.row_dimensions[2].hidden = True
        sheet.column_dimensions["C"].hidden = True

    edit_exceptions(runs.report(wrong(1, 2, 3)), change)
    read(runs)
    assert [remarks(runs, entry) for entry in (3, 2, 1)] == [{"owner": "Bert"}, {"comment": "4711"}, {}]


def test_an_old_workbook_says_only_what_was_changed_in_it(runs):
    first = runs.report(wrong(1, 2))
    edit_exceptions(first, {"E-1": {"Owner": "Ada"}})
    read(runs)
    second = runs.report()
    edit_exceptions(second, {"E-1": {"Owner": "Bert"}})
    read(runs)
    runs.report()
    edit_exceptions(first, {"E-2": {"Comment": "late word"}})  # Ada still stands beside E-1 there
    read(runs)
    assert remarks(runs, 2) == {"comment": "late word"}
    assert remarks(runs, 1) == {"owner": "Bert"}
    edit_exceptions(second, {"E-1": {"Owner": "Ada"}})  # as it was written there
    read(runs)
    assert remarks(runs, 1) == {"owner": "Ada"}


def test_a_workbook_that_cannot_be_read_is_no_error_and_is_read_later(runs):
    report = runs.report(wrong(1))
    path = edit_exceptions(report, {"E-1": {"Owner": "Ada"}})
    whole, saved = path.read_bytes(), path.stat().st_mtime
    path.write_bytes(whole[: len(whole) // 2])  # half saved
    os.utime(path, (saved + 5, saved + 5))
    (report.folder / "~$reconciliation.xlsx").write_bytes(b"lock")
    assert read(runs) == 0
    path.write_bytes(whole)
    os.utime(path, (saved + 9, saved + 9))
    assert read(runs) == 1


@pytest.mark.parametrize("missing", ["sheet", "heading", "hidden column"])
def test_a_workbook_of_another_shape_loses_nothing(runs, missing):
    def change(sheet, rows):
        rows["E-1"]["Owner"].value = "Ada"
        if missing == "sheet":
            sheet.title = "My exceptions"
        elif missing == "heading":
            sheet["A1"].value = "Nr"
        else:
            sheet.delete_cols(28)  # which says what was written and what was added

    edit_exceptions(runs.report(wrong(1)), change)
    read(runs)
    assert len(runs.ledger.queries.workbooks_read()) == 1  # it is not opened again until it is saved again
    both = {"owner": "Ada", "reason": "shipper data"}
    assert remarks(runs, 1) == (both if missing == "hidden column" else {})


def test_the_second_workbook_of_a_run_is_read_too(runs):
    lock = runs.report(wrong(1)).folder / ".~lock.reconciliation.xlsx#"
    lock.write_bytes(b"")
    second = runs.report_again(listed=[order(9)])
    lock.unlink()
    edit_exceptions(second, {"E-1": {"Owner": "Ada"}}, name="reconciliation_2.xlsx")
    assert read(runs) == 1

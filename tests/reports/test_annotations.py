"""What analysts write into a workbook is in the next one, whatever else they do to it."""

import os
from datetime import datetime

import pytest
from ledgers import order, weight_problem
from reported_runs import create, edit_exceptions, told

from loadsheet.annotations import import_annotations


def wrong(*numbers):
    return [create(number, weight_problem("in1.csv", number + 1)) for number in numbers]


def words(house, entry):
    return {name: remark.value for name, remark in house.ledger.queries.remarks_on([entry]).get(entry, {}).items()}


def test_words_come_back_with_who_wrote_them_and_when(house):
    report = house.night(wrong(1, 2))
    path = edit_exceptions(
        report, {"E-1": {"Owner": "Bert", "Reason": "mapping", "Comment": "asked them, =1+1", "Status": "open"}}
    )
    assert import_annotations(house.settings, house.ledger) == 3
    assert words(house, 1) == {"owner": "Bert", "reason": "mapping", "comment": "asked them, =1+1"}
    remark = house.ledger.queries.remarks_on([1])[1]["owner"]
    assert remark.who == "Ada Lovelace"
    assert abs(path.stat().st_mtime - _seconds(remark.at)) < 0.01
    assert words(house, 2) == {}
    first = told(house.night())[0]
    assert [first[head] for head in ("Owner", "Reason", "Comment")] == ["Bert", "mapping", "asked them, =1+1"]


def _seconds(stamp):
    return datetime.fromisoformat(stamp).timestamp()


def test_a_workbook_that_nobody_saved_is_not_read(house):
    house.night(wrong(1))
    assert import_annotations(house.settings, house.ledger) == 0
    assert house.ledger.queries.workbooks_read() == {}


@pytest.mark.parametrize(("later_ns", "read"), [(-1, 0), (0, 0), (1, 1)])
def test_a_workbook_was_saved_if_it_is_younger_than_the_last_file_of_its_run(house, later_ns, read):
    report = house.night(wrong(1))
    path = edit_exceptions(report, {"E-1": {"Owner": "Bert"}})
    ours = (report.folder / "run.json").stat().st_mtime_ns
    os.utime(path, ns=(ours, ours + later_ns))
    assert import_annotations(house.settings, house.ledger) == read


def test_a_workbook_is_read_once_for_each_time_it_was_saved(house):
    report = house.night(wrong(1))
    edit_exceptions(report, {"E-1": {"Owner": "Bert"}})
    assert import_annotations(house.settings, house.ledger) == 1
    read = house.ledger.queries.workbooks_read()
    assert list(read) == [f"{house.run.name}/reconciliation.xlsx"]
    assert import_annotations(house.settings, house.ledger) == 0
    edit_exceptions(report, {"E-1": {"Owner": "Carl"}})
    assert import_annotations(house.settings, house.ledger) == 1
    assert words(house, 1) == {"owner": "Carl"}


def test_rows_may_be_sorted_filtered_and_inserted(house):
    report = house.night(wrong(1, 2, 3))

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

    edit_exceptions(report, change)
    import_annotations(house.settings, house.ledger)
    assert (words(house, 3), words(house, 2), words(house, 1)) == ({"owner": "Bert"}, {"comment": "4711"}, {})


def test_an_old_workbook_says_only_what_was_changed_in_it(house):
    first = house.night(wrong(1, 2))
    edit_exceptions(first, {"E-1": {"Owner": "Ada"}})
    import_annotations(house.settings, house.ledger)
    second = house.night()
    edit_exceptions(second, {"E-1": {"Owner": "Bert"}})
    import_annotations(house.settings, house.ledger)
    house.night()
    edit_exceptions(first, {"E-2": {"Comment": "late word"}})  # Ada still stands beside E-1 there
    import_annotations(house.settings, house.ledger)
    assert words(house, 2) == {"comment": "late word"}
    assert words(house, 1) == {"owner": "Bert"}
    edit_exceptions(second, {"E-1": {"Owner": "Ada"}})  # as it was written there
    import_annotations(house.settings, house.ledger)
    assert words(house, 1) == {"owner": "Ada"}


def test_what_is_emptied_is_taken_back(house):
    edit_exceptions(house.night(wrong(1)), {"E-1": {"Owner": "Ada", "Comment": "x"}})
    import_annotations(house.settings, house.ledger)
    edit_exceptions(house.night(), {"E-1": {"Owner": None}})
    assert import_annotations(house.settings, house.ledger) == 1
    assert words(house, 1) == {"owner": "", "comment": "x"}


def test_a_workbook_that_cannot_be_read_is_no_error_and_is_read_later(house):
    report = house.night(wrong(1))
    path = edit_exceptions(report, {"E-1": {"Owner": "Ada"}})
    whole, saved = path.read_bytes(), path.stat().st_mtime
    path.write_bytes(whole[: len(whole) // 2])  # half saved
    os.utime(path, (saved + 5, saved + 5))
    (report.folder / "~$reconciliation.xlsx").write_bytes(b"lock")
    assert import_annotations(house.settings, house.ledger) == 0
    path.write_bytes(whole)
    os.utime(path, (saved + 9, saved + 9))
    assert import_annotations(house.settings, house.ledger) == 1


@pytest.mark.parametrize("spoil", ["no sheet", "no heading", "no hidden column"])
def test_a_workbook_of_another_shape_loses_nothing(house, spoil):
    def change(sheet, rows):
        rows["E-1"]["Owner"].value = "Ada"
        if spoil == "no sheet":
            sheet.title = "My exceptions"
        elif spoil == "no heading":
            sheet["A1"].value = "Nr"
        else:
            sheet.delete_cols(28)

    edit_exceptions(house.night(wrong(1)), change)
    import_annotations(house.settings, house.ledger)
    assert len(house.ledger.queries.workbooks_read()) == 1  # it is not opened again until it is saved again
    read = {
        "owner": "Ada",
        "reason": "shipper data",
    }  # without that column, what was written cannot be told from what was added
    assert words(house, 1) == (read if spoil == "no hidden column" else {})


def test_the_second_workbook_of_a_run_is_read_too(house):
    first = house.night(wrong(1))
    lock = first.folder / ".~lock.reconciliation.xlsx#"
    lock.write_bytes(b"")
    second = house.again(held=[order(9)])
    lock.unlink()
    edit_exceptions(second, {"E-1": {"Owner": "Ada"}}, name="reconciliation_2.xlsx")
    assert import_annotations(house.settings, house.ledger) == 1

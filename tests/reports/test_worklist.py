"""The work list says of each exception what it is, where it comes from, and what the analyst wrote beside it."""

import hashlib
from dataclasses import replace
from datetime import date, datetime, timedelta

import openpyxl
import pytest
from ledgers import document, drop_of, order, plan, refused, send, unknown, weight_problem
from reported_runs import create, sheet_lines

from loadsheet.ledger import ReadTotals, Remark, Settlement, State
from loadsheet.mapping.documents import RowLinks, Source
from loadsheet.problems import Where
from loadsheet.reports.reconciliation import free_name
from loadsheet.reports.reconciliation.worklist import BUCKETS, Ages, bucket_of
from loadsheet.workbook_marks import as_written


def cells(line, *heads):
    return [line[head] for head in heads]


def workbook(report, **more):
    return openpyxl.load_workbook(report.folder / "reconciliation.xlsx", **more)


def test_each_kind_of_exception_says_what_is_wrong_and_where(runs):
    where = Where("in1.csv", row=4, column="PLZ", path="pickup_pincode")
    report = runs.report(
        [create(1), create(2, weight_problem("in1.csv", 3)), create(3)],
        answers=lambda one: refused(one, "pickup_pincode is invalid", where) if one.key == "A-00003" else None,
        listed=[order(1, goods_value=1000.5, delivery_city="Köln")],
    )
    lines = sheet_lines(report)
    heads = ("Exception", "Key", "Outcome", "Field", "Source cell", "Source value", "Sent value", "At exchange")
    assert [cells(line, *heads) for line in lines] == [
        ["E-1", "A-00001", "value difference", "delivery_city", "row 2", None, "Dresden", "Köln"],
        ["E-2", "A-00002", "not sent: invalid", "total_weight", "row 3 Gewicht", "zwölf", None, None],
        ["E-3", "A-00003", "refused", "pickup_pincode", "row 4 PLZ", None, "01067", None],
    ]
    assert lines[0]["What is wrong"] == "accepted, but the exchange shows other values; also goods_value"
    assert lines[0]["Difference"] is None
    assert [cells(line, "Status", "File", "Mapping") for line in lines] == [["open", "in1.csv", "in1.csv"]] * 3


def test_a_difference_of_numbers_is_a_number_and_its_source_is_named_by_lineage(runs):
    runs.run = runs.ledger.begin_run()
    lineage = {"total_weight": (Source("orders", "weight", "Gewicht", "first"),)}
    made = document("order.create", order(1), [("orders", 2, ("A-00001", "x", "y", "412,5 kg", "1"))])
    runs.ledger.plan(runs.run, drop_of(("orders", "o.xlsx", "Blatt")), lineage, [made, ReadTotals({"orders": 1})])
    send(runs.ledger, runs.run)
    report = runs.report_again(listed=[order(1, total_weight=414)])
    (line,) = sheet_lines(report)
    found = cells(line, "Field", "Source value", "Source cell", "Difference")
    assert found == ["total_weight", "412,5 kg", "Blatt!D2", 0.5]
    (field,) = [one for one in sheet_lines(report, "Fields") if one["Field"] == "total_weight"]
    heads = ("Compared", "Equal", "Different", "Match", "Largest difference", "For example")
    assert cells(field, *heads) == [1, 0, 1, 0, 0.5, "A-00001"]


def test_exceptions_come_oldest_first_with_their_age_in_working_days(runs):
    runs.report([create(1, weight_problem("in1.csv", 2))])  # a Thursday
    runs.report([create(2, weight_problem("in2.csv", 3))], days=1)
    report = runs.report(days=4)  # a Tuesday
    lines = sheet_lines(report)
    assert [(line["Key"], line["Age"], line["Bucket"]) for line in lines] == [
        ("A-00001", 3, "2 to 5 days"),
        ("A-00002", 2, "2 to 5 days"),
    ]
    assert [line["First seen"] for line in lines] == [datetime(2026, 3, 5), datetime(2026, 3, 6)]
    assert [line["In run"] for line in lines] == ["2026-03-05-01", "2026-03-06-01"]
    assert report.summary.needs_someone.entries == 0  # none of this run


def test_a_record_in_its_second_fix_file_is_one_line_with_its_present_cell_and_the_words_of_the_analyst(runs):
    runs.report([create(1, weight_problem("in1.csv", 2))])
    runs.ledger.record_remarks([Remark(1, "owner", "Ada", "Ada", runs.ledger.now())], {})
    runs.clock.pass_time(86_400)
    runs.run = runs.ledger.begin_run()
    back = replace(create(1, weight_problem("back.xlsx", 2, "elf")), links=RowLinks(fix_of=(1,)))
    plan(runs.ledger, runs.run, replace(drop_of(("orders", "back.xlsx"), mapping="in1.csv"), fixes=1), [back])
    report = runs.report_again()
    (line,) = sheet_lines(report)
    shown = ("Exception", "Source value", "Source cell", "Owner", "In run")
    assert [line[head] for head in shown] == ["E-1", "elf", "row 2 Gewicht", "Ada", "2026-03-05-01"]
    assert report.summary.headline.details == ("0 accepted",)  # and no "exception of earlier runs"
    assert report.summary.needs_someone.entries == 1


def test_the_words_of_the_analyst_stand_beside_and_add_up(runs):
    runs.report([create(number, weight_problem("in1.csv", number + 1)) for number in (1, 2, 3)])
    given = {1: ("Ada", "shipper data", "asked them", "open"), 2: ("Bert", "tool fault", "", "accepted difference")}
    names, at = ("owner", "reason", "comment", "status"), runs.ledger.now()
    remarks = [
        Remark(entry, *pair, "Ada", at) for entry, words in given.items() for pair in zip(names, words, strict=True)
    ]
    runs.ledger.record_remarks(remarks, {})
    report = runs.report()
    first, third = sheet_lines(report)
    heads = ("Owner", "Reason", "Comment", "Status")
    assert cells(first, *heads) == list(given[1])
    assert first["_written"] == as_written(dict(zip(names, given[1], strict=True)))
    assert cells(third, *heads) == [None, "shipper data", None, "open"]
    (closed,) = sheet_lines(report, "Closed")
    assert cells(closed, "Exception", "Closed because", "Annotated by") == ["E-2", "accepted difference", "Ada"]
    book = workbook(report, data_only=True)
    counts = [[cell.value for cell in line] for line in book["Ageing"]["A6:M10"]]
    assert counts[1] == ["1 day", 0, 0, 0, 2, *[0] * 7, 2]
    summary = {line[0].value for line in book["Summary"].iter_rows()}
    assert "2 open: 0 first seen in this run, 2 rolled forward; the oldest is 1 working day old; 1 closed" in summary
    before = (report.folder / "reconciliation.xlsx").read_bytes()
    assert (runs.report_again().folder / "reconciliation.xlsx").read_bytes() == before


def test_what_the_analyst_may_write_is_offered(runs):
    runs.report([create(1, weight_problem("in1.csv", 2))])
    for owner in ("Ada, morning", "Bert"):
        runs.ledger.record_remarks([Remark(1, "owner", owner, "", runs.ledger.now())], {})
    sheet = workbook(runs.report())["Exceptions"]
    rules = sheet.data_validations.dataValidation
    offered = {str(rule.sqref): (rule.formula1, rule.showErrorMessage) for rule in rules}
    assert offered["N2"] == ('"Bert"', False)
    assert offered["O2"][0].startswith('"timing,waiting,unknown outcome,shipper data,mapping,')
    assert offered["Q2"] == ('"open,explained,fixed,accepted difference"', True)
    assert sheet.column_dimensions["AB"].hidden
    assert sheet.print_area == "'Exceptions'!$A$1:$Q$2"
    limits = [(rule.operator, rule.formula) for place in sheet.conditional_formatting for rule in place.rules]
    assert limits == [("greaterThan", ["10"]), ("greaterThan", ["5"])]


def test_the_reviewer_must_be_another_than_the_preparer_and_the_data_has_digests(runs):
    report = runs.report([create(1)], listed=[order(1), order(9)])
    sheet = workbook(report)["Sign-off"]
    rules = [rule.formula1 for rule in sheet.data_validations.dataValidation if rule.type == "custom"]
    assert rules == ["LOWER(TRIM(B13))<>LOWER(TRIM($B$11))"]
    digests = {line[0].value: line[2].value for line in sheet.iter_rows()}
    (line,) = sheet_lines(report, "Only at exchange")
    assert digests["Only at exchange"] == hashlib.sha256(("\x1f".join(line.values()) + "\n").encode()).hexdigest()


def test_the_summary_says_what_changed_since_the_run_before_and_draws_the_last_ones(runs):
    runs.report([create(1), create(2)], listed=[order(1), order(2)])
    second = runs.report([create(3, weight_problem("in2.csv", 4))])
    book = workbook(second, data_only=True)
    change = {line[0].value: line[3].value for line in book["Summary"].iter_rows()}
    assert (change["matched"], change["not sent: invalid"], "refused" in change) == (-2, 1, False)
    table = book["Run"].tables["tblRuns"].ref
    assert [[cell.value for cell in line] for line in book["Run"][table]][1:] == [
        ["2026-03-05-01", 2, 0, 0],
        ["2026-03-06-01", 0, 0, 1],
    ]
    third = runs.report([create(4)], listed=[order(4)])
    assert [len(workbook(one)["Summary"]._charts) for one in (second, third)] == [0, 2], "from three runs on"


def test_a_workbook_that_is_open_stays_and_the_next_one_has_another_name(runs):
    first = runs.report([create(1)], listed=[order(1)])
    before = (first.folder / "reconciliation.xlsx").read_bytes()
    for name in ("~$reconciliation.xlsx", ".~lock.reconciliation.xlsx#"):
        lock = first.folder / name
        lock.touch()
        assert free_name(first.folder) == "reconciliation_2.xlsx"
        lock.unlink()
    lock.touch()
    again = runs.report_again(listed=[order(1, delivery_city="Köln")])
    assert "reconciliation_2.xlsx" in again.summary.reports
    assert (first.folder / "reconciliation.xlsx").read_bytes() == before
    remark = "reconciliation.xlsx is open in another program; the workbook is in reconciliation_2.xlsx"
    assert remark in again.summary.remarks
    lock.unlink()
    assert free_name(first.folder) == "reconciliation.xlsx"


def test_working_days_are_monday_to_friday_or_those_of_a_country():
    assert Ages("2026-03-09").days("2026-03-06T23:00:00.000Z") == 1
    assert Ages("2026-03-08").days("2026-03-06") == 0
    assert Ages("2026-03-06").days("2026-03-09") == 0
    easter = Ages("2026-04-07", "DE")
    assert (Ages("2026-04-07").days("2026-04-02"), easter.days("2026-04-02")) == (3, 1)
    assert easter.calendar_text == "working days are those of DE, without its public holidays"
    assert Ages("2026-11-19", "DE-SN").days("2026-11-17") == 1  # a holiday in Saxony only
    assert Ages("2026-11-19", "DE").days("2026-11-17") == 2
    unknown = Ages("2026-04-07", "XX")
    assert (unknown.days("2026-04-02"), "holidays of" in unknown.calendar_text) == (3, True)


def test_buckets_follow_each_other():
    found = [bucket_of(days) for days in (0, 1, 2, 5, 6, 10, 11, 400)]
    assert found == [BUCKETS[at] for at in (0, 1, 2, 2, 3, 3, 4, 4)]
    first = date(2026, 1, 1)
    days = [Ages((first + timedelta(days=passed)).isoformat()).days(first.isoformat()) for passed in range(40)]
    assert days == sorted(days)


def test_a_document_that_agrees_is_on_the_sheet_of_matched_ones_although_it_was_an_exception(runs):
    runs.report([create(1)], answers=unknown)
    runs.run = runs.ledger.begin_run()
    runs.ledger.settle(runs.run, [Settlement(1, State.ACCEPTED, "the listing shows it", outcome="accepted")])
    report = runs.report_again([order(1)])
    closed = [cells(line, "Exception", "Closed because", "Reason") for line in sheet_lines(report, "Closed")]
    assert closed == [["E-1", "matched", "unknown outcome"]]
    assert [cells(line, "Key", "Verdict") for line in sheet_lines(report, "Matched")] == [["A-00001", "matched"]]


def test_amounts_of_money_show_a_third_digit_where_their_currency_has_one(runs):
    book = workbook(runs.report([create(1, currency="KWD", goods_value=12.345)], answers=refused))
    heads, line = book["Exceptions"].iter_rows(max_row=2)
    (cell,) = [cell for head, cell in zip(heads, line, strict=True) if head.value == "Value"]
    assert (float(cell.value), cell.number_format, cell.alignment.horizontal) == (12.345, "#,##0.00#", "right")


def test_foreign_units_stay_out_of_headings_and_formulas(runs):
    units = ('=1+1"', "EUR", "eur", "<b>", 'a"),1,("', "x" * 300, " ", "\n")
    wrong = [
        create(number, weight_problem("in1.csv", number + 1), currency=unit, gross_weight_uom=unit)
        for number, unit in enumerate(units, start=10)
    ]
    book = workbook(runs.report([create(1), create(4, currency="EUR"), *wrong]))
    for sheet in book:
        for table in sheet.tables.values():
            heads = [column.name.casefold() for column in table.tableColumns]
            assert len(set(heads)) == len(heads)
            assert [str(cell.value).casefold() for cell in sheet[table.ref][0]] == heads
    formulas = [cell.value for line in book["Ageing"].iter_rows() for cell in line if cell.data_type == "f"]
    assert formulas
    foreign = [unit for unit in units if unit.strip() and not unit.isalpha()]
    assert [formula for formula in formulas if any(unit in formula for unit in foreign)] == []


@pytest.mark.parametrize("deleted", [True, False])
def test_an_invalid_document_says_which_version_of_it_the_exchange_has(runs, deleted):
    runs.report([create(1)], mapping="acme")
    accepted_in = runs.run.name
    if deleted:
        runs.report([document("order.delete", {"order_id": "A-00001"}, [("orders", 2, ("A-00001",))])])
    invalid = create(1, weight_problem("in.csv", 2))
    report = runs.report([invalid], listed=[] if deleted else [order(1)], mapping="acme")
    (line,) = sheet_lines(report)
    copy = f"this version is invalid; the exchange has the version of A-00001 that was accepted in run {accepted_in}"
    (results,) = report.folder.glob("*.results.csv")
    page = (report.folder / "run.html").read_text(encoding="utf-8")
    for text in (line["What is wrong"], results.read_text(encoding="utf-8-sig"), page):
        assert (copy.casefold() in text.casefold()) is not deleted

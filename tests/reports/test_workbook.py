"""The reconciliation workbook: a sheet for each question, numbers that add up, and foreign text that stays text."""

import csv
import json
import re
import zipfile
from datetime import datetime
from decimal import Decimal

import jsonschema
import openpyxl
import pytest
from ledgers import document, drop_of, listing, order, plan, send, weight_problem
from reported_runs import report_of_everything, run_begun, written

from loadsheet.contract import Assumptions
from loadsheet.reports import schema, sheets
from loadsheet.reports.sheets import Cell, Column, Formula, Kind, Page, open_book
from loadsheet.settings import Settings

SHEETS = [
    *("Summary", "Exceptions", "Ageing", "Control totals", "Fields", "Differences", "Problems", "Matched"),
    *("Not verifiable", "Only at exchange", "Closed", "Files", "Sign-off", "Run"),
]
PAGES = {"Summary", "Ageing", "Control totals", "Sign-off", "Run"}


def opened(report, **more):
    return openpyxl.load_workbook(report.folder / "reconciliation.xlsx", **more)


def rows(sheet):
    return [[cell.value for cell in row] for row in sheet.iter_rows()]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return report_of_everything(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def book(report):
    return opened(report)


@pytest.fixture(scope="module")
def values(report):
    """The workbook with the stored results of its formulas."""
    return opened(report, data_only=True)


def test_the_sheets_answer_one_question_each(book):
    assert book.sheetnames == SHEETS
    matched = rows(book["Matched"])
    assert matched[0] == [
        *("Key", "Operation", "Verdict", "Service order", "Settled (UTC)"),
        *("File", "Rows", "Replaced by", "Replaced values"),
    ]
    assert [line[0] for line in matched[1:]] == ["A-00006", "A-00007", "A-00008"]
    assert [line[::2] for line in rows(book["Not verifiable"])[1:]] == [
        ["T-0001", "not verifiable", "accepted", "t.xlsx Blatt"]
    ]
    exceptions = rows(book["Exceptions"])[1:]
    assert [(line[1], line[3]) for line in exceptions] == [
        ("A-00001", "missing at exchange"),
        ("A-00002", "not sent: invalid"),
        ("A-00003", "refused"),
        ("A-00004", "outcome unknown"),
        ("A-00005", "value difference"),
    ]
    assert [line[0] for line in rows(book["Only at exchange"])[1:]] == ["A-00999", "Empfänger"]
    assert [line[2:6] for line in rows(book["Differences"])[1:]] == [
        ["delivery_city", "Dresden", "Empfänger", "different"],
        ["goods_value", "1005.99", "1.5", "different"],
    ]
    codes = [(line[0], line[1], line[3], line[8]) for line in rows(book["Problems"])[1:]]
    assert codes == [
        ("A-00002", "in.csv", 3, "C302"),
        ("A-00003", "in.csv", 4, "X701"),
        ("A-00004", "in.csv", 5, "X702"),
        (None, "x.jpg", None, "A101"),
    ]


def test_the_summary_says_the_verdict_the_legs_and_the_balance_first(values):
    lines = [line[0] for line in rows(values["Summary"])]
    assert lines[0] == "Reconciliation 2026-03-04-01"
    assert lines[1] == "5 of 9 documents need attention"
    assert lines[2] == "1 file could not be read · 5 control totals differ · 6 accepted · 1 document cannot be verified"
    assert (
        lines[3] == "Every row is accounted for: 10 read = 6 accepted + 1 refused + 1 invalid + 1 unknown + 1 ignored"
    )
    assert lines[4].startswith("1 of 6 control totals agree")
    assert lines[5] == "3 of 8 orders agree, 0 of 1 tenders agree"
    assert lines[6] == "At the exchange: 6 of 6 orders listed (complete)"
    assert lines[7].startswith("At the exchange: 0 of 9 tenders listed (partial")


TABLES = """
tblExceptions tblClosed tblMatched tblNotVerifiable tblFields tblProblems tblDifferences tblOnlyAtExchange tblFiles tblAgeing
tblAgeing1 tblAgeing3 tblAgeing4 tblOutcomes tblReasons tblBalance tblControl tblKinds tblRun tblSettings tblAssumptions
tblAccepted tblSigned tblDigests tblRules tblRuns
"""


def test_tables_have_names_and_span_their_rows(book):
    tables = dict(pair for sheet in book for pair in sheet.tables.items())
    places = [tables[f"tbl{name}"] for name in ("Matched", "Exceptions", "Problems")]
    assert places == ["A1:I4", "A1:AB6", "A1:K5"]
    assert set(tables) == set(TABLES.split())
    for sheet in book:
        for table in sheet.tables.values():
            head = [cell.value for cell in sheet[table.ref][0]]
            assert head == [column.name for column in table.tableColumns]


def test_sheets_are_frozen_filtered_and_print_on_one_page_across(book):
    for sheet in book:
        assert sheet.page_setup.orientation == "landscape"
        assert sheet.sheet_properties.pageSetUpPr.fitToPage  # one page across is the default of the format
        assert sheet.page_setup.fitToWidth in (None, 1)
        if sheet.title in PAGES:
            continue
        assert sheet.freeze_panes == ("C2" if sheet.title == "Exceptions" else "B2")
        assert sheet.print_title_rows == "$1:$1"
        (table,) = sheet.tables.values()
        assert table.autoFilter.ref == table.ref


def test_numbers_are_numbers_times_are_times_and_identifiers_texts(values):
    head, first, *_ = rows(values["Files"])
    file = dict(zip(head, first, strict=True))
    assert (file["Rows read"], file["Accepted"], file["Version"]) == (9, 5, "3")
    assert file["Arrived (UTC)"] == datetime(2026, 3, 4, 2, 14, 50)
    assert all(isinstance(line[3], str | None) for line in rows(values["Matched"]))
    assert all(isinstance(line[4], datetime) for line in rows(values["Matched"])[1:])
    exception = dict(zip(*(rows(values["Exceptions"])[row] for row in (0, 5)), strict=True))
    assert exception["First seen"] == datetime(2026, 3, 4)
    assert (exception["Age"], exception["Weight"], exception["Value"]) == (0, 417.5, 1005.99)
    assert exception["Exception"] == "E-5"


def test_a_ledger_gives_the_same_bytes_twice_and_no_other_file(report, tmp_path):
    reports = (report, report_of_everything(tmp_path))
    contents = [
        {path.name: path.read_bytes() for path in (*one.paths, one.folder.parent / "index.html")} for one in reports
    ]
    assert contents[0] == contents[1]
    files = {str(path.relative_to(report.folder)) for path in report.folder.rglob("*") if path.is_file()}
    assert files == set(report.summary.reports)


FOREIGN = (
    *("=1+1", "=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "{=1}", "]]>&amp;<b>", "01067", "  two  "),
    *("http://evil.example", "internal:Run!A1", "mailto:a@b.example", "<r>x</r>", "<r><t>x</r>"),
    *("_x0041_", "\x00\x01\x1f", "\ufffe"),
)


def test_foreign_text_stays_text_and_only_our_own_formulas_are_formulas(tmp_path):
    book = opened(report_of_everything(tmp_path, *FOREIGN))
    cells = [cell for sheet in book for line in sheet.iter_rows() for cell in line]
    assert [cell.coordinate for cell in cells if cell.hyperlink] == []
    formulas = {cell.value for cell in cells if cell.data_type == "f"}
    assert {cell.parent.title for cell in cells if cell.data_type == "f"} <= PAGES
    begins = r"=(IF\(|SUM\(|ROUND\(|COUNTIFS\(|SUMIFS\(|COUNTIF\(|'Ageing'!|[A-Z]+\d+(-[A-Z]+\d+)+$)"
    assert [formula for formula in formulas if not re.match(begins, formula)] == []
    assert formulas
    shown = {str(value) for sheet in ("Problems", "Only at exchange") for line in rows(book[sheet]) for value in line}
    shown |= {value.removesuffix(" ") for value in shown if value.startswith("<r>")}
    assert {text for text in FOREIGN if text.isprintable() and "_x" not in text} <= shown


def test_rows_beyond_the_limit_go_on_in_a_csv_and_the_summary_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sheets, "ROWS_MAX", 4)
    report = report_of_everything(tmp_path, "=1+1", orders=12)
    book = opened(report)
    assert len(rows(book["Matched"])) == 4
    assert book["Matched"].tables["tblMatched"].ref == "A1:I4"
    beside = report.folder / "reconciliation.matched.csv"
    assert beside in report.paths
    with beside.open(newline="", encoding="utf-8-sig") as file:
        more = list(csv.reader(file))
    assert more[0] == rows(book["Matched"])[0]
    assert len(more) == 1 + 7 - 3
    assert [line[0] for line in more[1:3]] == ["A-00009", "A-00010"]
    with (report.folder / "reconciliation.problems.csv").open(newline="", encoding="utf-8-sig") as file:
        assert not [cell for line in csv.reader(file) for cell in line if cell.startswith("=")]
    said = [line[0] for line in rows(book["Summary"])]
    more = "Some rows did not fit into their sheet; they continue in reconciliation.{}, in the same folder."
    assert {more.format("matched.csv"), more.format("exceptions.csv")} <= set(said)
    formulas = [cell for line in book["Ageing"]["B5:I9"] for cell in line if cell.data_type == "f"]
    assert not formulas  # they would not see the rows of the CSV


@pytest.mark.parametrize(("limit", "beyond"), [(4, ""), (3, "beside.csv")])
def test_the_limit_counts_the_heading(tmp_path, monkeypatch, limit, beyond):
    monkeypatch.setattr(sheets, "ROWS_MAX", limit)
    with open_book(tmp_path / "book.xlsx", title="t", footer="f") as book:
        sheet = sheets.TableSheet(book, "Some", [sheets.Column("a")], overflow=tmp_path / "beside.csv")
        for number in range(3):
            sheet.add([str(number)])
        assert sheet.finish("nothing") == beyond
    assert openpyxl.load_workbook(tmp_path / "book.xlsx")["Some"].max_row == limit


def test_secrets_are_in_no_report_and_changed_assumptions_and_long_texts_are_in_the_workbook(tmp_path):
    settings = Settings(
        outbox=tmp_path / "outbox",
        exchange="https://user:hunter2@exchange.example",
        token="s3cr3t-token",
        assumptions=Assumptions(create_existing="replace"),
    )
    report = report_of_everything(tmp_path, "x" * 40_000, settings=settings)
    for path in report.paths:
        data = path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                data = b"".join(archive.read(name) for name in archive.namelist())
        assert b"hunter2" not in data
        assert b"s3cr3t" not in data
    book = opened(report)
    assert ["assumptions.create_existing", "replace", "reject", None] in rows(book["Run"])
    values = [str(value) for line in rows(book["Problems"]) for value in line]
    assert any(value.endswith("(cut, 40000 characters)") and len(value) == 32_767 for value in values)


def test_an_empty_run_has_a_workbook_a_page_and_a_run_json_that_say_so(tmp_path):
    with run_begun(tmp_path) as started:
        report = written(*started)
    book = opened(report, data_only=True)
    assert book["Summary"]["A2"].value == "No file came in"
    assert rows(book["Matched"])[1][0] == "no documents of this run agree"
    assert rows(book["Exceptions"])[1][0] == "no open exceptions"
    page = (report.folder / "run.html").read_text(encoding="utf-8")
    assert "No file came in." in page
    summary, published = json.loads((report.folder / "run.json").read_bytes()), json.loads(schema())
    jsonschema.validate(summary, published)
    assert summary.keys() == published["$defs"]["RunSummary"]["properties"].keys()


def test_what_a_later_call_replaced_is_seen_per_document_and_in_the_control_totals(tmp_path):
    documents = [
        ("order.create", order(1, total_weight=100)),
        ("order.create", order(2)),
        ("order.create", None, weight_problem("in.csv", 4)),
        ("order.update", {"order_id": "A-00001", "total_weight": 80, "delivery_city": "Ulm"}),
        ("order.delete", {"order_id": "A-00002"}),
    ]
    made = [
        document(operation, payload, [("orders", row, (f"k{row}",))], *problems)
        for row, (operation, payload, *problems) in enumerate(documents, start=2)
    ]
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "in.csv")), made)
        send(ledger, run)
        listed = {"order": listing([order(1, total_weight=80, delivery_city="Ulm")])}
        replaced = opened(written(ledger, run, settings, listed), data_only=True)
    by, changed = "order.update of run 2026-03-04-01", "delivery_city, total_weight"
    assert [(line[0], line[2], *line[7:]) for line in rows(replaced["Matched"])[1:]] == [
        ("A-00001", "matched", None, None),
        ("A-00002", "matched", None, None),
        ("A-00001", "replaced later", by, changed),
        ("A-00002", "replaced later", "order.delete of run 2026-03-04-01", None),
    ]
    assert [line[2:6] for line in rows(replaced["Differences"])[1:]] == [
        ["delivery_city", "Dresden", "Ulm", f"replaced by {by}"],
        ["total_weight", "100", "80", f"replaced by {by}"],
    ]
    totals = {(line[0], line[1]): line for line in rows(replaced["Control totals"])}
    heads = totals["Figure", "Unit"]
    (weight,) = [dict(zip(heads, line, strict=True)) for name, line in totals.items() if name[0] == "order weight"]
    assert weight["Not sent"] == "not known"
    assert weight["Sent"] - weight["Replaced later"] == weight["Acknowledged"] == 80
    assert weight["Sent - replaced - acknowledged"] == 0
    assert weight["Says"] == "agrees"
    assert "1 order could not be built: the figures are not known and in no column." in [name for name, _ in totals]


def test_a_page_is_wide_enough_for_its_numbers(tmp_path):
    """A spreadsheet program shows `###` for a number that does not fit."""
    columns = [Column("What"), Column("Kg", Kind.AMOUNT), Column("Rows", Kind.COUNT)]
    with open_book(tmp_path / "a.xlsx", title="Page", footer="") as book:
        page = Page(book, "Summary", (20, 8, 9))
        page.table("tblAll", columns, [[Cell("all orders of the last weeks"), Cell(Decimal("14464082.391")), Cell(5)]])
        page.total(columns, [Cell("sum"), Cell(Formula("=SUM(B2:B2)", 123456789.5))])
        page.finish()
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["Summary"]
    widths = [sheet.column_dimensions[letter].width for letter in "ABC"]
    assert widths[1] > len("123,456,789.500") + 2
    assert [round(width) for width in (widths[0], widths[2])] == [21, 10]

import csv
import hashlib
import os
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from datetime import datetime
from decimal import Decimal

import openpyxl
import pytest
from ledgers import (
    document,
    drop_of,
    ledger_in,
    left_out,
    listing,
    order,
    plan,
    refused,
    send,
    tender,
    unknown,
    unreadable,
    weight_problem,
)

from loadsheet.contract import Assumptions
from loadsheet.problems import Problem, Where
from loadsheet.reconcile import settle
from loadsheet.reports import write
from loadsheet.settings import Settings

SHEETS = [
    *("Summary", "Exceptions", "Ageing", "Control totals", "Fields", "Differences", "Problems", "Matched"),
    *("Not verifiable", "Only at exchange", "Closed", "Files", "Sign-off", "Run"),
]
PAGES = {"Summary", "Ageing", "Control totals", "Sign-off", "Run"}


def a_night(folder, *, settings=None, text="Empfänger", orders=8, **more):
    """A night with something of everything; returns what was written and the settled reconciliation."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = settings or Settings(outbox=folder / "outbox", exchange="https://user:secret@exchange.example/base")
    with ledger_in(folder) as ledger:
        run = ledger.begin_run()
        items = [
            document(
                "order.create", order(number), [("orders", number + 1, (f"A-{number:05}", text, "01067", "1", "2"))]
            )
            for number in range(1, orders + 1)
        ]
        items[1] = document("order.create", order(2), [("orders", 3, (text,) * 5)], weight_problem("in.csv", 3, text))
        plan(ledger, run, drop_of(("orders", "in.csv")), [*items, left_out(orders + 2)])
        cells = [("tenders", 2, ("T-0001",))]
        plan(
            ledger,
            run,
            drop_of(("tenders", "t.xlsx", "Blatt"), mapping="t"),
            [document("tender.create", tender(1), cells)],
        )
        ledger.set_aside(run, unreadable("x.jpg", Problem("A101", Where("x.jpg"), "x.jpg", {"patterns": text})))
        answers = {"A-00003": lambda one: refused(one, text), "A-00004": unknown}
        send(ledger, run, lambda one: answers.get(one.key, lambda _: None)(one))
        held = [order(number) for number in range(6, orders + 1)]
        held += [order(5, goods_value=Decimal("1.5"), delivery_city=text), order(999), order(77, order_id=text)]
        found = settle(ledger.history, {"order": listing(held), "tender": listing([], total=9)}, run, settings)
        return write(ledger.history, found, run, settings, **more), found


def opened(report, **more):
    return openpyxl.load_workbook(report.folder / "reconciliation.xlsx", **more)


def rows(sheet):
    return [[cell.value for cell in row] for row in sheet.iter_rows()]


def test_the_sheets_answer_one_question_each(tmp_path):
    report, _ = a_night(tmp_path)
    book = opened(report)
    assert book.sheetnames == SHEETS
    matched = rows(book["Matched"])
    assert matched[0] == ["Key", "Operation", "Verdict", "Service order", "Settled (UTC)", "File", "Rows"]
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


def test_the_summary_tells_the_verdict_the_legs_and_the_balance_first(tmp_path):
    report, _ = a_night(tmp_path)
    lines = [line[0] for line in rows(opened(report, data_only=True)["Summary"])]
    assert lines[0] == "Reconciliation 2026-03-04-01"
    assert (
        lines[1] == "3 of 8 orders agree, 0 of 1 tenders agree; 5 need you, 1 cannot be verified, 1 file was set aside"
    )
    assert (
        lines[2] == "Every row is accounted for: 10 read = 6 accepted + 1 refused + 1 invalid + 1 unknown + 1 ignored"
    )
    assert lines[3] == "At the exchange: 6 of 6 orders listed (complete)"
    assert lines[4].startswith("At the exchange: 0 of 9 tenders listed (partial")


def test_tables_have_names_and_span_their_rows(tmp_path):
    report, _ = a_night(tmp_path)
    book = opened(report)
    tables = dict(pair for sheet in book for pair in sheet.tables.items())
    assert tables["tblMatched"] == "A1:G4"
    assert tables["tblExceptions"] == "A1:Y6"
    assert tables["tblProblems"] == "A1:K5"
    assert set(tables) == {
        *("tblExceptions", "tblClosed", "tblMatched", "tblNotVerifiable", "tblFields"),
        *("tblProblems", "tblDifferences", "tblOnlyAtExchange", "tblFiles", "tblAgeing"),
        *(f"tblAgeing{number}" for number in (1, 2, 3)),
        *(
            "tblOutcomes",
            "tblReasons",
            "tblBalance",
            "tblControl",
            "tblKinds",
            "tblRun",
            "tblSettings",
            "tblAssumptions",
        ),
        *("tblAccepted", "tblSigned", "tblDigests", "tblRules", "tblRuns"),
    }
    for sheet in book:
        for table in sheet.tables.values():
            head = [cell.value for cell in sheet[table.ref][0]]
            assert head == [column.name for column in table.tableColumns]


def test_sheets_are_frozen_filtered_and_print_on_one_page_across(tmp_path):
    report, _ = a_night(tmp_path)
    for sheet in opened(report):
        assert sheet.page_setup.orientation == "landscape"
        assert sheet.sheet_properties.pageSetUpPr.fitToPage  # one page across is the default of the format
        assert sheet.page_setup.fitToWidth in (None, 1)
        if sheet.title in PAGES:
            continue
        assert sheet.freeze_panes == ("C2" if sheet.title == "Exceptions" else "B2")
        assert sheet.print_title_rows == "$1:$1"
        (table,) = sheet.tables.values()
        assert table.autoFilter.ref == table.ref


def test_numbers_are_numbers_times_are_times_and_identifiers_texts(tmp_path):
    report, _ = a_night(tmp_path)
    book = opened(report, data_only=True)
    (_, first, *_) = book["Files"].iter_rows()
    told = dict(
        zip([cell.value for cell in next(book["Files"].iter_rows())], [cell.value for cell in first], strict=True)
    )
    assert told["Rows read"] == 9
    assert told["Accepted"] == 5
    assert told["Arrived (UTC)"] == datetime(2026, 3, 4, 2, 14, 50)
    assert told["Version"] == "3"
    assert all(isinstance(line[3], str | None) for line in rows(book["Matched"]))
    assert all(isinstance(line[4], datetime) for line in rows(book["Matched"])[1:])
    exception = dict(zip(*(rows(book["Exceptions"])[row] for row in (0, 5)), strict=True))
    assert exception["First seen"] == datetime(2026, 3, 4)
    assert (exception["Age"], exception["Weight"], exception["Value"]) == (0, 417.5, 1005.99)
    assert exception["Exception"] == "E-5"


def test_a_ledger_gives_the_same_bytes_twice(tmp_path):
    reports = [a_night(tmp_path / name)[0] for name in ("one", "two")]
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in report.paths} for report in reports
    ]
    assert digests[0] == digests[1]
    assert {"reconciliation.xlsx", "run.json", "in.csv.results.csv"} <= set(digests[0])


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "=cmd|' /C calc'!A0",
        "+1",
        "-1",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "{=1}",
        "http://evil.example",
        "internal:Run!A1",
        "mailto:a@b.example",
        "<r>x</r>",
        "<r><t>x</r>",
        "_x0041_",
        "\x00\x01\x1f",
        "\ufffe",
        "]]>&amp;<b>",
        "01067",
        "  two  ",
    ],
)
def test_foreign_text_stays_text(tmp_path, text):
    report, _ = a_night(tmp_path, text=text)
    book = opened(report)
    ours = PAGES
    for sheet in book:
        for line in sheet.iter_rows():
            for cell in line:
                assert cell.data_type != "f" or sheet.title in ours, (sheet.title, cell.coordinate, cell.value)
                assert cell.hyperlink is None
    shown = {str(value) for sheet in ("Problems", "Only at exchange") for line in rows(book[sheet]) for value in line}
    if text.isprintable() and "_x" not in text:
        assert text in {value.removesuffix(" ") if text.startswith("<r>") else value for value in shown}


def test_only_our_own_formulas_are_formulas(tmp_path):
    report, _ = a_night(tmp_path, text="=1+1")
    cells = [cell for sheet in opened(report) for line in sheet.iter_rows() for cell in line]
    formulas = {cell.value for cell in cells if cell.data_type == "f"}
    assert formulas
    begins = ("=IF(", "=SUM(", "=ROUND(", "=COUNTIFS(", "=SUMIFS(", "=COUNTIF(", "='Ageing'!")
    assert all(
        formula.startswith(begins) or re.fullmatch(r"=[A-Z]+\d+(-[A-Z]+\d+)+", formula) for formula in formulas
    ), formulas
    assert "=1+1" not in formulas


def test_long_texts_are_cut_with_a_mark(tmp_path):
    report, _ = a_night(tmp_path, text="x" * 40_000)
    values = [str(value) for line in rows(opened(report)["Problems"]) for value in line]
    assert any(value.endswith("(cut, 40000 characters)") and len(value) == 32_767 for value in values)


def test_rows_beyond_the_limit_go_on_in_a_csv_and_the_summary_says_so(tmp_path):
    report, _ = a_night(tmp_path, text="=1+1", orders=12, sheet_rows_max=4)
    book = opened(report)
    assert len(rows(book["Matched"])) == 4
    assert book["Matched"].tables["tblMatched"].ref == "A1:G4"
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
    told = "Some rows did not fit into their sheet; they go on in reconciliation.{} beside this workbook."
    assert {told.format("matched.csv"), told.format("exceptions.csv")} <= set(said)
    formulas = [cell for line in book["Ageing"]["B5:I9"] for cell in line if cell.data_type == "f"]
    assert not formulas  # they would not see the rows of the CSV


@pytest.mark.parametrize(("limit", "beyond"), [(4, False), (3, True)])
def test_the_limit_counts_the_heading(tmp_path, limit, beyond):
    report, _ = a_night(tmp_path, sheet_rows_max=limit)
    assert ("reconciliation.matched.csv" in report.names) is beyond
    assert len(rows(opened(report)["Matched"])) == min(limit, 4)


def test_secrets_are_in_no_report(tmp_path):
    settings = Settings(
        outbox=tmp_path / "outbox", exchange="https://user:hunter2@exchange.example", token="s3cr3t-token"
    )
    report, _ = a_night(tmp_path, settings=settings)
    for path in report.paths:
        data = path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as book:
                data = b"".join(book.read(name) for name in book.namelist())
        assert b"hunter2" not in data
        assert b"s3cr3t" not in data


def test_assumptions_that_were_changed_are_told(tmp_path):
    settings = Settings(outbox=tmp_path / "outbox", assumptions=Assumptions(create_existing="replace"))
    report, _ = a_night(tmp_path, settings=settings)
    assert ["assumptions.create_existing", "replace", "reject", None] in rows(opened(report)["Run"])


def test_an_empty_run_has_a_workbook_that_says_so(tmp_path):
    settings = Settings(outbox=tmp_path / "outbox")
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        report = write(ledger.history, settle(ledger.history, {}, run, settings), run, settings)
    book = opened(report, data_only=True)
    assert book["Summary"]["A2"].value == "No document was submitted"
    assert rows(book["Matched"])[1][0] == "no documents of this run agree"
    assert rows(book["Exceptions"])[1][0] == "nothing needs anybody"


def test_no_temporary_file_is_left(tmp_path):
    report, _ = a_night(tmp_path)
    written = {str(path.relative_to(report.folder)) for path in report.folder.rglob("*") if path.is_file()}
    assert written == set(report.names)


def office():
    found = shutil.which("soffice")
    if found is None and not os.environ.get("CI"):
        pytest.skip("LibreOffice is not installed here; CI has it")
    assert found, "CI must have LibreOffice"
    return found


ALWAYS_CALCULATE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item>
</oor:items>"""


def recalculated(report, folder):
    """The workbook as LibreOffice saves it after calculating anew; every stored number was made wrong before."""
    profile = folder / "profile"
    (profile / "user").mkdir(parents=True)
    (profile / "user" / "registrymodifications.xcu").write_text(ALWAYS_CALCULATE, encoding="utf-8")
    spoilt, made = folder / "spoilt.xlsx", folder / "made"
    with zipfile.ZipFile(report.folder / "reconciliation.xlsx") as source, zipfile.ZipFile(spoilt, "w") as target:
        for name in source.namelist():
            target.writestr(name, re.sub(rb"(</f><v>)[-.0-9]+(</v>)", rb"\g<1>77777\2", source.read(name)))
    words = (
        office(),
        f"-env:UserInstallation={profile.as_uri()}",
        "--headless",
        "--convert-to",
        "xlsx",
        "--outdir",
        made,
    )
    done = subprocess.run([*words, spoilt], check=False, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    return openpyxl.load_workbook(made / "spoilt.xlsx", data_only=True)


def test_libreoffice_calculates_every_formula_to_the_stored_result(tmp_path):
    report, _ = a_night(tmp_path, text="=1+1", orders=12)
    live, stored = opened(report), opened(report, data_only=True)
    calculated = recalculated(report, tmp_path / "office")
    assert calculated.sheetnames == SHEETS
    checked = Counter()
    for sheet in PAGES:
        for line in live[sheet].iter_rows():
            for cell in line:
                if cell.data_type != "f":
                    continue
                checked[sheet] += 1
                ours, theirs = (book[sheet][cell.coordinate].value for book in (stored, calculated))
                assert theirs == (pytest.approx(ours, abs=1e-9) if isinstance(ours, int | float) else ours), (
                    sheet,
                    cell.coordinate,
                )
    assert checked["Control totals"] > 40
    assert checked["Ageing"] > 150
    assert checked["Sign-off"] == 1
    for sheet in SHEETS:
        if sheet in PAGES:
            continue
        ours = [[value for value in line if value is not None] for line in rows(stored[sheet])]
        theirs = [[value for value in line if value is not None] for line in rows(calculated[sheet])]
        assert theirs[: len(ours)] == ours

import csv
from dataclasses import replace
from datetime import date, datetime, time
from types import SimpleNamespace

import openpyxl
import pytest
from fix_workbooks import write_fixes
from ledgers import (
    HEADER,
    document,
    drop_of,
    order,
    plan,
    refused,
    send,
    unknown,
    unreadable,
    weight_problem,
)
from reported_runs import run_begun, written

from loadsheet.ledger import ColumnGuide, ReadTotals, Settlement, State, Waits
from loadsheet.mapping.documents import SourceRow
from loadsheet.problems import Problem, Where
from loadsheet.reading.number_formats import parse_format, read_number
from loadsheet.reports.fix_workbook import fix_sheets
from loadsheet.workbook_marks import PROPERTY, Mark

BOOK = ("orders", "book.xlsx", "Aufträge")
ATTACKS = ("=cmd|' /C calc'!A0", "=1+1", "@SUM(1)", "+1", "-1", "\t=1", "\r=1", "http://evil.example", "<r>x</r>")


def cell(number, text="x", weight="412,5"):
    return (f"A-{number:05}", text, "01067", weight, "10")


def in_book(number, row=0, sheet="Aufträge", **more):
    row = row or number + 1
    return weight_problem("book.xlsx", row, sheet=sheet, cell=f"D{row}", **more)


def fixes(ledger, run, settings):
    """The fix files of a run as it stands: their folder and names, and the first workbook."""
    folder = settings.outbox / run.name
    names = write_fixes(ledger.queries, run, folder, settings)
    book = openpyxl.load_workbook(folder / names[0]) if names and names[0].endswith("xlsx") else None
    return SimpleNamespace(folder=folder, names=names, book=book)


def a_run(tmp_path, *items, tables=(BOOK,), decide=lambda one: None, drop=None, **more):
    """The fix files of one drop that was sent."""
    with run_begun(tmp_path, **more) as (ledger, run, settings):
        planned = plan(ledger, run, drop or drop_of(*tables), items)
        send(ledger, run, decide)
        found = fixes(ledger, run, settings)
    found.drop = planned
    return found


def invalid(number, rows, *problems):
    return document("order.create", order(number), rows, *problems)


def rows(sheet):
    return [[cell.value for cell in line] for line in sheet.iter_rows()]


def test_all_rows_of_every_record_that_was_not_sent_come_back_in_their_own_order_with_their_marks(tmp_path):
    tables = (BOOK, ("packages", "book.xlsx", "Pakete"))
    one = [("orders", 5, cell(1)), ("packages", 9, cell(1)), ("packages", 3, cell(1))]
    two = [("orders", 2, cell(2)), ("packages", 4, cell(2))]
    fine = [("orders", 3, cell(3)), ("packages", 5, cell(3))]
    found = a_run(
        tmp_path,
        invalid(1, one, weight_problem("book.xlsx", 9, sheet="Pakete", cell="D9")),
        invalid(2, two),
        invalid(3, fine),
        tables=tables,
        decide=lambda one: refused(one, where=Where("book.xlsx", "Aufträge", 2, "PLZ", "C2")) if one.id == 2 else None,
    )
    orders, packages = found.book["Aufträge"], found.book["Pakete"]
    assert rows(orders)[0] == ["What to fix", *HEADER, "_row"]
    assert [line[1:] for line in rows(orders)[1:]] == [[*cell(2), "2:1/2"], [*cell(1), "1:1/3"]]
    assert [line[-1] for line in rows(packages)[1:]] == ["1:3/3", "2:2/2", "1:2/3"]
    assert [line[0] for line in rows(orders)[1:]] == [
        "PLZ: The exchange refused it: pickup_pincode is invalid. Correct the value; if it is right, ask the exchange",
        "No change needed; listed because the row belongs to A-00001",
    ]
    assert orders.column_dimensions["G"].hidden
    assert found.book.sheetnames == ["Aufträge", "Pakete", "Errors", "Read me"]


def test_what_the_exchange_said_stands_at_a_row_unless_the_row_has_an_error_of_its_own(tmp_path):
    def refused_in_words(one):
        return Settlement(one.id, State.REFUSED, "the order is too late", "", (), "refused", 400, 38)

    warned = invalid(2, [("orders", 3, cell(2))], replace(in_book(2), level="warning"))
    wrong = invalid(1, [("orders", 2, cell(1))], in_book(1))
    found = a_run(tmp_path, wrong, warned, decide=refused_in_words)
    said = {line[1]: line[0] for line in rows(found.book["Aufträge"])[1:]}
    assert "the order is too late" in said["A-00002"]
    assert "exchange" not in said["A-00001"]


def test_the_workbook_says_whose_rows_it_holds(tmp_path):
    found = a_run(tmp_path, invalid(1, [("orders", 2, cell(1))], in_book(1)))
    assert found.names == ["book.fix.xlsx"]
    mark = Mark.read(found.book.custom_doc_props[PROPERTY].value)
    assert mark == Mark(found.drop.run, found.drop.id, found.drop.mapping_hash[:16], "acme")


def test_wrong_cells_are_red_and_bordered_and_noted_and_warnings_are_not(tmp_path):
    warning = Problem(
        "K502", Where("book.xlsx", "Aufträge", 2, "Wert", "E2"), "10", {"path": "", "expected": "9"}, level="warning"
    )
    found = a_run(tmp_path, invalid(1, [("orders", 2, cell(1)), ("orders", 3, cell(1))], in_book(1), warning))
    sheet = found.book["Aufträge"]
    bad, warned, fine, grey = sheet["E2"], sheet["F2"], sheet["B2"], sheet["B3"]
    assert (bad.border.left.style, bad.border.top.color.rgb, bad.fill.fgColor.rgb) == ("medium", "FFC62828", "FFFBD5D5")
    assert bad.font.b
    assert bad.comment.text == '"zwölf" is not a number. Enter a number [C302]'
    assert warned.fill.fgColor.rgb == "FFFFF1B8"
    assert warned.border.left.style == "thin"
    assert "[K502]" in warned.comment.text
    assert fine.fill.fgColor.rgb == "00000000"
    assert (grey.fill.fgColor.rgb, grey.font.i) == ("FFF1F3F5", True)
    assert sheet["A2"].value.split("\n")[1].startswith("Warning: Wert: ")
    assert {one.number_format for one in sheet[2]} == {"@", "General"}  # the sentence wraps, all else is text


def test_the_sheet_opens_on_the_first_wrong_cell_with_its_headings_in_view(tmp_path):
    tables = (("orders", "book.xlsx", "Kopf"), ("packages", "book.xlsx", "Pakete"))
    item = invalid(1, [("orders", 2, cell(1)), ("packages", 2, cell(1))], in_book(1, sheet="Pakete"))
    found = a_run(tmp_path, item, tables=tables)
    assert found.book.active.title == "Pakete"
    sheet = found.book["Pakete"]
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("C2", "A1:G2")
    assert sheet.sheet_view.selection[-1].activeCell == "E2"
    assert sheet.sheet_properties.tabColor.rgb == "FFC62828"


def test_columns_with_a_list_offer_it_and_say_what_they_take(tmp_path):
    choices = tuple(f"Verpackung Nummer {number}" for number in range(40))  # together beyond what a rule may hold
    guide = {"orders": {"PLZ": ColumnGuide("a postcode", choices, required=True), "Wert": ColumnGuide("a number")}}
    drop = replace(drop_of(BOOK), guide=guide)
    found = a_run(tmp_path, invalid(1, [("orders", 2, cell(1))], in_book(1)), drop=drop)
    offered = {str(one.sqref): one for one in found.book["Aufträge"].data_validations.dataValidation}
    rule = offered["D2:D202"]
    assert (rule.type, rule.formula1, rule.errorStyle) == ("list", "Lists!$A$1:$A$40", "warning")
    assert rule.prompt == "A postcode. Must be filled in. Choose from the list, or type."
    assert offered["F2:F202"].prompt == "A number"
    lists = found.book["Lists"]
    assert lists.sheet_state == "hidden"
    assert [line[0] for line in rows(lists)] == list(choices)


def test_only_sheets_that_explain_are_locked_and_rules_guard_headings_and_what_to_fix(tmp_path):
    """A sheet with rows is not protected: a pasted cell would be locked, and programs neither sort nor delete a row that has one."""
    book = a_run(tmp_path, invalid(1, [("orders", 2, cell(1)), ("orders", 3, cell(1))], in_book(1))).book
    for sheet in book.worksheets[1:]:
        assert sheet.protection.sheet
        assert sheet.protection.password is None
        allowed = ("insertRows", "deleteRows", "insertColumns", "sort", "autoFilter", "formatColumns", "formatCells")
        assert not any(getattr(sheet.protection, name) for name in allowed)  # the file names what is not allowed
    sheet = book["Aufträge"]
    assert not sheet.protection.sheet
    rules = {str(one.sqref): one for one in sheet.data_validations.dataValidation}
    for place, error in (("A2:A3", "This column only explains"), ("A1:G1", "Leave the headings as they are")):
        guard = rules[place]
        assert (guard.type, guard.formula1, guard.errorStyle) == ("custom", "FALSE", None)
        assert guard.error.startswith(error)
    assert all(one.protection.locked for line in book["Read me"].iter_rows() for one in line if one.value)


def test_a_wide_sheet_prints_over_several_pages_with_its_first_column_on_each(tmp_path):
    """One page wide, 40 columns would be too small to read. What to fix is only on the first page, beside that column."""
    heads = tuple(f"Spalte {number} mit Text" for number in range(40))
    at = Where("book.xlsx", "Aufträge", 2, heads[3], "E2")
    items = [
        document("order.create", order(1), [("orders", 2, ("x",) * 40)], Problem("C302", at, "x", {"locale": "de"}))
    ]
    drop = drop_of(("orders", "book.xlsx", "Aufträge"), header=heads)
    sheet = a_run(tmp_path, *items, drop=drop).book["Aufträge"]
    setup = sheet.page_setup
    assert (setup.orientation, int(setup.paperSize), setup.scale, setup.pageOrder) == (
        "landscape",
        9,
        70,
        "overThenDown",
    )
    assert not sheet.sheet_properties.pageSetUpPr.fitToPage
    assert (sheet.print_title_rows, sheet.print_title_cols) == ("$1:$1", "$B:$B")


def test_a_sheet_prints_one_page_wide_on_a4_with_its_headings_on_every_page(tmp_path):
    book = a_run(tmp_path, invalid(1, [("orders", 2, cell(1))], in_book(1))).book
    for sheet in book:
        setup = sheet.page_setup
        assert (setup.orientation, int(setup.paperSize), setup.fitToHeight) == ("landscape", 9, 0)
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
    assert [book[name].print_title_rows for name in ("Aufträge", "Errors")] == ["$1:$1", "$3:$3"]


def test_errors_are_folded_with_links_to_the_cells_and_what_was_probably_meant(tmp_path):
    near = {"found": "EUX", "hint": "did you mean EUP?"}
    items = [invalid(n, [("orders", n + 1, cell(n))], in_book(n, **near)) for n in range(1, 8)]
    items.append(invalid(8, [("orders", 9, cell(8))], replace(in_book(8), code="C303")))
    sheet = a_run(tmp_path, *items).book["Errors"]
    assert sheet["A1"].value == "8 problems of 2 kinds in 8 records."
    told = dict(zip([one.value for one in sheet[3]], sheet[4], strict=True))
    assert told["Where"].hyperlink.location == "Aufträge!E2"
    assert {head: one.value for head, one in told.items()} == {
        "Where": "Aufträge!E2",
        "Column": "Gewicht",
        "Your value": "EUX",
        "Problem": '"EUX" is not a number',
        "How to fix": "Did you mean EUP?",
        "Suggested value": "EUP",
        "How often": 7,
        "Also at": "Aufträge!E3, Aufträge!E4, Aufträge!E5, +3",
        "Original cell": "book.xlsx Aufträge!D2",
        "Code": "C302",
    }
    assert [line[6] for line in rows(sheet)[3:]] == [7, 1]


def test_the_column_that_most_problems_stand_in_is_named(tmp_path):
    items = [invalid(n, [("orders", n + 1, cell(n))], in_book(n)) for n in range(1, 4)]
    other = Problem("C301", Where("book.xlsx", "Aufträge", 5, "PLZ", "C5"))
    items.append(invalid(4, [("orders", 5, cell(4))], other))
    sheet = a_run(tmp_path, *items).book["Errors"]
    assert sheet["A1"].value == (
        "4 problems of 2 kinds in 4 records. Correcting the column “Gewicht” clears 3 of them."
    )


def test_a_sheet_in_german_is_answered_in_german(tmp_path):
    drop = replace(drop_of(BOOK), language="de")
    book = a_run(tmp_path, invalid(1, [("orders", 2, cell(1))], in_book(1)), drop=drop).book
    assert book.sheetnames == ["Aufträge", "Fehler", "Bitte lesen"]
    assert book["Aufträge"]["A1"].value == "Was zu ändern ist"
    assert book["Aufträge"]["A2"].value == "Gewicht: „zwölf“ ist keine Zahl. Geben Sie eine Zahl ein"
    assert book["Bitte lesen"]["B3"].value.startswith("Korrigieren Sie die roten Zellen auf „Aufträge“: ")


def test_a_sheet_without_language_is_answered_in_that_of_the_settings(tmp_path):
    found = a_run(tmp_path, invalid(1, [("orders", 2, cell(1))], in_book(1)), language="de")
    assert "Fehler" in found.book.sheetnames


def test_a_guide_in_another_language_gives_its_lists_only(tmp_path):
    guide = {"orders": {"PLZ": ColumnGuide("a postcode", ("1", "2"))}}
    drop = replace(drop_of(BOOK), guide=guide, language="nl")
    found = a_run(tmp_path, invalid(1, [("orders", 2, cell(1))], in_book(1)), drop=drop, language="de")
    (rule,) = (one for one in found.book["Aufträge"].data_validations.dataValidation if one.type == "list")
    assert (rule.formula1, rule.prompt) == (
        "Lists!$A$1:$A$2",
        "Wählen Sie einen Wert aus der Liste, oder geben Sie ihn ein.",
    )


def test_sheets_called_like_ours_keep_their_names(tmp_path):
    tables = (("orders", "book.xlsx", "Fehler"), ("packages", "book.xlsx", "Bitte Lesen"))
    item = invalid(1, [("orders", 2, cell(1)), ("packages", 2, cell(1))], in_book(1, sheet="Fehler"))
    book = a_run(tmp_path, item, drop=replace(drop_of(*tables), language="de")).book
    assert book.sheetnames == ["Fehler", "Bitte Lesen", "Fehler 2", "Bitte lesen 2"]


def test_typed_cells_are_typed_again_where_that_is_exact(tmp_path):
    natives = (
        (0, "number", "1067"),
        (1, "datetime", "2026-03-04 08:15:00"),
        (2, "time", "08:15:00"),
        (3, "number", "0.30000000000000004"),
        (4, "flag", "true"),
        (5, "number", "12345678901234567"),
        (6, "date", "1899-12-31"),
        (7, "date", "2026-03-04"),
    )
    shown = ("01067", "2026-03-04 08:15:00", "08:15:00", "0.30000000000000004", "true", *(n[2] for n in natives[5:]))
    header = tuple(f"c{number}" for number in range(8))
    item = invalid(
        1,
        [("orders", 2, shown, natives)],
        Problem("G402", Where("book.xlsx", "Aufträge", 2), "", {"key": "x", "rows": "2, 3"}),
    )
    sheet = a_run(tmp_path, item, drop=drop_of(BOOK, header=header)).book["Aufträge"]
    values = [one.value for one in sheet[2]][1:9]
    assert values == [
        1067,
        datetime(2026, 3, 4, 8, 15),
        time(8, 15),
        0.1 + 0.2,
        True,
        "12345678901234567",
        "1899-12-31",
        datetime(2026, 3, 4),
    ]
    assert [sheet.cell(2, column).number_format for column in (2, 3, 4, 9)] == [
        "00000",
        "yyyy-mm-dd hh:mm",
        "hh:mm",
        "yyyy-mm-dd",
    ]
    assert sheet["A2"].border.left.style == "medium"  # what is wrong with the row as a whole


@pytest.mark.parametrize(
    ("native", "cell", "written"),
    [
        (("number", "9.95"), "9.95", (9.95, "General")),
        (("number", "1.5"), "36:00:00", (1.5, "[h]:mm:ss")),
        (("number", "0"), "00:", (0.0, '00":"')),
        (("number", "7"), "at 08:00:07", (7.0, '"at 08:00:"00')),
        (("number", "10671234"), "01067-1234", (10671234.0, r"00000\-0000")),
        (("number", "12"), "D-00012", (12.0, '"D-"00000')),
        (("number", "12"), "2024-0012", (12.0, '"2024-"0000')),
        (("number", "12"), "012 kg", (12.0, '000" kg"')),
        (("number", "0"), "000", (0.0, "000")),
        (("number", "12"), 'a "12"', (12.0, r'"a "\"General\"')),
        (("number", "27.5"), "27.5 lb", (27.5, 'General" lb"')),
        (("number", "-27.5"), "-27.5 lb", (-27.5, 'General" lb"')),
        (("number", "5"), '5"', (5.0, r"General\"")),
        (("number", "1500"), "1.5 t", (1500.0, '0.0," t"')),
        (("number", "2000000"), "2 kt", (2000000.0, '0,," kt"')),
        (("number", "-27"), "(27 lb)", ("(27 lb)", "@")),
        (("number", "0.1234567890123456789"), "0.1234567890123456789", ("0.1234567890123456789", "@")),
        (("number", "-5"), "-5", (-5.0, "General")),
        (("date", "2026-03-04"), "x", (datetime(2026, 3, 4), "yyyy-mm-dd")),
        (("time", "08:15:30"), "x", (time(8, 15, 30), "hh:mm:ss")),
        (("flag", "false"), "false", (False, "General")),
    ],
)
def test_a_native_cell_has_its_value_and_format(native, cell, written):
    assert fix_sheets.typed(cell, native, "yyyy-mm-dd") == written
    if native[0] == "number" and written[1] != "@":
        assert read_number(native[1], parse_format(written[1]), from_1904=False).shown == cell
    assert date(2026, 3, 4) == datetime(2026, 3, 4).date()


VALUES = {"count": "3", "text": "no", "invalid": "2", "limit": "1 %"}


def held(one, code, **more):
    return Settlement(one.id, State.HELD, "held", problems=(Problem(code, values=VALUES | {"key": one.key}),), **more)


@pytest.mark.parametrize("code", ["L609", "L611", "X702"])
def test_what_only_an_operator_can_decide_is_not_sent_back(tmp_path, code):
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(BOOK), [invalid(1, [("orders", 2, cell(1))])])
        (one,) = ledger.ready(9)
        ledger.settle(run, [held(one, code)])
        assert fixes(ledger, run, settings).names == []


def test_what_waits_beside_what_is_to_be_fixed_is_told_as_no_matter_of_the_sender(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        items = [invalid(1, [("orders", 2, cell(1))], in_book(1)), invalid(2, [("orders", 3, cell(2))])]
        plan(ledger, run, drop_of(BOOK), items)
        (one,) = ledger.ready(9)
        ledger.settle(run, [held(one, "L611")])
        book = fixes(ledger, run, settings).book
    assert [line[-1] for line in rows(book["Aufträge"])[1:]] == ["1:1/1"]
    assert book["Read me"]["B6"].value.startswith("1 more record waits for another record or for a decision")


def test_what_waits_for_others_is_not_sent_back_and_a_change_of_what_was_accepted_is(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "a.csv"), mapping="a"), [invalid(1, [("orders", 2, cell(1))])])
        send(ledger, run)
        again = document("order.create", order(1, delivery_city="Köln"), [("orders", 2, cell(1, "neu"))])
        plan(ledger, run, drop_of(("orders", "b.csv"), mapping="b"), [again])
        child = document("order.status", {"order_id": "A-7", "status_code": "x"}, [("orders", 2, cell(7))])
        plan(ledger, run, drop_of(("orders", "c.csv"), mapping="c"), [child], seen=False)
        (entry,) = ledger.queries.entries_by_key("A-7")
        ledger.settle(run, [Settlement(entry.id, State.HELD, "waits", waits=Waits.PARENT)])
        found = fixes(ledger, run, settings)
        assert found.names == ["b.fix.xlsx"]
        assert found.book["b"]["A2"].value.startswith("The exchange already has A-00001, with other values: ")


@pytest.mark.parametrize("decide", [lambda _: None, unknown], ids=["accepted", "outcome unknown"])
def test_a_drop_with_nothing_to_fix_gets_no_fix_file(tmp_path, decide):
    items = invalid(1, [("orders", 2, cell(1))]), invalid(2, [("orders", 3, cell(2))])
    assert a_run(tmp_path, *items, decide=decide).names == []


def test_a_file_that_was_set_aside_is_answered_with_what_to_do(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        ledger.set_aside(
            run, unreadable("broken.xlsx", Problem("R202", Where("broken.xlsx"), hint="send the file with its rows"))
        )
        report = written(ledger, run, settings)
        book = openpyxl.load_workbook(report.folder / "broken.fix.xlsx")
        assert rows(book["broken"])[1] == ["The file holds no rows. Send the file with its rows", "broken.xlsx", "R202"]
        assert book["Read me"]["B3"].value == "broken.xlsx could not be read, so nothing from it was sent."
        assert PROPERTY not in book.custom_doc_props.names
        assert {"broken.fix.xlsx", "broken.xlsx.results.xlsx"} < set(report.summary.reports)


def test_what_goes_to_a_sender_names_no_file_of_others(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        why = Problem(
            "A101", Where("x.csv"), "x.csv", {"patterns": "rival_*.csv"}, "give it a name that a mapping takes"
        )
        ledger.set_aside(run, unreadable("x.csv", why))
        report = written(ledger, run, settings)
        book = openpyxl.load_workbook(report.folder / "x.fix.xlsx")
        assert rows(book["x"])[1][0].startswith("No mapping matches a file named x.csv. Give your file the agreed name")
        told = [
            report.folder / name
            for name in report.summary.reports
            if name.endswith((".results.csv", ".json", ".ack.csv"))
        ]
        to_others = [path for path in told if path.name != "run.json"]
        assert len(to_others) == 3, to_others
        for path in to_others:
            text = path.read_text(encoding="utf-8-sig")
            words = {
                ".json": "no mapping matches the file name x.csv",
                "results.csv": "No mapping matches a file named x.csv",
            }
            assert all(text_of in text for end, text_of in words.items() if path.name.endswith(end)), path
            assert "rival" not in text, path
        assert "rival" not in str([list(sheet.values) for sheet in book])


def test_names_are_told_apart_in_run_json_and_the_terminal_and_those_of_earlier_runs_say_so(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        for number, name in enumerate(("a/in.csv", "a__in.xlsx", "in.fix.xlsx"), start=1):
            item = invalid(number, [("orders", 2, cell(1))], weight_problem(name, 2))
            plan(ledger, run, drop_of(("orders", name), mapping=name), [item])
        report = written(ledger, run, settings)
        names = [name for drop in report.summary.drops for name in drop.fix]
        assert names == ["a__in.fix.xlsx", "a__in-2.fix.xlsx", "in.fix.xlsx"]
        assert f"→ Send back: 3 fix files in {report.folder}/" in report.lines()
    with run_begun(tmp_path / "later") as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "in.csv")), [invalid(1, [("orders", 2, cell(1))])])
        ledger.end_run(run, exit_code=75, summary={})
        later = ledger.begin_run()
        send(ledger, later, refused)
        assert fixes(ledger, later, settings).names == [f"in.of-{run.name}.fix.xlsx"]


def test_a_row_that_several_records_share_is_there_once_with_the_remarks_of_both(tmp_path):
    shared = ("orders", 2, cell(1))
    one = invalid(1, [shared, ("orders", 3, cell(1))], in_book(1, row=2))
    two = invalid(2, [shared, ("orders", 4, cell(2))], in_book(2, row=2, found="drei"))
    with run_begun(tmp_path) as (ledger, run, settings):
        items = [one, replace(two, items={"(shared)": (0,)})]
        ledger.plan(run, drop_of(BOOK), {}, [*items, ReadTotals({"orders": 3})])
        told = rows(fixes(ledger, run, settings).book["Aufträge"])[1:]
    assert [line[-1] for line in told] == ["1:1/2", "1:2/2", "2:1/1"]
    assert told[0][0].count("is not a number") == 2


def test_notes_have_an_end_and_the_errors_sheet_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(fix_sheets, "NOTES_MOST", 20)
    count = 30
    items = [invalid(n, [("orders", n + 1, cell(n))], in_book(n)) for n in range(1, count + 1)]
    book = a_run(tmp_path, *items).book
    noted = sum(one.comment is not None for (one,) in book["Aufträge"].iter_rows(min_col=5, max_col=5))
    assert noted == 20
    assert book["Errors"]["G4"].value == count


def test_foreign_text_stays_text(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        for number, text in enumerate(ATTACKS, start=1):
            file = f"{number}{text}.xlsx".replace("/", "_")
            drop = drop_of(("orders", file, text), mapping=file, header=(text, *HEADER[1:]))
            wrong = in_book(number, row=2, found=text, hint=text)
            wrong = replace(wrong, where=replace(wrong.where, file=file, sheet=text))
            item = invalid(number, [("orders", 2, (text,) * 5), ("orders", 3, (text,) * 5)], wrong)
            guide = {"orders": {"PLZ": ColumnGuide(text, (text, "b"))}}
            plan(ledger, run, replace(drop, guide=guide), [item])
        found = fixes(ledger, run, settings)
    for text, name in zip(ATTACKS, found.names, strict=True):
        book = openpyxl.load_workbook(found.folder / name)
        for one in (one for sheet in book for line in sheet.iter_rows() for one in line):
            assert one.data_type == "s" or one.value is None or isinstance(one.value, int), one.coordinate
            assert one.hyperlink is None or one.hyperlink.location.endswith("!E2")
        if text.isprintable() and not text.startswith("<r>"):
            assert [one.value for one in book.worksheets[0][2]][1:6] == [text] * 5


def in_text(number, **more):
    return weight_problem("in.csv", number + 1, **more)


def lines_of(found, name, **more):
    with (found.folder / name).open(newline="", **{"encoding": "utf-8", **more}) as file:
        return list(csv.reader(file, delimiter=";"))


def text_drop(name="in.csv", encoding="UTF-8"):
    drop = drop_of(("orders", name))
    return replace(drop, tables=(replace(drop.tables[0], found={"encoding": encoding, "delimiter": "semicolon"}),))


def test_text_files_come_back_as_text_on_wish_written_as_they_were(tmp_path):
    cells = ("A-00001", '=1+1;\n"x"', "01067", "-5", "Müller")
    item = invalid(1, [("orders", 2, cells), ("orders", 3, cell(1))], in_text(1, found="=x"))
    found = a_run(tmp_path, item, drop=text_drop(encoding="CP1252"), feedback="csv")
    assert found.names == ["in.fix.csv"]
    told = lines_of(found, "in.fix.csv", encoding="cp1252")
    assert told == [
        ["What to fix", *HEADER, "_row"],
        ['Gewicht: "=x" is not a number. Enter a number', *cells, "1:1/2"],
        ["No change needed; listed because the row belongs to A-00001", *cell(1), "1:2/2"],
    ]


def test_both_forms_hold_the_same_rows(tmp_path):
    items = [invalid(n, [("orders", n + 1, cell(n))], in_text(n)) for n in (2, 1)]
    found = a_run(tmp_path, *items, drop=text_drop(), feedback="both")
    assert found.names == ["in.fix.xlsx", "in.fix.csv"]
    assert lines_of(found, "in.fix.csv") == rows(found.book["in"])


def test_workbooks_come_back_as_workbooks_whatever_is_wished_for(tmp_path):
    found = a_run(tmp_path, invalid(1, [("orders", 2, cell(1))], in_book(1)), feedback="csv", fix_rows_max=1)
    assert found.names == ["book.fix.xlsx"]


def test_records_beyond_the_limit_go_on_whole_in_a_text_file(tmp_path):
    items = [invalid(n, [("orders", n, cell(n)), ("orders", n + 50, cell(n))], in_text(n - 1)) for n in (2, 3, 4)]
    found = a_run(tmp_path, *items, drop=text_drop(), fix_rows_max=5)
    assert [line[-1] for line in rows(found.book["in"])[1:]] == ["1:1/2", "2:1/2", "1:2/2", "2:2/2"]
    assert [line[-1] for line in lines_of(found, "in.fix.csv")[1:]] == ["3:1/2", "3:2/2"]
    assert found.book["Read me"]["B6"].value == "More rows to correct are in in.fix.csv, in the same folder."
    assert found.book["Errors"]["G4"].value == 3


def test_a_text_that_no_cell_of_a_workbook_can_hold_comes_back_whole_in_a_text_file(tmp_path):
    long = "x" * 32_768
    found = a_run(tmp_path, invalid(1, [("orders", 2, cell(1, long))], in_text(1)), drop=text_drop())
    assert found.names == ["in.fix.xlsx", "in.fix.csv"]
    csv.field_size_limit(40_000)
    assert lines_of(found, "in.fix.csv")[1][2] == long
    assert rows(found.book["in"])[1:] == []


def test_rows_are_those_that_the_ledger_keeps(tmp_path):
    row = SourceRow("orders", 2, cell(1), ((3, "number", "412.5"),))
    assert a_run(tmp_path, invalid(1, [row], in_book(1))).book["Aufträge"]["E2"].value == 412.5

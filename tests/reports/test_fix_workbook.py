"""Fix files: the rows of every document that was not sent, with what to correct, as a workbook or a text file."""

import csv
from dataclasses import replace
from datetime import datetime, time
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
    weight_problem,
)
from reported_runs import run_begun

from loadsheet.ledger import ColumnGuide, ReadTotals, Settlement, State, Waits
from loadsheet.mapping.documents import RowLinks, SourceRow
from loadsheet.problems import Problem, Where
from loadsheet.reading.number_formats import parse_format, read_number
from loadsheet.reports.fix_workbook import fix_sheets
from loadsheet.workbook_marks import PROPERTY, Mark

BOOK = ("orders", "book.xlsx", "Aufträge")


def cells(number, text="x", weight="412,5"):
    return (f"A-{number:05}", text, "01067", weight, "10")


def rows_of(number, *places, table="orders"):
    return [(table, place, cells(number)) for place in places]


def in_book(number, row=0, sheet="Aufträge", **more):
    row = row or number + 1
    return weight_problem("book.xlsx", row, sheet=sheet, cell=f"D{row}", **more)


def in_text(number, **more):
    return weight_problem("in.csv", number + 1, **more)


def invalid(number, rows, *problems):
    return document("order.create", order(number), rows, *problems)


def fixes(ledger, run, settings):
    """The fix files of a run as it stands: their folder and names, and the first workbook."""
    folder = settings.outbox / run.name
    names = write_fixes(ledger.queries, run, folder, settings)
    book = openpyxl.load_workbook(folder / names[0]) if names and names[0].endswith("xlsx") else None
    return SimpleNamespace(folder=folder, names=names, book=book)


def a_run(tmp_path, *items, drop=None, decide=lambda one: None, **more):
    """The fix files of one drop that was sent."""
    with run_begun(tmp_path, **more) as (ledger, run, settings):
        planned = plan(ledger, run, drop or drop_of(BOOK), items)
        send(ledger, run, decide)
        found = fixes(ledger, run, settings)
    found.drop = planned
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The fix file of one document with two rows, a wrong cell and a warning."""
    at = Where("book.xlsx", "Aufträge", 2, "Wert", "E2")
    warning = Problem("K502", at, "10", {"path": "", "expected": "9"}, level="warning")
    return a_run(tmp_path_factory.mktemp("small"), invalid(1, rows_of(1, 2, 3), in_book(1), warning))


def values(sheet):
    return [[cell.value for cell in line] for line in sheet.iter_rows()]


def rules_of(sheet):
    return {str(one.sqref): one for one in sheet.data_validations.dataValidation}


def test_all_rows_of_every_record_that_was_not_sent_come_back_in_their_own_order_with_their_marks(tmp_path):
    found = a_run(
        tmp_path,
        invalid(
            1,
            [*rows_of(1, 5), *rows_of(1, 9, 3, table="packages")],
            weight_problem("book.xlsx", 9, sheet="Pakete", cell="D9"),
        ),
        invalid(2, [*rows_of(2, 2), *rows_of(2, 4, table="packages")]),
        invalid(3, [*rows_of(3, 3), *rows_of(3, 5, table="packages")]),
        drop=drop_of(BOOK, ("packages", "book.xlsx", "Pakete")),
        decide=lambda one: refused(one, where=Where("book.xlsx", "Aufträge", 2, "PLZ", "C2")) if one.id == 2 else None,
    )
    orders, packages = found.book["Aufträge"], found.book["Pakete"]
    assert values(orders)[0] == ["What to fix", *HEADER, "_row"]
    assert [line[1:] for line in values(orders)[1:]] == [[*cells(2), "2:1/2"], [*cells(1), "1:1/3"]]
    assert [line[-1] for line in values(packages)[1:]] == ["1:2/3", "2:2/2", "1:3/3"]
    assert [line[0] for line in values(orders)[1:]] == [
        "PLZ: The exchange refused it: pickup_pincode is invalid. Correct the value; if it is right, ask the exchange",
        "No change needed; listed because the row belongs to A-00001",
    ]
    assert orders.column_dimensions["G"].hidden
    assert found.book.sheetnames == ["Aufträge", "Pakete", "Errors", "Read me"]


def test_a_refusal_in_words_stands_at_a_row_unless_the_row_has_an_error_of_its_own(tmp_path):
    def refused_in_words(one):
        return Settlement(one.id, State.REFUSED, "the order is too late", "", (), "refused", 400, 38)

    warned = invalid(2, rows_of(2, 3), replace(in_book(2), level="warning"))
    found = a_run(tmp_path, invalid(1, rows_of(1, 2), in_book(1)), warned, decide=refused_in_words)
    text = {line[1]: line[0] for line in values(found.book["Aufträge"])[1:]}
    assert "the order is too late" in text["A-00002"]
    assert "exchange" not in text["A-00001"]


def test_the_workbook_says_whose_rows_it_holds(small):
    assert small.names == ["book.fix.xlsx"]
    mark = Mark.read(small.book.custom_doc_props[PROPERTY].value)
    assert mark == Mark(small.drop.run, small.drop.id, small.drop.mapping_hash[:16], "acme")


def test_wrong_cells_are_red_and_bordered_and_noted_and_warnings_are_not(small):
    sheet = small.book["Aufträge"]
    bad, warned, fine, grey = sheet["E2"], sheet["F2"], sheet["B2"], sheet["B3"]
    assert (bad.border.left.style, bad.border.top.color.rgb, bad.fill.fgColor.rgb) == ("medium", "FFC62828", "FFFBD5D5")
    assert bad.font.b
    assert bad.comment.text == '"zwölf" is not a number. Enter a number [C302]'
    assert (warned.fill.fgColor.rgb, warned.border.left.style) == ("FFFFF1B8", "thin")
    assert "[K502]" in warned.comment.text
    assert fine.fill.fgColor.rgb == "00000000"
    assert (grey.fill.fgColor.rgb, grey.font.i) == ("FFF1F3F5", True)
    assert sheet["A2"].value.split("\n")[1].startswith("Warning: Wert: ")
    assert {one.number_format for one in sheet[2]} == {"@", "General"}  # the sentence wraps, all else is text


def test_only_sheets_that_explain_are_locked_and_rules_guard_headings_and_what_to_fix(small):
    """A sheet with rows is not protected: a pasted cell would be locked, and programs neither sort nor delete a row that has one."""
    sheet, *explaining = small.book.worksheets
    for one in explaining:
        assert (one.protection.sheet, one.protection.password) == (True, None)
        allowed = ("insertRows", "deleteRows", "insertColumns", "sort", "autoFilter", "formatColumns", "formatCells")
        assert not any(getattr(one.protection, name) for name in allowed)  # the file names what is not allowed
    assert not sheet.protection.sheet
    rules = rules_of(sheet)
    for place, error in (("A2:A3", "This column only explains"), ("A1:G1", "Leave the headings as they are")):
        guard = rules[place]
        assert (guard.type, guard.formula1, guard.errorStyle) == ("custom", "FALSE", None)
        assert guard.error.startswith(error)
    assert all(one.protection.locked for line in small.book["Read me"].iter_rows() for one in line if one.value)


def test_a_sheet_prints_one_page_wide_on_a4_with_its_headings_on_every_page(small):
    for sheet in small.book:
        setup = sheet.page_setup
        assert (setup.orientation, int(setup.paperSize), setup.fitToHeight) == ("landscape", 9, 0)
        assert sheet.sheet_properties.pageSetUpPr.fitToPage
    assert [small.book[name].print_title_rows for name in ("Aufträge", "Errors")] == ["$1:$1", "$3:$3"]


def test_a_wide_sheet_prints_over_several_pages_with_its_first_column_on_each(tmp_path):
    """One page wide, 40 columns would be too small to read. What to fix is only on the first page, beside that column."""
    heads = tuple(f"Spalte {number} mit Text" for number in range(40))
    at = Where("book.xlsx", "Aufträge", 2, heads[3], "E2")
    item = invalid(1, [("orders", 2, ("x",) * 40)], Problem("C302", at, "x", {"locale": "de"}))
    sheet = a_run(tmp_path, item, drop=drop_of(BOOK, header=heads)).book["Aufträge"]
    setup = sheet.page_setup
    assert (setup.orientation, int(setup.paperSize), setup.scale) == ("landscape", 9, 70)
    assert (setup.pageOrder, bool(sheet.sheet_properties.pageSetUpPr.fitToPage)) == ("overThenDown", False)
    assert (sheet.print_title_rows, sheet.print_title_cols) == ("$1:$1", "$B:$B")


def test_the_workbook_opens_on_the_first_wrong_cell_with_its_headings_in_view(tmp_path):
    item = invalid(1, [*rows_of(1, 2), *rows_of(1, 2, table="packages")], in_book(1, sheet="Pakete"))
    drop = drop_of(("orders", "book.xlsx", "Kopf"), ("packages", "book.xlsx", "Pakete"))
    sheet = a_run(tmp_path, item, drop=drop).book.active
    assert (sheet.title, sheet.freeze_panes, sheet.auto_filter.ref) == ("Pakete", "C2", "A1:G2")
    assert sheet.sheet_view.selection[-1].activeCell == "E2"
    assert sheet.sheet_properties.tabColor.rgb == "FFC62828"


def test_columns_with_a_list_offer_it_and_say_what_they_take(tmp_path):
    choices = tuple(f"Verpackung Nummer {number}" for number in range(40))  # together beyond what a rule may hold
    guide = {"orders": {"PLZ": ColumnGuide("a postcode", choices, required=True), "Wert": ColumnGuide("a number")}}
    drop = replace(drop_of(BOOK), guide=guide)
    found = a_run(tmp_path, invalid(1, rows_of(1, 2), in_book(1)), drop=drop)
    offered = rules_of(found.book["Aufträge"])
    rule = offered["D2:D202"]
    assert (rule.type, rule.formula1, rule.errorStyle) == ("list", "Lists!$A$1:$A$40", "warning")
    assert rule.prompt == "A postcode. Must be filled in. Choose from the list, or type."
    assert offered["F2:F202"].prompt == "A number"
    lists = found.book["Lists"]
    assert lists.sheet_state == "hidden"
    assert [line[0] for line in values(lists)] == list(choices)


def test_errors_are_folded_with_links_to_the_cells_and_what_was_probably_meant(tmp_path):
    items = [invalid(n, rows_of(n, n + 1), in_book(n, found="EUX", hint="did you mean EUP?")) for n in range(1, 8)]
    items.append(invalid(8, rows_of(8, 9), replace(in_book(8), code="C303")))
    sheet = a_run(tmp_path / "one", *items).book["Errors"]
    assert sheet["A1"].value == "8 problems of 2 kinds in 8 records."
    first = dict(zip([one.value for one in sheet[3]], sheet[4], strict=True))
    assert first["Where"].hyperlink.location == "Aufträge!E2"
    assert {head: one.value for head, one in first.items()} == {
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
    assert [line[6] for line in values(sheet)[3:]] == [7, 1]
    other = Problem("C301", Where("book.xlsx", "Aufträge", 9, "PLZ", "C9"))
    sheet = a_run(tmp_path / "two", *items[:3], invalid(8, rows_of(8, 9), other)).book["Errors"]
    text = "4 problems of 2 kinds in 4 records. Correcting the column “Gewicht” clears 3 of them."
    assert sheet["A1"].value == text


def test_a_sheet_in_german_is_answered_in_german(tmp_path):
    """Sheets that are called like ours keep their names."""
    drop = replace(
        drop_of(BOOK, ("packages", "book.xlsx", "Bitte Lesen"), ("more", "book.xlsx", "Fehler")), language="de"
    )
    rows = [*rows_of(1, 2), *rows_of(1, 2, table="packages"), *rows_of(1, 2, table="more")]
    book = a_run(tmp_path, invalid(1, rows, in_book(1)), drop=drop).book
    assert book.sheetnames == ["Aufträge", "Bitte Lesen", "Fehler", "Fehler 2", "Bitte lesen 2"]
    assert book["Aufträge"]["A1"].value == "Was zu ändern ist"
    assert book["Aufträge"]["A2"].value == "Gewicht: „zwölf“ ist keine Zahl. Geben Sie eine Zahl ein"
    assert book["Bitte lesen 2"]["B3"].value.startswith("Korrigieren Sie die roten Zellen auf „Aufträge“")


@pytest.mark.parametrize("language", ["", "nl"])
def test_a_sheet_without_language_is_answered_in_that_of_the_settings(tmp_path, language):
    """The guide of a mapping in another language gives its lists only."""
    guide = {"orders": {"PLZ": ColumnGuide("a postcode", ("1", "2"))}}
    drop = replace(drop_of(BOOK), guide=guide, language=language)
    book = a_run(tmp_path, invalid(1, rows_of(1, 2), in_book(1)), drop=drop, language="de").book
    assert "Fehler" in book.sheetnames
    (rule,) = (one for one in rules_of(book["Aufträge"]).values() if one.type == "list")
    prompt = "Wählen Sie einen Wert aus der Liste, oder geben Sie ihn ein."
    assert (rule.formula1, rule.prompt) == ("Lists!$A$1:$A$2", prompt)


@pytest.mark.parametrize(
    ("native", "cell", "expected"),
    [
        (("number", "9.95"), "9.95", (9.95, "General")),
        (("number", "1067"), "01067", (1067.0, "00000")),
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
        (("number", "-27"), "(27 lb)", (-27.0, 'General;"("General" lb)"')),
        (("number", "100"), "$100", (100.0, '"$"General')),
        (("number", "-100.5"), "-100.5 €", (-100.5, 'General" €"')),
        (("number", "-5"), "-$5", (-5.0, 'General;"-$"General')),
        (("number", "-5"), "($5)", (-5.0, 'General;"($"General")"')),
        (("number", "12345678901234567"), "12345678901234567", ("12345678901234567", "@")),
        (("number", "0.1234567890123456789"), "0.1234567890123456789", ("0.1234567890123456789", "@")),
        (("number", "-5"), "-5", (-5.0, "General")),
        (("date", "2026-03-04"), "x", (datetime(2026, 3, 4), "yyyy-mm-dd")),
        (("date", "1899-12-31"), "1899-12-31", ("1899-12-31", "@")),
        (("datetime", "2026-03-04 08:15:00"), "x", (datetime(2026, 3, 4, 8, 15), "yyyy-mm-dd hh:mm")),
        (("time", "08:15:00"), "x", (time(8, 15), "hh:mm")),
        (("time", "08:15:30"), "x", (time(8, 15, 30), "hh:mm:ss")),
        (("time", "24:00:00"), "x", (1.0, "[h]:mm")),
        (("flag", "false"), "false", (False, "General")),
    ],
)
def test_a_native_cell_has_its_value_and_format_where_that_is_exact(native, cell, expected):
    assert fix_sheets.native_value(cell, native, "yyyy-mm-dd") == expected
    if native[0] == "number" and expected[1] != "@":
        assert read_number(native[1], parse_format(expected[1]), from_1904=False).displayed == cell


def test_a_number_in_the_file_is_a_number_in_the_fix_file(tmp_path):
    row = SourceRow("orders", 2, cells(1), ((3, "number", "412.5"),))
    assert a_run(tmp_path, invalid(1, [row], in_book(1))).book["Aufträge"]["E2"].value == 412.5


def test_a_number_with_a_wrong_unit_is_a_text_so_that_what_is_typed_over_it_has_none(tmp_path):
    row = SourceRow("orders", 2, cells(1, weight="USD 412.5"), ((3, "number", "412.5"), (4, "number", "10")))
    problem = replace(in_book(1), code="C307", found="USD 412.5", values={"expected": "an amount in EUR"})
    sheet = a_run(tmp_path, invalid(1, [row], problem)).book["Aufträge"]
    assert [(cell.value, cell.number_format) for cell in (sheet["E2"], sheet["F2"])] == [
        ("USD 412.5", "@"),
        (10, "General"),
    ]


@pytest.mark.parametrize("code", ["L609", "L611", "X702"])
def test_what_only_an_operator_can_decide_is_not_sent_back(tmp_path, code):
    def hold(ledger, run):
        (one,) = ledger.ready(9)
        details = {"count": "3", "text": "no", "invalid": "2", "limit": "1 %", "key": one.key}
        ledger.settle(run, [Settlement(one.id, State.HELD, "held", problems=(Problem(code, values=details),))])

    with run_begun(tmp_path / "alone") as (ledger, run, settings):
        plan(ledger, run, drop_of(BOOK), [invalid(1, rows_of(1, 2))])
        hold(ledger, run)
        assert fixes(ledger, run, settings).names == []
    with run_begun(tmp_path / "beside") as (ledger, run, settings):
        plan(ledger, run, drop_of(BOOK), [invalid(1, rows_of(1, 2), in_book(1)), invalid(2, rows_of(2, 3))])
        hold(ledger, run)
        book = fixes(ledger, run, settings).book
    assert [line[-1] for line in values(book["Aufträge"])[1:]] == ["1:1/1"]
    assert book["Read me"]["B6"].value.startswith("1 more record waits for another record or for a decision")


def test_a_document_that_waits_for_another_is_not_sent_back_and_a_change_of_an_accepted_one_is(tmp_path):
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "a.csv"), mapping="a"), [invalid(1, rows_of(1, 2))])
        send(ledger, run)
        again = document("order.create", order(1, delivery_city="Köln"), [("orders", 2, cells(1, "neu"))])
        plan(ledger, run, drop_of(("orders", "b.csv"), mapping="b"), [again])
        child = document("order.status", {"order_id": "A-7", "status_code": "x"}, rows_of(7, 2))
        plan(ledger, run, drop_of(("orders", "c.csv"), mapping="c"), [child], seen=False)
        (entry,) = ledger.queries.entries_by_key("A-7")
        ledger.settle(run, [Settlement(entry.id, State.HELD, "waits", waits=Waits.PARENT)])
        found = fixes(ledger, run, settings)
        assert found.names == ["b.fix.xlsx"]
        assert found.book["b"]["A2"].value.startswith("The exchange already has A-00001, with other values: ")


@pytest.mark.parametrize("decide", [lambda _: None, unknown], ids=["accepted", "outcome unknown"])
def test_a_drop_with_nothing_to_fix_gets_no_fix_file(tmp_path, decide):
    assert a_run(tmp_path, invalid(1, rows_of(1, 2)), invalid(2, rows_of(2, 3)), decide=decide).names == []


def test_a_row_that_several_records_share_is_there_once_with_the_remarks_of_both(tmp_path):
    (shared,) = rows_of(1, 2)
    one = invalid(1, [shared, *rows_of(1, 3)], in_book(1, row=2))
    two = replace(invalid(2, [shared, *rows_of(2, 4)], in_book(2, row=2, found="drei")), links=RowLinks(shared=(0,)))
    with run_begun(tmp_path) as (ledger, run, settings):
        ledger.plan(run, drop_of(BOOK), {}, [one, two, ReadTotals({"orders": 3})])
        lines = values(fixes(ledger, run, settings).book["Aufträge"])[1:]
    assert [line[-1] for line in lines] == ["1:1/2", "1:2/2", "2:1/1"]
    assert lines[0][0].count("is not a number") == 2


def test_notes_are_limited_and_the_errors_sheet_counts_on(tmp_path, monkeypatch):
    monkeypatch.setattr(fix_sheets, "NOTES_MOST", 20)
    book = a_run(tmp_path, *(invalid(n, rows_of(n, n + 1), in_book(n)) for n in range(1, 31))).book
    assert sum(one.comment is not None for one in book["Aufträge"]["E"]) == 20
    assert book["Errors"]["G4"].value == 30


# ---- text files ----


def lines_of(found, name, encoding="utf-8"):
    with (found.folder / name).open(newline="", encoding=encoding) as file:
        return list(csv.reader(file, delimiter=";"))


def text_drop(encoding="UTF-8"):
    drop = drop_of(("orders", "in.csv"))
    return replace(
        drop, tables=(replace(drop.tables[0], reading_notes={"encoding": encoding, "delimiter": "semicolon"}),)
    )


def test_text_files_come_back_as_text_on_wish_written_as_they_were(tmp_path):
    row = ("A-00001", '=1+1;\n"x"', "01067", "-5", "Müller")
    item = invalid(1, [("orders", 2, row), *rows_of(1, 3)], in_text(1, found="=x"))
    found = a_run(tmp_path, item, drop=text_drop(encoding="CP1252"), feedback="csv")
    assert found.names == ["in.fix.csv"]
    assert lines_of(found, "in.fix.csv", encoding="cp1252") == [
        ["What to fix", *HEADER, "_row"],
        ['Gewicht: "=x" is not a number. Enter a number', *row, "1:1/2"],
        ["No change needed; listed because the row belongs to A-00001", *cells(1), "1:2/2"],
    ]


def test_both_forms_hold_the_same_rows(tmp_path):
    items = [invalid(n, rows_of(n, n + 1), in_text(n)) for n in (2, 1)]
    found = a_run(tmp_path, *items, drop=text_drop(), feedback="both")
    assert found.names == ["in.fix.xlsx", "in.fix.csv"]
    assert lines_of(found, "in.fix.csv") == values(found.book["in"])


def test_workbooks_come_back_as_workbooks_whatever_the_settings_wish(tmp_path):
    found = a_run(tmp_path, invalid(1, rows_of(1, 2), in_book(1)), feedback="csv", fix_rows_max=1)
    assert found.names == ["book.fix.xlsx"]


def test_records_beyond_the_limit_go_on_whole_in_a_text_file(tmp_path):
    items = [invalid(n, rows_of(n, n, n + 50), in_text(n - 1)) for n in (2, 3, 4)]
    found = a_run(tmp_path, *items, drop=text_drop(), fix_rows_max=4)
    assert [line[-1] for line in values(found.book["in"])[1:]] == ["1:1/2", "2:1/2", "1:2/2", "2:2/2"]
    assert [line[-1] for line in lines_of(found, "in.fix.csv")[1:]] == ["3:1/2", "3:2/2"]
    assert found.book["Read me"]["B6"].value == "More rows to correct are in in.fix.csv, in the same folder."
    assert found.book["Errors"]["G4"].value == 3


def test_a_text_that_no_cell_of_a_workbook_can_hold_comes_back_whole_in_a_text_file(tmp_path):
    long = "x" * 32_768
    found = a_run(tmp_path, invalid(1, [("orders", 2, cells(1, long))], in_text(1)), drop=text_drop())
    assert found.names == ["in.fix.xlsx", "in.fix.csv"]
    csv.field_size_limit(40_000)
    assert lines_of(found, "in.fix.csv")[1][2] == long
    assert values(found.book["in"])[1:] == []

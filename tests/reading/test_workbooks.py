"""The same sheet saved in every format gives the same cells; what a format has of its own is read as its sender sees it."""

import datetime as dt
import re
import struct
from dataclasses import replace
from xml.sax.saxutils import escape

import pytest
import python_calamine
import xlwt
from openpyxl import load_workbook
from reading_corpus import (
    cells_of,
    inline,
    layout,
    open_one,
    refusal,
    rows_of,
    text_file,
    wanted,
    workbook_parts,
    write_parts,
)
from reading_writers import (
    DATA_STYLES,
    ERROR_CODES,
    WRITERS,
    Sheet,
    Typed,
    error,
    ods_parts,
    record,
    wide,
    write_ods,
    write_xlsb,
    xlsb_parts,
)

from loadsheet.errors import FileRefused
from loadsheet.reading import Layout, Native, open_tables
from loadsheet.reading.damage_checks import DamageChecks
from loadsheet.reading.tables import RowFilters
from loadsheet.settings import Settings

ASKED = layout("Id", "City", optional=("City",))
HEAD = ["Id", "City"]
WEEK_10, WEEK_11 = Sheet([HEAD, ["A1", "Ulm"]], "Week 10"), Sheet([["Orders"], HEAD, ["A2", "Bonn"]], "Week 11")
DAY = 46_082  # 1 March 2026
FROM_1904 = 1_462
VALUES = {  # what is written: what is read, its kind, what is shown
    "a text": ("ABC", "ABC", None, None),
    "digits as text": ("00123", "00123", None, None),
    "blanks around": ("  a  b ", "  a  b ", None, None),
    "two lines": ("a\nb", "a\nb", None, None),
    "a tab": ("a\tb", "a\tb", None, None),
    "an escape that is none": ("_x41_ & <b>", "_x41_ & <b>", None, None),
    "far letters": ("東京 Ærø é", "東京 Ærø é", None, None),
    "a whole number": (Typed(1), "1", "number", "1"),
    "a long id": (Typed(123456789012345), "123456789012345", "number", "123456789012345"),
    "a negative number": (Typed(-70000), "-70000", "number", "-70000"),
    "a decimal id": (Typed(1447296446.7), "1447296446.7", "number", "1447296446.7"),
    "a small number": (Typed(1e-7), "0.0000001", "number", "0.0000001"),
    "all digits": (Typed(0.1234567890123456), "0.1234567890123456", "number", "0.1234567890123456"),
    "a zero by format": (Typed(7, "00"), "7", "number", "07"),
    "zeros by format": (Typed(1067, "00000"), "1067", "number", "01067"),
    "zeros and a dash by format": (Typed(12345678, "00000-0000"), "12345678", "number", "01234-5678"),
    "zeros and two dashes by format": (Typed(12345678, "000-0000-000"), "12345678", "number", "001-2345-678"),
    "zeros between texts by format": (Typed(12, '"D-"00000" x"'), "12", "number", "D-00012 x"),
    "a unit by format": (Typed(27.25, '0.0" lb"'), "27.25", "number", "27.25 lb"),
    "a unit by format for small ones": (Typed(950, '[>=1000]0.0," t";0" kg"'), "950", "number", "950 kg"),
    "a unit by format for large ones": (Typed(1500, '[>=1000]0.0," t";0" kg"'), "1500", "number", "1.5 t"),
    "money": (Typed(1234.5, "#,##0.00"), "1234.5", "number", "1234.5"),
    "per cent": (Typed(25, "00%"), "25", "number", "25"),
    "a date": (Typed(DAY, "yyyy-mm-dd"), "2026-03-01", "date", "2026-03-01"),
    "a date with time": (Typed(DAY + 0.354166667, "yyyy-mm-dd hh:mm"), "2026-03-01 08:30:00", "datetime", "2026-03-01 08:30:00"),
    "midnight": (Typed(DAY, "yyyy-mm-dd hh:mm"), "2026-03-01 00:00:00", "datetime", "2026-03-01 00:00:00"),
    "a time": (Typed(0.354166667, "hh:mm:ss"), "08:30:00", "time", "08:30:00"),
    "a duration": (Typed(1.25, "[h]:mm:ss"), "1.25", "number", "30:00:00"),
    "a short duration": (Typed(0.125, "[h]:mm:ss"), "03:00:00", "time", "03:00:00"),
    "the end of a day": (Typed(1, "[h]:mm:ss"), "24:00:00", "time", "24:00:00"),
    "yes": (Typed(value=True), "true", "flag", "true"),
    "no": (Typed(value=False), "false", "flag", "false"),
    **{text: (error(text), text, "error", text) for text in ERROR_CODES},
}  # fmt: skip


def written(folder, *sheets, form="xlsx", **more):
    return WRITERS[form](folder / f"a.{form}", list(sheets), **more)


def described(cell):
    return (str(cell), cell.kind, cell.without_currency) if isinstance(cell, Native) else (cell, None, None)


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("from_1904", [False, True])
def test_every_format_gives_the_same_cells(tmp_path, form, from_1904):
    def moved(cell):
        shift = FROM_1904 if from_1904 and isinstance(cell, Typed) and "y" in cell.code else 0
        return Typed(cell.value - shift, cell.code) if shift else cell

    rows = [HEAD, *([name, moved(value[0])] for name, value in VALUES.items())]
    path = written(tmp_path, Sheet(rows), form=form, from_1904=from_1904)
    read = {row[0]: described(row[1]) for row in cells_of(path, ASKED)}
    assert read == {name: value[1:] for name, value in VALUES.items()}


@pytest.mark.parametrize("form", WRITERS)
def test_the_currency_of_a_format_is_kept_beside_the_text(tmp_path, form):
    codes = {"[$USD] #,##0.00": "USD 1234.5", '#,##0.00\\ "€";-#,##0.00\\ "€"': "1234.5 €"}
    rows = [HEAD, *([shown, Typed(1234.5, code)] for code, shown in codes.items())]
    rows.append(["-1234.5 €", Typed(-1234.5, list(codes)[-1])])
    found = list(open_one(written(tmp_path, Sheet(rows), form=form), ASKED).rows())
    assert [(row.cells[1].without_currency.removeprefix("-"), row.shown) for row in found] == [
        ("1234.5", (shown, shown)) for shown in [*codes.values(), "-1234.5 €"]
    ]


@pytest.mark.parametrize("form", WRITERS)
def test_gaps_rows_and_addresses_are_the_same_in_every_format(tmp_path, form):
    head, first, last = ["Id", "City", "More"], ["A1", None, Typed(3)], [None, None, None, "surplus"]
    rows = [[None, "a title"], [], head, first, ["", "  "], [None, "x"], last]
    table = open_one(written(tmp_path, Sheet(rows), form=form), ASKED)
    assert (table.header, table.header_row) == (tuple(head), 3)
    read = list(table.rows())
    assert [(row.number, row.cells) for row in read[:2]] == [(4, ("A1", "", "3")), (6, ("", "x", ""))]
    assert (read[2].number, read[2].problem.code) == (7, "R205")
    assert str(table.where(4, 1)) == f"a.{form}:Data!B4"
    assert table.where(4, 1).column == "City"


@pytest.mark.parametrize("form", WRITERS)
def test_a_legend_beside_the_table_is_named_and_refuses_no_row(tmp_path, form):
    head = ["Id", "City"]
    rows = [
        head,
        ["A1", "Ulm", None, "Legend"],
        ["A2", "Bonn", None, None, Typed(7, "00000")],
        [],
        [None, None, None, "x"],
    ]
    table = open_one(written(tmp_path, Sheet(rows), form=form), ASKED)
    checks = DamageChecks(table)
    read = list(checks.watch(table.rows()))
    assert [(row.number, row.cells, row.problem, row.ignored) for row in read] == [
        (2, ("A1", "Ulm"), None, ""),
        (3, ("A2", "Bonn"), None, ""),
        (5, ("", ""), None, "cells beside the table"),
    ]
    assert [row.beside for row in read] == [(3, "Legend"), (4, "00007"), (3, "x")]
    (warning,) = checks.problems()
    assert (warning.code, warning.level, warning.where.cell, warning.found) == ("R247", "warning", "D2", "Legend")
    assert warning.values == {"count": 3, "rows": "rows 2, 3, 5"}


def test_a_row_that_holds_only_a_legend_ends_a_table_like_a_blank_one(tmp_path):
    rows = [HEAD, ["A1", "Ulm"], [None, None, None, "in red"], ["Total", "2"]]
    ends = layout(*HEAD, row_filters=RowFilters(stop_at_blank=True))
    found = {row.number: row.ignored for row in rows_of(written(tmp_path, Sheet(rows)), ends)}
    assert found == {2: "", 3: "cells beside the table", 4: "stop_at_blank: below row 2"}


@pytest.mark.parametrize("form", WRITERS)
def test_what_is_hidden_or_merged_is_read_and_reported_in_every_format(tmp_path, form):
    rows = [["Id", "Value", "More"], ["A1", "m", None], ["A2", None, "z"], [None, None, None]]
    merged = ((1, 1, 2, 1), (2, 2, 2, 2)) if form == "xls" else ((1, 1, 2, 1),)  # old programs merge single cells
    sheet = Sheet(rows, hidden_rows=(2, 3), hidden_columns=(2,), merged=merged, filtered=form != "xls")
    cover = Sheet([["About"]], "Cover")
    secret = Sheet([HEAD, ["X", "Y"]], "Secret", hidden=True)
    path = written(tmp_path, *([secret, cover, sheet] if form == "ods" else [cover, secret, sheet]), form=form)
    table = open_one(path, ASKED)
    assert (table.sheet, [list(row.cells) for row in table.rows()]) == ("Data", [["A1", "m", ""], ["A2", "", "z"]])
    assert table.reading_notes["hidden sheets"] == "1 (Secret)"
    assert table.reading_notes["hidden rows"] == "1 (read)", "the other one is blank"
    assert table.reading_notes["hidden columns"] == "1 (read): C"
    assert table.reading_notes["merged cells"].startswith("1 ")
    filters = {
        "xlsx": "A1:C4 (all rows are read)",
        "xlsb": "A1:C4 (all rows are read)",
        "ods": "on (all rows are read)",
    }
    assert table.reading_notes.get("filter") == filters.get(form)
    assert cells_of(path, layout("Id", sheets=("secret",))) == [["X", "Y"]]


@pytest.mark.parametrize("form", WRITERS)
def test_what_is_hidden_is_ignored_and_counted_where_the_mapping_says_so(tmp_path, form):
    rows = [["Id", "More", "Value", "More"], *([f"A{number}", "old", "x", "new"] for number in range(1, 8))]
    path = written(tmp_path, Sheet(rows, hidden_rows=(2, 3, 6), hidden_columns=(1,)), form=form)
    asked = replace(
        layout("Id", "Value", "More"), row_filters=RowFilters(hidden_rows="ignore", hidden_columns="ignore")
    )
    table = open_one(path, asked)
    assert table.columns == {"Id": 0, "Value": 2, "More": 3}  # read like the rest, More would stand there twice
    fates = {row.cells[0]: row.ignored for row in table.rows()}
    assert fates == {f"A{n}": "hidden_rows: ignore" if n in (2, 3, 6) else "" for n in range(1, 8)}
    assert (table.reading_notes["hidden rows"], table.reading_notes["hidden columns"]) == (
        "3 (ignored)",
        "1 (ignored): B",
    )
    assert "filter" not in table.reading_notes


@pytest.mark.parametrize("form", WRITERS)
def test_the_second_reader_agrees_where_it_is_exact(tmp_path, form):
    rows = [["Id", "Text", "Number", "Flag", "Day"]]
    for n in range(1, 40):
        day = Typed(DAY + n + 0.25, "yyyy-mm-dd hh:mm")
        rows.append([f"A{n}", f"text {n} ü", Typed(n * 1.5), Typed(n % 2 == 0), day])
    path = written(tmp_path, Sheet(rows), form=form)
    theirs = python_calamine.CalamineWorkbook.from_path(str(path)).get_sheet_by_name("Data").to_python()
    kinds = {"number": float, "flag": "true".__eq__, "datetime": dt.datetime.fromisoformat, None: str}
    ours = [[kinds[getattr(cell, "kind", None)](cell) for cell in row] for row in cells_of(path, ASKED)]
    assert ours == theirs[1 : len(ours) + 1]


@pytest.mark.parametrize("form", [*(form for form in WRITERS if form != "ods"), "csv"])  # .ods has paragraphs
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "_x000D_\n"])
def test_line_ends_within_a_cell_are_line_feeds_whoever_saved_the_file(tmp_path, form, end):
    path, plain = tmp_path / f"a.{form}", end.replace("_x000D_", "\r")
    if form == "csv":
        path.write_bytes(f'Id,City{plain}A1,"Ulm{plain}West"{plain}'.encode())
    elif form == "xlsx":
        stored = f"Ulm{escape(end).replace(chr(13), '_x000D_')}West"
        write_parts(path, workbook_parts(inline(*HEAD, number=1) + inline("A1", stored, number=2)))
    else:
        WRITERS[form](path, [Sheet([HEAD, ["A1", f"Ulm{plain}West"]])])
    assert cells_of(path, ASKED) == [["A1", "Ulm\nWest"]]


def test_an_empty_sheet_or_no_sheet_is_refused_in_every_format_and_a_header_alone_is_an_empty_table(tmp_path):
    for form in WRITERS:
        assert refusal(written(tmp_path, Sheet([]), form=form), ASKED).code == "R202"
        assert rows_of(written(tmp_path, Sheet([HEAD]), form=form), ASKED) == []
    assert "without a sheet" in refusal(write_ods(tmp_path / "none.ods", []), ASKED).text


# ---- which sheet is read ----


@pytest.mark.parametrize("form", WRITERS)
def test_two_sheets_that_hold_the_table_are_refused_unless_one_is_named(tmp_path, form):
    path = written(tmp_path, Sheet([["About"]], "Cover"), WEEK_10, WEEK_11, form=form)
    problem = refusal(path, ASKED)
    assert (problem.code, problem.values["sheets"]) == ("R238", "Week 10, Week 11")
    assert "name the one that is in the mapping" in problem.hint
    assert open_one(path, layout("Id", sheets=("Week 11",))).sheet == "Week 11"


TOTALS = layout("Id", "City", optional=("City",), row_filters=RowFilters(totals=("total",)))
WEIGHT = layout("Id", "City", "Weight", optional=("City", "Weight"))
GUIDE = Sheet([["Id", "required", "the number of the order"], ["City", "optional", ""]], "Guide")
BOTH = "Week 10, Week 11"
SHEETS = {  # the sheets of a workbook, what is asked for, and which is read or, of several, is refused
    "a header without rows": ((WEEK_10, Sheet([HEAD], "Week 12")), TOTALS, "Week 10"),
    "units and totals alone": ((WEEK_10, Sheet([HEAD, ["(no.)", "(name)"], ["total", "2"]], "Sums")), TOTALS, "Week 10"),
    "other columns": ((WEEK_10, Sheet([["City", "Count"], ["Ulm", "2"]], "Cities")), TOTALS, "Week 10"),
    "a summary": ((WEEK_10, Sheet([["Id", "Orders"], ["A1", Typed(3)]], "Summary")), TOTALS, "Week 10"),
    "a hidden sheet": ((WEEK_10, Sheet([HEAD, ["A9", "Trier"]], "Old", hidden=True)), TOTALS, "Week 10"),
    "a header too far down": ((WEEK_10, Sheet([*[["note"]] * 60, HEAD, ["A9", "Trier"]], "Deep")), TOTALS, "Week 10"),
    "a page that explains the only column": ((WEEK_10, GUIDE), layout("Id"), "Week 10"),
    "the most columns where none is required": (
        (WEEK_10, Sheet([["City"], ["Ulm"]], "Cities")), layout("Id", "City", optional=("Id", "City")), "Week 10"),
    "the same labels": ((WEEK_10, GUIDE, WEEK_11), layout("Id"), BOTH),
    "the first one empty": ((Sheet([HEAD], "Week 10"), WEEK_11), ASKED, BOTH),
    "a column that one of them lacks": ((Sheet([[*HEAD, "Weight"], ["A1", "Ulm", "5"]], "Week 10"), WEEK_11), WEIGHT, BOTH),
}  # fmt: skip


@pytest.mark.parametrize("case", SHEETS)
def test_the_one_sheet_that_holds_the_table_is_read_and_of_several_none(tmp_path, case):
    sheets, asked, expected = SHEETS[case]
    path = written(tmp_path, *sheets)
    if expected == BOTH:
        assert refusal(path, asked).values["sheets"] == BOTH
    else:
        assert open_one(path, asked).sheet == expected


def sheets_read(path, asked, *titles):
    """The keys of the rows of each sheet that these names stand for, by the name of its table."""
    tables = open_tables(path, path.name, [replace(asked, sheets=titles)], Settings(reading_process="none"))
    return {name: [row.cells[0] for row in table.rows() if not row.ignored] for name, table in tables.items()}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize(
    ("titles", "expected"),
    {
        ("*",): ["Week 10", "Week 11", "2026"],
        ("week*",): ["Week 10", "Week 11"],
        ("*1*",): ["Week 10", "Week 11"],
        ("Orders", "20*"): ["2026"],
        ("W*k", "2026", "*"): ["2026"],
    }.items(),
    ids=str,
)
def test_a_name_with_a_star_reads_every_sheet_that_fits_and_has_the_table(tmp_path, form, titles, expected):
    others = Sheet([["Id of the orders"]], "1 Cover"), Sheet([HEAD, ["A9", "Trier"]], "Week 9", hidden=True)
    path = written(tmp_path, *others, WEEK_10, WEEK_11, Sheet([["City", "Id"], ["Köln", "A3"]], "2026"), form=form)
    keys = {"Week 10": ["A1"], "Week 11": ["A2"], "2026": ["Köln"]}  # the cells of each sheet stay in its own order
    assert sheets_read(path, ASKED, *titles) == {f"rows [{title}]": keys[title] for title in expected}


@pytest.mark.parametrize("case", SHEETS)
def test_of_several_sheets_those_with_rows_of_the_table_are_read(tmp_path, case):
    sheets, asked, expected = SHEETS[case]
    found = sheets_read(written(tmp_path, *sheets), asked, "*")
    filled = [title for title in expected.split(", ") if case != "the first one empty" or title == "Week 11"]
    assert [name for name, rows in found.items() if rows] == [f"rows [{title}]" for title in filled]


def test_sheets_that_are_damaged_or_repeat_a_heading_refuse_the_workbook(tmp_path):
    several = replace(ASKED, sheets=("*",))
    assert (
        refusal(written(tmp_path, WEEK_10, Sheet([[*HEAD, "Id"], ["A9", "Trier", "A8"]], "Week 12")), several).code
        == "R211"
    )
    twins = write_ods(tmp_path / "twins.ods", [WEEK_10, WEEK_10])
    assert "two of its sheets are named Week 10" in refusal(twins, several).text


def test_only_headers_are_a_table_without_rows(tmp_path):
    path = written(tmp_path, Sheet([HEAD], "Jan"), Sheet([HEAD], "Feb"))
    assert sheets_read(path, ASKED, "*") == {"rows [Jan]": []}


def test_a_workbook_whose_sheets_are_all_hidden_is_refused_by_saying_so(tmp_path):
    parts = workbook_parts(inline("Id", number=1), sheets=(("Week 10", "hidden"), ("Week 11", "veryHidden")))
    problem = refusal(write_parts(tmp_path / "a.xlsx", parts), ASKED)
    assert problem.text == "the file cannot be read: all its sheets are hidden: Week 10, Week 11"
    assert problem.hint == "unhide the sheet that holds the table, or name it in the mapping (sheet: ...)"


def test_a_sheet_that_another_table_is_read_from_is_not_lost(tmp_path):
    path = written(tmp_path, WEEK_10, Sheet([["Id", "Kind"], ["A1", "PAL"]], "Packages"))
    layouts = [ASKED, Layout("packages", wanted("Id", "Kind"))]
    tables = open_tables(path, "a.xlsx", layouts, Settings())
    assert {name: table.sheet for name, table in tables.items()} == {"rows": "Week 10", "packages": "Packages"}
    path = written(tmp_path, WEEK_10, WEEK_11, Sheet([["Id", "Kind"], ["A1", "PAL"]], "Packages"))
    with pytest.raises(FileRefused, match=r"R238.*: Week 10, Week 11 "):
        open_tables(path, "a.xlsx", layouts, Settings())


# ---- .xls and .xlsb ----


def test_formulas_of_an_xls_that_show_nothing_are_counted(tmp_path):
    book = xlwt.Workbook()
    page = book.add_sheet("Data")
    for row, (first, second) in enumerate([HEAD, ("A1", xlwt.Formula("1+1")), ("A2", xlwt.Formula("1+1"))]):
        page.write(row, 0, first)
        page.write(row, 1, second)  # saved without its value, as some programs do
    page.write(3, 0, "A3")
    page.write(3, 1, "", xlwt.easyxf("font: bold on"))  # blank
    book.save(str(tmp_path / "a.xls"))
    table = open_one(tmp_path / "a.xls", ASKED)
    assert [list(row.cells) for row in table.rows()] == [["A1", ""], ["A2", ""], ["A3", ""]]
    assert table.reading_notes["formulas that show nothing"].startswith(
        "2 (if they should show something, open the file"
    )
    assert (
        "formulas that show nothing" not in open_one(written(tmp_path, Sheet([HEAD]), form="xls"), ASKED).reading_notes
    )


@pytest.mark.parametrize("form", WRITERS)
def test_a_workbook_of_many_texts_spans_its_records(tmp_path, form):
    rows = [HEAD, *([f"A{number}", f"{'ü東' * 50} {number}"] for number in range(400))]
    assert cells_of(written(tmp_path, Sheet(rows), form=form), ASKED) == rows[1:]


def biff5(kind, content=b""):
    return struct.pack("<HH", kind, len(content)) + content


def test_an_xls_of_excel_5_is_read_in_its_code_page(tmp_path):
    def begin(kind):
        return biff5(0x809, struct.pack("<HHHH", 0x500, kind, 0x12AF, 1995))

    page = begin(0x10) + biff5(0x9B)
    for row, text in enumerate((b"Id", "Käse".encode("cp1252"))):
        page += biff5(0x204, struct.pack("<HHHH", row, 0, 0, len(text)) + text)
    page += biff5(0x203, struct.pack("<HHHd", 2, 0, 0, 1447296446.7))
    page += biff5(0x205, struct.pack("<HHHBB", 3, 0, 0, 42, 1)) + biff5(0x0A)
    book = begin(0x05) + biff5(0x42, struct.pack("<H", 1252)) + biff5(0xE0, bytes(16))
    offset = len(book) + 4 + 6 + 1 + 4 + 4
    book += biff5(0x85, struct.pack("<iBBB", offset, 0, 0, 4) + b"Data") + biff5(0x0A) + page
    read = cells_of(text_file(tmp_path, book, "a.xls"), ASKED)
    assert [described(cell) for (cell,) in read] == [
        ("Käse", None, None),
        ("1447296446.7", "number", "1447296446.7"),
        ("#N/A", "error", "#N/A"),
    ]
    assert open_one(tmp_path / "a.xls", ASKED).reading_notes["filter"] == "on (all rows are read)"


RK = {162: "40", 167: "0.41", 0x3FF80000: "1.5", 0x40590001: "1", 0xFFFFFFFE: "-1"}  # numbers in 32 bits


def test_texts_and_short_cells_of_an_xlsb_are_cells_too(tmp_path):
    rows = [Sheet([HEAD, ["A1", "x"]])]
    assert cells_of(write_xlsb(tmp_path / "inline.xlsb", rows, shared=False), ASKED) == [["A1", "x"]]
    cells = [  # a record, and what it shows; those without a column stand beside the one before
        (record(18, struct.pack("<II", 0, 17)), "A1"),
        (record(16, struct.pack("<Id", 0, 2.5)), "2.5"),
        (record(12, struct.pack("<I", 0)), ""),
        (record(17, struct.pack("<I", 0) + wide("short")), "short"),
        *((record(13, struct.pack("<II", 0, bits)), shown) for bits, shown in RK.items()),
        (record(14, struct.pack("<IB", 0, 0x2A)), "#N/A"),
        (record(15, struct.pack("<IB", 0, 1)), "true"),
        (record(1, struct.pack("<II", 11, 0)), ""),
        (record(8, struct.pack("<II", 12, 0) + wide("made")), "made"),
        (record(9, struct.pack("<IId", 13, 0, 0.5)), "0.5"),
        (record(10, struct.pack("<IIB", 14, 0, 0)), "false"),
        (record(11, struct.pack("<IIB", 15, 0, 0)), "#NULL!"),
        (record(62, struct.pack("<IIB", 16, 0, 0) + wide("rich")), "rich"),
    ]
    head, begin = [*HEAD, *"ABCDEFGHIJKLMNO"], record(0, struct.pack("<IIHBBBI", 2, 0, 300, 0, 0x10, 0, 0))
    parts = xlsb_parts([Sheet([head, ["A1"]])])
    sheet, ends = parts["xl/worksheets/sheet1.bin"], record(146)
    parts["xl/worksheets/sheet1.bin"] = sheet.replace(ends, begin + b"".join(cell for cell, _ in cells) + ends)
    parts["xl/workbook.bin"] += record(157, struct.pack("<IIB", 191029, 0, 1))
    table = open_one(write_parts(tmp_path / "a.xlsb", parts), ASKED)
    assert [*table.rows()][-1].cells == tuple(shown for _, shown in cells)
    assert table.reading_notes["hidden rows"] == "1 (read)"
    assert table.reading_notes["calculation"].startswith("manual")
    parts["xl/worksheets/sheet1.bin"] = sheet.removesuffix(record(130))
    assert "has no end" in refusal(write_parts(tmp_path / "a.xlsb", parts), ASKED).text


# ---- OpenDocument ----


def ods_with(folder, rows_xml, *, before="", styles=""):
    parts = ods_parts([])
    table = f'{before}<table:table table:name="Data">{rows_xml}</table:table>'
    content = parts["content.xml"].replace("</office:automatic-styles>", f"{styles}</office:automatic-styles>")
    parts["content.xml"] = content.replace("<office:spreadsheet>", f"<office:spreadsheet>{table}")
    return write_parts(folder / "a.ods", parts)


def ods_row(*cells, given=""):
    return f"<table:table-row {given}>{''.join(cells)}</table:table-row>"


def ods_cell(inner="", given='office:value-type="string"'):
    return f"<table:table-cell {given}>{inner}</table:table-cell>"


def said(text):
    return ods_cell(f"<text:p>{text}</text:p>")


ID_ROW = ods_row(said("Id"), said("Value"))
NOTE = "<office:annotation><text:p>a note</text:p></office:annotation>"
RUBY = "<text:ruby><text:ruby-base>東京</text:ruby-base><text:ruby-text>とうきょう</text:ruby-text></text:ruby>"
COVERED = '<table:covered-table-cell office:value-type="string"><text:p>under</text:p></table:covered-table-cell>'
BREAKS = '<text:p>a<text:line-break/>b<text:tab/>c<text:s text:c="3"/>d</text:p><text:p>\n  e </text:p>'
FORMULA = 'table:formula="of:=SUM([.B2:.B9];[$Sheet1.C1])*1.5"'
FLAG = 'table:formula="of:=TRUE()" office:value-type="float" office:value="1"'
ODS_CELLS = {  # a row, and its cells as text or as text, kind and what is shown
    "a note beside a text in parts": (ods_row(ods_cell(f"{NOTE}<text:p>A<text:span>1</text:span></text:p>")), ["A1", ""]),
    "a phonetic hint": (ods_row(said("A1"), said(RUBY)), ["A1", "東京"]),
    "a covered cell": (ods_row(said("A1"), COVERED), ["A1", ""]),
    "breaks, tabs and spaces": (ods_row(ods_cell(BREAKS)), ["a\nb\tc   d\n e ", ""]),
    "a formula without value": (ods_row(said("A1"), ods_cell("", FORMULA)), ["A1", ("=", "formula", "=SUM(B2:B9;$Sheet1.C1)*1.5")]),
    "a text of a formula without a type": (ods_row(said("A1"), ods_cell("<text:p>x</text:p>", FORMULA)), ["A1", "x"]),
    "a cell without a type and a text": (ods_row(said("A1"), ods_cell("<text:p/>", "")), ["A1", ""]),
    **{
        f"a time {text}": (ods_row(said("A1"), ods_cell("<text:p>?</text:p>", f'office:value-type="time" office:time-value="{text}"')), ["A1", cell])
        for text, cell in {
            "PT45M": ("00:45:00", "time", "00:45:00"), "P1DT6H": ("1.25", "number", "30:00:00"), "PT08H30M29,6S": ("08:30:30", "time", "08:30:30"),
            "-PT12H": ("-0.5", "number", "-0.5"), "-PT0S": ("00:00:00", "time", "00:00:00"), "PT": ("#VALUE!", "error", "#VALUE!"),
        }.items()
    },
    "a flag kept as a formula": (ods_row(said("A1"), ods_cell("<text:p>WAHR</text:p>", FLAG)), ["A1", ("true", "flag", "true")]),
}  # fmt: skip


@pytest.mark.parametrize(("row", "expected"), ODS_CELLS.values(), ids=ODS_CELLS)
def test_a_cell_of_an_ods_is_what_its_sender_sees(tmp_path, row, expected):
    (cells,) = cells_of(ods_with(tmp_path, ID_ROW + row), ASKED)
    assert [described(cell) if isinstance(cell, Native) else cell for cell in cells] == expected


def test_repeated_rows_and_cells_of_an_ods_are_read_as_often_as_they_stand(tmp_path):
    twice = ods_cell("<text:p>x</text:p>", 'office:value-type="string" table:number-columns-repeated="2"')
    rows = ods_row(twice, given='table:number-rows-repeated="3"')
    rows += ods_row("<table:table-cell/>", given='table:number-rows-repeated="5"') + ods_row(said("last"))
    read = rows_of(ods_with(tmp_path, ID_ROW + rows), ASKED)
    assert [(row.number, row.cells) for row in read] == [*((n, ("x", "x")) for n in (2, 3, 4)), (10, ("last", ""))]


@pytest.mark.parametrize("repeated", ["99999999", "-4", "0", "x"])
def test_cells_beyond_the_last_column_of_an_ods_damage_it(tmp_path, repeated):
    cell = ods_cell("<text:p>x</text:p>", f'office:value-type="string" table:number-columns-repeated="{repeated}"')
    assert "damaged" in refusal(ods_with(tmp_path, ID_ROW + ods_row(cell)), ASKED).text


def test_more_filled_rows_than_a_sheet_has_are_refused(tmp_path):
    rows = ID_ROW + ods_row(said("x"), given='table:number-rows-repeated="2000000"')
    assert "1,048,576" in refusal(ods_with(tmp_path, rows), ASKED).text


def test_the_style_of_an_ods_cell_may_be_its_columns_or_its_rows(tmp_path):
    styles = '<style:style style:name="zip" style:family="table-cell" style:data-style-name="N2"/>'
    styles += '<style:style style:name="child" style:family="table-cell" style:parent-style-name="zip"/>'
    number = 'office:value-type="float" office:value="1067"'
    rows = '<table:table-column table:default-cell-style-name="child"/><table:table-column/>' + ID_ROW
    rows += ods_row(ods_cell("<text:p>01067</text:p>", number), ods_cell("<text:p>1067</text:p>", number))
    rows += ods_row(said("x"), ods_cell("<text:p>01067</text:p>", number), given='table:default-cell-style-name="zip"')
    read = rows_of(ods_with(tmp_path, rows, styles=styles), ASKED)
    assert [row.shown for row in read] == [("01067", "1067"), ("x", "01067")]


def test_days_that_an_ods_shows_in_hours_are_no_date(tmp_path):
    hours = list(DATA_STYLES).index("[h]:mm:ss") + 1
    styles = f'<style:style style:name="h" style:family="table-cell" style:data-style-name="N{hours}"/>'
    cell = ods_cell("<text:p>30:00</text:p>", 'table:style-name="h" office:value-type="float" office:value="1.25"')
    (cells,) = cells_of(ods_with(tmp_path, ID_ROW + ods_row(said("A1"), cell), styles=styles), ASKED)
    assert described(cells[1]) == ("1.25", "number", "30:00:00")


def test_copies_of_linked_sheets_in_an_ods_are_no_sheets(tmp_path):
    copy = f'<table:table table:name="copy"><table:table-source/>{ID_ROW}{ods_row(said("wrong"))}</table:table>'
    assert cells_of(ods_with(tmp_path, ID_ROW + ods_row(said("right")), before=copy), ASKED) == [["right", ""]]


def test_prefixes_of_an_ods_do_not_matter(tmp_path):
    parts = ods_parts([Sheet([HEAD, ["A1", Typed(DAY, "yyyy-mm-dd")]])])
    parts["content.xml"] = (
        re.sub(r"([< /:])(table|office)([:=])", r"\1x\2\3", parts["content.xml"])
        .replace("xmlns:xtable:1.0", "xmlns:table:1.0")
        .replace("xmlns:xoffice:1.0", "xmlns:office:1.0")
    )
    assert 'xmlns:xtable="' in parts["content.xml"]
    assert cells_of(write_parts(tmp_path / "a.ods", parts), ASKED) == [["A1", "2026-03-01"]]


# ---- formulas without a value ----

BOXES = """\
mapping: loads
version: 1
target: order.delete
source: {files: "*.xlsx", locale: en_GB}
columns: {order: {label: Order, key: true, required: true}, boxes: {label: Boxes, type: integer}}
payload: {order_id: {col: order}}
"""


def test_a_formula_without_a_value_comes_back_as_text_and_all_of_them_are_one_line(workspace):
    workspace.use({"loads": BOXES})
    workspace.drop_book("loads.xlsx", {"Sheet": [["Order", "Boxes"], ["A-1", "=C2*2"], ["A-2", "=C3*2"]]})
    assert '"=C2*2"' in workspace.run().stdout
    fixes = load_workbook(workspace.reports()[0] / "loads.fix.xlsx")
    cells = [(cell.value, cell.data_type, cell.number_format) for cell in fixes.worksheets[0]["C"][1:]]
    assert cells == [("=C2*2", "s", "@"), ("=C3*2", "s", "@")]
    assert [row[6] for row in fixes["Errors"].iter_rows(min_row=4, values_only=True) if row[9] == "R208"] == [2]
    results = load_workbook(workspace.reports()[0] / "loads.xlsx.results.xlsx").worksheets[0]
    shown = [cell.value for row in results.iter_rows(min_row=2) for cell in row if str(cell.value)[0] == "="]
    assert shown == ["=C2*2", "=C3*2"]

"""The same sheet saved in every format gives the same cells; what a format has of its own is read as its sender sees it."""

import datetime as dt
import re
import struct
import zipfile
from dataclasses import replace

import pytest
import python_calamine
import xlwt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading_corpus import cells_of, inline, layout, open_one, refusal, rows_of, text_file, workbook_parts, write_parts
from reading_writers import WRITERS, Sheet, Typed, error, ods_parts, record, write_ods, write_xls, write_xlsb

from loadsheet.problems import FileRefused
from loadsheet.reading import Native
from loadsheet.reading.layouts import RowFilters

ASKED = layout("Id")
HEAD = ["Id", "Value"]
ONE_FOLDER = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    "zeros by format": (Typed(1067, "00000"), "1067", "number", "01067"),
    "zeros and a dash by format": (Typed(12345678, "00000-0000"), "12345678", "number", "01234-5678"),
    "zeros between texts by format": (Typed(12, '"D-"00000" x"'), "12", "number", "D-00012 x"),
    "a unit by format": (Typed(27.25, '0.0" lb"'), "27.25", "number", "27.25 lb"),
    "a unit by format for small ones": (Typed(950, '[>=1000]0.0," t";0" kg"'), "950", "number", "950 kg"),
    "a unit by format for large ones": (Typed(1500, '[>=1000]0.0," t";0" kg"'), "1500", "number", "1.5 t"),
    "money": (Typed(1234.5, "#,##0.00"), "1234.5", "number", "1234.5"),
    "per cent": (Typed(0.25, "0%"), "0.25", "number", "0.25"),
    "a date": (Typed(DAY, "yyyy-mm-dd"), "2026-03-01", "date", "2026-03-01"),
    "a date with time": (
        Typed(DAY + 0.354166667, "yyyy-mm-dd hh:mm"),
        "2026-03-01 08:30:00",
        "datetime",
        "2026-03-01 08:30:00",
    ),
    "midnight": (Typed(DAY, "yyyy-mm-dd hh:mm"), "2026-03-01 00:00:00", "datetime", "2026-03-01 00:00:00"),
    "a time": (Typed(0.354166667, "hh:mm:ss"), "08:30:00", "time", "08:30:00"),
    "a duration": (Typed(1.25, "[h]:mm:ss"), "1.25", "number", "30:00:00"),
    "a short duration": (Typed(0.125, "[h]:mm:ss"), "03:00:00", "time", "03:00:00"),
    "yes": (Typed(value=True), "true", "flag", "true"),
    "no": (Typed(value=False), "false", "flag", "false"),
    "not available": (error("#N/A"), "#N/A", "error", "#N/A"),
    "divided by zero": (error("#DIV/0!"), "#DIV/0!", "error", "#DIV/0!"),
}


def written_in(folder, form, sheets, **more):
    return WRITERS[form](folder / f"a.{form}", sheets, **more)


def told(cell):
    return (str(cell), cell.kind, cell.shown) if isinstance(cell, Native) else (cell, None, None)


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("from_1904", [False, True])
def test_every_format_gives_the_same_cells(tmp_path, form, from_1904):
    def moved(cell):
        shift = FROM_1904 if from_1904 and isinstance(cell, Typed) and "y" in cell.code else 0
        return Typed(cell.value - shift, cell.code) if shift else cell

    rows = [HEAD, *([name, moved(value[0])] for name, value in VALUES.items())]
    path = written_in(tmp_path, form, [Sheet(rows)], from_1904=from_1904)
    read = {row[0]: told(row[1]) for row in cells_of(path, ASKED)}
    assert read == {name: value[1:] for name, value in VALUES.items()}


@pytest.mark.parametrize("form", WRITERS)
def test_gaps_rows_and_addresses_are_the_same_in_every_format(tmp_path, form):
    rows = [
        [None, "a title"],
        [],
        ["Id", "Value", "More"],
        ["A1", None, Typed(3)],
        [],
        [None, "x"],
        [None, None, None, "surplus"],
    ]
    table = open_one(written_in(tmp_path, form, [Sheet(rows)]), ASKED)
    assert (table.header, table.header_row) == (("Id", "Value", "More"), 3)
    read = list(table.rows())
    assert [(row.number, row.cells) for row in read[:2]] == [(4, ("A1", "", "3")), (6, ("", "x", ""))]
    assert (read[2].number, read[2].problem.code) == (7, "R205")
    assert table.where(4, 1).cell == "B4"


@pytest.mark.parametrize("form", WRITERS)
def test_what_is_hidden_or_merged_is_read_and_told_in_every_format(tmp_path, form):
    rows = [["Id", "Value", "More"], ["A1", "m", None], ["A2", None, "z"]]
    sheet = Sheet(rows, hidden_rows=(2,), hidden_columns=(2,), merged=((1, 1, 2, 1),), filtered=form != "xls")
    cover = Sheet([["About"]], "Cover")
    secret = Sheet([HEAD, ["X", "Y"]], "Secret", hidden=True)
    path = written_in(tmp_path, form, [secret, cover, sheet] if form == "ods" else [cover, secret, sheet])
    table = open_one(path, ASKED)
    assert (table.sheet, [list(row.cells) for row in table.rows()]) == ("Data", [["A1", "m", ""], ["A2", "", "z"]])
    assert table.found["hidden sheets"] == "1 (Secret)"
    assert table.found["hidden rows"] == "1 (read)"
    assert table.found["hidden columns"] == "1 (read): C"
    assert table.found["merged cells"].startswith("1 ")
    assert ("filter" in table.found) == (form != "xls")
    assert cells_of(path, layout("Id", sheets=("secret",))) == [["X", "Y"]]


@pytest.mark.parametrize("form", WRITERS)
def test_what_is_hidden_is_ignored_and_counted_where_the_mapping_says_so(tmp_path, form):
    rows = [["Id", "More", "Value", "More"], *([f"A{number}", "old", "x", "new"] for number in range(1, 8))]
    path = written_in(tmp_path, form, [Sheet(rows, hidden_rows=(2, 3, 6), hidden_columns=(1,))])
    asked = replace(
        layout("Id", "Value", "More"), row_filters=RowFilters(hidden_rows="ignore", hidden_columns="ignore")
    )
    table = open_one(path, asked)
    assert table.columns == {"Id": 0, "Value": 2, "More": 3}  # read like the rest, More would stand there twice
    fates = {row.cells[0]: row.ignored for row in table.rows()}
    assert fates == {f"A{n}": "hidden_rows: ignore" if n in (2, 3, 6) else "" for n in range(1, 8)}
    assert (table.found["hidden rows"], table.found["hidden columns"]) == ("3 (ignored)", "1 (ignored): B")


@pytest.mark.parametrize("form", WRITERS)
def test_the_second_reader_agrees_where_it_is_exact(tmp_path, form):
    rows = [["Id", "Text", "Number", "Flag", "Day"]]
    rows += [
        [
            f"A{place}",
            f"text {place} ü",
            Typed(place * 1.5),
            Typed(place % 2 == 0),
            Typed(DAY + place + 0.25, "yyyy-mm-dd hh:mm"),
        ]
        for place in range(1, 40)
    ]
    path = written_in(tmp_path, form, [Sheet(rows)])
    theirs = python_calamine.CalamineWorkbook.from_path(str(path)).get_sheet_by_name("Data").to_python()
    made = [[_as_calamine(cell) for cell in row.cells] for row in rows_of(path, ASKED)]
    assert made == theirs[1 : len(made) + 1]


def _as_calamine(cell):
    if not isinstance(cell, Native):
        return str(cell)
    return {"number": float, "flag": lambda text: text == "true", "datetime": dt.datetime.fromisoformat}[cell.kind](
        cell
    )


PLAIN = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=12)
LINES = st.lists(PLAIN, max_size=3).map("\n".join)


@pytest.mark.parametrize("form", ["xls", "xlsb", "ods"])
@given(rows=st.lists(st.lists(LINES, min_size=2, max_size=2), max_size=5))
@ONE_FOLDER
def test_a_table_of_text_written_in_any_format_is_read_back_identical(tmp_path, form, rows):
    if form == "xls":  # its writer miscounts letters beyond the basic plane
        rows = [
            [
                cell.encode("utf-16", "ignore").decode("utf-16") if max(cell, default="") < "\U00010000" else ""
                for cell in row
            ]
            for row in rows
        ]
    rows = [row for row in rows if "".join(row).strip()]
    path = written_in(tmp_path, form, [Sheet([["Id", "Value"], *rows])])
    assert cells_of(path, ASKED, reading_process="none") == rows


@pytest.mark.parametrize("form", ["xls", "xlsb", "ods"])
@given(number=st.floats(-1e300, 1e300) | st.integers(-(10**15), 10**15))
@ONE_FOLDER
def test_a_number_written_in_any_format_is_the_same_number(tmp_path, form, number):
    ((cell,),) = cells_of(written_in(tmp_path, form, [Sheet([["Id"], [Typed(number)]])]), ASKED, reading_process="none")
    assert cell.kind == "number"
    assert float(cell) == float(number)
    assert "E" not in cell.upper()


def test_formulas_of_an_xls_that_show_nothing_are_counted(tmp_path):
    book = xlwt.Workbook()
    page = book.add_sheet("Data")
    for place, label in enumerate(HEAD):
        page.write(0, place, label)
    for row in (1, 2):
        page.write(row, 0, f"A{row}")
        page.write(row, 1, xlwt.Formula("1+1"))  # saved without its value, as some programs do
    page.write(3, 0, "A3")
    page.write(3, 1, "", xlwt.easyxf("font: bold on"))  # blank
    book.save(str(tmp_path / "a.xls"))
    table = open_one(tmp_path / "a.xls", ASKED)
    assert [list(row.cells) for row in table.rows()] == [["A1", ""], ["A2", ""], ["A3", ""]]
    assert table.found["formulas that show nothing"].startswith("2 (if they should show something, open the file")
    assert "formulas that show nothing" not in open_one(written_in(tmp_path, "xls", [Sheet([HEAD])]), ASKED).found


def test_texts_in_the_cells_of_an_xlsb_are_texts_too(tmp_path):
    path = write_xlsb(tmp_path / "a.xlsb", [Sheet([HEAD, ["A1", "x"]])], shared=False)
    assert cells_of(path, ASKED) == [["A1", "x"]]


# OpenDocument's own ways


def ods_with(folder, rows_xml, *, before="", after=""):
    parts = ods_parts([])
    table = f'{before}<table:table table:name="Data">{rows_xml}</table:table>{after}'
    parts["content.xml"] = parts["content.xml"].replace("<office:spreadsheet>", f"<office:spreadsheet>{table}")
    return write_parts(folder / "a.ods", parts)


def ods_row(*cells, given=""):
    return f"<table:table-row {given}>{''.join(cells)}</table:table-row>"


def ods_cell(inner="", given='office:value-type="string"'):
    return f"<table:table-cell {given}>{inner}</table:table-cell>"


def said(text):
    return ods_cell(f"<text:p>{text}</text:p>")


ID_ROW = ods_row(said("Id"), said("Value"))


def test_repeated_rows_and_cells_of_an_ods_are_read_as_often_as_they_stand(tmp_path):
    twice = ods_cell("<text:p>x</text:p>", 'office:value-type="string" table:number-columns-repeated="2"')
    rows = (
        ID_ROW
        + ods_row(twice, given='table:number-rows-repeated="3"')
        + ods_row("<table:table-cell/>", given='table:number-rows-repeated="5"')
    )
    read = rows_of(ods_with(tmp_path, rows + ods_row(said("last"))), ASKED)
    assert [(row.number, row.cells) for row in read] == [
        (2, ("x", "x")),
        (3, ("x", "x")),
        (4, ("x", "x")),
        (10, ("last", "")),
    ]


@pytest.mark.parametrize(
    "given",
    [
        'table:number-columns-repeated="99999999"',
        'table:number-columns-repeated="-4"',
        'table:number-columns-repeated="x"',
    ],
)
def test_cells_beyond_the_last_column_of_an_ods_damage_it(tmp_path, given):
    rows = ID_ROW + ods_row(ods_cell("<text:p>x</text:p>", f'office:value-type="string" {given}'))
    path = ods_with(tmp_path, rows)
    assert "damaged" in _whole(path).text


def test_more_filled_rows_than_a_sheet_has_are_refused(tmp_path):
    rows = ID_ROW + ods_row(said("x"), given='table:number-rows-repeated="2000000"')
    assert "1,048,576" in _whole(ods_with(tmp_path, rows)).text


def _whole(path):
    """The refusal, at the opening or while rows are read."""
    with pytest.raises(FileRefused) as caught:
        rows_of(path, ASKED)
    return caught.value.problem


def test_notes_phonetic_hints_and_covered_cells_of_an_ods_are_no_values(tmp_path):
    note = "<office:annotation><text:p>a note</text:p></office:annotation>"
    ruby = "<text:p><text:ruby><text:ruby-base>東京</text:ruby-base><text:ruby-text>とうきょう</text:ruby-text></text:ruby></text:p>"
    covered = '<table:covered-table-cell office:value-type="string"><text:p>under</text:p></table:covered-table-cell>'
    rows = (
        ID_ROW
        + ods_row(ods_cell(f"{note}<text:p>A<text:span>1</text:span></text:p>"), ods_cell(ruby))
        + ods_row(said("A2"), covered)
    )
    assert cells_of(ods_with(tmp_path, rows), ASKED) == [["A1", "東京"], ["A2", ""]]


def test_an_ods_formula_without_value_and_a_flag_kept_as_a_formula(tmp_path):
    bare = ods_cell("", 'table:formula="of:=1+1"')
    flag = ods_cell("<text:p>WAHR</text:p>", 'table:formula="of:=TRUE()" office:value-type="float" office:value="1"')
    rows = ID_ROW + ods_row(said("A1"), bare) + ods_row(said("A2"), flag)
    (_, formula), (_, yes) = cells_of(ods_with(tmp_path, rows), ASKED)
    assert (formula.kind, yes.kind, yes) == ("formula", "flag", "true")


def test_the_style_of_an_ods_cell_may_be_its_columns_or_its_rows(tmp_path):
    parts = ods_parts([])
    styles = '<style:style style:name="zip" style:family="table-cell" style:data-style-name="N1"/>'
    styles += '<style:style style:name="child" style:family="table-cell" style:parent-style-name="zip"/>'
    number = 'office:value-type="float" office:value="1067"'
    table = (
        '<table:table table:name="Data"><table:table-column table:default-cell-style-name="child"/><table:table-column/>'
        + ID_ROW
        + ods_row(ods_cell("<text:p>01067</text:p>", number), ods_cell("<text:p>1067</text:p>", number))
        + ods_row(said("x"), ods_cell("<text:p>01067</text:p>", number), given='table:default-cell-style-name="zip"')
        + "</table:table>"
    )
    content = parts["content.xml"].replace("</office:automatic-styles>", f"{styles}</office:automatic-styles>")
    parts["content.xml"] = content.replace("<office:spreadsheet>", f"<office:spreadsheet>{table}")
    read = rows_of(write_parts(tmp_path / "a.ods", parts), ASKED)
    assert [row.shown for row in read] == [("01067", "1067"), ("x", "01067")]


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


def test_texts_of_an_ods_keep_breaks_tabs_and_spaces(tmp_path):
    text = '<text:p>a<text:line-break/>b<text:tab/>c<text:s text:c="3"/>d</text:p><text:p>\n  e </text:p>'
    assert cells_of(ods_with(tmp_path, ID_ROW + ods_row(ods_cell(text))), ASKED) == [["a\nb\tc   d\n e ", ""]]


def test_an_empty_sheet_or_no_sheet_is_refused_in_every_format(tmp_path):
    for form in WRITERS:
        assert refusal(written_in(tmp_path, form, [Sheet([])]), ASKED).code == "R202"
    assert "without a sheet" in refusal(write_ods(tmp_path / "none.ods", []), ASKED).text


def test_manual_calculation_macros_and_links_are_told(tmp_path):
    parts = workbook_parts(inline("Id", number=1) + inline("A", number=2))
    parts["xl/workbook.xml"] = parts["xl/workbook.xml"].replace(
        "</workbook>",
        '<calcPr calcMode="manual"/><externalReferences><externalReference/></externalReferences></workbook>',
    )
    parts["xl/_rels/workbook.xml.rels"] = parts["xl/_rels/workbook.xml.rels"].replace(
        "</Relationships>", '<Relationship Id="v" Type="http://x/vbaProject" Target="vbaProject.bin"/></Relationships>'
    )
    found = open_one(write_parts(tmp_path / "a.xlsm", parts), ASKED).found
    assert found["calculation"].startswith("by hand")
    assert (found["macros"], found["links to other files"]) == ("not run", "not followed")


def test_an_xls_of_many_texts_spans_its_records(tmp_path):
    rows = [HEAD, *([f"A{number}", f"{'ü東' * 50} {number}"] for number in range(400))]
    assert cells_of(write_xls(tmp_path / "a.xls", [Sheet(rows)]), ASKED) == rows[1:]


def biff5(kind, content):
    return struct.pack("<HH", kind, len(content)) + content


def test_an_xls_of_excel_5_is_read_in_its_code_page(tmp_path):
    label = [struct.pack("<HHHH", 0, 0, 0, 2) + b"Id", struct.pack("<HHHH", 1, 0, 0, 4) + "Käse".encode("cp1252")]
    number = struct.pack("<HHHd", 2, 0, 0, 1447296446.7)
    page = biff5(0x809, struct.pack("<HHHH", 0x500, 0x10, 0x12AF, 1995)) + b"".join(
        biff5(0x204, text) for text in label
    )
    page += biff5(0x203, number) + biff5(0x205, struct.pack("<HHHBB", 3, 0, 0, 42, 1)) + biff5(0x0A, b"")
    begin = (
        biff5(0x809, struct.pack("<HHHH", 0x500, 0x05, 0x12AF, 1995))
        + biff5(0x42, struct.pack("<H", 1252))
        + biff5(0xE0, bytes(16))
    )
    offset = len(begin) + 4 + 6 + 1 + 4 + 4
    book = begin + biff5(0x85, struct.pack("<iBBB", offset, 0, 0, 4) + b"Data") + biff5(0x0A, b"") + page
    read = cells_of(text_file(tmp_path, book, "a.xls"), ASKED)
    assert [told(cell) for (cell,) in read] == [
        ("Käse", None, None),
        ("1447296446.7", "number", "1447296446.7"),
        ("#N/A", "error", "#N/A"),
    ]


def test_short_cells_of_an_xlsb_stand_right_of_each_other(tmp_path):
    path = write_xlsb(tmp_path / "a.xlsb", [Sheet([HEAD, ["A1", "x"]])])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    row = record(0, struct.pack("<IIHBBBI", 2, 0, 300, 0, 0, 0, 0)) + record(7, struct.pack("<III", 0, 0, 2))
    row += record(16, struct.pack("<Id", 0, 2.5)) + record(146)
    parts["xl/worksheets/sheet1.bin"] = parts["xl/worksheets/sheet1.bin"].replace(record(146), row)
    assert cells_of(write_parts(path, parts), ASKED) == [["A1", "x"], ["A1", "2.5"]]

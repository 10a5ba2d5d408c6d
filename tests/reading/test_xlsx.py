"""Workbooks of Excel (.xlsx): cells as their sender sees them, number formats, rows, and the parts of the package."""

import re
import zipfile
from xml.sax.saxutils import escape

import pytest
import xlsxwriter
from openpyxl import Workbook
from openpyxl.styles.numbers import BUILTIN_FORMATS
from reading_corpus import cells_of, inline, layout, open_one, refusal, rows_of, workbook_parts, write_parts

from loadsheet.errors import FileRefused
from loadsheet.reading import Native

ASKED = layout("Order", "Value", optional=("Value",))
HEAD = inline("Order", "Value", number=1)


def hand_made(path, rows_xml, **parts):
    return write_parts(path, workbook_parts(HEAD + rows_xml, **parts))


def stored(path, numbers, *, code="General", **parts):
    """A workbook with a row for each number: a text that its cell stores, under `code`, or (text, number format code)."""
    pairs = [number if isinstance(number, tuple) else (number, code) for number in numbers]
    codes = list(dict.fromkeys(each for _, each in pairs))
    formats = "".join(f'<numFmt numFmtId="{200 + at}" formatCode="{quoted(each)}"/>' for at, each in enumerate(codes))
    used = "".join(f'<xf numFmtId="{200 + at}"/>' for at in range(len(codes)))
    rows = "".join(
        f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>A1</t></is></c>'
        f'<c r="B{row}" s="{1 + codes.index(each)}"><v>{number}</v></c></row>'
        for row, (number, each) in enumerate(pairs, 2)
    )
    styles = f'<numFmts>{formats}</numFmts><cellXfs><xf numFmtId="0"/>{used}</cellXfs>'
    return hand_made(path, rows, styles=styles, **parts)


def quoted(text):
    return escape(text, {'"': "&quot;"})


def values_of(path):
    """The second cell of every row, as (kind, text, shown)."""
    cells = [cell for _, cell in cells_of(path, ASKED)]
    return [(cell.kind, str(cell), cell.without_currency) for cell in cells]


# ---- cells ----
NUMBERS = {  # as a cell stores it: its digits
    "1": "1", "1.0": "1", "0": "0", "-0": "0", "-0.50": "-0.5", "+7": "7", "007": "7", ".5": "0.5", "0.1": "0.1",
    "0.30000000000000004": "0.3",  # 0.1 + 0.2, shown as 0.3
    "434.99999999999994": "435", "-12.340000000000002": "-12.34", "1.0000000000000002E-3": "0.001", "52.370215999999997": "52.370216",
    "0.3333333333333333": "0.3333333333333333", "1234567890.1234567": "1234567890.1234567", "123456789012345": "123456789012345",
    "1447296446.7": "1447296446.7", "1.4472964467E9": "1447296446.7", "12345678901234567890": "12345678901234567890",
    "1.2345678901234567E+19": "12345678901234567000", "1E-7": "0.0000001", "1E+20": "100000000000000000000",
}  # fmt: skip


def test_a_number_keeps_its_digits(tmp_path):
    path = stored(tmp_path / "a.xlsx", NUMBERS)
    assert values_of(path) == [("number", plain, plain) for plain in NUMBERS.values()]


def test_what_is_no_finite_number_is_an_error(tmp_path):
    numbers = ["1E999", "NaN", "INF", "1_000", "x", "1,5", "\uff19", "0x10", "1E99999999999"]
    assert values_of(stored(tmp_path / "a.xlsx", numbers)) == [("error", "#NUM!", "#NUM!")] * len(numbers)


FORMATS = {  # by the number of a cell, its formats: what is shown
    "1067": {"00000": "01067", "00000;-00000": "01067"},
    "123456789": {"00000\\-0000": "12345-6789"},
    "7": {'00"-"00': "00-07"},
    "1234567": {"00000": "1234567"},
    "1067.5": {"00000": "1067.5"},
    "-5": {"000": "-5"},
    "5": {
        "0": "5", '0" kg"': "5 kg", '[<1]0;[<2]0" kg"': "5", '"kg"': "5", f'0"{"x" * 253}"': "5", "@": "5", "Standard": "5",
        "00/00": "5", "[>9]00;000": "5",
    },
    "0.25": {"0%": "0.25"},
    "1234.5": {"#,##0.00": "1234.5"},
    "27.25": {'#,##0.0\\ "lb"': "27.25 lb"},
    "27": {'General" lb"': "27 lb", "0.00\\ \\l\\b_)": "27 lb"},
    "-27": {'0" lb";-0" lb"': "-27 lb", '0" lb";(0" lb")': "(27 lb)", '0" lb"': "-27 lb"},
    "0": {'0" lb";-0" lb";"none"': "0", '#,##0 [$USD];-#,##0 [$USD];"-"?? [$USD]': "0"},
    "1500": {'0.0," t"': "1.5 t", '[>=1000000]0.0,," kt";[>=1000]0.0," t";0" kg"': "1.5 t"},
    "1500000": {'[>=1000000]0.0,," kt";[>=1000]0.0," t";0" kg"': "1.5 kt"},
    "150": {'[>=1000000]0.0,," kt";[>=1000]0.0," t";0" kg"': "150 kg"},
    "12.5": {
        '# ?/?\\"': '12.5"', "0.0\\'": "12.5'", '"ca. "0.0': "ca. 12.5", "#,##0.00 [$USD]": "12.5", "#,##0.00 [$€-407]": "12.5",
        '0.0%" lb"': "12.5",
    },
    "-3": {'"PO-"0': "PO--3"},
    "32": {'00"S;"': "32S;", '0" h; d"': "32 h; d"},
    "510": {'0" ft "00" in"': "510"},
    "12": {
        "[$-407]00000": "00012", "[Red]00000": "00012", "[Color 10]00000;[Red]-00000": "00012", "00000_)": "00012",
        "_-* 00000_-": "00012", "[$-407][blue]000\\-00 ": "000-12", "[$€-407]00000": "12", "\\_00000": "_00012",
        '"_-"00000': "_-00012", '"D-"00000': "D-00012", "\\A\\-000": "A-012", "\\D\\-000": "D-012",
        '[Red]"2024 "000\\-00': "2024 000-12", '000" pcs"': "012 pcs", '"[Red]"00': "[Red]12", "\\(000\\)\\ 000": "(000) 012",
        f'"{"x" * 250}"000': f"{'x' * 250}012", f'"{"x" * 251}"000': "12",
    },
}  # fmt: skip


def test_what_a_number_format_says_more_is_shown_beside_the_value(tmp_path):
    cells = [(number, code, shown) for number, codes in FORMATS.items() for code, shown in codes.items()]
    path = stored(tmp_path / "a.xlsx", [(number, code) for number, code, _ in cells])
    assert values_of(path) == [("number", number, shown) for number, _, shown in cells]


EUROS = '_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-'
PRICES = [
    ("12.5", "#,##0.00 [$USD]", "12.5 USD"),
    ("12.5", "[$£-809]#,##0.00", "£12.5"),
    ("12.5", '"$"#,##0.00', "$12.5"),
    ("12.5", "$#,##0.00", "$12.5"),
    ("12.5", "[$€-x-euro2] #,##0.00", "€ 12.5"),
    *((number, EUROS, f"{number} €") for number in ("12.5", "-12.5", "0")),
    ("-5", '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "$(5)"),
    ("5", '"$"#,##0;[Red]"$"#,##0', "$5"),
    ("1500", '[$USD] 0.0," k"', "USD 1.5 k"),
    ("12.5", "[$-407]#,##0.00", "12.5"),
    ("12.5", "[Red]#,##0.00", "12.5"),
    ("12.5", '0.00" kg"', "12.5 kg"),
    ("12.5", "0.0%[$USD]", "12.5"),
]


def test_the_currency_that_a_number_format_shows_is_kept(tmp_path):
    table = open_one(stored(tmp_path / "a.xlsx", [(number, code) for number, code, _ in PRICES]), ASKED)
    assert [row.shown[1] for row in table.rows()] == [shown for *_, shown in PRICES]


def test_a_built_in_format_shows_the_currency_of_the_computer_and_so_none(tmp_path):
    book = Workbook()
    book.active.append(["Order", "Value"])
    for row, number in enumerate((5, 7, 44), 2):
        book.active.append(["A", 12.5])
        book.active.cell(row, 2).number_format = BUILTIN_FORMATS[number]
    book.save(tmp_path / "a.xlsx")
    assert [row.shown for row in open_one(tmp_path / "a.xlsx", ASKED).rows()] == [("A", "12.5")] * 3


DATES = {  # by number format, the numbers of cells: their kinds and what is read
    "dd.mm.yyyy": {
        "46082": "date 2026-03-01", "46082.3333333333": "datetime 2026-03-01 08:00:00", "46082.00000001": "date 2026-03-01",
        "0": "number 0", "1": "date 1900-01-01", "59": "date 1900-02-28", "60": "number 60", "61": "date 1900-03-01",
        "2958465": "date 9999-12-31", "2958466": "number 2958466", "1E+20": "number 100000000000000000000", "-3": "number -3",
    },
    "yyyy-mm-dd hh:mm": {"46082": "datetime 2026-03-01 00:00:00", "46082.999999": "datetime 2026-03-02 00:00:00"},
    f'"{"x" * 300}"dd.mm.yyyy': {"46082": "date 2026-03-01"},
    "hh:mm": {"0.25": "time 06:00:00", "0": "time 00:00:00", "1.25": "time 06:00:00", "1": "datetime 1900-01-01 00:00:00", "46082.25": "datetime 2026-03-01 06:00:00", "-0.25": "number -0.25"},
    "hh:mm:ss": {"0.99999999": "time 00:00:00"},
    "[$-407]d. mmmm yyyy;@": {"46082": "date 2026-03-01"},
    "mmm": {"46082": "date 2026-03-01"},
    '"Woche" 0': {"46082": "number 46082"},
    "0\\d": {"5": "number 5"},
    "[h]:mm": {"0.5": "time 12:00:00"},
    "[h]:mm:ss": {"1.5": "number 1.5"},
}  # fmt: skip


def test_a_date_is_what_its_format_says_to_the_second(tmp_path):
    path = stored(tmp_path / "a.xlsx", [(number, code) for code, numbers in DATES.items() for number in numbers])
    expected = [said for numbers in DATES.values() for said in numbers.values()]
    assert [f"{kind} {text}" for kind, text, _ in values_of(path)] == expected


@pytest.mark.parametrize("flag", ["1", "true"])
def test_the_date_system_of_1904_is_honoured(tmp_path, flag):
    days = {"0": "1904-01-01", "44620": "2026-03-01", "2957003": "9999-12-31", "2957004": "2957004"}
    properties = f'<workbookPr date1904="{flag}"/>'
    path = stored(tmp_path / "a.xlsx", days, code="dd.mm.yyyy", properties=properties)
    kinds = ["date", "date", "date", "number"]
    assert [value[:2] for value in values_of(path)] == list(zip(kinds, days.values(), strict=True))
    assert open_one(path, ASKED).reading_notes["date system"] == "1904"


RICH = '<r><t>A</t></r><r><rPr><b/></rPr><t xml:space="preserve"> 1</t></r><rPh sb="0" eb="1"><t>hint</t></rPh>'
A2 = '<c r="A2" t="inlineStr"><is><t>A1</t></is></c>'
CELLS = {  # the cells of rows below the header, what else the workbook has, and the cells as text or kind and text
    "a formula without a saved value": ([A2 + '<c r="B2"><f>B3*2</f></c>'], {}, [["A1", "formula ="]]),
    "a formula that made a text": (['<c r="A2" t="str"><f>"A"&amp;1</f><v>A1</v></c>'], {}, [["A1", ""]]),
    "a formula that made an empty text": ([A2 + '<c r="B2" t="str"><f>""</f><v></v></c>'], {}, [["A1", ""]]),
    "a formula that made a number": (
        [A2 + f'<c r="B2">{cell}</c>' for cell in ("<f>6*7</f><v>42</v>", "<v>42</v><f>6*7</f>", "<f>6*7</f><v>4</v><v>2</v>")],
        {}, [["A1", "number 42"]] * 3),
    "a formula that made a flag": ([A2 + '<c r="B2" t="b"><f>1=1</f><v>1</v></c>'], {}, [["A1", "flag true"]]),
    "East Asian dates and numbers": (
        [A2 + f'<c r="B2" s="{style}"><v>46082</v></c>' for style in range(5)],
        {"styles": "<cellXfs>" + "".join(f'<xf numFmtId="{number}"/>' for number in (27, 36, 50, 58, 59)) + "</cellXfs>"},
        [*[["A1", "date 2026-03-01"]] * 4, ["A1", "number 46082"]]),
    "rich text and phonetic hints": (
        [f'<c r="A2" t="s"><v>0</v></c><c r="B2" t="inlineStr"><is>{RICH}</is></c>'], {"texts": [RICH]}, [["A 1", "A 1"]]),
    "shared texts without a number": (
        [A2 + '<c r="B2" t="s"></c>', A2 + '<c r="B3" t="s"><v></v></c>', A2 + '<c r="B4" t="s"><v/></c>'], {}, [["A1", ""]] * 3),
    "shared texts that are missing": (
        [f'{A2}<c r="B2" t="s"><v>{place}</v></c>' for place in (9, -1)], {}, [["A1", "error #TEXT LOST!"]] * 2),
    "a row of an empty shared text": (['<c r="A2" t="s"><v>0</v></c>'], {"texts": [""]}, []),
    "a blank cell beside a filled one of its name": ([A2 + '<c r="B2" s="0"/><c r="B2"><v>2</v></c>'], {}, [["A1", "number 2"]]),
    "a text before or behind another value of its cell": (
        [A2 + f'<c r="B2" s="" t="inlineStr">{value}</c>' for value in ("<is><t>1.</t></is><v>01.</v>", "<v>01.</v><is><t>1.</t></is>")],
        {}, [["A1", "1."]] * 2),
    "rows and cells without addresses": (["<c><v>1</v></c><c><v>2</v></c>"], {}, [["number 1", "number 2"]]),
    "dates of a strict workbook": (
        ['<c r="A2" t="s"><v>0</v></c><c r="B2" t="d"><v>2026-03-01T08:00:00.7Z</v></c>',
         '<c r="A3" t="d"><v>2026-03-01</v></c><c r="B3" t="d"><v>08:30:00</v></c>', '<c r="A4" t="d"><v>2026-02-30</v></c>'],
        {"texts": ["A1"], "strict": True},
        [["A1", "datetime 2026-03-01 08:00:01"], ["date 2026-03-01", "time 08:30:00"], ["error #VALUE!", ""]]),
}  # fmt: skip


@pytest.mark.parametrize("case", CELLS)
def test_a_cell_is_what_its_sender_sees(tmp_path, case):
    rows, more, expected = CELLS[case]
    read = cells_of(hand_made(tmp_path / "a.xlsx", "".join(f"<row>{cells}</row>" for cells in rows), **more), ASKED)
    assert [[f"{cell.kind} {cell}" if isinstance(cell, Native) else cell for cell in row] for row in read] == expected


def test_a_formula_without_a_saved_value_is_shown_as_it_is_written(tmp_path):
    formulas = {
        "<f>SUM(A2:A9)&amp;&quot;x&quot;</f>": '=SUM(A2:A9)&"x"',
        "<f>B2</f><v/>": "=B2",
        '<f t="shared" si="0"/>': "=",
        f"<f>{'1+' * 5_000}1</f>": f"={'1+' * 500}"[:1_000],
    }
    cells = [f'<c r="B{row}">{formula}</c>' for row, formula in enumerate(formulas, 2)]
    rows = "".join(f"<row>{A2.replace('A2', f'A{row}')}{cell}</row>" for row, cell in enumerate(cells, 2))
    values = (row[1] for row in cells_of(hand_made(tmp_path / "a.xlsx", rows), ASKED))
    assert [(value, value.kind, value.without_currency) for value in values] == [
        ("=", "formula", shown) for shown in formulas.values()
    ]


TEXTS = {  # as they are stored: as they are read
    " padded\u00a0": " padded\u00a0", "_x005F_x000D_": "_x000D_", "a_x000D_b": "a\nb", "00012": "00012", "a\tb\nc": "a\tb\nc",
    "𠀀": "𠀀", "_xD83D_": "_xD83D_", "x005F_": "x005F_", "1/2": "1/2", "=1": "=1", "_x0041_": "A",
}  # fmt: skip


def test_texts_stay_as_they_stand(tmp_path):
    rows = "".join(
        f'<row r="{number}"><c r="A{number}" t="s"><v>{number - 2}</v></c>'
        f'<c r="B{number}" t="inlineStr"><is><t>{text}</t></is></c></row>'
        for number, text in enumerate(TEXTS, 2)
    )
    cells = cells_of(hand_made(tmp_path / "a.xlsx", rows, texts=list(TEXTS)), ASKED)
    assert cells == [[text, text] for text in TEXTS.values()]


# ---- rows and sheets ----


def test_rows_that_are_ragged_damaged_or_far_below_are_reported_with_their_cells(tmp_path):
    xml = inline("A1", number=2) + inline("A2", "5", " ", number=3) + inline("A3", "6", "note", number=4)
    xml += inline("A4", "a_x0000_b", number=5) + inline("A5", "y" * 61, number=1003)
    xml += inline("A6", number=2005) + inline("A7", number=2006)
    read = rows_of(hand_made(tmp_path / "a.xlsx", xml), ASKED, cell_length_max=60)
    assert [row.cells for row in read[:3]] == [("A1", ""), ("A2", "5"), ("A3", "6")]
    problems = {row.number: row.problem and (row.problem.code, row.problem.where.cell) for row in read}
    found = {4: ("R205", "C4"), 5: ("R209", "B5"), 1003: ("R212", "B1003"), 2005: ("R214", "")}
    assert problems == {2: None, 3: None, **found}
    assert str(read[2].problem).startswith("a.xlsx:Sheet1!C4: R205 ")
    assert read[2].problem.found == "note"
    assert "delete it, or give its column a label" in read[2].problem.hint
    assert read[-1].problem.values["blank"] == 1001


def test_a_sheet_that_states_a_cell_or_a_row_twice_is_refused(tmp_path):
    b, c = '<c r="B2"><v>1</v></c>', '<c r="B2"><v>2</v></c>'
    many = "".join(inline(f"A{n}", f"{n}", number=n) for n in range(10, 40))
    for rows, what in (
        (f'<row r="2">{A2}{b}{c}</row>', "the cell B2"),
        (f'<row r="2">{b}{A2}{c}</row>', "the cell B2"),
        (f'<row r="2">{A2}{b}</row><row r="2">{c}</row>', "row 2"),
        (f'<row r="2">{A2}{b}</row>{inline("7", number=3)}<row r="2">{c}</row>', "row 2"),
    ):
        for xml in (rows, rows + many, many + rows):
            problem = refusal(hand_made(tmp_path / "a.xlsx", xml), ASKED)
            assert (problem.code, problem.values["what"], problem.where.row) == ("R240", what, 2), rows


def test_rows_that_do_not_ascend_are_read_as_they_stand(tmp_path):
    rows = inline("A3", "3", number=4) + inline("A1", "1", number=2) + '<row r="2"/>' + inline("A2", "2", number=3)
    assert [row.number for row in rows_of(hand_made(tmp_path / "a.xlsx", rows), ASKED)] == [4, 2, 3]
    without = re.sub(r' r="[A-Z]?[0-9]"', "", HEAD + inline("A1", number=2))
    table = open_one(write_parts(tmp_path / "b.xlsx", workbook_parts(without)), ASKED)
    assert (table.header_row, [row.number for row in table.rows()]) == (1, [2])


def two_sheets(path):
    parts = workbook_parts(sheets=(("Cover", "visible"), ("Aufträge", "visible")))
    rows = f"<sheetData>{HEAD}{inline('A1', '5', number=2)}"
    parts["xl/worksheets/sheet2.xml"] = parts["xl/worksheets/sheet1.xml"].replace("<sheetData>", rows)
    return write_parts(path, parts)


def test_the_first_named_sheet_that_exists_is_read_else_the_closest_row_of_all_is_named(tmp_path):
    path = two_sheets(tmp_path / "a.xlsx")
    assert open_one(path, layout("Order", sheets=("Orders", "auftrage "))).sheet == "Aufträge"
    problem = refusal(path, layout("Order", sheets=("Orders", "Data")))
    assert problem.text == "no sheet is named Orders or Data; the workbook has Cover, Aufträge"
    problem = refusal(path, layout("Order", "Country"))
    assert (problem.code, problem.where.sheet, problem.where.row) == ("R204", "Aufträge", 1)
    assert "looked at the sheets Cover, Aufträge" in problem.hint


def test_chart_and_macro_sheets_are_no_tables(tmp_path):
    path = tmp_path / "a.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet = book.add_worksheet("Orders")
        sheet.write_row(0, 0, ["Order", "Value"])
        sheet.write_row(1, 0, ["A1", 5])
        chart = book.add_chart({"type": "line"})
        chart.add_series({"values": "=Orders!$B$2:$B$2"})
        book.add_chartsheet("Chart").set_chart(chart)
    assert len(rows_of(path, ASKED)) == 1
    assert "the workbook has Orders" in refusal(path, layout("Order", sheets=("Chart",))).text


def test_traits_are_seen_however_the_part_is_written_and_cut(tmp_path):
    filler = "".join(inline(f"A{number}", number=number) for number in range(2, 3_000))
    rows = inline("Order", number=1) + filler + inline("x", number=3000).replace("<row", '<row hidden="1"')
    after = '</sheetData><autoFilter ref="A1:A9"/><mergeCells count="1"><mergeCell ref="A2:A3"/></mergeCells>'
    for encoding in ("utf-8", "utf-16"):
        parts = workbook_parts(rows)
        page = parts["xl/worksheets/sheet1.xml"].replace("</sheetData>", after).replace("UTF-8", encoding)
        parts["xl/worksheets/sheet1.xml"] = page.encode(encoding)
        found = open_one(write_parts(tmp_path / "a.xlsx", parts), layout("Order")).reading_notes
        assert (found["hidden rows"], found["filter"]) == ("1 (read)", "A1:A9 (all rows are read)")
        assert found["merged cells"].startswith("1 ")


# ---- packages ----


def moved(parts):
    """The parts in the top folder."""
    found = {name.replace("xl/worksheets/", "").replace("xl/", ""): content for name, content in parts.items()}
    found["_rels/.rels"] = found["_rels/.rels"].replace("xl/workbook.xml", "workbook.xml")
    found["_rels/workbook.xml.rels"] = found["_rels/workbook.xml.rels"].replace("worksheets/", "")
    return found


def renamed(parts):
    """Backslashes, other letter cases and absolute targets in the names of parts."""
    relations = parts.pop("xl/_rels/workbook.xml.rels").replace("worksheets/sheet1", "/xl/Worksheets/SHEET1")
    names = {"xl\\_rels\\workbook.xml.rels": relations, "[content_types].xml": parts.pop("[Content_Types].xml")}
    return parts | names


def bare(parts):
    """Neither texts nor styles."""
    relations = re.sub(r"<Relationship Id=.rId[SF].[^>]*>", "", parts["xl/_rels/workbook.xml.rels"])
    del parts["xl/sharedStrings.xml"], parts["xl/styles.xml"]
    return parts | {"xl/_rels/workbook.xml.rels": relations}


@pytest.mark.parametrize("change", [moved, renamed, bare])
def test_the_parts_of_a_workbook_may_lie_anywhere_have_other_names_or_be_missing(tmp_path, change):
    for prefix in ("", "x"):
        rows = inline("Order", "Value", number=1, prefix=prefix) + inline("A1", "5", number=2, prefix=prefix)
        path = write_parts(tmp_path / "a.xlsx", change(workbook_parts(rows, prefix=prefix)))
        assert cells_of(path, ASKED) == [["A1", "5"]]


def test_a_missing_part_is_named(tmp_path):
    for part in ("xl/sharedStrings.xml", "xl/styles.xml", "xl/worksheets/sheet1.xml"):
        parts = workbook_parts(HEAD)
        del parts[part]
        assert f"part {part} is missing" in refusal(write_parts(tmp_path / "a.xlsx", parts), ASKED).text
    problem = refusal(write_parts(tmp_path / "a.xlsx", workbook_parts(sheets=())), ASKED)
    assert "without a worksheet" in problem.text


DAMAGE = (
    *("<c r='A3'><v>1</c></v>", "<c r='A3'><v>1</v>", "<row", "&bad;", "\x01", "<c r='A3'><v>1]]></v></c>"),
    *("<c r='A3'><v>&bad;</v></c>", "<c r='A3'><v>\x01</v></c>", "<c r='A3'><v>1</v></c><b>", "</sheetData>"),
    *(f"<c r='{reference}'><v>1</v></c>" for reference in ("", "2", "a2", "ABCD2", "$A$2")),
    *("<c r='A3' s='1' s='1'><v>1</v></c>", "<c r='A3'><f t='a' t='b'>1</f></c>", "</row><row r='4' ht='1' ht='1'>"),
)


@pytest.mark.parametrize("damage", DAMAGE)
def test_malformed_xml_is_found_before_a_row_is_used(tmp_path, damage):
    rows = inline("A1", number=2) + f"<row r='3'>{damage}</row>" + inline("A2", number=4)
    with pytest.raises(FileRefused, match="incomplete or damaged"):
        open_one(hand_made(tmp_path / "a.xlsx", rows), ASKED)


def test_a_workbook_that_unpacks_to_too_much_is_refused_with_limit_and_size(tmp_path):
    path = hand_made(tmp_path / "a.xlsx", inline("A1", "x" * 20_000, number=2))
    assert "at most 10,000 are read" in refusal(path, ASKED, inflated_bytes_max=10_000).text


def test_parts_of_the_same_name_locked_parts_and_odd_packing_are_refused(tmp_path):
    parts = workbook_parts(HEAD)
    write_parts(tmp_path / "twice.xlsx", parts | {"XL/Workbook.xml": parts["xl/workbook.xml"]})
    assert "parts of the same name" in refusal(tmp_path / "twice.xlsx", ASKED).text
    odd = write_parts(tmp_path / "odd.xlsx", workbook_parts(HEAD), zipfile.ZIP_BZIP2)
    assert "packed in a way" in refusal(odd, ASKED).text
    locked = bytearray(hand_made(tmp_path / "locked.xlsx", "").read_bytes())
    place = locked.index(b"PK\x01\x02")
    locked[place + 8] |= 1
    (tmp_path / "locked.xlsx").write_bytes(locked)
    assert "locked with a password" in refusal(tmp_path / "locked.xlsx", ASKED).text


def test_manual_calculation_macros_and_links_are_reported(tmp_path):
    parts = workbook_parts(inline("Order", number=1) + inline("A", number=2))
    links = '<calcPr calcMode="manual"/><externalReferences><externalReference/></externalReferences></workbook>'
    macros = '<Relationship Id="v" Type="http://x/vbaProject" Target="vbaProject.bin"/></Relationships>'
    for part, end, more in (
        ("xl/workbook.xml", "</workbook>", links),
        ("xl/_rels/workbook.xml.rels", "</Relationships>", macros),
    ):
        parts[part] = parts[part].replace(end, more)
    found = open_one(write_parts(tmp_path / "a.xlsm", parts), ASKED).reading_notes
    assert found["calculation"].startswith("manual")
    assert (found["macros"], found["links to other files"]) == ("not run", "not followed")

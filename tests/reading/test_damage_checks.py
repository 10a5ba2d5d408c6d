"""What spreadsheet programs did to values is pointed out by column, with the rows and the suspected cause; sound columns are silent."""

import datetime as dt

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading_corpus import layout, open_one, text_file
from reading_writers import WRITERS, Sheet, Typed

from loadsheet.mapping.notations import format_parser
from loadsheet.reading import DamageChecks, Row, Table
from loadsheet.reading.tables import ColumnUse
from loadsheet.similar_text import LookAlikes

ONE_FOLDER = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def warnings_of(table, uses=None):
    """The warnings about a table, by a pass over its rows."""
    damage_checks = DamageChecks(table, uses or {})
    rows = list(table.rows())
    assert list(damage_checks.watch(iter(rows))) == rows, "rows pass unchanged"
    return damage_checks.problems()


def warnings_about_workbook(folder, cells, code=""):
    book = openpyxl.Workbook()
    book.active.append(["Item"])
    for cell in cells:
        book.active.append([cell])
        if code and isinstance(cell, int | float):
            book.active.cell(book.active.max_row, 1).number_format = code
    book.save(folder / "a.xlsx")
    return warnings_of(open_one(folder / "a.xlsx", layout("Item")))


def warnings_about(columns, uses=None):
    """The warnings about columns that hold these texts, by code."""
    header = tuple(columns)
    rows = [Row(number, row) for number, row in enumerate(zip(*columns.values(), strict=True), 2)]
    places = {label: place for place, label in enumerate(header)}
    table = Table("rows", "a.csv", "", header, 1, places, lambda: iter(rows), {})
    return {problem.code: problem for problem in warnings_of(table, uses)}


DAMAGED = {
    "ids in scientific notation": (["4012345678901", "4.01235E+12", "4,01E+12"], "R221", "4.01235E+12", "rows 3, 4"),
    "more digits than a number keeps": (["123456789012345000", "350000000000000000012"], "R222", "123456789012345000", "row 2"),
    "leading zeros here and not there": (["01067", "8056", "04109", "99084"], "R223", "8056", "row 3"),
    "texts turned into dates": (["A-17", "03-May", "12-99", "Mar-01", "7-Z", "B"], "R224", "03-May", "rows 3, 5"),
    "a German month": (["A-17", "03. Mai", "12-99", "C"], "R224", "03. Mai", "row 3"),
    "UTF-8 read as Western": (["Müller", "MÃ¼ller", "KÃ¶ln"], "R226", "MÃ¼ller", "rows 3, 4"),
    "written for a web page": (["M&uuml;ller", "A & B", "R&D; x", "K&#246;ln", "AT&T"], "R226", "M&uuml;ller", "rows 2, 5"),
    "tags of a web page": (["Grill <i>Pro</i>", "3 < 5", "a <b", "Fragile<br />no stack", "<ann@acme.example>"], "R226", "Grill <i>Pro</i>", "rows 2, 5"),
    "letters that became question marks": (["Müller", "M?ller", "Stra?e 1", "Why?", "Yes? No", "a.de/x?y=z"], "R226", "M?ller", "rows 3, 4"),
    "line breaks of a workbook in a text file": (["1 Main St_x000D_Leeds", "AB_x10"], "R226", "1 Main St_x000D_Leeds", "row 2"),
    "letters of DOS": (["Livr\u201a", "M„rz", "\u201eM\u00e4rz\u201c", "M\u00fcller\u2020", "Gl\u2021ckler"], "R226", "Livr\u201a", "rows 2, 3, 6"),
    "lost letters": (["M\ufffdller"], "R226", "M\ufffdller", "row 2"),
    "a Western code page read as another": (["M\x92s", "M\u2019s", "x\x85"], "R226", "M\x92s", "rows 2, 4"),
    "what Excel made of codes": (["A-17", "B-12", "MAR-77", "DEC-01", "C-3", "D-4", "E-5"], "R224", "MAR-77", "rows 4, 5"),
    "an invisible mark": (["A1", "A1\u200b", "\u202eA1"], "R228", "A1\u200b", "rows 3, 4"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_pointed_out_with_example_and_rows(case):
    cells, code, example, rows = DAMAGED[case]
    ((found, warning),) = warnings_about({"Item": cells}).items()
    assert (found, warning.found, warning.level) == (code, example, "warning")
    assert warning.values["rows"] == rows
    assert warning.where.column == "Item"
    assert warning.hint
    assert rows in str(warning)


SOUND = {
    "numbers": ["1", "22", "333", "1.5", "1,000.00", "-3"],
    "ids of one width": ["01067", "08056", "10115"],
    "words": ["Köln", "São Paulo", "東京", "Ærø", "Łódź", "€ 5"],
    "dates": ["2026-03-01", "2026-12-31", ""],
    "dates with day and month only": ["03-May", "04-May", "05-Jun"],
    "dates read in one way": ["31/12/2026", "01/02/2026", "28/02/2026"],
    "days among fewer than twice as many words": ["03-May", "04-May", "asap", "open", "later"],
    "short and long codes": ["A1", "3-5", "17", "x" * 40],
    "large round numbers": ["100000000000000", "5000000"],
    "small scientific numbers": ["1.5E-05"],
    "blank": ["", " "],
}
QUIET = {
    **{case: {"Item": cells} for case, cells in SOUND.items()},
    "phone numbers": {"Phone": ["01712345678", "0301234567", "030123456", "491712345", "4917123456789"] * 30},
    "a few long phone numbers": {"Phone": ["0301234567"] * 100 + ["03012345678901"] * 86 + ["301234567"] * 163},
    "postcodes of two countries": {"Land": ["DE", "CH"] * 50, "PLZ": ["01067", "3012"] * 50},
    "names like months": {"Name": ["MARTINA 77", "Marchand 12", "A 1", "B 2", "C 3", "Junior 05", "DECKER 10"] * 3},
    "16 digits, of which every tenth ends in 0": {"Id": [str(4_000_000_000_000_001 + number) for number in range(500)]},
    "postcodes of many countries": {"Postcode": ["SW1A 1AA", "1012 AB", "00-950", "75001", "D-10115", "K1A 0B1"] * 9},
    "product codes": {"Code": ["A-17", "12-AB", "7-Z", "3/4", "1E10", "X05-03", "0815", "4711"] * 9},
}


@pytest.mark.parametrize("columns", QUIET.values(), ids=QUIET)
def test_sound_columns_are_silent(columns):
    assert warnings_about(columns) == {}


MIXED = {
    "ISO beside points": (["2026-05-28", "19.05.2026"], ["Y-M-D (1, row 2)", "D.M.YYYY (1, row 3)"]),
    "day first beside month first": (["31/12/2026", "12/31/2026", "01/02/2026"], ["D/M/YYYY (2, rows 2, 4)", "M/D/YYYY (1, row 3)"]),
    "months by name": (["02-Jun-06", "2006-06-02 10:00"], ["D-month-Y", "Y-M-D"]),
    "short years": (["26-05-19", "2026-05-19"], ["D-M-YY", "Y-M-D"]),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXED)
def test_mixed_date_styles_are_listed_with_their_rows(case):
    cells, styles = MIXED[case]
    warning = warnings_about({"Item": cells})["R225"]
    assert all(style in warning.values["styles"] for style in styles)


GERMAN_CODES = [f"{number:05}" for number in range(10115, 10215)] + ["01067", "04109", "07743"]
SWISS_CODES = ["3012", "8001", "4051"]


def test_padding_is_proposed_where_all_values_but_a_few_have_one_width():
    warning = warnings_about({"Postal code": [*GERMAN_CODES, "8056"]})["R223"]
    assert (warning.values["width"], warning.values["pads_to"]) == (5, 5)
    assert "let the mapping pad" in warning.hint


NOT_TO_BE_PADDED = {
    "many are shorter": {"Postal code": ["01067", "04109", *SWISS_CODES]},
    "some are longer": {"Postal code": [*GERMAN_CODES, "8056", "123456"]},
    "texts stand among them": {"Postal code": [*GERMAN_CODES, "8056", "SW1A 1AA"]},
    "few of another country": {"Country": ["DE"] * len(GERMAN_CODES) + ["CH"] * 3, "Postal code": [*GERMAN_CODES, *SWISS_CODES]},
}  # fmt: skip


@pytest.mark.parametrize("columns", NOT_TO_BE_PADDED.values(), ids=NOT_TO_BE_PADDED)
def test_padding_is_not_proposed_where_short_values_may_be_right(columns):
    warning = warnings_about(columns)["R223"]
    assert "pads_to" not in warning.values
    assert "pad" not in warning.hint


ONE_SHORT = {"Postal code": [*GERMAN_CODES, "8056"]}
ALL_LOST = ["10115", "8056", "20095", "80331", "99084"]  # suspected where the label speaks of a code
WORDS = {"Day": ["asap", "03-May", "open", "on call", "later"]}  # no text before, in a column of dates
USES = {  # columns, how the mapping uses one of them, and what they are warned of
    "zeros lost from a code": ({"Postal code": ALL_LOST}, {}, ["R223"]),
    "no zeros lost from a weight": ({"Weight": ALL_LOST}, {}, []),
    "padded": (ONE_SHORT, {"Postal code": ColumnUse(pads_to=5)}, []),
    "read as numbers": (ONE_SHORT, {"Postal code": ColumnUse("number")}, []),
    "padded too little": (ONE_SHORT, {"Postal code": ColumnUse(pads_to=4)}, ["R223"]),
    "postal codes as decimal numbers": (
        {"Postal code": ["20457.0", "SW1A 1AA", "1010,00"]},
        {"Postal code": ColumnUse()},
        ["R253"],
    ),
    "words for no value": (
        {"Company": ["Fix AG", "NULL", "nan"]},
        {"Company": ColumnUse(sends=("NULL", "nan"))},
        ["R254"],
    ),
    "words for no value that count as blank": ({"Company": ["NULL"]}, {"Company": ColumnUse(sends=("nan",))}, []),
    "texts with such words": ({"Company": ["Null", "nan bread"]}, {"Company": ColumnUse(sends=("nan",))}, []),
    "order numbers as decimal numbers": (
        {"Order": ["80001", "80002,00", "80003"]},
        {"Order": ColumnUse(is_key=True)},
        ["R253"],
    ),
    "telephone numbers as decimal numbers": (
        {"Phone": ["491701234567.0", "", "n/a"]},
        {"Phone": ColumnUse()},
        ["R253"],
    ),
    "versions and sizes in texts": ({"Size": ["100.0", "99.5", "2.0"]}, {"Size": ColumnUse()}, []),
    "prices in texts": ({"Price": ["100,00", "1200,00"]}, {"Price": ColumnUse()}, []),
    "numbers with decimals": ({"Postal code": ["20457.0"]}, {"Postal code": ColumnUse("number")}, []),
    "a date among words": (WORDS, {}, ["R224"]),
    "a date among words of a date column": (WORDS, {"Day": ColumnUse("moment")}, []),
}


@pytest.mark.parametrize(("columns", "uses", "codes"), USES.values(), ids=USES)
def test_warnings_depend_on_how_a_column_is_used(columns, uses, codes):
    assert list(warnings_about(columns, uses)) == codes


def test_date_styles_are_named_as_the_column_declares_them():
    formats = [("YY-MM-DD", format_parser("%y-%m-%d", None)), ("DD.MM.YYYY", format_parser("%d.%m.%Y", None))]
    short = ["26-05-19", "05-06-07", "27-12-31"]
    assert warnings_about({"Day": short}, {"Day": ColumnUse("moment", 0, (formats[0],))}) == {}
    found = warnings_about({"Day": [*short, "19.05.2026"]}, {"Day": ColumnUse("moment", 0, tuple(formats))})
    assert found["R225"].values["styles"] == "YY-MM-DD (3, rows 2, 3, 4); DD.MM.YYYY (1, row 5)"
    assert found["R225"].values["rows"] == "row 5", "those that differ from most"
    assert "2026-03-01" not in found["R225"].hint, "its mapping does not read this style"


DATE = dt.date(2026, 5, 3)
TYPED = {  # the cells of a workbook, the number format of its numbers, and code, example and row of the warning
    "a number among codes with zeros": (["01067", 8056, "04109"], "", ("R223", "8056", 3)),
    "numbers that a format fills with zeros": ([1067, 8056, 10115], "00000", None),
    "a real date among texts": (["A-1", "7-Z", DATE, "B-2"], "", ("R224", "2026-05-03", 4)),
    "real dates": ([DATE, DATE], "", None),
    "a number stored as text": ([1, 2.5, "3.7", 4], "", ("R227", "3.7", 4)),
    "a text among numbers": ([1, "A", 3], "", None),
    "zeros of a format before a long number": (
        [37613032110910342, 123456789012345], "0" * 18, ("R222", "037613032110910340", 2)),
}  # fmt: skip


@pytest.mark.parametrize(("cells", "code", "expected"), TYPED.values(), ids=TYPED)
def test_typed_cells_of_a_workbook_show_what_was_lost(tmp_path, cells, code, expected):
    found = warnings_about_workbook(tmp_path, cells, code)
    assert [(one.code, one.found, one.where.row) for one in found] == ([expected] if expected else [])


def test_real_dates_beside_dates_as_text_are_two_styles(tmp_path):
    (warning,) = warnings_about_workbook(tmp_path, [DATE, DATE, "04.05.2026"])
    assert warning.code == "R225"
    assert "real dates (2, rows 2, 3)" in warning.values["styles"]
    assert "best as 2026-03-01" in warning.hint


def test_letters_of_the_wrong_code_page_are_shown_as_they_may_have_been():
    assert "may have been 'M\u2019s'" in warnings_about({"Item": ["M\x92s"]})["R226"].hint
    assert "may have been 'Müller & Söhne'" in warnings_about({"Item": ["M&uuml;ller &amp; S&ouml;hne"]})["R226"].hint
    assert "may have been '1 Main St Leeds'" in warnings_about({"Item": ["1 Main St_x000D_Leeds"]})["R226"].hint
    assert "may have been 'Fragile no stack'" in warnings_about({"Item": ["Fragile<br/><b>no</b> stack"]})["R226"].hint
    assert "may have been" not in warnings_about({"Item": ["東\x92"]})["R226"].hint


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("code", ["General", "00000"])
def test_a_long_id_that_is_a_number_has_lost_digits_whatever_its_last_ones_are(tmp_path, form, code):
    kept, long = Typed(123456789012345, code), Typed(376130321109103427, code)
    path = WRITERS[form](tmp_path / f"a.{form}", [Sheet([["Item"], [kept], [long]])])
    (warning,) = warnings_of(open_one(path, layout("Item")))
    assert (warning.code, warning.values["rows"]) == ("R222", "row 3")
    assert "lose their last digits" in warning.text


@pytest.mark.parametrize("form", WRITERS)
@given(number=st.integers(0, 10**19) | st.integers(0, 10**15))
@ONE_FOLDER
def test_a_whole_number_is_read_as_it_was_written_or_pointed_out(tmp_path, form, number):
    path = WRITERS[form](tmp_path / f"a.{form}", [Sheet([["Item"], [Typed(number)]])])
    table = open_one(path, layout("Item"))
    ((cell,),) = [row.cells for row in table.rows()]
    codes = [warning.code for warning in warnings_of(table)]
    assert cell == str(number) or codes == ["R222"]
    assert (codes == ["R222"]) == (number >= 10**15)


def test_a_second_pass_shows_the_same_and_many_rows_are_counted_not_listed(tmp_path):
    cells = [f"{number}.5E+12" for number in range(9)] * 400
    table = open_one(text_file(tmp_path, "\n".join(["Item", *cells])), layout("Item"))
    damage_checks = DamageChecks(table)
    for _ in range(2):
        assert sum(1 for _ in damage_checks.watch(table.rows())) == 3_600
        (warning,) = damage_checks.problems()
        assert warning.values == {"count": 3600, "rows": "rows 2, 3, 4, 5, 6 and 3,595 more"}


def test_rows_that_begin_with_a_word_for_sums_are_pointed_out():
    columns = {
        "Order": ["A1", "Total", "A2", "Summe:", "Total Energies", "Subtotal", "Overall Total", "Total général"],
        "Notes": ["x", "", "Total", "", "", "", "", ""],
    }
    warning = warnings_about(columns)["R242"]
    assert (warning.where.column, warning.values["rows"], warning.found) == ("Order", "rows 3, 5, 7, 8, 9", "Total")
    assert "totals: begins_with" in warning.hint
    assert warnings_about({"Order": ["A1", "Total Energies"], "Notes": ["Total", "Total"]}) == {}


def test_subtotals_of_pivot_tables_are_pointed_out(tmp_path):
    rows = "Customer;Order;City;Kg\nAcme;A1;Ulm;12,5\n;A2;Ulm;7\nAcme Total;;;19,5\nGas Total;A3;Bonn;7\nBeta Ergebnis;;;7\n"
    (warning,) = warnings_of(open_one(text_file(tmp_path, rows), layout("Order", "City", "Kg", delimiters=(";",))))
    assert (warning.code, warning.values["rows"], warning.found) == ("R242", "rows 4, 6", "Acme Total")


def test_subtotals_of_the_second_level_are_pointed_out_but_no_records_that_are_named_like_them(tmp_path):
    rows = "Customer;Order;City;Kg\nAcme;A1;Ulm;12,5\n;A1 Total;;7\n;Total;;19,5\nAcme;Gas Total;Bonn;7\nBeta;Total;Kiel;7\n"
    wanted = layout("Customer", "Order", "City", "Kg", delimiters=(";",))
    (warning,) = warnings_of(open_one(text_file(tmp_path, rows), wanted))
    assert (warning.code, warning.values["rows"], warning.found) == ("R242", "rows 3, 4", "A1 Total")


def test_stars_that_mark_records_are_no_totals(tmp_path):
    rows = "Urgent;Order;Kg\n*;A1;12,5\n;A2;7\n*;;19,5\n"
    (warning,) = warnings_of(open_one(text_file(tmp_path, rows), layout("Order", "Kg", delimiters=(";",))))
    assert (warning.code, warning.values["rows"]) == ("R242", "row 4")


def test_stars_in_a_column_before_those_of_the_mapping_are_totals_too(tmp_path):
    rows = "|Delivery |Order |Kg   |\n|80001    |A1    |12,5 |\n|*        |      |12,5 |\n"
    (warning,) = warnings_of(open_one(text_file(tmp_path, rows), layout("Order", delimiters=("|",))))
    assert (warning.code, warning.values["rows"], warning.found) == ("R242", "row 3", "*")


@given(st.lists(st.text(max_size=20), max_size=30))
def test_any_texts_pass_and_every_warning_is_a_sentence(cells):
    assert all(problem.text and problem.hint for problem in warnings_about({"c": cells}).values())


def test_only_wanted_columns_are_looked_at(tmp_path):
    assert warnings_of(open_one(text_file(tmp_path, "Item;Note\nA;4.1E+12\n"), layout("Item"))) == ()


def test_identifiers_are_compared_with_a_limited_number_of_others():
    looks = LookAlikes()
    assert not any(looks.add(f"SO-{number}") for number in range(1, 30_000))
    assert (looks.add("SO-1O7"), looks.first) == (True, "SO-107")
    assert not looks.add("the last that is remembered")
    assert not looks.add("SO-1O8")

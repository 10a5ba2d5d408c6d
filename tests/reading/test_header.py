"""The header is found by its labels, whatever stands above it and however it is written; what is missing is named."""

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_corpus import inline, layout, open_one, refusal, rows_of, text_file, workbook_parts, write_parts
from reading_writers import WRITERS, Sheet

from loadsheet.reading import Layout, WantedColumn, fold_label
from loadsheet.reading.header import find_header

SAME = {  # labels that are one label
    "strasse": ["Straße", "STRASSE", " strasse * ", "Stras\u00adse:", "\ufeffStraße", "'Straße'", "Straße.", "\nStraße\u00a0"],
    "order no": ["Order\nno.", "order no"],
    "gewicht (kg)": ["Gewicht  (kg)"],
    "empfanger": ["Empfänger"],
    "etat": ["E\u0301tat", "état"],
    "delai de livraison": ["Délai\u00a0de\u2009livraison"],
    "jour d'enlevement": ["Jour d\u2019enlèvement"],
    'ship-to - "name': ["Ship\u2011to \u2013 \u201cname\u201d"],
    **{label: [label.title()] for label in ("order", "order #", "weight (kg)", "weight (lb)", "item1", "item2")},
}  # fmt: skip


def test_labels_are_compared_without_case_accents_space_and_punctuation_around():
    assert {folded: [fold_label(label) for label in labels] for folded, labels in SAME.items()} == {
        folded: [fold_label(folded)] * len(labels) for folded, labels in SAME.items()
    }
    assert len({fold_label(folded) for folded in SAME}) == len(SAME)


def test_titles_units_and_blank_rows_may_stand_above_the_header(tmp_path):
    text = "Acme GmbH,,\n\nOrders of March,,\n,,(kg)\nOrder no *,City:,WEIGHT\nA1,Ulm,2\n"
    table = open_one(text_file(tmp_path, text), layout("Order no", "Weight"))
    assert (table.header_row, table.header) == (5, ("Order no *", "City:", "WEIGHT"))
    assert table.columns == {"Order no": 0, "Weight": 2}
    assert table.reading_notes["rows above the header"] == "3"


def test_the_header_row_can_be_given_and_may_lie_deep(tmp_path):
    path = text_file(tmp_path, "Order,City\nOrder,City\nA1,Ulm\n")
    assert [row.number for row in rows_of(path, layout("Order"))] == [2, 3]
    assert [row.number for row in rows_of(path, layout("Order", header_row=2))] == [3]
    problem = refusal(path, layout("Order", header_row=3))
    assert (problem.code, problem.where.row) == ("R204", 3)
    path = text_file(tmp_path, "x\n" * 200 + "Order\nA1\n")
    assert [row.cells for row in rows_of(path, layout("Order", header_row=201))] == [("A1",)]
    assert refusal(path, layout("Order")).code == "R215"


def test_the_closest_row_and_the_missing_labels_are_named(tmp_path):
    """A label that is nearly there is pointed at."""
    path = text_file(tmp_path, "Report\nOrder,Wieght,Town\nA1,1,Ulm\n")
    problem = refusal(path, layout("Order", "City", "Weight"))
    assert problem.text == "no row holds the mapped columns; row 2 comes closest but lacks City, Weight"
    assert problem.hint == (
        "add the columns City, Weight, or name their new headings under `aliases`; "
        'for Weight, did you mean "Wieght"?; the row holds: Order, Wieght, Town'
    )


def test_aliases_stand_in_for_the_label(tmp_path):
    asked = Layout("rows", (WantedColumn("order", ("Order", "Auftrag", "Bestellung")),))
    assert open_one(text_file(tmp_path, "Ort;BESTELLUNG\nUlm;A1\n"), asked).columns == {"order": 1}


def test_optional_columns_may_be_missing_and_further_ones_are_fine(tmp_path):
    asked = layout("Order", "City", optional=("City",))
    assert open_one(text_file(tmp_path, "x,Order,y\n1,A1,2\n"), asked).columns == {"Order": 1}
    asked = layout("Order", "City", optional=("Order", "City"))  # the row with most columns is the header
    assert open_one(text_file(tmp_path, "City\nOrder,City\nA1,Ulm\n"), asked).header_row == 2


def test_a_mapped_column_that_stands_twice_is_refused_with_both_places(tmp_path):
    problem = refusal(text_file(tmp_path, "Order,City,order:\nA1,Ulm,A2\n"), layout("Order"))
    assert problem.code == "R211"
    assert '"Order" (column 1), "order:" (column 3)' in problem.text
    unmapped = text_file(tmp_path, "Order,x,,x\nA1,1,2,3\n")  # which may stand twice, or have no label
    assert len(rows_of(unmapped, layout("Order"))) == 1


def test_label_and_alias_side_by_side_are_refused_but_not_if_the_alias_is_a_column_of_its_own(tmp_path):
    path = text_file(tmp_path, "Order,Reference\nA1,B1\n")
    order = WantedColumn("order", ("Order", "Reference"))
    problem = refusal(path, Layout("rows", (order,)))
    assert (problem.code, problem.found) == ("R211", "Order"), "the heading, not the mapping's name of the column"
    asked = Layout("rows", (order, WantedColumn("reference", ("Reference",))))
    assert open_one(path, asked).columns == {"order": 0, "reference": 1}


def test_blank_labels_at_the_end_are_no_columns(tmp_path):
    first, second = rows_of(text_file(tmp_path, "Order,City, ,\nA1,Ulm,,\nA2,Ulm,note,\n"), layout("Order"))
    assert (first.cells, first.problem) == (("A1", "Ulm"), None)
    assert second.problem.code == "R205"


def test_too_wide_a_header_is_refused_with_the_limit(tmp_path):
    text = ",".join(f"c{number}" for number in range(2_001))
    assert "2,001 columns; at most 2,000" in refusal(text_file(tmp_path, text), layout("c0")).text


def test_a_form_has_no_header_row_and_the_sheets_looked_at_are_named(tmp_path):
    sheets = (("Form", "visible"), ("Notes", "visible"))
    parts = workbook_parts(inline("Ship to", "Acme", number=1) + inline("Town", "Ulm", number=2), sheets=sheets)
    problem = refusal(write_parts(tmp_path / "form.xlsx", parts), layout("Order", "City"))
    assert problem.text == (
        "no header row found: none of the first 50 rows of the file holds one of the labels Order, City"
    )
    assert "looked at the sheets Form, Notes" in problem.hint


# ---- labels over several rows ----

GROUPED = "Order,Consignee,,Shipper,\n,Name,City,Name,City\nA1,Acme,Ulm,Beta,Bonn\n"


def test_labels_spread_over_two_rows_are_read_as_one(tmp_path):
    table = open_one(text_file(tmp_path, GROUPED), layout("Order", "Consignee / City", "Shipper City"))
    assert table.header == ("Order", "Consignee / Name", "Consignee / City", "Shipper / Name", "Shipper / City")
    assert table.columns == {"Order": 0, "Consignee / City": 2, "Shipper City": 4}
    assert (table.header_row, table.reading_notes["header row"], table.reading_notes["rows above the header"]) == (
        2,
        "1 to 2",
        "0",
    )
    assert [row.cells for row in table.rows()] == [("A1", "Acme", "Ulm", "Beta", "Bonn")]


def test_merged_header_cells_of_a_workbook_reach_as_far_as_they_are_merged(tmp_path):
    workbook = openpyxl.Workbook()
    for row in (["Report"], ["Order", "Consignee", None, "Weight"], [None, "Name", "City"], ["A1", "Acme", "Ulm", "2"]):
        workbook.active.append(row)
    for area in ("A2:A3", "B2:C2", "D2:D3"):
        workbook.active.merge_cells(area)
    workbook.save(tmp_path / "orders.xlsx")
    table = open_one(tmp_path / "orders.xlsx", layout("Order", "Consignee / City", "Weight"))
    assert table.columns == {"Order": 0, "Consignee / City": 2, "Weight": 3}
    assert (table.reading_notes["header row"], table.reading_notes["rows above the header"]) == ("2 to 3", "1")


FIVE = "Order,Route,,,\n,From,,To,\n,Place,,Place,\n,of,,of,\n,City,Zip,City,Zip\nA1,Ulm,1,Bonn,2\n"
ZIP = "Route / To / Place / of / Zip"
FOUND = {  # the text, the labels that are asked for, how, where they are found, and the first row of the table
    "five rows where the mapping says so": (FIVE, ("Order", ZIP), {"header_rows": 5}, (0, 4), 6),
    "two rows where the first holds all that is required": (
        "Order,Consignee,\n,Name,City\nA1,Bo,Ulm\n",
        ("Order", "Consignee / Name", "Consignee / City"),
        {"header_rows": 2, "optional": ("Consignee / Name", "Consignee / City")},
        (0, 1, 2),
        3,
    ),
    "one row with all labels under a title": ("Consignee,\nOrder,City\nA1,Ulm\n", ("Order", "City"), {}, (0, 1), 3),
    "joined labels in one row, as in a fix file": (
        "Order,Consignee / City,Shipper: City\nA1,Ulm,Bonn\n",
        ("Order", "Consignee City", "Shipper City"),
        {"header_rows": 2},
        (0, 1, 2),
        2,
    ),
    "the given row is the first of several": (
        "Order,City\nOrder,Consignee\n,City\nA1,Ulm\n",
        ("Order", "Consignee City"),
        {"header_row": 2, "header_rows": 2},
        (0, 1),
        4,
    ),
    "the first row of data is not a declared row of the header": ("Order,City\n,Ulm\nA2,Bonn\n", ("Order", "City"), {"header_rows": 2}, (0, 1), 2),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_labels_are_found_in_as_many_rows_as_hold_them(tmp_path, case):
    text, labels, how, places, first = FOUND[case]
    table = open_one(text_file(tmp_path, text), layout(*labels, **how))
    assert table.columns == dict(zip(labels, places, strict=True))
    assert next(table.rows()).number == first


def test_a_lower_label_that_stands_under_two_groups_is_refused_with_both_places(tmp_path):
    problem = refusal(text_file(tmp_path, GROUPED), layout("Order", "City"))
    assert problem.code == "R211"
    assert '"City" (column 3), "City" (column 5)' in problem.text


def test_a_column_is_never_read_for_two_labels(tmp_path):
    path = text_file(tmp_path, "Order,Consignee\n,City\nA1,Ulm\n")
    problem = refusal(path, layout("Order", "Consignee / City", "City"))
    assert (problem.code, problem.values["missing"]) == ("R204", "City")
    assert "looked at the sheets" not in problem.hint


SPREAD = [["Order", "Consignee", ""], [], ["", "Name", "City"], [], ["", "", "(main)"], ["A1", "Bo", "Ulm"]]
SPREAD_LABELS = ("Order", "Consignee / Name", "Consignee / City / (main)")


@pytest.mark.parametrize("optional", [(), SPREAD_LABELS])
@pytest.mark.parametrize("how", [{}, {"header_row": 1}, {"header_rows": 5}, {"header_row": 1, "header_rows": 5}])
def test_labels_over_several_rows_with_blank_rows_among_them_are_found(tmp_path, how, optional):
    lines, commas = (
        text_file(tmp_path, "".join((",".join(row) or blank) + "\n" for row in SPREAD), name)
        for name, blank in (("lines.csv", ""), ("commas.csv", ",,"))
    )
    book = WRITERS["xlsx"](tmp_path / "orders.xlsx", [Sheet([row or [None] for row in SPREAD])])
    for path in (lines, commas, book):
        table = open_one(path, layout(*SPREAD_LABELS, optional=optional, **how))
        assert (table.columns, table.reading_notes["header row"]) == (
            dict(zip(SPREAD_LABELS, range(3), strict=True)),
            "1 to 5",
        )
        assert [row.cells for row in table.rows()] == [("A1", "Bo", "Ulm")]


words = st.text("abc ", max_size=3)


@given(
    st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=6),
    st.lists(words.filter(str.strip), min_size=1, max_size=3, unique=True),
)
def test_a_header_stands_within_its_rows_whatever_they_hold(rows, labels):
    asked = layout(*labels)
    header = find_header(enumerate(rows, 1), asked)
    assert header.top <= header.row <= len(rows)
    assert all(0 <= place < len(header.labels) for places in header.positions.values() for place in places)
    assert set(header.positions) | {column.name for column in header.missing} == {
        column.name for column in asked.columns
    }

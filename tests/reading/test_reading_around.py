"""What stands around a table and between its rows is ignored by rule and counted: no row of a file vanishes, none is an order by mistake."""

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_corpus import inline, layout, open_one, refusal, rows_of, text_file, workbook_parts, write_parts

from loadsheet.reading import Layout, WantedColumn
from loadsheet.reading.header import find_header, mark_stray_rows
from loadsheet.reading.layouts import RowFilters
from loadsheet.reading.tables import Row


def fates(path, asked):
    """Row number -> the rule that leaves it out, `row` for a row of the table, or the code of its problem."""
    return {row.number: row.ignored or (row.problem.code if row.problem else "row") for row in rows_of(path, asked)}


def around(*labels, **rules):
    return layout(*labels, row_filters=RowFilters(**rules))


def book(folder, *rows, merged=()):
    path, workbook = folder / "orders.xlsx", openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    for area in merged:
        workbook.active.merge_cells(area)
    workbook.save(path)
    return path


# ---- labels over several rows ----

GROUPED = "Order,Consignee,,Shipper,\n,Name,City,Name,City\nA1,Acme,Ulm,Beta,Bonn\n"
BOTH = layout("Order", "Consignee / City", "Shipper City")


def test_labels_spread_over_two_rows_are_read_as_one(tmp_path):
    table = open_one(text_file(tmp_path, GROUPED), BOTH)
    assert table.header == ("Order", "Consignee / Name", "Consignee / City", "Shipper / Name", "Shipper / City")
    assert table.columns == {"Order": 0, "Consignee / City": 2, "Shipper City": 4}
    assert (table.header_row, table.found["header row"], table.found["rows above the header"]) == (2, "1 to 2", "0")
    assert [row.cells for row in table.rows()] == [("A1", "Acme", "Ulm", "Beta", "Bonn")]


def test_merged_header_cells_of_a_workbook_reach_as_far_as_they_are_merged(tmp_path):
    rows = (
        ["Report"],
        ["Order", "Consignee", None, "Weight"],
        [None, "Name", "City", None],
        ["A1", "Acme", "Ulm", "2"],
    )
    path = book(tmp_path, *rows, merged=("A2:A3", "B2:C2", "D2:D3"))
    table = open_one(path, layout("Order", "Consignee / City", "Weight"))
    assert table.columns == {"Order": 0, "Consignee / City": 2, "Weight": 3}
    assert (table.found["header row"], table.found["rows above the header"]) == ("2 to 3", "1")


def test_five_rows_of_labels_are_read_where_the_mapping_says_so(tmp_path):
    text = "Order,Route,,,\n,From,,To,\n,Place,,Place,\n,of,,of,\n,City,Zip,City,Zip\nA1,Ulm,1,Bonn,2\n"
    table = open_one(text_file(tmp_path, text), layout("Order", "Route / To / Place / of / Zip", header_rows=5))
    assert table.columns == {"Order": 0, "Route / To / Place / of / Zip": 4}
    assert [row.number for row in table.rows()] == [6]


def test_one_row_with_all_labels_is_the_header_even_under_a_title(tmp_path):
    table = open_one(text_file(tmp_path, "Consignee,\nOrder,City\nA1,Ulm\n"), layout("Order", "City"))
    assert (table.header, table.found["header row"]) == (("Order", "City"), "2")


def test_joined_labels_are_found_in_one_row_too_where_several_are_asked_for(tmp_path):
    """A file that was given back to its sender holds the joined labels in one row."""
    text = "Order,Consignee / City,Shipper: City\nA1,Ulm,Bonn\n"
    asked = layout("Order", "Consignee City", "Shipper City", header_rows=2)
    assert open_one(text_file(tmp_path, text), asked).columns == {"Order": 0, "Consignee City": 1, "Shipper City": 2}


def test_a_lower_label_that_stands_under_two_groups_is_refused_with_both_places(tmp_path):
    problem = refusal(text_file(tmp_path, GROUPED), layout("Order", "City"))
    assert problem.code == "R211"
    assert '"City" (column 3), "City" (column 5)' in problem.text


def test_a_column_is_never_read_for_two_labels(tmp_path):
    problem = refusal(
        text_file(tmp_path, "Order,Consignee\n,City\nA1,Ulm\n"), layout("Order", "Consignee / City", "City")
    )
    assert (problem.code, problem.values["missing"]) == ("R204", "City")


def test_the_row_that_is_given_is_the_first_of_several(tmp_path):
    text = "Order,City\nOrder,Consignee\n,City\nA1,Ulm\n"
    asked = layout("Order", "Consignee City", header_row=2, header_rows=2)
    assert [row.number for row in rows_of(text_file(tmp_path, text), asked)] == [4]


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


# ---- refusals ----


def test_a_label_that_is_nearly_there_is_pointed_at(tmp_path):
    problem = refusal(text_file(tmp_path, "Order,Wieght,Town\nA1,1,Ulm\n"), layout("Order", "Weight", "City"))
    assert problem.hint == 'for Weight, did you mean "Wieght"?; the row holds: Order, Wieght, Town'


def test_a_form_has_no_header_row_and_the_sheets_looked_at_are_named(tmp_path):
    sheets = (("Form", "visible"), ("Notes", "visible"))
    parts = workbook_parts(inline("Ship to", "Acme", number=1) + inline("Town", "Ulm", number=2), sheets=sheets)
    problem = refusal(write_parts(tmp_path / "form.xlsx", parts), layout("Order", "City"))
    assert problem.text == (
        "no header row found: none of the first 50 rows of the file holds one of the labels Order, City"
    )
    assert "looked at the sheets Form, Notes" in problem.hint


# ---- around the rows ----


@pytest.mark.parametrize("units", [",kg,m", ",(Stück),[mm]", ",KG,", "(no.),(gross),(each)"])
def test_a_units_row_is_seen_and_counted(tmp_path, units):
    path = text_file(tmp_path, f"Order,Weight,Length\n{units}\nA1,2,3\n")
    assert fates(path, layout("Order", "Weight", "Length")) == {
        2: "units_row: auto (the first row under the header holds nothing but units)",
        3: "row",
    }


@pytest.mark.parametrize("first", ["A1,kg,m", ",2,3", ",kg,3", "(12),(3),(4)", "kg,kg,m"])
def test_a_row_of_the_table_is_no_units_row(tmp_path, first):
    path = text_file(tmp_path, f"Order,Weight,Length\n{first}\nA1,2,3\n")
    assert fates(path, layout("Order", "Weight", "Length")) == {2: "row", 3: "row"}


def test_a_units_row_can_be_declared_or_denied(tmp_path):
    path = text_file(tmp_path, "Order,Weight\ntext,number\n,kg\nA1,2\n")
    assert fates(path, around("Order", "Weight", units_row=True))[2] == "units_row: the first row under the header"
    path = text_file(tmp_path, "Order,Weight\n,kg\nA1,2\n")
    assert fates(path, around("Order", "Weight", units_row=False)) == {2: "row", 3: "row"}


def test_comments_are_ignored_wherever_they_stand_and_whatever_they_hold(tmp_path):
    text = '# Order,City\nOrder,City\n# it\'s 5" long\nA1,"Ulm"\n  #,x,y,z\nA#2,Bonn\n'
    assert fates(text_file(tmp_path, text), around("Order", "City", comment="#")) == {
        3: "comment: #",
        4: "row",
        5: "comment: #",
        6: "row",
    }


def test_a_comment_mark_inside_a_value_over_several_lines_is_no_comment(tmp_path):
    path = text_file(tmp_path, 'Order,City\nA1,"Ulm\n#5"\nA2,Bonn\n')
    assert [row.cells[1] for row in rows_of(path, around("Order", "City", comment="#"))] == ["Ulm\n#5", "Bonn"]


def test_totals_are_ignored_between_groups_by_whole_words(tmp_path):
    text = "Order,City,Kg\nA1,Ulm,1\nTotal Ulm:,,1\nB1,Bonn,2\n,SUMME,3\nTotally,Köln,4\n"
    asked = around("Order", "City", "Kg", totals=("Total", "Summe"))
    assert fates(text_file(tmp_path, text), asked) == {
        2: "row",
        3: "totals: begins with total",
        4: "row",
        5: "totals: begins with summe",
        6: "row",
    }


def test_a_footer_ends_the_table_and_each_of_its_rows_is_counted(tmp_path):
    text = "Order,City\nA1,Ulm\n\nSource: Acme\nB1,Bonn\na,b,c,d\n"
    rule = "footer: row 4 begins with source, and all below"
    asked = around("Order", "City", footer=("Source",))
    assert fates(text_file(tmp_path, text), asked) == {2: "row", 4: rule, 5: rule, 6: rule}


def test_without_a_rule_notes_below_the_table_are_rows_and_refused(tmp_path):
    assert fates(text_file(tmp_path, "Order,City\nA1,Ulm\n\nSource: Acme\n"), layout("Order", "City")) == {
        2: "row",
        4: "R205",
    }


def test_a_table_that_stops_at_a_blank_row_stops_there_in_every_format(tmp_path):
    rows = (["Order", "City"], [], ["A1", "Ulm"], ["A2", "a\nb"], ["A3", "Bonn"], [], ["checked", "by me"])
    asked = around("Order", "City", stop_at_blank=True)
    text = 'Order,City\n\nA1,Ulm\nA2,"a\nb"\nA3,Bonn\n\nchecked,by me\n'
    kept = fates(text_file(tmp_path, text), asked)
    assert kept == {3: "row", 4: "row", 6: "row", 8: "stop_at_blank: below row 6"}
    assert fates(book(tmp_path, *rows), asked) == {3: "row", 4: "row", 5: "row", 7: "stop_at_blank: below row 5"}


def test_a_row_that_reading_ends_at_is_said_whatever_the_rules_say(tmp_path):
    path = write_parts(
        tmp_path / "a.xlsx",
        workbook_parts(inline("Order", number=1) + inline("A1", number=2) + inline("x", number=4000)),
    )
    assert fates(path, around("Order", stop_at_blank=True)) == {2: "row", 4000: "R214"}


def test_a_header_that_stands_in_the_data_again_is_ignored(tmp_path):
    text = "Order,City\nA1,Ulm\nOrder,City \nA2,Bonn\nOrder,Berlin\n"
    expected = {2: "row", 3: "the header once more", 4: "row", 5: "row"}
    assert fates(text_file(tmp_path, text), layout("Order", "City")) == expected


@pytest.mark.parametrize(
    "again",
    ["\ufeffOrder,Ship to,City", "ORDER,SHIP TO,CITY", "Order ,Ship  to,City *", '\ufeff"Order","Ship to","City"'],
)
def test_a_header_that_stands_in_the_data_again_is_known_as_a_header_is(tmp_path, again):
    text = f"Order,Ship to,City\nA1,x,Ulm\n{again}\nA2,x,Bonn\norder,Ship to,Bonn\n"
    expected = {2: "row", 3: "the header once more", 4: "row", 5: "row"}
    assert fates(text_file(tmp_path, text), layout("Order", "City")) == expected


def test_a_value_of_the_only_column_is_a_header_only_letter_by_letter(tmp_path):
    path = text_file(tmp_path, "Note\nnote\nNote\n\ufeffNote\n")
    expected = {2: "row", 3: "the header once more", 4: "the header once more"}
    assert fates(path, layout("Note")) == expected


def test_two_files_put_together_are_one_table(tmp_path):
    one, two = ("\ufeffOrder;Ship to\n" + rows for rows in ("A1;Ulm\nA2;Bonn\n", "A3;Trier\n"))
    rows = rows_of(text_file(tmp_path, one + two), layout("Order"))
    assert [row.cells[0] for row in rows if not row.ignored] == ["A1", "A2", "A3"]


@given(
    st.lists(
        st.none() | st.lists(st.sampled_from(["", "a", "kg", "Order", "Total", "# x", "Note"]), min_size=2, max_size=2)
    )
)
def test_every_row_that_goes_in_comes_out_once_in_order(lines):
    rules = RowFilters(comment="#", totals=("Total",), footer=("Note",), stop_at_blank=True)
    asked = Layout("rows", (WantedColumn("Order", ("Order",)),), row_filters=rules)
    rows = [line and Row(number, tuple(line)) for number, line in enumerate(lines, 2)]
    found = list(mark_stray_rows(rows, asked, find_header([(1, ["Order", "City"])], asked)))
    assert [row[:2] for row in found] == [row[:2] for row in rows if row]
    assert all(row.ignored or row.cells == tuple(lines[row.number - 2]) for row in found)

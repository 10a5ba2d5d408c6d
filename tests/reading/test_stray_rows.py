"""Rows around and between those of a table are ignored by rule and counted: no row of a file vanishes, none is an order by mistake."""

import re
from functools import partial

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_corpus import inline, layout, rows_of, text_file, workbook_parts, write_parts

from loadsheet.errors import FileRefused
from loadsheet.problems import Where
from loadsheet.reading import Layout, WantedColumn
from loadsheet.reading.header import find_header
from loadsheet.reading.row_filters import mark_stray_rows
from loadsheet.reading.tables import Row, RowFilters

AUTO = "units_row: auto (the first row under the header holds only units)"
AGAIN = "repeated header"
LINE = "separator line"
PAGE = "page number"
FOOTER = "footer: row 4 begins with source, and all below"


def fates(path, asked):
    """Row number -> the rule that leaves it out, `row` for a row of the table, or the code of its problem."""
    return {row.number: row.ignored or (row.problem.code if row.problem else "row") for row in rows_of(path, asked)}


CASES = {  # the labels, the rules, the text, and the fate of each row
    "units": ("Order,Kg,M", {}, ",kg,m\nA1,2,3", {2: AUTO, 3: "row"}),
    "units in brackets": ("Order,Kg,M", {}, ",(Stück),[mm]\nA1,2,3", {2: AUTO, 3: "row"}),
    "units in capitals": ("Order,Kg,M", {}, ",KG,\nA1,2,3", {2: AUTO, 3: "row"}),
    "nothing but brackets": ("Order,Kg,M", {}, "(no.),(gross),(each)\nA1,2,3", {2: AUTO, 3: "row"}),
    "units beside an order": ("Order,Kg,M", {}, "A1,kg,m\nA1,2,3", {2: "row", 3: "row"}),
    "values without an order": ("Order,Kg,M", {}, ",2,3\nA1,2,3", {2: "row", 3: "row"}),
    "a unit and a value": ("Order,Kg,M", {}, ",kg,3\nA1,2,3", {2: "row", 3: "row"}),
    "numbers in brackets": ("Order,Kg,M", {}, "(12),(3),(4)\nA1,2,3", {2: "row", 3: "row"}),
    "an order named as a unit": ("Order,Kg,M", {}, "kg,kg,m\nA1,2,3", {2: "row", 3: "row"}),
    "units declared": ("Order,Kg", {"units_row": True}, "text,number\nA1,2", {2: "units_row: the first row under the header", 3: "row"}),
    "units denied": ("Order,Kg", {"units_row": False}, ",kg\nA1,2", {2: "row", 3: "row"}),
    "comments": ("Order,City", {"comment": "#"}, '# it\'s 5" long\nA1,"Ulm"\n  #,x,y,z\nA#2,Bonn', {2: "comment: #", 3: "row", 4: "comment: #", 5: "row"}),
    "a comment mark inside a value": ("Order,City", {"comment": "#"}, 'A1,"Ulm\n#5"\nA2,Bonn', {2: "row", 4: "row"}),
    "totals by whole words": (
        "Order,City,Kg",
        {"totals": ("Total", "Summe")},
        "A1,Ulm,1\nTotal Ulm:,,1\nB1,Bonn,2\n,SUMME,3\nTotally,Köln,4",
        {2: "row", 3: "totals: begins with total", 4: "row", 5: "totals: begins with summe", 6: "row"},
    ),
    "a footer": ("Order,City", {"footer": ("Source",)}, "A1,Ulm\n\nSource: Acme\nB1,Bonn\na,b,c,d", {2: "row", 4: FOOTER, 5: FOOTER, 6: FOOTER}),
    "a note without a rule": ("Order,City", {}, "A1,Ulm\n\nSource: Acme", {2: "row", 4: "R205"}),
    "lines between rows": ("Order,City,Kg", {}, "-----,---,---\nA1,Ulm,1\n=====\n---,,\n--,,\n-,-,-\n---,Ulm,1", {2: LINE, 3: "row", 4: LINE, 5: LINE, 6: "row", 7: "row", 8: "row"}),
    "a line below the amounts only": ("Order,City,Kg", {}, "A1,Ulm,1\n,,-----\n ,,=====\n,,5", {2: "row", 3: LINE, 4: LINE, 5: "row"}),
    "page numbers": (
        "Order,City,Kg", {}, "A1,Ulm,1\nPage 1 of 18\nA2,,\n,,- Seite 2/3 -\nPage 3,Bonn,\nPage one\n,Página 4,",
        {2: "row", 3: PAGE, 4: "row", 5: PAGE, 6: "row", 7: "R205", 8: PAGE},
    ),
    "a page number as the only cell": ("Order", {}, "Page 1\nA2", {2: "row", 3: "row"}),
    "the header again": ("Order,City", {}, "A1,Ulm\nOrder,City \nA2,Bonn\nOrder,Berlin", {2: "row", 3: AGAIN, 4: "row", 5: "row"}),
    "the header in capitals": ("Order,Ship to", {}, "ORDER,SHIP TO\nA1,x", {2: AGAIN, 3: "row"}),
    "the header with other punctuation": ("Order,Ship to", {}, "Order ,Ship  to *\nA1,x", {2: AGAIN, 3: "row"}),
    "the header of a second file": ("Order,Ship to", {}, "A1,x\n\ufeffOrder,Ship to\nA2,y", {2: "row", 3: AGAIN, 4: "row"}),
    "and quoted": ("Order,Ship to", {}, 'A1,x\n\ufeff"Order","Ship to"\nA2,y', {2: "row", 3: AGAIN, 4: "row"}),
    "the header three signs longer": ("Order,City", {}, "Order   ,City\nA1,Ulm", {2: AGAIN, 3: "row"}),
    "the header three signs shorter": ("Order * ,City", {}, "Order,City\nA1,Ulm", {2: AGAIN, 3: "row"}),
    "the header over two lines": ("Order,City", {}, '"Order\n  ",City\nA1,Ulm', {2: AGAIN, 4: "row"}),
    "the only label, letter by letter": ("Note", {}, "note\nNote\n\ufeffNote", {2: "row", 3: AGAIN, 4: AGAIN}),
}  # fmt: skip


@pytest.mark.parametrize(("header", "rules", "text", "expected"), CASES.values(), ids=CASES)
def test_each_row_is_of_the_table_or_ignored_with_its_rule(tmp_path, header, rules, text, expected):
    asked = layout(*(label.strip(" *") for label in header.split(",")), row_filters=RowFilters(**rules))
    assert fates(text_file(tmp_path, f"{header}\n{text}\n"), asked) == expected


LIST = """\
26.11.2026     Deliveries to be shipped     Page    1

--------
|Order|City|
--------
|A1|Ulm|
{}
|A2|Bonn|
"""
PAGES = {
    "the next page": ("--------\n27.11.2026   Deliveries to be shipped    Page   12\n\n--------\n|Order|City|\n--------", "repeated title"),
    "no header below": ("27.11.2026   Deliveries to be shipped    Page   12", "R205"),
    "another text": ("27.11.2026   Deliveries to be collected    Page   12\n|Order|City|", "R205"),
}  # fmt: skip


@pytest.mark.parametrize(("between", "fate"), PAGES.values(), ids=PAGES)
def test_the_title_of_a_further_page_is_ignored_above_its_header(tmp_path, between, fate):
    path = text_file(tmp_path, LIST.format(between))
    asked = layout("Order", "City", delimiters=("|",))
    found = [said for said in fates(path, asked).values() if said != LINE]
    assert found == ["row", fate, *([AGAIN] if "|Order|" in between else []), "row"]


@pytest.mark.parametrize(
    ("line", "fate"),
    [
        ("Deliveries, 27.11.2026   Page 2 of 3", "page number"),
        ("Liste S-Seite 2/3 -;;", "page number"),
        ("Seite 2 von 3, gedruckt von Ann;;", "page number"),
        ("Deliveries, 27.11.2026   Page 2", "R205"),
        (";Catalogue, page 2 of 3;", "row"),
        ("Page 2 of 3;Ulm;", "row"),
        ("Homepage 2 of 3;;", "row"),
        ("Page 2 of 3rd;;", "row"),
    ],
)
def test_a_line_with_the_number_of_a_page_of_all_is_ignored_without_a_title_above_the_headings(tmp_path, line, fate):
    path = text_file(tmp_path, f"Order;City;Kg\nA1;Ulm;1\n{line}\nA2;Bonn;2\n")
    assert list(fates(path, layout("Order", "City", "Kg", delimiters=(";",))).values()) == ["row", fate, "row"]


TITLED = "Pick list of Monday;;\nPrinted;27.11.2026;Wave 3\n\nOrder;City;Kg\n"
TITLES = {  # the rows between two orders, and their fates
    "the titles again": (f"{TITLED}", ["repeated title", "repeated title", AGAIN]),
    "with another day and wave": (
        TITLED.replace("27", "28").replace("3", "4"),
        ["repeated title", "repeated title", AGAIN],
    ),
    "without a header": (TITLED.partition("Order")[0], ["row", "row"]),
    "other texts": (TITLED.replace("Printed", "Picked"), ["row", "row", AGAIN]),
    "fewer cells": (TITLED.replace(";Wave 3", " Wave 3;"), ["row", "row", AGAIN]),
}


@pytest.mark.parametrize(("between", "expected"), TITLES.values(), ids=TITLES)
def test_titles_of_several_rows_and_cells_are_ignored_above_the_header_of_a_page(tmp_path, between, expected):
    path = text_file(tmp_path, f"{TITLED}A1;Ulm;1\n{between}A2;Bonn;2\n")
    asked = layout("Order", "City", "Kg", delimiters=(";",))
    assert list(fates(path, asked).values()) == ["row", *expected, "row"]


def test_a_comment_above_the_header_is_no_header(tmp_path):
    path = text_file(tmp_path, "# Order,City\nOrder,City\nA1,Ulm\n")
    assert fates(path, layout("Order", "City", row_filters=RowFilters(comment="#"))) == {3: "row"}


def test_the_mark_of_dos_at_the_end_of_a_file_is_no_row(tmp_path):
    assert fates(text_file(tmp_path, "Order,City\nA1,Ulm\n\x1a"), layout("Order", "City")) == {2: "row"}


def test_a_table_that_stops_at_a_blank_row_stops_there_in_every_format(tmp_path):
    asked = layout("Order", "City", row_filters=RowFilters(stop_at_blank=True))
    text = 'Order,City\n\nA1,Ulm\nA2,"a\nb"\nA3,Bonn\n\nchecked,by me\n'
    kept = fates(text_file(tmp_path, text), asked)
    assert kept == {3: "row", 4: "row", 6: "row", 8: "stop_at_blank: below row 6"}
    workbook = openpyxl.Workbook()
    for row in (["Order", "City"], [], ["A1", "Ulm"], ["A2", "a\nb"], ["A3", "Bonn"], [], ["checked", "by me"]):
        workbook.active.append(row)
    workbook.save(tmp_path / "orders.xlsx")
    kept = fates(tmp_path / "orders.xlsx", asked)
    assert kept == {3: "row", 4: "row", 5: "row", 7: "stop_at_blank: below row 5"}


def test_a_row_that_reading_ends_at_is_reported_whatever_the_rules_say(tmp_path):
    rows = inline("Order", number=1) + inline("A1", number=2) + inline("x", number=4000)
    path = write_parts(tmp_path / "a.xlsx", workbook_parts(rows))
    assert fates(path, layout("Order", row_filters=RowFilters(stop_at_blank=True))) == {2: "row", 4000: "R214"}


AT = partial(Where, "a.csv", "")


@pytest.mark.parametrize(
    ("row", "other"),
    [
        ("Order;To;From;Kg", '"To" in the column of "From"'),
        ("Pos;Order;From;To;Kg", '"Pos" in the column of "Order"'),
        ("Order;From;To;Lb", '"Lb" in the column of "Kg"'),
        ("order;From;To;Kg", ""),
        ("Order;From;To;", ""),
        ("From;To;York;5", ""),
        ("Kg;Order;From;", '"Kg" in the column of "Order"'),
        ("Order;From;To;7", '"7" in the column of "Kg"'),
    ],
)
def test_rows_below_the_headings_of_another_table_are_never_read_into_wrong_columns(tmp_path, row, other):
    """As where a second export, with other columns, was put below the first one."""
    path = text_file(tmp_path, f"Order;From;To;Kg\nA-1;Hull;York;5\n{row}\nA-2;Hull;York;6\n")
    asked = layout("Order", "From", "To", "Kg")
    if not other:
        assert list(fates(path, asked)) == [2, 3, 4]
        return
    with pytest.raises(FileRefused, match=f"row 3 holds headings again, with {re.escape(other)}"):
        rows_of(path, asked)


@given(
    st.lists(
        st.none() | st.lists(st.sampled_from(["", "a", "kg", "Order", "Total", "# x", "Note"]), min_size=2, max_size=2)
    )
)
def test_every_row_that_goes_in_comes_out_once_in_order(lines):
    rules = RowFilters(comment="#", totals=("Total",), footer=("Note",), stop_at_blank=True)
    asked = Layout("rows", (WantedColumn("Order", ("Order",)),), row_filters=rules)
    rows = [line and Row(number, tuple(line)) for number, line in enumerate(lines, 2)]
    found = list(mark_stray_rows(rows, asked, find_header([(1, ["Order", "City"])], asked), AT))
    assert [row[:2] for row in found] == [row[:2] for row in rows if row]
    assert all(row.ignored or row.cells == tuple(lines[row.number - 2]) for row in found)

"""Where a rule of reading begins and ends: one value on each side."""

import zipfile

import pytest
from reading_corpus import layout, refusal, rows_of, text_file, workbook_parts, write_parts

from loadsheet.reading.layouts import bounds_of
from loadsheet.reading.opening import read_tops
from loadsheet.settings import Settings

ASKED = layout("Order", "City")
OFFSETS = {"method": 8, "checksum": 14, "packed size": 18, "size": 22}  # in the header in front of a part


@pytest.mark.parametrize("told", OFFSETS)
def test_a_part_whose_own_header_says_something_else_than_the_directory_is_refused(tmp_path, told):
    path = write_parts(tmp_path / "orders.xlsx", workbook_parts(texts=("x",)))
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        content[archive.infolist()[-1].header_offset + OFFSETS[told]] ^= 7
    path.write_bytes(content)
    assert refusal(path, ASKED).code == "R235"


@pytest.mark.parametrize(("first", "again"), [("Order", "Order   "), ("Order * ", "Order"), ("Order", '"Order\n  "')])
def test_a_header_once_more_may_be_three_characters_longer_or_shorter(tmp_path, first, again):
    rows = rows_of(text_file(tmp_path, f"{first},City\nA1,Ulm\n{again},City\nA2,Bonn\n"), ASKED)
    assert [row.ignored for row in rows] == ["", "the header once more", ""]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a;b,c\nd;e,f\n", ";"),
        ("a;b,c,d\ne;f,g,h\n", ","),
        ("a;b,c\nd;e\n", ";"),
        ("a;b,c\nd,e\n", ","),
        ("a\tb;c\n", "\t"),
    ],
)
def test_the_delimiter_that_makes_most_cells_is_taken_and_of_two_alike_the_first(tmp_path, text, delimiter):
    (top,) = read_tops(text_file(tmp_path, text), "orders.csv", bounds_of(Settings()))
    assert top.delimiter == delimiter

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.control_characters import visible
from loadsheet.reports.report_files import CELL_MAX, csv_line, csv_row, csv_text, sheet_text

PAYLOADS = (
    "=1+1",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "=cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "  =1+1",
    '"=1+1',
    "'=1+1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0dA1",
    "\uff20SUM(1)",
    "x;=1+1",
    "x\n=1+1",
    "x\t@SUM(1)",
    "x|=1+1",
    "+49 170=1",
    '=HYPERLINK("http://evil.example","x")',
    "-2+3+cmd|' /C calc'!A0",
)
NUMBERS = ("-5", "-5,20", "+4.25", "1.234,5", "12 000", "-1e6", "3%", "0", "01067")


@pytest.mark.parametrize("text", PAYLOADS)
def test_no_reader_sees_a_formula(text):
    written = csv_text(text)
    for delimiter in (",", ";", "\t", "|"):
        lines = written.replace("\r", "\n").split("\n")  # as a reader that does not see our quotes
        cells = [cell for line in csv.reader(lines, delimiter=delimiter) for cell in line]
        for cell in cells:
            assert cell.lstrip(' "\u201c')[:1] not in tuple("=+-@\uff1d\uff0b\uff0d\uff20"), (written, delimiter)
            assert cell[:1] not in ("\t", "\r", "\n")


@pytest.mark.parametrize("text", [*NUMBERS, "", "Kabel", "A-00001", "2026-03-04", "a@b.example", "Nord-Süd", "5 = 5"])
def test_numbers_and_ordinary_texts_stay_as_they_are(text):
    assert csv_text(text) == text
    assert csv_line(["x", text, "y"]) == ["x", text, "y"]


@given(st.lists(st.text(st.sampled_from("ab1=+-@;\t\n '\"|.\uff1d"), max_size=6), max_size=5))
def test_a_line_is_the_same_as_its_texts(texts):
    assert list(csv_line(texts)) == [csv_text(text) for text in texts]


@given(
    st.lists(
        st.text(st.sampled_from("ab1=+-@;,\t\r\n '\"|.\uff1d\uff0d\u201c\xa0\0\x1b\x9b\u202e"), max_size=6),
        min_size=2,
        max_size=5,
    )
)
def test_a_row_is_what_a_csv_writer_makes_of_the_line(texts):
    written = io.StringIO(newline="")
    csv.writer(written).writerow(csv_line([visible(text) for text in texts]))
    assert csv_row(texts) == written.getvalue()


def test_a_row_for_people_keeps_tabs_and_line_ends_and_shows_control_characters():
    kept, hidden = "two\nlines\tand\r\n\u200cش\xa0é", "\0\x1b[2J\x7f\x9b\u202eevil\u2066\u200f"
    assert next(csv.reader(io.StringIO(csv_row([kept, hidden]), newline=""))) == [
        kept,
        "\ufffd\ufffd[2J\ufffd\ufffd\ufffdevil\ufffd\ufffd",
    ]


def test_a_text_too_long_for_a_cell_is_cut_with_a_mark():
    assert sheet_text("x" * CELL_MAX) == "x" * CELL_MAX
    cut = sheet_text("x" * (CELL_MAX + 1))
    assert len(cut) == CELL_MAX
    assert cut.endswith("(cut, 32768 characters)")
    wide = sheet_text("\U0001f69a" * 20_000)
    assert len(wide.encode("utf-16-le")) // 2 <= CELL_MAX

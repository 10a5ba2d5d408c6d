"""Report files appear whole or not at all, lines keep their order, and foreign text stays text."""

import csv
import gc
import io
import ntpath
import os
import sys
from contextlib import ExitStack, suppress
from pathlib import PureWindowsPath

import openpyxl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_disk import small_disk

from loadsheet.display_text import show_controls
from loadsheet.errors import FolderError
from loadsheet.reports.fix_workbook.fix_sheets import native_value
from loadsheet.reports.report_files import (
    CELL_MAX,
    Spool,
    check_writable,
    csv_line,
    csv_row,
    csv_text,
    distinct_name,
    safe_name,
    sheet_text,
    written_atomically,
)
from loadsheet.reports.sheets import Column, Kind, TableSheet, open_book, write_cell


def test_a_file_appears_whole_and_replaces_the_earlier_one_which_stays_if_writing_fails(tmp_path):
    target = tmp_path / "new" / "report.csv"
    for text in ("first", "second"):
        with written_atomically(target) as part:
            part.write_text(text, encoding="utf-8")
            assert not target.exists() or target.read_text(encoding="utf-8") == "first"
        assert target.read_text(encoding="utf-8") == text
    with suppress(ZeroDivisionError), written_atomically(target) as part:
        part.write_text("half", encoding="utf-8")
        raise ZeroDivisionError
    assert target.read_text(encoding="utf-8") == "second"
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_for_reports_is_made_or_refused_with_what_to_do(tmp_path, monkeypatch):
    check_writable(tmp_path / "new" / "outbox")
    assert (tmp_path / "new" / "outbox").is_dir()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FolderError, match=r"outbox \(it is read-only\); nothing was read or sent. Fix the folder"):
        check_writable(tmp_path / "new" / "outbox")
    (tmp_path / "file").write_text("a file, not a folder", encoding="utf-8")
    with (
        pytest.raises(FolderError, match=r"file/report\.csv cannot be written"),
        written_atomically(tmp_path / "file" / "report.csv"),
    ):
        pass


NAMES = {  # how a shipper calls a file, and what its reports are called after
    "orders.csv": "orders.csv",
    "CONTRACT.csv": "CONTRACT.csv",
    "nord/März 2026 (2).xlsx": "nord__März 2026 (2).xlsx",
    "/abs/x.csv": "abs__x.csv",
    "a\x00b\n<c>:*?.csv": "a_b__c____.csv",
    "...": "_",
    "": "_",
}
ODD_NAMES = (
    *(
        "../../etc/passwd",
        "..\\..\\x.csv",
        "C:\\Users\\acme\\CON",
        "CON",
        "con.csv",
        "Aux.2026.xlsx",
        "nul",
        "COM1.csv",
    ),
    *("LPT¹.csv", "prn .csv", "NUL/CON.csv", "trailing. . ", " .hidden", "a" * 149 + " b", "x:y|z?*.csv", "a\tb\n.csv"),
    "ü" * 300,
)


def is_reserved(path):
    """Whether Windows keeps this name for itself, on every version of Python."""
    return ntpath.isreserved(path) if sys.version_info >= (3, 13) else path.is_reserved()


@pytest.mark.parametrize("name", [*NAMES, *ODD_NAMES])
def test_a_shippers_name_gives_a_file_in_the_folder_on_windows_too(name):
    assert safe_name(name) == NAMES.get(name, safe_name(name))
    assert len(safe_name(name).encode()) <= 150
    assert not safe_name(name).startswith(".")
    for ending in ("", ".results.csv", ".fix.xlsx"):
        made = PureWindowsPath(safe_name(name) + ending)
        assert not is_reserved(made)
        assert (made.anchor, len(made.parts)) == ("", 1)
        assert made.name == made.name.rstrip(" .")
        assert not set(made.name) & set('<>:"/\\|?*\t\n')


def test_names_that_differ_only_in_case_or_in_how_accents_are_composed_are_kept_apart():
    taken = set()
    names = ["Märkte", "MÄRKTE", "Ma\u0308rkte", "märkte-2"]
    made = [distinct_name(name, ".csv", taken) for name in names]
    assert made == ["Märkte.csv", "MÄRKTE-2.csv", "Ma\u0308rkte-3.csv", "märkte-2-2.csv"]


LONG = 3_000  # so that a few hundred do not fit into a block


def lines(numbers, length):
    return [(number, f"{number}:{place}:".encode().ljust(length, b".") + b"\n") for place, number in enumerate(numbers)]


@pytest.mark.parametrize("length", [10, LONG])
@pytest.mark.parametrize(
    "numbers", [range(400), [*range(200, 400), *range(200)], [7, 7, 3, 7, 3], [5], []], ids=lambda one: str(len(one))
)
def test_lines_come_out_by_number_and_those_of_one_number_as_they_came(numbers, length):
    came = lines(numbers, length)
    wanted = sorted(came, key=lambda line: line[0])
    with ExitStack() as stack:
        spool = Spool(stack)
        for number, line in came:
            spool.add(number, line)
        assert list(spool.lines()) == wanted
        assert list(spool.lines()) == wanted  # as often as it is wanted


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


@example(["a\rb", "x"])
@given(
    st.lists(
        st.text(st.sampled_from("ab1=+-@;,\t\r\n '\"|.\uff1d\uff0d\u201c\xa0\0\x1b\x9b\u202e"), max_size=6),
        min_size=2,
        max_size=5,
    )
)
def test_a_row_is_what_a_csv_writer_makes_of_the_line(texts):
    assert list(csv_line(texts)) == [csv_text(text) for text in texts]
    written = io.StringIO(newline="")
    csv.writer(written).writerow(csv_line([show_controls(text) for text in texts]))
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


def write_book(path, rows):
    with open_book(path, title="Some", footer="some") as book:
        sheet = TableSheet(book, "Some", [Column("a")], overflow=path.with_suffix(".csv"))
        for number in range(rows):
            sheet.add([f"{number} {number * 7919 % 104_729}"])
        sheet.finish("nothing")


def test_a_number_of_a_workbook_keeps_all_its_digits(tmp_path):
    number, _ = native_value("0.30000000000000004", ("number", "0.30000000000000004"), "yyyy-mm-dd")
    with open_book(tmp_path / "book.xlsx", title="Some", footer="some") as book:
        write_cell(book.sheet("Some"), 0, 0, number, book.style(Kind.NUMBER))
    assert openpyxl.load_workbook(tmp_path / "book.xlsx")["Some"]["A1"].value == 0.1 + 0.2


@pytest.mark.parametrize(("left", "rows"), [(16 * 1024, 4_000), (4096, 10)])
def test_a_workbook_on_a_full_disk_fails_once_and_says_nothing_more(tmp_path, monkeypatch, left, rows):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with small_disk(tmp_path / "disk", mb=1) as disk:
        disk.fill(left=left)
        with pytest.raises(FolderError, match="No space left on device"):
            write_book(disk.folder / "book.xlsx", rows)
        gc.collect()
        assert [path.name for path in disk.folder.iterdir()] == ["filler"]
        disk.free()
        write_book(disk.folder / "book.xlsx", 10)
        assert openpyxl.load_workbook(disk.folder / "book.xlsx")["Some"].max_row == 11
    assert [one.exc_value for one in said] == []

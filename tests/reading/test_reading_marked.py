"""Fix files are known by their marks, whatever they are called; no other file has one, and none does harm."""

import os
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading_corpus import inline, workbook_parts, write_parts

from loadsheet.fix_marks import PROPERTY, Mark, RowMark
from loadsheet.reading.fix_file_tables import mark_of, mark_of_text

MOST = 10_000_000
MARK = Mark("2026-03-04-01", 3, "0123456789abcdef", "acme & sons <é>")
PROPERTIES = (
    '<?xml version="1.0" encoding="UTF-8"?>{before}<Properties xmlns:vt="vt">'
    '<property name="Owner"><vt:lpwstr>1 2026-01-01-01/9 aaaaaaaaaaaaaaaa nobody</vt:lpwstr></property>'
    '<property name="{name}"><vt:lpwstr>{text}</vt:lpwstr></property><property name="More"><vt:i4>7</vt:i4></property>'
    "</Properties>"
)


def properties(text, *, name=PROPERTY, before=""):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return PROPERTIES.format(text=escaped, name=name, before=before)


def book(path, part, name="docProps/custom.xml"):
    parts = workbook_parts(inline("Order", number=1) + inline("A1", number=2))
    return write_parts(path, {**parts, name: part})


def test_a_mark_is_read_as_it_was_written(tmp_path):
    assert mark_of(book(tmp_path / "any name.zip", properties(str(MARK))), MOST) == MARK


def test_another_letter_case_of_the_part_is_the_same_part(tmp_path):
    assert mark_of(book(tmp_path / "a.xlsx", properties(str(MARK)), "DocProps/Custom.xml"), MOST) == MARK


@pytest.mark.parametrize(
    "part",
    [
        properties(str(MARK), name="Owner"),
        properties("not a mark"),
        properties(str(MARK))[:150],
        properties(str(MARK), before='<!DOCTYPE x [<!ENTITY a "b">]>'),
        properties(str(MARK)) + " " * (1 << 19),
        "",
        "\0\1\2",
    ],
)
def test_what_is_no_mark_or_cannot_be_read_is_none(tmp_path, part):
    assert mark_of(book(tmp_path / "a.xlsx", part), MOST) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("seek", [lambda path: mark_of(path, MOST), mark_of_text])
def test_a_link_is_not_followed_and_a_pipe_not_waited_for(tmp_path, seek):
    os.mkfifo(tmp_path / "pipe.xlsx")
    (tmp_path / "link.xlsx").symlink_to(book(tmp_path / "real.xlsx", properties(str(MARK))))
    assert [seek(tmp_path / name) for name in ("pipe.xlsx", "link.xlsx")] == [None, None]


@pytest.mark.parametrize(
    "content", [b"", b"PK", b"PK\3\4", b"PK\3\4" + b"x" * 1000, b"Order;Weight\n", b"\xd0\xcf\x11\xe0"]
)
def test_other_files_have_no_mark(tmp_path, content):
    path = tmp_path / "a.xlsx"
    path.write_bytes(content)
    assert mark_of(path, MOST) is None


def test_a_bomb_has_no_mark(tmp_path):
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("docProps/custom.xml", properties(str(MARK)))
        archive.writestr("xl/workbook.xml", b" " * (MOST + 1))
    assert mark_of(path, MOST) is None


def test_a_folder_and_a_file_that_is_gone_have_no_mark(tmp_path):
    assert mark_of(tmp_path, MOST) is None
    assert mark_of(tmp_path / "gone.xlsx", MOST) is None
    assert mark_of_text(tmp_path / "gone.csv") is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_first_mark_of_a_text_file_is_found(tmp_path, encoding, delimiter):
    rows = [["What to fix", "Straße", "_row"], ["a note", "12:30", ""], ["", "x", "88:2/3"], ["", "y", "89:1/1"]]
    path = tmp_path / "a.fix.csv"
    path.write_text("\r\n".join(delimiter.join(row) for row in rows), encoding=encoding, newline="")
    assert mark_of_text(path).mark == RowMark(88, 2, 3)


@pytest.mark.parametrize("text", ["", "Order,Weight\n1,2\n", "Order,_row\n1,2\n", "Order,row\n1,88:2/3\n"])
def test_other_texts_have_none(tmp_path, text):
    path = tmp_path / "a.fix.csv"
    path.write_text(text, encoding="utf-8")
    assert mark_of_text(path) is None


@pytest.mark.parametrize(
    "text", ["1 x/9 0123456789abcdef m", f"1 2026-03-04-01/{'9' * 5000} 0123456789abcdef m", "1 2026-03-04-01/1 0123 m"]
)
def test_a_mark_that_nobody_wrote_is_none(text):
    assert Mark.read(text) is None
    assert RowMark.read(f"{'9' * 5000}:1/1") is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_spoiled_workbook_does_no_harm(tmp_path, data):
    content = bytearray(book(tmp_path / "a.xlsx", properties(str(MARK))).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "b.xlsx"
    path.write_bytes(content[: data.draw(st.integers(4, len(content)))])
    found = mark_of(path, MOST)
    assert found is None or isinstance(found, Mark)

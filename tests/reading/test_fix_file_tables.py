"""Fix files are known by their marks, whatever they are called; their tables are read as those that they were made from."""

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading_corpus import inline, workbook_parts, write_parts
from xlwt.CompoundDoc import XlsDoc

from loadsheet.problems import Problem
from loadsheet.reading.fix_file_tables import (
    OriginalTable,
    as_original,
    as_originals,
    first_mark,
    has_row_marks,
    mark_of,
    mark_of_text,
)
from loadsheet.reading.tables import Native, Row, Table
from loadsheet.workbook_marks import ORIGINAL_COLUMNS, PROPERTY, FixedEntry, Mark, RowMark

# ---- the mark of a file ----
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


def test_a_mark_is_read_as_it_was_written_whatever_the_letter_case_of_its_part(tmp_path):
    assert mark_of(book(tmp_path / "any name.zip", properties(str(MARK))), MOST) == MARK
    assert mark_of(book(tmp_path / "a.xlsx", properties(str(MARK)), "DocProps/Custom.xml"), MOST) == MARK


def xls(path, *texts, encoding="utf-16-le"):
    """An .xls of one stream, which holds these texts as document properties, between other bytes."""
    stream = b"\xfe\xff\0\0" + b"".join(text.encode(encoding) + b"\0\0\x1f\0\0\0" for text in texts)
    XlsDoc().save(path, stream)
    name = "\x05DocumentSummaryInformation".encode("utf-16-le")
    content, entry = path.read_bytes(), "Workbook\0".encode("utf-16-le")
    place = content.index(entry)
    entry = name.ljust(64, b"\0") + (len(name) + 2).to_bytes(2, "little")
    path.write_bytes(content[:place] + entry + content[place + len(entry) :])
    return path


@pytest.mark.parametrize("encoding", ["utf-16-le", "latin-1"])
def test_a_mark_is_read_from_an_xls(tmp_path, encoding):
    path = xls(tmp_path / "a.xls", "Owner", PROPERTY, "nobody", str(MARK), "more", encoding=encoding)
    assert mark_of(path, MOST)[:3] == MARK[:3]
    assert mark_of(xls(path, "Owner", str(MARK)), MOST) is None, "another property"
    assert mark_of(xls(path, PROPERTY, "nobody"), MOST) is None
    path.write_bytes(xls(path, PROPERTY, str(MARK)).read_bytes()[:700])
    assert mark_of(path, MOST) is None, "cut off"


NO_MARKS = (
    properties(str(MARK), name="Owner"),
    properties("not a mark"),
    properties("1 x/9 0123456789abcdef m"),
    properties(f"1 2026-03-04-01/{'9' * 5000} 0123456789abcdef m"),
    properties("1 2026-03-04-01/1 0123 m"),
    properties(str(MARK))[:150],
    properties(str(MARK), before='<!DOCTYPE x [<!ENTITY a "b">]>'),
    properties(str(MARK)) + " " * (1 << 19),
    *("", "\0\1\2"),
)


def test_other_properties_and_files_and_bombs_have_no_mark(tmp_path):
    path = tmp_path / "a.xlsx"
    for part in NO_MARKS:
        assert mark_of(book(path, part), MOST) is None, part
    for content in (b"", b"PK", b"PK\3\4", b"PK\3\4" + b"x" * 1000, b"Order;Weight\n", b"\xd0\xcf\x11\xe0"):
        path.write_bytes(content)
        assert mark_of(path, MOST) is None, content
    bomb = {"docProps/custom.xml": properties(str(MARK)), "xl/workbook.xml": b" " * (MOST + 1)}
    assert mark_of(write_parts(path, bomb), MOST) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("seek", [lambda path: mark_of(path, MOST), mark_of_text])
def test_a_link_is_not_followed_a_pipe_not_waited_for_and_what_is_no_file_has_no_mark(tmp_path, seek):
    os.mkfifo(tmp_path / "pipe.xlsx")
    (tmp_path / "link.xlsx").symlink_to(book(tmp_path / "real.xlsx", properties(str(MARK))))
    assert [seek(tmp_path / name) for name in ("pipe.xlsx", "link.xlsx", ".", "missing.xlsx")] == [None] * 4


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_first_mark_of_a_text_file_is_found(tmp_path, encoding, delimiter):
    rows = [["What to fix", "Straße", "_row"], ["a note", "12:30", ""], ["", "x", "88:2/3"], ["", "y", "89:1/1"]]
    path = tmp_path / "a.fix.csv"
    path.write_text("\r\n".join(delimiter.join(row) for row in rows), encoding=encoding, newline="")
    assert mark_of_text(path).mark == RowMark(88, 2, 3)


@pytest.mark.parametrize(
    "text",
    ["", "Order,Weight\n1,2\n", "Order,_row\n1,2\n", "Order,row\n1,88:2/3\n", f"Order,_row\n1,{'9' * 5000}:1/1\n"],
)
def test_other_texts_have_none(tmp_path, text):
    path = tmp_path / "a.fix.csv"
    path.write_text(text, encoding="utf-8")
    assert mark_of_text(path) is None


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


# ---- tables as they were made from ----
HEADER = ("Order", "Kind", "Weight")
KNOWN = {1: FixedEntry("A-1"), 2: FixedEntry("A-2"), 3: FixedEntry("A-3", may_lose_rows=True)}


def fixed(rows, header=("What to fix", *HEADER, "_row"), *, name="rows", sheet="Orders", original=HEADER, wanted=None):
    """Rows of (cells..., mark), numbered from 2, as the table of a fix file."""
    kept = [Row(number, tuple(cells)) for number, cells in enumerate(rows, 2)]
    columns = wanted or {label.lower(): place for place, label in enumerate(header) if label in HEADER}
    table = Table(name, "a.fix.xlsx", sheet, tuple(header), 1, columns, lambda: iter(kept), {"format": "xlsx"})
    return as_original(table, OriginalTable(tuple(original), "first/a.xlsx") if original else None)


def row(order, mark, weight="1"):
    return ("see", order, "BOX", weight, mark)


def taken(*tables):
    """Per table its rows, and the text of each problem by the number of its row."""
    found = as_originals(tables, lambda wanted: {entry: KNOWN[entry] for entry in wanted if entry in KNOWN})
    rows = {name: list(table.rows()) for name, table in found.tables.items()}
    return rows, {name: {one.number: one.problem.text for one in own if one.problem} for name, own in rows.items()}


def test_the_original_comes_back_without_what_was_put_beside_it():
    """Rows that hold nothing but remarks and marks are passed over, and typed cells stay typed."""
    typed = ("see", "A-1", Native("2026-03-01", "date"), Native("1.5", "number"), "1:1/1")
    found = fixed([typed, ("note", "", " ", "", "")])
    table = found.table
    assert (table.where(7, 2).cell, table.where(7, 2).column, table.where(7).cell) == ("D7", "Weight", "")
    assert (table.header, table.columns) == (HEADER, {"order": 0, "kind": 1, "weight": 2})
    assert table.first_name == "first/a.xlsx"
    assert table.reading_notes == {"format": "xlsx", ORIGINAL_COLUMNS: "B, C, D"}
    rows, wrong = taken(found)
    assert [(row.number, row.cells) for row in rows["rows"]] == [(2, ("A-1", "2026-03-01", "1.5"))]
    assert rows["rows"][0].natives == ((1, "date", "2026-03-01"), (2, "number", "1.5"))
    assert wrong == {"rows": {}}
    marks = as_originals([found], dict).marks
    assert [marks.mark_of("rows", number) for number in (1, 2, 9)] == [None, RowMark(1, 1, 1), None]


def test_columns_may_be_moved_added_and_left_out():
    """A column that is not there any more is blank; one that the original lacked and the mapping wants stands behind the others."""
    header = ("order ", "Weight", "notes", "_row")
    table = fixed([("A-1", "9", "mine", "1:1/1")], header, wanted={"weight": 1, "order": 0}).table
    assert (table.header, table.columns) == (HEADER, {"weight": 2, "order": 0})
    assert [table.where(2, place).cell for place in range(3)] == ["A2", "", "B2"]
    assert table.reading_notes[ORIGINAL_COLUMNS] == "A, -, B"
    table = fixed([], ("What to fix", "Value", *HEADER, "_row"), wanted={"value": 1, "order": 2}).table
    assert (table.header, table.columns) == ((*HEADER, "Value"), {"value": 3, "order": 0})
    assert fixed([], original=None).table.header == ("What to fix", *HEADER)


MORE_THAN_ONCE, LACKS = "a row of {} appears here more than once: rows {}", "{} lacks row {}"
WRONG = {  # the rows as order and mark, and what is wrong with each
    "two rows with one mark": (
        [("A-1", "1:1/2"), ("A-1", "1:2/2"), ("A-1", "1:1/2"), ("A-2", "2:1/1")],
        dict.fromkeys((2, 4), MORE_THAN_ONCE.format("A-1", "2, 4")),
    ),
    "a row that was emptied": ([("A-1", "1:1/2"), ("", "1:2/2")], {2: LACKS.format("A-1", "2 of 2")}),
    "a row that may be deleted is missing": ([("A-3", "3:1/3")], {}),
    "a row that may be deleted is there twice": ([("A-3", "3:1/3"), ("A-3", "3:1/3")], dict.fromkeys((2, 3), MORE_THAN_ONCE.format("A-3", "2, 3"))),
    "an entry that is not there at all": ([("A-1", "1:1/1"), ("B-7", "77:1/1")], {}),
    "rows without mark": ([("A-9", ""), ("A-9", "")], {}),
    **{
        f"no mark of ours: {text[:12]}": ([("A-1", text), ("A-1", text)], {})
        for text in ("x", "1:0/2", "1:3/2", "1:1/99999999", "9" * 70 + ":1/1", "1:1/1x", "-1:1/1")
    },
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), WRONG.values(), ids=WRONG)
def test_marks_show_which_rows_are_missing_or_there_twice(rows, expected):
    cells = [row(order, mark) if order else ("see", "", "", "", mark) for order, mark in rows]
    read, wrong = taken(fixed(cells))
    assert wrong == {"rows": expected}
    assert len(read["rows"]) == sum(bool(order) for order, _ in rows)


def test_an_unreadable_row_keeps_its_own_problem():
    table = fixed([row("A-1", "1:1/2")])
    spoiled = [Row(2, ("see", "A-1", "B", "1", "1:1/2"), Problem("R201", values={"reason": "bad"}))]
    table = as_original(
        Table("rows", "a", "S", table.source.header, 1, {"order": 1}, lambda: iter(spoiled), {}),
        OriginalTable(HEADER, "a"),
    )
    _, wrong = taken(table)
    assert wrong == {"rows": {2: "the file cannot be read: bad"}}


def ignored(*rows, needed=(0, 2)):
    table = replace(fixed([*rows]), needed=frozenset(needed))
    return [row.number for row, _ in table.marked_rows() if row.ignored]


def test_remarks_are_below_all_rows_and_could_not_be_rows():
    first, remark = row("A-1", "1:1/1"), ("", "Regards", "", "", "")
    assert ignored(first, remark, ("", "", "Ann", "", "")) == [3, 4]
    assert ignored(first, remark, row("A-2", "")) == [], "rows of the sender's own follow"
    assert ignored(first, remark, needed=[0]) == [], "its one value is all that a row needs"
    assert ignored(first, ("", "SO 12", "", "", "")) == ignored(first, ("", "A", "BOX", "", "")) == []
    assert ignored(first, ("", Native("true", "flag"), "", "", "")) == []
    assert ignored(first, ("", "Regards", "", "", "1:2/2")) == []


def test_tables_with_marks_are_known():
    source = fixed([row("A-1", ""), row("A-1", "1:1/2")]).source
    assert has_row_marks(source)
    assert first_mark(source) == RowMark(1, 1, 2)
    assert not has_row_marks(fixed([], ("What to fix", *HEADER)).source)


@given(st.permutations([(entry, number) for entry in (3, 4, 5) for number in (1, 2, 3)]))
def test_sorted_rows_come_back_in_their_old_order(order):
    rows, wrong = taken(fixed([row(f"{entry}/{number}", f"{entry}:{number}/3") for entry, number in order]))
    assert [one.cells[0] for one in rows["rows"]] == [f"{entry}/{number}" for entry, number in sorted(order)]
    assert wrong == {"rows": {}}
    assert sorted(one.number for one in rows["rows"]) == list(range(2, 11)), "each still knows where it stands"


def test_a_new_row_stays_below_the_one_that_it_was_put_under():
    rows, _ = taken(fixed([row("b", "4:1/1"), row("new", ""), row("a", "3:1/1")]))
    assert [one.cells[0] for one in rows["rows"]] == ["a", "b", "new"]

"""What a fix workbook holds is read back as what it was in the source: every text, and every number, date, time and flag."""

import re
from contextlib import closing
from datetime import datetime

from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadsheet.languages import words_in
from loadsheet.reading import Layout, WantedColumn, open_tables
from loadsheet.reading.number_formats import parse_format, plain_number, read_number
from loadsheet.reports.fix_workbook import fix_sheets
from loadsheet.reports.fix_workbook.fix_sheets import FixBook, FixRow, FixSheet, RowRemark
from loadsheet.reports.sheets import open_book
from loadsheet.settings import Settings

LABELS = ("Order", "Text", "Typed")
LAYOUT = Layout("orders", tuple(WantedColumn(label, (label,)) for label in LABELS), header_row=1)

texts = st.one_of(
    st.sampled_from(
        ["=1+1", "@x", "-5", "+1", "01067", "1.234,5", "<r>&</r>", "<r><t>x</t></r>", "_x0041_", " a ", "\n"]
    ),
    st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=20),
)
moments = st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31)).map(lambda one: one.replace(microsecond=0))
natives = st.one_of(
    st.integers(-(10**15) + 1, 10**15 - 1).map(lambda one: ("number", str(one))),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda one: ("number", plain_number(repr(one)))),
    moments.map(lambda one: ("datetime", one.isoformat(" "))),
    moments.map(lambda one: ("date", one.date().isoformat())),
    moments.map(lambda one: ("time", one.time().isoformat())),
    st.sampled_from([("flag", "true"), ("flag", "false")]),
)
remarks = st.lists(
    st.builds(RowRemark, st.sampled_from([None, 0, 1, 2]), st.just("c"), st.just("error"), *[texts] * 3), max_size=2
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(texts, natives, remarks), min_size=1, max_size=5),
    st.sampled_from([words_in("en"), words_in("de")]),
)
def test_cells_are_read_back_as_what_they_were(tmp_path_factory, found, words):
    path = tmp_path_factory.mktemp("fix") / "a.fix.xlsx"
    with open_book(path, title="x", footer="x") as book:
        sheet = FixSheet(FixBook(book, words), "Blatt", LABELS, {})
        for number, (text, (kind, value), said) in enumerate(found, start=1):
            cells = (f"A-{number}", text, value)
            sheet.add(FixRow(number, cells, ((2, kind, value),), f"{number}:1/1", "A", tuple(said)))
        sheet.finish()
    tables = open_tables(path, path.name, (LAYOUT,), Settings())
    with closing(tables["orders"].rows()) as rows:
        back = [(row.cells[2:4], row.problem) for row in rows]
    for (text, (kind, value), _), ((cell, typed), problem) in zip(found, back, strict=True):
        assert problem is None
        assert cell == text
        assert str(typed) == value
        is_exact = kind != "number" or "." in value or len(value.strip("-0")) <= 15
        assert getattr(typed, "kind", "text") == (kind if is_exact else "text")


@example(0, "0-0", "-", "A")
@given(
    st.integers(0, 10**9),
    st.from_regex(r"0[0 ()-]{0,6}0", fullmatch=True),
    *[st.text(st.characters(categories=("L", "N", "P", "Zs"), exclude_characters='"'), max_size=6)] * 2,
)
def test_digits_that_a_number_format_shows_are_shown_by_the_fix_file_as_well(number, digits, before, after):
    escaped = re.sub(r"([ ()-])", r"\\\1", digits)
    how = parse_format(f'"{before}"{escaped}"{after}"')
    cell = read_number(str(number), how, from_1904=False)
    written, code = fix_sheets.native_value(cell.without_currency, ("number", str(number)), "yyyy-mm-dd")
    again = read_number(str(int(written)), parse_format(code), from_1904=False)
    assert (str(again), again.without_currency) == (str(number), cell.without_currency)

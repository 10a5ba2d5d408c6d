"""A table of a fix file is the table it was made from: its columns, its order, and what the marks of its rows say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.fix_marks import ORIGINAL_COLUMNS, FixedEntry, RowMark
from loadsheet.problems import Problem
from loadsheet.reading.fix_file_tables import Original, as_original, as_originals, first_mark, has_row_marks
from loadsheet.reading.tables import Native, PlainNumber, Row, Table

HEADER = ("Order", "Kind", "Weight")
KNOWN = {1: FixedEntry("A-1"), 2: FixedEntry("A-2"), 3: FixedEntry("A-3", may_lose_rows=True)}


def fixed(rows, header=("What to fix", *HEADER, "_row"), *, name="rows", sheet="Orders", original=HEADER, wanted=None):
    """Rows of (cells..., mark), numbered from 2, as the table of a fix file."""
    kept = [Row(number, tuple(cells)) for number, cells in enumerate(rows, 2)]
    columns = wanted or {label.lower(): place for place, label in enumerate(header) if label in HEADER}
    table = Table(name, "a.fix.xlsx", sheet, tuple(header), 1, columns, lambda: iter(kept), {"format": "xlsx"})
    return as_original(table, Original(tuple(original), "first/a.xlsx") if original else None)


def row(order, mark, weight="1"):
    return ("see", order, "BOX", weight, mark)


def taken(*tables):
    """Per table its rows, and the text of each problem by the number of its row."""
    found = as_originals(tables, lambda wanted: {entry: KNOWN[entry] for entry in wanted if entry in KNOWN})
    rows = {name: list(table.rows()) for name, table in found.tables.items()}
    return rows, {name: {one.number: one.problem.text for one in own if one.problem} for name, own in rows.items()}


def test_the_original_comes_back_without_what_was_put_beside_it():
    table = fixed([row("A-1", "1:1/1")]).table
    assert table.header == HEADER
    assert table.columns == {"order": 0, "kind": 1, "weight": 2}
    assert table.first_name == "first/a.xlsx"
    assert table.found == {"format": "xlsx", ORIGINAL_COLUMNS: "B, C, D"}
    rows, wrong = taken(fixed([row("A-1", "1:1/1")]))
    assert rows["rows"] == [Row(2, ("A-1", "BOX", "1"))]
    assert wrong == {"rows": {}}


def test_problems_name_the_cells_of_the_fix_file():
    table = fixed([row("A-1", "1:1/1")]).table
    assert table.where(7, 2).cell == "D7"
    assert table.where(7, 2).column == "Weight"
    assert table.where(7).cell == ""


def test_columns_may_be_moved_added_and_left_out():
    header = ("_row", "Weight", "notes", "order ")
    table = fixed([("1:1/1", "9", "mine", "A-1")], header, wanted={"weight": 1, "order": 3}).table
    assert table.header == HEADER, "a column that is not there any more is blank"
    assert table.columns == {"weight": 2, "order": 0}
    assert [table.where(2, place).cell for place in range(3)] == ["D2", "", "B2"]
    assert table.found[ORIGINAL_COLUMNS] == "D, -, B"


def test_a_column_that_the_original_lacked_and_the_mapping_wants_stands_behind():
    header = ("What to fix", "Value", *HEADER, "_row")
    table = fixed([], header, wanted={"value": 1, "order": 2}).table
    assert table.header == (*HEADER, "Value")
    assert table.columns == {"value": 3, "order": 0}


def test_typed_cells_stay_typed():
    cells = ("see", "A-1", Native("2026-03-01", "date"), PlainNumber("1.5"), "1:1/1")
    rows, _ = taken(fixed([cells]))
    assert rows["rows"][0].natives == ((1, "date", "2026-03-01"), (2, "number", "1.5"))


def test_rows_that_hold_nothing_but_remarks_and_marks_are_passed_over():
    rows, wrong = taken(fixed([row("A-1", "1:1/1"), ("note", "", " ", "", "")]))
    assert len(rows["rows"]) == 1
    assert wrong == {"rows": {}}


def test_two_rows_with_one_mark_are_wrong_and_name_each_other():
    _, wrong = taken(fixed([row("A-1", "1:1/2"), row("A-1", "1:2/2"), row("A-1", "1:1/2"), row("A-2", "2:1/1")]))
    said = "a row of A-1 appears here more than once: rows 2, 4"
    assert wrong == {"rows": {2: said, 4: said}}


def test_a_missing_row_is_said_at_those_that_are_there_on_every_sheet():
    orders = fixed([row("A-1", "1:1/4")], name="orders")
    packages = fixed([row("A-1", "1:3/4"), row("A-2", "2:1/1")], name="packages", sheet="Packages")
    _, wrong = taken(orders, packages)
    said = "A-1 lacks row 2, 4 of 4"
    assert wrong == {"orders": {2: said}, "packages": {2: said}}


def test_a_row_that_was_emptied_is_missing():
    _, wrong = taken(fixed([row("A-1", "1:1/2"), ("see", "", "", "", "1:2/2")]))
    assert wrong == {"rows": {2: "A-1 lacks row 2 of 2"}}


def test_rows_that_were_to_be_deleted_may_be_missing_and_may_still_not_be_there_twice():
    _, wrong = taken(fixed([row("A-3", "3:1/3")]))
    assert wrong == {"rows": {}}
    _, wrong = taken(fixed([row("A-3", "3:1/3"), row("A-3", "3:1/3")]))
    said = "a row of A-3 appears here more than once: rows 2, 3"
    assert wrong == {"rows": {2: said, 3: said}}


def test_entries_that_are_not_there_at_all_and_rows_without_mark_are_no_fault():
    rows, wrong = taken(fixed([row("A-9", ""), row("A-9", ""), row("A-1", "1:1/1"), row("B-7", "77:1/1")]))
    assert len(rows["rows"]) == 4
    assert wrong == {"rows": {}}


@pytest.mark.parametrize("text", ["x", "1:0/2", "1:3/2", "1:1/99999999", "9" * 70 + ":1/1", "1:1/1x", "-1:1/1"])
def test_what_is_no_mark_of_ours_counts_as_none(text):
    _, wrong = taken(fixed([row("A-1", text), row("A-1", text)]))
    assert wrong == {"rows": {}}


def test_an_unreadable_row_keeps_its_own_problem():
    table = fixed([row("A-1", "1:1/2")])
    spoiled = [Row(2, ("see", "A-1", "B", "1", "1:1/2"), Problem("R201", values={"reason": "bad"}))]
    table = as_original(
        Table("rows", "a", "S", table.source.header, 1, {"order": 1}, lambda: iter(spoiled), {}), Original(HEADER, "a")
    )
    _, wrong = taken(table)
    assert wrong == {"rows": {2: "the file cannot be read: bad"}}


def test_without_the_original_all_columns_but_the_marks_are_kept():
    table = fixed([], original=None).table
    assert table.header == ("What to fix", *HEADER)


def test_tables_with_and_without_marks_are_told_apart():
    rows = [row("A-1", ""), row("A-1", "1:1/2")]
    assert has_row_marks(fixed(rows).source)
    assert first_mark(fixed(rows).source) == RowMark(1, 1, 2)
    assert not has_row_marks(fixed([], ("What to fix", *HEADER)).source)


def test_each_row_is_known_by_its_entry():
    tables = [fixed([row("A-1", "1:1/2"), row("x", "")], name="a"), fixed([row("A-1", "1:2/2")], name="b")]
    entry_of = as_originals(tables, lambda _: {}).entry_of
    assert [entry_of("a", 2), entry_of("a", 3), entry_of("b", 2), entry_of("b", 9)] == [1, None, 1, None]


@given(st.permutations([(entry, number) for entry in (3, 4, 5) for number in (1, 2, 3)]))
def test_sorted_rows_come_back_in_their_old_order(order):
    rows, wrong = taken(fixed([row(f"{entry}/{number}", f"{entry}:{number}/3") for entry, number in order]))
    assert [one.cells[0] for one in rows["rows"]] == [f"{entry}/{number}" for entry, number in sorted(order)]
    assert wrong == {"rows": {}}
    assert sorted(one.number for one in rows["rows"]) == list(range(2, 11)), "each still knows where it stands"


def test_a_new_row_stays_below_the_one_that_it_was_put_under():
    rows, _ = taken(fixed([row("b", "4:1/1"), row("new", ""), row("a", "3:1/1")]))
    assert [one.cells[0] for one in rows["rows"]] == ["a", "b", "new"]

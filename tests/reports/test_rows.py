"""Row numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.ledger import SourceTable
from loadsheet.mapping.documents import SourceRow
from loadsheet.reports.run_summary import rows_by_place

TABLES = {name: SourceTable(name, "o.xlsx", sheet, (), 1) for name, sheet in (("a", "A"), ("b", "B"), ("c", "A"))}


def told(*numbers):
    return rows_by_place([SourceRow("a", number, ()) for number in numbers], TABLES)["o.xlsx A"]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((3,), "3"), ((7, 5, 6), "5-7"), ((3, 5, 6, 7), "3, 5-7"), ((3, 3), "3"), ((1, 1, 3), "1, 3"), ((1, 2, 2), "1-2")],
)
def test_runs_of_rows_are_shortened(numbers, text):
    assert told(*numbers) == text


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_what_is_told_is_every_row_and_no_other(numbers):
    runs = [[int(end) for end in run.split("-")] for run in told(*numbers).split(", ")]
    assert [number for run in runs for number in range(run[0], run[-1] + 1)] == sorted(set(numbers))


def test_tables_of_one_sheet_are_told_together():
    rows = [SourceRow(table, number, ()) for table, number in (("c", 9), ("b", 2), ("a", 8))]
    assert rows_by_place(rows, TABLES) == {"o.xlsx A": "8-9", "o.xlsx B": "2"}

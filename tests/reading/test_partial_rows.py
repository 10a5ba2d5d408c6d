"""Some cells of every row: the rows that reading them whole gives, with the other cells blank."""

from dataclasses import replace

import pytest
from reading_corpus import layout, open_one, text_file
from reading_writers import Sheet, Typed, write_xlsx

from loadsheet.reading import Native

ROWS = [["Order", "Kg", "Note"], ["A1", Typed(12.5), "x"], ["A2", Typed(3, "00000"), ""], ["", Typed(4), "y"]]
ASKED = layout("Order", "Kg", "Note")


def tables(folder):
    yield open_one(write_xlsx(folder / "a.xlsx", [Sheet(ROWS)]), ASKED, "child")
    text = "Order,Kg,Note\nA1,12.5,x\nA2,3\nA3,4,y,surplus\n\n,5,z\n"
    for process in ("child", "none"):
        yield open_one(text_file(folder, text), ASKED, process)


@pytest.mark.parametrize("positions", [frozenset(), frozenset({0}), frozenset({0, 2}), frozenset({1})])
def test_partial_rows_are_the_same_rows_with_the_cells_that_are_asked_for(tmp_path, positions):
    for table in tables(tmp_path):
        whole, partial = list(table.rows()), list(table.partial_rows(positions))
        assert [(row.number, row.problem, row.ignored) for row in whole] == [
            (row.number, row.problem, row.ignored) for row in partial
        ]
        for row, few in zip(whole, partial, strict=True):
            for position in positions:
                assert few.cells[position] == row.cells[position]
                assert isinstance(few.cells[position], Native) == isinstance(row.cells[position], Native)


def test_an_observer_of_rows_sees_whole_rows_only_and_other_rows_replace_partial_ones(tmp_path):
    for table in tables(tmp_path):
        seen = []

        def rows(table=table, seen=seen):
            for row in table.rows():
                seen.append(row)
                yield row

        observed = table.with_rows(rows)
        assert len(list(observed.partial_rows(frozenset({0})))) == len(list(table.rows()))
        assert seen == [] or not hasattr(table.rows, "partial_rows")
        assert list(observed.rows()) == list(table.rows())
        kept = list(table.rows())[:1]
        assert list(replace(table, rows=lambda kept=kept: iter(kept)).partial_rows(frozenset({0}))) == kept

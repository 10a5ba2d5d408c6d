"""A glance at some cells of every row: the rows that reading them whole gives, with the other cells blank."""

from dataclasses import replace

import pytest
from reading_corpus import layout, text_file
from reading_writers import Sheet, Typed, write_xlsx

from loadsheet.reading import DamageChecks, Native, open_tables
from loadsheet.settings import Settings

ROWS = [["Order", "Kg", "Note"], ["A1", Typed(12.5), "x"], ["A2", Typed(3, "00000"), ""], ["", Typed(4), "y"]]
ASKED = layout("Order", "Kg", "Note")


def tables(folder):
    yield open_tables(write_xlsx(folder / "a.xlsx", [Sheet(ROWS)]), "a.xlsx", [ASKED], Settings())["rows"]
    text = "Order,Kg,Note\nA1,12.5,x\nA2,3\nA3,4,y,surplus\n\n,5,z\n"
    for apart in ("child", "none"):
        yield open_tables(text_file(folder, text), "a.csv", [ASKED], Settings(reading_process=apart))["rows"]


@pytest.mark.parametrize("positions", [frozenset(), frozenset({0}), frozenset({0, 2}), frozenset({1})])
def test_a_glance_gives_the_same_rows_with_the_cells_it_is_asked_for(tmp_path, positions):
    for table in tables(tmp_path):
        whole, glanced = list(table.rows()), list(table.partial_rows(positions))
        assert [(row.number, row.problem, row.ignored) for row in whole] == [
            (row.number, row.problem, row.ignored) for row in glanced
        ]
        for row, few in zip(whole, glanced, strict=True):
            for position in positions:
                assert few.cells[position] == row.cells[position]
                assert isinstance(few.cells[position], Native) == isinstance(row.cells[position], Native)


def test_who_watches_rows_sees_whole_rows_only_and_glances_stay_fast(tmp_path):
    for table in tables(tmp_path):
        seen = []

        def rows(table=table, seen=seen):
            for row in table.rows():
                seen.append(row)
                yield row

        watched = table.with_rows(rows)
        assert len(list(watched.partial_rows(frozenset({0})))) == len(list(table.rows()))
        assert list(watched.rows()) == list(table.rows())
        assert next(row for row in seen if row.problem is None and not row.ignored).cells[1]
        assert DamageChecks(table).problems() == ()


def test_other_rows_take_their_own_glance_with_them(tmp_path):
    for table in tables(tmp_path):
        kept = list(table.rows())[:1]
        assert list(replace(table, rows=lambda kept=kept: iter(kept)).partial_rows(frozenset({0}))) == kept

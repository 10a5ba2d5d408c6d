"""No value gets lost: whatever cell of a mapped column is changed, the record of its row or what is said of it changes."""

import re
from dataclasses import replace

import pytest
from grids import Cell, saved
from test_relations import EACH, before, drop_of, translated  # noqa: F401 (before is a fixture)

MARK = "Zq 7,7"
SAID_NOWHERE = {  # columns that a mapping declares and puts nowhere, and the number of a pallet on which nothing lies
    "lindqvist-changes": {"Orsak"},
    "order_changes": {"Remark"},
    "terracotta-nested": {"Palet"},
}


@pytest.mark.parametrize("name", EACH)
def test_a_cell_that_is_changed_changes_its_record_or_what_is_said_of_it(name, before, tmp_path):  # noqa: F811 (the fixture)
    drop, (made, own) = drop_of(name), before(name)
    silent, batch = [], 0
    waiting = [(file, title, column) for (file, title), columns in made.columns.items() for column in sorted(columns)]
    while waiting:
        batch += 1
        grids, marked, waiting = changed(own, made, waiting)
        if not marked:
            break
        again = translated(drop, {file: saved(grid) for file, grid in grids.items()}, tmp_path / str(batch))
        for (file, title, column), row in marked.items():
            place = (file, title, row)
            if again.came_of.get(place) == made.came_of.get(place):
                silent.append((own[file].labels(title)[column], row))
    assert {label for label, _ in silent} == SAID_NOWHERE.get(name, set()), silent


def changed(own, made, waiting):
    """Grids with a mark in as many columns as there are records to put them into, one each; the rows of the marks by column; and the
    columns that still wait.
    """
    grids, marked, used, left = dict(own), {}, set(), []
    for file, title, column in waiting:
        rows = [
            each
            for each in numbered(own[file], title, made, file)
            if column < len(each[2]) and not each[2][column].is_blank
        ]
        for number, place, _ in rows:
            records = {(operation, key) for operation, key, _, _ in made.came_of[file, title, number]}
            if not used & records:
                used |= records
                marked[file, title, column] = number
                grids[file] = with_mark(grids[file], title, place, column)
                break
        else:
            left += [(file, title, column)] if rows else []
    return grids, marked, left


def numbered(grid, title, made, file):
    """The rows of records that could be sent and say more than a key: number as the program shows it, place in the grid, cells."""
    found, number = [], 0
    for place, row in enumerate(grid.sheets[title]):
        number = place + 1 if not grid.is_text else number + 1
        records = made.came_of.get((file, title, number))
        if records and all(payload and len(payload) > 2 for _, _, payload, _ in records) and place >= grid.tops[title]:
            found.append((number, place, row))
        if grid.is_text:
            number += sum(len(re.findall(r"\r\n|\r|\n", cell.value)) for cell in row)
    return found


def with_mark(grid, title, place, column):
    rows = [list(row) for row in grid.sheets[title]]
    rows[place][column] = Cell(MARK)
    return replace(grid, sheets={**grid.sheets, title: rows})

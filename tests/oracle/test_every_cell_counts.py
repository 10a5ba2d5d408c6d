"""No value gets lost: whatever cell of a mapped column is changed, the record of its row or what is said of it changes."""

import re
from dataclasses import replace

import pytest
from test_relations import EACH, before, drop_of, saved, translated  # noqa: F401 (before is a fixture)

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
        changed, waiting = _changed(own, made, waiting)
        if not changed:
            break
        folder = tmp_path / str(batch)
        again = translated(drop, {file: saved(grid) for file, grid in changed.grids.items()}, folder)
        for (file, title, column), row in changed.at.items():
            place = (file, title, row)
            if again.came_of.get(place) == made.came_of.get(place):
                silent.append((own[file].labels(title)[column], row))
    assert {label for label, _ in silent} == SAID_NOWHERE.get(name, set()), silent


class Changed:
    """Grids with marks in them, and where these are: column to row."""

    def __init__(self, own):
        self.grids = dict(own)
        self.at = {}


def _changed(own, made, waiting):
    """As many marks as there are records to put them into, one each."""
    found, used, left = Changed(own), set(), []
    rows = {(file, title): _numbered(own[file], title, made, file) for file, title, _ in waiting}
    for file, title, column in waiting:
        for number, place, row in rows[file, title]:
            records = {(operation, key) for operation, key, _, _ in made.came_of[file, title, number]}
            if used & records or column >= len(row) or not str(_value(row[column]) or "").strip():
                continue
            used |= records
            found.at[file, title, column] = number
            _put(found.grids, file, title, place, column)
            break
        else:
            if any(column < len(row) and str(_value(row[column]) or "").strip() for _, _, row in rows[file, title]):
                left.append((file, title, column))
    return (found if found.at else None), left


def _numbered(grid, title, made, file):
    """The rows of records that could be sent and say more than a key: number as the program shows it, place in the grid, cells."""
    found, number = [], 0
    for place, row in enumerate(grid.sheets[title]):
        number = place + 1 if not grid.is_text else number + 1
        records = made.came_of.get((file, title, number))
        if records and all(payload and len(payload) > 2 for _, _, payload, _ in records) and place >= grid.tops[title]:
            found.append((number, place, row))
        if grid.is_text:
            number += sum(len(re.findall(r"\r\n|\r|\n", cell)) for cell in row)
    return found


def _put(grids, file, title, place, column):
    grid = grids[file]
    rows = [list(row) for row in grid.sheets[title]]
    rows[place][column] = MARK if grid.is_text else (MARK, "General")
    grids[file] = replace(grid, sheets={**grid.sheets, title: rows})


def _value(cell):
    return cell if isinstance(cell, str) else cell[0]

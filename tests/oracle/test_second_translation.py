"""Files as shippers send them, translated a second time by other code: every field of every record, and every row that is wrong.

Each layout is a module beside this one: `make` throws its files, `expected` says by csv, Decimal and zoneinfo alone what has to come of them.
"""

from pathlib import Path

import flat_lines
import milestone_rows
import order_changes
import parcels_joined
import pytest
import tender_lanes
import wide_items
import workbook_sheets
from check_result import translation

HERE = Path(__file__).parent
LAYOUTS = [flat_lines, parcels_joined, workbook_sheets, wide_items, milestone_rows, tender_lanes, order_changes]
QUICKEST = (parcels_joined, order_changes)
ROWS = 700


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: layout.__name__)
def both(request, tmp_path_factory):
    """What has to come of a layout's files, and what does."""
    return _both(request.param, 17, ROWS, tmp_path_factory.mktemp(request.param.__name__))


def _both(layout, seed, rows, folder):
    files = layout.make(seed, rows)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    found = translation([HERE / "mappings" / layout.MAPPING], [folder / name for name in files])
    return layout.expected(files), found


def by_name(records):
    found = {}
    for operation, key, payload in records:
        found.setdefault((operation, key), []).append(payload)
    return {name: sorted(payloads, key=repr) for name, payloads in found.items()}


def by_places(records):
    found = {}
    for places, faults in records:
        found.setdefault(frozenset(places), []).append(faults)
    return found


def test_every_field_of_every_record_is_as_the_second_translation_says(both):
    expected, found = both
    right, made = by_name(expected.sent), by_name(found.sent)
    assert sum(map(len, right.values())) > 100
    assert sorted(map(str, made.keys() - right.keys())) == []
    assert sorted(map(str, right.keys() - made.keys())) == []
    assert {name: made[name] for name in right if made[name] != right[name]} == {
        name: right[name] for name in right if made[name] != right[name]
    }


def test_every_record_that_is_wrong_is_refused_at_the_rows_that_are_wrong_and_nothing_else_is(both):
    expected, found = both
    right, made = by_places(expected.wrong), by_places(found.wrong)
    assert len(right) > 20
    assert {places: len(records) for places, records in made.items()} == {
        places: len(records) for places, records in right.items()
    }
    for places, records in right.items():
        faults, problems = (
            [set(fault) for each in records for fault in each],
            [one for each in made[places] for one in each],
        )
        marked = [place for one in problems if one.level == "error" for place in (one.where, *one.also)]
        told = {(place.file, place.sheet, place.row) for place in marked}
        assert all(told & fault for fault in faults), (faults, problems)
        assert told <= set().union(*faults), (faults, problems)


def test_the_rows_that_are_left_out_are_those_that_belong_to_no_record(both):
    expected, found = both
    assert found.left_out == len(expected.ignored)
    assert [str(problem) for problem in found.beside if problem.level == "error"] == []


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_many_thousand_rows_are_translated_like_a_thousand(layout, tmp_path):
    both = _both(layout, 4, 100_000 if layout in QUICKEST else 20_000, tmp_path)
    test_every_field_of_every_record_is_as_the_second_translation_says(both)
    test_every_record_that_is_wrong_is_refused_at_the_rows_that_are_wrong_and_nothing_else_is(both)
    test_the_rows_that_are_left_out_are_those_that_belong_to_no_record(both)

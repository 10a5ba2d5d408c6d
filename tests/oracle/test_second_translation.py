"""Files as shippers send them, translated a second time by other code: every field of every record, and every row that is wrong.

Each layout is a module beside this one: `make` throws its files, `expected` says by csv, Decimal and zoneinfo alone what has to come of them.
"""

from pathlib import Path

import order_changes
import parcels_joined
import pytest
import workbook_sheets
from check_result import translation
from test_relations import LAYOUTS

HERE = Path(__file__).parent
QUICKEST = (parcels_joined, order_changes)
ROWS = 400


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_every_field_of_every_record_is_as_the_second_translation_says(layout, tmp_path):
    several_rows_a_record = layout in (parcels_joined, workbook_sheets)
    assert_translated_alike(layout, 17, 700 if several_rows_a_record else ROWS, tmp_path)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_many_thousand_rows_are_translated_like_a_thousand(layout, tmp_path):
    assert_translated_alike(layout, 4, 100_000 if layout in QUICKEST else 20_000, tmp_path)


def assert_translated_alike(layout, seed, rows, folder):
    """What has to come of a layout's files does."""
    files = layout.make(seed, rows)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    found = translation([HERE / "mappings" / layout.MAPPING], [folder / name for name in files])
    expected = layout.expected(files)
    assert_every_field_is_right(expected, found)
    assert_wrong_records_are_refused_where_they_are_wrong(expected, found)
    assert found.left_out == len(expected.ignored), "the rows that belong to no record"
    assert [str(problem) for problem in found.beside if problem.level == "error"] == []


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


def assert_every_field_is_right(expected, found):
    right, made = by_name(expected.sent), by_name(found.sent)
    assert sum(map(len, right.values())) > 100
    assert sorted(map(str, made.keys() ^ right.keys())) == []
    wrong = [name for name in right if made[name] != right[name]]
    assert {name: made[name] for name in wrong} == {name: right[name] for name in wrong}


def assert_wrong_records_are_refused_where_they_are_wrong(expected, found):
    right, made = by_places(expected.wrong), by_places(found.wrong)
    assert len(right) > 20
    assert {places: len(records) for places, records in made.items()} == {
        places: len(records) for places, records in right.items()
    }
    for places, records in right.items():
        faults = [set(fault) for each in records for fault in each]
        problems = [one for each in made[places] for one in each]
        marked = [place for one in problems if one.level == "error" for place in (one.where, *one.also)]
        told = {(place.file, place.sheet, place.row) for place in marked}
        assert all(told & fault for fault in faults), (faults, problems)
        assert told <= set().union(*faults), (faults, problems)

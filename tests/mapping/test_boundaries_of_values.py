"""Where a rule of mappings begins and ends: one case on each side."""

from datetime import timedelta

import pytest
from sheets import ASSUMED, NOW, example, with_rows

from loadsheet.mapping import Document, lint, translate
from loadsheet.mapping.calculation import duration
from loadsheet.mapping.conversion_errors import SettingError
from loadsheet.mapping.plausibility import NotationCheck, notation_order
from loadsheet.mapping.words import yes_no_reader
from loadsheet.problems import Problem, Where
from loadsheet.reading import Native, Row, Table

ROUNDED = """\
mapping: tenders
version: 1
target: tender.create
source: {{files: ["*.csv"], locale: de_DE, timezone: Europe/Berlin, dates: ["%d.%m.%Y"]}}
columns:
  tender: {{label: Tender, required: true, key: true}}
  kind:   {{label: Kind, type: text}}
  weight: {{label: Weight, type: decimal}}
  pickup: {{label: Pickup, type: datetime}}
payload:
  tender_id: {{col: tender}}
  sender_id: {{value: A}}
  receiver_id: {{value: B}}
  tender_status: {{value: OPEN}}
  pickup_startdatetime: {{col: pickup}}
  packages: {{each: rows, item: {{package_type: {{value: BOX}}, item_name: {{value: Box}}, weight: {{{value}, round: 2}}}}}}
"""


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("col: weight", ""),
        ("expr: '(weight ?? 0) * 2'", ""),
        ("col: kind", "round is for numbers, not for a text"),
        ("col: pickup", "round is for numbers, not for"),
    ],
)
def test_numbers_are_rounded_and_nothing_else(tmp_path, value, told):
    path = tmp_path / "m.yaml"
    path.write_text(ROUNDED.format(value=value), encoding="utf-8")
    found = [str(one) for one in lint(path, ASSUMED)]
    assert len(found) == bool(told), found
    assert told in "".join(found)


@pytest.mark.parametrize(
    ("row", "misread"),
    [
        (Row(3, ("1,125",)), True),
        (Row(3, ("1,125",), ignored="totals"), False),
        (Row(3, ("1,125",), Problem("R204", Where("lanes.csv"))), False),
        (Row(3, (Native("1,125", "number"),)), False),
    ],
    ids=["a row of the table", "a row that is left out", "a row that could not be read", "a typed cell"],
)
def test_only_texts_of_rows_that_count_show_that_a_column_is_misread(row, misread):
    table = Table("rows", "lanes.csv", "", ("Volume",), 1, {"volume": 0}, lambda: iter((row,)), {})
    found = NotationCheck()
    found.add(Problem("C302", Where("lanes.csv", "", 2, "Volume"), "0,25", {"locale": "en_US"}))
    assert bool(found.problems({"rows": table})) is misread


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("1,234,567.5", "a decimal point"),
        ("1.234.567,5", "a decimal comma"),
        ("1.234,567.8", ""),
        ("1,234.567,8", ""),
        ("1,234,567", ""),
    ],
)
def test_a_number_is_told_by_its_last_mark_if_that_stands_once_and_the_others_are_alike(text, order):
    assert notation_order(text, "") == order


@pytest.mark.parametrize(
    ("text", "whole", "rest"),
    [
        ("P2W3D", 17, timedelta()),
        ("P1D", 1, timedelta()),
        ("P1DT2H", 1, timedelta(hours=2)),
        ("PT24H", None, timedelta(hours=24)),
        ("P0.5D", None, timedelta(hours=12)),
        ("-P1D", None, timedelta(days=-1)),
    ],
)
def test_only_whole_days_of_a_duration_are_days_of_the_calendar(text, whole, rest):
    found = duration(text, timedelta(days=whole or 0) + rest)
    assert (getattr(found, "whole", None), getattr(found, "rest", found)) == (whole, rest)


@pytest.mark.parametrize(
    ("yes", "no", "told"),
    [
        (["Ja"], ["JA"], "Ja means yes, and no is JA: capitals"),
        (["Nein"], [], "Nein means yes, and no is nein (the usual words): capitals"),
        (["a", "B"], ["b", "A"], "B means yes, and no is b: capitals"),
    ],
)
def test_a_word_that_means_yes_and_no_is_refused_with_both(yes, no, told):
    with pytest.raises(SettingError) as refused:
        yes_no_reader("de_DE", yes, no)
    assert told in str(refused.value.args)


FILLED = """\
mapping: tenders
version: 1
target: tender.create
source: {{files: ["{{shipper}}_*.csv"], timezone: Europe/Berlin, dates: ["%d.%m.%Y"]}}
columns:
  tender: {{label: Tender, required: true, key: true}}
  kind:   {{{column}}}
payload:
  tender_id: {{col: tender}}
  sender_id: {{col: kind}}
  receiver_id: {{value: B}}
  tender_status: {{value: OPEN}}
"""


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("label: Kind, required: true, fill_down: true", []),
        ("file: shipper", []),
        ("file: shipper, fill_down: true", ["only cells of the file's own rows are filled from above"]),
        ("file: shippr", ['a file\'s name has no part "shippr"']),
        ("above: Kind", ["above is for tables with a kind"]),
        ("label: Kind, from_set: true", ["rows has no sets"]),
    ],
)
def test_a_column_takes_its_value_from_one_place(tmp_path, column, told):
    path = tmp_path / "m.yaml"
    path.write_text(FILLED.format(column=column), encoding="utf-8")
    found = [str(one) for one in lint(path, ASSUMED)]
    assert [any(text in one for one in found) for text in told] == [True] * len(told), found
    assert bool(found) == bool(told), found


def test_a_missing_partner_is_told_at_the_keys_of_all_rows_of_the_record():
    mapping, tables = example("nordic-join")
    rows = list(tables["orders"].rows())
    alone = tables | {"packages": with_rows(tables["packages"], [])}
    lacking = [one for one in translate(mapping, alone, now=NOW) if isinstance(one, Document)]
    told = {(at.file, at.row, at.column) for one in lacking for at in (one.problems[0].where, *one.problems[0].also)}
    key = tables["orders"].header[tables["orders"].columns["order_id"]]
    assert told == {("nordic/orders.csv", row.number, key) for row in rows}

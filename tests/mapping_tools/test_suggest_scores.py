"""How good drafts are: minimum scores for a few labelled layouts, for all of them (a sweep), and the scorer itself."""

import pytest

from benchmarks.suggest.__main__ import totals
from benchmarks.suggest.draft_reading import Draft, filled_in
from benchmarks.suggest.draft_scores import FAULTS, MARKED, MISSING, RIGHT, UNMARKED, Score, score, score_draft
from benchmarks.suggest.layouts import LAYOUTS
from benchmarks.suggest.sheet_layouts import layout, sheet

LEAST = {
    "loads_uk": 24,
    "zendingen": 21,
    "carrier_quotes": 6,
    "quote_decisions": 5,
    "events": 7,
}  # columns that are right


@pytest.mark.parametrize("name", LEAST)
def test_a_draft_is_as_good_as(tmp_path, name):
    found = score(next(one for one in LAYOUTS if one.name == name), tmp_path)
    assert found.counts[RIGHT] >= LEAST[name], found.columns
    assert found.counts[UNMARKED] == 0, found.columns
    assert found.faults - {"not all rows translate"} == set(), found.notes


@pytest.mark.sweep
def test_the_drafts_of_all_layouts_are_as_good_as(tmp_path):
    scores = []
    for one in LAYOUTS:
        (tmp_path / one.name).mkdir()
        scores.append(score(one, tmp_path / one.name))
    for part, found in totals(scores).items():
        assert found[RIGHT] >= 80, (part, found)
        assert found[UNMARKED] <= 5, (part, found)
        assert [found[fault] for fault in ("not refused", "lint", "rows lost", "order of files")] == [0] * 4, found


SMALL = layout(
    "small", "order.update", sheet("small.csv", "Order | order_id | seq A{} | key\nTown | delivery_city | place city\n"
    "Weight class | - | of A;B\nEmail consent | - | yes yes/no\nName | delivery_company | place company\nKilos | packages.weight | int 1 9\n"
    "Height | packages.height | int 1 9 | unit=in\nNotes | -\nPicked by | -"),
)  # fmt: skip
DRAFT = """\
mapping: small
target: order.create
source: {tables: {rows: {}}}
columns:
  order: {label: Order, type: text, key: true}
  town: {label: Town}
  class: {label: Weight class}   # CHECK: no weight
  consent: {label: Email consent}
  # name: {label: Name}
  kilos: {label: Kilos, type: quantity, unit: kg}
  height: {label: Height, type: quantity, unit: cm}
  notes: {label: Notes}
group: {by: order}
derived: {tons: {expr: 'kilos / 1000'}}
payload:
  order_id: {col: order}
  delivery_city: {expr: '$upper(town)', when: 'consent != null'}
  total_weight: {expr: '$sum([r.tons for r in rows])'}
  packages:
    each: rows
    item:
      item_name: {col: class}
      weight: {expr: 'kilos'}
      height: {col: height}
  order_references:   # CHECK: fill no other field
    list:
      - {name: {value: consent}, value: {col: consent}}
      - name: {value: notes}
        value: {col: notes}
"""


def test_columns_are_right_wrong_with_or_without_a_mark_or_missing():
    found = Score("small")
    score_draft(found, SMALL, Draft(DRAFT))
    verdicts = {heading.partition(": ")[2]: verdict for heading, (verdict, _) in found.columns.items()}
    assert verdicts == {
        "Order": RIGHT, "Town": RIGHT, "Weight class": MARKED, "Email consent": MARKED, "Name": MISSING, "Kilos": RIGHT,
        "Height": UNMARKED, "Notes": MARKED, "Picked by": RIGHT,
    }  # fmt: skip
    assert found.faults == {"target", "group"}
    score_draft(found, SMALL, Draft(DRAFT.replace("label: Order,", 'label: "Order / A471",')))
    assert found.faults == {"target", "key", "group", "data in a heading"} < {*FAULTS}


def test_a_person_fills_in_the_marked_places_only():
    before = """\
  sender_id: null   # FILL IN: Sender
  other: null
  kind: {one_of: {EUP: null, "K T": Roll}}   # FILL IN: the codes
"""
    after = """\
  sender_id: "S-1"   # filled in: Sender
  other: null
  kind: {one_of: {EUP: "Pallet/Skid", "K T": Roll}}   # filled in: the codes
"""
    assert filled_in(before, {"sender_id": "S-1"}, {"eup": "Pallet/Skid"}) == (after, 2)

"""How good drafts are: minimum scores for a few labelled layouts, for all of them (a sweep), and the scorer itself."""

import pytest

from benchmarks.suggest.draft_reading import Draft, filled_in
from benchmarks.suggest.draft_scores import MARKED, MISSING, RIGHT, UNMARKED, Score, score, score_draft
from benchmarks.suggest.sheet_layouts import layout, sheet
from benchmarks.suggest.summary import LAYOUTS, summary

BY_NAME = {one.name: one for one in LAYOUTS}
LEAST = {  # columns that are right, and columns that are wrong without a mark at most
    "loads_uk": (24, 0),
    "zendingen": (21, 0),
    "carrier_quotes": (6, 0),
    "quote_decisions": (5, 0),
    "events": (7, 0),
}


@pytest.mark.parametrize("name", LEAST)
def test_a_draft_is_as_good_as(tmp_path, name):
    right, unmarked = LEAST[name]
    found = score(BY_NAME[name], tmp_path)
    assert (found.target_right, found.key_right, found.group_right) == (True, True, True)
    assert found.counts[RIGHT] >= right, found.columns
    assert found.counts[UNMARKED] <= unmarked, found.columns
    assert (found.findings, found.rows_lost, found.data_in_heading) == ([], 0, False)


@pytest.mark.sweep
def test_the_drafts_of_all_layouts_are_as_good_as(tmp_path):
    scores = []
    for one in LAYOUTS:
        (tmp_path / one.name).mkdir()
        scores.append(score(one, tmp_path / one.name))
    for part, totals in summary(scores).items():
        assert totals["columns right %"] >= 80, (part, totals)
        assert totals["columns wrong, unmarked %"] <= 5, (part, totals)


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
    found = Score("small", held_out=False, exit_code=0)
    score_draft(found, SMALL, Draft(DRAFT))
    verdicts = {heading.partition(": ")[2]: verdict for heading, (verdict, _) in found.columns.items()}
    assert verdicts == {
        "Order": RIGHT, "Town": RIGHT, "Weight class": MARKED, "Email consent": MARKED, "Name": MISSING, "Kilos": RIGHT,
        "Height": UNMARKED, "Notes": MARKED, "Picked by": RIGHT,
    }  # fmt: skip
    assert (found.target_right, found.key_right, found.group_right) == (False, True, False)


def test_a_data_row_in_a_heading_is_found():
    found = Score("small", held_out=False, exit_code=0)
    score_draft(found, SMALL, Draft(DRAFT.replace("label: Order,", 'label: "Order / A471",')))
    assert found.data_in_heading


FILLED = {
    "  sender_id: null   # FILL IN: Sender": '  sender_id: "S-1"   # filled in: Sender',
    "  other: null": "  other: null",
    '  kind: {one_of: {EUP: null, "K T": Roll}}   # FILL IN: the codes': '  kind: {one_of: {EUP: "Pallet/Skid", "K T": Roll}}   # filled in: the codes',
}


@pytest.mark.parametrize(("before", "after"), FILLED.items())
def test_a_person_fills_in_the_marked_places_only(before, after):
    text, marks = filled_in(before, {"sender_id": "S-1"}, {"eup": "Pallet/Skid"})
    assert (text, marks) == (f"{after}\n", int(before != after))

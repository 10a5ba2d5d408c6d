"""The fast path and the full path make the same documents: of right rows, and of rows with anything else in them."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import ASSUMED, DROPS, EXAMPLES, NOW, example, load_text, with_rows
from sheets import table as table_of

from loadsheet.contract import Assumptions
from loadsheet.mapping import Document, load, translate
from loadsheet.mapping.fast_path import FullPathNeeded
from loadsheet.problems import FileRefused, MappingError
from loadsheet.reading import Native
from loadsheet.reading.tables import Row

STRICT = Assumptions(known_values="closed", text_length_max=40, array_length_max=2)
FILLED = Assumptions(empty_required="reject", null_fields="absent")
OTHERWISE = Assumptions(number_forms="both", unknown_fields="ignore", listing_only_fields="accept", timezones="any")


class Ways:
    """The variants of a mapping with a fast path that counts what it makes, or that never makes anything."""

    def __init__(self, *, fast):
        self.fast, self.made = fast, 0

    def of(self, mapping):
        targets = mapping.plan.targets
        by_name = {name: self._variant(variant) for name, variant in targets.by_name.items()}
        return replace(
            mapping,
            plan=replace(mapping.plan, targets=replace(targets, fixed=self._variant(targets.fixed), by_name=by_name)),
        )

    def _variant(self, variant):
        make = variant.payload.fast

        def watched(draft):
            if not self.fast:
                raise FullPathNeeded
            record = make(draft)
            self.made += 1
            return record

        return replace(
            variant,
            payload=replace(variant.payload, fast=watched),
            instead=variant.instead and self._variant(variant.instead),
        )


@cache
def compiled(name, assumptions):
    try:
        return load(EXAMPLES / f"{name}.yaml", assumptions)
    except MappingError:  # it sends what these assumptions refuse in every record
        return load(EXAMPLES / f"{name}.yaml", ASSUMED)


def both(mapping, tables):
    """What each way makes of the tables, and how many records the short one made."""
    ways = Ways(fast=True), Ways(fast=False)
    fast, exact = (list(_told(way.of(mapping), tables)) for way in ways)
    return fast, exact, ways[0].made


def _told(mapping, tables):
    """What is made of the tables, and why the file is refused, if it is: its totals may be among the cells that were changed."""
    try:
        yield from translate(mapping, tables, now=NOW)
    except FileRefused as refused:
        yield refused.problem


@pytest.mark.parametrize("name", DROPS)
def test_both_ways_make_the_same_documents_of_every_layout(name):
    fast, exact, made = both(*example(name))
    assert fast == exact
    assert made >= sum(isinstance(found, Document) and found.usable and not found.problems for found in exact) > 0


CELLS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "0",
            "-1",
            "1e3",
            "1.234,5",
            "2026-03-29 02:30",
            "2026-13-01",
            "x" * 41,
            "x" * 5_000,
            "#N/A",
            "ja",
            "\x00",
        ]
    ),
    st.text(max_size=12),
    st.builds(Native, st.sampled_from(["12.5", "7", "0"]), st.just("number")),
    st.builds(Native, st.sampled_from(["2026-03-01 08:00:00"]), st.just("datetime")),
    st.builds(Native, st.sampled_from(["true", "false"]), st.just("flag")),
    st.builds(Native, st.just("#REF!"), st.just("error")),
)


@settings(deadline=None, max_examples=120)
@given(data=st.data())
def test_both_ways_make_the_same_documents_whatever_stands_in_the_cells(data):
    name = data.draw(st.sampled_from(sorted(DROPS)))
    mapping = compiled(name, data.draw(st.sampled_from([ASSUMED, STRICT, FILLED, OTHERWISE])))
    tables = {}
    for table, found in example(name)[1].items():
        rows = list(found.rows())
        places = st.tuples(st.integers(0, len(rows) - 1), st.integers(0, len(found.header) - 1), CELLS)
        changed = [list(row.cells) for row in rows]
        for row, column, cell in data.draw(st.lists(places, max_size=4)):
            changed[row][column] = cell
        kept = [Row(row.number, tuple(cells)) for row, cells in zip(rows, changed, strict=True)]
        tables[table] = replace(with_rows(found, kept), sheet="Sheet1")
    fast, exact, _ = both(mapping, tables)
    assert fast == exact


FORMS = """\
mapping: forms
version: 1
target: order.update
source:
  files: ["*.csv"]
  locale: en_GB
  dates: ["%Y-%m-%d %H:%M"]
  timezone: Europe/Berlin
columns:
  id:     {label: ID, required: true}
  mode:   {label: Mode}
  at:     {label: At, type: datetime}
  city:   {label: City}
  state:  {label: State, default: NW}
  value:  {label: Value, type: decimal}
  flag:   {label: Flag, type: yesno}
  item:   {label: Item}
  kind:   {label: Kind}
  weight: {label: Weight, type: decimal}
  street: {label: Street}
derived:
  same: {type: text, expr: 'item ?? ""'}
group: {by: [id]}
payload:
  order_id:             {col: id}
  sender_id:            {col: city}
  receiver_id:          {value: R}
  timezone:             {value: Europe/Berlin}
  timeoffset:           {utc_offset_of: at}
  pickup_startdatetime: {col: at}
  pickup_city:          {col: city}
  pickup_province:      {col: state}
  pickup_address1:      {col: street, default: none}
  pickup_address2:      {col: same, default: none}
  pickup_pincode:       {col: same}
  transport_mode:       {col: mode}
  goods_value:          {col: value}
  total_packages:       {expr: '$count(rows)'}
  total_weight:         {expr: '100 / (value ?? 1)', round: 2}
  dedicated_vehicle:    {col: flag}
  vehicle_type:         {col: kind, when: '(value ?? 0) > 2'}
  packages:
    each: rows
    item:
      package_type: {col: kind}
      item_name:    {col: item, default: thing}
      description:  {expr: 'rows[0].item ?? "-"'}
      weight:       {col: weight}
      length:       {expr: 'weight ?? 3', when: 'kind != null'}
      stackable:    {col: flag}
      inner_cargos: {value: []}
  order_references:
    list:
      - {when: 'item != null', name: {col: kind}, value: {col: item}}
      - {name: {value: Mode}, value: {col: mode}}
  involved_parties:
    list:
      - {party_type: {value: Consignee}, party_company: {col: city}, city: {col: state}}
"""
PLAUSIBLE = {
    "ID": ["1", "2", "3"],
    "Mode": ["ROAD", "SEA", "ZEPPELIN", ""],
    "At": ["2026-03-01 08:00", "2026-07-01 08:00", ""],
    "City": ["Bonn", "x" * 30, "", "ß"],
    "State": ["BY", ""],
    "Value": ["1", "3.50", "0", ""],
    "Flag": ["yes", "no", ""],
    "Item": ["Cable", ""],
    "Kind": ["Box", "Wardrobe", ""],
    "Weight": ["12.5", "0", ""],
    "Street": ["Weg 1", "y" * 30, ""],
}
SHEETS = st.lists(st.tuples(*(st.sampled_from(cells) for cells in PLAUSIBLE.values())), min_size=1, max_size=5)
VIEWS = [ASSUMED, Assumptions(text_length_max=20), Assumptions(array_length_max=1), STRICT, OTHERWISE]


@cache
def forms(folder, place):
    return load_text(folder, FORMS, VIEWS[place])


@settings(deadline=None, max_examples=300)
@given(sheet=SHEETS, place=st.integers(0, len(VIEWS) - 1))
def test_both_ways_make_the_same_of_every_form_of_a_leaf(tmp_path_factory, sheet, place):
    mapping = forms(tmp_path_factory.getbasetemp(), place)
    rows = table_of(mapping.plan.tables[0], sheet)
    fast, exact, _ = both(mapping, {"rows": rows})
    assert fast == exact


def test_records_that_are_plainly_right_need_the_exact_way_never(tmp_path_factory):
    mapping = forms(tmp_path_factory.getbasetemp(), 0)
    right = ["1", "ROAD", "2026-03-01 08:00", "Bonn", "", "3.50", "no", "Cable", "Box", "12.5", "Weg 1"]
    doubtful = ["2", "ZEPPELIN", *right[2:]]
    rows = [right, doubtful, ["3", *right[1:]], ["4", "", *right[2:]]]
    fast, exact, made = both(mapping, {"rows": table_of(mapping.plan.tables[0], rows)})
    assert fast == exact
    assert [len(found.problems) for found in fast] == [0, 1, 0, 0]
    assert made == 3

"""Unlike layouts: every row is counted once, rows may stand in any order, every value finds its cell, and payloads are golden (M5, M8)."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import (
    ASSUMED,
    DROPS,
    EXAMPLES,
    NOW,
    cells,
    codes,
    decode,
    example,
    example_text,
    fates,
    load_text,
    of_text,
    with_rows,
)

from loadsheet.contract import BY_NAME, checker
from loadsheet.mapping.documents import Document, Ignored
from loadsheet.mapping.translator import translate


def found_in(name, **options):
    mapping, tables = example(name)
    return mapping, tables, list(translate(mapping, tables, now=NOW, **options))


def written(found):
    """A document as lines: its key and rows, its payload, its problems with all their cells."""
    if isinstance(found, Ignored):
        return [f"ignored {found.row.table}:{found.row.number} {found.rule}"]
    rows = " ".join(f"{row.table}:{row.number}" for row in found.rows)
    return [
        f"{found.operation} {found.key} ({found.lane}) from {rows}",
        *([found.payload.decode()] if found.payload else []),
        *([f"or {found.alternative.operation} {found.alternative.payload.decode()}"] if found.alternative else []),
        *(
            line
            for problem in found.problems
            for line in (str(problem), *(f"  also {where}" for where in problem.also))
        ),
    ]


@pytest.mark.parametrize("name", DROPS)
def test_an_example_gives_its_golden_payloads(name):
    _, _, found = found_in(name)
    golden = (EXAMPLES / "golden" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert [line for item in found for line in written(item)] == golden
    usable = [item for item in found if isinstance(item, Document) and item.usable]
    assert usable
    for document in usable:
        assert checker(BY_NAME[document.operation], ASSUMED)(decode(document.payload)) == ()


def outcome(found):
    """What came out, whatever its order: documents as lines, and rows that a rule leaves out."""
    return Counter(tuple(sorted(written(item))) for item in found)


@pytest.mark.parametrize("name", DROPS)
def test_every_row_of_every_layout_is_counted_once(name):
    expected = outcome(found_in(name)[2])
    for memory_rows in (0, 3, 5_000):
        _, tables, found = found_in(name, memory_rows=memory_rows)
        assert fates(found) == sorted((table.name, row.number) for table in tables.values() for row in table.rows())
        assert outcome(found) == expected


SHUFFLED = [
    "pairs", "milestones", "nested", "nordic-join", "carrier-status", "rates", "products", "card", "stock", "joined", "flat", "zones",
]  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(SHUFFLED), st.integers(0, 2**32), st.sampled_from([0, 4, 999]))
def test_m8_shuffled_rows_give_the_same_payloads_in_every_layout(name, seed, memory_rows):
    mapping, tables = example(name)
    dice = random.Random(seed)
    mixed = {}
    for role, table in tables.items():
        rows = list(table.rows())
        mixed[role] = with_rows(table, dice.sample(rows, len(rows)))
    assert contents(translate(mapping, mixed, now=NOW, memory_rows=memory_rows)) == contents(found_in(name)[2])


def contents(found):
    """Payloads without the order of their lists: that is the order of the rows."""
    usable = [item for item in found if isinstance(item, Document) and item.usable]
    return Counter((item.operation, item.key, in_order(decode(item.payload))) for item in usable)


def in_order(value):
    if isinstance(value, dict):
        joined = {"item_name"} if "inner_cargos" in value else set()  # made of the names of several rows
        return tuple(sorted((key, in_order(inner)) for key, inner in value.items() if key not in joined))
    return tuple(sorted(map(in_order, value))) if isinstance(value, list) else str(value)


# ---- lineage ----


def places(name, key, path, nth=0):
    """The cells behind a payload path: table of the file, row, label and text."""
    mapping, tables, found = found_in(name)
    document = [item for item in found if isinstance(item, Document) and item.key == key][nth]
    rows = {(row.table, row.number): row for row in document.rows}
    at = []
    for table, number, label in cells(mapping, document, path):
        header = tables[table].header
        text = rows[table, number].cells[header.index(label)] if label in header else ""
        at.append((table, number, label, text))
    return at


CELLS = {  # by example and key of a record, the paths of its payload: table, row, label and text of the cells behind each
    "pairs 1": {
        "packages[1].weight": [("rows", 2, "Kg 2", "8")], "delivery_city": [("rows", 2, "Place", "01067 Dresden")],
        "vehicle_type": [("rows", 2, "Kg 1", "12.5"), ("rows", 2, "Kg 2", "8")],
    },
    "pairs 2": {"packages[0].weight": [("rows", 3, "Kg 2", "3")]},
    "records 1": {"packages[1].weight": [("heads", 4, "weight", "")], "pickup_city": [("heads", 2, "City", "Bonn")]},
    "override 1": {"packages[1].item_name": [("rows", 3, "Item", "Lid")]},
    "nested 1": {
        "packages[1].inner_cargos[1].weight": [("cargo", 5, "Kg", "3")], "packages[0].inner_cargos[0].weight": [("cargo", 3, "Kg", "2.5")],
        "packages[1].inner_cargos[0].cargo_type": [("packages", 4, "Kind", "Crate")],
        "packages[1].inner_cargos[0].goods_description": [("orders", 2, "ID", "1")],
    },
    "products A": {
        "packages[0].item_name": [("products", 2, "Name", "Bolt"), ("orders", 2, "SKU", "P1")],
        "packages[1].volume": [("products", 3, "Weight", "500 g"), ("orders", 3, "SKU", "P2")],
    },
    "card A": {"goods_value": [("rates", 2, "South", "2"), ("orders", 2, "SKU", "P1"), ("orders", 2, "Zone", "South")]},
    "kind-prices O1": {"goods_value": [("products", 4, "B", "4"), ("products", 2, "B", "P2")]},
    "typed-rates no since": {"goods_value": [("rows", 4, "Zone", "UK"), ("rows", 4, "Weight", "0")]},
    "stock A": {
        "pickup_company": [("products", 3, "Name", "Nut"), ("orders", 2, "Main", "P2")],
        "packages[1].weight": [("products", 3, "Kg", "2"), ("lines", 4, "SKU", "P2")],
    },
}  # fmt: skip


@pytest.mark.parametrize("record", CELLS)
def test_a_payload_path_finds_its_cell(record):
    name, _, key = record.partition(" ")
    assert {path: places(name, key, path) for path in CELLS[record]} == CELLS[record]


def test_each_event_of_a_row_finds_its_own_milestone():
    for nth, label in enumerate(["Loaded", "Left"]):
        assert [cell[2] for cell in places("milestones", "b", "status_datetime", nth)] == [label]


# ---- operations ----


def test_a_mapping_with_several_operations_says_which_and_an_upsert_carries_both_payloads():
    """Which payloads, the golden file says; each has a hash of its own."""
    mapping, _, found = found_in("changes")
    assert [operation.name for operation in mapping.operations] == ["tender.create", "tender.update", "tender.delete"]
    (new,) = [item for item in found if item.alternative is not None]
    assert len(new.alternative.content_hash) == 64
    assert new.alternative.content_hash != new.content_hash


# ---- blanks that take from above ----


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{label: No,", "{label: No, key: true,"),
        ("order_id:        {col: no}", "order_id: {expr: no}"),
        (
            "payload:\n  order_id:        {col: no}",
            "derived: {name: {type: text, expr: no}}\npayload:\n  order_id: {col: name}",
        ),
    ],
)
def test_a_blank_cell_takes_from_above_within_one_record_however_its_key_is_said(tmp_path, old, new):
    text, rows = example_text("fill-down"), (EXAMPLES / "drops" / "fill-down.csv").read_text(encoding="utf-8")
    assert old in text
    found = of_text(load_text(tmp_path, text.replace(old, new)), tmp_path, rows)
    assert [one.payload for one in found] == [one.payload for one in found_in("fill-down")[2]]
    assert codes(found[-1]) == ["C301"]


LEFT_OUT = """
mapping: left-out
version: 1
target: order.update
source: {files: ["*.csv"], locale: en_GB, tables: {rows: {ignore_rows: 'RULE'}}}
columns:
  order: {label: Order, required: true, fill_down: true}
  state: {label: State, fill_down: true}
  item:  {label: Item, required: true}
group: {by: order}
payload:
  order_id:    {col: order}
  sender_id:   {value: A}
  receiver_id: {value: B}
  packages:    {each: rows, item: {package_type: {value: Box}, item_name: {col: item}}}
"""


def test_the_rows_of_an_order_that_is_left_out_are_left_out_with_its_first_row(tmp_path):
    mapping = load_text(tmp_path, LEFT_OUT.replace("RULE", 'state == "cancelled"'))
    found = of_text(
        mapping, tmp_path, "Order;State;Item\nA1;open;Bolts\nA2;cancelled;Nuts\n;;Glue\nA2;;Rope\nA3;;Tape\n"
    )
    assert [one.row.number for one in found if isinstance(one, Ignored)] == [3, 4, 5]
    assert {one.key: [row.number for row in one.rows] for one in found if isinstance(one, Document)} == {
        "A1": [2],
        "A3": [6],
    }


def test_a_row_below_one_whose_key_leaves_it_out_joins_no_other_order(tmp_path):
    mapping = load_text(tmp_path, LEFT_OUT.replace("RULE", 'order.starts_with("TEST")'))
    found = of_text(mapping, tmp_path, "Order;State;Item\nA1;open;Bolts\nTEST;open;Nuts\n;;Glue\nA3;open;Tape\n")
    rows = {one.key: [row.number for row in one.rows] for one in found if isinstance(one, Document) and one.usable}
    assert rows == {"A1": [2], "A3": [5]}
    assert [codes(one) for one in found if isinstance(one, Document) and not one.usable] == [["G405"]]


# ---- sets of columns ----

SETS = example_text("sets")


@pytest.mark.parametrize("head", ["Item 3", " ART 3", "kg 3"])
def test_a_filled_cell_of_a_further_set_is_reported_and_its_record_waits(tmp_path, head):
    text = f"ID,City,Item 1,Kg 1,Item 2,Kg 2,{head},Item 4\nA,Essen,Tea,1,,,,x\nB,Bonn,Tea,1,Rum,2,7,\n"
    found = of_text(load_text(tmp_path, SETS), tmp_path, text)
    assert {one.key: [(problem.code, problem.where.column) for problem in one.problems] for one in found} == {
        "A": [],
        "B": [("C317", head)],
    }


@pytest.mark.parametrize("sets", ["[A, B]", "{'1': one, '3': two}", "3"])
def test_only_what_is_numbered_has_a_further_set(tmp_path, sets):
    text = "ID,City,Item A,Kg A,Item 1,Kg 1,Item 2,Kg 2,Item 3,Kg 3\nA,Essen,Tea,1,Tea,1,Rum,2,Gin,3\n"
    assert [
        codes(document)
        for document in of_text(load_text(tmp_path, SETS.replace("sets: 2", f"sets: {sets}")), tmp_path, text)
    ] == [[]]


@pytest.mark.parametrize(
    ("cells_of_set", "found"),
    [(",,7.5", ["C301"]), (",1,0.00", []), (",, - ", []), ("Rum,,", ["C301"]), (",,x", ["C301", "C302"])],
)
def test_a_set_of_which_only_a_required_value_is_filled_is_not_left_out(tmp_path, cells_of_set, found):
    sets = SETS.replace("ignore_rows: 'not item'", "filled_by: [item]")
    sets = sets.replace("  weight: {", '  qty:    {label: "Qty {set}", type: integer}\n    weight: {')
    text = f"ID,City,Item 1,Kg 1,Item 2,Qty 2,Kg 2\nA,Essen,Tea,1,{cells_of_set}\n"
    (document,) = of_text(load_text(tmp_path, sets), tmp_path, text)
    assert sorted(codes(document)) == found
    assert found or len(decode(document.payload)["packages"]) == 1

"""Headings that repeat: Item, Qty, Item, Qty. By position under a checked header; an inserted column never shifts a value into another field."""

import json

import openpyxl
import pytest
from sheets import refusal
from workspace import Workspace

from loadsheet.problems import Where
from loadsheet.reading import Layout, WantedColumn
from loadsheet.reading.header import check_header, find_header

BY_OCCURRENCE = """\
mapping: pairs
version: 1
target: order.update
source: {files: ["*.csv", "*.xlsx"], locale: en_GB}
columns:
  order: {label: Order, required: true}
  first: {label: Item, occurrence: 1, required: true}
  second: {label: Item, occurrence: 2}
payload: {order_id: {col: order}, sender_id: {value: A}, receiver_id: {value: B}, delivery_city: {expr: 'first + "/" + (second ?? "none")'}}
"""
SETS = """\
mapping: pairs
version: 1
target: order.update
source:
  files: ["*.csv", "*.xlsx"]
  locale: en_GB
  tables:
    orders: {}
    items: {from: orders, sets: 3, repeated: true}
columns:
  orders: {order: {label: Order, required: true}}
  items:
    item: {label: "Item {set}", required: true}
    weight: {label: "Kg {set}", type: decimal}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  packages: {each: items, item: {package_type: {value: Box}, item_name: {col: item}, weight: {col: weight}, weight_uom: {value: KG}}}
"""
TWO_FAMILIES = (  # checked apart: the second one does not have to alternate with the first
    SETS.replace("columns:\n", "    stops: {from: orders, sets: 2, repeated: true}\ncolumns:\n")
    .replace("payload:\n", '  stops: {town: {label: "Town {set}"}, day: {label: "Day {set}"}}\npayload:\n')
    .replace(
        "col: order}", 'col: order}\n  delivery_city: {expr: \'(stops[1].town ?? "") + "/" + (stops[1].day ?? "")\'}', 1
    )
)
TWO_KINDS = """\
mapping: pairs
version: 1
target: order.update
source:
  files: "*.csv"
  tables:
    heads: {kind: {label: Kind, is: H}}
    lines: {kind: {label: Kind, is: L}, join: {to: heads, on: {order: order}}}
columns:
  heads: {order: {label: Order, required: true}, city: {label: Text, occurrence: 1}}
  lines: {order: {label: Order, required: true}, item: {label: Text, occurrence: 2}}
payload:
  order_id: {col: heads.order}
  sender_id: {value: A}
  receiver_id: {value: B}
  delivery_city: {col: heads.city}
  packages: {each: lines, item: {package_type: {value: Box}, item_name: {col: lines.item}}}
"""


@pytest.fixture
def checked(workspace):
    """What `check` makes of a sheet by a mapping: exit code, payloads, and what it says."""

    def check(text, *lines):
        workspace.use({"pairs": text})
        (workspace / "pairs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = workspace.command("check", "--payloads", "pairs.csv")
        return done.returncode, [json.loads(line)["payload"] for line in done.stdout.splitlines()], done.stderr

    return check


def packages_of(payload):
    return [(one["item_name"], one.get("weight")) for one in payload.get("packages", ())]


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (BY_OCCURRENCE, ["Order,Item,Note,Item", "A,Lamp,x,Rug", "B,Bed,,"], [("Lamp/Rug", []), ("Bed/none", [])]),
        (SETS, ["Order,Item,Kg,Item,Kg", "A,Lamp,1,Rug,2"], [(None, [("Lamp", 1), ("Rug", 2)])]),
        (SETS, ["Order,Kg,Item,Kg,Item,Kg,Item", "A,1,Lamp,,,3,Bed"], [(None, [("Lamp", 1), ("Bed", 3)])]),
        (SETS, ["Order,Item,Kg,Remark,Item,Kg", "A,Lamp,1,soon,Rug,2"], [(None, [("Lamp", 1), ("Rug", 2)])]),
        (TWO_FAMILIES, ["Order,Item,Kg,Item,Kg,Town,Day,Town,Day", "A,Lamp,1,Rug,2,Graz,Mon,Linz,Tue"], [("Linz/Tue", [("Lamp", 1), ("Rug", 2)])]),
        (TWO_KINDS, ["Kind,Order,Text,Text", "H,A,Graz,", "L,A,,Lamp"], [("Graz", [("Lamp", None)])]),  # one sheet, one count
    ],
    ids=["occurrence", "sets", "sets in another order", "sets around a remark", "two families of sets", "two kinds of rows"],
)  # fmt: skip
def test_headings_without_numbers_repeat_as_sets_or_by_their_occurrence(checked, text, lines, expected):
    code, payloads, said = checked(text, *lines)
    assert code == 0, said
    assert [(one.get("delivery_city"), packages_of(one)) for one in payloads] == expected


REFUSED = [
    (BY_OCCURRENCE, "Order,Item,Item,Item", 'the heading "Item" is expected 2 times; it is in the columns B, C, D'),
    (BY_OCCURRENCE, "Order,Item", 'the heading "Item" is expected 2 times; it is in the columns B'),
    (BY_OCCURRENCE, "Order,Item,Items", 'the heading "Item" is expected 2 times; it is in the columns B'),
    (BY_OCCURRENCE, "Order,Item (2),Item", 'the heading "Item" is expected in the order Item, Item (2); it is in the columns B, '),
    (SETS, "Order,Item (2),Kg,Item,Kg (2)", 'the heading "Item" is expected in the order Item, Item (2); it is in the columns B, '),
    (SETS, "Order" + ",Item,Kg" * 4, 'the heading "Item" is expected at most 3 times; it is in the columns B, D, F, H'),
    (SETS, "Order,Item,Kg,Kg,Item,Kg", 'in repetition 2 of the headings Item, Kg, "Item" belongs in column D; found "Kg"'),
    (SETS, "Order,Item,Item,Kg,Item,Kg", 'in repetition 1 of the headings Item, Kg, "Kg" belongs in column C; found "Item"'),
    (SETS, "Order,Item,Kg,Item,Item,Kg", 'in repetition 2 of the headings Item, Kg, "Kg" belongs in column E; found "Item"'),
    (SETS, "Order,Item,Kg,Kg,Item", 'in repetition 2 of the headings Item, Kg, "Item" belongs in column D; found "Kg"'),
    (SETS, "Order,Item,Kg,Item,Kg,Item,Note", 'in repetition 3 of the headings Item, Kg, "Kg" belongs in column G; found "Note"'),
    (SETS, "Order,Item,Kg,Item", 'in repetition 2 of the headings Item, Kg, "Kg" belongs in column E; found ""'),
    (SETS, "Order,Item,Kg,Item (2),Kg (2),Kg (3),Item (3)", 'in repetition 3 of the headings Item, Kg, "Item" belongs in column F; found "Kg (3)"'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "header", "refused"), REFUSED)
def test_a_column_inserted_missing_or_in_another_order_refuses_the_file_with_its_place(checked, text, header, refused):
    code, payloads, said = checked(text, header, ",".join(["A", *"1" * header.count(",")]))
    assert (code, payloads) == (65, [])
    assert refused in said


ITEMS, KGS = (
    [
        WantedColumn(f"{name}#{number}", (label,), required=False, occurrence=number + 1, count=3, in_set=True)
        for number in range(3)
    ]
    for name, label in (("item", "Item"), ("weight", "Kg"))
)
TWO_DATES = [WantedColumn(f"date{number}", ("Date",), required=True, occurrence=number, count=2) for number in (1, 2)]


@pytest.mark.parametrize(
    ("columns", "rows", "found"),
    [
        (ITEMS + KGS, [",First,,Second,", "Order,Item,Kg,Item,Kg"], ["Item", "Kg", "Item (2)", "Kg (2)"]),
        (ITEMS + KGS, [",,,More,", "Order,Item,Kg,Item,Kg"], ["Item", "Kg", "Item (2)", "Kg (2)"]),
        (ITEMS + KGS, [",,,,,Total,", "Order,Item,Kg,Item,Kg,Kg,Cbm"], ["Item", "Kg", "Item (2)", "Kg (2)"]),
        (TWO_DATES, [",Pickup,,Delivery", "Order,Date,Time,Date"], ["Date", "Date (2)"]),
        (TWO_DATES, [",,,Delivery", "Order,Date,Time,Date"], ["Date", "Date (2)"]),
        (TWO_DATES, [",,,Invoice", "Order,Date,Date,Date"], ["Date", "Date (2)"]),
    ],
)
def test_headings_over_two_rows_repeat_by_the_reading_that_the_mapping_expects(columns, rows, found):
    layout = Layout("rows", (WantedColumn("order", ("Order",)), *columns), header_rows=2)
    header = find_header([(number, row.split(",")) for number, row in enumerate(rows, 1)], layout)
    check_header(header, layout, Where("in.csv"), 100)
    places = sorted(place for name, (place,) in header.positions.items() if name != "order")
    assert [header.labels[place] for place in places] == found


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (BY_OCCURRENCE, "occurrence: 1", "occurrence: 0", "occurrence: must be greater than 0"),
        (BY_OCCURRENCE, "Item, occurrence: 1", "Item", "Item repeats: give this column its occurrence"),
        (BY_OCCURRENCE, "occurrence: 2}", "occurrence: 2, file: stem}", "occurrence and file cannot be combined: both locate"),
        (SETS, ", sets: 3, repeated: true", ", sets: 3, repeated: true}\n    more: {from: orders, repeated: true", "repeated needs sets"),
        (SETS, 'label: "Kg {set}"', 'label: "Kg {set}", occurrence: 2', "a column of the sets has no occurrence"),
        (SETS, "Order, required: true}", "Order, required: true}, item: {label: Item}", "Item repeats as a heading of the sets of items, and only they can read it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_at_load(tmp_path, text, old, new, said):
    assert said in refusal(tmp_path, text, old, new)


# ---- fix workbooks and templates ----


def fixed(workspace, sheet, wrong, right):
    """The fix workbook of a sheet, its page and the cell of a wrong value; sent back with the right one, and what the order is then."""
    workspace.drop("pairs.csv", sheet)
    workspace.run()
    (fix,) = workspace.outbox.glob("*/pairs.fix.xlsx")
    book = openpyxl.load_workbook(fix)
    page = book["pairs"]
    (cell,) = [cell for row in page.iter_rows(min_row=2) for cell in row if cell.value == wrong]
    cell.value = right
    book.save(workspace.inbox / "pairs.fix.xlsx")
    workspace.run()
    shown = json.loads(workspace.command("show", "A", "--payload", "--json").stdout)
    (payload,) = [one["payload"] for one in shown if one["payload"]]
    return book, page, cell, payload


def test_the_fix_workbook_comes_back_with_its_repeated_headings(tmp_path):
    workspace = Workspace(tmp_path, mappings={"pairs": SETS})
    sheet = "Order,Item,Kg,Item,Kg\nA,Lamp,1,Rug,heavy\nB,Bed,9,,\n"
    _, page, cell, payload = fixed(workspace, sheet, "heavy", 2)
    heads = [one.value for one in page[1] if str(one.value).startswith(("Item", "Kg"))]
    assert heads == ["Item", "Kg", "Item (2)", "Kg (2)"]
    assert page.cell(1, cell.column).value == "Kg (2)"
    assert cell.comment is not None, "the wrong cell is marked, not the first of its heading"
    assert packages_of(payload) == [("Lamp", 1), ("Rug", 2)]


@pytest.mark.journey
def test_each_column_of_a_repeated_heading_keeps_its_own_description_in_the_fix_workbook(tmp_path):
    """The second column of a heading has other choices than the first; its corrected value lands in its field."""
    text = BY_OCCURRENCE.replace("occurrence: 1,", "occurrence: 1, one_of: [Lamp, Bed],")
    workspace = Workspace(
        tmp_path, mappings={"pairs": text.replace("occurrence: 2", "occurrence: 2, one_of: [Rug, Mat]")}
    )
    book, page, cell, payload = fixed(workspace, "Order,Item,Item\nA,Lamp,Bed\n", "Bed", "Mat")
    assert page.cell(1, cell.column).value == "Item (2)"
    (formula,) = [one.formula1 for one in page.data_validations.dataValidation if cell.coordinate in one.sqref]
    title, _, places = formula.partition("!")
    assert [one.value for row in book[title][places] for one in row] == ["Rug", "Mat"]
    assert payload["delivery_city"] == "Lamp/Mat"


@pytest.mark.parametrize(("text", "heads"), [(SETS, ["Item", "Kg"] * 3), (BY_OCCURRENCE, ["Item", "Item"])])
def test_the_template_has_the_repeated_headings_and_is_read(tmp_path, text, heads):
    workspace = Workspace(tmp_path, mappings={"pairs": text})
    assert workspace.command("mapping", "template", "pairs").returncode == 0
    page = openpyxl.load_workbook(tmp_path / "pairs.xlsx").worksheets[0]
    found = [str(cell.value).rstrip(" *") for row in page.iter_rows() for cell in row]
    assert [text for text in found if text in ("Item", "Kg")] == heads
    done = workspace.command("check", "pairs.xlsx")
    assert "R243" not in done.stdout, done.stdout
    assert "R211" not in done.stdout, done.stdout

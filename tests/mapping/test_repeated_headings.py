"""Headings that repeat: Item, Qty, Item, Qty. By position under a checked header; an inserted column never shifts a value into another field."""

import json
import re

import openpyxl
import pytest
from command_in_process import loadsheet
from sheets import findings
from workspace import Workspace

from loadsheet.problems import Where
from loadsheet.reading import Layout, WantedColumn
from loadsheet.reading.header import check_header, find_header

BY_OCCURRENCE = """\
mapping: pairs
version: 1
target: order.update
source: {files: "*.csv", locale: en_GB}
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
  files: "*.csv"
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


@pytest.fixture
def checked(tmp_path):
    """What `check` makes of a sheet by a mapping: exit code, payloads, and what it says."""

    def check(text, *lines):
        (tmp_path / "mappings").mkdir(exist_ok=True)
        (tmp_path / "mappings" / "pairs.yaml").write_text(text, encoding="utf-8")
        (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        done = loadsheet(tmp_path, "check", "--payloads", "pairs.csv")
        return done.returncode, [json.loads(line)["payload"] for line in done.stdout.splitlines()], done.stderr

    return check


def test_a_column_takes_the_occurrence_of_its_heading(checked):
    code, payloads, said = checked(BY_OCCURRENCE, "Order,Item,Note,Item", "A,Lamp,x,Rug", "B,Bed,,")
    assert (code, [one["delivery_city"] for one in payloads]) == (0, ["Lamp/Rug", "Bed/none"]), said


@pytest.mark.parametrize(
    ("header", "columns"), [("Order,Item,Item,Item", "B, C, D"), ("Order,Item", "B"), ("Order,Item,Items", "B")]
)
def test_an_inserted_or_missing_column_refuses_the_file_with_all_its_columns(checked, header, columns):
    code, payloads, said = checked(BY_OCCURRENCE, header, "A,Lamp,Rug,Bed"[: 2 * header.count(",") + 6])
    assert (code, payloads) == (65, [])
    assert f'the heading "Item" is expected 2 times; it is in the columns {columns}' in said


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("Order,Item,Kg,Item,Kg", "A,Lamp,1,Rug,2", [("Lamp", 1), ("Rug", 2)]),
        ("Order,Kg,Item,Kg,Item,Kg,Item", "A,1,Lamp,,,3,Bed", [("Lamp", 1), ("Bed", 3)]),
        ("Order,Item,Kg,Remark,Item,Kg", "A,Lamp,1,soon,Rug,2", [("Lamp", 1), ("Rug", 2)]),
    ],
)
def test_headings_without_numbers_repeat_as_sets(checked, header, row, expected):
    code, payloads, said = checked(SETS, header, row)
    assert code == 0, said
    assert [(one["item_name"], one["weight"]) for one in payloads[0]["packages"]] == expected


@pytest.mark.parametrize(
    ("header", "number", "wanted", "found"),
    [
        ("Order,Item,Kg,Kg,Item,Kg", 2, '"Item" belongs in column D', "Kg"),
        ("Order,Item,Item,Kg,Item,Kg", 1, '"Kg" belongs in column C', "Item"),
        ("Order,Item,Kg,Item,Item,Kg", 2, '"Kg" belongs in column E', "Item"),
        ("Order,Item,Kg,Kg,Item", 2, '"Item" belongs in column D', "Kg"),
        ("Order,Item,Kg,Item,Kg,Item,Note", 3, '"Kg" belongs in column G', "Note"),
        ("Order,Item,Kg,Item", 2, '"Kg" belongs in column E', ""),
        ("Order,Item,Kg,Item (2),Kg (2),Kg (3),Item (3)", 3, '"Item" belongs in column F', "Kg (3)"),
    ],
)
def test_a_column_inserted_into_or_missing_in_a_repetition_is_found_out(checked, header, number, wanted, found):
    code, payloads, said = checked(SETS, header, "A,Lamp,1,2,3,4")
    assert (code, payloads) == (65, [])
    assert f'in repetition {number} of the headings Item, Kg, {wanted}; found "{found}"' in said


@pytest.mark.parametrize(
    ("text", "header", "order"),
    [
        (SETS, "Order,Item (2),Kg,Item,Kg (2)", "Item, Item (2)"),
        (BY_OCCURRENCE, "Order,Item (2),Item", "Item, Item (2)"),
    ],
)
def test_a_numbered_heading_is_never_read_as_another_number(checked, text, header, order):
    code, payloads, said = checked(text, header, "A,Lamp,1,2,3"[: 2 * header.count(",") + 4])
    assert (code, payloads) == (65, [])
    assert f'the heading "Item" is expected in the order {order}; it is in the columns B, ' in said


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
    order = WantedColumn("order", ("Order",))
    lines = [(number, row.split(",")) for number, row in enumerate(rows, 1)]
    layout = Layout("rows", (order, *columns), header_rows=2)
    header = find_header(lines, layout)
    check_header(header, layout, Where("in.csv"), 100)
    assert [
        header.labels[place]
        for name, (place,) in sorted(header.positions.items(), key=lambda one: one[1])
        if name != "order"
    ] == found


def test_two_families_of_sets_repeat_beside_each_other(checked):
    """The families are checked apart: the second one does not have to alternate with the first."""
    text = SETS.replace("columns:\n", "    stops: {from: orders, sets: 2, repeated: true}\ncolumns:\n").replace(
        "payload:\n", '  stops: {town: {label: "Town {set}"}, day: {label: "Day {set}"}}\npayload:\n'
    )
    city = """delivery_city: {expr: '(stops[1].town ?? "") + "/" + (stops[1].day ?? "")'}"""
    text = text.replace("order_id: {col: order}", f"order_id: {{col: order}}\n  {city}")
    header = "Order,Item,Kg,Item,Kg,Town,Day,Town,Day"
    code, payloads, said = checked(text, header, "A,Lamp,1,Rug,2,Graz,Mon,Linz,Tue")
    assert code == 0, said
    assert [one["item_name"] for one in payloads[0]["packages"]] == ["Lamp", "Rug"]
    assert payloads[0]["delivery_city"] == "Linz/Tue"


def test_tables_of_one_sheet_share_the_count_of_a_heading(checked):
    """Rows of two kinds lie under one header; one kind reads the first column of a heading, the other the second."""
    text = """\
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
    code, payloads, said = checked(text, "Kind,Order,Text,Text", "H,A,Graz,", "L,A,,Lamp")
    assert code == 0, said
    assert (payloads[0]["delivery_city"], payloads[0]["packages"][0]["item_name"]) == ("Graz", "Lamp")


def test_more_repetitions_than_the_mapping_reads_are_refused(checked):
    code, payloads, said = checked(SETS, "Order" + ",Item,Kg" * 4, "A" + ",Lamp,1" * 4)
    assert (code, payloads) == (65, [])
    assert 'the heading "Item" is expected at most 3 times; it is in the columns B, D, F, H' in said


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (BY_OCCURRENCE, "occurrence: 1", "occurrence: 0", "occurrence: must be greater than 0"),
        (
            BY_OCCURRENCE,
            "first: {label: Item, occurrence: 1",
            "first: {label: Item",
            "Item repeats: give this column its occurrence",
        ),
        (
            SETS,
            ", sets: 3, repeated: true",
            ", sets: 3, repeated: true}\n    more: {from: orders, repeated: true",
            "repeated needs sets",
        ),
        (
            BY_OCCURRENCE,
            "occurrence: 2}",
            "occurrence: 2, file: stem}",
            "occurrence and file cannot be combined: both locate",
        ),
        (SETS, 'label: "Kg {set}"', 'label: "Kg {set}", occurrence: 2', "a column of the sets has no occurrence"),
        (
            SETS,
            "order: {label: Order, required: true}",
            "order: {label: Order, required: true}, item: {label: Item}",
            "Item repeats as a heading of the sets of items, and only they can read it",
        ),
    ],
)
def test_what_does_not_fit_is_refused_at_load(tmp_path, text, old, new, said):
    assert any(said in line for line in findings(tmp_path, text.replace(old, new))), findings(
        tmp_path, text.replace(old, new)
    )


def test_the_fix_workbook_comes_back_with_its_repeated_headings(tmp_path):
    workspace = Workspace(tmp_path, mappings={"pairs": SETS})
    sheet = "Order,Item,Kg,Item,Kg\nA,Lamp,1,Rug,heavy\nB,Bed,9,,\n"
    (workspace.inbox / "pairs.csv").write_text(sheet, encoding="utf-8")
    assert workspace.run("--limit", "1").returncode == 1
    (fix,) = workspace.outbox.glob("*/pairs.fix.xlsx")
    book = openpyxl.load_workbook(fix)
    page = book["pairs"]
    (cell,) = [cell for row in page.iter_rows() for cell in row if cell.value == "heavy"]
    heads = [
        one.value for row in page.iter_rows() for one in row if re.fullmatch(r"(Item|Kg)( .[0-9].)?", str(one.value))
    ]
    assert heads == ["Item", "Kg", "Item (2)", "Kg (2)"]
    assert page.cell(1, cell.column).value == "Kg (2)"
    assert cell.comment is not None, "the wrong cell is marked, not the first of its heading"
    cell.value = 2
    book.save(workspace.inbox / "pairs.fix.xlsx")
    workspace.run()
    shown = json.loads(workspace.command("show", "A", "--payload", "--json").stdout)
    (payload,) = [one["payload"] for one in shown if one["payload"]]
    assert [(one["item_name"], one["weight"]) for one in payload["packages"]] == [("Lamp", 1), ("Rug", 2)]


@pytest.mark.journey
def test_each_column_of_a_repeated_heading_keeps_its_own_description_in_the_fix_workbook(tmp_path):
    """The second column of a heading has other choices than the first; its corrected value lands in its field."""
    text = BY_OCCURRENCE.replace("occurrence: 1,", "occurrence: 1, one_of: [Lamp, Bed],")
    text = text.replace("occurrence: 2", "occurrence: 2, one_of: [Rug, Mat]")
    workspace = Workspace(tmp_path, mappings={"pairs": text})
    workspace.drop("pairs.csv", "Order,Item,Item\nA,Lamp,Bed\n")
    workspace.run()
    (fix,) = workspace.outbox.glob("*/pairs.fix.xlsx")
    book = openpyxl.load_workbook(fix)
    page = book["pairs"]
    heads = {cell.value: cell.column for cell in page[1]}
    assert {"Item", "Item (2)"} < heads.keys()
    (cell,) = [cell for row in page.iter_rows(min_row=2) for cell in row if cell.value == "Bed"]
    assert cell.column == heads["Item (2)"]
    (formula,) = [one.formula1 for one in page.data_validations.dataValidation if cell.coordinate in one.sqref]
    title, _, places = formula.partition("!")
    assert [one.value for row in book[title][places] for one in row] == ["Rug", "Mat"]
    cell.value = "Mat"
    book.save(workspace.inbox / "pairs.fix.xlsx")
    workspace.run()
    shown = json.loads(workspace.command("show", "A", "--payload", "--json").stdout)
    (payload,) = [one["payload"] for one in shown if one["payload"]]
    assert payload["delivery_city"] == "Lamp/Mat"


@pytest.mark.parametrize("text", [SETS, BY_OCCURRENCE])
def test_the_template_has_the_repeated_headings_and_is_read(tmp_path, text):
    workspace = Workspace(tmp_path, mappings={"pairs": text.replace('"*.csv"', '["*.csv", "*.xlsx"]')})
    assert workspace.command("mapping", "template", "pairs").returncode == 0
    page = openpyxl.load_workbook(tmp_path / "pairs.xlsx").worksheets[0]
    found = [str(cell.value).rstrip(" *") for row in page.iter_rows() for cell in row]
    heads = [text for text in found if text in ("Item", "Kg")]
    assert heads == (["Item", "Kg"] * 3 if text == SETS else ["Item", "Item"])
    done = workspace.command("check", "pairs.xlsx")
    assert "R243" not in done.stdout, done.stdout
    assert "R211" not in done.stdout, done.stdout

"""Headings that repeat: Item, Qty, Item, Qty. By position under a checked header; an inserted column never shifts a value into another field."""

import json
import re

import openpyxl
import pytest
from command_in_process import loadsheet
from sheets import findings
from workspace import Workspace

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
    ("header", "label", "columns"),
    [
        ("Order,Item,Kg,Kg,Item,Kg", "Kg", "C, D, F"),
        ("Order,Item,Kg,Item,Item,Kg", "Kg", "C, F"),
        ("Order,Item,Kg,Kg,Item", "Kg", "C, D"),
    ],
)
def test_a_column_inserted_into_or_missing_in_a_repetition_is_found_out(checked, header, label, columns):
    code, payloads, said = checked(SETS, header, "A,Lamp,1,2,3,4")
    assert (code, payloads) == (65, [])
    assert f'the heading "{label}" is expected in the order Item, Kg; it is in the columns {columns}' in said


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


@pytest.mark.parametrize("text", [SETS, BY_OCCURRENCE])
def test_the_template_has_the_repeated_headings_and_is_read(tmp_path, text):
    workspace = Workspace(tmp_path, mappings={"pairs": text.replace('"*.csv"', '["*.csv", "*.xlsx"]')})
    assert workspace.command("mapping", "template", "pairs").returncode == 0
    page = openpyxl.load_workbook(tmp_path / "pairs.xlsx").worksheets[0]
    found = [str(cell.value).rstrip(" *") for row in page.iter_rows() for cell in row]
    heads = [text for text in found if text in ("Item", "Kg")]
    assert heads == (["Item", "Kg"] * 3 if text == SETS else ["Item", "Item"])
    done = workspace.command("check", "pairs.xlsx")
    assert "R243" not in done.stderr, done.stderr
    assert "R211" not in done.stderr, done.stderr

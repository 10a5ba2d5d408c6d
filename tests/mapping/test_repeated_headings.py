"""Headings that repeat: Item, Qty, Item, Qty. By position under a checked header; an inserted column never shifts a value into another field."""

import json

import openpyxl
import pytest
from sheets import example_text
from workspace import Workspace

from loadsheet.problems import Where
from loadsheet.reading import Layout, WantedColumn
from loadsheet.reading.header import check_header, find_header

BY_OCCURRENCE, SETS = (
    example_text(name).replace(f"mapping: {name}", "mapping: pairs") for name in ("occurrence", "repeated-sets")
)


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


@pytest.mark.parametrize("header", ["Order,Item,Kg,Item,Kg", "Order,Item,Kg,Remark,Item,Kg"])
def test_headings_without_numbers_repeat_as_sets(checked, header):
    row = {"Order": "A", "Remark": "soon"}
    cells = iter(["Lamp", "1", "Rug", "2"])
    code, (payload,), said = checked(SETS, header, ",".join(row.get(head) or next(cells) for head in header.split(",")))
    assert (code, packages_of(payload)) == (0, [("Lamp", 1), ("Rug", 2)]), said


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


# ---- fix workbooks and templates ----


def fixed(workspace, sheet, wrong, right):
    """The fix workbook of a sheet, its page and the cell of a wrong value; sent back with the right one, and what the order is then."""
    workspace.drop("pairs.csv", sheet)
    workspace.run()
    with workspace.fixing("pairs.fix.xlsx") as book:
        page = book["pairs"]
        (cell,) = [cell for row in page.iter_rows(min_row=2) for cell in row if cell.value == wrong]
        cell.value = right
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

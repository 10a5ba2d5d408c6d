"""One mapping reads all sheets of its layout, such as one for each month: each row once, with its sheet, and new sheets without an edit."""

import json
import re
import sqlite3
from contextlib import closing
from datetime import date

import openpyxl
import pytest
from workspace import SMALL

HEAD = ["Order", "City", "Weight"]
ORDERS = (SMALL / "orders.yaml").read_text(encoding="utf-8").replace('"orders*.csv"', '"orders*.*"')
EVERY = ORDERS.replace("rows: {}", 'rows: {sheet: "*"}')
GROUPED = (
    EVERY.replace("payload:", "group: {by: order}\npayload:")
    .replace("{col: weight}", "{expr: '$sum([r.weight for r in rows])'}")
    .replace("total_packages: {value: 1}", "total_packages: {expr: '$count(rows)'}")
)


def month(number):
    return date(2026, number, 1).strftime("%b")


def monthly(months, each=3):
    """The rows of sheets by title: order, city, weight."""
    return {
        month(number): [[f"{number}-{row}", f"Town {row}", number * 100 + row] for row in range(1, each + 1)]
        for number in months
    }


def book_of(path, sheets, *, hidden=(), above=None, heads=None):
    """A workbook with these rows on each sheet, below `above` rows and the headings; a sheet given as None has none of these."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        page = book.create_sheet(title)
        page.sheet_state = "hidden" if title in hidden else "visible"
        head = (heads or {}).get(title, HEAD)
        lines = [*(above or {}).get(title, []), head] if head else []
        for line in [*lines, *rows]:
            page.append(line)
    book.save(path)


def weights(sheets):
    """What must be at the exchange: the weight of each order."""
    return {order: float(weight) for rows in sheets.values() for order, _, weight in rows}


def at_the_exchange(workspace):
    with closing(sqlite3.connect(workspace.state / "exchange.db")) as database:
        return [json.loads(content) for (content,) in database.execute("select content from orders")]


def sent(workspace):
    """The weights of the orders that the exchange has."""
    return {order["order_id"]: float(order["total_weight"]) for order in at_the_exchange(workspace)}


def problems(workspace):
    """The problems of the last run by code, each with its places."""
    return {problem["code"]: problem["places"] for problem in workspace.run_json()["problems"]}


def counts(workspace):
    """The rows of the last run by outcome, and how many rows of which sheet were read."""
    run = workspace.run_json()
    tables = [table for drop in run["drops"] for file in drop["files"] for table in file["tables"]]
    assert run["balance"]["balances"]
    return run["balance"]["rows"], {table["sheet"]: table["rows"] for table in tables}


@pytest.fixture
def every(workspace):
    workspace.use({"orders": EVERY})
    return workspace


@pytest.mark.journey
def test_every_month_is_read_and_the_next_one_without_an_edit(every):
    sheets = monthly(range(1, 4))
    book_of(every.inbox / "orders.xlsx", sheets)
    assert every.run().returncode == 0
    assert sent(every) == weights(sheets)
    assert counts(every) == ({"accepted": 9}, {"Jan": 3, "Feb": 3, "Mar": 3})

    sheets |= monthly([4])
    sheets["Feb"][1][2] = 7
    book_of(every.inbox / "orders.xlsx", sheets)
    done = every.run()
    assert counts(every) == ({"accepted": 3, "unchanged": 8, "held": 1}, {"Jan": 3, "Feb": 3, "Mar": 3, "Apr": 3})
    assert (done.returncode, every.states()["2-2"]) == (1, "held"), "a changed order, as in any file"
    assert sent(every) == weights(sheets) | {"2-2": 202.0}


def test_sheets_that_differ_are_read_with_their_own_headings_and_others_are_listed(every):
    """Titles above, another order of columns, a column more; and beside them what is not the table."""
    sheets = {
        "Hamburg": [["H-1", "Hamburg", 1]],
        "Berlin": [[2, "B-1", "Berlin"]],
        "Köln": [["urgent", "K-1", "Köln", 3]],
    }
    heads = {"Berlin": ["Weight", "Order", "City"], "Köln": ["Remark", *HEAD], "Read me": None, "Summary": None}
    others = {
        "Read me": [["Order: your number"], ["Weight: in kg"]],
        "Summary": [["City", "Orders"], ["Köln", 1]],
        "Bremen": [],
        "Old": [["O-1", "Bonn", 4]],
    }
    path = every.inbox / "orders.xlsx"
    above = {"Hamburg": [["Orders of Hamburg"], []]}
    book_of(path, {"Read me": others.pop("Read me"), **sheets, **others}, hidden=("Old",), above=above, heads=heads)
    checked = every.command("check", path)
    assert checked.returncode == 0
    assert (
        "hidden sheets: 1 (Old); sheets not read: 2 (Read me, Summary); sheets without rows: 1 (Bremen)"
        in checked.stdout
    )
    assert "orders.xlsx:Köln: 1 column not used (Remark)" in checked.stdout
    assert every.run().returncode == 0
    assert sent(every) == {"H-1": 1.0, "B-1": 2.0, "K-1": 3.0}
    assert counts(every) == ({"accepted": 3}, {"Hamburg": 1, "Berlin": 1, "Köln": 1})


def test_a_pattern_names_some_of_the_sheets(workspace):
    workspace.use({"orders": ORDERS.replace("rows: {}", 'rows: {sheet: "20*"}')})
    sheets = {"2025": [["A", "Bonn", 1]], "2026": [["B", "Bonn", 2]], "Plan": [["C", "Bonn", 3]]}
    book_of(workspace.inbox / "orders.xlsx", sheets)
    assert workspace.run().returncode == 0
    assert sent(workspace) == {"A": 1.0, "B": 2.0}
    assert list(problems(workspace)) == ["R245"], "Plan has the same columns"
    book_of(workspace.inbox / "orders.xlsx", {"Plan": [["C", "Bonn", 3]]})
    assert workspace.run().returncode == 65
    assert problems(workspace) == {"R210": ["orders.xlsx"]}


@pytest.mark.journey
@pytest.mark.parametrize("mapping", [EVERY, GROUPED], ids=["a row is a record", "rows are grouped"])
@pytest.mark.parametrize("changed", ["hold", "update"])
def test_an_order_on_two_sheets_is_neither_merged_nor_sent_in_part(workspace, mapping, changed):
    workspace.use({"orders": f"{mapping}changed: {changed}\n"})
    sheets = monthly([1, 2])
    sheets["Feb"] = [[None, "Town 0", 1], *sheets["Feb"], ["1-1", "Town 1", 5]]
    book_of(workspace.inbox / "orders.xlsx", sheets)
    assert workspace.run().returncode == 1
    del sheets["Feb"][-1], sheets["Feb"][0], sheets["Jan"][0]
    assert sent(workspace) == weights(sheets)
    assert counts(workspace)[0] == {"accepted": 5, "invalid": 3}
    found = workspace.ask("select problems from entries where key = '1-1'")
    assert [json.loads(text)[0]["values"]["rows"] for (text,) in found] == ["2 (Jan), 6 (Feb)"] * 2


@pytest.mark.journey
@pytest.mark.parametrize("renamed", [False, True])
def test_the_fix_workbook_has_the_sheets_with_errors_and_comes_back(every, renamed):
    sheets = monthly(range(1, 6))
    right = weights(sheets)
    for title, row in (("Feb", 0), ("Apr", 0), ("Apr", 2), ("May", 1)):  # equal row numbers on two sheets
        sheets[title][row][2] = f"wrong {sheets[title][row][2]}"
    book_of(every.inbox / "orders.xlsx", sheets)
    assert every.run().returncode == 1
    wrong = ["2-1", "4-1", "4-3", "5-2"]
    assert sent(every) == {order: weight for order, weight in right.items() if order not in wrong}
    with every.fixing("orders.fix.xlsx", "any name.xlsx") as book:
        assert [page.title for page in book][:3] == ["Feb", "Apr", "May"]
        lines = [line for page in book.worksheets[:3] for line in page.iter_rows(min_row=2)]
        assert [line[1].value for line in lines] == wrong
        for line in lines:
            line[3].value = float(line[3].value.removeprefix("wrong "))
        if renamed:
            book["Apr"].title = "Apr (mended)"
    assert every.run().returncode == 0
    assert sent(every) == right
    assert counts(every)[0] == {"accepted": 4}
    book_of(every.inbox / "orders.xlsx", monthly(range(1, 6)))
    assert every.run().returncode == 0
    assert counts(every)[0] == {"unchanged": 15}


@pytest.fixture
def to_fix(every):
    """A workspace whose file was wrong in a cell of each of its two sheets."""
    sheets = monthly([1, 2])
    sheets["Jan"][0][2] = sheets["Feb"][0][2] = "x"
    book_of(every.inbox / "orders.xlsx", sheets)
    every.run()
    return every


def test_a_sheet_whose_heading_was_changed_in_the_fix_workbook_is_not_left_out(to_fix):
    with to_fix.fixing("orders.fix.xlsx") as book:
        book["Jan"]["D2"], book["Feb"]["D2"], book["Feb"]["B1"] = 1, 2, "Number"
    assert to_fix.run().returncode == 65
    assert problems(to_fix) == {"R204": ["orders.fix.xlsx:Feb!1"]}


@pytest.mark.journey
def test_a_new_sheet_that_lacks_a_required_heading_is_not_left_out_silently(every):
    book_of(every.inbox / "orders.xlsx", monthly([1]))
    assert every.run().returncode == 0
    sheets = monthly([1, 2])
    sheets["Jan"].append(["1-4", "Bonn", 4])
    book_of(every.inbox / "orders.xlsx", sheets, heads={"Feb": ["Ordr", "City", "Weight"]})
    assert every.run().returncode == 1
    assert problems(every) == {"L623": ["orders.xlsx:Jan!1"]}
    book_of(every.inbox / "orders.xlsx", monthly([1, 2]))
    assert every.run().returncode == 0
    assert sent(every) == weights(monthly([1, 2]))


def test_a_text_file_and_a_workbook_with_one_sheet_are_read_by_the_same_mapping(every):
    every.drop("orders-1.csv", "Order,City,Weight\nC-1,Bonn,1\n")
    book_of(every.inbox / "orders-2.xlsx", {"Sheet1": [["S-1", "Bonn", 2]]})
    assert every.run().returncode == 0
    assert sent(every) == {"C-1": 1.0, "S-1": 2.0}


def test_the_share_of_wrong_records_is_that_of_the_file(workspace):
    """One sheet is all wrong, and a tenth of the file."""
    workspace.use({"orders": f"{EVERY}errors: {{stop_at: 20%}}\n"})
    sheets = monthly(range(1, 11), each=2)
    for row in sheets["Mar"]:
        row[2] = "x"
    book_of(workspace.inbox / "orders.xlsx", sheets)
    assert workspace.run().returncode == 1
    assert counts(workspace)[0] == {"accepted": 18, "invalid": 2}
    sheets = monthly([11, 12], each=2)
    sheets["Nov"][0][2] = "x"
    book_of(workspace.inbox / "orders.xlsx", sheets)
    workspace.run()
    assert counts(workspace)[0] == {"held": 3, "invalid": 1}


@pytest.mark.journey
def test_preview_and_show_name_the_sheet(every):
    path = every.inbox / "orders.xlsx"
    book_of(path, monthly([1, 2], each=1))
    shown = every.command("mapping", "preview", path, "--rows", "2").stdout
    assert "orders.xlsx:Jan!C2" in shown
    assert "orders.xlsx:Feb!C2" in shown
    every.run()
    traced = every.command("show", "2-1", "--field", "total_weight").stdout
    assert "orders.xlsx:Feb!C2" in traced


def test_another_table_beside_it_is_refused_when_the_mapping_is_loaded(workspace):
    text = (
        EVERY.replace("order: {label", "rows:\n    order: {label")
        .replace("  city: {l", "    city: {l")
        .replace("  weight: {l", "    weight: {l")
    )
    more = 'rows: {sheet: "*"}\n    items: {sheet: Items, join: {to: rows, on: {order: order}}}'
    text = text.replace('rows: {sheet: "*"}', more).replace(
        "constants:", "  items: {order: {label: Order, required: true}}\nconstants:"
    )
    workspace.use({"orders": text.replace("{col: ", "{col: rows.")})
    done = workspace.command("mapping", "lint")
    assert '"*" stands for several sheets, but the mapping reads other tables too' in done.stdout + done.stderr


def test_what_is_not_read_names_the_way_to_read_every_sheet(workspace):
    path = workspace.inbox / "orders.xlsx"
    book_of(path, monthly([1, 2], each=1))
    workspace.use({"orders": ORDERS})
    assert 'if all are, have the mapping read all (sheet: "*")' in workspace.command("check", path).stdout
    workspace.use({"orders": ORDERS.replace("rows: {}", "rows: {sheet: Jan}")})
    assert 'have the mapping read them (sheet: "*", or source.shared)' in workspace.command("check", path).stdout
    workspace.use({"orders": EVERY})
    book_of(path, monthly([1, 2], each=1), heads={"Feb": ["Ordr", "City", "Weight"]})
    checked = workspace.command("check", path)
    assert (checked.returncode, "or correct the headings and the name of the sheet" in checked.stdout) == (0, True)


@pytest.mark.journey
def test_mappings_that_share_the_sheets_count_each_row_once_and_get_their_rows_back(workspace):
    """Orders and status events from each row of each sheet; equal row numbers and equal mistakes on both."""
    shared = {}
    for name in ("orders", "events"):
        text = (SMALL / f"{name}.yaml").read_text(encoding="utf-8")
        text = re.sub(r'files: \[".*"\]', 'files: ["both*.*"]\n  shared: true', text)
        shared[name] = text.replace("rows: {}", 'rows: {sheet: "*"}')
    workspace.use(shared)
    head = [*HEAD, "Code", "At"]
    sheets = {
        title: [[f"{title}-{row}", "Bonn", weight, "DEP", at] for row, (weight, at) in enumerate(cells, 1)]
        for title, cells in {
            "Jan": [(1, "2026-03-01 10:00"), ("2x", "2026-03-01 10:00")],
            "Feb": [(3, "never"), ("4x", "never"), (5, "2026-03-01 10:00")],
        }.items()
    }
    book_of(workspace.inbox / "both.xlsx", sheets, heads=dict.fromkeys(sheets, head))
    assert workspace.run().returncode == 1
    assert workspace.run_json()["balance"]["rows"] == {"accepted": 2, "invalid": 3}
    assert sent(workspace) == {"Jan-1": 1.0, "Feb-1": 3.0, "Feb-3": 5.0}
    with workspace.fixing("both.fix.xlsx", "back.xlsx") as book:
        assert [page.title for page in book][:3] == ["Jan", "Feb", "Feb events"]
        for cell in (cell for page in book.worksheets[:3] for line in page.iter_rows(min_row=2) for cell in line):
            if str(cell.value).endswith("x"):
                cell.value = int(cell.value[:-1])
            elif cell.value == "never":
                cell.value = "2026-03-01 11:00"
    assert workspace.run().returncode == 0
    assert sent(workspace) == {"Jan-1": 1.0, "Jan-2": 2.0, "Feb-1": 3.0, "Feb-2": 4.0, "Feb-3": 5.0}
    assert len(workspace.ask("select 1 from entries where operation = 'order.status' and state = 'accepted'")) == 5


@pytest.mark.journey
def test_rows_moved_to_one_sheet_of_the_fix_workbook_are_one_order(workspace):
    workspace.use({"orders": GROUPED})
    sheets = monthly([1, 2])
    sheets["Feb"].append(["1-1", "Town 1", 5])
    book_of(workspace.inbox / "orders.xlsx", sheets)
    workspace.run()
    with workspace.fixing("orders.fix.xlsx") as book:
        book["Jan"].append([cell.value for cell in book["Feb"][2]])
        book["Feb"].delete_rows(2)
    assert workspace.run().returncode == 0
    assert sent(workspace) == weights(sheets) | {"1-1": 106.0}


@pytest.mark.journey
def test_the_name_of_the_sheet_may_be_a_value_also_when_it_comes_back(workspace):
    """Shortened and renamed in the fix workbook, it is still that of the sheet that was dropped."""
    text = EVERY.replace("  city: {label: City, ", "  site: {file: sheet}\n  city: {label: City, ")
    workspace.use({"orders": text.replace("pickup_city: {value: Köln}", "pickup_city: {col: site}")})
    sheets = {"Errors": [["E-1", "Bonn", "x"]], "Köln": [["K-1", "Bonn", "y"], ["K-2", "Bonn", 2]]}
    book_of(workspace.inbox / "orders.xlsx", sheets)
    workspace.run()
    with workspace.fixing("orders.fix.xlsx") as book:
        assert [page.title for page in book][:2] == ["Errors-2", "Köln"]
        for page in book.worksheets[:2]:
            page["D2"] = 1
            page.title = f"{page.title} mended"
    assert workspace.run().returncode == 0
    cities = {order["order_id"]: order["pickup_city"] for order in at_the_exchange(workspace)}
    assert cities == {"E-1": "Errors", "K-1": "Köln", "K-2": "Köln"}


@pytest.mark.journey
def test_a_sheet_that_was_read_before_is_not_left_out_silently(every):
    """Its headings are gone. A sheet without rows, or one that was never read, holds nothing."""
    path, others = every.inbox / "orders.xlsx", {"Summary": [["Town", "Orders"]], "Mar": []}
    heads, late = {"Summary": None, "Feb, late": None}, monthly([2])["Feb"]
    book_of(path, monthly([1, 3]) | {"Feb, late": late, "Summary": []}, heads={"Summary": None})
    assert every.run().returncode == 0
    sheets = monthly([1], each=4) | {"Feb, late": monthly([2], each=4)["Feb"]}
    book_of(path, sheets | others, heads=heads)
    assert "0 records would be sent" in every.run("--dry-run").stdout
    assert every.run().returncode == 1
    assert problems(every) == {"L624": ["orders.xlsx:Jan!1"]}
    assert every.states()["1-4"] == "held"
    assert every.command("retry", "--file", "orders.xlsx").returncode == 0
    assert every.run().returncode == 0
    book_of(path, {"Jan": monthly([1], each=5)["Jan"], "Feb, late": sheets["Feb, late"]} | others, heads=heads)
    assert every.run().returncode == 0  # it is known now
    assert sent(every) == weights(monthly([1], each=5) | monthly([2, 3]))


@pytest.mark.journey
def test_an_order_is_the_same_on_another_sheet_of_a_later_file(workspace):
    """Moved, it is unchanged; changed, it is updated; corrected in the file itself, it leaves no exception."""
    workspace.use({"orders": f"{EVERY}changed: update\n"})
    path, sheets = workspace.inbox / "orders.xlsx", monthly([1, 2])
    right = weights(sheets)
    sheets["Jan"][2][2] = "x"
    book_of(path, sheets)
    assert workspace.run().returncode == 1
    sheets = monthly([1, 2])
    sheets["Feb"] += [sheets["Jan"].pop(0), sheets["Jan"].pop(0)]
    sheets["Feb"][-1][2] = 55
    book_of(path, sheets)
    assert workspace.run().returncode == 0
    assert counts(workspace)[0] == {"unchanged": 4, "accepted": 2}
    assert sent(workspace) == right | {"1-2": 55.0}
    assert workspace.run().returncode == 0
    assert [line["Exception"] for line in workspace.sheet("Exceptions")] == ["no open exceptions"]


@pytest.mark.journey
def test_a_fix_workbook_comes_back_although_the_mapping_reads_one_sheet_since(to_fix):
    to_fix.edit("mappings/orders.yaml", '"*"', "Jan")
    with to_fix.fixing("orders.fix.xlsx") as book:
        book["Jan"]["D2"], book["Feb"]["D2"] = 101, 201
    assert to_fix.run().returncode == 0
    assert sent(to_fix) == weights(monthly([1, 2]))


@pytest.mark.journey
def test_a_sheet_that_is_missing_in_the_fix_workbook_is_still_to_be_corrected(to_fix):
    with to_fix.fixing("orders.fix.xlsx", "second.xlsx") as book:
        book["Feb"]["D2"] = 201
        del book["Jan"]
    second = (to_fix.inbox / "second.xlsx").rename(to_fix / "second.xlsx")
    with to_fix.fixing("orders.fix.xlsx") as book:
        book["Jan"]["D2"] = 101
        del book["Feb"]
    assert to_fix.run().returncode == 0
    assert to_fix.states() == dict.fromkeys(weights(monthly([1, 2])), "accepted") | {"2-1": "invalid"}
    assert [line["Key"] for line in to_fix.sheet("Exceptions")] == ["2-1"]
    to_fix.drop("orders.fix.xlsx", second)
    assert to_fix.run().returncode == 0
    assert sent(to_fix) == weights(monthly([1, 2]))

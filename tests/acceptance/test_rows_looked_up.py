"""Orders whose products are in another file or sheet: the run balances, values lead to their cells, and fix files come back."""

import json

import openpyxl
import pytest
from faulty_exchange import misbehaving
from ledgers import contents_in
from outcome_check import result_lines
from workspace import Workspace

MAPPING = """\
mapping: products
version: 1
target: tender.create
source:
  files: ["orders_{day}.csv"]
  companions: {products: "products_{day}.csv"}
  locale: de_DE
  timezone: Europe/Berlin
  tables:
    orders: {}
    products: {file: products}
lookups:
  product: {table: products, key: sku}
columns:
  orders:
    order: {label: Order, required: true, key: true}
    sku:   {label: SKU, lookup: product, required: true}
    count: {label: Count, type: integer, required: true}
  products:
    sku:    {label: Artikel, required: true}
    name:   {label: Name, required: true}
    weight: {label: Gewicht, type: decimal, required: true}
payload:
  tender_id: {col: order}
  sender_id: {value: ACME}
  receiver_id: {value: CARRIER1}
  tender_status: {value: OPEN}
  packages: {each: rows, item: {package_type: {value: Box}, item_name: {col: sku.name}, weight: {expr: count * sku.weight}}}
"""
ORDERS = [("A", "P1", 2), ("B", "P2", 1), ("C", "P1", 4), ("D", "P7", 1)]
PRODUCTS = [("P1", "Bolzen", "2,5"), ("P2", "Mutter", "schwer"), ("P3", "Ring", "1"), ("P77", "Seil", "3")]


def as_csv(head, rows):
    return "\n".join(";".join(map(str, row)) for row in (head, *rows)) + "\n"


@pytest.fixture
def dropped(tmp_path):
    workspace = Workspace(tmp_path, mappings={"products": MAPPING})
    workspace.drop("orders_1.csv", as_csv(("Order", "SKU", "Count"), ORDERS))
    workspace.drop("products_1.csv", as_csv(("Artikel", "Name", "Gewicht"), PRODUCTS))
    assert workspace.run().returncode == 1
    return workspace


def weights(workspace, *keys):
    """The weight that the exchange has of the package of each order."""
    found = []
    for key in keys:
        shown = json.loads(workspace.command("show", key, "--payload", "--json").stdout)
        found += [float(one["payload"]["packages"][0]["weight"]) for one in shown if one["state"] == "accepted"]
    return found


def test_rows_that_are_looked_up_balance_and_explain_their_values(dropped):
    (path,) = dropped.outbox.glob("*/run.json")
    summary = json.loads(path.read_bytes())
    assert summary["balance"]["balances"]
    assert summary["balance"]["rows"] == {"accepted": 3, "invalid": 3, "ignored": 2}
    (drop,) = summary["drops"]
    fates = {file["name"]: file["tables"][0]["fates"] for file in drop["files"]}
    assert fates["products_1.csv"] == {"accepted": 1, "invalid": 1, "ignored": 2}
    (results,) = dropped.outbox.glob("*/products_1*results.csv")
    lines = [row[:3] for row in result_lines(results)[""]][1:]
    assert [line[:2] for line in lines if line[1] != "übergangen"] == [["2", "angenommen"], ["3", "fehlerhaft"]]
    assert any("Gewicht" in problem and "schwer" in problem for _, _, problem in lines)
    said = dropped.command("show", "C", "--field", "packages[0].weight").stdout
    assert "products_1.csv" in said
    assert "Gewicht" in said
    assert "2,5" in said
    assert "products: by sku" in said
    assert weights(dropped, "A", "C") == [5, 10]


@pytest.mark.journey
def test_a_fix_file_corrects_the_row_that_is_looked_up_and_a_key(dropped):
    (fix,) = dropped.outbox.glob("*/*.fix.xlsx")
    book = openpyxl.load_workbook(fix)
    cells = {
        cell.value: cell
        for page in book
        for row in page.iter_rows()
        for cell in row
        if page.title[:6] in ("orders", "produc")
    }
    cells["schwer"].value = "7,5"
    cells["P7"].value = "P77"
    assert "P3" in cells, "a corrected key may need any of the products"
    book.save(dropped.inbox / fix.name)
    dropped.run()
    assert weights(dropped, "B", "D") == [7.5, 3]


@pytest.mark.journey
def test_a_fix_file_corrects_the_row_that_is_looked_up_after_the_exchange_refused_its_value(tmp_path):
    workspace = Workspace(tmp_path / "work", mappings={"products": MAPPING})
    long = "Bolzen, verzinkt, mit Unterlegscheibe und Mutter"
    workspace.drop("orders_1.csv", as_csv(("Order", "SKU", "Count"), [ORDERS[0], ORDERS[2]]))
    workspace.drop("products_1.csv", as_csv(("Artikel", "Name", "Gewicht"), [("P1", long, "2,5"), PRODUCTS[2]]))
    with misbehaving(tmp_path, text_length_max=40) as served:
        assert workspace.run("--exchange", served.exchange.url).returncode == 1
        (fix,) = workspace.outbox.glob("*/*.fix.xlsx")
        book = openpyxl.load_workbook(fix)
        (cell,) = [cell for row in book["products_1"].iter_rows() for cell in row if cell.value == long]
        assert cell.comment is not None, "the value stands in the row of the product"
        cell.value = "Bolzen"
        book.save(workspace.inbox / fix.name)
        assert workspace.run("--exchange", served.exchange.url).returncode == 0
    assert weights(workspace, "A", "C") == [5, 10]


@pytest.mark.journey
def test_a_fix_file_makes_two_rows_of_one_key_equal(tmp_path):
    workspace = Workspace(tmp_path, mappings={"products": MAPPING})
    workspace.drop("orders_1.csv", as_csv(("Order", "SKU", "Count"), [ORDERS[0], ORDERS[2]]))
    twice = [("P1", "Bolzen", "2,5"), ("P1", "Bolzen", "3,5")]
    workspace.drop("products_1.csv", as_csv(("Artikel", "Name", "Gewicht"), twice))
    assert workspace.run().returncode == 65
    (fix,) = workspace.outbox.glob("*/*.fix.xlsx")
    book = openpyxl.load_workbook(fix)
    (cell,) = [cell for row in book["products_1"].iter_rows() for cell in row if cell.value in ("3,5", 3.5)]
    cell.value = "2,5"
    book.save(workspace.inbox / fix.name)
    assert workspace.run().returncode == 0
    assert weights(workspace, "A", "C") == [5, 10]


SHEETS = (
    MAPPING.replace('files: ["orders_{day}.csv"]', 'files: ["*.xlsx"]')
    .replace('  companions: {products: "products_{day}.csv"}\n', "")
    .replace("orders: {}", "orders: {sheet: Orders}")
    .replace("{file: products}", "{sheet: Products}")
)
STATUS = """\
mapping: status
version: 1
target: order.status
source:
  files: ["*.xlsx"]
  shared: true
  dates: ["%Y-%m-%d"]
  locale: de_DE
  timezone: Europe/Berlin
  tables: {orders: {sheet: Orders}, products: {sheet: Products}}
lookups:
  product: {table: products, key: sku}
columns:
  orders: {order: {label: Order, required: true}, sku: {label: SKU, lookup: product, required: true}}
  products: {sku: {label: Artikel, required: true}, name: {label: Name, required: true}}
payload:
  order_id: {col: order}
  status_code: {col: sku.name}
  status_datetime: {value: "2026-03-01T10:00:00"}
"""


def drop_workbook(workspace):
    """Put a workbook with sheets of orders and products into the inbox."""
    book = openpyxl.Workbook()
    sheets = {
        "Orders": [("Order", "SKU", "Count"), *ORDERS],
        "Products": [
            ("Artikel", "Name", "Gewicht"),
            ("P1", "Bolzen", 2.5),
            ("P2", "Mutter", "schwer"),
            ("P3", "Ring", 1),
        ],
    }
    for name, rows in sheets.items():
        page = book.create_sheet(name)
        for row in rows:
            page.append(row)
    del book["Sheet"]
    book.save(workspace.inbox / "drop.xlsx")


@pytest.mark.journey
def test_two_mappings_of_one_workbook_look_up_the_same_sheet(tmp_path):
    workspace = Workspace(
        tmp_path, mappings={"products": SHEETS.replace("  locale", "  shared: true\n  locale"), "status": STATUS}
    )
    drop_workbook(workspace)
    assert workspace.run().returncode == 1
    (path,) = workspace.outbox.glob("*/run.json")
    balance = json.loads(path.read_bytes())["balance"]
    assert (balance["balances"], balance["read"]) == (True, 7)
    assert balance["rows"]["ignored"] == 1, "no mapping uses the product P3"
    found, contents = (
        workspace.ask("select id from entries where operation = 'order.status' order by key"),
        contents_in(workspace.state / "ledger.db"),
    )
    payloads = [payload for (entry,) in found if (payload := contents[entry][0])]
    assert [json.loads(payload)["status_code"] for payload in payloads] == ["Bolzen", "Mutter", "Bolzen"]
    said = workspace.command("show", "A", "--field", "packages[0].item_name").stdout
    assert "Products" in said
    assert "B2" in said


@pytest.mark.journey
def test_orders_and_products_are_sheets_of_one_workbook(tmp_path):
    workspace = Workspace(tmp_path, mappings={"products": SHEETS})
    drop_workbook(workspace)
    assert workspace.run().returncode == 1
    assert weights(workspace, "A", "C") == [5, 10]
    said = workspace.command("show", "C", "--field", "packages[0].weight").stdout
    assert "Products" in said
    assert "C2" in said
    (fix,) = workspace.outbox.glob("*/*.fix.xlsx")
    book = openpyxl.load_workbook(fix)
    (cell,) = [
        cell
        for page in book
        for row in page.iter_rows()
        for cell in row
        if cell.value == "schwer" and page.title == "Products"
    ]
    cell.value = 7.5
    book.save(workspace.inbox / fix.name)
    workspace.run()
    assert weights(workspace, "B") == [7.5]

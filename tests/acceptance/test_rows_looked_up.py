"""Orders whose products are in another file or sheet: the run balances, values lead to their cells, and fix files come back."""

import json

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


def with_files(folder, orders, products):
    """A workspace with these orders and products in its inbox."""
    workspace = Workspace(folder, mappings={"products": MAPPING})
    workspace.drop("orders_1.csv", as_csv(("Order", "SKU", "Count"), orders))
    workspace.drop("products_1.csv", as_csv(("Artikel", "Name", "Gewicht"), products))
    return workspace


def correct(workspace, **values):
    """Put other values into the fix workbook, by sheet and what stands there, and drop it; gives the cells."""
    found = []
    with workspace.fixing("*.fix.xlsx") as book:
        for sheet, changes in values.items():
            cells = {str(cell.value): cell for row in book[sheet].iter_rows() for cell in row}
            for before, after in changes.items():
                cells[before].value = after
                found.append(cells[before])
    return found


@pytest.fixture
def dropped(tmp_path):
    workspace = with_files(tmp_path, ORDERS, PRODUCTS)
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
    summary = dropped.run_json()
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
    assert [text for text in ("products_1.csv", "Gewicht", "2,5", "products: by sku") if text not in said] == []
    assert weights(dropped, "A", "C") == [5, 10]


@pytest.mark.journey
def test_a_fix_file_corrects_the_row_that_is_looked_up_and_a_key(dropped):
    """A corrected key may need any of the products, so those that nobody used are in the workbook too."""
    correct(dropped, products_1={"schwer": "7,5", "P3": "P3"}, orders_1={"P7": "P77"})
    dropped.run()
    assert weights(dropped, "B", "D") == [7.5, 3]


@pytest.mark.journey
def test_a_fix_file_corrects_a_value_of_a_looked_up_row_that_the_exchange_refused(tmp_path):
    long = "Bolzen, verzinkt, mit Unterlegscheibe und Mutter"
    workspace = with_files(tmp_path / "work", [ORDERS[0], ORDERS[2]], [("P1", long, "2,5"), PRODUCTS[2]])
    with misbehaving(tmp_path, text_length_max=40) as served:
        assert workspace.run("--exchange", served.url).returncode == 1
        (cell,) = correct(workspace, products_1={long: "Bolzen"})
        assert cell.comment is not None, "the value stands in the row of the product"
        assert workspace.run("--exchange", served.url).returncode == 0
    assert weights(workspace, "A", "C") == [5, 10]


@pytest.mark.journey
def test_a_fix_file_makes_two_rows_of_one_key_equal(tmp_path):
    twice = [("P1", "Bolzen", "2,5"), ("P1", "Bolzen", "3,5")]
    workspace = with_files(tmp_path, [ORDERS[0], ORDERS[2]], twice)
    assert workspace.run().returncode == 65
    correct(workspace, products_1={"3,5": "2,5"})
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


@pytest.mark.journey
def test_two_mappings_of_one_workbook_look_up_the_same_sheet(tmp_path):
    shared = SHEETS.replace("  locale", "  shared: true\n  locale")
    workspace = Workspace(tmp_path, mappings={"products": shared, "status": STATUS})
    products = [("Artikel", "Name", "Gewicht"), ("P1", "Bolzen", 2.5), ("P2", "Mutter", "schwer"), ("P3", "Ring", 1)]
    workspace.drop_book("drop.xlsx", {"Orders": [("Order", "SKU", "Count"), *ORDERS], "Products": products})
    assert workspace.run().returncode == 1
    balance = workspace.run_json()["balance"]
    assert (balance["balances"], balance["read"]) == (True, 7)
    assert balance["rows"]["ignored"] == 1, "no mapping uses the product P3"
    found = workspace.ask("select id from entries where operation = 'order.status' order by key")
    contents = contents_in(workspace.state / "ledger.db")
    payloads = [payload for (entry,) in found if (payload := contents[entry][0])]
    assert [json.loads(payload)["status_code"] for payload in payloads] == ["Bolzen", "Mutter", "Bolzen"]
    assert weights(workspace, "A", "C") == [5, 10]
    for field, cell in (("packages[0].item_name", "B2"), ("packages[0].weight", "C2")):
        said = workspace.command("show", "A", "--field", field).stdout
        assert ("Products" in said, cell in said) == (True, True)
    correct(workspace, Products={"schwer": 7.5})
    workspace.run()
    assert weights(workspace, "B") == [7.5]


def test_events_of_one_order_that_a_mapping_joins_are_not_to_be_deleted(tmp_path):
    """Each event is right. Who deletes all but one, as for an order that is there twice, would lose the others."""
    joined = STATUS.replace(
        "products: {sheet: Products}", "products: {sheet: Products, join: {to: orders, on: {sku: order}}}"
    )
    joined = joined.replace("lookups:\n  product: {table: products, key: sku}\n", "").replace(", lookup: product", "")
    workspace = Workspace(tmp_path, mappings={"status": joined.replace("sku.name", "orders.sku")})
    events = [("Order", "SKU"), ("A", "PICKED"), ("A", "DELIVERED"), ("B", "PICKED")]
    workspace.drop_book("drop.xlsx", {"Orders": events, "Products": [("Artikel", "Name"), ("A", "x"), ("B", "y")]})
    assert "G402" in (said := workspace.command("check", "inbox/drop.xlsx").stdout)
    assert "let the mapping look up the other table (lookups.table) instead of joining it" in said
    assert workspace.run().returncode == 1
    advice = workspace.results("drop.xlsx")[0]["Was zu tun ist"]
    assert advice.startswith("Behalten Sie alle diese Zeilen, wenn jede ein eigenes Ereignis ist")

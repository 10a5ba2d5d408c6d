"""Rows of one table find one row of another table of the drop: products, rates, sites."""

import random

import pytest
from sheets import (
    NOW,
    accounted,
    codes,
    decode,
    documents,
    findings,
    in_parts,
    load_text,
    of_text,
    run,
    table,
    tables_of,
)

from loadsheet.mapping import Document, Ignored, locate, translate

MAPPING = """\
mapping: products
version: 1
target: order.update
source:
  files: ["*.csv"]
  companions: {lines: "lines*.csv"}
  locale: en_GB
  timezone: Europe/Berlin
  dates: ["%Y-%m-%d"]
  tables:
    orders: {}
    products: {sheet: Products}
lookups:
  product: {table: products, key: sku}
columns:
  orders:
    order: {label: Order, required: true}
    sku:   {label: SKU, lookup: product, required: true}
    count: {label: Count, type: decimal, required: true}
  products:
    sku:    {label: SKU, required: true}
    weight: {label: Weight, type: quantity, unit: kg, required: true}
    name:   {label: Name}
    since:  {label: Since, type: date}
group: {by: [order]}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  goods_value: {expr: '$sum([r.count * r.sku.weight for r in rows])'}
  packages:
    each: rows
    item: {package_type: {value: Box}, item_name: {col: sku.name}, weight: {expr: 'sku.weight * count'}}
"""
PRODUCTS = [
    ["P1", "2.5", "Bolt", "2026-01-01"],
    ["P2", "500 g", "Nut", ""],
    ["P3", "1", "Washer", "2026-02-01"],
]


def made(folder, orders, products=None, text=MAPPING):
    return documents(load_text(folder, text), orders, PRODUCTS if products is None else products)


def texts(document):
    return [str(problem) for problem in document.problems]


# ---- values ----


def test_a_value_of_the_row_that_is_found_has_its_type_and_unit(tmp_path):
    (document,) = made(tmp_path, [["A", "P1", "2"], ["A", "P2", "3"], ["A", "P1", "1"]])
    payload = decode(document.payload)
    assert payload["goods_value"] * 10 == 90
    assert [(item["item_name"], item["weight"] * 10) for item in payload["packages"]] == [
        ("Bolt", 50),
        ("Nut", 15),
        ("Bolt", 25),
    ]


def test_a_date_of_the_row_that_is_found_can_be_compared_and_sent(tmp_path):
    text = MAPPING.replace(
        "goods_value: {expr: '$sum([r.count * r.sku.weight for r in rows])'}", "pickup_startdatetime: {col: sku.since}"
    )
    text += (
        'checks: [{id: old, rule: \'(sku.since ?? d"2026-12-31") > d"2026-01-15"\', say: too old, columns: [sku]}]\n'
    )
    new, old, blank = made(tmp_path, [["A", "P3", "1"], ["B", "P1", "1"], ["C", "P2", "1"]], text=text)
    assert decode(new.payload)["pickup_startdatetime"] == "2026-02-01 00:00:00"
    assert (codes(old), "pickup_startdatetime" in decode(blank.payload)) == (["G406"], False)


def test_a_derived_value_of_the_row_can_be_named(tmp_path):
    text = MAPPING.replace("group:", "derived: {products: {gross: {expr: 'weight * 2'}}}\ngroup:").replace(
        "sku.weight * count", "sku.gross"
    )
    (document,) = made(tmp_path, [["A", "P1", "2"]], text=text)
    assert decode(document.payload)["packages"][0]["weight"] == 5
    assert cells(load_text(tmp_path, text), document, "packages[0].weight") == [
        ("products", 2, "Weight"),
        ("orders", 2, "SKU"),
    ]


def test_rows_that_are_found_by_lookup_equal_the_same_values_in_the_main_table(tmp_path):
    generator = random.Random(22)
    products = [[f"P{n}", f"{n}.5", f"Name {n}", ""] for n in range(40)]
    orders = [[f"O{n % 17}", f"P{generator.randrange(40)}", str(n)] for n in range(120)]
    plain = MAPPING.partition("  products:\n    sku:")[0].replace("\n    products: {sheet: Products}", "")
    plain = plain.replace("lookups:\n  product: {table: products, key: sku}\n", "").replace(", lookup: product", "")
    plain = plain.replace("columns:\n  orders:", "columns:").replace("    orders: {}", "    rows: {}")
    plain += "    weight: {label: Weight, type: quantity, unit: kg, required: true}\n    name: {label: Name}\n"
    plain = plain.replace("\n    ", "\n  ").replace("tables:\n  rows", "tables:\n    rows")
    plain += MAPPING[MAPPING.index("group:") :].replace("sku.", "")
    by_sku = {product[0]: product[1:3] for product in products}
    wide = [[*row, *by_sku[row[1]]] for row in orders]
    looked_up = made(tmp_path, orders, products)
    written_out = documents(load_text(tmp_path, plain), wide)
    assert [document.content_hash for document in looked_up] == [document.content_hash for document in written_out]
    assert len(looked_up) == 17


def test_the_order_of_the_rows_that_are_looked_up_does_not_matter(tmp_path):
    products = [
        *PRODUCTS,
        ["P4", "x", "", ""],
        ["P5", "1", "one", ""],
        ["P5", "1", "one", ""],
        ["P2", "500 g", "Nut", ""],
    ]
    orders = [[f"O{n}", f"P{n}", "1"] for n in range(1, 7)]
    there = made(tmp_path, orders, products)
    for seed in range(3):
        random.Random(seed).shuffle(products)
        back = made(tmp_path, orders, products)
        assert [(one.payload, codes(one)) for one in back] == [(one.payload, codes(one)) for one in there]
    assert [codes(document) for document in there] == [[], [], [], ["C302"], [], ["C306"]]


@pytest.mark.parametrize(
    ("options", "sku", "name"),
    [
        (", ignore_case: true", "p1", "Bolt"),
        (", missing: blank", "P9", None),
        (", wildcards: true", "P77", "Any"),
        (", wildcards: true", "P1", "Bolt"),
    ],
)
def test_the_options_of_a_lookup_hold_for_a_table(tmp_path, options, sku, name):
    text = MAPPING.replace("key: sku}", f"key: sku{options}}}").replace(
        "goods_value: {expr: '$sum([r.count * r.sku.weight for r in rows])'}", "pickup_company: {col: sku.name}"
    )
    text = text[: text.index("  packages:")]
    (document,) = made(tmp_path, [["A", sku, "1"]], [*PRODUCTS, ["P*", "1", "Any", ""]], text=text)
    assert decode(document.payload).get("pickup_company") == name


# ---- problems and lineage ----


def cells(mapping, document, path):
    found = locate(mapping.lineage, document.rows, document.items, path)
    return [(place.table, document.rows[place.row].number, place.label) for place in found]


def test_a_problem_in_the_row_that_is_found_is_at_its_cell_once_per_record(tmp_path):
    products = [["P1", "heavy", "Bolt", "soon"]]
    first, second = made(tmp_path, [["A", "P1", "2"], ["A", "P1", "3"], ["B", "P1", "1"]], products)
    expected = [
        'products.csv:2 Weight: C302 error: "heavy" is not a number (write it like 1,234.5)',
        'products.csv:2 Since: C304 error: "soon" is not a valid date or time; expected YYYY-MM-DD (write it like 2026-03-24)',
    ]
    assert [problem.partition("; expected")[0] for problem in texts(first)] == [
        problem.partition("; expected")[0] for problem in expected
    ]
    assert texts(first) == texts(second)


def test_a_value_leads_to_the_cell_of_the_row_that_was_found_and_to_the_key(tmp_path):
    mapping = load_text(tmp_path, MAPPING)
    (document,) = documents(mapping, [["A", "P3", "1"], ["A", "P1", "1"], ["A", "P3", "2"]], PRODUCTS)
    for index, (row, product) in enumerate([(2, 4), (3, 2), (4, 4)]):
        assert cells(mapping, document, f"packages[{index}].item_name") == [
            ("products", product, "Name"),
            ("orders", row, "SKU"),
        ]
    assert cells(mapping, document, "goods_value")[:3] == [
        ("products", 4, "Weight"),
        ("products", 2, "Weight"),
        ("products", 4, "Weight"),
    ]


def test_a_value_that_the_interface_does_not_take_is_a_problem_of_the_cell_that_holds_it(tmp_path):
    text = MAPPING.replace("{value: Box}", "{col: sku.name}")
    (document,) = made(tmp_path, [["A", "P1", "1"]], [["P1", "2", "", ""]], text=text)
    assert [(problem.where.file, problem.where.row, problem.where.column) for problem in document.problems] == [
        ("products.csv", 2, "Name")
    ] * 2


def test_a_key_without_a_row_names_the_table(tmp_path):
    misspelt, unknown = made(
        tmp_path, [["A", "PROD-10", "1"], ["B", "X", "1"]], [["PROD-01", "1", "", ""], ["PROD10", "1", "", ""]]
    )
    assert texts(misspelt) == [
        'orders.csv:2 SKU: C306 error: "PROD-10" is not in the list: PROD-01, PROD10 (did you mean PROD10?)'
    ]
    assert texts(unknown) == [
        'orders.csv:3 SKU: C306 error: "X" is not in the list: PROD-01, PROD10 (add a row for it to products.csv)'
    ]


def test_two_rows_with_one_key_that_differ_are_named_by_the_records_that_need_them(tmp_path):
    products = [["P1", "1", "a", ""], ["P2", "1", "c", ""], ["P1", "1", "b", ""], ["P2", "1", "c", ""]]
    wrong, right = made(tmp_path, [["A", "P1", "1"], ["B", "P2", "1"]], products)
    assert texts(wrong) == ["orders.csv:2 SKU: C321 error: products.csv has different values for P1 in its rows 2, 4"]
    assert [(where.file, where.row, where.column) for where in wrong.problems[0].also] == [
        ("products.csv", 2, "SKU"),
        ("products.csv", 4, "SKU"),
    ]
    assert right.usable


# ---- every row has a fate ----


def fates(found):
    """How often each row counts: in documents that own it, and ignored."""
    rows = [row for item in found if isinstance(item, Document) for row in item.own_rows]
    rows += [item.row for item in found if isinstance(item, Ignored)]
    return sorted((row.table, row.number) for row in rows)


def test_every_row_counts_once_and_documents_hold_the_rows_they_use(tmp_path):
    found = run(load_text(tmp_path, MAPPING), [["A", "P1", "1"], ["B", "P1", "1"], ["B", "P9", "1"]], PRODUCTS)
    assert fates(found) == [
        ("orders", 2),
        ("orders", 3),
        ("orders", 4),
        ("products", 2),
        ("products", 3),
        ("products", 4),
    ]
    rules = {item.rule for item in found if isinstance(item, Ignored)}
    assert rules == {"lookup: other tables look up the rows of products"}
    assert [
        [(row.table, row.number) for row in document.rows] for document in found if isinstance(document, Document)
    ] == [
        [("orders", 2), ("products", 2)],
        [("orders", 3), ("orders", 4), ("products", 2)],
    ]


def test_a_row_that_cannot_be_found_is_refused_by_itself(tmp_path):
    mapping = load_text(
        tmp_path,
        MAPPING.replace("sku:    {label: SKU, required: true}", "sku: {label: SKU, pattern: 'P\\d', required: true}"),
    )
    found = run(mapping, [["A", "P1", "1"]], [*PRODUCTS, ["Q7", "1", "", ""], ["", "1", "", ""]])
    refused = [texts(item) for item in found if isinstance(item, Document) and not item.usable]
    assert [line for lines in refused for line in lines] == [
        'products.csv:5 SKU: C313 error: "Q7" is not in the expected form (example: P1)',
        "products.csv:6 SKU: C301 error: a value is missing",
    ]
    assert fates(found) == [("orders", 2), *(("products", number) for number in range(2, 7))]


def test_rows_that_a_rule_leaves_out_are_not_found(tmp_path):
    text = MAPPING.replace("products: {sheet: Products}", "products: {sheet: Products, ignore_rows: 'name == \"old\"'}")
    found = run(load_text(tmp_path, text), [["A", "P1", "1"]], [["P1", "1", "old", ""], ["P1", "2", "new", ""]])
    assert decode(found[-1].payload)["packages"][0]["item_name"] == "new"
    assert fates(found) == [("orders", 2), ("products", 2), ("products", 3)]


CARD = """\
mapping: card
version: 1
target: order.update
source:
  files: ["orders.csv"]
  companions: {rates: "rates.csv"}
  locale: en_GB
  tables:
    orders: {}
    rates: {file: rates, sets: [North, South]}
lookups:
  rate: {table: rates, key: [sku, zone]}
columns:
  orders:
    order: {label: Order, required: true}
    zone: {label: Zone}
    sku: {label: SKU, lookup: rate, lookup_with: [zone], required: true}
  rates:
    sku: {label: SKU, required: true}
    price: {label: "{set}", type: decimal, required: true}
    zone: {from_set: true}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  goods_value: {col: sku.price}
"""


def test_column_sets_of_a_rate_card_are_rows_that_are_looked_up(tmp_path):
    mapping = load_text(tmp_path, CARD)
    (tmp_path / "orders.csv").write_text("Order,Zone,SKU\nA,South,P1\nB,South,P2\nC,North,P2\n")
    (tmp_path / "rates.csv").write_text("SKU,North,South\nP1,1,2\nP2,x,4\nP3,5,\n")
    tables = tables_of(mapping, tmp_path, {"main": "orders.csv", "rates": "rates.csv"})
    found = list(translate(mapping, tables, now=NOW))
    south, other, wrong = [item for item in found if isinstance(item, Document)]
    assert [decode(item.payload)["goods_value"] for item in (south, other)] == [2, 4]
    assert texts(wrong) == ['rates.csv:3 North: C302 error: "x" is not a number (write it like 1,234.5)']
    assert fates(found) == [(name, number) for name in ("orders", "rates") for number in (2, 3, 4)]
    assert cells(mapping, south, "goods_value") == [("rates", 2, "South"), ("orders", 2, "SKU"), ("orders", 2, "Zone")]


KINDS = """\
mapping: kinds
version: 1
target: order.update
source:
  files: ["*.csv"]
  locale: en_GB
  tables:
    products: {kind: {label: Kind, is: P}}
    lines: {kind: {label: Kind, is: L}}
lookups:
  product: {table: products, key: sku}
columns:
  products: {sku: {label: A, required: true}, price: {label: B, type: decimal, required: true}}
  lines: {order: {label: A, required: true}, sku: {label: B, lookup: product, required: true}}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  goods_value: {col: sku.price}
"""


def test_rows_of_one_kind_look_up_rows_of_another(tmp_path):
    mapping = load_text(tmp_path, KINDS)
    found = of_text(mapping, tmp_path, "Kind,A,B\nL,O1,P2\nP,P1,3\nP,P2,4\nL,O2,P1\nX,?,?\nP,P3,5\n")
    first, second = [item for item in found if isinstance(item, Document) and item.usable]
    assert [decode(item.payload)["goods_value"] for item in (first, second)] == [4, 3]
    assert fates(found) == [("products", number) for number in range(2, 8)], "the file is read under its first table"
    assert cells(mapping, first, "goods_value") == [("products", 4, "B"), ("products", 2, "B")]


# ---- large drops ----


def test_scattered_rows_of_a_large_drop_find_their_rows(tmp_path):
    mapping = load_text(tmp_path, MAPPING)
    rows = [[f"O{n % 211}", f"P{n % 50}", "1"] for n in range(900)]
    products = [[f"P{n}", str(n + 1), f"N{n}", ""] for n in range(60)]
    in_memory, spilled = run(mapping, rows, products), run(mapping, rows, products, memory_rows=50)
    assert [item for item in spilled if isinstance(item, Document)] == [
        item for item in in_memory if isinstance(item, Document)
    ]
    assert fates(spilled) == fates(in_memory)
    assert len(fates(spilled)) == 960
    plans = mapping.plan.tables
    tables = {
        plan.name: table(plan, own, file=f"{plan.name}.csv") for plan, own in zip(plans, (rows, products), strict=True)
    }
    assert in_parts(mapping, tables, 3, memory_rows=50) == spilled
    assert all(document.usable for document in spilled if isinstance(document, Document))


# ---- ranges ----

RATES = """\
mapping: rates
version: 1
target: order.update
source:
  files: ["*.csv"]
  locale: en_GB
  timezone: Europe/Berlin
  dates: ["%Y-%m-%d"]
  tables: {orders: {}, rates: {}}
lookups:
  rate: {table: rates, key: [zone, service], range: {from: from, to: to}, wildcards: true}
columns:
  orders:
    order: {label: Order, required: true}
    service: {label: Service}
    weight: {label: Weight, type: decimal}
    zone: {label: Zone, lookup: rate, lookup_with: [service, weight], required: true}
  rates:
    zone: {label: Zone, required: true}
    service: {label: Service}
    from: {label: From, type: decimal}
    to: {label: To, type: decimal}
    price: {label: Price, type: decimal, required: true}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  goods_value: {expr: zone.price}
"""
BANDS = [
    ["EU", "*", "", "10", "5"],
    ["EU", "*", "10", "20", "7"],
    ["EU", "EXPRESS", "", "20", "50"],
    ["*", "*", "", "", "99"],
    ["UK", "STD", "0", "20", "1"],
    ["UK", "STD", "15", "30", "2"],
]


@pytest.mark.parametrize(
    ("zone", "service", "weight", "price"),
    [
        ("EU", "STD", "9.99", 5),
        ("EU", "STD", "10", 7),
        ("EU", "EXPRESS", "1", 50),
        ("US", "STD", "1", 99),
        ("UK", "STD", "3", 1),
        ("UK", "STD", "20", 2),
    ],
)
def test_keys_wildcards_and_a_range_choose_one_row(tmp_path, zone, service, weight, price):
    (document,) = made(tmp_path, [["A", service, weight, zone]], BANDS, text=RATES)
    assert decode(document.payload)["goods_value"] == price


@pytest.mark.parametrize(
    ("zone", "weight", "said"),
    [
        ("UK", "31.5", "C320 error: 31.5 is in no range of the table rates.csv; the nearest is 15 to 30"),
        (
            "UK",
            "16",
            "C321 error: rates.csv has different values for UK, STD, 16 in its rows 6 (0 to 20), 7 (15 to 30)",
        ),
        ("UK", "", 'C306 error: "UK" is not in the list: EU, UK (fill in the value that the range is searched for)'),
    ],
)
def test_a_value_in_no_range_or_in_two_is_a_problem_of_its_record(tmp_path, zone, weight, said):
    (document,) = made(tmp_path, [["A", "STD", weight, zone]], BANDS, text=RATES)
    assert [text.partition("Zone: ")[2] for text in texts(document)] == [said]


@pytest.mark.parametrize(("match", "price"), [("first", 1), ("last", 2)])
def test_of_overlapping_ranges_the_first_or_the_last_row_counts(tmp_path, match, price):
    text = RATES.replace("wildcards: true", f"wildcards: true, match: {match}")
    (document,) = made(tmp_path, [["A", "STD", "16", "UK"]], BANDS, text=text)
    assert decode(document.payload)["goods_value"] == price


def test_a_bound_that_is_no_number_refuses_its_row_and_not_the_records(tmp_path):
    rates = [["EU", "*", "ten", "20", "5"], ["EU", "*", "0", "10", "4"]]
    bad, good = made(tmp_path, [["A", "STD", "1", "EU"]], rates, text=RATES)
    assert texts(bad) == ['rates.csv:2 From: C302 error: "ten" is not a number (write it like 1,234.5)']
    assert decode(good.payload)["goods_value"] == 4


@pytest.mark.parametrize(
    ("day", "price"), [("2026-03-31", 1), ("2026-04-01", 2), ("2031-01-01", 2), ("2025-12-31", None)]
)
def test_a_period_of_validity_includes_its_last_day(tmp_path, day, price):
    text = RATES.replace(
        "key: [zone, service], range: {from: from, to: to}", "range: {from: from, to: to, upper: included}"
    )
    text = text.replace(", wildcards: true", "").replace("type: decimal}\n    to", "type: date}\n    to")
    text = text.replace("to: {label: To, type: decimal}", "to: {label: To, type: date}")
    text = text.replace(
        "zone: {label: Zone, lookup: rate, lookup_with: [service, weight], required: true}",
        "day: {label: Day, type: date, lookup: rate}",
    )
    text = text.replace("expr: zone.price", "col: day.price")
    rates = [["", "", "2026-01-01", "2026-03-31", "1"], ["", "", "2026-04-01", "", "2"]]
    text = text.replace("zone: {label: Zone, required: true}", "zone: {label: Zone}")
    (document,) = made(tmp_path, [["A", "STD", "1", day]], rates, text=text)
    assert (decode(document.payload)["goods_value"] if price else codes(document)) == (price or ["C320"])


# ---- joined tables ----

JOINED = """\
mapping: joined
version: 1
target: order.update
source:
  files: ["orders.csv"]
  companions: {lines: "lines.csv", products: "products.csv"}
  locale: en_GB
  tables:
    products: {file: products}
    orders: {file: orders}
    lines: {file: lines, join: {to: orders, on: {order: id}}}
lookups:
  product: {table: products, key: sku}
columns:
  products: {sku: {label: SKU, required: true}, kg: {label: Kg, type: decimal, required: true}, name: {label: Name}}
  orders: {id: {label: ID, required: true}, main: {label: Main, lookup: product}}
  lines: {order: {label: Order, required: true}, sku: {label: SKU, lookup: product, required: true}}
payload:
  order_id: {col: orders.id}
  sender_id: {value: A}
  receiver_id: {value: B}
  pickup_company: {expr: 'main&.name ?? "none"'}
  goods_value: {expr: '$sum([l.sku.kg for l in lines])'}
  packages: {each: lines, item: {package_type: {value: Box}, item_name: {col: sku.name}, weight: {col: sku.kg}}}
"""


def test_rows_of_several_tables_find_rows_of_one_file(tmp_path):
    mapping = load_text(tmp_path, JOINED)
    products = [["P1", "1", "Bolt"], ["P2", "2", "Nut"]]
    orders, lines = [["A", "P2"], ["B", ""]], [["A", "P1"], ["B", "P2"], ["A", "P2"]]
    first, second = documents(mapping, orders, lines, products)
    assert (decode(first.payload)["goods_value"], decode(first.payload)["pickup_company"]) == (3, "Nut")
    assert (decode(second.payload)["goods_value"], decode(second.payload)["pickup_company"]) == (2, "none")
    assert cells(mapping, first, "pickup_company") == [("products", 3, "Name"), ("orders", 2, "Main")]
    assert cells(mapping, first, "packages[1].weight") == [("products", 3, "Kg"), ("lines", 4, "SKU")]
    assert accounted(run(mapping, orders, lines, products)).count(("products", 3)) == 3, (
        "ignored, and held by both records"
    )
    assert mapping.layouts.keys() == {"orders", "lines", "products"}


# ---- what does not fit ----


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("table: products,", "table: product,", 'there is no table "product" (did you mean products?)'),
        ("table: products,", "table: products, file: a.csv,", "file is for the file of a code table"),
        (
            "table: products,",
            "table: products, value: name,",
            "value is for the file of a code table (the columns of products have their types",
        ),
        ("table: products, ", "", 'the key "file" is missing (write file: or table:)'),
        ("key: sku}", "key: sko}", 'products has no column "sko" (did you mean sku?)'),
        (
            "key: sku}",
            "key: weight}",
            "weight of products is a number; a key of a code table is a text (give the column type: text)",
        ),
        (
            "key: sku}",
            "key: sku, missing: keep}",
            "keep needs a file with a single value column (write missing: error or blank)",
        ),
        ("key: sku}", "key: sku, match: first}", "match needs a range"),
        ("key: sku}", "range: {from: name, to: weight}}", "a bound of a range is a number or a date, not a text"),
        ("key: sku}", "range: {from: since, to: weight}}", "one bound of the range is a number and the other a date"),
        (
            "key: sku}",
            "key: sku, range: {from: weight, to: weight, gaps: allow}}",
            "gaps is for the file of a code table",
        ),
        ("key: sku}", "key: [sku, name]}", "product is searched by 2 values: this column and 1 more"),
        (
            "products: {sheet: Products}",
            "products: {join: {to: orders, on: {sku: sku}}}",
            "products is looked up, so it has no join",
        ),
        (
            "col: sku.name",
            "col: sku.nam",
            "the code table has no column nam; it has sku, weight, name, since (did you mean name?)",
        ),
        (
            "col: sku.name",
            "col: products.name",
            "products is looked up: the row depends on the column (name it through a column with this lookup, such as COLUMN.name)",
        ),
        ("col: sku.name", "col: sku", "the code table gives several values; name one of sku, weight, name, since"),
        ("each: rows", "each: products", 'there is no table "products" (known: rows, orders)'),
        (
            "weight: {expr: 'sku.weight * count'}",
            "weight: {col: sku.weight}, weight_uom: {value: LB}",
            "weight is in kg, but weight_uom is LB",
        ),
        (
            "sku.weight * count",
            "sku.name * count",
            '"sku.name" is text; * needs a number (give the column name type: decimal, in line',
        ),
        ("label: Name}", "label: Name, lookup: product}", "name of products is itself looked up in a table"),
        ("orders: {}", "orders: {ignore_rows: 'sku.weight > 3'}", '"sku" is text, which has no .weight'),
    ],
)
def test_what_does_not_fit_a_table_that_is_looked_up_is_refused_at_load(tmp_path, old, new, said):
    text = MAPPING.replace(old, new)
    assert text != MAPPING
    assert any(said in line for line in findings(tmp_path, text)), findings(tmp_path, text)

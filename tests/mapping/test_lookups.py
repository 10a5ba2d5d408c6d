"""Cells that find a row: of a code table (a CSV file) or of another table of the drop, by keys, wildcards and ranges."""

import random

import pytest
from sheets import (  # fmt: skip
    NOW,
    cells,
    codes,
    decode,
    documents,
    fates,
    in_parts,
    load_text,
    made,
    of_text,
    refusal,
    run,
    table,
    tables_of,
    texts,
)

from loadsheet.mapping import Document, Ignored, translate

# ---- code tables with several keys and wildcards ----

ZONES = """\
country,zip,mode,zone,days
DE,01*,ROAD,D-East,2
DE,0*,ROAD,D-North-East,3
DE,*,ROAD,D,4
DE,*,AIR,D-Air,1
*,1*,*,World-1,8
*,*,*,World,9
SE,1,ROAD,S-One,5
"""
BY_ZONE = """\
mapping: zones
version: 1
target: order.delete
source: {files: "*.csv", locale: en_GB, encoding: utf-8}
lookups:
  zones: {file: zones.csv, key: [zip, country, mode], value: [zone, days], wildcards: true, ignore_case: true}
columns:
  order: {label: Order, required: true}
  land: {label: Country, type: country}
  mode: {label: Mode, one_of: {Road: ROAD, Air: AIR}}
  zip: {label: Zip, lookup: zones, lookup_with: [land, mode]}
payload:
  order_id: {expr: '(zip&.zone ?? "none") + "/" + (zip&.days ?? "none")'}
"""
EXACT = BY_ZONE.replace(", wildcards: true", "")


def zone_of(folder, row, text=BY_ZONE, zones=ZONES):
    (document,) = made(folder, text, [["A", *row]], lookups={"zones": zones})
    return document


@pytest.mark.parametrize(
    ("text", "row", "zone"),
    [
        (BY_ZONE, ["DE", "Road", "01067"], "D-East/2"),
        (BY_ZONE, ["Germany", "Road", "0999"], "D-North-East/3"),
        (BY_ZONE, ["DE", "Road", "50668"], "D/4"),
        (BY_ZONE, ["DE", "Air", "01067"], "D-Air/1"),
        (BY_ZONE, ["SE", "Road", "1"], "S-One/5"),
        (BY_ZONE, ["SE", "Road", "11"], "World-1/8"),
        (BY_ZONE, ["SE", "Air", "1"], "World-1/8"),
        (BY_ZONE, ["FR", "Air", "75001"], "World/9"),
        (BY_ZONE, ["DE", "Road", "10115"], "World-1/8"),  # the first key counts before the others
        (EXACT, ["SE", "Road", "1"], "S-One/5"),
        (EXACT, ["", "Road", "1"], "Nowhere/6"),  # a blank is a key of its own
        (BY_ZONE.replace(", wildcards: true", ", missing: blank"), ["DE", "Road", "7"], "none/none"),
    ],
)
def test_m28_the_row_that_names_most_of_its_keys_counts(tmp_path, text, row, zone):
    assert zone_of(tmp_path, row, text, ZONES + ",1,ROAD,Nowhere,6\n").key == zone


FEW = "zip,country,mode,zone,days\n5*,DE,*,West,1\n0*,DE,*,East,2\n"


@pytest.mark.parametrize(
    ("text", "zones", "row", "said"),
    [
        (EXACT, ZONES, ["DE", "Road", "1"], "(the table has no row for this value with DE and ROAD)"),
        (EXACT, ZONES, ["DE", "Air", "7"], 'C306 error: "7" is not in the list'),
        (BY_ZONE, FEW, ["FR", "Road", "50667"], "(the table has no row for this value with FR and ROAD)"),
        (BY_ZONE, FEW, ["DE", "Road", "80331"], 'C306 error: "80331" is not in the list: 5*, 0*'),
        (BY_ZONE, ZONES, ["Erewhon", "Road", "1"], 'C308 error: "Erewhon" is not a country'),
    ],
)
def test_a_miss_is_said_once_and_names_the_keys_that_it_is_searched_by(tmp_path, text, zones, row, said):
    (found,) = texts(zone_of(tmp_path, row, text, zones))
    assert said in found


def test_a_table_keyed_by_a_looked_up_column_comes_after_it(tmp_path):
    text = BY_ZONE.replace(
        "payload:", "  depot: {label: Depot, lookup: depots, lookup_with: [land]}\npayload:"
    ).replace("lookups:", "lookups:\n  depots: {file: depots.csv, key: [name, country], value: place}")
    text = text.replace("order_id: {expr: '", 'order_id: {expr: \'(depot ?? "") + "/" + ')
    tables = {
        "zones": "country,zip,mode,zone,days\nDE,0*,ROAD,North,3\n",
        "depots": "name,country,place\nD1,DE,Dresden\n",
    }
    (document,) = made(tmp_path, text, [["A", "DE", "Road", "01067", "D1"]], lookups=tables)
    assert document.key == "Dresden/North/3"


@pytest.mark.parametrize("setting", ["lookup: sizes", 'one_of: {Box: "12.5"}'])
def test_a_number_that_the_mapping_or_its_code_table_writes_may_be_sent_as_one(tmp_path, setting):
    text = """\
mapping: sizes
version: 1
target: order.update
source: {files: "*.csv", locale: de_DE}
lookups: {sizes: {file: sizes.csv, key: name, value: weight}}
columns: {order: {label: Order, required: true}, size: {label: Size, SETTING}}
payload: {order_id: {col: order}, sender_id: {value: A}, receiver_id: {value: B}, total_weight: {col: size, as: number}}
"""
    sizes = {"sizes": "name,weight\nBox,12.5\n"}
    (document,) = made(tmp_path, text.replace("SETTING", setting), [["A", "Box"]], lookups=sizes)
    assert b'"total_weight":12.5' in document.payload


# ---- ranges, in a code table and in a table of the drop ----

ORDER = {  # by the type of what is searched
    "decimal": "order: {label: Order, required: true}, service: {label: Service}, weight: {label: Weight, type: decimal}, "
    "zone: {label: Zone, lookup: rate, lookup_with: [service, weight], required: true}",
    "datetime": "order: {label: Order, required: true}, zone: {label: Zone, type: datetime, lookup: rate, required: true}",
}
BOUND = {"decimal": "decimal", "datetime": "date"}
RATE = (
    "zone: {label: zone}, service: {label: service}, from: {label: from, type: BOUND}, to: {label: to, type: BOUND}, "
    "price: {label: price, type: decimal, required: true}"
)
SOURCES = {
    "file": ("rows: {}", "file: rates.csv, value: [price], types: {price: decimal}", "{ORDER}"),
    "table": ("orders: {}, rates: {}", "table: rates", f"{{orders: {{ORDER}}, rates: {{{RATE}}}}}"),
}
BANDS = ["EU,*,,10,5", "EU,*,10,20,7", "EU,EXPRESS,,20,50", "UK,STD,0,10,15"]
OVERLAP = ["UK,STD,0,20,1", "UK,STD,15,30,2"]
KEYS = "key: [zone, service], range: {from: from, to: to}, wildcards: true"
DAYS = "range: {from: from, to: to, upper: included}"


def rates(source, options=KEYS, kind="decimal"):
    """A mapping that looks prices up in a code table or in a table of the drop, by a number or by a moment."""
    tables, lookup, columns = SOURCES[source]
    return f"""\
mapping: rates
version: 1
target: order.update
source: {{files: "*.csv", locale: en_GB, timezone: Europe/Berlin, dates: ["%Y-%m-%d %H:%M", "%Y-%m-%d"], tables: {{{tables}}}}}
lookups: {{rate: {{{lookup}, {options}}}}}
columns: {columns.replace("ORDER", ORDER[kind]).replace("BOUND", BOUND[kind])}
payload: {{order_id: {{col: order}}, sender_id: {{value: A}}, receiver_id: {{value: B}}, goods_value: {{expr: 'zone&.price ?? 0'}}}}
"""


def rated(folder, source, row, bands, **options):
    """The document of an order under these rows of rates."""
    rows = [["A", *row]]
    if source == "file":
        (found,) = made(
            folder, rates(source, **options), rows, lookups={"rates": "\n".join(["zone,service,from,to,price", *bands])}
        )
    else:
        found = made(folder, rates(source, **options), rows, [band.split(",") for band in bands])[-1]
    return found


def price(document):
    return decode(document.payload)["goods_value"]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (["STD", "0", "EU"], 5),
        (["STD", "9.99", "EU"], 5),
        (["STD", "10", "EU"], 7),
        (["STD", "19.9", "EU"], 7),
        (["EXPRESS", "1", "EU"], 50),
        (["STD", "0", "UK"], 15),
        (["STD", "31.5", "EU"], "C320 error: 31.5 is in no range of the table rate; the nearest is 10 to 20"),
        (["STD", "20", "EU"], "C320 error: 20 is in no range of the table rate; the nearest is 10 to 20"),
        (["STD", "-1", "UK"], "C320 error: -1 is in no range of the table rate; the nearest is 0 to 10"),
        (["STD", "1", "US"], 'C306 error: "US" is not in the list: EU, UK'),
        (["STD", "", "EU"], 'C306 error: "EU" is not in the list: EU, UK'),
    ],
)
def test_keys_wildcards_and_a_range_choose_one_row(tmp_path, source, row, expected):
    for bands in (BANDS, BANDS[::-1]):  # in any order
        document = rated(tmp_path, source, row, bands)
        if isinstance(expected, str):
            (said,) = texts(document)
            said = said.partition("Zone: ")[2].replace("rates.csv", "rate")
            assert said.split(" (")[0] == expected or (bands != BANDS and "UK, EU" in said)
        else:
            assert price(document) == expected


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("match", "expected"), [("first", 1), ("last", 2), (None, None)])
def test_of_overlapping_ranges_the_first_or_the_last_row_counts_if_the_mapping_says_so(
    tmp_path, source, match, expected
):
    if match:
        assert (
            price(rated(tmp_path, source, ["STD", "16", "UK"], OVERLAP, options=f"{KEYS}, match: {match}")) == expected
        )
    elif source == "table":  # those of a file are refused at load
        said = "rates.csv has different values for UK, STD, 16 in its rows 2 (0 to 20), 3 (15 to 30)"
        assert texts(rated(tmp_path, source, ["STD", "16", "UK"], OVERLAP))[0].endswith(f"C321 error: {said}")
        assert price(rated(tmp_path, source, ["STD", "14", "UK"], OVERLAP)) == 1


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("day", "expected"),
    [("2025-12-31", None), ("2026-01-01", 1), ("2026-03-31 23:59", 1), ("2026-04-01 00:00", 2), ("2031-01-01", 2)],
)
def test_a_period_of_days_includes_its_last_day_in_local_time(tmp_path, source, day, expected):
    periods = [",,2026-01-01,2026-03-31,1", ",,2026-04-01,,2"]
    document = rated(tmp_path, source, [day], periods, options=DAYS, kind="datetime")
    assert (price(document) if expected else codes(document)) == (expected or ["C320"])


def test_a_value_outside_is_blank_if_the_table_says_so(tmp_path):
    for source in SOURCES:
        assert price(rated(tmp_path, source, ["STD", "31.5", "EU"], BANDS, options=f"{KEYS}, missing: blank")) == 0


def test_a_bound_that_is_not_a_number_refuses_its_row_and_not_the_records(tmp_path):
    bands = [["EU", "*", "ten", "20", "5"], ["EU", "*", "0", "10", "4"]]
    bad, good = made(tmp_path, rates("table"), [["A", "STD", "1", "EU"]], bands)
    assert texts(bad) == ['rates.csv:2 from: C302 error: "ten" is not a number (write it like 1,234.5)']
    assert price(good) == 4


TYPED = """\
mapping: rates
version: 1
target: order.update
source: {files: "*.csv", locale: de_DE, timezone: Europe/Berlin}
lookups:
  rates:
    file: rates.csv
    key: zone
    range: {from: from_kg, to: to_kg}
    value: [price, since, express]
    types: {price: decimal, since: date, express: yesno}
columns:
  order: {label: Order, required: true}
  weight: {label: Weight, type: decimal}
  zone: {label: Zone, lookup: rates, lookup_with: [weight], required: true}
payload:
  order_id: {col: order}
  sender_id: {value: A}
  receiver_id: {value: B}
  goods_value: {expr: '(zone.price ?? 0) * 2 + ((zone.express ?? false) ? 1 : 0)'}
  pickup_startdatetime: {col: zone.since}
"""
TYPED_RATES = (
    "zone,from_kg,to_kg,price,since,express\nEU,,10,12.50,2026-01-01,yes\nEU,10,30,20,2026-01-01,no\nUK,0,10,15,,no\n"
)


def test_the_values_of_a_code_table_have_types_and_lead_to_all_cells_that_chose_them(tmp_path):
    mapping = load_text(tmp_path, TYPED, rates=TYPED_RATES)
    (document,) = documents(mapping, [["A", "9,999", "EU"]])
    assert price(document) == 26
    assert decode(document.payload)["pickup_startdatetime"] == "2026-01-01 00:00:00"
    assert cells(mapping, document, "pickup_startdatetime") == [("rows", 2, "Zone"), ("rows", 2, "Weight")]


# ---- rows of another table of the drop ----

PRODUCTS = """\
mapping: products
version: 1
target: order.update
source:
  files: ["*.csv"]
  companions: {lines: "lines*.csv"}
  locale: en_GB
  timezone: Europe/Berlin
  dates: ["%Y-%m-%d"]
  tables: {orders: {}, products: {sheet: Products}}
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
SUM = "goods_value: {expr: '$sum([r.count * r.sku.weight for r in rows])'}"
THREE = [["P1", "2.5", "Bolt", "2026-01-01"], ["P2", "500 g", "Nut", ""], ["P3", "1", "Washer", "2026-02-01"]]


def test_a_value_of_the_row_that_is_found_has_its_type_and_unit(tmp_path):
    (document,) = made(tmp_path, PRODUCTS, [["A", "P1", "2"], ["A", "P2", "3"], ["A", "P1", "1"]], THREE)
    payload = decode(document.payload)
    assert payload["goods_value"] == 9
    assert [(item["item_name"], item["weight"] * 10) for item in payload["packages"]] == [("Bolt", 50), ("Nut", 15), ("Bolt", 25)]  # fmt: skip


def test_a_date_of_the_row_that_is_found_can_be_compared_and_sent(tmp_path):
    text = PRODUCTS.replace(SUM, "pickup_startdatetime: {col: sku.since}")
    text += (
        'checks: [{id: old, rule: \'(sku.since ?? d"2026-12-31") > d"2026-01-15"\', say: too old, columns: [sku]}]\n'
    )
    new, old, blank = made(tmp_path, text, [["A", "P3", "1"], ["B", "P1", "1"], ["C", "P2", "1"]], THREE)
    assert decode(new.payload)["pickup_startdatetime"] == "2026-02-01 00:00:00"
    assert (codes(old), "pickup_startdatetime" in decode(blank.payload)) == (["G406"], False)


def test_rows_that_are_found_by_lookup_equal_the_same_values_in_the_main_table(tmp_path):
    dice = random.Random(22)
    products = [[f"P{n}", f"{n}.5", f"Name {n}", ""] for n in range(40)]
    orders = [[f"O{n % 17}", f"P{dice.randrange(40)}", str(n)] for n in range(120)]
    looked_up = made(tmp_path, PRODUCTS, orders, products)
    head, _, payload = PRODUCTS.partition("group:")
    plain = f"{head.partition('lookups:')[0]}columns:\n".replace(
        "{orders: {}, products: {sheet: Products}}", "{rows: {}}"
    )
    for column in ("order: {label: Order", "sku: {label: SKU", "count: {label: Count, type: decimal", "weight: {label: Weight, type: quantity, unit: kg"):  # fmt: skip
        plain += f"  {column}, required: true}}\n"
    plain += f"  name: {{label: Name}}\ngroup:{payload}".replace("sku.", "")
    written_out = made(tmp_path, plain, [[*row, *products[int(row[1][1:])][1:3]] for row in orders])
    assert [document.content_hash for document in looked_up] == [document.content_hash for document in written_out]
    assert len(looked_up) == 17


def test_the_order_of_the_rows_that_are_looked_up_does_not_matter(tmp_path):
    products = [*THREE, ["P4", "x", "", ""], ["P5", "1", "one", ""], ["P5", "1", "one", ""], ["P2", "500 g", "Nut", ""]]
    orders = [[f"O{n}", f"P{n}", "1"] for n in range(1, 7)]
    there = made(tmp_path, PRODUCTS, orders, products)
    assert [codes(document) for document in there] == [[], [], [], ["C302"], [], ["C306"]]
    for seed in range(3):
        random.Random(seed).shuffle(products)
        back = made(tmp_path, PRODUCTS, orders, products)
        assert [(one.payload, codes(one)) for one in back] == [(one.payload, codes(one)) for one in there]


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
    text = PRODUCTS.replace("key: sku}", f"key: sku{options}}}").replace(SUM, "pickup_company: {col: sku.name}")
    (document,) = made(tmp_path, text.partition("  packages:")[0], [["A", sku, "1"]], [*THREE, ["P*", "1", "Any", ""]])
    assert decode(document.payload).get("pickup_company") == name


ABOUT_ROWS = {  # rows of products, rows of orders, what is said of each record
    "a wrong cell, once a record": (
        [["P1", "heavy", "Bolt", ""]],
        [["A", "P1", "2"], ["A", "P1", "3"], ["B", "P1", "1"]],
        [['products.csv:2 Weight: C302 error: "heavy" is not a number (write it like 1,234.5)']] * 2,
    ),
    "a key without a row": (
        [["PROD-01", "1", "", ""], ["PROD10", "1", "", ""]],
        [["A", "PROD-10", "1"], ["B", "X", "1"]],
        [
            ['orders.csv:2 SKU: C306 error: "PROD-10" is not in the list: PROD-01, PROD10 (did you mean PROD10?)'],
            ['orders.csv:3 SKU: C306 error: "X" is not in the list: PROD-01, PROD10 (add a row for it to products.csv)'],
        ],
    ),
    "rows of one key that differ": (
        [["P1", "1", "a", ""], ["P2", "1", "c", ""], ["P1", "1", "b", ""], ["P2", "1", "c", ""]],
        [["A", "P1", "1"], ["B", "P2", "1"]],
        [["orders.csv:2 SKU: C321 error: products.csv has different values for P1 in its rows 2, 4"], []],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ABOUT_ROWS)
def test_what_is_wrong_with_a_row_that_is_needed_is_said_of_the_records_that_need_it(tmp_path, case):
    products, orders, said = ABOUT_ROWS[case]
    found = made(tmp_path, PRODUCTS, orders, products)
    assert [texts(document) for document in found] == said
    if case == "rows of one key that differ":
        also = [(where.file, where.row, where.column) for where in found[0].problems[0].also]
        assert also == [("products.csv", 2, "SKU"), ("products.csv", 4, "SKU")]


def test_a_value_that_the_interface_does_not_take_is_a_problem_of_the_cell_that_holds_it(tmp_path):
    text = PRODUCTS.replace("{value: Box}", "{col: sku.name}")
    (document,) = made(tmp_path, text, [["A", "P1", "1"]], [["P1", "2", "", ""]])
    assert {(one.where.file, one.where.row, one.where.column) for one in document.problems} == {("products.csv", 2, "Name")}  # fmt: skip


def test_a_value_leads_to_the_cell_of_the_row_that_was_found_and_to_the_key(tmp_path):
    text = PRODUCTS.replace("group:", "derived: {products: {gross: {expr: 'weight * 2'}}}\ngroup:")
    mapping = load_text(tmp_path, text.replace("sku.weight * count", "sku.gross"))
    (document,) = documents(mapping, [["A", "P3", "1"], ["A", "P1", "1"], ["A", "P3", "2"]], THREE)
    for index, product in enumerate([4, 2, 4]):
        key = ("orders", index + 2, "SKU")
        assert cells(mapping, document, f"packages[{index}].item_name") == [("products", product, "Name"), key]
        assert cells(mapping, document, f"packages[{index}].weight") == [("products", product, "Weight"), key]
    assert [row for _, row, _ in cells(mapping, document, "goods_value")[:3]] == [4, 2, 4]
    assert decode(document.payload)["packages"][1]["weight"] == 5


def test_every_row_counts_once_and_documents_hold_the_rows_they_use(tmp_path):
    found = run(load_text(tmp_path, PRODUCTS), [["A", "P1", "1"], ["B", "P1", "1"], ["B", "P9", "1"]], THREE)
    assert fates(found) == [(name, number) for name in ("orders", "products") for number in (2, 3, 4)]
    rules = {item.rule for item in found if isinstance(item, Ignored)}
    assert rules == {"lookup: other tables look up the rows of products"}
    assert [[(row.table, row.number) for row in one.rows] for one in found if isinstance(one, Document)] == [
        [("orders", 2), ("products", 2)],
        [("orders", 3), ("orders", 4), ("products", 2)],
    ]


def test_a_row_that_cannot_be_found_is_refused_by_itself(tmp_path):
    text = PRODUCTS.replace(
        "sku:    {label: SKU, required: true}", "sku: {label: SKU, pattern: 'P\\d', required: true}"
    )
    found = run(load_text(tmp_path, text), [["A", "P1", "1"]], [*THREE, ["Q7", "1", "", ""], ["", "1", "", ""]])
    assert [texts(item) for item in found if isinstance(item, Document) and not item.usable] == [
        ['products.csv:5 SKU: C313 error: "Q7" is not in the expected form (example: P1)'],
        ["products.csv:6 SKU: C301 error: a value is missing"],
    ]
    assert fates(found) == [("orders", 2), *(("products", number) for number in range(2, 7))]


def test_rows_that_a_rule_leaves_out_are_not_found(tmp_path):
    text = PRODUCTS.replace("sheet: Products", "sheet: Products, ignore_rows: 'name == \"old\"'")
    found = run(load_text(tmp_path, text), [["A", "P1", "1"]], [["P1", "1", "old", ""], ["P1", "2", "new", ""]])
    assert decode(found[-1].payload)["packages"][0]["item_name"] == "new"
    assert fates(found) == [("orders", 2), ("products", 2), ("products", 3)]


FRAME = """\
mapping: frame
version: 1
target: order.update
source: {SOURCE, locale: en_GB}
lookups: {LOOKUP}
columns:
  COLUMNS
payload:
  order_id: {col: ID}
  sender_id: {value: A}
  receiver_id: {value: B}
  goods_value: {VALUE}
"""


def framed(source, lookup, columns, value, key="order"):
    text = FRAME.replace("SOURCE", source).replace("LOOKUP", lookup).replace("COLUMNS", "\n  ".join(columns))
    return text.replace("VALUE", value).replace("col: ID", f"col: {key}")


def test_column_sets_of_a_rate_card_are_rows_that_are_looked_up(tmp_path):
    text = framed(
        "files: [orders.csv], companions: {rates: rates.csv}, tables: {orders: {}, rates: {file: rates, sets: [North, South]}}",
        "rate: {table: rates, key: [sku, zone]}",
        [
            "orders: {order: {label: Order, required: true}, zone: {label: Zone}, sku: {label: SKU, lookup: rate, lookup_with: [zone], required: true}}",
            'rates: {sku: {label: SKU, required: true}, price: {label: "{set}", type: decimal, required: true}, zone: {from_set: true}}',
        ],
        "col: sku.price",
    )
    mapping = load_text(tmp_path, text)
    (tmp_path / "orders.csv").write_text("Order,Zone,SKU\nA,South,P1\nB,South,P2\nC,North,P2\n")
    (tmp_path / "rates.csv").write_text("SKU,North,South\nP1,1,2\nP2,x,4\nP3,5,\n")
    tables = tables_of(mapping, tmp_path, {"main": "orders.csv", "rates": "rates.csv"})
    found = list(translate(mapping, tables, now=NOW))
    south, other, wrong = [item for item in found if isinstance(item, Document)]
    assert [price(item) for item in (south, other)] == [2, 4]
    assert texts(wrong) == ['rates.csv:3 North: C302 error: "x" is not a number (write it like 1,234.5)']
    assert fates(found) == [(name, number) for name in ("orders", "rates") for number in (2, 3, 4)]
    assert cells(mapping, south, "goods_value") == [("rates", 2, "South"), ("orders", 2, "SKU"), ("orders", 2, "Zone")]


def test_rows_of_one_kind_look_up_rows_of_another(tmp_path):
    text = framed(
        'files: ["*.csv"], tables: {products: {kind: {label: Kind, is: P}}, lines: {kind: {label: Kind, is: L}}}',
        "product: {table: products, key: sku}",
        [
            "products: {sku: {label: A, required: true}, price: {label: B, type: decimal, required: true}}",
            "lines: {order: {label: A, required: true}, sku: {label: B, lookup: product, required: true}}",
        ],
        "col: sku.price",
    )
    mapping = load_text(tmp_path, text)
    found = of_text(mapping, tmp_path, "Kind,A,B\nL,O1,P2\nP,P1,3\nP,P2,4\nL,O2,P1\nX,?,?\nP,P3,5\n")
    first, second = [item for item in found if isinstance(item, Document) and item.usable]
    assert [price(item) for item in (first, second)] == [4, 3]
    assert fates(found) == [("products", number) for number in range(2, 8)], "the file is read under its first table"
    assert cells(mapping, first, "goods_value") == [("products", 4, "B"), ("products", 2, "B")]


def test_rows_of_several_tables_find_rows_of_one_file(tmp_path):
    text = framed(
        "files: [orders.csv], companions: {lines: lines.csv, products: products.csv}, "
        "tables: {products: {file: products}, orders: {file: orders}, lines: {file: lines, join: {to: orders, on: {order: id}}}}",
        "product: {table: products, key: sku}",
        [
            "products: {sku: {label: SKU, required: true}, kg: {label: Kg, type: decimal, required: true}, name: {label: Name}}",
            "orders: {id: {label: ID, required: true}, main: {label: Main, lookup: product}}",
            "lines: {order: {label: Order, required: true}, sku: {label: SKU, lookup: product, required: true}}",
        ],
        "expr: '$sum([l.sku.kg for l in lines])'",
        key="orders.id",
    )
    text += "  pickup_company: {expr: 'main&.name ?? \"none\"'}\n"
    text += "  packages: {each: lines, item: {package_type: {value: Box}, item_name: {col: sku.name}, weight: {col: sku.kg}}}\n"
    mapping = load_text(tmp_path, text)
    orders, lines = [["A", "P2"], ["B", ""]], [["A", "P1"], ["B", "P2"], ["A", "P2"]]
    found = run(mapping, orders, lines, [["P1", "1", "Bolt"], ["P2", "2", "Nut"]])
    first, second = [item for item in found if isinstance(item, Document)]
    assert [(price(one), decode(one.payload)["pickup_company"]) for one in (first, second)] == [(3, "Nut"), (2, "none")]
    assert cells(mapping, first, "pickup_company") == [("products", 3, "Name"), ("orders", 2, "Main")]
    assert cells(mapping, first, "packages[1].weight") == [("products", 3, "Kg"), ("lines", 4, "SKU")]
    assert fates(found).count(("products", 3)) == 1
    assert mapping.layouts.keys() == {"orders", "lines", "products"}


def test_scattered_rows_of_a_large_drop_find_their_rows(tmp_path):
    mapping = load_text(tmp_path, PRODUCTS)
    rows = [[f"O{n % 211}", f"P{n % 50}", "1"] for n in range(900)]
    products = [[f"P{n}", str(n + 1), f"N{n}", ""] for n in range(60)]
    in_memory, spilled = run(mapping, rows, products), run(mapping, rows, products, memory_rows=50)
    for found in (in_memory, spilled):
        assert len(fates(found)) == len(set(fates(found))) == 960
        assert all(item.usable for item in found if isinstance(item, Document))
    assert [one for one in spilled if isinstance(one, Document)] == [
        one for one in in_memory if isinstance(one, Document)
    ]
    tables = {
        plan.name: table(plan, own, file=f"{plan.name}.csv")
        for plan, own in zip(mapping.plan.tables, (rows, products), strict=True)
    }
    assert in_parts(mapping, tables, 3, memory_rows=50) == spilled


# ---- what does not fit ----

REFUSED = {
    BY_ZONE: [
        (", lookup_with: [land, mode]", "", "zones is searched by 3 values: this column and 2 more (list their columns in lookup_with)"),
        ("[land, mode]", "[land]", "zones is searched by 3 values"),
        ("[land, mode]", "[land, mood]", 'there is no other column "mood" here (did you mean mode?)'),
        ("[land, mode]", "[land, zip]", 'there is no other column "zip" here'),
        ("Mode, one_of: {Road: ROAD, Air: AIR}", "Mode, type: integer", "mode is a number; a key of a code table is a text"),
        ("key: [zip, country, mode]", "key: [zip, country, mood]", 'zones.csv has no column "mood"'),
        ("key: [zip, country, mode]", "key: []", "the code table has no key"),
        ("lookup: zones, ", "", "lookup_with needs a lookup"),
    ],
    TYPED: [
        ("lookup_with: [weight]", "lookup_with: [order]", "order is a text; what is searched in this range is a number"),
        ("to: to_kg}", "to: to_kgs}", 'rates.csv has no column "to_kgs" (did you mean to_kg?)'),
        ("types: {price: decimal", "types: {prize: decimal", '"prize" is not a value of this table (did you mean price?)'),
        ("    range: {from: from_kg, to: to_kg}\n", "    match: first\n", "match needs a range"),
        ("key: zone", "key: zone\n    missing: keep", "keep needs texts without types and a range"),
        ("label: Weight, type: decimal", "label: Weight, type: decimal, lookup: rates", "rates has keys, and decimal is searched in a range only"),
        ("zone.price ?? 0", "zone.express ?? 0", "zone.express"),
    ],
    PRODUCTS: [
        ("table: products,", "table: product,", 'there is no table "product" (did you mean products?)'),
        ("table: products,", "table: products, file: a.csv,", "file is for the file of a code table"),
        ("table: products,", "table: products, value: name,", "value is for the file of a code table (the columns of products have their types"),
        ("table: products, ", "", 'the key "file" is missing (write file: or table:)'),
        ("key: sku}", "key: sko}", 'products has no column "sko" (did you mean sku?)'),
        ("key: sku}", "key: weight}", "weight of products is a number; a key of a code table is a text (give the column type: text)"),
        ("key: sku}", "key: sku, missing: keep}", "keep needs a file with a single value column (write missing: error or blank)"),
        ("key: sku}", "key: sku, match: first}", "match needs a range"),
        ("key: sku}", "range: {from: name, to: weight}}", "a bound of a range is a number or a date, not a text"),
        ("key: sku}", "range: {from: since, to: weight}}", "one bound of the range is a number and the other a date"),
        ("key: sku}", "key: sku, range: {from: weight, to: weight, gaps: allow}}", "gaps is for the file of a code table"),
        ("key: sku}", "key: [sku, name]}", "product is searched by 2 values: this column and 1 more"),
        ("products: {sheet: Products}", "products: {join: {to: orders, on: {sku: sku}}}", "products is looked up, so it has no join"),
        ("col: sku.name", "col: sku.nam", "the code table has no column nam; it has sku, weight, name, since (did you mean name?)"),
        ("col: sku.name", "col: products.name", "products is looked up: the row depends on the column (name it through a column with this lookup, such as COLUMN.name)"),
        ("col: sku.name", "col: sku", "the code table gives several values; name one of sku, weight, name, since"),
        ("each: rows", "each: products", 'there is no table "products" (known: rows, orders)'),
        ("weight: {expr: 'sku.weight * count'}", "weight: {col: sku.weight}, weight_uom: {value: LB}", "weight is in kg, but weight_uom is LB"),
        ("sku.weight * count", "sku.name * count", '"sku.name" is text; * needs a number (give the column name type: decimal, in line'),
        ("label: Name}", "label: Name, lookup: product}", "name of products is itself looked up in a table"),
        ("orders: {}", "orders: {ignore_rows: 'sku.weight > 3'}", '"sku" is text, which has no .weight'),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("text", "case"), [(text, case) for text, cases in REFUSED.items() for case in cases])
def test_a_lookup_that_does_not_fit_is_refused_at_load(tmp_path, text, case):
    old, new, said = case
    assert said in refusal(tmp_path, text, old, new, zones=ZONES, rates=TYPED_RATES)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("EU,10,30,20", "EU,9,30,20", 'rates.csv: lines 2 and 3 of "EU" overlap: below 10, 9 to 30'),
        ("EU,10,30,20", "EU,11,30,20", 'rates.csv: there is a gap between lines 2 and 3 of "EU": below 10, 11 to 30'),
        ("EU,10,30,20", "EU,10,5,20", "rates.csv, line 3: nothing is from 10 to below 5"),
        ("EU,10,30,20", "EU,10,30,twenty", 'rates.csv, line 3: "twenty" is not of type decimal (price) (write it like 1234.5)'),
        ("EU,10,30,20", "EU,10,ten,20", "is neither a number nor a date"),
        ("2026-01-01,no", "1.1.2026,no", 'rates.csv, line 3: "1.1.2026" is not of type date (since)'),
        ("2026-01-01,no", "2026-01-01,perhaps", "is not of type yesno (express) (write yes or no)"),
        ("SE,1,ROAD", "DE,0*1,ROAD", 'zones.csv, line 8: "0*1, DE, ROAD" has a * that is not at the end'),
        ("SE,1,ROAD", "de,01*,road", 'gives "01*, de, road" two meanings, in lines 2 and 8'),
    ],
)  # fmt: skip
def test_a_code_table_with_an_overlap_a_gap_or_a_wrong_value_is_refused_with_its_lines(tmp_path, old, new, said):
    text, lookups = (TYPED, {"rates": TYPED_RATES}) if old in TYPED_RATES else (BY_ZONE, {"zones": ZONES})
    spoilt = {name: content.replace(old, new) for name, content in lookups.items()}
    assert said in refusal(tmp_path, text, "", "", **spoilt)
    if "gap" in said:
        assert refusal(tmp_path, text, "to: to_kg}", "to: to_kg, gaps: allow}", **spoilt) == ""

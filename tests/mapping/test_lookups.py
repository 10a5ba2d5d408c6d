"""Cells that find a row: of a code table (a CSV file) or of another table of the drop, by keys, wildcards and ranges."""

import pytest
from sheets import (
    EXAMPLES,
    codes,
    decode,
    documents,
    example_text,  # fmt: skip
    fates,
    in_parts,
    load_text,
    made,
    refusal,
    run,
    table,
    texts,
)

from loadsheet.mapping import Document
from loadsheet.problems import MappingError
from loadsheet.reading import Native

# ---- code tables with several keys and wildcards ----

ZONES = (EXAMPLES / "lookups" / "zones.csv").read_text(encoding="utf-8")
BY_ZONE = example_text("zones").replace("lookups/", "")
WITHOUT = BY_ZONE.replace(", wildcards: true", "")


def zone_of(folder, row, text=BY_ZONE, zones=ZONES):
    (document,) = made(folder, text, [["A", *row]], lookups={"zones": zones})
    return document


def test_m28_without_wildcards_a_star_is_a_star_and_a_miss_follows_the_rule(tmp_path):
    assert zone_of(tmp_path, ["SE", "Road", "1"], WITHOUT).key == "A/S-One/5"
    (missed,) = texts(zone_of(tmp_path, ["DE", "Road", "1"], WITHOUT))
    assert "(the table has no row for this value with DE and ROAD)" in missed
    assert (
        zone_of(tmp_path, ["DE", "Road", "7"], WITHOUT.replace("ignore_case", "missing: blank, ignore_case")).key
        == "A/none/none"
    )


def test_a_miss_in_a_table_of_wildcards_alone_names_them(tmp_path):
    few = "zip,country,mode,zone,days\n5*,DE,*,West,1\n0*,DE,*,East,2\n"
    (missed,) = texts(zone_of(tmp_path, ["DE", "Road", "80331"], zones=few))
    assert missed.endswith('C306 error: "80331" is not in the list: 5*, 0*')


def test_a_table_keyed_by_a_looked_up_column_comes_after_it(tmp_path):
    text = BY_ZONE.replace(
        "payload:", "  depot: {label: Depot, lookup: depots, lookup_with: [land]}\npayload:"
    ).replace("lookups:", "lookups:\n  depots: {file: depots.csv, key: [name, country], value: place}")
    text = text.replace("'order + ", '\'(depot ?? "") + ')
    lookups = {"zones": ZONES, "depots": "name,country,place\nD1,DE,Dresden\n"}
    (document,) = made(tmp_path, text, [["A", "DE", "Road", "01067", "D1"]], lookups=lookups)
    assert document.key == "Dresden/D-East/2"


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
ORDER["moment"] = ORDER["datetime"]
BOUND = {"decimal": "decimal", "datetime": "date", "moment": "datetime"}
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
    [
        ("2025-12-31", None),
        ("2026-01-01", 1),
        ("2026-03-31 23:59", 1),
        ("2026-04-01 00:00", 2),
        ("2026-04-01 23:59", 2),
        ("2026-04-02", 3),
    ],
)
def test_a_period_of_days_includes_its_last_day_in_local_time(tmp_path, source, day, expected):
    periods = [",,2026-01-01,2026-03-31,1", ",,2026-04-01,2026-04-01,2", ",,2026-04-02,,3"]
    document = rated(tmp_path, source, [day], periods, options=DAYS, kind="datetime")
    assert (price(document) if expected else codes(document)) == (expected or ["C320"])


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-03-31", 1),
        ("2026-03-31 23:59", 1),
        ("2026-04-01", 2),
        ("2026-04-30 14:00", 2),
        ("2026-04-30 14:01", 3),
        ("2026-05-01 00:00", 3),
        ("2026-05-01 23:30", "2026-05-01 23:30:00 is in no range of the table rate; the nearest is 2026-05-02 00:00:00 to 2026-05-03"),
        ("2026-05-03 23:59", 4),
    ],
)  # fmt: skip
def test_an_upper_bound_without_a_time_includes_its_day_and_one_with_a_time_ends_there(tmp_path, source, day, expected):
    periods = [
        ",,2026-01-01,2026-03-31,1",
        ",,2026-04-01 00:00,2026-04-30 14:00,2",
        ",,2026-04-30 14:01,2026-05-01 00:00,3",
        ",,2026-05-02,2026-05-03,4",
    ]
    options = DAYS if source == "table" else DAYS.replace("}", ", gaps: allow}")
    document = rated(tmp_path, source, [day], periods, options=options, kind="moment")
    if isinstance(expected, str):
        assert expected in texts(document)[0].replace("rates.csv", "rate")
    else:
        assert price(document) == expected


def test_a_period_that_begins_the_day_after_leaves_no_gap(tmp_path):
    periods = [",,2026-01-01 06:00,2026-03-31,1", ",,2026-04-01,,2"]
    assert price(rated(tmp_path, "file", ["2026-04-01"], periods, options=DAYS, kind="moment")) == 2
    periods = [",,2026-01-01 06:00,2026-03-31,1", ",,2026-03-31 14:00,,2"]
    with pytest.raises(MappingError, match="overlap: 2026-01-01 06:00:00 to 2026-03-31, from 2026-03-31 14:00:00"):
        rated(tmp_path, "file", ["2026-04-01"], periods, options=DAYS, kind="moment")


def test_a_date_cell_is_a_bound_without_a_time_unless_its_format_shows_one(tmp_path):
    def found(cell, moment):
        mapping = load_text(tmp_path, rates("table", DAYS, "moment"))
        bands = [["", "", Native("2026-01-01", "date"), cell, "1"]]
        return documents(mapping, [["A", moment]], table(mapping.plan.tables[1], bands, sheet="Rates"))[-1]

    day, midnight = Native("2026-03-31", "date"), Native("2026-03-31 00:00:00", "datetime")
    assert price(found(day, "2026-03-31 23:59")) == 1
    assert price(found(midnight, "2026-03-31")) == 1
    assert codes(found(midnight, "2026-03-31 00:01")) == ["C320"]


def test_a_value_outside_is_blank_if_the_table_says_so(tmp_path):
    for source in SOURCES:
        assert price(rated(tmp_path, source, ["STD", "31.5", "EU"], BANDS, options=f"{KEYS}, missing: blank")) == 0


def test_a_bound_that_is_not_a_number_refuses_its_row_and_not_the_records(tmp_path):
    bands = [["EU", "*", "ten", "20", "5"], ["EU", "*", "0", "10", "4"]]
    bad, good = made(tmp_path, rates("table"), [["A", "STD", "1", "EU"]], bands)
    assert texts(bad) == ['rates.csv:2 from: C302 error: "ten" is not a number (write it like 1,234.5)']
    assert price(good) == 4


TYPED = example_text("typed-rates").replace("lookups/typed_rates", "rates")
TYPED_RATES = (EXAMPLES / "lookups" / "typed_rates.csv").read_text(encoding="utf-8")


# ---- rows of another table of the drop ----

PRODUCTS = example_text("products")
THREE = [["P1", "2.5", "Bolt", "2026-01-01"], ["P2", "500 g", "Nut", ""], ["P3", "1", "Washer", "2026-02-01"]]


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
    text = PRODUCTS.replace("key: sku}", f"key: sku{options}}}").replace("[0-9]+", "[0-9*]+")
    text = text.partition("  goods_value")[0] + "  pickup_company: {col: sku.name}\n"
    (document,) = made(tmp_path, text, [["A", sku, "1"]], [*THREE, ["P*", "1", "Any", ""]])
    assert decode(document.payload).get("pickup_company") == name


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
        ("products: {file: products,", "products: {file: products, join: {to: orders, on: {sku: sku}},", "products is looked up, so it has no join"),
        ("col: sku.name", "col: sku.nam", "the code table has no column nam; it has sku, weight, name, since, gross (did you mean name?)"),
        ("col: sku.name", "col: products.name", "products is looked up: the row depends on the column (name it through a column with this lookup, such as COLUMN.name)"),
        ("col: sku.name", "col: sku", "the code table gives several values; name one of sku, weight, name, since, gross"),
        ("each: rows", "each: products", 'there is no table "products" (known: rows, orders)'),
        ("weight: {expr: 'sku.weight * count'}", "weight: {col: sku.weight}, weight_uom: {value: LB}", "weight is in kg, but weight_uom is LB"),
        ("sku.weight * count", "sku.name * count", '"sku.name" is text; * needs a number (give the column name type: decimal, in line'),
        ("label: Name}", "label: Name, lookup: product}", "name of products is itself looked up in a table"),
        ("orders: {file: orders}", "orders: {file: orders, ignore_rows: 'sku.weight > 3'}", '"sku" is text, which has no .weight'),
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

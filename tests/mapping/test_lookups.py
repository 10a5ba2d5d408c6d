"""Cells that find a row: of a code table (a CSV file) or of another table of the drop, by keys, wildcards and ranges."""

import pytest
from sheets import EXAMPLES, codes, decode, documents, example_text, load_text, made, table, texts

from loadsheet.errors import MappingError
from loadsheet.languages import words_in
from loadsheet.reading import Native
from loadsheet.reports.fix_workbook.wording import word_problem

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


def test_a_code_without_a_value_that_is_required_is_a_gap_of_its_table(tmp_path):
    text = """\
mapping: towns
version: 1
target: tender.create
source: {files: "*.csv", locale: de_DE}
lookups: {towns: {file: towns.csv, key: code, value: [name, size]}}
columns: {id: {label: ID, required: true, key: true}, town: {label: Ort, lookup: towns}}
payload:
  tender_id: {col: id}
  sender_id: {value: A}
  receiver_id: {value: B}
  tender_status: {col: town.name}
"""
    found = made(
        tmp_path, text, [["1", "U"], ["2", "B"], ["3", ""]], lookups={"towns": "code,name,size\nB,,3\nU,Ulm,2\n"}
    )
    gap, blank = (one.problems[0] for one in found[1:])
    assert (gap.code, gap.found, blank.code, blank.hint) == ("K501", "B", "K501", "")
    assert gap.hint == "the code table towns has no value for it: add it there, or correct the cell"
    told = {language: word_problem(gap, words_in(language), {}).todo for language in ("en", "de")}
    assert told["en"] == "Correct it if it is wrong; if not, contact the people who run loadsheet"
    assert told["de"].startswith("Korrigieren Sie den Wert, wenn er falsch ist;")


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


def rated(folder, source, rows, bands, **options):
    """The documents of orders with these cells under these rows of rates."""
    rows = [[f"A{number}", *row] for number, row in enumerate(rows)]
    if source == "file":
        lookups = {"rates": "\n".join(["zone,service,from,to,price", *bands])}
        return made(folder, rates(source, **options), rows, lookups=lookups)
    return made(folder, rates(source, **options), rows, [band.split(",") for band in bands])[-len(rows) :]


def price(document):
    """What the order costs, or what is said of it."""
    if document.usable:
        return decode(document.payload)["goods_value"]
    (said,) = texts(document)
    return said.partition("Zone: ")[2].replace("rates.csv", "rate").split(" (")[0]


CHOSEN = {
    ("STD", "0", "EU"): 5, ("STD", "9.99", "EU"): 5, ("STD", "10", "EU"): 7, ("STD", "19.9", "EU"): 7,
    ("EXPRESS", "1", "EU"): 50, ("STD", "0", "UK"): 15,
    ("STD", "31.5", "EU"): "C320 error: 31.5 is in no range of the table rate; the nearest is 10 to 20",
    ("STD", "20", "EU"): "C320 error: 20 is in no range of the table rate; the nearest is 10 to 20",
    ("STD", "-1", "UK"): "C320 error: -1 is in no range of the table rate; the nearest is 0 to 10",
    ("STD", "1", "US"): 'C306 error: "US" is not in the list: EU, UK',
    ("STD", "", "EU"): 'C306 error: "EU" is not in the list: EU, UK',
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_keys_wildcards_and_a_range_choose_one_row(tmp_path, source):
    assert dict(zip(CHOSEN, map(price, rated(tmp_path, source, CHOSEN, BANDS)), strict=True)) == CHOSEN
    backwards = [price(one) for one in rated(tmp_path, source, CHOSEN, BANDS[::-1])]
    assert [str(one).replace("UK, EU", "EU, UK") for one in backwards] == [str(one) for one in CHOSEN.values()]


def test_a_row_of_another_table_that_only_a_lower_row_of_a_record_finds_is_a_problem_of_the_record(tmp_path):
    text = rates("table").replace("[service, weight], required: true", "[service, weight]") + "group: {by: [order]}\n"
    rows = [["A1", "STD", "5", ""], ["A1", "STD", "5", "EU"]]
    document = made(tmp_path, text, rows, [band.split(",") for band in BANDS])[-1]
    assert ['Zone is row 2 "" and row 3 "EU"' in one for one in texts(document)] == [True]


@pytest.mark.parametrize("source", SOURCES)
def test_of_overlapping_ranges_the_first_or_the_last_row_counts_if_the_mapping_says_so(tmp_path, source):
    both = [("STD", "16", "UK")]
    for match, expected in (("first", 1), ("last", 2)):
        (document,) = rated(tmp_path, source, both, OVERLAP, options=f"{KEYS}, match: {match}")
        assert price(document) == expected


def test_overlapping_ranges_of_a_table_are_said_where_a_value_is_in_both(tmp_path):
    """Those of a file are refused when the mapping loads."""
    both, one = rated(tmp_path, "table", [("STD", "16", "UK"), ("STD", "14", "UK")], OVERLAP)
    said = "rates.csv has different values for UK, STD, 16 in its rows 2 (0 to 20), 3 (15 to 30)"
    assert texts(both)[0].endswith(f"C321 error: {said}")
    assert price(one) == 1


OUTSIDE = "C320 error: {} is in no range of the table rate; the nearest is {}"
PERIODS = {  # the type of what is searched, the periods, and the price on days and at moments
    "days": ("datetime", [",,2026-01-01,2026-03-31,1", ",,2026-04-01,2026-04-01,2", ",,2026-04-02,,3"], {
        "2025-12-31": OUTSIDE.format("2025-12-31", "2026-01-01 to 2026-03-31"), "2026-01-01": 1, "2026-03-31 23:59": 1,
        "2026-04-01 00:00": 2, "2026-04-01 23:59": 2, "2026-04-02": 3,
    }),
    "days and times": ("moment", [
        ",,2026-01-01,2026-03-31,1", ",,2026-04-01 00:00,2026-04-30 14:00,2", ",,2026-04-30 14:01,2026-05-01 00:00,3", ",,2026-05-02,2026-05-03,4",
    ], {
        "2026-03-31": 1, "2026-03-31 23:59": 1, "2026-04-01": 2, "2026-04-30 14:00": 2, "2026-04-30 14:01": 3, "2026-05-01 00:00": 3,
        "2026-05-01 23:30": OUTSIDE.format("2026-05-01 23:30:00", "2026-05-02 00:00:00 to 2026-05-03"), "2026-05-03 23:59": 4,
    }),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", PERIODS)
def test_a_period_of_days_includes_its_last_day_in_local_time(tmp_path, source, case):
    """An upper bound without a time includes its day; one with a time ends there."""
    kind, periods, prices = PERIODS[case]
    options = DAYS if source == "table" else DAYS.replace("}", ", gaps: allow}")
    found = rated(tmp_path, source, [[day] for day in prices], periods, options=options, kind=kind)
    assert dict(zip(prices, map(price, found), strict=True)) == prices


def test_a_period_that_begins_the_day_after_leaves_no_gap(tmp_path):
    periods = [",,2026-01-01 06:00,2026-03-31,1", ",,2026-04-01,,2"]
    (document,) = rated(tmp_path, "file", [["2026-04-01"]], periods, options=DAYS, kind="moment")
    assert price(document) == 2
    periods = [",,2026-01-01 06:00,2026-03-31,1", ",,2026-03-31 14:00,,2"]
    with pytest.raises(MappingError, match="overlap: 2026-01-01 06:00:00 to 2026-03-31, from 2026-03-31 14:00:00"):
        rated(tmp_path, "file", [["2026-04-01"]], periods, options=DAYS, kind="moment")


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
        (document,) = rated(tmp_path, source, [["STD", "31.5", "EU"]], BANDS, options=f"{KEYS}, missing: blank")
        assert price(document) == 0


def test_a_bound_that_is_not_a_number_refuses_its_row_and_not_the_records(tmp_path):
    bands = [["EU", "*", "ten", "20", "5"], ["EU", "*", "0", "10", "4"]]
    bad, good = made(tmp_path, rates("table"), [["A", "STD", "1", "EU"]], bands)
    assert texts(bad) == ['rates.csv:2 from: C302 error: "ten" is not a number (write it like 1,234.5)']
    assert price(good) == 4


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

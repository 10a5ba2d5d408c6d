"""Code tables with typed values, and with intervals of a number or a date: weight bands, periods of validity."""

import json

import pytest
from sheets import codes, documents, findings, load_text

from loadsheet.mapping import locate

RATES = """\
zone,from_kg,to_kg,price,since,express
EU,,10,12.50,2026-01-01,yes
EU,10,30,20,2026-01-01,no
UK,0,10,15,,no
"""
MAPPING = """\
mapping: rates
version: 1
target: order.update
source: {files: "*.csv", locale: de_DE, dates: ["%d.%m.%Y %H:%M"], timezone: Europe/Berlin}
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
DATES = """\
zone,from,to,price
EU,2026-01-01,2026-03-31,10
EU,2026-04-01,,11
"""
BY_DATE = (
    MAPPING.replace("{from: from_kg, to: to_kg}", "{from: from, to: to, upper: included}")
    .replace("value: [price, since, express]", "value: price")
    .replace("{price: decimal, since: date, express: yesno}", "{price: decimal}")
    .replace("type: decimal}\n  zone", "type: datetime}\n  zone")
    .replace("(zone.price ?? 0) * 2 + ((zone.express ?? false) ? 1 : 0)", "zone")
    .partition("  pickup_startdatetime")[0]
)


def made(folder, *rows, text=MAPPING, rates=RATES):
    return documents(load_text(folder, text, rates=rates), [list(row) for row in rows])


def value(document):
    return json.loads(document.payload)["goods_value"]


@pytest.mark.parametrize(("weight", "expected"), [("0", 26), ("9,999", 26), ("10", 40), ("29,9", 40)])
def test_the_row_whose_interval_holds_the_number_counts_and_its_values_have_types(tmp_path, weight, expected):
    (document,) = made(tmp_path, ["A", weight, "EU"])
    assert value(document) == expected
    assert json.loads(document.payload)["pickup_startdatetime"] == "2026-01-01 00:00:00"


@pytest.mark.parametrize(
    ("weight", "zone", "text"),
    [
        ("31,5", "EU", "31.5 is in no range of the table rates; the nearest is 10 to 30"),
        ("-1", "UK", "-1 is in no range of the table rates; the nearest is 0 to 10"),
        ("1", "US", '"US" is not in the list: EU, UK'),
        ("", "EU", '"EU" is not in the list: EU, UK'),
    ],
)
def test_a_value_outside_names_the_nearest_range(tmp_path, weight, zone, text):
    (document,) = made(tmp_path, ["A", weight, zone])
    assert [problem.text for problem in document.problems] == [text]


def test_a_value_outside_is_blank_if_the_table_says_so(tmp_path):
    (document,) = made(
        tmp_path,
        ["A", "31,5", "EU"],
        text=MAPPING.replace("key: zone", "key: zone\n    missing: blank").replace("(zone.", "(zone&."),
    )
    assert value(document) == 0


@pytest.mark.parametrize(
    ("moment", "price"),
    [("01.01.2026 00:00", 10), ("31.03.2026 23:59", 10), ("01.04.2026 00:00", 11), ("24.12.2031 09:00", 11)],
)
def test_a_period_of_days_includes_its_last_day_in_local_time(tmp_path, moment, price):
    (document,) = made(tmp_path, ["A", moment, "EU"], text=BY_DATE, rates=DATES)
    assert value(document) == price


def test_the_order_of_the_rows_of_a_table_does_not_matter(tmp_path):
    rows = [["A", weight, zone] for weight in ("0", "10", "29") for zone in ("EU", "UK")]
    header, *lines = RATES.splitlines()
    there = made(tmp_path, *rows)
    back = made(tmp_path, *rows, rates="\n".join([header, *reversed(lines)]))
    assert [(one.payload, codes(one)) for one in there] == [(one.payload, codes(one)) for one in back]


@pytest.mark.parametrize(("match", "price"), [("first", 20), ("last", 30)])
def test_of_overlapping_rows_the_first_or_the_last_counts(tmp_path, match, price):
    rates = "zone,from_kg,to_kg,price,since,express\nEU,0,20,10,,no\nEU,10,30,15,,no\n"
    text = MAPPING.replace("key: zone", f"key: zone\n    match: {match}")
    (document,) = made(tmp_path, ["A", "15", "EU"], text=text, rates=rates)
    assert value(document) == price


def test_a_number_alone_is_searched_without_a_key(tmp_path):
    text = MAPPING.replace("    key: zone\n", "").replace(
        "weight: {label: Weight, type: decimal}\n  zone: {label: Zone, lookup: rates, lookup_with: [weight], required: true}",
        "zone: {label: Weight, type: decimal, lookup: rates, required: true}",
    )
    bands = "from_kg,to_kg,price,since,express\n0,10,10,,no\n10,,15,,no\n"
    light, heavy, wrong = made(tmp_path, ["A", "9,5"], ["B", "400"], ["C", "-1"], text=text, rates=bands)
    assert (value(light), value(heavy), codes(wrong)) == (20, 30, ["C320"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("EU,10,30,20", "EU,9,30,20", 'rates.csv: lines 2 and 3 of "EU" overlap: below 10, 9 to 30'),
        ("EU,10,30,20", "EU,11,30,20", 'rates.csv: there is a gap between lines 2 and 3 of "EU": below 10, 11 to 30'),
        ("EU,10,30,20", "EU,10,5,20", "rates.csv, line 3: nothing is from 10 to below 5"),
        (
            "EU,10,30,20",
            "EU,10,30,twenty",
            'rates.csv, line 3: "twenty" is not of type decimal (price) (write it like 1234.5)',
        ),
        ("EU,10,30,20", "EU,10,ten,20", "is neither a number nor a date"),
        ("2026-01-01,no", "1.1.2026,no", 'rates.csv, line 3: "1.1.2026" is not of type date (since)'),
        ("2026-01-01,no", "2026-01-01,perhaps", "is not of type yesno (express) (write yes or no)"),
    ],
)
def test_a_table_with_an_overlap_a_gap_or_a_wrong_value_is_refused_with_its_lines(tmp_path, old, new, said):
    assert any(said in line for line in findings(tmp_path, MAPPING, rates=RATES.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "lookup_with: [weight]",
            "lookup_with: [order]",
            "order is a text; what is searched in this range is a number",
        ),
        ("to: to_kg}", "to: to_kgs}", 'rates.csv has no column "to_kgs" (did you mean to_kg?)'),
        (
            "types: {price: decimal",
            "types: {prize: decimal",
            '"prize" is not a value of this table (did you mean price?)',
        ),
        ("    range: {from: from_kg, to: to_kg}\n", "    match: first\n", "match needs a range"),
        ("key: zone", "key: zone\n    missing: keep", "keep needs texts without types and a range"),
        (
            "label: Weight, type: decimal",
            "label: Weight, type: decimal, lookup: rates",
            "rates has keys, and decimal is searched in a range only",
        ),
        ("zone.price ?? 0", "zone.express ?? 0", "zone.express"),
    ],
)
def test_what_does_not_fit_a_range_is_refused_at_load(tmp_path, old, new, said):
    assert any(said in line for line in findings(tmp_path, MAPPING.replace(old, new), rates=RATES))


def test_gaps_may_be_allowed(tmp_path):
    rates = RATES.replace("EU,10,30", "EU,11,30")
    assert findings(tmp_path, MAPPING.replace("to: to_kg}", "to: to_kg, gaps: allow}"), rates=rates) == []


def test_a_value_leads_to_all_cells_that_chose_it(tmp_path):
    mapping = load_text(tmp_path, MAPPING, rates=RATES)
    (document,) = documents(mapping, [["A", "9", "EU"]])
    found = locate(mapping.lineage, document.rows, document.items, "pickup_startdatetime")
    assert [place.label for place in found] == ["Zone", "Weight"]

"""What is wrong with column sets, kinds of rows, joins, lookups, calendars, rules around a table, parts, targets and overrides is refused at load, with its line."""

import pytest
from sheets import ASSUMED, EXAMPLES, copied_examples

from loadsheet.mapping.compile import lint, load

TABLES = {"zones": "lookups/zones.csv", "typed-rates": "lookups/typed_rates.csv"}
CASES = {  # by the name of the example: what is changed in it or its code table, into what, and the finding without the name of the file
    "pairs": [
        ("sets: 3, ", "", "10:5: items takes its rows from rows but has no sets"),
        ("sets: 3", "sets: 0", "10:31: sets: must be a mapping of keys to values, found 0"),
        ("from: rows, sets: 3", "from: row, sets: 3", '10:19: "row" is not a table whose rows hold sets (did you mean rows?)'),
        ("filled_by: [item, weight]", "filled_by: [itme]", '10:46: "itme" is not a column of the sets (did you mean item?)'),
        ("from: rows, sets: 3,", "from: rows, sheet: S, sets: 3,", "10:25: set sheet on rows, from which items is made"),
        ('"Kg {set}", type', '"Kg", fill_down: true, type', "22:27: only cells of the file's own rows are filled from above"),
        ("{label: ID, required: true, key: true}", '{label: "ID {set}", required: true, key: true}', "14:20: rows has no sets (write sets: under source.tables)"),
        ("{file: depot, case: upper}", "{file: depott}", '15:19: a file\'s name has no part "depott" (did you mean depot?)'),
        ("{file: week}", "{file: week, part_of: place}", "16:25: part_of and file cannot be combined: both locate the cells"),
        ("{part_of: place}\n    city", "{part_of: plaec}\n    city", '18:22: "plaec" is not a column with a split (did you mean place?)'),
        ("    zip:   {part_of: place}", "    zap:   {part_of: place}", '18:5: the split of place has no part "zap" (name the column as one of zip, city)'),
        ("(?P<city>.+)'", "(?P<city>.+'", "17:34: split: invalid pattern: missing ): (?P<zip>[0-9]{5}) +(?P<city>.+"),
        ("each: items", "each: itmes", '38:20: there is no table "itmes" (did you mean items?)'),
    ],
    "milestones": [
        ("{Loaded: L, Left: D}", "{Loaded: 1}", '9:36: Loaded takes a text, found 1 (write "1")'),
        ('"{set}", type', '"At", type', '9:21: no label of events holds {set} (such as label: "Item {set}")'),
    ],
    "records": [
        ("sum: [weight]", "sum: [wieght]", '11:83: "wieght" is not a column of numbers (did you mean weight?)'),
        ("sum: [weight]", "sum: [item]", '11:83: "item" is not a column of numbers (known: weight)'),
        ("is: [D, T]", "is: [D, H]", '11:37: "H" is already a kind of heads'),
        ("{label: Kind, is: [D, T]}", "{label: Typ, is: [D, T]}", '11:27: the kind column of heads is "Kind"'),
        ("{above: heads.id, required", "{above: heads.di, required", '16:21: "heads.di" is not a column of another kind of row (did you mean heads.id?)'),
        ("{place: 2, required: true}", "{place: 0, required: true}", "17:21: place: must be greater than 0, found 0"),
    ],
    "nested": [
        ("{order: order, package: number}", "{package: number}", "12:54: the join must include the record's key: order of packages"),
        ("to: packages, on", "to: package, on", '12:40: join to the main table or to a table joined to it, not to "package" (did you mean packages?)'),
        ("to: packages, on", "to: cargo, on", '12:40: join to the main table or to a table joined to it, not to "cargo" (known: orders, packages)'),
        ("        each: cargo", "        each: orders", "30:15: its rows do not belong to the rows of packages (join orders to packages, or write the entries out under list:)"),
    ],
    "changes": [
        ("{col: what}", "{col: waht}", '4:15: rows has no column "waht" (did you mean what?)'),
        ("{col: what}", "{column: what}", '4:10: unknown key "column" (did you mean col?)'),
        ("{col: what}", "[tender.create]", "4:9: target takes the name of an operation, found ['tender.create']"),
        ("X: tender.delete", "X: tender.delet", '4:15: what gives "tender.delet", which is not an operation (did you mean tender.delete?)'),
        ("X: tender.delete", "X: order.delete", "4:15: a mapping handles either orders or tenders; events and quotes need separate mappings"),
        ("{label: What, required: true,", "{label: What,", "4:15: what must be a text that is never blank (set required: true or a default)"),
        ("  tender.update:\n", "  tender.updaet:\n", '18:3: "tender.updaet" is not an operation of this mapping (did you mean tender.update?)'),
        ("  pickup_city:", "  pickup_ctiy:", '16:3: Tender has no field "pickup_ctiy" (did you mean pickup_city?)'),
    ],
    "override": [
        ("base/lanes.yaml\nm", "base/lane.yaml\nm", "base/lane.yaml:1:1: the file cannot be read: No such file or directory"),
        ("extends: base/lanes.yaml", "extends: [a]", "2:10: extends takes the path of a mapping, relative to this one, found ['a']"),
        ("{label: Ort}", "{lable: Ort}", '9:12: unknown key "lable" (did you mean label?)'),
        ("tender_status: {value: DRAFT}", "tender_statu: {value: DRAFT}", '12:3: Tender has no field "tender_statu" (did you mean tender_status?)'),
    ],
    "zones": [
        (", lookup_with: [land, mode]", "", "zones is searched by 3 values: this column and 2 more (list their columns in lookup_with)"),
        ("[land, mode]", "[land]", "zones is searched by 3 values"),
        ("[land, mode]", "[land, mood]", 'there is no other column "mood" here (did you mean mode?)'),
        ("[land, mode]", "[land, zip]", 'there is no other column "zip" here'),
        ("Mode, one_of: {Road: ROAD, Air: AIR}", "Mode, type: integer", "mode is a number; a key of a code table is a text"),
        ("key: [zip, country, mode]", "key: [zip, country, mood]", 'zones.csv has no column "mood"'),
        ("key: [zip, country, mode]", "key: []", "the code table has no key"),
        ("lookup: zones, ", "", "lookup_with needs a lookup"),
        ("SE,1,ROAD", "DE,0*1,ROAD", 'zones.csv, line 8: "0*1, DE, ROAD" has a * that is not at the end'),
        ("SE,1,ROAD", "de,01*,road", 'gives "01*, de, road" two meanings, in lines 2 and 8'),
    ],
    "typed-rates": [
        ("lookup_with: [weight]", "lookup_with: [order]", "order is a text; what is searched in this range is a number"),
        ("to: to_kg}", "to: to_kgs}", 'rates.csv has no column "to_kgs" (did you mean to_kg?)'),
        ("types: {price: decimal", "types: {prize: decimal", '"prize" is not a value of this table (did you mean price?)'),
        ("    range: {from: from_kg, to: to_kg}\n", "    match: first\n", "match needs a range"),
        ("key: zone", "key: zone\n    missing: keep", "keep needs texts without types and a range"),
        ("label: Weight, type: decimal", "label: Weight, type: decimal, lookup: rates", "rates has keys, and decimal is searched in a range only"),
        ("zone.price ?? 0", "zone.express ?? 0", "zone.express"),
        ("EU,10,30,20", "EU,9,30,20", 'rates.csv: lines 2 and 3 of "EU" overlap: below 10, 9 to 30'),
        ("EU,10,30,20", "EU,11,30,20", 'rates.csv: there is a gap between lines 2 and 3 of "EU": below 10, 11 to 30'),
        ("EU,10,30,20", "EU,10,5,20", "rates.csv, line 3: nothing is from 10 to below 5"),
        ("EU,10,30,20", "EU,10,30,twenty", 'rates.csv, line 3: "twenty" is not of type decimal (price) (write it like 1234.5)'),
        ("EU,10,30,20", "EU,10,ten,20", "is neither a number nor a date"),
        ("2026-01-01,no", "1.1.2026,no", 'rates.csv, line 3: "1.1.2026" is not of type date (since)'),
        ("2026-01-01,no", "2026-01-01,perhaps", "is not of type yesno (express) (write yes or no)"),
    ],
    "products": [
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
    "calendar": [
        ("2026-04-03", "2026-04-31", '7:19: "2026-04-31" is not a date (such as 2026-12-25)'),
        ("2026-04-03", "3.4.2026", '7:19: "3.4.2026" is not a date (such as 2026-12-25)'),
        ('{holidays: [2026-04-03, "2026-04-06"], file: lookups/holidays.csv}', "{}", "7:3: the calendar DE says no day off (write weekend, holidays or file)"),
        ('{holidays: [2026-04-03, "2026-04-06"], file: lookups/holidays.csv}', "{weekend: [mondy]}", "7:18: weekend: mondy is not one of monday, tuesday, wednesday, thursday, friday, saturday, sunday (did you mean monday?)"),
        ('{holidays: [2026-04-03, "2026-04-06"], file: lookups/holidays.csv}', "{weekend: [monday, tuesday, wednesday, thursday, friday, saturday, sunday]}", "7:17: the calendar DE has no working day"),
        ("holidays.csv", "none.csv", "7:52: lookups/none.csv cannot be read: No such file or directory (the path is relative to this file)"),
        ("lookups/holidays.csv", "../../none.csv", "7:52: ../../none.csv is not in the folder of mappings (write a path relative to the mapping, to a file in the folder of mappings)"),
        ("due, ", "days, ", '15:43: "days" is a number; $format needs a date'),
        ("(day, days)", '(day, days, "US")', '13:61: there is no calendar "US" (known: DE)'),
        ("  DE:", "  US: {holidays: 2026-07-04}\n  DE:", "14:32: $add_working_days needs the name of a calendar, because the mapping has 2 (known: US, DE)"),
        ("{label: Day,", "{label: Day, default: 2026-03-01,", "an unquoted date is not allowed: 2026-03-01"),
    ],
    "around": [
        ("{header_rows: 2, units_row: true", "{header_rows: 6, units_row: true", "8:25: header_rows: 6 is not one of"),
        ("{header_rows: 2, units_row: true", "{header_rows: 2, units_row: perhaps", "8:39: units_row: "),
        ("{header_rows: 2, units_row: true", "{unit_row: true", '8:12: unknown key "unit_row" (did you mean units_row?)'),
        ("{header_rows: 2, units_row: true", "{stop_at_blank: 'yes'", "8:27: stop_at_blank: must be true or false, found yes"),
        ("totals: {begins_with: [Total, Summe]}", "totals: {begin_with: [Total, Summe]}", "did you mean begins_with?"),
        ("totals: {begins_with: [Total, Summe]}", "totals: {begins_with: []}", "must not be empty"),
        ("totals: {begins_with: [Total, Summe]}", "totals: {begins_with: [' ']}", "must not be empty"),
        ("totals: {begins_with: [Total, Summe]}", "totals: [Total]", "must be a mapping of keys to values"),
        ("totals: {begins_with: [Total, Summe]}", 'totals: {begins_with: Total, where: \'city == "x"\'}', "where cannot be combined with begins_with"),
        ("totals: {begins_with: [Total, Summe]}", "totals: {begins_with: Total, over: block}", "over cannot be combined with begins_with"),
        ("totals: {begins_with: [Total, Summe]}", 'totals: {where: \'city == "x"\'}', "sum is missing (write begins_with to ignore totals"),
        ("totals: {begins_with: [Total, Summe]}", "totals: {sum: [city]}", "where is missing (write begins_with to ignore totals"),
        ("totals: {begins_with: [Total, Summe]}", "totals: {over: file}", "where is missing"),
    ],
    "around-kinds": [
        ("is: D}, join", 'is: D}, comment: "#", join', "9:41: set comment on heads"),
    ],
    "occurrence": [
        ("occurrence: 1", "occurrence: 0", "occurrence: must be greater than 0"),
        ("Item, occurrence: 1", "Item", "Item repeats: give this column its occurrence"),
        ("occurrence: 2}", "occurrence: 2, file: stem}", "occurrence and file cannot be combined: both locate"),
    ],
    "repeated-sets": [
        (", sets: 3, repeated: true", ", sets: 3, repeated: true}\n    more: {from: orders, repeated: true", "repeated needs sets"),
        ('label: "Kg {set}"', 'label: "Kg {set}", occurrence: 2', "a column of the sets has no occurrence"),
        ("Order, required: true}", "Order, required: true}, item: {label: Item}", "Item repeats as a heading of the sets of items, and only they can read it"),
    ],
    "units": [
        ("unit_column: uom", "unit_column: oum", 'there is no other column "oum" here (did you mean uom?)'),
        ("unit_column: uom", "unit_column: weight", 'there is no other column "weight" here'),
        ("label: GEWEI", "label: GEWEI, type: integer", "uom is a number; a unit is a text"),
        ("type: quantity, unit: kg, from_unit: g", "type: decimal", "unit_column does not apply to type decimal"),
    ],
    "joined": [
        ("lines, join: {to: orders, on", "lines, join: {to: order, on", '11:38: join to the main table or to a table joined to it, not to "order" (did you mean orders?)'),
        ("on: {order: id}}}\n", "on: {ordr: id}}}\n", 'lines has no column "ordr" (did you mean order?)'),
        ("on: {order: id}}}\n", "on: {order: ids}}}\n", 'orders has no column "ids" (did you mean id?)'),
        ("{file: lines,", "{file: linse,", '"linse" is not a companion, and orders is the main file (did you mean lines?)'),
        ("{col: orders.id}", "{col: lines.item}", "lines has several rows for one record (use each: lines, or an expression over its rows)"),
        ("{col: orders.id}", "{col: orders.idd}", '"orders.idd": orders has no column "idd" (did you mean id?)'),
        ("{file: lines, join: {to: orders, on: {order: id}}}", "{file: lines}", "orders, lines have no join"),
        ("  lines:  {order", "  linez:  {order", "columns must be given for each of the tables orders, lines, notes"),
    ],
}  # fmt: skip


def findings(path):
    return [str(found).replace(f"{path}:", "").replace(f"{path.parent}/", "") for found in lint(path, ASSUMED)]


def changed(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with a copy of the examples; each test puts back what it changes."""
    return copied_examples(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name, cases in CASES.items() for case in cases], ids=lambda one: one if isinstance(one, str) else one[1]
)  # fmt: skip
def test_a_wrong_layout_is_refused_at_its_line(examples, name, case):
    """Whether the mapping is wrong or its code table, the finding is that of the mapping."""
    old, new, said = case
    mapping = examples / f"{name}.yaml"
    files = [mapping, *([examples / TABLES[name]] if name in TABLES else [])]
    (path,) = [file for file in files if old in file.read_text(encoding="utf-8")]
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new), encoding="utf-8")
    try:
        found = findings(mapping)
    finally:
        path.write_text(text, encoding="utf-8")
    assert any(said in line for line in found), found


def test_a_gap_of_a_code_table_may_be_allowed(tmp_path):
    """And of all that is refused above, nothing is wrong with the examples as they are."""
    examples = copied_examples(tmp_path)
    assert [name for name in CASES if findings(examples / f"{name}.yaml")] == []
    changed(examples / "lookups" / "typed_rates.csv", "EU,10,30,20", "EU,11,30,20")
    changed(examples / "typed-rates.yaml", "to: to_kg}", "to: to_kg, gaps: allow}")
    assert findings(examples / "typed-rates.yaml") == []


def test_what_is_wrong_in_the_base_is_said_there(tmp_path):
    base = copied_examples(tmp_path) / "base" / "lanes.yaml"
    changed(base, "type: decimal", "type: decimla")
    changed(base, "file: kinds.csv", "file: kindz.csv")
    said = findings(tmp_path / "override.yaml")
    assert [line.split(" ", 1)[0] for line in said] == ["base/lanes.yaml:15:17:"]
    assert "kindz.csv cannot be read" in said[0]
    assert any("decimla" in line for line in findings(base))  # the override gives a type of its own


def test_a_base_extends_nothing(tmp_path):
    base = copied_examples(tmp_path) / "base" / "lanes.yaml"
    changed(base, "mapping: lanes\n", "mapping: lanes\nextends: other.yaml\n")
    assert findings(tmp_path / "override.yaml")[0].startswith(
        "base/lanes.yaml:2:1: a base mapping cannot extend another mapping"
    )


@pytest.mark.parametrize(
    ("name", "part", "old", "new"),
    [
        ("override", "base/lanes.yaml", "label: City", "label: Town"),
        ("carrier-status", "lookups/status_codes.csv", "ARR,ARR", "ARR,ARX"),
    ],
)
def test_the_hash_covers_the_base_and_the_code_tables(tmp_path, name, part, old, new):
    path = copied_examples(tmp_path) / f"{name}.yaml"
    before = load(path, ASSUMED).hash
    assert before == load(EXAMPLES / path.name, ASSUMED).hash
    text = (tmp_path / part).read_text(encoding="utf-8")
    (tmp_path / part).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert load(path, ASSUMED).hash != before


def test_a_mapping_keeps_the_order_of_its_base_and_a_key_set_to_nothing_takes_one_away(tmp_path):
    path = copied_examples(tmp_path) / "override.yaml"
    fields = list(load(path, ASSUMED).lineage)
    assert fields[:4] == ["tender_id", "sender_id", "receiver_id", "tender_status"]
    assert "pickup_city" in fields
    path.write_text(path.read_text(encoding="utf-8") + "  pickup_city:\n", encoding="utf-8")
    assert "pickup_city" not in load(path, ASSUMED).lineage

"""What is wrong with column sets, kinds of rows, joins, parts, targets and overrides, and settings that are senseless together: refused at load, with its line."""

import pytest
import sheets
from sheets import ASSUMED, EXAMPLES, copied_examples

from loadsheet.mapping import lint, load

CASES = [
    # name of the example, what is changed, into what, the finding without the file
    ("pairs", "sets: 3, ", "", "10:5: items takes its rows from rows but has no sets"),
    ("pairs", "sets: 3", "sets: 0", "10:31: sets: must be a mapping of keys to values, found 0"),
    ("pairs", "from: rows, sets: 3", "from: row, sets: 3", '10:19: "row" is not a table whose rows hold sets (did you mean rows?)'),
    ("pairs", "filled_by: [item, weight]", "filled_by: [itme]", '10:46: "itme" is not a column of the sets (did you mean item?)'),
    ("pairs", "from: rows, sets: 3,", "from: rows, sheet: S, sets: 3,", "10:25: set sheet on rows, from which items is made"),
    ("pairs", '"Kg {set}", type', '"Kg", fill_down: true, type', "22:27: only cells of the file's own rows are filled from above"),
    ("pairs", "{label: ID, required: true, key: true}", '{label: "ID {set}", required: true, key: true}', "14:20: rows has no sets (write sets: under source.tables)"),
    ("pairs", "{file: depot, case: upper}", "{file: depott}", '15:19: a file\'s name has no part "depott" (did you mean depot?)'),
    ("pairs", "{file: week}", "{file: week, part_of: place}", "16:25: part_of and file cannot be combined: both locate the cells"),
    ("pairs", "{part_of: place}\n    city", "{part_of: plaec}\n    city", '18:22: "plaec" is not a column with a split (did you mean place?)'),
    ("pairs", "    zip:   {part_of: place}", "    zap:   {part_of: place}", '18:5: the split of place has no part "zap" (name the column as one of zip, city)'),
    ("pairs", "(?P<city>.+)'", "(?P<city>.+'", "17:34: split: invalid pattern: missing ): (?P<zip>[0-9]{5}) +(?P<city>.+"),
    ("pairs", "each: items", "each: itmes", '38:20: there is no table "itmes" (did you mean items?)'),
    ("milestones", "{Loaded: L, Left: D}", "{Loaded: 1}", '9:36: Loaded takes a text, found 1 (write "1")'),
    ("milestones", '"{set}", type', '"At", type', '9:21: no label of events holds {set} (such as label: "Item {set}")'),
    ("records", "sum: [weight]", "sum: [wieght]", '11:83: "wieght" is not a column of numbers (did you mean weight?)'),
    ("records", "sum: [weight]", "sum: [item]", '11:83: "item" is not a column of numbers (known: weight)'),
    ("records", "is: [D, T]", "is: [D, H]", '11:37: "H" is already a kind of heads'),
    ("records", "{label: Kind, is: [D, T]}", "{label: Typ, is: [D, T]}", '11:27: the kind column of heads is "Kind"'),
    ("records", "{above: heads.id, required", "{above: heads.di, required", '16:21: "heads.di" is not a column of another kind of row (did you mean heads.id?)'),
    ("records", "{place: 2, required: true}", "{place: 0, required: true}", "17:21: place: must be greater than 0, found 0"),
    ("nested", "{order: order, package: number}", "{package: number}", "12:54: the join must include the record's key: order of packages"),
    ("nested", "to: packages, on", "to: package, on", '12:40: join to the main table or to a table joined to it, not to "package" (did you mean packages?)'),
    ("nested", "to: packages, on", "to: cargo, on", '12:40: join to the main table or to a table joined to it, not to "cargo" (known: orders, packages)'),
    ("nested", "        each: cargo", "        each: orders", "30:15: its rows do not belong to the rows of packages (join orders to packages, or write the entries out under list:)"),
    ("changes", "{col: what}", "{col: waht}", '4:15: rows has no column "waht" (did you mean what?)'),
    ("changes", "{col: what}", "{column: what}", '4:10: unknown key "column" (did you mean col?)'),
    ("changes", "{col: what}", "[tender.create]", "4:9: target takes the name of an operation, found ['tender.create']"),
    ("changes", "X: tender.delete", "X: tender.delet", '4:15: what gives "tender.delet", which is not an operation (did you mean tender.delete?)'),
    ("changes", "X: tender.delete", "X: order.delete", "4:15: a mapping handles either orders or tenders; events and quotes need separate mappings"),
    ("changes", "{label: What, required: true,", "{label: What,", "4:15: what must be a text that is never blank (set required: true or a default)"),
    ("changes", "  tender.update:\n", "  tender.updaet:\n", '18:3: "tender.updaet" is not an operation of this mapping (did you mean tender.update?)'),
    ("changes", "  pickup_city:", "  pickup_ctiy:", '16:3: Tender has no field "pickup_ctiy" (did you mean pickup_city?)'),
    ("override", "base/lanes.yaml\nm", "base/lane.yaml\nm", "base/lane.yaml:1:1: the file cannot be read: No such file or directory"),
    ("override", "extends: base/lanes.yaml", "extends: [a]", "2:10: extends takes the path of a mapping, relative to this one, found ['a']"),
    ("override", "{label: Ort}", "{lable: Ort}", '9:12: unknown key "lable" (did you mean label?)'),
    ("override", "tender_status: {value: DRAFT}", "tender_statu: {value: DRAFT}", '12:3: Tender has no field "tender_statu" (did you mean tender_status?)'),
]  # fmt: skip


def findings(path):
    return [str(found).replace(f"{path}:", "").replace(f"{path.parent}/", "") for found in lint(path, ASSUMED)]


def changed(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(("name", "old", "new", "said"), CASES, ids=[f"{name}-{new}" for name, _, new, _ in CASES])
def test_a_wrong_layout_is_refused_at_its_line(tmp_path, name, old, new, said):
    path = copied_examples(tmp_path) / f"{name}.yaml"
    changed(path, old, new)
    assert any(said in line for line in findings(path)), findings(path)


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


def test_the_hash_covers_the_base(tmp_path):
    path = copied_examples(tmp_path) / "override.yaml"
    before = load(path, ASSUMED).hash
    changed(tmp_path / "base" / "lanes.yaml", "label: City", "label: Town")
    assert load(path, ASSUMED).hash != before


def test_a_key_set_to_nothing_takes_the_one_of_the_base_away(tmp_path):
    path = copied_examples(tmp_path) / "override.yaml"
    assert "pickup_city" in load(path, ASSUMED).lineage
    path.write_text(path.read_text(encoding="utf-8") + "  pickup_city:\n", encoding="utf-8")
    assert "pickup_city" not in load(path, ASSUMED).lineage


def test_fields_keep_the_order_of_the_base():
    assert list(load(EXAMPLES / "override.yaml", ASSUMED).lineage)[:4] == [
        "tender_id", "sender_id", "receiver_id", "tender_status",
    ]  # fmt: skip


# ---- settings that are each right and together senseless (M1) ----

SENSIBLE = """\
mapping: x
version: 1
target: order.update
source: {files: ["x_*.csv"], locale: de_DE, dates: ["%d.%m.%Y %H:%M"], timezone: Europe/Berlin}
columns:
  no:   {label: No, required: true, key: true, min_length: 3, max_length: 9}
  day:  {label: Day, type: datetime}
  kg:   {label: Kg, type: quantity, unit: kg, min: 5, max: 10}
  cube: {label: Cube, type: quantity, from_unit: l, unit: m3}
  deep: {label: Deep, type: quantity, unit: cm}
constants: {units: {weight: KG}}
payload:
  order_id: {col: no}
  sender_id: {value: A}
  receiver_id: {value: B}
  createdon: {col: day, format: "%Y-%m-%d %H:%M:00"}
  total_weight: {col: kg}
  gross_weight_uom: {const: units.weight}
  total_volume: {col: cube}
  volume_uom: {value: CBM}
  packages:
    each: rows
    item:
      package_type: {value: Box}
      item_name: {value: x}
      length: {col: rows.deep}
      length_uom: {value: cm, when: 'deep != null'}
      weight: {expr: '(kg ?? 0) * 1000'}
      weight_uom: {value: G}
      width: {col: deep}
      width_uom: {value: furlongs of ours}
checks:
  - {id: heavy, rule: 'kg != 7', say: no}
  - {id: light, rule: 'kg != 7', say: no}
"""


def test_the_mapping_that_the_senseless_ones_are_made_from_is_good(tmp_path):
    assert sheets.findings(tmp_path, SENSIBLE) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("%Y-%m-%d %H:%M:00", "%Y-%m-%dT%H:%M:%SZ", "m.yaml:16:20: createdon: Z in %Y-%m-%dT%H:%M:%SZ is plain text, but times are those of Europe/Berlin; write %z instead of Z"),
        ("{col: kg}", "{col: kg, unless_blank: false}", "m.yaml:17:41: unless_blank: false has no effect: a blank value always leaves its field out (remove it, or set default)"),
        ("{col: kg}", "{col: kg, unless_blank: true, default: 1}", "m.yaml:17:41: unless_blank has no effect: default replaces a blank value (remove one of them)"),
        ("{label: Kg,", "{label: Kg, control_total: true,", 'm.yaml:8:21: unknown key "control_total" (remove it: the reports total packages, weights, volumes and goods values of all records)'),
        ("min: 5, max: 10", "min: 5, max: 4", "m.yaml:8:60: max: 4 is less than min: 5 (no value fits)"),
        ("max_length: 9", "max_length: 2", "m.yaml:6:75: max_length: 2 is less than min_length: 3 (no value fits)"),
        ("id: light", "id: heavy", 'm.yaml:34:10: "heavy" is already the id of another check'),
        ('"x_*.csv"', '"x_*.csv", " "', "m.yaml:4:29: a file name pattern is blank (such as orders_*.csv)"),
        ("x_*.csv", "../x.csv", 'm.yaml:4:18: "../x.csv" cannot match a file in the inbox (patterns are relative to the inbox, such as nordic/*.csv)'),
        ("%Y-%m-%d %H:%M:00", "%d.%m.%Y", "m.yaml:16:33: createdon would be 24.10.2026; it takes a value such as 2026-03-01 08:00:00 (remove format: a date is written in the form of the field)"),
        ("unit: kg,", "unit: t,", "m.yaml:17:17: total_weight is in t, but gross_weight_uom is KG (set unit: kg on the column kg to convert it)"),
        ("unit: m3", "unit: l", "m.yaml:19:17: total_volume is in l, but volume_uom is CBM (set unit: cbm on the column cube to convert it)"),
        ("length_uom: {value: cm", "length_uom: {value: IN", "m.yaml:26:15: length is in cm, but length_uom is IN (set unit: in on the column deep to convert it)"),
        ("weight_uom: {const: units.weight}", "weight_uom: {value: CBM}", "m.yaml:17:17: total_weight is in kg, but gross_weight_uom is CBM (they measure different things)"),
    ],
)  # fmt: skip
def test_senseless_settings_are_refused_at_their_line(tmp_path, old, new, said):
    assert SENSIBLE.count(old) == 1
    assert sheets.findings(tmp_path, SENSIBLE.replace(old, new)) == [said]

"""What is wrong with column sets, kinds of rows, joins, parts, targets and overrides is refused at load, with its line."""

import pytest
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

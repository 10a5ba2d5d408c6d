"""What stands around a table is said in the mapping file: the keys reach reading, wrong ones are refused, and every row is accounted for."""

import json

import openpyxl
import pytest
from command_in_process import loadsheet
from sheets import findings, load_text, of_file, of_text

from loadsheet.checking import LeftOut
from loadsheet.mapping import Document, Ignored
from loadsheet.mapping.documents import SourceRow

MAPPING = """\
mapping: tenders
version: 1
target: tender.update
source:
  files: ["*.csv"]
  tables:
    rows: {header_rows: 2, units_row: true, comment: "#", totals: {begins_with: [Total, Summe]}, footer: {begins_with: "Source:"}}
columns:
  tender: {label: Tender, required: true, key: true}
  city:   {label: Pickup City, required: true}
payload:
  tender_id:     {col: tender}
  sender_id:     {value: ACME}
  receiver_id:   {value: BETA}
  tender_status: {value: OPEN}
"""
RULES = "{header_rows: 2, units_row: true"
FILE = """\
Weekly list,
Tender,Pickup
,City
id,name
T1,Ulm
# late ones
T2,Bonn
Total,2

Source: TMS
T3,Köln
"""


def test_every_row_of_a_file_with_notes_all_around_is_in_a_document_or_ignored_with_its_rule(tmp_path):
    mapping = load_text(tmp_path, MAPPING)
    found = of_text(mapping, tmp_path, FILE)
    documents = [row.number for item in found if isinstance(item, Document) for row in item.rows]
    assert documents == [5, 7]
    assert {item.row.number: item.rule for item in found if isinstance(item, Ignored)} == {
        4: "units_row: the first row under the header",
        6: "comment: #",
        8: "totals: begins with total",
        10: "footer: row 10 begins with source, and all below",
        11: "footer: row 10 begins with source, and all below",
    }


def test_check_says_which_rows_are_left_out_by_which_rule(tmp_path):
    (tmp_path / "mappings").mkdir()
    load_text(tmp_path / "mappings", MAPPING)
    (tmp_path / "a.csv").write_text(FILE, encoding="utf-8")
    assert loadsheet(tmp_path, "check", "a.csv").stdout.splitlines() == [
        'a.csv: 1 row left out, units_row: the first row under the header (row 4 "id")',
        'a.csv: 1 row left out, comment: # (row 6 "# late ones")',
        'a.csv: 1 row left out, totals: begins with total (row 8 "Total")',
        'a.csv: 2 rows left out, footer: row 10 begins with source, and all below (rows 10 "Source: TMS", 11 "T3")',
        "a.csv: 1 blank row skipped",
        "2 documents could be sent; 0 errors, 0 warnings",
    ]
    told = json.loads(loadsheet(tmp_path, "check", "a.csv", "--json").stdout)
    assert told["left_out"] == 5
    assert {"sheet": "", "count": 2, "rows": [10, 11]}.items() <= told["left_out_by"][-1].items()


def test_of_many_rows_left_out_the_first_are_shown():
    left_out = LeftOut()
    for number in range(2, 1503):
        left_out.add(Ignored(SourceRow("rows", number, (" ", f"x{number}")), "a rule"), "a.xlsx", "Orders")
    line = 'a.xlsx:Orders: 1,501 rows left out, a rule (rows 2 "x2", 3 "x3", 4 "x4" and 1,498 more)'
    assert (left_out.count, list(left_out.sentences())) == (1501, [line])


TOTALS = "totals: {begins_with: [Total, Summe]}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (RULES, "{header_rows: 6, units_row: true", "m.yaml:7:25: header_rows: 6 is not one of"),
        (RULES, "{header_rows: 2, units_row: perhaps", "m.yaml:7:39: units_row: "),
        (RULES, "{unit_row: true", 'm.yaml:7:12: unknown key "unit_row" (did you mean units_row?)'),
        (RULES, "{stop_at_blank: 'yes'", "m.yaml:7:27: stop_at_blank: must be true or false, found yes"),
        (TOTALS, "totals: {begin_with: [Total, Summe]}", "did you mean begins_with?"),
        (TOTALS, "totals: {begins_with: []}", "must not be empty"),
        (TOTALS, "totals: {begins_with: [' ']}", "must not be empty"),
        (TOTALS, "totals: [Total]", "must be a mapping of keys to values"),
        (TOTALS, "totals: {begins_with: Total, where: 'city == \"x\"'}", "where cannot be combined with begins_with"),
        (TOTALS, "totals: {begins_with: Total, over: block}", "over cannot be combined with begins_with"),
        (TOTALS, "totals: {where: 'city == \"x\"'}", "sum is missing (write begins_with to ignore totals"),
        (TOTALS, "totals: {sum: [city]}", "where is missing (write begins_with to ignore totals"),
        (TOTALS, "totals: {over: file}", "where is missing"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place(tmp_path, old, new, said):
    found = findings(tmp_path, MAPPING.replace(old, new))
    assert any(said in one for one in found), found
    assert len(found) == 1 or old == TOTALS


KINDS = """\
mapping: tenders
version: 1
target: tender.create
source:
  files: ["*.csv"]
  tables:
    heads: {kind: {label: Kind, is: H}, comment: "#", totals: {begins_with: Total}}
    lines: {kind: {label: Kind, is: D}, join: {to: heads, on: {id: id}}}
columns:
  heads: {id: {label: ID, required: true, key: true}}
  lines:
    id:   {above: heads.id, required: true}
    item: {place: 2, required: true}
payload:
  tender_id:     {col: heads.id}
  sender_id:     {value: A}
  receiver_id:   {value: B}
  tender_status: {value: OPEN}
  packages: {each: lines, item: {package_type: {value: Box}, item_name: {col: item}}}
"""


def test_rows_around_a_table_of_several_kinds_are_ignored_once(tmp_path):
    found = of_text(load_text(tmp_path, KINDS), tmp_path, "Kind,ID\nH,1\n# loose\nD,soap\nTotal,1\n")
    assert [(item.row.table, item.row.number, item.rule) for item in found if isinstance(item, Ignored)] == [
        ("heads", 3, "comment: #"),
        ("heads", 5, "totals: begins with total"),
    ]
    (document,) = [item for item in found if isinstance(item, Document)]
    assert ([row.number for row in document.rows], document.problems) == ([2, 4], ())


def test_what_stands_around_rows_of_several_kinds_is_said_of_the_first(tmp_path):
    text = KINDS.replace("is: D}, join", 'is: D}, comment: "#", join')
    assert findings(tmp_path, text) == ["m.yaml:8:41: set comment on heads"]


def test_what_a_workbook_hides_is_left_out_by_the_mappings_word(tmp_path):
    written = MAPPING.replace(RULES, "{hidden_rows: ignore, hidden_columns: ignore").replace("Pickup City", "City")
    workbook = openpyxl.Workbook()
    for row in (["City", "Tender", "City"], ["Ulm", "T1", "Bonn"], ["Ulm", "T2", "Bonn"]):
        workbook.active.append(row)
    workbook.active.row_dimensions[2].hidden = True
    workbook.active.column_dimensions["A"].hidden = True
    workbook.save(tmp_path / "a.xlsx")
    tables, found = of_file(load_text(tmp_path, written), tmp_path / "a.xlsx", process="child")
    assert [item.rule for item in found if isinstance(item, Ignored)] == ["hidden_rows: ignore"]
    (document,) = [item for item in found if isinstance(item, Document)]
    assert document.key == "T2"
    assert tables["rows"].columns == {"tender": 1, "city": 2}

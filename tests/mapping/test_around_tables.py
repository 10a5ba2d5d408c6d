"""What stands around a table is said in the mapping file: every row is accounted for, totals are compared, and wrong keys are refused.

A file that was cut at the end of a row looks whole (A3): what a mapping declares of its totals shows it.
"""

import json
import shutil

import pytest
from openpyxl import Workbook
from sheets import EXAMPLES, codes, decode, example_text, findings, load_text, made, of_file, of_text

from loadsheet.checking import LeftOut, Unusable, check_files
from loadsheet.languages import words_in
from loadsheet.mapping.documents import Document, Ignored, SourceRow
from loadsheet.reports.fix_workbook.wording import word_problem
from loadsheet.settings import Settings

MAPPING = example_text("around")
RULES = "{header_rows: 2, units_row: true"
TOTALS = "totals: {begins_with: [Total, Summe]}"


def split(found):
    """The documents, and the rule of each ignored row by table and number."""
    ignored = {(item.row.table, item.row.number): item.rule for item in found if isinstance(item, Ignored)}
    return [item for item in found if isinstance(item, Document)], ignored


def test_check_says_which_rows_are_left_out_by_which_rule(workspace):
    workspace.use({"tenders": MAPPING})
    shutil.copy(EXAMPLES / "drops" / "around.csv", workspace / "a.csv")
    assert workspace.command("check", "a.csv").stdout.splitlines() == [
        'a.csv: 1 row left out, units_row: the first row under the header (row 4 "id")',
        'a.csv: 1 row left out, comment: # (row 6 "# late ones")',
        'a.csv: 1 row left out, totals: begins with total (row 8 "Total")',
        'a.csv: 2 rows left out, footer: row 10 begins with source, and all below (rows 10 "Source: TMS", 11 "T3")',
        "a.csv: 1 blank row skipped",
        "2 documents could be sent; 0 errors, 0 warnings",
    ]
    report = json.loads(workspace.command("check", "a.csv", "--json").stdout)
    assert report["left_out"] == 5
    assert {"sheet": "", "count": 2, "rows": [10, 11]}.items() <= report["left_out_by"][-1].items()


def test_of_many_rows_left_out_the_first_are_shown():
    left_out = LeftOut()
    for number in range(2, 1503):
        left_out.add(Ignored(SourceRow("rows", number, (" ", f"x{number}")), "a rule"), "a.xlsx", "Orders")
    line = 'a.xlsx:Orders: 1,501 rows left out, a rule (rows 2 "x2", 3 "x3", 4 "x4" and 1,498 more)'
    assert (left_out.count, list(left_out.sentences())) == (1501, [line])


def book(path, *rows):
    found = Workbook()
    for row in rows:
        found.active.append(row)
    found.save(path)
    return found


def test_what_a_workbook_hides_is_left_out_where_the_mapping_says_so(tmp_path):
    text = MAPPING.replace(RULES, "{hidden_rows: ignore, hidden_columns: ignore").replace("Pickup City", "City")
    path = tmp_path / "a.xlsx"
    workbook = book(path, ["City", "Tender", "City"], ["Ulm", "T1", "Bonn"], ["Ulm", "T2", "Bonn"])
    workbook.active.row_dimensions[2].hidden = True
    workbook.active.column_dimensions["A"].hidden = True
    workbook.save(path)
    tables, found = of_file(load_text(tmp_path, text), path, process="child")
    (document,), ignored = split(found)
    assert (document.key, ignored) == ("T2", {("rows", 2): "hidden_rows: ignore"})
    assert tables["rows"].columns == {"tender": 1, "city": 2}


HEADS_AND_LINES = """\
mapping: heads
version: 1
target: order.update
source:
  files: "*.csv"
  tables:
    heads: {kind: {label: Type, is: [UNH, HEAD], others: ignore}}
    lines: {kind: {label: Type, is: [D, "01", POSITION]}, join: {to: heads, on: {order: order}}}
columns:
  heads: {order: {label: A, required: true}}
  lines: {order: {above: heads.order}, item: {label: A, required: true}}
payload:
  order_id: {col: heads.order}
  sender_id: {value: A}
  receiver_id: {value: B}
  packages: {each: lines, item: {package_type: {value: Box}, item_name: {col: item}}}
"""


@pytest.mark.parametrize(
    ("kind", "meant"),
    [("d", "D"), ("D\u200b", "D"), ("O1", "01"), ("1", "01"), ("POSTION", "POSITION"), ("Position", "POSITION")],
)
def test_a_misspelt_kind_of_row_is_an_error_though_other_kinds_are_ignored(tmp_path, kind, meant):
    found = of_text(
        load_text(tmp_path, HEADS_AND_LINES), tmp_path, f"Type,A\nHEAD,A1\nD,Bolts\n{kind},Nuts\nHEAD,A2\nD,Nails\n"
    )
    (problem,) = [problem for one in found if isinstance(one, Document) for problem in one.problems]
    assert (problem.code, problem.where.row, problem.hint) == ("C306", 4, f"did you mean {meant}?")
    assert [one.key for one in found if isinstance(one, Document) and one.usable] == ["A2"]


@pytest.mark.parametrize("kind", ["Z", "UNT", "E", "02", "HEADS", "POSITIONS DONE", "", "-"])
def test_other_kinds_of_rows_are_ignored_where_the_mapping_says_so(tmp_path, kind):
    found = of_text(load_text(tmp_path, HEADS_AND_LINES), tmp_path, f"Type,A\nHEAD,A1\nD,Bolts\n{kind},Nuts\n")
    documents, ignored = split(found)
    assert ([one.usable for one in documents], list(ignored)) == ([True], [("heads", 4)])


def test_rows_of_a_table_are_counted_whatever_its_name_is(workspace):
    text = (
        HEADS_AND_LINES.replace("heads", "shared")
        .replace("order.update", "tender.create")
        .replace("order_id", "tender_id")
    )
    workspace.use({"any": f"{text}  tender_status: {{value: OPEN}}\n"})
    workspace.drop("a.csv", "Type,A\nHEAD,A1\nD,Bolts\nD,Nuts\nHEAD,A2\nD,Nails\n")
    assert workspace.run().returncode == 0
    assert workspace.states() == {"A1": "accepted", "A2": "accepted"}


# ---- declared totals, and files that were cut ----

DELETES = """\
mapping: deletes
version: 1
target: order.delete
source:
  files: ["*.csv", "*.xlsx"]
  locale: en_US
  tables: {rows: {totals: {where: 'order == "TOTAL"', sum: [quantity]OVER}}}
columns: {order: {label: Order, required: true, key: true}, quantity: {label: Qty, type: decimal}}
payload: {order_id: {col: order}}
"""
OVER_FILE = DELETES.replace("OVER", "")
WHOLE = ["Order,Qty", "A-1,1", "A-2,2", "A-3,3", "TOTAL,6"]
BLOCKS = ["Order,Qty", "A-1,1", "A-2,2", "TOTAL,3", "A-3,3"]


def checked(mapping, *paths):
    found = []
    check_files(paths, [mapping], Settings(), found.append)
    return found


@pytest.mark.parametrize(
    ("over", "lines", "refused"),
    [("", WHOLE, [True, True, True, True, False]), (", over: block", BLOCKS, [False, True, True, False, False])],
    ids=["of the file", "of blocks: one must be there if rows are"],
)
def test_a_file_cut_at_any_row_end_before_its_total_is_refused(tmp_path, over, lines, refused):
    mapping, path = load_text(tmp_path, DELETES.replace("OVER", over)), tmp_path / "d.csv"
    for cut, is_refused in enumerate(refused, 1):
        path.write_text("\n".join(lines[:cut]) + "\n", encoding="utf-8")
        said = [one.problem.code for one in checked(mapping, path) if isinstance(one, Unusable)]
        assert said == (["G409"] if is_refused else [])


def test_a_total_of_quantities_is_compared_in_their_unit_and_names_it(tmp_path):
    kilos = OVER_FILE.replace("type: decimal", "type: quantity, from_unit: lb, unit: kg")
    wrong = made(tmp_path, kilos, [["A-1", "1000"], ["A-2", "2010 kg"], ["TOTAL", "1010"]])
    (problem,) = [problem for one in wrong for problem in one.problems]
    summed = "2,463.59237 kg (1010 = 458.1282937 kg)"
    assert problem.text == f"Qty in the row of totals: 1010; the rows add up to {summed}"
    german = word_problem(problem, words_in("de"), {}).text
    assert german == f"Qty in der Summenzeile: 1010; die Zeilen ergeben {summed}"
    right = made(tmp_path, kilos, [["A-1", "1000"], ["A-2", "1 kg"], ["TOTAL", "454.59237 kg"]])
    assert [codes(one) for one in right] == [[], []]


def test_a_run_sets_a_cut_file_aside_and_sends_nothing_of_it(workspace):
    workspace.use({"deletes": OVER_FILE})
    path = workspace.drop("d.csv", "\n".join(WHOLE[:3]) + "\n")
    result = workspace.command("check", path, "--json")
    assert (result.returncode, json.loads(result.stdout)["usable"]) == (65, 0)
    done = workspace.run("--json")
    (drop,) = json.loads(done.stdout)["drops"]
    assert (done.returncode, drop["entries"]) == (65, {})
    assert "there is no row with the totals" in drop["files"][0]["set_aside"][0]


@pytest.mark.parametrize(
    ("total", "code"), [("=SUM(B2:B3)", "R208"), ("five", "C302"), (5.5, "C303")], ids=["no value", "text", "part"]
)
def test_a_file_whose_total_cannot_be_read_is_set_aside_without_a_record(workspace, total, code):
    workspace.use({"deletes": OVER_FILE.replace("type: decimal", "type: integer")})
    rows = [["Order", "Qty"], ["A-1", 2], ["A-2", 3]]
    book(workspace.inbox / "first.xlsx", *rows, ["TOTAL", total])
    assert workspace.run().returncode == 65
    problems = [(problem["code"], problem["places"]) for problem in workspace.run_json()["problems"]]
    assert problems == [(code, ["first.xlsx:Sheet!B4"])]
    assert workspace.ask("select count(*) from entries") == [(0,)]
    book(workspace.inbox / "again.xlsx", *rows, ["TOTAL", 5])
    workspace.run()
    assert workspace.ask("select key from entries order by id") == [("A-1",), ("A-2",)]


def test_a_total_that_repeats_the_error_of_a_row_sets_no_file_aside(workspace):
    workspace.use({"deletes": OVER_FILE.replace("type: decimal", "type: integer")})
    book(workspace.inbox / "first.xlsx", ["Order", "Qty"], ["A-1", "#N/A"], ["A-2", 3], ["TOTAL", "#N/A"])
    assert workspace.run().returncode == 1
    assert workspace.ask("select key, state from entries order by id") == [("A-1", "invalid"), ("A-2", "held")]
    assert workspace.run_json()["balance"]["rows"] == {"held": 1, "invalid": 1, "ignored": 1}
    book(workspace.inbox / "other.xlsx", ["Order", "Qty"], ["A-1", "=1+1"], ["A-2", 3], ["TOTAL", "=SUM(B2:B3)"])
    assert workspace.run().returncode == 65, "a workbook that no program has calculated"


# ---- the marks of text files: quotes, escapes and blanks, in a process of their own and in ours ----

MARKS = """\
mapping: marks
version: 1
target: order.update
source:
  files: ["*.csv"]
  {marks}
columns:
  id:   {{label: ID, required: true}}
  city: {{label: City}}
  item: {{label: Item, blank: [none]}}
payload: {{order_id: {{col: id}}, sender_id: {{value: S}}, receiver_id: {{value: R}}, pickup_city: {{col: city}}, pickup_company: {{col: item}}}}
"""
CASES = {
    "another quote": ('quote: "\'"', "1,'Bonn, am Rhein','it''s'\n", ("Bonn, am Rhein", "it's")),
    "another quote, none in sight": ('quote: "\'"', '1,Bonn,5" pipe\n', ("Bonn", '5" pipe')),
    "a quote that usually delimits": ("quote: ';'", "1,;Bonn, am Rhein;,pipe\n", ("Bonn, am Rhein", "pipe")),
    "no quote at all": ("quote: none", '1,"Bonn,5" pipe\n', ('"Bonn', '5" pipe')),
    "an escape": ('escape: "\\\\"', '1,Bonn\\, am Rhein,"5\\" pipe"\n', ("Bonn, am Rhein", '5" pipe')),
    "an escape, none in sight": ('escape: "\\\\"', "1,Bonn,pipe\n", ("Bonn", "pipe")),
    "an escape and no quote": ('quote: none\n  escape: "~"', '1,Bonn~, am Rhein,"~~\n', ("Bonn, am Rhein", '"~')),
    "blanks": ("blank: [n/a, '-']", "1,-,n/a\n", (None, None)),
    "blanks beside those of a column": ("blank: '-'", "1,none,none\n", ("none", None)),
    "no marks": ("encoding: utf-8", '1,"Bonn, am Rhein","5"" pipe"\n', ("Bonn, am Rhein", '5" pipe')),
}


@pytest.mark.parametrize("apart", ["child", "none"])
@pytest.mark.parametrize("case", CASES)
def test_declared_marks_are_read_as_they_are_declared(tmp_path, case, apart):
    marks, row, expected = CASES[case]
    mapping = load_text(tmp_path, MARKS.format(marks=marks))
    (document,) = of_text(mapping, tmp_path, f"ID,City,Item\n{row}", process=apart)
    assert document.usable, document.problems
    payload = decode(document.payload)
    assert (payload.get("pickup_city"), payload.get("pickup_company")) == expected


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ("quote: \"''\"", "6:10: quote: must be one character, or none, found ''"),
        ('quote: " "', "6:10: ' ' cannot be the quote: it is too common in texts"),
        ('escape: "\\n"', "6:11: '\\n' cannot be the escape: it is too common in texts"),
        ("escape: '\"'", '6:11: " is already the quote (quotes within a value are doubled and need no escape)'),
        ("delimiter: ['\"']", "6:15: '\"' cannot be a delimiter: it is already the quote or the escape"),
        ('delimiter: [";", "\\n"]', "6:20: '\\n' cannot be a delimiter: it ends a line"),
        ("delimiter: ['~']\n  escape: '~'", "6:15: '~' cannot be a delimiter: it is already the quote or the escape"),
        ("quote: none\n  delimiter: ['\"']", None),  # it may delimit where nothing is quoted
    ],
)
def test_marks_that_clash_are_refused_at_load_with_their_line(tmp_path, marks, said):
    found = findings(tmp_path, MARKS.format(marks=marks))
    assert [one.startswith(f"m.yaml:{said}") for one in found] == ([True] if said else [])

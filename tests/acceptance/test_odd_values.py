"""Damaged and hostile values of files: people are told of them, however many there are, and no terminal obeys them."""

import json
import unicodedata

import openpyxl
import pytest
from orders import order_id
from workspace import SMALL

NASTY = "Or\x1b[31mder,Rea\u202eson,\x9b2J\u00ad\nA,b,c\n"
FIELDS = {  # of a status event by column, and what a spreadsheet program may have made of its values
    "Exponent": ("status_name", "A", "4.01235E+12"),
    "Rounded": ("status_code", "A", "123456789012345000"),
    "Zeros": ("status_location", "01067", "8056"),
    "Turned": ("status_description", "A-17", "03-May"),
    "Styles": ("current_location", "2026-12-31", "31.12.2026"),
    "Garbled": ("latitude", "Köln", "MÃ¼ller"),
    "Invisible": ("longitude", "A1", "A1\u200b"),
}
MAPPING = """\
mapping: events
version: 1
target: order.status
source: {files: ["events*.csv"], delimiter: [","]}
columns:
  order: {label: Order, required: true, key: true}
""" + "".join(f"  {head.lower()}: {{label: {head}, required: true}}\n" for head in FIELDS)
MAPPING += "payload:\n  order_id: {col: order}\n"
MAPPING += "".join(f"  {field}: {{col: {head.lower()}}}\n" for head, (field, _, _) in FIELDS.items())
CODES = {"R221", "R222", "R223", "R224", "R225", "R226", "R228"}


def test_damaged_values_are_pointed_out_before_anything_is_sent_and_sent_all_the_same(workspace):
    workspace.write_orders(12)
    workspace.edit("inbox/orders.csv", "Empfänger 7", "EmpfÃ¤nger 7")
    checked = workspace.command("check", "inbox/orders.csv", "inbox/packages.csv")
    assert checked.returncode == 0, checked.stderr
    assert ("R22" in checked.stdout, "1 warning" in checked.stdout) == (True, True)
    done = workspace.run()
    assert done.returncode == 0, "a suspicion needs nobody"
    assert order_id(7) not in done.stderr
    said = workspace.run_json()
    assert said["entries"] == {"accepted": 12}
    (suspicion,) = [problem for problem in said["problems"] if problem["code"].startswith("R22")]
    assert suspicion["level"] == "warning"
    (drop,) = said["drops"]
    found = {file["name"]: table["found"] for file in drop["files"] for table in file["tables"]}
    assert found["orders.csv"]["encoding"]
    sheet = openpyxl.load_workbook(workspace.reports()[0] / "reconciliation.xlsx")["Problems"]
    assert "orders.csv" in [row[1] for row in sheet.iter_rows(values_only=True) if row[8] == suspicion["code"]]


@pytest.mark.parametrize(("blank", "codes"), [("", ["R254"]), ("blank: [nan], ", [])], ids=["sent", "blank"])
def test_words_of_a_program_for_no_value_are_pointed_out_unless_the_mapping_knows_them(workspace, blank, codes):
    mapping = (SMALL / "orders.yaml").read_text(encoding="utf-8")
    mapping = mapping.replace("type: text, required: true}", f"type: text, {blank}default: Ulm}}")
    workspace.use({"orders": mapping})
    workspace.drop("orders.csv", "Order,City,Weight\nA-1,Bonn,1\nA-2,nan,1\n")
    assert workspace.run().returncode == 0
    problems = [problem for problem in workspace.run_json()["problems"] if problem["code"].startswith("R")]
    assert [problem["code"] for problem in problems] == codes


def events(damaged_count, sound_count):
    """Status events as CSV, in which each column is damaged in so many rows."""
    lines = [",".join(["Order", *FIELDS])]
    lines += [",".join([f"O{number}", *(sound for _, sound, _ in FIELDS.values())]) for number in range(sound_count)]
    lines += [",".join([f"D{number}", *(wrong for _, _, wrong in FIELDS.values())]) for number in range(damaged_count)]
    return "\n".join(lines) + "\n"


@pytest.mark.journey
def test_hundreds_of_damaged_cells_in_each_column_are_counted_by_check_and_run(workspace):
    """They end neither of them."""
    workspace.use({"events": MAPPING})
    (workspace / "events.csv").write_text(events(300, 600), encoding="utf-8")
    checked = workspace.command("check", "events.csv", "--json")
    assert checked.returncode == 0
    problems = {problem["code"]: problem["values"] for problem in json.loads(checked.stdout)["problems"]}
    assert {code: values["count"] for code, values in problems.items()} == {
        **dict.fromkeys(CODES, 300),
        "R225": 900,
    }
    assert all("and 295 more" in values.get("styles", values["rows"]) for values in problems.values())
    workspace.drop("events.csv", events(300, 10))
    assert workspace.run("--limit", "9").returncode in (0, 1)
    said = workspace.run_json()
    assert {cause["code"] for cause in said["causes"] if cause["level"] == "warning"} >= CODES - {"R224"}
    assert workspace.command("report").returncode == min(said["exit_code"], 1)


def test_no_command_repeats_what_a_terminal_obeys_and_letters_of_any_language_stay(workspace):
    workspace.use_shipped("order-deletes")
    name = workspace.drop("order_deletes_1.csv", NASTY).relative_to(workspace.folder)
    for words in (("check", name), ("mapping", "preview", name), ("run",), ("show", "A\x1b[31m")):
        done = workspace.command(*words)
        said = done.stdout + done.stderr
        assert "Traceback" not in said
        assert said.strip()
        assert {sign for sign in said if unicodedata.category(sign) in ("Cc", "Cf")} <= {"\n", "\t"}, words
    letters = "Größe\u00a0中文 Ørsted\u202f№"
    assert letters in workspace.command("show", letters).stderr


def test_keys_that_look_equal_are_one_record_and_those_that_only_look_alike_are_named(workspace):
    """Web pages and word processors write one number in several ways. An O for a 0 is a number of its own, pointed out."""
    text = MAPPING.split("columns:")[0] + "columns: {order: {label: Order, required: true, key: true}}\n"
    workspace.use({"events": f"{text}group: {{by: [order]}}\npayload: {{order_id: {{col: order}}}}\n"})
    keys = [
        "SO 1-07",
        "SO\u00a01-07",
        "SO 1\u201107",
        "\ufeffSO 1\u00ad-07",
        "SO 1-\u200b07",
        "SO 1-O7",
        "so 1-07",
        "SO 1-07 \u200b",
    ]
    (workspace / "events.csv").write_text("\n".join(["Order", *keys]) + "\n", encoding="utf-8")
    shown = workspace.command("check", "events.csv", "--payloads")
    found = {made["key"]: len(made["rows"]) for made in map(json.loads, shown.stdout.splitlines())}
    assert found == {"SO 1-07": 6, "SO 1-O7": 1, "so 1-07": 1}
    checked = json.loads(workspace.command("check", "events.csv", "--json").stdout)
    by_code = {problem["code"]: problem for problem in checked["problems"]}
    assert by_code["R228"]["values"]["rows"] == "rows 3, 4, 5, 6, 9"
    assert (by_code["R249"]["found"], by_code["R249"]["values"]["other"]) == ("SO 1-O7", "SO 1-07")

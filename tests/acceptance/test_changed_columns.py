"""Columns that get a new heading, sheets that are new, and files that are cut off: nothing of such a file is sent until a person decides."""

import openpyxl
import pytest

MAPPING = """\
mapping: lanes
version: 1
target: tender.create
source: {files: ["lanes*.csv"], locale: en_GB}
columns:
  no:     {label: No, required: true, key: true}
  volume: {label: Volume, aliases: [Vol], type: decimal}
payload:
  tender_id: {col: no}
  sender_id: {value: A}
  receiver_id: {value: B}
  tender_status: {value: OPEN}
  pickup_startdatetime: {value: "2026-03-04 08:00:00"}
  packages: {each: rows, item: {package_type: {value: BOX}, item_name: {value: Box}, volume: {col: volume}}}
"""


@pytest.fixture
def lanes(workspace):
    """A workspace that has sent a file with the columns No, Vol and Remark."""
    workspace.use({"lanes": MAPPING})
    workspace.drop("lanes1.csv", "No,Vol,Remark\nL1,2.5,fragile\n")
    assert workspace.run().returncode == 0
    return workspace


def test_nothing_is_sent_of_a_file_whose_column_has_a_new_heading_until_a_person_decides(lanes):
    lanes.drop("lanes2.csv", "No,Cubic metres,Remark\nL2,3.5,\nL3,4.5,\n")
    assert "0 records would be sent" in lanes.run("--dry-run").stdout
    done = lanes.run()
    assert done.returncode == 1, done
    assert '2x columns changed (L621)   e.g. lanes2.csv:1 "Cubic metres"' in done.stdout
    results = lanes.results("lanes2.csv")
    assert [row["outcome"] for row in results] == ["held", "held"]
    text = "Columns of earlier files are missing: Volume; new ones are not read: Cubic metres"
    assert results[0]["problem"].startswith(text)
    assert lanes.command("retry", "--file", "lanes2.csv").returncode == 0
    assert lanes.run().returncode == 0
    assert lanes.states() == dict.fromkeys(["L1", "L2", "L3"], "accepted")
    lanes.drop("lanes3.csv", "No,Cubic metres,Remark\nL4,5.5,\n")
    assert lanes.run().returncode == 0  # this layout is known now
    assert [problem["code"] for problem in lanes.run_json()["problems"]] == ["R250"]


def test_the_first_file_with_a_column_that_is_not_read_warns_of_it(lanes):
    files = {"No,Vol,Remark,Status,": "Status", "No,Vol,REMARK,Status": "", "No,Volumn,Status,Vol,4.12.": "Volumn"}
    for number, (heads, new) in enumerate(files.items(), start=2):
        lanes.drop(f"lanes{number}.csv", f"{heads}\nL{number},1,,3,\nM{number},1,,,\n")
        foreseen = lanes.run("--dry-run", "--json").stdout
        assert lanes.run().returncode == 0
        assert ("R255" in foreseen) == bool(new)
        warning = f"Warning: Columns are not read that earlier files did not have: {new} [R255]" if new else ""
        assert [row["problem"] for row in lanes.results(f"lanes{number}.csv")] == [warning, ""]


def test_the_first_file_without_a_column_that_all_had_warns_of_it(lanes):
    for number, said in {2: "Warning: Columns are missing that all earlier files had: Volume [R257]", 3: ""}.items():
        lanes.drop(f"lanes{number}.csv", f"No\nL{number}\n")
        done = lanes.run("--verbose")
        assert done.returncode == 0
        assert ("· 1 warning ·" in done.stdout.partition("\n")[0]) == bool(said)
        assert ("· 1 warning" in lanes.command("runs").stdout.splitlines()[1]) == bool(said)
        assert [row["problem"] for row in lanes.results(f"lanes{number}.csv")] == [said]


@pytest.mark.parametrize(("heading", "said"), [("", "column B"), ("Volumn", "Volumn")], ids=["lost", "misspelt"])
def test_the_file_is_sent_once_its_heading_is_corrected(lanes, heading, said):
    lanes.drop("lanes2.csv", f"No,{heading},Remark\nL2,3.5,\n")
    assert lanes.run().returncode == 1
    assert f"new ones are not read: {said}" in lanes.results("lanes2.csv")[0]["problem"]
    codes = {problem["code"] for problem in lanes.run_json()["problems"]}
    assert codes == ({"L621", "R241"} if heading else {"L621"})
    lanes.drop("lanes2.csv", "No,Volume,Remark\nL2,3.5,\n")
    assert lanes.run().returncode == 0
    assert lanes.states() == dict.fromkeys(["L1", "L2"], "accepted")


def test_the_file_is_sent_once_the_mapping_knows_the_new_heading(lanes):
    lanes.drop("lanes2.csv", "No,Cubic metres,Remark\nL2,3.5,\n")
    assert lanes.run().returncode == 1
    lanes.edit("mappings/lanes.yaml", "[Vol]", "[Vol, Cubic metres]")
    lanes.drop("lanes2.csv", "No,Cubic metres,Remark\nL2,3.5,\n")
    assert lanes.run().returncode == 0
    assert lanes.states() == dict.fromkeys(["L1", "L2"], "accepted")


@pytest.mark.parametrize(
    "heads",
    ["No,Remark", "No", "No,Volume,Colour", "No,VOL ,Remark,Colour"],
    ids=["nothing is new", "only fewer columns", "nothing read is missing", "written in capitals"],
)
def test_other_changes_of_columns_hold_nothing(lanes, heads):
    lanes.drop("lanes2.csv", f"{heads}\n{','.join(['L2', '7', 'x', 'y'][: heads.count(',') + 1])}\n")
    assert lanes.run().returncode == 0
    assert lanes.states()["L2"] == "accepted"


def test_a_file_that_was_held_does_not_make_its_layout_known(lanes):
    for number in (2, 3):
        lanes.drop(f"lanes{number}.csv", f"No,Cubic metres,Remark\nL{number},3.5,\n")
        assert lanes.run().returncode == 1
        assert "L621" in {problem["code"] for problem in lanes.run_json()["problems"]}
    assert lanes.states() == {"L1": "accepted", "L2": "held", "L3": "held"}


def drop_sheets(workspace, **sheets):
    """Put a workbook into the inbox, with these sheets of lanes; a name in capitals is that of a hidden one."""
    book = workspace.drop_book("lanes.xlsx", {title: [["No", "Volume"], [lane, 2.5]] for title, lane in sheets.items()})
    for page in book:
        page.sheet_state = "hidden" if page.title.isupper() else "visible"
    book.save(workspace.inbox / "lanes.xlsx")


def test_nothing_is_sent_of_a_file_that_may_be_cut_off_until_a_person_decides(lanes):
    """The last value was 125 before the transfer was interrupted."""
    lanes.drop("lanes2.csv", "No,Vol,Remark\nL2,3.5,\nL3,4.5,fra")
    foreseen, done = lanes.run("--dry-run"), lanes.run()
    assert (foreseen.returncode, done.returncode) == (1, 1)
    assert "2x file may be cut off (L625)   e.g. lanes2.csv" in done.stdout
    assert lanes.results("lanes2.csv")[0]["what to do"].startswith("Send the complete file again")
    assert lanes.command("retry", "--file", "lanes2.csv").returncode == 0
    assert lanes.run().returncode == 0
    lanes.drop("lanes3.csv", "No,Vol,Remark\nL4,3.5,")
    assert lanes.run().returncode == 0, "files of this sender may end so, as a person said"
    assert lanes.states() == dict.fromkeys(["L1", "L2", "L3", "L4"], "accepted")


def test_a_complete_file_replaces_the_one_that_was_cut_off(lanes):
    """A row that lacks a cell where the file ends says so."""
    lanes.drop("lanes2.csv", "No,Vol,Remark\nL2,3.5,\nL3,4")
    assert lanes.run().returncode == 1
    held, cut = lanes.results("lanes2.csv")
    assert (held["outcome"], cut["outcome"]) == ("held", "invalid")
    assert cut["what to do"] == "The file ends within this row; send the complete file again"
    lanes.drop("lanes2.csv", "No,Vol,Remark\nL2,3.5,\nL3,4.5,\n")
    assert lanes.run().returncode == 0
    assert lanes.states() == dict.fromkeys(["L1", "L2", "L3"], "accepted")


@pytest.mark.parametrize("end", ["", "\r\n\x1a", "\r", "\n\n  "])
def test_a_file_that_ends_as_those_of_its_sender_do_is_sent(workspace, end):
    workspace.use({"lanes": MAPPING})
    for number in (1, 2):
        workspace.drop(f"lanes{number}.csv", f"No,Vol,Remark\nL{number},2.5,fragile{end}")
        assert workspace.run().returncode == 0


@pytest.fixture
def monthly(workspace):
    """A workspace that has sent one sheet of a workbook, and not the other one with the same columns."""
    workspace.use({"lanes": MAPPING.replace('"lanes*.csv"]', '"lanes.xlsx"], tables: {rows: {sheet: [Jan]}}')})
    drop_sheets(workspace, Jan="L1", Archive="L0")
    assert workspace.run().returncode == 0
    assert [problem["code"] for problem in workspace.run_json()["problems"]] == ["R245"]
    return workspace


def test_nothing_is_sent_of_a_workbook_with_a_new_sheet_of_the_same_columns_until_a_person_decides(monthly):
    drop_sheets(monthly, Jan="L2", Archive="L0", Mar="L3")
    assert "0 records would be sent" in monthly.run("--dry-run").stdout
    done = monthly.run()
    assert (done.returncode, monthly.states()) == (1, {"L1": "accepted", "L2": "held"})
    assert '1x new sheet not read (L623)   e.g. lanes.xlsx:Jan!1 "Mar"' in done.stdout
    assert "R245" not in {problem["code"] for problem in monthly.run_json()["problems"]}
    sheet = openpyxl.load_workbook(monthly.reports()[-1] / "lanes.xlsx.results.xlsx").active
    assert sheet["C2"].value.startswith('The sheet "Mar" has the same columns and is not read; earlier files did not')
    assert monthly.command("retry", "--file", "lanes.xlsx").returncode == 0
    assert monthly.run().returncode == 0
    drop_sheets(monthly, Jan="L4", Archive="L0", Mar="L3")
    assert monthly.run().returncode == 0  # the sheet is known now
    assert monthly.states() == dict.fromkeys(["L1", "L2", "L4"], "accepted")


def test_a_sheet_that_is_hidden_or_was_there_before_holds_nothing(monthly):
    drop_sheets(monthly, Jan="L2", Archive="L0", MAR="L3")
    assert monthly.run().returncode == 0
    drop_sheets(monthly, Jan="L4", Archive="L9")
    assert monthly.run().returncode == 0
    assert monthly.states() == dict.fromkeys(["L1", "L2", "L4"], "accepted")

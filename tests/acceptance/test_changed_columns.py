"""Columns that get a new heading: nothing of such a file is sent without their values until a person decides."""

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


def test_the_file_is_sent_once_its_heading_is_corrected(lanes):
    lanes.drop("lanes2.csv", "No,,Remark\nL2,3.5,\n")
    assert lanes.run().returncode == 1
    assert "new ones are not read: column B" in lanes.results("lanes2.csv")[0]["problem"]
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


def test_a_misspelt_heading_holds_the_file_too(lanes):
    lanes.drop("lanes2.csv", "No,Volumn,Remark\nL2,3.5,\n")
    assert lanes.run().returncode == 1
    assert {problem["code"] for problem in lanes.run_json()["problems"]} == {"L621", "R241"}


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

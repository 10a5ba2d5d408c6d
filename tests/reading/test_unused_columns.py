"""Columns that no mapping reads are listed; a heading that looks misspelt, or holds a control character, is a warning."""

import json

import pytest
from reading_writers import WRITERS, Sheet

from loadsheet.cli import invoke

MAPPING = """\
mapping: acme
version: 1
target: order.update
source: {files: ["a.*"], locale: en_GB, dates: ["%Y-%m-%d"], timezone: Europe/Berlin}
columns:
  order:  {label: Order, type: text, required: true, key: true}
  kind:   {label: Package type, aliases: [Pack], type: text}
  weight: {label: Weight, type: decimal}
constants: {sender_id: ACME, receiver_id: CARRIER1}
payload:
  order_id: {col: order}
  sender_id: {const: sender_id}
  receiver_id: {const: receiver_id}
  vehicle_type: {col: kind}
  total_weight: {col: weight}
"""


@pytest.fixture
def checked(tmp_path, capfd):
    """What `check` says of a file with these rows."""

    def check(rows, *words, form="csv", **sheet):
        (tmp_path / "mappings").mkdir(exist_ok=True)
        (tmp_path / "mappings/acme.yaml").write_text(MAPPING)
        path = tmp_path / f"a.{form}"
        if form == "csv":
            path.write_text("".join(",".join(row) + "\n" for row in rows))
        else:
            hidden = [Sheet([["x"]], "Old", hidden=True)] if sheet else []
            WRITERS[form](path, [Sheet(rows, **sheet), *hidden])
        assert invoke(["check", str(path), "--mappings", str(tmp_path / "mappings"), *words]) in (0, 1)
        said = capfd.readouterr()
        return said.out or said.err

    return check


@pytest.fixture
def told(checked):
    return lambda rows, **more: json.loads(checked(rows, "--json", **more))


@pytest.mark.parametrize(
    ("heading", "meant"),
    [
        ("Weigth", "Weight"),
        ("Wei\x01ght", "Weight"),
        ("Wei\0ght", "Weight"),
        ("Weight (kg)", "Weight"),
        ("Pakc", "Package type"),
        ("Packag type", "Package type"),
    ],
)
def test_a_heading_like_that_of_a_missing_column_is_a_warning_that_names_both(told, heading, meant):
    found = told([["Order", heading], ["A1", "2"]])
    (warning,) = [one for one in found["problems"] if one["code"] == "R241"]
    assert (warning["level"], warning["values"]["meant"], warning["values"]["cell"]) == ("warning", meant, "column B")
    assert found["usable"] == 1
    has_control = any(ord(letter) < 32 for letter in heading)
    assert [one["code"] for one in found["problems"]] == ["R209"] * has_control + ["R241"]


def test_the_warning_names_the_cell_of_a_workbook(checked):
    said = checked([["Order", "Pack", "Weigth"], ["A1", "Box", "2"]], form="xlsx")
    assert 'column "Weigth" (C1) is not used. Did you mean "Weight"?' in said


@pytest.mark.parametrize("heading", ["Height", "Notes", "Weight 2", "Pickup"])
def test_a_column_that_is_not_used_is_information_and_no_warning_when_all_are_found(checked, told, heading):
    rows = [["Order", "Pack", "Weight", heading], ["A1", "Box", "2", "x"]]
    found = told(rows)
    assert (found["problems"], found["tables"][0]["unused"]) == ([], [heading])
    assert f"a.csv: 1 column not used ({heading})\n" in checked(rows)


def test_a_column_without_a_heading_is_named_by_its_letter_if_it_holds_anything(told):
    rows = [["Order", "", "Weight", "", "Pack"], ["A1", "", "2", "", "Box"], ["A2", "", "2", "see A1", "Box"]]
    assert told(rows)["tables"][0]["unused"] == ["column D"]


def test_check_tells_blank_rows_and_what_is_hidden(checked):
    rows = [["Order", "Pack", "Weight"], ["A1", "Box", "2"], [None], [None], ["A2", "Box", "2"], ["A3", "Box", "1"]]
    said = checked(rows, form="xlsx", hidden_rows=(4,), hidden_columns=(2,))
    assert (
        "a.xlsx:Data: 2 blank rows skipped; hidden sheets: 1 (Old); hidden rows: 1 (read); hidden columns: 1 (read): C"
        in said
    )


def test_blank_lines_of_a_text_file_are_counted_beside_values_of_several_lines(told):
    rows = [["Order", "Pack"], ["A1", '"a\nb\nc"'], [""], ["A2", '"d\ne"'], [" ", ""], ["", ""], ["A3", "x"]]
    assert told(rows)["tables"][0]["blank_rows"] == 3

"""Sheets that no mapping reads are listed; those with the same columns as the sheet that is read are a warning."""

import json

import pytest
from reading_writers import WRITERS, Sheet

from loadsheet.cli import invoke

MAPPING = """\
mapping: acme
version: 1
target: order.update
source: {files: ["a.*"], timezone: Europe/Berlin, tables: {rows: {sheet: Orders}}}
columns:
  order: {label: Order, required: true, key: true}
  kind:  {label: Package type}
payload:
  order_id: {col: order}
  sender_id: {value: ACME}
  receiver_id: {value: CARRIER1}
  vehicle_type: {col: kind}
"""
ROWS = [["Order", "Package type"], ["A1", "Box"], ["A2", "Box"]]


@pytest.fixture
def check(tmp_path, capfd):
    """The exit code of `check` and what it says of a workbook with the sheet Orders and these others."""

    def checked(*others, form="xlsx", words=("--json",), mapping=MAPPING):
        (tmp_path / "mappings").mkdir(exist_ok=True)
        (tmp_path / "mappings/acme.yaml").write_text(mapping)
        path = tmp_path / f"a.{form}"
        WRITERS[form](path, [Sheet(ROWS, "Orders"), *others])
        code = invoke(["check", str(path), "--mappings", str(tmp_path / "mappings"), *words])
        said = capfd.readouterr()
        return code, said.out or said.err

    return checked


def warned(said):
    return [(one["code"], one["level"], one["values"]["sheets"]) for one in json.loads(said)["problems"]]


@pytest.mark.parametrize("form", WRITERS)
def test_a_sheet_with_the_same_columns_that_is_not_read_is_a_warning(check, form):
    code, said = check(Sheet([["Order", "Package type", "Why"], ["R1", "Box", "Broken"]], "Returns"), form=form)
    assert (code, warned(said)) == (0, [("R245", "warning", "1 (Returns)")])


@pytest.mark.parametrize(
    "rows",
    [
        [["How to fill in the sheet"], ["Order", "the number of the order"]],
        [["Order", "Package type"]],
        [["Code", "Meaning"], ["BX", "Box"]],
    ],
    ids=["a page of advice", "headings without rows", "another table"],
)
def test_another_sheet_is_listed_without_a_warning(check, rows):
    code, said = check(Sheet(rows, "Notes"), words=())
    assert (code, "R245" in said) == (0, False)
    assert "a.xlsx:Orders: sheets not read: 1 (Notes)" in said


def test_blank_and_hidden_sheets_are_no_sheets_to_read(check):
    _, said = check(Sheet([[None]], "Sheet3"), Sheet(ROWS, "Old", hidden=True), words=())
    assert "not read" not in said
    assert "hidden sheets: 1 (Old)" in said


def test_sheets_that_several_mappings_read_are_read(check, tmp_path):
    shared = MAPPING.replace("source: {files", "source: {shared: true, files")
    (tmp_path / "mappings").mkdir()
    (tmp_path / "mappings/returns.yaml").write_text(
        shared.replace("mapping: acme", "mapping: returns").replace("sheet: Orders", "sheet: Returns")
    )
    returns = Sheet([["Order", "Package type"], ["R1", "Box"]], "Returns")
    code, said = check(returns, words=(), mapping=shared)
    assert (code, "not read" in said) == (0, False)
    assert "3 documents could be sent" in said

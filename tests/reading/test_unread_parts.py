"""Sheets, columns and rows that no mapping reads are listed; those that look as if they should be read are a warning."""

import json

import pytest
from openpyxl import Workbook
from openpyxl.styles import Font
from reading_writers import WRITERS, Sheet

from loadsheet.cli import invoke

MAPPING = """\
mapping: acme
version: 1
target: order.update
source: {files: ["a.*"], locale: en_GB, timezone: Europe/Berlin, tables: {rows: {sheet: Data}}}
columns:
  order:  {label: Order, type: text, required: true, key: true}
  kind:   {label: Package type, aliases: [Pack], type: text}
  weight: {label: Weight, type: decimal}
payload:
  order_id: {col: order}
  sender_id: {value: ACME}
  receiver_id: {value: CARRIER1}
  vehicle_type: {col: kind}
  total_weight: {col: weight}
"""
ROWS = [["Order", "Package type", "Weight"], ["A1", "Box", "1"], ["A2", "Box", "2"]]


@pytest.fixture
def check(tmp_path, capfd):
    """What `check` says of a file with these rows, and of a workbook with further sheets."""

    def checked(rows, *others, form="csv", words=(), mapping=MAPPING, **sheet):
        (tmp_path / "mappings").mkdir(exist_ok=True)
        (tmp_path / "mappings/acme.yaml").write_text(mapping)
        path = tmp_path / f"a.{form}"
        if form == "csv":
            path.write_text("".join(",".join(row) + "\n" for row in rows))
        else:
            WRITERS[form](path, [Sheet(rows, **sheet), *others])
        assert invoke(["check", str(path), "--mappings", str(tmp_path / "mappings"), *words]) in (0, 1)
        said = capfd.readouterr()
        return said.out or said.err

    return checked


@pytest.fixture
def check_json(check):
    return lambda *given, **more: json.loads(check(*given, words=("--json",), **more))


# ---- sheets ----


@pytest.mark.parametrize("form", WRITERS)
def test_a_sheet_with_the_same_columns_that_is_not_read_is_a_warning(check_json, form):
    returns = Sheet([["Order", "Package type", "Weight", "Why"], ["R1", "Box", "1", "Broken"]], "Returns")
    problems = check_json(ROWS, returns, form=form)["problems"]
    assert [(one["code"], one["level"], one["values"]["sheets"]) for one in problems] == [
        ("R245", "warning", "1 (Returns)")
    ]


def test_rows_that_are_struck_out_are_a_warning_that_names_them(tmp_path, capfd):
    """Rows 3 and 5 are struck out, and most of row 6; of row 4 only one cell is. LibreOffice names what is not struck out, too."""
    book = Workbook()
    for row in [*ROWS, ["A3", "Box", "3"], ["A4", None, "4"], ["A5", "Box", "5"]]:
        book.active.append(row)
    for cell in (
        *book.active[3],
        book.active["B4"],
        *book.active[5],
        *book.active[6][:2],
        book.active["A1"],
        book.active["B5"],
    ):
        cell.font = Font(strike=True)
    book.active["A2"].font = Font(strike=False, bold=True)
    book.active.title = "Data"
    book.save(tmp_path / "a.xlsx")
    (tmp_path / "acme.yaml").write_text(MAPPING)
    assert invoke(["check", str(tmp_path / "a.xlsx"), "--mappings", str(tmp_path), "--json"]) == 0
    (problem,) = json.loads(capfd.readouterr().out)["problems"]
    assert (problem["code"], problem["level"], problem["values"]) == ("R252", "warning", {"rows": "3, 5, 6"})


@pytest.mark.parametrize(
    "rows",
    [
        [["How to fill in the sheet"], ["Order", "the number of the order"]],
        [ROWS[0]],
        [["Code", "Meaning"], ["BX", "Box"]],
    ],
    ids=["a page of advice", "headings without rows", "another table"],
)
def test_another_sheet_is_listed_without_a_warning(check, rows):
    said = check(ROWS, Sheet(rows, "Notes"), form="xlsx")
    assert "R245" not in said
    assert "a.xlsx:Data: sheets not read: 1 (Notes)" in said


def test_sheets_that_are_blank_hidden_or_read_by_another_mapping_are_not_listed(check, tmp_path):
    said = check(ROWS, Sheet([[None]], "Sheet3"), Sheet(ROWS, "Old", hidden=True), form="xlsx")
    assert ("not read" in said, "hidden sheets: 1 (Old)" in said) == (False, True)
    shared = MAPPING.replace("source: {files", "source: {shared: true, files")
    other = shared.replace("mapping: acme", "mapping: returns").replace("sheet: Data", "sheet: Returns")
    (tmp_path / "mappings/returns.yaml").write_text(other)
    said = check(ROWS, Sheet(ROWS[:2], "Returns"), form="xlsx", mapping=shared)
    assert ("not read" in said, "3 documents could be sent" in said) == (False, True)


# ---- columns ----


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
def test_a_heading_like_that_of_a_missing_column_is_a_warning_that_names_both(check, check_json, heading, meant):
    rows = [["Order", heading], ["A1", "2"]]
    found = check_json(rows)
    (warning,) = [one for one in found["problems"] if one["code"] == "R241"]
    assert (warning["level"], warning["values"]["meant"], warning["values"]["cell"]) == ("warning", meant, "column B")
    assert found["usable"] == 1
    has_control = any(ord(letter) < 32 for letter in heading)
    also = ["C323"]  # without the column, nothing is changed
    assert sorted(one["code"] for one in found["problems"]) == sorted(["R209"] * has_control + ["R241"] + also)
    if not has_control:
        assert f'column "{heading}" (B1) is not used. Did you mean "{meant}"?' in check(rows, form="xlsx")


@pytest.mark.parametrize(
    ("headings", "missing", "unused"),
    [
        (["Remark"], "Package type, Weight", "Remark"),
        (["Pack", "Remark", "Notes"], "Weight", "Remark, Notes"),
        (["Weigth", "Remark"], "Package type", "Remark"),
        (["Weigth"], "", ""),
        (["Pack"], "", ""),
        (["Pack", "Weight", "Remark"], "", ""),
    ],
)
def test_a_missing_column_beside_columns_that_are_not_read_may_have_a_new_heading(
    check_json, headings, missing, unused
):
    found = check_json([["Order", *headings], ["A1", *("2" for _ in headings)]])
    warnings = [one for one in found["problems"] if one["code"] == "R250"]
    values = [(one["level"], one["values"]["missing"], one["values"]["unused"]) for one in warnings]
    assert values == ([("warning", missing, unused)] if missing else [])
    assert found["usable"] == 1


@pytest.mark.parametrize("heading", ["Height", "Notes", "Weight 2", "Pickup"])
def test_a_column_that_is_not_used_is_information_and_no_warning_when_all_are_found(check, check_json, heading):
    rows = [["Order", "Pack", "Weight", heading], ["A1", "Box", "2", "x"]]
    found = check_json(rows)
    assert (found["problems"], found["tables"][0]["unused"]) == ([], [heading])
    assert f"a.csv: 1 column not used ({heading})\n" in check(rows)


def test_a_column_without_a_heading_is_named_by_its_letter_if_it_holds_anything(check_json):
    rows = [["Order", "", "Weight", "", "Pack"], ["A1", "", "2", "", "Box"], ["A2", "", "2", "see A1", "Box"]]
    assert check_json(rows)["tables"][0]["unused"] == ["column D"]


# ---- rows ----


def test_blank_rows_and_what_is_hidden_are_counted(check, check_json):
    rows = [["Order", "Pack", "Weight"], ["A1", "Box", "2"], [None], [None], ["A2", "Box", "2"], ["A3", "Box", "1"]]
    old = Sheet([["x"]], "Old", hidden=True)
    said = check(rows, old, form="xlsx", hidden_rows=(4,), hidden_columns=(2,))
    hidden = "hidden sheets: 1 (Old); hidden rows: 1 (read); hidden columns: 1 (read): C"
    assert f"a.xlsx:Data: 2 blank rows skipped; {hidden}" in said
    lines = [["Order", "Pack"], ["A1", '"a\nb\nc"'], [""], ["A2", '"d\ne"'], [" ", ""], ["", ""], ["A3", "x"]]
    assert check_json(lines)["tables"][0]["blank_rows"] == 3


@pytest.mark.parametrize("form", WRITERS)
def test_hidden_rows_are_a_warning_that_names_them_unless_the_mapping_says_what_becomes_of_them(check_json, form):
    rows = [["About"], *ROWS, ["A3", "Box", "3"], ["A4", "Box", "4"]]
    for said, found in {"": ["4, 5"], ", hidden_rows: read": [], ", hidden_rows: ignore": []}.items():
        mapping = MAPPING.replace("sheet: Data", f"sheet: Data{said}")
        problems = check_json(rows, form=form, mapping=mapping, hidden_rows=(0, 3, 4))["problems"]
        named = [(one["level"], one["values"]["rows"]) for one in problems if one["code"] == "R256"]
        assert named == [("warning", numbers) for numbers in found]


def test_a_row_over_several_lines_is_no_blank_row_wherever_it_stands(check_json):
    every = [["Order", "Pack"], *([f"A{at}", '"a\nb"'] for at in range(4_001))]
    some = [["Order", "Pack"], *([f"A{at}", '"a\nb"' if at % 4_000 == 3_999 else "x"] for at in range(8_001))]
    assert [check_json(lines)["tables"][0]["blank_rows"] for lines in (every, some)] == [0, 0]

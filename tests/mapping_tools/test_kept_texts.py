"""Drafts, explanations and templates of the shipped samples, kept as texts: whatever changes in one shows as a difference.

LOADSHEET_REWRITE=1 writes them anew; read the difference before you commit it.
"""

import os
import re
from pathlib import Path

import openpyxl
import pytest
from shipped_samples import OF_ONE_KIND, ROOT, sample, shipped_mapping

from loadsheet.mapping_tools.sheet_profiles import observe
from loadsheet.mapping_tools.suggest import draft
from loadsheet.mapping_tools.template import write_template
from loadsheet.mapping_tools.value_origins import document_origin, explain, json_by_path
from loadsheet.mapping_tools.yaml_writer import write_draft
from loadsheet.settings import Settings

KEPT = Path(__file__).with_name("kept")


def holds(name, text):
    """Compare a text with the one that is kept under this name, or keep it."""
    path = KEPT / name
    if os.environ.get("LOADSHEET_REWRITE"):
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", OF_ONE_KIND)
def test_the_draft_of_a_sample_is_the_one_that_is_kept(name):
    holds(f"{name}.draft.yaml", write_draft(draft(observe(sample(name).files, Settings()), None)))


@pytest.mark.parametrize("name", OF_ONE_KIND)
def test_the_origin_of_every_value_is_the_one_that_is_kept(name):
    found = sample(name)
    one = found.usable[0]
    made = document_origin(found.mapping, one, found.tables)
    paths = [path for path in json_by_path(one.payload) if not set(re.findall(r"\d+", path)) - {"0", "1"}]
    lines = []
    for told in explain(made, paths, found.mapping):
        at = told.leaf_at.removeprefix(f"{ROOT}/")
        lines += ["", f"{told.path} = {told.value}", f"  by {told.leaf or 'nothing'} in {at or 'no file'}"]
        lines += [f"  {cell.where} {cell.label}: {cell.text!r}; {cell.read}; {cell.code}" for cell in told.cells[:4]]
        lines += [f"  {told.cells_in_all} cells"] * (len(told.cells) != 1)
    holds(f"{name}.values.txt", "\n".join(lines).lstrip())


@pytest.mark.parametrize("name", ["acme-flat", "nordic-join"])
def test_the_template_of_a_mapping_is_the_one_that_is_kept(tmp_path, name):
    mapping = shipped_mapping(name)
    lines = []
    for role in mapping.layouts:
        write_template(mapping, role, tmp_path / f"{role}.xlsx")
        for sheet in openpyxl.load_workbook(tmp_path / f"{role}.xlsx").worksheets:
            lines += ["", f"{role}: {sheet.title}, {sheet.sheet_state}, {sheet.dimensions}, panes {sheet.freeze_panes}"]
            widths = {
                letter: (round(one.width, 1), one.number_format) for letter, one in sheet.column_dimensions.items()
            }
            lines += [f"{letter}: {width}, {format_}" for letter, (width, format_) in widths.items()]
            lines += [f"heights: {[one.height for one in sheet.row_dimensions.values()]}"]
            rules = sheet.data_validations.dataValidation
            lines += sorted(
                f"{rule.sqref}: {rule.type} {rule.operator} {rule.formula1} {rule.formula2} {rule.error}"
                for rule in rules
            )
            cells = [cell for row in sheet.iter_rows() for cell in row if cell.value is not None or cell.comment]
            lines += [f"{cell.coordinate}: {cell.value!r}, {cell.number_format}, {_face(cell)}" for cell in cells]
    holds(f"{name}.template.txt", "\n".join(lines).lstrip())


def _face(cell):
    note = f", note {cell.comment.text!r}" if cell.comment else ""
    return f"{'bold' if cell.font.b else 'plain'} {cell.font.color.rgb if cell.font.color else ''}{note}"

"""Where the rules of drafts and templates begin and end: one case on each side."""

from collections import Counter
from datetime import date, datetime, time
from decimal import Decimal

import pytest

from loadsheet.contract import Assumptions
from loadsheet.mapping import load
from loadsheet.mapping_tools.column_types import Guess
from loadsheet.mapping_tools.sheets import Column
from loadsheet.mapping_tools.suggest import DraftColumn, _unique
from loadsheet.mapping_tools.template import _bounds, forms, write_template
from loadsheet.mapping_tools.vocabulary import Reading
from loadsheet.mapping_tools.yaml_writer import _column

MAPPING = """\
mapping: orders
version: 1
target: order.update
source: {{files: ["*.xlsx"], tables: {{rows: {{sheet: {sheet}}}}}, locale: de_DE, timezone: UTC, dates: ["%d.%m.%Y"]}}
columns:
  order: {{label: Order, required: true, key: true}}
  value: {{label: Postcode, {column}}}
payload:
  order_id: {{col: order}}
  sender_id: {{value: A}}
  receiver_id: {{value: B}}
"""


def mapping_of(folder, column="type: text", sheet="Orders"):
    path = folder / "m.yaml"
    path.write_text(MAPPING.format(column=column, sheet=sheet), encoding="utf-8")
    return load(path, Assumptions())


@pytest.mark.parametrize(
    ("column", "example"),
    [
        ("type: text", "Postcode"),
        ("type: text, pad_left: {to: 4, with: '0'}", "Postcode"),
        ("type: text, pad_left: {to: 5, with: '0'}", "01067"),
        ("type: text, pad_left: {to: 7, with: '0'}", "0001067"),
        ("type: text, max_length: 4", "Post"),
        ("type: text, example: '04109'", "04109"),
        ("type: integer", Decimal(10)),
        ("type: integer, min: 11", Decimal(11)),
        ("type: integer, min: 1, max: 9", Decimal(9)),
        ("type: decimal", Decimal("12.5")),
        ("type: decimal, max: 12.4", Decimal("12.4")),
        ("type: country", "DE"),
        ("type: currency", "EUR"),
        ("type: timezone", "Europe/Berlin"),
        ("type: text, one_of: [B, A]", "B"),
    ],
)
def test_the_example_of_a_column_follows_from_its_settings(tmp_path, column, example):
    mapping = mapping_of(tmp_path, column)
    (form,) = forms(mapping, mapping.main_role)
    assert form.headings[1].example == example


@pytest.mark.parametrize(("kind", "wanted"), [("time", time), ("date", date), ("datetime", datetime)])
def test_the_example_of_a_moment_is_one_of_its_kind(tmp_path, kind, wanted):
    mapping = mapping_of(tmp_path, f"type: {kind}")
    (form,) = forms(mapping, mapping.main_role)
    assert type(form.headings[1].example) is wanted


@pytest.mark.parametrize(("length", "title"), [(30, 30), (31, 31), (32, 31), (60, 31)])
def test_the_title_of_a_sheet_has_31_characters_at_most(tmp_path, length, title):
    mapping = mapping_of(tmp_path, sheet="x" * length)
    (form,) = forms(mapping, mapping.main_role)
    assert form.title == "x" * title
    write_template(mapping, mapping.main_role, tmp_path / "template.xlsx")


@pytest.mark.parametrize(
    ("low", "high", "rule"),
    [
        (1, 9, {"criteria": "between", "minimum": 1.0, "maximum": 9.0}),
        (0, None, {"criteria": ">=", "value": 0.0}),
        (None, 9, {"criteria": "<=", "value": 9.0}),
        (None, 0, {"criteria": "<=", "value": 0.0}),
    ],
)
def test_bounds_of_a_column_are_bounds_of_its_cells(low, high, rule):
    assert _bounds(*(None if one is None else Decimal(one) for one in (low, high))) == rule


def test_names_that_are_taken_or_mean_something_in_expressions_are_changed():
    taken = set()
    names = ["weight", "weight", "weight", "rows", "rows", "weight_2", "in"]
    assert [_unique(name, taken) for name in names] == [
        "weight", "weight_2", "weight_3", "rows_", "rows_2", "weight_2_2", "in_",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "written"),
    [
        ({"type": "yesno", "default": True}, 'default: "yes"'),
        ({"type": "yesno", "default": False}, 'default: "no"'),
        ({"type": "text", "default": "x"}, "default: x"),
        ({"type": "date", "formats": ["%d.%m.%Y"]}, "type: date}"),
        ({"type": "date", "formats": ["%d.%m.%Y", "%m/%d/%Y"]}, "formats:"),
    ],
)
def test_keys_of_a_column_are_written_as_mappings_write_them(keys, written):
    column = Column("Label", 0, (), Reading(frozenset(), (), Counter()), Guess("text", {}, ""))
    assert written in _column(DraftColumn("label", column, keys, ""), ["%d.%m.%Y"])

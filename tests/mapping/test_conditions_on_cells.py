"""Conditions on the cells of a row (`pad_left.when`, `ignore_rows`, `totals.where`) need no replacement for blanks."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from sheets import codes, documents, findings, load_text, run

from loadsheet.mapping import Ignored
from loadsheet.mapping.expressions import compile_expression
from loadsheet.mapping.plans import Code, ExpressionError, Frame, Scope, Shape, Slot, Type

SLOTS = {
    "text": Slot(0, Type.TEXT, blank=True),
    "number": Slot(1, Type.NUMBER, blank=True),
    "moment": Slot(2, Type.MOMENT, blank=True),
    "flag": Slot(3, Type.FLAG, blank=True),
    "code": Slot(4, Type.CODES, blank=True, codes=(Code("name", blank=True),)),
    "span": Slot(5, Type.SPAN, blank=True),
}
SHAPE = Shape("rows", SLOTS)
FILLED = ["AB", Decimal(5), datetime(2026, 3, 1, tzinfo=UTC), True, ("N",), None]


def holds(text, row):
    frame = Frame(datetime(2026, 3, 1, tzinfo=UTC))
    frame.row = row
    return compile_expression(text, Scope(SHAPE, of_cells=True)).evaluate(frame)


@pytest.mark.parametrize(
    ("text", "blank", "filled"),
    [
        # a blank text counts as an empty text
        ("text == ''", True, False),
        ("text != ''", False, True),
        ("text == 'AB'", False, True),
        ("text.length == 2", False, True),
        ("text.length == 0", True, False),
        ("text.starts_with('A')", False, True),
        ("'B' in text", False, True),
        ("text in ['AB', 'C']", False, True),
        ("text[0:1] == 'A'", False, True),
        ("text.as_lower == 'ab'", False, True),
        ("text + 'C' == 'C'", True, False),
        ("$matches(text, r'[A-Z]*')", True, True),
        ("$replace(text, r'B', '') == 'A'", False, True),
        ("text < 'B'", True, True),
        ("code.name == ''", True, False),
        ("code.name == 'N'", False, True),
        # unless the condition asks for the blank itself
        ("text == null", True, False),
        ("null != text", False, True),
        ("(text ?? 'none') == 'none'", True, False),
        ("(code&.name ?? 'none') == 'none'", True, False),
        ("code == null", True, False),
        # a comparison with any other blank is false, and so is its opposite
        ("number < 6", False, True),
        ("number >= 6", False, False),
        ("number * 2 + 1 > 0", False, True),
        ("-number < 0", False, True),
        ("$round(number / 2) > 0", False, True),
        ("$abs(number) <= 5", False, True),
        ("moment < d'2026-04-01'", False, True),
        ("moment + $days(number) < d'2026-04-01'", False, True),
        ("$weekday(moment) > 0", False, True),
        ("moment.year >= 2026", False, True),
        # except for == and !=: a blank equals only a blank
        ("number == 5", False, True),
        ("number != 5", True, False),
        ("number == null", True, False),
        ("(number ?? 7) == 7", True, False),
        # a blank yes or no is no
        ("flag and true", False, True),
        ("not flag", True, False),
        ("flag ? false : true", True, False),
        ("$count([text, flag]) == 2", True, True),
    ],
)  # fmt: skip
def test_a_blank_in_a_condition_on_cells(text, blank, filled):
    assert [holds(text, [None] * 6), holds(text, FILLED)] == [blank, filled]


def test_elsewhere_a_blank_still_needs_a_replacement():
    with pytest.raises(ExpressionError, match='"text" may be blank'):
        compile_expression("text.length == 2", Scope(SHAPE))


TOTALS = ', totals: {where: \'order == "" and mark[0:3] == "SUM"\', sum: weight}'
MAPPING = f"""\
mapping: orders
version: 1
target: order.delete
source:
  files: "*.csv"
  locale: en_GB
  tables: {{rows: {{ignore_rows: 'note.starts_with("void") or weight < 0'{TOTALS}}}}}
columns:
  order:  {{label: Order, pad_left: {{to: 5, when: 'mark.length == 2 and weight > 1'}}}}
  note:   {{label: Note}}
  weight: {{label: Weight, type: decimal}}
  mark:   {{label: Mark}}
payload:
  order_id: {{expr: 'order ?? "none"'}}
"""


def test_the_options_of_columns_and_tables_take_blanks_as_they_are(tmp_path):
    mapping = load_text(tmp_path, MAPPING)
    rows = [
        ["1", "", "2", "DE"], ["2", "", "", "DE"], ["3", "", "2", ""], ["4", "void", "", ""], ["5", "", "-1", ""],
        ["", "", "4", "SUM 1"],
    ]  # fmt: skip
    found = run(mapping, rows)
    assert [document.key for document in found if not isinstance(document, Ignored)] == ["00001", "2", "3"]
    assert [ignored.row.number for ignored in found if isinstance(ignored, Ignored)] == [5, 6, 7]


def test_the_condition_of_a_padding_that_fails_refuses_its_cell(tmp_path):
    mapping = load_text(tmp_path, MAPPING.replace("weight > 1", "1 / weight > 1").replace(TOTALS, ""))
    refused, fine = documents(mapping, [["1", "", "0", "DE"], ["2", "", "0.5", "DE"]])
    assert (codes(refused), fine.key) == (["G407"], "00002")
    assert refused.problems[0].values["reason"] == "division by zero"


def test_a_condition_that_fails_leaves_no_row_out(tmp_path):
    text = MAPPING.replace("weight < 0", "1 / weight > 1").replace(TOTALS, "")
    found = run(load_text(tmp_path, text), [["1", "", "0", ""], ["2", "", "0.5", ""]])
    assert [document.key for document in found if not isinstance(document, Ignored)] == ["1"]


def test_a_condition_on_cells_has_types_all_the_same(tmp_path):
    said = findings(tmp_path, MAPPING.replace("weight < 0", "note < 0"))
    assert said == [
        (
            'm.yaml:7:61: "note" is text, "0" is a number; < compares values of one type '
            "(write '0' for a text, or give the column note type: decimal, in line 10)"
        )
    ]

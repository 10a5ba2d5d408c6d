"""Amounts whose unit stands in another column (M15): rules about rows see the converted amount, and problems point at both cells."""

from decimal import Decimal

import pytest
from sheets import decode, findings, load_text, of_file, of_text

MAPPING = """\
mapping: units
version: 1
target: order.update
source: {files: "*", locale: de_DE, encoding: utf-8, delimiter: [";"], tables: {rows: {ignore_rows: "weight == 0.5"}}}
columns:
  order: {label: Order, required: true, key: true}
  weight: {label: Gewicht, type: quantity, unit: kg, from_unit: g, unit_column: uom, min: 0.1}
  uom: {label: GEWEI}
payload: {order_id: {col: order}, sender_id: {value: A}, receiver_id: {value: B}, total_weight: {col: weight}}
"""


def totals(found):
    return {
        (record := decode(one.payload))["order_id"]: record["total_weight"] for one in found if hasattr(one, "payload")
    }


def test_each_row_has_its_own_unit(tmp_path):
    found = of_text(
        load_text(tmp_path, MAPPING), tmp_path, "Order;Gewicht;GEWEI\nA;1.250,5;KG\nB;2;TO\nC;700;\nD;500;G\nE;10;LB\n"
    )
    assert totals(found) == {"A": Decimal("1250.5"), "B": 2000, "C": Decimal("0.7"), "E": Decimal("4.5359237")}
    assert [one.rule for one in found if not hasattr(one, "payload")] == ["ignore_rows: weight == 0.5"]  # D, 0.5 kg


def test_numbers_of_a_workbook_take_their_unit_as_well(tmp_path):
    from openpyxl import Workbook

    book = Workbook()
    for row in (["Order", "Gewicht", "GEWEI"], ["A", 1250.5, "g"], ["B", 2, "t"], ["C", 3, "kg"]):
        book.active.append(row)
    book.active["B4"].number_format = '0" kg"'
    book.save(tmp_path / "a.xlsx")
    _, found = of_file(load_text(tmp_path, MAPPING), tmp_path / "a.xlsx")
    assert totals(found) == {"A": Decimal("1.2505"), "B": 2000, "C": 3}


@pytest.mark.parametrize(
    ("cells", "code", "hint"),
    [
        ("12 kg;lb", "C307", "the cell says kg, and the column of its unit says lb"),
        ("12;kgg", "C307", 'the column of its unit says "kgg"; did you mean kg?'),
        ("12;m", "C307", 'the column of its unit says "m"; m means meter, which measures a length, not a weight'),
        ("12,,5;kg", "C302", ""),
        ("50;g", "C305", ""),
    ],
)
def test_what_is_wrong_with_an_amount(tmp_path, cells, code, hint):
    (document,) = of_text(load_text(tmp_path, MAPPING), tmp_path, f"Order;Gewicht;GEWEI\nA;{cells}\n")
    (problem,) = (one for one in document.problems if one.code == code)
    assert hint in (problem.hint or "")
    assert problem.where.column == "Gewicht"
    assert [where.column for where in problem.also] == (["GEWEI"] if code != "C302" else [])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("unit_column: uom", "unit_column: oum", 'there is no other column "oum" here (did you mean uom?)'),
        ("unit_column: uom", "unit_column: weight", 'there is no other column "weight" here'),
        ("label: GEWEI", "label: GEWEI, type: integer", "uom is a number; a unit is a text"),
        ("type: quantity, unit: kg, from_unit: g", "type: decimal", "unit_column does not apply to type decimal"),
    ],
)
def test_what_does_not_fit_is_refused_at_load(tmp_path, old, new, said):
    assert MAPPING.count(old) == 1
    assert any(said in line for line in findings(tmp_path, MAPPING.replace(old, new)))

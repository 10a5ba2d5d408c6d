import pytest

from loadsheet.contract import Fault
from loadsheet.dispatch import settlement
from loadsheet.ledger import Entry, Origin, SourceTable, State
from loadsheet.mapping.documents import Source, SourceRow
from loadsheet.problems import Where

ORDERS = SourceTable("orders", "orders.xlsx", "Aufträge", ("Nr", "PLZ", "Ort"), 1)
PACKAGES = SourceTable("packages", "packages.csv", "", ("Nr", "Gewicht"), 1)
ROWS = (
    SourceRow("orders", 14, ("A-1", "01067", "Dresden")),
    SourceRow("packages", 30, ("A-1", "12,5")),
    SourceRow("packages", 31, ("A-1", "zwölf")),
)
LINEAGE = {
    "pickup_pincode": (Source("orders", "zip", "PLZ", "first"),),
    "packages[].weight": (Source("packages", "weight", "Gewicht", "each"),),
    "total_weight": (Source("packages", "weight", "Gewicht", "all"),),
    "currency": (),
}
ENTRY = Entry(1, 1, "order.create", "A-1", "order:A-1", State.SENDING, "", b"{}", "", ROWS, {}, (), "", 1, "", "")
ORIGIN = Origin({"orders": ORDERS, "packages": PACKAGES}, LINEAGE)


@pytest.mark.parametrize(
    ("path", "where", "found"),
    [
        ("pickup_pincode", Where("orders.xlsx", "Aufträge", 14, "PLZ", "B14", "pickup_pincode"), "01067"),
        ("packages[1].weight", Where("packages.csv", "", 31, "Gewicht", "", "packages[1].weight"), "zwölf"),
        ("total_weight", Where("packages.csv", "", 30, "Gewicht", "", "total_weight"), "12,5"),
        ("currency", Where("orders.xlsx", "Aufträge", 14, path="currency"), ""),
        ("nobody_knows", Where("orders.xlsx", "Aufträge", 14, path="nobody_knows"), ""),
        ("packages[9].weight", Where("orders.xlsx", "Aufträge", 14, path="packages[9].weight"), ""),
        ("", Where("orders.xlsx", "Aufträge", 14), ""),
    ],
)
def test_a_fault_is_placed_on_the_cell_it_comes_from(path, where, found):
    (problem,) = settlement.refusal_problems(ENTRY, ORIGIN, [Fault(path, "is wrong")])
    assert (problem.code, problem.where, problem.found) == ("X701", where, found)
    assert problem.text == f"the exchange refused it: {path}: is wrong".replace(": : ", ": ")


def test_every_fault_is_a_problem():
    faults = [Fault("pickup_pincode", "is short"), Fault("packages[1].weight", "is no number")]
    assert [problem.where.row for problem in settlement.refusal_problems(ENTRY, ORIGIN, faults)] == [14, 31]


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        ("pickup_pincode: is short", [("pickup_pincode", "B14")]),
        ("currency: is wrong; packages[1].weight: is no number", [("currency", ""), ("packages[1].weight", "")]),
        ("The order is delivered", [("", "")]),
        ("The note says: pickup_pincode", [("", "")]),
        ("pickup_pincode: is short; and so on", [("", "")]),
        ("nobody_knows: is wrong", [("", "")]),
    ],
)
def test_fields_that_only_the_text_names_are_found_where_the_mapping_fills_them(text, placed):
    found = settlement.refusal_problems(ENTRY, ORIGIN, [Fault("", text)])
    assert [(problem.where.path, problem.where.cell) for problem in found] == placed
    assert "; ".join(problem.values["text"] for problem in found) == text


def test_an_unknown_outcome_stands_at_the_first_row():
    problem = settlement.unknown_problem(ENTRY, ORIGIN, "no answer")
    assert (problem.code, problem.where) == ("X702", Where("orders.xlsx", "Aufträge", 14))
    assert "no answer" in problem.text

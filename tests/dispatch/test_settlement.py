"""Whom and what a fault means: the record of `data[<index>]`, as far as the answer proves it, and the cell that its path comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import Fault
from loadsheet.dispatch.settlement import assign_faults, refusal_problems, unknown_problem
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


def faults(*indices, path="status_location"):
    return [Fault(path, "is wrong", index) for index in indices]


def never(_position, _path):
    return False


def meant(found):
    return (sorted(found.faults), found.proved)


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ((0,), ([0], True)),
        ((0, 3), ([0, 3], True)),
        ((5,), ([4], True)),
        ((2, 5), ([1, 4], True)),
        ((3,), ([2, 3], False)),
        ((2, 3), ([1, 2, 3], False)),
    ],
)
def test_an_index_at_either_end_proves_where_it_counts_from(indices, expected):
    assert meant(assign_faults(faults(*indices), 5, None, never)) == expected


@pytest.mark.parametrize("indices", [(6,), (0, 5), (None,), (0, None), ()])
def test_an_index_that_cannot_be_names_nobody(indices):
    assert assign_faults(faults(*indices), 5, None, never) is None


@pytest.mark.parametrize(("base", "expected"), [(0, [2]), (1, [1])])
def test_a_base_that_is_known_needs_no_proof_but_may_be_disproved(base, expected):
    assert meant(assign_faults(faults(2), 5, base, never)) == (expected, True)
    assert assign_faults(faults(5 if base == 0 else 0), 5, base, never) is None


@pytest.mark.parametrize(("wrong", "expected"), [({3}, ([3], True)), ({2}, ([2], True)), ({2, 3}, ([2, 3], False))])
def test_a_field_that_breaks_our_own_rules_in_one_of_the_two_is_the_one(wrong, expected):
    assert meant(assign_faults(faults(3), 5, None, lambda position, _: position in wrong)) == expected


@given(st.integers(2, 12), st.sampled_from([0, 1]), st.data())
def test_what_is_proved_is_true_and_who_is_meant_is_always_among_the_suspects(count, base, data):
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    found = assign_faults(faults(*(position + base for position in sorted(bad))), count, None, never)
    assert bad <= set(found.faults)
    if found.proved:
        assert bad == set(found.faults)


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
    (problem,) = refusal_problems(ENTRY, ORIGIN, [Fault(path, "is wrong")])
    assert (problem.code, problem.where, problem.found) == ("X701", where, found)
    assert problem.text == f"the exchange refused it: {path}: is wrong".replace(": : ", ": ")


def test_every_fault_is_a_problem():
    both = [Fault("pickup_pincode", "is short"), Fault("packages[1].weight", "is no number")]
    assert [problem.where.row for problem in refusal_problems(ENTRY, ORIGIN, both)] == [14, 31]


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
    found = refusal_problems(ENTRY, ORIGIN, [Fault("", text)])
    assert [(problem.where.path, problem.where.cell) for problem in found] == placed
    assert "; ".join(problem.values["text"] for problem in found) == text


def test_an_unknown_outcome_stands_at_the_first_row():
    problem = unknown_problem(ENTRY, ORIGIN, "no answer")
    assert (problem.code, problem.where) == ("X702", Where("orders.xlsx", "Aufträge", 14))
    assert "no answer" in problem.text

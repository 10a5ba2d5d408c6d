"""Whom and what a fault means: the record of `data[<index>]`, as far as the answer proves it, and the cell that its path comes from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import Fault
from loadsheet.dispatch.settlement import assign_faults, refusal_problems, unknown_problem
from loadsheet.ledger import Entry, Origin, SourceTable, State
from loadsheet.mapping.documents import NO_LINKS, Source, SourceRow
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
ENTRY = Entry(1, 1, "order.create", "A-1", "order:A-1", State.SENDING, "", b"{}", "", ROWS, NO_LINKS, (), "", 1, "", "")
ORIGIN = Origin({"orders": ORDERS, "packages": PACKAGES}, LINEAGE)


def meant(indices, *, base=None, wrong=(), count=5):
    """The positions that faults with these indices mean, and whether that is proved; None if they mean nobody."""
    faults = [Fault("status_location", "is wrong", index) for index in indices]
    found = assign_faults(faults, count, base, lambda position, _path: position in wrong)
    return found and (sorted(found.faults), found.proved)


@pytest.mark.parametrize(
    ("indices", "more", "expected"),
    [
        ((0,), {}, ([0], True)),  # an index at either end proves where it counts from
        ((0, 3), {}, ([0, 3], True)),
        ((5,), {}, ([4], True)),
        ((2, 5), {}, ([1, 4], True)),
        ((3,), {}, ([2, 3], False)),
        ((2, 3), {}, ([1, 2, 3], False)),
        ((6,), {}, None),  # one that cannot be names nobody
        ((0, 5), {}, None),
        ((None,), {}, None),
        ((0, None), {}, None),
        ((), {}, None),
        ((2,), {"base": 0}, ([2], True)),  # a base that is known needs no proof, but may be disproved
        ((2,), {"base": 1}, ([1], True)),
        ((5,), {"base": 0}, None),
        ((0,), {"base": 1}, None),
        ((3,), {"wrong": {3}}, ([3], True)),  # a field that breaks our own rules in one of the two is the one
        ((3,), {"wrong": {2}}, ([2], True)),
        ((3,), {"wrong": {2, 3}}, ([2, 3], False)),
    ],
)
def test_an_index_means_the_records_that_it_can_mean_and_one_where_that_is_proved(indices, more, expected):
    assert meant(indices, **more) == expected


@given(st.integers(2, 12), st.sampled_from([0, 1]), st.data())
def test_what_is_proved_is_true_and_who_is_meant_is_always_among_the_suspects(count, base, data):
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    suspects, proved = meant([position + base for position in sorted(bad)], count=count)
    assert bad <= set(suspects)
    assert not proved or bad == set(suspects)


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
    problem, other = refusal_problems(ENTRY, ORIGIN, [Fault(path, "is wrong"), Fault("packages[1].weight", "is none")])
    assert (problem.code, problem.where, problem.found) == ("X701", where, found)
    assert problem.text == f"the exchange refused it: {path}: is wrong".replace(": : ", ": ")
    assert other.where.row == 31, "every fault is a problem"


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

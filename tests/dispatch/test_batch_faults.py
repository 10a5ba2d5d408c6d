"""Whom data[<index>] means: what the answer proves, and what it leaves open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import Fault
from loadsheet.dispatch.settlement import assign_faults


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

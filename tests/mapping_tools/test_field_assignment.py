"""The assignment of columns to fields has the highest sum of scores."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from loadsheet.mapping_tools.field_matching import best_pairs

SCORES = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(10, 13)), st.integers(1, 100).map(lambda number: number / 64), max_size=12
)


@given(scores=SCORES)
def test_no_other_assignment_has_a_higher_sum(scores):
    """In: scores of up to four columns for up to four fields. Out: pairs that have scores, each side once, with the sum of the best try."""
    pairs = best_pairs(scores)
    assert len(set(pairs.values())) == len(pairs)
    goals = [*range(10, 14), *[None] * 4]
    best = max(sum(scores.get(pair, 0) for pair in enumerate(chosen)) for chosen in set(permutations(goals, 4)))
    assert sum(scores[pair] for pair in pairs.items()) == best


def test_a_column_gives_way_where_another_has_no_choice():
    assert best_pairs({(0, 0): 1.0, (0, 1): 0.75, (1, 0): 0.5}) == {0: 1, 1: 0}

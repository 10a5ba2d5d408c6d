import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import BY_NAME, Difference
from loadsheet.ledger import State
from loadsheet.reconcile import Match, Verdict
from loadsheet.reconcile.verdicts import Matches

differences = st.lists(st.builds(Difference, st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)), max_size=3)
found = st.lists(
    st.builds(
        Match,
        st.integers(1, 2**40),
        st.sampled_from(sorted(BY_NAME)),
        st.sampled_from(State),
        st.sampled_from(Verdict),
        differences.map(tuple),
        differences.map(tuple),
    ),
    unique_by=lambda match: match.entry,
    max_size=6,
)


def kept(matches):
    held = Matches()
    for match in matches:
        held.add(match)
    return held


@given(found, st.randoms(use_true_random=False))
def test_what_is_kept_comes_back_in_any_order_and_is_counted(matches, random):
    held = kept(matches)
    assert list(held.values()) == matches
    for match in random.sample(matches, len(matches)):
        assert held[match.entry] == match
    assert len(held) == len(matches)
    for verdict in Verdict:
        assert held.verdicts()[verdict] == sum(match.verdict is verdict for match in matches)
    for state in State:
        assert held.states()[state] == sum(match.state is state for match in matches)


@pytest.mark.parametrize("entries", [(), (1, 3), (3, 1)])
def test_an_entry_without_a_match_is_a_key_error(entries):
    held = kept([Match(entry, "order.create", State.READY, Verdict.WAITING) for entry in entries])
    with pytest.raises(KeyError):
        held[2]
    assert 2 not in held

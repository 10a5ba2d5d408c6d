"""However often the ledger goes while a drop is sent, by one or by several: no order is sent again that may be there, and none is lost."""

import pytest
from sending_faults import storm

SEEDS, SWEPT = (1, 3), 29


def check(ended):
    """What must hold in the end."""
    assert ended.faults == []
    for key, state, outcomes in ended.entries:
        told, arrived = (key, state, outcomes, ended.arrived[key]), ended.arrived[key]
        may_be_there = "unknown" in outcomes
        assert state in ("accepted", "unknown", "ready"), (
            told
        )  # never refused for being there already, never left as being sent
        assert arrived <= 1, told
        assert arrived == 1 or state != "accepted", told
        assert state != "ready" or not arrived or may_be_there, told
        assert state != "unknown" or may_be_there, told


@pytest.mark.parametrize("seed", SEEDS)
def test_no_order_is_sent_twice_and_none_is_lost(seed, monkeypatch):
    check(storm(seed, monkeypatch))


@pytest.mark.sweep
@pytest.mark.timeout(1500)
def test_many_storms(record_property):
    seeds = sorted(set(range(SWEPT)) - set(SEEDS))
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patch:
            check(storm(seed, patch))
    record_property("storms", len(seeds))

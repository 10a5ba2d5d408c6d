"""A run killed at any effect on a file or a connection loses nothing, and doubles nothing that it does not name."""

import pytest
from effects import CHANGE, EVERY, NETWORK, SYNC, Trap, every
from killed_runs import SCENARIOS, effects_of, kill_once, prepare, try_all

ALL = CHANGE | SYNC | NETWORK
STEPS = {"sent again": 32, "tender with quotes": 16}  # runs of the one wait for each other, the other has most effects
KILLED_AT = {"new orders": 7, "status batches": 5, "unknown outcomes": 13, "one file for two mappings": 9}
"""Network effects in the middle of a night. The sweep tries all effects of all nights."""


@pytest.mark.journey
@pytest.mark.parametrize("name", KILLED_AT)
def test_a_killed_night_is_finished_by_the_next(shop, tmp_path, name):
    prepared = prepare(shop, SCENARIOS[name], tmp_path / "prepared")
    trap = Trap(KILLED_AT[name], NETWORK)
    (sprung,) = kill_once(shop, prepared, tmp_path / "killed", trap, looks_again=name == "new orders")
    assert sprung.code == -9


@pytest.mark.sweep
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_before_every_effect(library, shop, tmp_path, name, record_property):
    """Before each change of a file, each sync and each network effect; after each sync and each network effect as well."""
    prepared = prepare(shop, SCENARIOS[name], tmp_path / "prepared")
    before = effects_of(shop, prepared, tmp_path / "count", ALL)
    after = effects_of(shop, prepared, tmp_path / "count", SYNC | NETWORK)
    step = 1 if EVERY == 1 else STEPS.get(name, 12)  # CI has its limits; the rest comes on other days
    traps = [(Trap(at, ALL),) for at in every(before, step)]
    traps += [(Trap(at, SYNC | NETWORK, after=True),) for at in every(after, max(step // 2, 1))]
    kills = [done for done in try_all(library, prepared, tmp_path, traps) if done.code == -9]
    assert len(kills) > 0.9 * len(traps)
    record_property("kills", len(kills))


@pytest.mark.sweep
@pytest.mark.timeout(2400)
def test_killed_again_while_it_recovers(library, shop, tmp_path, record_property):
    prepared = prepare(shop, SCENARIOS["new orders"], tmp_path / "prepared")
    count = effects_of(shop, prepared, tmp_path / "count", ALL)
    again = range(1, 131) if EVERY == 1 else every(130, 5 * EVERY // 2)
    traps = [(Trap(at, ALL), Trap(then, ALL)) for at in every(count, 6 * EVERY) for then in again]
    kills = [done for done in try_all(library, prepared, tmp_path, traps) if done.code == -9]
    record_property("kills", len(kills))

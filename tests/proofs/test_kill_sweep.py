"""A run killed at any effect on a file or a connection loses nothing, and doubles nothing that it does not name."""

import queue
import threading

import pytest
from effects import CHANGE, EVERY, NETWORK, SYNC, Trap, Workshop, preload
from killing import SCENARIOS, kill_once, prepare

ALL = CHANGE | SYNC | NETWORK
STEPS = {"sent again": 8, "tender with quotes": 4}  # runs of the one wait for each other, the other has most effects


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return preload(tmp_path_factory.mktemp("effects"))


def effects_of(shop, prepared, place, kinds):
    """How many effects an undisturbed night has."""
    return kill_once(shop, prepared, place, Trap(0, kinds))[0].seen


@pytest.mark.timeout(170)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_killed_night_is_finished_by_the_next(library, tmp_path, name):
    with Workshop(library, "nightwork") as shop:
        prepared = prepare(shop, SCENARIOS[name], tmp_path / "prepared")
        network = effects_of(shop, prepared, tmp_path / "count", NETWORK)
        for at in (network // 3, 2 * network // 3):
            (sprung,) = kill_once(shop, prepared, tmp_path / "killed", Trap(at, NETWORK))
            assert sprung.code == -9


@pytest.mark.sweep
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", SCENARIOS)
def test_killed_before_every_effect(library, tmp_path, name, record_property):
    """Before each change of a file, each sync and each network effect; after each sync and each network effect as well."""
    with Workshop(library, "nightwork") as shop:
        prepared = prepare(shop, SCENARIOS[name], tmp_path / "prepared")
        count = {kinds: effects_of(shop, prepared, tmp_path / "count", kinds) for kinds in (ALL, SYNC | NETWORK)}
    step = 1 if EVERY == 1 else STEPS.get(name, 3)  # CI has its limits
    traps = [(Trap(at, ALL),) for at in range(1, count[ALL] + 1, step)]
    traps += [(Trap(at, SYNC | NETWORK, after=True),) for at in range(1, count[SYNC | NETWORK] + 1, max(step // 2, 1))]
    kills = sweep(library, prepared, tmp_path, traps)
    assert kills > 0.9 * len(traps)
    record_property("kills", kills)


@pytest.mark.sweep
@pytest.mark.timeout(2400)
def test_killed_again_while_it_recovers(library, tmp_path, record_property):
    with Workshop(library, "nightwork") as shop:
        prepared = prepare(shop, SCENARIOS["new orders"], tmp_path / "prepared")
        count = effects_of(shop, prepared, tmp_path / "count", ALL)
    traps = [
        (Trap(at, ALL), Trap(then, ALL)) for at in range(20, count, 5 * EVERY) for then in range(3, 130, 4 * EVERY)
    ]
    kills = sweep(library, prepared, tmp_path, traps)
    record_property("kills", kills)


def sweep(library, prepared, place, all_traps):
    """Try each, two at a time; how many kills there were. The first law that is broken ends it, and names its traps."""
    waiting, kills, broken = queue.SimpleQueue(), [], []
    for traps in all_traps:
        waiting.put(traps)

    def work(number):
        with Workshop(library, "nightwork") as shop:
            while not broken:
                try:
                    traps = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    sprung = kill_once(shop, prepared, place / f"killed {number}", *traps)
                    kills.extend(done for done in sprung if done.code == -9)
                except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
                    broken.append((traps, error))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for traps, error in broken:
        raise AssertionError(f"killed at {traps}") from error
    return len(kills)

"""A disk that fails or is full at any write or sync of a run, once or from there on: nothing is lost, nothing doubled that is not named.

The failed run may end as it likes, but it says so if it did not do its work; the next ones, on a sound disk, finish it (reliability: L4, L5, L6).
"""

import errno
import queue
import threading

import pytest
from effects import CHANGE, EVERY, SYNC, Trap, Workshop, preload
from killing import SCENARIOS, kill_once, prepare

WRITES = CHANGE | SYNC
FAILURES = {"no space": (errno.ENOSPC, CHANGE), "a bad disk": (errno.EIO, WRITES), "a failed sync": (errno.EIO, SYNC)}
PERSISTENT_EVERY = 3


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return preload(tmp_path_factory.mktemp("effects"))


def effects_of(shop, prepared, place, kinds):
    """How many such effects an undisturbed night has."""
    return kill_once(shop, prepared, place, Trap(0, kinds))[0].seen


def fail_once(shop, prepared, place, trap):
    """The failed run, then quiet ones, and every law; how the failed one ended."""
    (done,) = kill_once(shop, prepared, place, trap)
    assert done.code >= 0, done
    assert "a fault of our own" not in done.said, done.said
    return done


@pytest.mark.timeout(170)
def test_a_failing_disk_loses_nothing(library, tmp_path):
    """In the middle of a run, once and from there on."""
    with Workshop(library, "nightwork") as shop:
        prepared = prepare(shop, SCENARIOS["new orders"], tmp_path / "prepared")
        for number, kinds in FAILURES.values():
            at = effects_of(shop, prepared, tmp_path / "count", kinds) // 2
            fail_once(shop, prepared, tmp_path / "failed", Trap(at, kinds, error=number))
            done = fail_once(shop, prepared, tmp_path / "failed", Trap(at, kinds, error=-number))
            assert done.code, "a disk that stays bad is told"


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FAILURES)
def test_failing_at_every_write(library, tmp_path, name, record_property):
    """At every write or sync of the run once, and from every third on for good."""
    number, kinds = FAILURES[name]
    with Workshop(library, "nightwork") as shop:
        prepared = prepare(shop, SCENARIOS["new orders"], tmp_path / "prepared")
        count = effects_of(shop, prepared, tmp_path / "count", kinds)
    traps = [Trap(at, kinds, error=number) for at in range(1, count + 1, EVERY)]
    traps += [Trap(at, kinds, error=-number) for at in range(2, count + 1, PERSISTENT_EVERY * EVERY)]
    codes = sweep(library, prepared, tmp_path, traps)
    record_property("failures of the disk", len(codes))
    record_property("of them told", sum(map(bool, codes)))


def sweep(library, prepared, place, all_traps):
    """Try each, two at a time; how the failed runs ended. Every law that is broken is named with its trap."""
    waiting, codes, broken = queue.SimpleQueue(), [], []
    for trap in all_traps:
        waiting.put(trap)

    def work(number):
        with Workshop(library, "nightwork") as shop:
            while len(broken) < 5:
                try:
                    trap = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    codes.append(fail_once(shop, prepared, place / f"failed {number}", trap).code)
                except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
                    broken.append((trap, error))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for _, error in broken:
        raise AssertionError(f"failed at {[one for one, _ in broken]}") from error
    return codes

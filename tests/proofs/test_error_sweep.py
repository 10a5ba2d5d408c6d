"""A disk that fails or is full at any write or sync of a run, once or from there on: nothing is lost, nothing doubled that is not named.

The failed run may end as it likes, but it says so if it did not do its work; the next ones, on a sound disk, finish it (reliability: L4, L5, L6).
"""

import errno

import pytest
from effects import CHANGE, EVERY, SYNC, Trap, every
from killed_runs import SCENARIOS, effects_of, kill_once, prepare, try_all

WRITES = CHANGE | SYNC
FAILURES = {"no space": (errno.ENOSPC, CHANGE), "a bad disk": (errno.EIO, WRITES), "a failed sync": (errno.EIO, SYNC)}
PERSISTENT_EVERY = 3


@pytest.mark.parametrize(
    ("name", "sign", "at"), [("no space", -1, 90), ("a bad disk", 1, 100), ("a failed sync", -1, 12)]
)
def test_a_failing_disk_loses_nothing(shop, tmp_path, name, sign, at):
    """In the middle of a run, once or from there on."""
    number, kinds = FAILURES[name]
    prepared = prepare(shop, SCENARIOS["new orders"], tmp_path / "prepared")
    (done,) = kill_once(shop, prepared, tmp_path / "failed", Trap(at, kinds, error=sign * number), looks_again=False)
    check_ending(done)
    assert done.seen >= at, "it failed"
    assert done.code or sign > 0, "a disk that stays bad is told"


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FAILURES)
def test_failing_at_every_write(library, shop, tmp_path, name, record_property):
    """At every write or sync of the run once, and from every third on for good."""
    number, kinds = FAILURES[name]
    prepared = prepare(shop, SCENARIOS["new orders"], tmp_path / "prepared")
    count = effects_of(shop, prepared, tmp_path / "count", kinds)
    traps = [(Trap(at, kinds, error=number),) for at in every(count, EVERY)]
    traps += [(Trap(at, kinds, error=-number),) for at in every(count, PERSISTENT_EVERY * EVERY)]
    ended = try_all(library, prepared, tmp_path, traps)
    for done in ended:
        check_ending(done)
    record_property("failures of the disk", len(ended))
    record_property("of them told", sum(bool(done.code) for done in ended))


def check_ending(done):
    """A run whose disk failed ends by itself, and not by an internal error."""
    assert done.code >= 0, done
    assert "an internal error" not in done.said, done.said

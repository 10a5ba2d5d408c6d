"""A simulated fleet of fifty workers keeps the invariants, whatever is killed, paused, taken over, lost or late; and each guard is needed.

The protocol's own code runs on a virtual clock (see `simulated_fleet`), in threads that take turns: a seed repeats exactly. What has to be
true stands in `simulated_judge`.
"""

import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest
import simulated_fleet
import simulated_nights
from simulated_fleet import Database, simulated
from simulated_nights import simulate
from sqlalchemy import bindparam, false

from loadsheet.dispatch import underway
from loadsheet.ledger import Settlement, State, batches, late, leaving
from loadsheet.ledger.fences import Fence
from loadsheet.ledger.schema import entries

SEEDS = 5
SWEPT, PARTS = 500, 4
TRIED = 60
"""So many seeds at most until something goes wrong without a guard: nearly always the first one does."""
_MEMORY = Path("/dev/shm")


@pytest.fixture
def database(monkeypatch):
    folder = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
    found = Database(folder)
    with simulated(found, monkeypatch):
        yield found
    found.close()
    shutil.rmtree(folder)


def test_no_seed_loses_or_doubles(database):
    told = [asdict(simulate(database, f"fleet {seed}")) for seed in range(SEEDS)]
    assert never_happened(told) <= {"late"}, "a late effect is rare"


def never_happened(told):
    """The faults that none of these seeds has."""
    return {name for name in told[0] if not any(one[name] for one in told)}


def test_a_seed_repeats_exactly(database):
    assert simulate(database, "again") == simulate(database, "again")


@pytest.mark.sweep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_five_hundred_seeds(database, record_property, part):
    told = [asdict(simulate(database, f"fleet {seed}")) for seed in range(part, SWEPT, PARTS)]
    assert not never_happened(told)
    record_property("seeds", len(told))
    for name in told[0]:
        record_property(name, sum(one[name] for one in told))


def _unfenced(patch):
    patch.setattr(Fence, "check", lambda *_: None)


def _any_attempt(patch):
    patch.setattr(late, "_counts", lambda _one, now: now.state in (State.SENDING, State.UNKNOWN))


def _no_self_check(patch):
    patch.setattr(underway, "SELF_CHECK_S", 1e9)


def _lanes_are_free(patch):
    patch.setattr(leaving, "_busy", false())
    mine = leaving._ready_queries(entries.c.batch_id == bindparam("batch"), ~leaving._ahead_elsewhere)
    patch.setattr(leaving, "_READY_IN_BATCH", mine)


def _nothing_is_ahead(patch):
    patch.setattr(leaving, "_READY_IN_BATCH", leaving._ready_queries(entries.c.batch_id == bindparam("batch")))


def _taken_over_is_ready(patch):
    patch.setattr(batches, "_taken_over", lambda entry: Settlement(entry, State.READY, "sent again"))


def _leases_add_up(patch):
    grant = simulated_fleet.grant
    patch.setattr(simulated_fleet, "grant", lambda terms, _others, *more: grant(terms, [], *more))


def _no_pause(patch):
    settings_of = simulated_nights.settings_of
    none = {"quiesce_s": 0.0, "confirm_gap_s": 0.0, "status_quiesce_s": 0.0}
    patch.setattr(simulated_nights, "settings_of", lambda rng: settings_of(rng).model_copy(update=none))


PAUSED = {"pause": 0.05, "misjudged": 0.3}
GUARDS = {
    "a change is fenced": (_unfenced, PAUSED),
    "a late outcome is of the last attempt": (_any_attempt, PAUSED),
    "a call whose intent is old does not leave": (_no_self_check, PAUSED),
    "nothing leaves on a lane that is busy": (_lanes_are_free, {"lost": 0.3, "misjudged": 0.3}),
    "what was taken over is unknown": (_taken_over_is_ready, PAUSED),
    "leases never add up to more": (_leases_add_up, {}),
    "what is unknown waits": (_no_pause, {"late": 0.3}),
    "the order across batches": (_nothing_is_ahead, {"misjudged": 0.3, "twice": 0.3}),
}


@pytest.mark.parametrize("guard", GUARDS)
def test_each_guard_is_needed(database, monkeypatch, guard):
    remove, faults = GUARDS[guard]
    remove(monkeypatch)
    with pytest.raises(AssertionError):
        all(simulate(database, f"without {seed}", **faults) for seed in range(TRIED))

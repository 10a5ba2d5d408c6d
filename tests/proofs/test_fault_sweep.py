"""Every way to misbehave, at every place of every write operation: nothing lost, nothing doubled, and every doubt named."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from fault_rules import FaultClass, Happens
from fault_runs import Case, cases, left_over, play

from loadsheet.contract import WRITES

OPERATIONS = [operation.name for operation in WRITES]
AT_ONCE = 4  # most of the time is waiting
A_FEW = [
    (FaultClass.RESET_AFTER_EFFECT, "middle"),
    (FaultClass.NO_ANSWER, "first"),
    (FaultClass.STATUS_FALSE, "last"),
    (FaultClass.CLOSED_BEFORE_EFFECT, "twice"),
]


@pytest.mark.parametrize(
    ("operation", "fault", "position"), [(name, *A_FEW[place % 4]) for place, name in enumerate(OPERATIONS)]
)
def test_a_misbehaving_exchange_breaks_no_law(tmp_path, operation, fault, position):
    play(Case(fault, 0, operation, position), tmp_path)
    left_over(tmp_path)


@pytest.mark.parametrize("operation", ["tender.create", "order.update"])
def test_a_lost_answer_is_found_in_the_listing_the_same_night(tmp_path, operation):
    play(Case(FaultClass.RESET_AFTER_EFFECT, 0, operation, "middle"), tmp_path, call_timeout_s=30.0)
    assert set(left_over(tmp_path)) == {"accepted"}


@pytest.mark.sweep
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_class_of_misbehaviour_at_every_place(tmp_path, operation, record_property):
    tried = cases(operation)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(try_one, case, tmp_path / str(number)) for number, case in enumerate(tried)]:
            done.result()
    record_property("faults", len(tried))


def try_one(case, folder):
    folder.mkdir()
    try:
        play(case, folder)
        found = left_over(folder)
        if case.fault.happens is Happens.NEVER and not found.get("unknown"):
            assert found.get("accepted", 0) >= 1, found
    except AssertionError as broken:
        raise AssertionError(f"{case}: {broken}") from broken

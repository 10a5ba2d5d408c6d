"""What batches translated is kept until it is planned: in order, whole, guarded by the batch's fence, and gone when it is planned."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledgers import document, drop_of, order, plan
from sqlalchemy import func, select

from loadsheet.ledger.batches import Kind
from loadsheet.ledger.schema import staged
from loadsheet.problems import DoesNotBalance, Superseded

DROP = drop_of(("orders", "orders.csv"))
ONE = document("order.create", order(1), [("orders", 2, ("1",))])


def handed_out(ledger, run, count):
    return [ledger.batches.hand_out(run, Kind.TRANSLATION, {"part": number}) for number in range(count)]


def left(ledger):
    with ledger.history._engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(staged))


def numbers_to_chunks(numbers):
    return [(number, b"%d" % number * (number % 40)) for number in sorted(numbers)]


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sets(st.integers(0, 400), max_size=90), min_size=1, max_size=4))
def test_the_chunks_of_several_batches_come_in_the_order_of_their_numbers(ledger, parts):
    parts = _disjoint(parts)
    run = ledger.begin_run()
    batches = handed_out(ledger, run, len(parts))
    for batch, numbers in zip(batches, parts, strict=True):
        assert ledger.staging.put(batch, numbers_to_chunks(numbers)) == len(numbers)
    expected = [content for _, content in numbers_to_chunks(set().union(*parts))]
    assert list(ledger.staging.of(batches)) == expected
    assert list(ledger.staging.of(reversed(batches))) == expected
    assert list(ledger.staging.of([])) == []


def _disjoint(parts):
    seen, found = set(), []
    for part in parts:
        found.append(part - seen)
        seen |= part
    return found


def test_chunks_may_be_large_and_of_any_bytes(ledger):
    run = ledger.begin_run()
    (batch,) = handed_out(ledger, run, 1)
    content = bytes(range(256)) * 8_000
    ledger.staging.put(batch, [(0, content), (1, b"")])
    assert list(ledger.staging.of([batch])) == [content, b""]


def test_a_batch_that_is_taken_again_puts_its_chunks_in_the_place_of_the_former_ones(ledger):
    run = ledger.begin_run()
    (batch,) = handed_out(ledger, run, 1)
    first = ledger.batches.take(batch, "one")
    ledger.for_batch(first).staging.put(batch, [(0, b"half"), (7, b"old")])
    second = ledger.batches.take(batch, "two")
    ledger.for_batch(second).staging.put(batch, [(0, b"new")])
    assert list(ledger.staging.of([batch])) == [b"new"]


def test_who_was_taken_over_stages_no_more(ledger):
    run = ledger.begin_run()
    (batch,) = handed_out(ledger, run, 1)
    slow = ledger.for_batch(ledger.batches.take(batch, "slow"))

    def chunks():
        for number in range(30):
            if number == 25:  # while it translates, after some was put
                ledger.for_batch(ledger.batches.take(batch, "heir")).staging.put(batch, [(0, b"heir")])
            yield number, b"slow"

    with pytest.raises(Superseded):
        slow.staging.put(batch, chunks())
    with pytest.raises(Superseded):
        slow.staging.put(batch, [])
    assert list(ledger.staging.of([batch])) == [b"heir"]


def test_what_was_planned_is_gone_with_the_plan_and_nothing_else(ledger):
    run = ledger.begin_run()
    planned, other = handed_out(ledger, run, 2)
    ledger.staging.put(planned, [(0, b"a")])
    ledger.staging.put(other, [(0, b"b")])
    plan(ledger, run, DROP, [ONE], staged=[planned])
    assert list(ledger.staging.of([planned, other])) == [b"b"]


def test_what_could_not_be_planned_stays(ledger):
    run = ledger.begin_run()
    (batch,) = handed_out(ledger, run, 1)
    ledger.staging.put(batch, [(0, b"a")])
    with pytest.raises(DoesNotBalance):
        ledger.plan(run, DROP, {}, [ONE], lambda: {"orders": 5}, staged=[batch])
    assert list(ledger.staging.of([batch])) == [b"a"]


def test_a_run_begins_with_nothing_staged(ledger):
    run = ledger.begin_run()
    (batch,) = handed_out(ledger, run, 1)
    ledger.staging.put(batch, [(0, b"a")])
    ledger.begin_run()
    assert left(ledger) == 0

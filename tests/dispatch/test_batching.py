from collections import defaultdict

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import BY_NAME
from loadsheet.dispatch.batching import build_calls
from loadsheet.ledger import Submission

OPERATIONS = ["order.create", "order.update", "order.status", "order.delete", "tender.create"]
waiting = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 4)), max_size=30)


def submissions(drawn):
    return [
        Submission(identity, 1, name, f"k{number}", f"{BY_NAME[name].subject}:k{number}", b'{"n":%d}' % identity, 0)
        for identity, (name, number) in enumerate(drawn, start=1)
    ]


def lanes_of(call):
    return {submission.lane for submission in call.submissions}


@given(waiting, st.integers(1, 5), st.sets(st.integers(1, 30)))
def test_calls_that_may_leave_together_share_no_lane_and_overtake_nothing(drawn, batch_max, alone):
    ready = submissions(drawn)
    calls = build_calls(ready, batch_max, dict.fromkeys(alone, 1))
    seen = [lane for call in calls for lane in lanes_of(call)]
    assert len(seen) == len(set(seen))
    for call in calls:
        assert len({submission.operation for submission in call.submissions}) == 1
        assert len(call.submissions) <= (batch_max if call.operation.batched else 1)
        if len(call.submissions) > 1:
            assert not alone & {submission.id for submission in call.submissions}
    by_lane = defaultdict(list)
    for submission in ready:
        by_lane[submission.lane].append(submission.id)
    sent = defaultdict(list)
    for call in calls:
        for submission in call.submissions:
            sent[submission.lane].append(submission.id)
    for lane, ids in by_lane.items():
        assert sent[lane] == ids[: len(sent[lane])]
        assert sent[lane], "the first of each lane may leave, so sending never stands still"


@given(waiting, st.integers(1, 5))
def test_looking_again_and_again_sends_everything_in_the_order_of_its_lane(drawn, batch_max):
    ready = submissions(drawn)
    order = defaultdict(list)
    while ready:
        done = set()
        for call in build_calls(ready, batch_max):
            done.update(submission.id for submission in call.submissions)
            for submission in call.submissions:
                order[submission.lane].append(submission.id)
        ready = [submission for submission in ready if submission.id not in done]
    assert all(ids == sorted(ids) for ids in order.values())
    assert sum(len(ids) for ids in order.values()) == len(drawn)


def test_a_batch_carries_its_records_in_their_order():
    (call,) = build_calls(submissions([("order.status", 1), ("order.status", 2), ("order.status", 1)]), 10)
    assert call.body == b'{"data":[{"n":1},{"n":2},{"n":3}]}'
    assert msgspec.json.decode(call.body)["data"] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert call.keys == ["k1", "k2", "k1"]


def test_a_single_call_carries_the_payload_as_it_is():
    (call,) = build_calls(submissions([("order.create", 1)]), 10)
    assert call.body == b'{"n":1}'


def test_a_mapping_may_wish_for_smaller_batches_than_the_exchange_takes():
    few = [Submission(i, 1, "order.status", f"k{i}", f"order:k{i}", b"{}", 0, 2) for i in range(5)]
    many = [Submission(i, 2, "order.status", f"k{i}", f"order:k{i}", b"{}", 0) for i in range(5, 10)]
    assert [len(call.submissions) for call in build_calls([*few, *many], 4)] == [2, 2, 1, 4, 1]

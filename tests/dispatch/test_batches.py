"""Batches: which entries share a call, and what a refusal that names data[<index>] means for each row, under every assumption."""

from collections import Counter, defaultdict

import msgspec
import pytest
import ready_entries
import scripted_exchange
from exchange_calls import TOKEN as EXCHANGE_TOKEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from invariants import read_truth
from scripted_exchange import Move, accepts, answer, says

from loadsheet.contract import BY_NAME, Assumptions, Fault, refusal
from loadsheet.dispatch.batching import build_calls
from loadsheet.dispatch.settlement import BatchRules
from loadsheet.exchange import serve_embedded
from loadsheet.ledger import Submission, open_ledger

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


def test_a_batch_is_no_larger_than_the_body_that_the_exchange_takes_and_a_large_record_goes_alone():
    records = [b'"%s"' % (b"x" * length) for length in (500, 500, 500, 5000, 500)]
    ready = [Submission(i, 1, "order.status", f"k{i}", f"order:k{i}", record, 0) for i, record in enumerate(records)]
    calls = build_calls(ready, 200, bytes_max=1200)
    assert [call.keys for call in calls] == [["k0", "k1"], ["k2"], ["k3"], ["k4"]]
    assert [len(call.body) <= 1200 for call in calls] == [True, True, False, True]


STATUS = BY_NAME["order.status"]


class Judging:
    """An exchange that refuses records at stops that end in 7, naming them as its assumptions say."""

    def __init__(self, base=0, on_400="atomic", shift=0):
        self.base, self.partial, self.shift = base, on_400 == "partial", shift
        self.applied = Counter()
        self.sizes = []

    def __call__(self, _number, _request):
        return Move(self._act)

    def _act(self, connection, request):
        stops = [payload["status_location"] for payload in request.payloads]
        bad = [index for index, stop in enumerate(stops) if stop.endswith("7")]
        self.sizes.append(len(stops))
        if not bad:
            self.applied.update(stops)
            return accepts.act(connection, request)
        if self.partial:
            self.applied.update(stop for stop in stops if not stop.endswith("7"))
        faults = [Fault("status_location", "is unlucky", index + self.shift) for index in bad]
        connection.sendall(answer(400, refusal(STATUS, faults, index_base=self.base)))
        return True


def options(base=0, on_400="atomic", size=20, **more):
    return ready_entries.settings(
        exchange="https://exchange.example",
        assumptions={"status_index_base": base, "status_on_400": on_400, "status_records_max": size},
        **more,
    )


def outcome_of(ledger, drop):
    return {f"stop {number}": entry for number, entry in enumerate(ledger.queries.entries_of(drop.id))}


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("on_400", ["atomic", "partial"])
@pytest.mark.parametrize("orders", [50, 7])
def test_a_named_record_is_refused_and_the_others_are_applied_once(ledger, base, on_400, orders):
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 50, orders=orders)
    exchange = Judging(base, on_400)
    report, _ = ready_entries.send_to(exchange, ledger, run, options(base, on_400))
    entries = outcome_of(ledger, drop)
    for stop, entry in entries.items():
        unlucky = stop.endswith("7")
        assert str(entry.state) == ("refused" if unlucky else "accepted")
        assert exchange.applied[stop] == (0 if unlucky else 1)
    assert (report.refused, report.accepted) == (5, 45)
    refused = entries["stop 17"]
    (problem,) = refused.problems
    assert (problem.code, problem.where.row, problem.where.file) == ("X701", 19, "events.csv")
    assert "status_location: is unlucky" in problem.text
    assert refused.reason == "status_location: is unlucky"


def test_the_exchange_of_this_house_is_understood_either_way(ledger, tmp_path):
    run, _ = ready_entries.new_orders(ledger, 10)
    for base, on_400 in ((0, "atomic"), (1, "atomic"), (0, "partial"), (1, "partial")):
        given_to_both = options(base, on_400)
        payloads = [
            {"order_id": f"A-{number % 12:05}", "status_code": "PU", "status_location": f"{base}{on_400}{number}"}
            for number in range(36)
        ]
        drop = ready_entries.plan(ledger, run, "order.status", payloads, file=f"{base}{on_400}.csv")
        database = f"sqlite:///{tmp_path / 'exchange.db'}"
        with serve_embedded(database, EXCHANGE_TOKEN, given_to_both.assumptions) as url:
            ready_entries.send_all(ledger, run, url, given_to_both, token=EXCHANGE_TOKEN)
        states = ready_entries.states(ledger, drop)
        assert [states[number] for number in range(36)] == [
            "refused" if number % 12 >= 10 else "accepted" for number in range(36)
        ]


@pytest.mark.parametrize(
    "exchange",
    [Judging(shift=100), Judging(base=1)],
    ids=["out of range", "the other base"],
)
def test_an_index_that_names_nobody_splits_the_batch(ledger, exchange):
    run = ledger.begin_run()
    payloads = [{"order_id": f"A-{n:05}", "status_location": f"stop {n}"} for n in (7, 1, 2, 3, 17)]
    drop = ready_entries.plan(ledger, run, "order.status", payloads)
    ready_entries.send_to(exchange, ledger, run, options(size=5))
    assert ready_entries.states(ledger, drop) == ["refused", "accepted", "accepted", "accepted", "refused"]
    assert exchange.sizes[0] == 5
    assert exchange.sizes.count(5) == 1
    assert max(exchange.sizes[1:]) <= 3, "it is halved until it is clear"
    assert max(exchange.applied.values()) == 1


VAGUE = {
    "a field of the body": says(400, refusal(STATUS, [Fault("data", "must be an array")])),
    "no field at all": says(400, {"results": [], "status": False, "message": "no", "errors": {}}),
    "a page of a proxy": says(400, b"<html>Bad request</html>"),
}


class Vague(Judging):
    """Refuses batches that hold a record it does not like, in words that name nobody."""

    def __init__(self, said, on_400="atomic"):
        super().__init__(on_400=on_400)
        self.said = said

    def _act(self, connection, request):
        stops = [payload["status_location"] for payload in request.payloads]
        self.sizes.append(len(stops))
        bad = [stop for stop in stops if stop.endswith("7")]
        if not bad or self.partial:
            self.applied.update(stop for stop in stops if stop not in bad)
        return self.said.act(connection, request) if bad else accepts.act(connection, request)


@pytest.mark.parametrize("name", VAGUE)
def test_a_refusal_that_names_no_record_halves_the_batch_if_nothing_was_applied(ledger, name):
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 64)
    exchange = Vague(VAGUE[name])
    ready_entries.send_to(exchange, ledger, run, options(connections=1, size=64))
    states = ready_entries.states(ledger, drop)
    assert {number for number, state in enumerate(states) if state == "refused"} == {7, 17, 27, 37, 47, 57}
    assert max(exchange.applied.values()) == 1
    assert exchange.applied.total() == states.count("accepted") == 58
    assert len(exchange.sizes) < 64, "fewer calls than one for each record"


@pytest.mark.parametrize("name", VAGUE)
def test_it_leaves_the_whole_batch_unknown_if_others_may_have_been_applied(ledger, name):
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 6)
    _, server = ready_entries.send_to(VAGUE[name], ledger, run, options(on_400="partial"))
    assert ready_entries.states(ledger, drop) == ["unknown"] * 6
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", VAGUE)
def test_where_others_may_have_been_applied_or_not_each_record_is_sent_once_more_by_itself(ledger, name):
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 8)
    exchange = Vague(VAGUE[name])
    ready_entries.send_to(exchange, ledger, run, options(on_400="prove"))
    assert ready_entries.states(ledger, drop) == ["accepted"] * 7 + ["refused"]
    assert exchange.sizes == [8] + [1] * 8


def test_an_unanswered_batch_is_unknown_as_a_whole(ledger):
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 6)
    _, server = ready_entries.send_to(scripted_exchange.applies_and_closes, ledger, run, options())
    assert ready_entries.states(ledger, drop) == ["unknown"] * 6
    assert set(server.applied.values()) == {1}
    (entry, *_) = ledger.queries.entries_of(drop.id)
    (problem,) = entry.problems
    assert (problem.code, problem.where.row) == ("X702", 2)


def test_a_named_record_that_was_unknown_before_stays_unknown(ledger):
    run = ledger.begin_run()
    drop = ready_entries.plan(
        ledger, run, "order.status", [{"order_id": f"A-{n}", "status_location": f"stop {n}"} for n in (7, 17, 2)]
    )
    ready_entries.send_to(
        scripted_exchange.closes_without_answer, ledger, run, options(size=1, connections=1, unknown_max=1)
    )
    assert ready_entries.states(ledger, drop) == ["unknown", "ready", "ready"]
    first = next(ledger.queries.entries_of(drop.id))
    ledger.settle(run, [ready_entries.Settlement(first.id, ready_entries.State.READY, "somebody said: again")])
    ready_entries.send_to(Judging(), ledger, run, options())
    assert ready_entries.states(ledger, drop) == ["unknown", "refused", "accepted"]


def test_nothing_is_taken_for_granted_by_default_but_for_our_own_exchange():
    assert (Assumptions().status_on_400, Assumptions().status_index_base) == ("prove", "prove")
    assert BatchRules.of(ready_entries.settings(exchange="https://x.example")) == (None, "prove")
    assert BatchRules.of(ready_entries.settings()) == (0, "atomic")
    assert BatchRules.of(options(1, "partial")) == (1, "partial")
    assert BatchRules.of(options(1, "atomic")) == (None, "atomic"), (
        "asking again doubles nothing, so nothing is believed"
    )


def doubled(entry):
    return "L608" in {problem.code for problem in entry.problems}


@pytest.mark.parametrize("on_400", ["atomic", "partial"])
@pytest.mark.parametrize("base", [0, 1])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_event_is_applied_once_or_named_whatever_the_exchange_does(tmp_path_factory, base, on_400, data):
    """Against our own exchange and its truth log, of which the translator knows nothing."""
    count = data.draw(st.integers(1, 24), "records")
    bad = data.draw(st.sets(st.integers(0, count - 1), max_size=5), "unknown orders")
    size = data.draw(st.integers(1, 12), "records in a call")
    folder = tmp_path_factory.mktemp("batches")
    served = Assumptions(status_index_base=base, status_on_400=on_400)
    stranger = ready_entries.settings(
        exchange="https://exchange.example", assumptions={"status_records_max": size}, outstanding_unknown_max=1000
    )
    with (
        open_ledger(f"sqlite:///{folder / 'ledger.db'}") as ledger,
        serve_embedded(f"sqlite:///{folder / 'x.db'}", EXCHANGE_TOKEN, served, truth=folder / "truth.jsonl") as url,
    ):
        run, _ = ready_entries.new_orders(ledger, count)
        ready_entries.send_all(ledger, run, url, stranger, token=EXCHANGE_TOKEN)
        payloads = [
            {"order_id": f"B-{n}" if n in bad else f"A-{n:05}", "status_code": "PU", "status_location": f"stop {n}"}
            for n in range(count)
        ]
        drop = ready_entries.plan(ledger, run, "order.status", payloads, file="events.csv")
        ready_entries.send_all(ledger, run, url, stranger, token=EXCHANGE_TOKEN)
        entries = list(ledger.queries.entries_of(drop.id))
    truth = [line for line in read_truth(folder / "truth.jsonl") if line["operation"] == "order.status"]
    applied = Counter(line["key"] for line in truth)
    for number, entry in enumerate(entries):
        times = applied[entry.key]
        if number in bad:
            assert (str(entry.state), times) in {("refused", 0), ("unknown", 0)}
        else:
            assert str(entry.state) == "accepted"
            assert times == 1 or (doubled(entry) and times == 2)


def test_an_event_that_may_be_there_travels_alone_also_in_a_later_run(ledger):
    """In another batch it could be refused along with others, and be there a third time."""
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 6)
    _, server = ready_entries.send_to(scripted_exchange.applies_and_closes, ledger, run, options(on_400="prove"))
    ledger.settle(
        run,
        [
            ready_entries.Settlement(entry.id, ready_entries.State.READY, "sent once more")
            for entry in ledger.queries.entries_of(drop.id)
        ],
    )
    more = ready_entries.plan(
        ledger, run, "order.status", [{"order_id": "B-1", "status_location": "stop 7"}], file="more.csv"
    )
    exchange = Judging(on_400="partial")
    ready_entries.send_to(exchange, ledger, run, options(on_400="prove"))
    assert ready_entries.states(ledger, drop, more) == ["accepted"] * 6 + ["refused"]
    assert exchange.sizes == [1] * 7
    assert set(server.applied.values()) == {1}
    assert max(exchange.applied.values()) == 1
    assert all(doubled(entry) for entry in ledger.queries.entries_of(drop.id))

"""Batches: which entries share a call, and what a refusal that names data[<index>] means for each row, under every assumption."""

from collections import Counter, defaultdict

import pytest
import ready_entries
import scripted_exchange
from exchange_calls import TOKEN as EXCHANGE_TOKEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from invariants import read_truth
from ready_entries import decide, entries, send_to, states
from scripted_exchange import Move, accepts, answer, says

from loadsheet.contract import BY_NAME, Assumptions, Fault, refusal_body
from loadsheet.dispatch.calls_in_flight import build_calls
from loadsheet.dispatch.settlement import BatchRules
from loadsheet.exchange import serve_embedded
from loadsheet.ledger import State, Submission, open_ledger

OPERATIONS = ["order.create", "order.update", "order.status", "order.delete", "tender.create"]
STATUS = BY_NAME["order.status"]


def submission(identity, name="order.status", number=None, payload=b"{}", most=None):
    key = f"k{identity if number is None else number}"
    return Submission(identity, 1, name, key, f"{BY_NAME[name].subject}:{key}", payload, 0, most)


@given(
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 4)), max_size=30),
    st.integers(1, 5),
    st.sets(st.integers(1, 30)),
)
def test_calls_sent_together_share_no_lane_and_overtake_nothing(chosen, batch_max, alone):
    """And looking again and again sends everything, in the order of its lane."""
    ready = [submission(identity, name, number) for identity, (name, number) in enumerate(chosen, start=1)]
    order = defaultdict(list)
    while ready:
        calls = build_calls(ready, batch_max, dict.fromkeys(alone, 1))
        assert {one.lane for call in calls for one in call.submissions} == {one.lane for one in ready}, (
            "the first of each"
        )
        lanes = [lane for call in calls for lane in {one.lane for one in call.submissions}]
        assert len(lanes) == len(set(lanes))
        for call in calls:
            assert {one.operation for one in call.submissions} == {call.operation.name}
            assert len(call.submissions) <= (batch_max if call.operation.batched else 1)
            assert len(call.submissions) == 1 or not alone & {one.id for one in call.submissions}
            for one in call.submissions:
                order[one.lane].append(one.id)
        left = {one.id for one in ready} - {one.id for call in calls for one in call.submissions}
        ready = [one for one in ready if one.id in left]
    assert all(ids == sorted(ids) for ids in order.values())
    assert sum(map(len, order.values())) == len(chosen)


def test_a_batch_carries_its_records_in_their_order_and_a_single_call_its_payload_as_it_is():
    records = [submission(at, number=at % 2, payload=b'{"n":%d}' % at) for at in (1, 2, 3)]
    (call,) = build_calls(records, 10)
    assert (call.body, call.keys) == (b'{"data":[{"n":1},{"n":2},{"n":3}]}', ["k1", "k0", "k1"])
    (call,) = build_calls([submission(1, "order.create", payload=b'{"n":1}')], 10)
    assert call.body == b'{"n":1}'


def test_a_batch_is_as_large_as_the_mapping_wishes_and_the_exchange_takes_and_a_large_record_goes_alone():
    few, many = [submission(at, most=2) for at in range(5)], [submission(at) for at in range(5, 10)]
    assert [len(call.submissions) for call in build_calls([*few, *many], 4)] == [2, 2, 1, 4, 1]
    sizes = (500, 500, 500, 5000, 500)
    ready = [submission(at, payload=b'"%s"' % (b"x" * size)) for at, size in enumerate(sizes)]
    calls = build_calls(ready, 200, bytes_max=1200)
    assert [call.keys for call in calls] == [["k0", "k1"], ["k2"], ["k3"], ["k4"]]
    assert [len(call.body) <= 1200 for call in calls] == [True, True, False, True]


def test_nothing_is_taken_for_granted_by_default_but_for_our_own_exchange():
    assert (Assumptions().status_on_400, Assumptions().status_index_base) == ("prove", "prove")
    assert BatchRules.of(ready_entries.settings(exchange="https://x.example")) == (None, "prove")
    assert BatchRules.of(ready_entries.settings()) == (0, "atomic")
    assert BatchRules.of(options(1, "partial")) == (1, "partial")
    assert BatchRules.of(options(1, "atomic")) == (None, "atomic"), "asking again doubles nothing: nothing is believed"


class Judging:
    """An exchange that refuses records at stops that end in 7, and names them as its assumptions say, or answers `said`."""

    def __init__(self, base=0, on_400="atomic", shift=0, said=None):
        self.base, self.partial, self.shift, self.said = base, on_400 == "partial", shift, said
        self.applied = Counter()
        self.sizes = []

    def __call__(self, _number, _request):
        return Move(self._act)

    def _act(self, connection, request):
        stops = [payload["status_location"] for payload in request.payloads]
        bad = [index for index, stop in enumerate(stops) if stop.endswith("7")]
        self.sizes.append(len(stops))
        if self.partial or not bad:
            self.applied.update(stop for index, stop in enumerate(stops) if index not in bad)
        if not bad:
            return accepts.act(connection, request)
        if self.said:
            return self.said.act(connection, request)
        faults = [Fault("status_location", "is unlucky", index + self.shift) for index in bad]
        connection.sendall(answer(400, refusal_body(STATUS, faults, index_base=self.base)))
        return True


def options(base=0, on_400="atomic", size=20, **more):
    assumptions = {"status_index_base": base, "status_on_400": on_400, "status_records_max": size}
    return ready_entries.settings(exchange="https://exchange.example", assumptions=assumptions, **more)


def events_at(ledger, run, stops, file="events.csv"):
    payloads = [{"order_id": f"A-{stop:05}", "status_location": f"stop {stop}"} for stop in stops]
    return ready_entries.plan(ledger, run, "order.status", payloads, file=file)


@pytest.mark.parametrize(
    ("base", "on_400", "orders"), [(0, "atomic", 50), (1, "atomic", 7), (0, "partial", 7), (1, "partial", 50)]
)
def test_a_named_record_is_refused_and_the_others_are_applied_once(ledger, base, on_400, orders):
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 50, orders=orders)
    exchange = Judging(base, on_400)
    report, _ = send_to(exchange, ledger, run, options(base, on_400))
    found = entries(ledger, drop)
    unlucky = [number % 10 == 7 for number in range(50)]
    assert [str(entry.state) for entry in found] == ["refused" if bad else "accepted" for bad in unlucky]
    assert [exchange.applied[f"stop {number}"] for number in range(50)] == [0 if bad else 1 for bad in unlucky]
    assert (report.refused, report.accepted) == (5, 45)
    (problem,) = found[17].problems
    assert (problem.code, problem.where.row, problem.where.file) == ("X701", 19, "events.csv")
    assert "status_location: is unlucky" in problem.text
    assert found[17].reason == "status_location: is unlucky"


@pytest.mark.parametrize("exchange", [Judging(shift=100), Judging(base=1)], ids=["out of range", "the other base"])
def test_an_index_that_names_nobody_splits_the_batch(ledger, exchange):
    run = ledger.begin_run()
    drop = events_at(ledger, run, (7, 1, 2, 3, 17))
    send_to(exchange, ledger, run, options(size=5))
    assert states(ledger, drop) == ["refused", "accepted", "accepted", "accepted", "refused"]
    assert (exchange.sizes[0], exchange.sizes.count(5)) == (5, 1)
    assert max(exchange.sizes[1:]) <= 3, "it is halved until it is clear"
    assert max(exchange.applied.values()) == 1


VAGUE = {
    "a field of the body": says(400, refusal_body(STATUS, [Fault("data", "must be an array")])),
    "no field at all": says(400, {"results": [], "status": False, "message": "no", "errors": {}}),
    "a page of a proxy": says(400, b"<html>Bad request</html>"),
}


@pytest.mark.parametrize("name", VAGUE)
def test_a_refusal_that_names_no_record_halves_the_batch_if_nothing_was_applied(ledger, name):
    run = ledger.begin_run()
    drop, exchange = ready_entries.events(ledger, run, 64), Judging(said=VAGUE[name])
    send_to(exchange, ledger, run, options(connections=1, size=64))
    found = states(ledger, drop)
    assert {number for number, state in enumerate(found) if state == "refused"} == {7, 17, 27, 37, 47, 57}
    assert max(exchange.applied.values()) == 1
    assert exchange.applied.total() == found.count("accepted") == 58
    assert len(exchange.sizes) < 64, "fewer calls than one for each record"


@pytest.mark.parametrize("name", VAGUE)
def test_if_others_may_have_been_applied_the_batch_is_unknown_or_each_record_is_sent_once_more_by_itself(ledger, name):
    run = ledger.begin_run()
    unknown = ready_entries.events(ledger, run, 6, orders=6)
    _, server = send_to(VAGUE[name], ledger, run, options(on_400="partial"))
    assert states(ledger, unknown) == ["unknown"] * 6
    assert len(server.requests) == 1
    proved, exchange = events_at(ledger, run, range(10, 18), file="more.csv"), Judging(said=VAGUE[name])
    send_to(exchange, ledger, run, options(on_400="prove"))
    assert states(ledger, proved) == ["accepted"] * 7 + ["refused"]
    assert exchange.sizes == [8] + [1] * 8


def test_an_unanswered_batch_is_unknown_and_travels_alone_also_in_a_later_run(ledger):
    """In another batch it could be refused along with others, and be there a third time."""
    run = ledger.begin_run()
    drop = ready_entries.events(ledger, run, 6)
    _, server = send_to(scripted_exchange.applies_and_closes, ledger, run, options(on_400="prove"))
    found = entries(ledger, drop)
    assert [str(entry.state) for entry in found] == ["unknown"] * 6
    assert [(problem.code, problem.where.row) for problem in found[0].problems] == [("X702", 2)]
    decide(ledger, run, State.READY, *found)
    more, exchange = events_at(ledger, run, [107], file="more.csv"), Judging(on_400="partial")
    send_to(exchange, ledger, run, options(on_400="prove"))
    assert states(ledger, drop, more) == ["accepted"] * 6 + ["refused"]
    assert exchange.sizes == [1] * 7
    assert set(server.applied.values()) == {1}
    assert max(exchange.applied.values()) == 1
    assert all(doubled(entry) for entry in entries(ledger, drop))


def test_a_named_record_that_was_unknown_before_stays_unknown(ledger):
    run = ledger.begin_run()
    drop = events_at(ledger, run, (7, 17, 2))
    lost = options(size=1, connections=1, unknown_max=1)
    send_to(scripted_exchange.closes_without_answer, ledger, run, lost)
    assert states(ledger, drop) == ["unknown", "ready", "ready"]
    decide(ledger, run, State.READY, entries(ledger, drop)[0])
    send_to(Judging(), ledger, run, options())
    assert states(ledger, drop) == ["unknown", "refused", "accepted"]


def doubled(entry):
    return "L608" in {problem.code for problem in entry.problems}


@pytest.mark.parametrize("on_400", ["atomic", "partial"])
@pytest.mark.parametrize("base", [0, 1])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_event_is_applied_once_or_named_whatever_the_exchange_does(tmp_path_factory, base, on_400, data):
    """Against our own exchange and its truth log, by a translator that knows nothing of it, and by one that knows its assumptions."""
    count = data.draw(st.integers(1, 24), "records")
    bad = data.draw(st.sets(st.integers(0, count - 1), max_size=5), "unknown orders")
    size = data.draw(st.integers(1, 12), "records in a call")
    folder = tmp_path_factory.mktemp("batches")
    served = Assumptions(status_index_base=base, status_on_400=on_400)
    more = {"outstanding_unknown_max": 1000}
    stranger = ready_entries.settings(
        exchange="https://exchange.example", assumptions={"status_records_max": size}, **more
    )
    with (
        open_ledger(f"sqlite:///{folder / 'ledger.db'}") as ledger,
        serve_embedded(f"sqlite:///{folder / 'x.db'}", EXCHANGE_TOKEN, served, truth=folder / "truth.jsonl") as url,
    ):
        run, _ = ready_entries.new_orders(ledger, count)
        drops = []
        for place, known in enumerate((stranger, options(base, on_400, size, **more))):
            payloads = [
                {
                    "order_id": f"B-{n}" if n in bad else f"A-{n:05}",
                    "status_code": "PU",
                    "status_location": f"{place} {n}",
                }
                for n in range(count)
            ]
            drops.append(ready_entries.plan(ledger, run, "order.status", payloads, file=f"{place}.csv"))
            ready_entries.send_all(ledger, run, url, known, token=EXCHANGE_TOKEN)
        found = [entries(ledger, drop) for drop in drops]
    truth = read_truth(folder / "truth.jsonl")
    applied = Counter(line["key"] for line in truth if line["operation"] == STATUS.name)
    for number, (strange, known) in enumerate(zip(*found, strict=True)):
        if number in bad:
            assert applied[strange.key] == 0
            assert (str(strange.state) in ("refused", "unknown"), str(known.state)) == (True, "refused")
        else:
            assert (str(strange.state), str(known.state)) == ("accepted", "accepted")
            assert applied[strange.key] == 2 or (doubled(strange) and applied[strange.key] == 3)
            assert not doubled(known)

"""Status events travel in batches: what a refusal that names data[<index>] means for each row, under every assumption."""

from collections import Counter

import pytest
import scripted
import sendings
from calling import TOKEN as EXCHANGE_TOKEN
from scripted import Move, Scripted, accepts, answer, says

from loadsheet.contract import BY_NAME, Assumptions, Fault, refusal
from loadsheet.exchange import Embedded

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
    return sendings.settings(
        assumptions={"status_index_base": base, "status_on_400": on_400, "status_records_max": size}, **more
    )


def outcome_of(ledger, drop):
    return {f"stop {number}": entry for number, entry in enumerate(ledger.history.entries_of(drop.id))}


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("on_400", ["atomic", "partial"])
@pytest.mark.parametrize("orders", [50, 7])
def test_a_named_record_is_refused_and_the_others_are_applied_once(ledger, base, on_400, orders):
    run = ledger.begin_run()
    drop = sendings.events(ledger, run, 50, orders=orders)
    exchange = Judging(base, on_400)
    with Scripted(exchange) as server:
        report = sendings.send_all(ledger, run, server.url, options(base, on_400))
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
    run = ledger.begin_run()
    sendings.orders(ledger, run, 10)
    for base, on_400 in ((0, "atomic"), (1, "atomic"), (0, "partial"), (1, "partial")):
        settings = options(base, on_400)
        payloads = [
            {"order_id": f"A-{number % 12:05}", "status_code": "PU", "status_location": f"{base}{on_400}{number}"}
            for number in range(36)
        ]
        drop = sendings.plan(ledger, run, "order.status", payloads, file=f"{base}{on_400}.csv")
        database = f"sqlite:///{tmp_path / 'exchange.db'}"
        with Embedded(database, EXCHANGE_TOKEN, settings.assumptions) as exchange:
            sendings.send_all(ledger, run, exchange.url, settings, token=EXCHANGE_TOKEN)
        states = sendings.states(ledger, drop)
        assert [states[number] for number in range(36)] == [
            "refused" if number % 12 >= 10 else "accepted" for number in range(36)
        ]


@pytest.mark.parametrize(
    "exchange",
    [Judging(shift=100), Judging(base=1), Judging(shift=-1)],
    ids=["out of range", "the other base", "below the first"],
)
def test_an_index_that_names_nobody_splits_the_batch(ledger, exchange):
    run = ledger.begin_run()
    payloads = [{"order_id": f"A-{n:05}", "status_location": f"stop {n}"} for n in (7, 1, 2, 3, 17)]
    drop = sendings.plan(ledger, run, "order.status", payloads)
    with Scripted(exchange) as server:
        sendings.send_all(ledger, run, server.url, options(size=5))
    assert sendings.states(ledger, drop) == ["refused", "accepted", "accepted", "accepted", "refused"]
    assert sorted(exchange.sizes) == [1, 1, 1, 1, 1, 5]
    assert max(exchange.applied.values()) == 1


VAGUE = {
    "a field of the body": says(400, refusal(STATUS, [Fault("data", "must be an array")])),
    "no field at all": says(400, {"results": [], "status": False, "message": "no", "errors": {}}),
    "a page of a proxy": says(400, b"<html>Bad request</html>"),
}


@pytest.mark.parametrize("name", VAGUE)
def test_a_refusal_that_names_no_record_splits_the_batch_if_nothing_was_applied(ledger, name):
    run = ledger.begin_run()
    drop = sendings.events(ledger, run, 6)
    with Scripted(lambda number, _: VAGUE[name] if number in (0, 2) else accepts) as server:
        sendings.send_all(ledger, run, server.url, options(connections=1))
    states = sendings.states(ledger, drop)
    assert Counter(states) == {"accepted": 5, "refused": 1}
    assert len(server.requests) == 7
    assert max(server.applied.values()) == 1


@pytest.mark.parametrize("name", VAGUE)
def test_it_leaves_the_whole_batch_unknown_if_others_may_have_been_applied(ledger, name):
    run = ledger.begin_run()
    drop = sendings.events(ledger, run, 6)
    with Scripted(lambda *_: VAGUE[name]) as server:
        sendings.send_all(ledger, run, server.url, options(on_400="partial"))
    assert sendings.states(ledger, drop) == ["unknown"] * 6
    assert len(server.requests) == 1


def test_an_unanswered_batch_is_unknown_as_a_whole(ledger):
    run = ledger.begin_run()
    drop = sendings.events(ledger, run, 6)
    with Scripted(lambda *_: scripted.applies_and_closes) as server:
        sendings.send_all(ledger, run, server.url, options())
    assert sendings.states(ledger, drop) == ["unknown"] * 6
    assert set(server.applied.values()) == {1}
    (entry, *_) = ledger.history.entries_of(drop.id)
    (problem,) = entry.problems
    assert (problem.code, problem.where.row) == ("X702", 2)


def test_a_named_record_that_was_unknown_before_stays_unknown(ledger):
    run = ledger.begin_run()
    drop = sendings.plan(
        ledger, run, "order.status", [{"order_id": f"A-{n}", "status_location": f"stop {n}"} for n in (7, 17, 2)]
    )
    with Scripted(lambda *_: scripted.closes_without_answer) as server:
        sendings.send_all(ledger, run, server.url, options(size=1, connections=1, unknown_max=1))
    assert sendings.states(ledger, drop) == ["unknown", "ready", "ready"]
    first = next(ledger.history.entries_of(drop.id))
    ledger.settle(run, [sendings.Settlement(first.id, sendings.State.READY, "somebody said: again")])
    with Scripted(Judging()) as server:
        sendings.send_all(ledger, run, server.url, options())
    assert sendings.states(ledger, drop) == ["unknown", "refused", "accepted"]


def test_assumptions_of_the_register_are_the_default():
    assert (Assumptions().status_on_400, Assumptions().status_index_base) == ("atomic", 0)

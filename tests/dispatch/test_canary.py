"""A mapping that was never accepted before: a few of its records go first and alone."""

import itertools
from collections import Counter

import pytest
import ready_entries
import scripted_exchange
from scripted_exchange import Move, accepts, says

from loadsheet.contract import BY_NAME, Fault, refusal
from loadsheet.ledger.queue import CANARY_FAILED

CREATE = BY_NAME["order.create"]
NO = says(400, refusal(CREATE, [Fault("transport_mode", "is not served")]))


def orders(ledger, run, count, first=0, file="orders.csv"):
    payloads = [ready_entries.ledgers.order(number) for number in range(first, first + count)]
    return ready_entries.plan(ledger, run, "order.create", payloads, file=file)


def send(script, ledger, run, **more):
    return ready_entries.send_to(script, ledger, run, canary=3, **more)


def test_the_rest_follows_only_when_one_of_the_first_is_accepted(ledger):
    run, drop = ready_entries.new_orders(ledger, 30)
    before = []

    def look(connection, request):
        before.append(Counter(ready_entries.states(ledger, drop))["accepted"])
        return accepts.act(connection, request)

    report, _ = send(Move(look, applies=True), ledger, run)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 30
    assert before[0] == 0
    assert min(before[3:]) >= 1
    assert (report.held, report.stopped) == (0, None)


def test_if_all_of_the_first_are_refused_the_rest_is_held_for_a_person(ledger):
    run, drop = ready_entries.new_orders(ledger, 30)
    report, server = send(NO, ledger, run)
    assert ready_entries.states(ledger, drop) == ["refused"] * 3 + ["held"] * 27
    assert len(server.requests) == 3
    assert (report.refused, report.held, report.stopped) == (3, 27, None)
    held = list(ledger.queries.entries_of(drop.id))[-1]
    (problem,) = held.problems
    assert (problem.code, problem.where.row, held.reason) == ("L609", 31, CANARY_FAILED)
    assert "first 3 records" in problem.text
    assert "transport_mode: is not served" in problem.text


def test_released_entries_get_no_second_trial(ledger):
    run, drop = ready_entries.new_orders(ledger, 12)
    send(NO, ledger, run)
    held = [entry for entry in ledger.queries.entries_of(drop.id) if str(entry.state) == "held"]
    ledger.settle(run, [ready_entries.Settlement(entry.id, ready_entries.State.READY, "let go") for entry in held])
    send(NO, ledger, run)
    assert ready_entries.states(ledger, drop) == ["refused"] * 12
    assert all(problem.code != "L609" for entry in ledger.queries.entries_of(drop.id) for problem in entry.problems)


def test_a_mapping_that_was_accepted_before_is_not_tried_and_a_new_one_holds_up_no_other(ledger):
    run = ledger.begin_run()
    orders(ledger, run, 4, file="known.csv")
    send(accepts, ledger, run)
    new, known = orders(ledger, run, 20, 100, "new.csv"), orders(ledger, run, 20, 200, "known.csv")

    def refuses_new(connection, request):
        is_new = "A-00100" <= request.payloads[0]["order_id"] < "A-00200"
        return (NO if is_new else accepts).act(connection, request)

    send(Move(refuses_new), ledger, run)
    assert Counter(ready_entries.states(ledger, new)) == {"refused": 3, "held": 17}
    assert ready_entries.states(ledger, known) == ["accepted"] * 20


def test_while_the_first_are_unknown_the_rest_waits_for_a_later_run(ledger):
    run, drop = ready_entries.new_orders(ledger, 10)
    send(scripted_exchange.applies_and_closes, ledger, run)
    assert Counter(ready_entries.states(ledger, drop)) == {"unknown": 3, "ready": 7}
    first = next(iter(ledger.queries.entries_of(drop.id)))
    ledger.settle(run, [ready_entries.Settlement(first.id, ready_entries.State.ACCEPTED, "the listing shows it")])
    send(accepts, ledger, run)
    assert Counter(ready_entries.states(ledger, drop)) == {"accepted": 8, "unknown": 2}


def test_first_records_that_were_not_sent_are_sent_again(ledger):
    run, drop = ready_entries.new_orders(ledger, 10)
    busy = says(429, b"", "Retry-After: 1\r\n")
    send(lambda number, _: busy if number < 4 else accepts, ledger, run, unreachable_max=20)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 10


@pytest.mark.parametrize("orders_there", [12, 4])
def test_the_first_events_travel_in_a_call_of_their_own_and_no_lane_is_overtaken(ledger, orders_there):
    run = ledger.begin_run()
    known = ready_entries.events(ledger, run, 6)
    ready_entries.send_to(accepts, ledger, run)
    payloads = [{"order_id": f"A-{n % orders_there:05}", "status_location": f"new {n}"} for n in range(24)]
    new = ready_entries.plan(ledger, run, "order.status", payloads, file="new.csv")
    payloads = [{"order_id": f"A-{n % orders_there:05}", "status_location": f"late {n}"} for n in range(24)]
    late = ready_entries.plan(ledger, run, "order.status", payloads, file="events.csv")
    _, server = send(accepts, ledger, run)
    assert set(ready_entries.states(ledger, known, new, late)) == {"accepted"}
    met, alone = {}, []
    for request in sorted(server.requests, key=lambda one: one.number):
        stops = [payload["status_location"] for payload in request.payloads]
        alone.append({stop.split()[0] for stop in stops} == {"new"} and len(stops) <= 3)
        for payload in request.payloads:
            met.setdefault(payload["order_id"], []).append(payload["status_location"])
    assert any(alone)
    for stops in met.values():
        kinds = [stop.split()[0] for stop in stops]
        assert kinds == sorted(kinds, key=["new", "late"].index), "what came later on a lane waits for what is on trial"


def test_an_answer_that_refuses_the_first_for_different_reasons_says_both(ledger):
    run, drop = ready_entries.new_orders(ledger, 9)

    def refuses(number, _request):
        text = "is odd" if number == 0 else "is dear"
        return says(400, refusal(CREATE, [Fault("currency", text)]))

    send(refuses, ledger, run, connections=1)
    told = list(ledger.queries.entries_of(drop.id))[-1].problems[0].text
    assert "currency: is odd; currency: is dear" in told


KNOWN, NEW = "acme/orders.csv", "newcomer/orders.csv"


@pytest.mark.parametrize(
    ("accepted", "then", "tried", "canary"),
    [
        ([KNOWN], KNOWN, False, 3),
        ([KNOWN], NEW, True, 3),
        ([KNOWN, NEW], NEW, False, 3),
        (["orders.csv"], KNOWN, True, 3),  # the inbox itself is no shipper of a folder in it
        (["a_me/orders.csv"], KNOWN, True, 3),  # nor is a folder of a like name
        ([], NEW, False, 0),
    ],
)
def test_a_known_mapping_is_tried_in_each_folder_that_is_new(ledger, accepted, then, tried, canary):
    run, numbers = ledger.begin_run(), itertools.count(0, 100)
    for file in accepted:
        read_by_one_mapping(ledger, run, file, next(numbers))
    send(accepts, ledger, run)
    drop = read_by_one_mapping(ledger, run, then, next(numbers))
    report, _ = ready_entries.send_to(NO, ledger, run, canary=canary)
    states = ready_entries.states(ledger, drop)
    assert states == (["refused"] * 3 + ["held"] * 7 if tried else ["refused"] * 10)
    assert report.held == states.count("held")


def read_by_one_mapping(ledger, run, file, first, count=10):
    """A drop of a file, all of which are read by the same mapping."""
    drop = ready_entries.ledgers.drop_of(("orders", file), mapping="orders", operation="order.create")
    documents = [
        ready_entries.ledgers.document(
            "order.create", ready_entries.ledgers.order(number), [("orders", row, ("x", "y", "01067", "12", "9"))]
        )
        for row, number in enumerate(range(first, first + count), start=2)
    ]
    return ready_entries.ledgers.plan(ledger, run, drop, documents)

"""A mapping that was never accepted before: a few of its records go first and alone."""

from collections import Counter

import pytest
import scripted
import sendings
from scripted import Move, Scripted, accepts, answer, says

from loadsheet.contract import BY_NAME, Fault, refusal
from loadsheet.dispatch.canary import HELD

CREATE = BY_NAME["order.create"]
NO = says(400, refusal(CREATE, [Fault("transport_mode", "is not served")]))
CAUTIOUS = {"canary": 3}


def orders(ledger, run, count, first=0, file="orders.csv"):
    payloads = [sendings.ledgers.order(number) for number in range(first, first + count)]
    return sendings.plan(ledger, run, "order.create", payloads, file=file)


def send(ledger, run, server, **more):
    return sendings.send_all(ledger, run, server.url, sendings.settings(**CAUTIOUS, **more))


def test_the_rest_follows_only_when_one_of_the_first_is_accepted(ledger):
    run = ledger.begin_run()
    drop = orders(ledger, run, 30)
    before = []

    def look(connection, request):
        before.append(Counter(sendings.states(ledger, drop))["accepted"])
        return accepts.act(connection, request)

    with Scripted(lambda *_: Move(look, applies=True)) as server:
        report = send(ledger, run, server)
    assert sendings.states(ledger, drop) == ["accepted"] * 30
    assert before[0] == 0
    assert min(before[3:]) >= 1
    assert (report.held, report.stopped) == (0, None)


def test_if_all_of_the_first_are_refused_the_rest_is_held_for_a_person(ledger):
    run = ledger.begin_run()
    drop = orders(ledger, run, 30)
    with Scripted(lambda *_: NO) as server:
        report = send(ledger, run, server)
    assert sendings.states(ledger, drop) == ["refused"] * 3 + ["held"] * 27
    assert len(server.requests) == 3
    assert (report.refused, report.held, report.stopped) == (3, 27, None)
    held = list(ledger.history.entries_of(drop.id))[-1]
    (problem,) = held.problems
    assert (problem.code, problem.where.row, held.reason) == ("L609", 31, HELD)
    assert "first 3 records" in problem.text
    assert "transport_mode: is not served" in problem.text


def test_what_somebody_let_go_is_not_tried_again(ledger):
    run = ledger.begin_run()
    drop = orders(ledger, run, 12)
    with Scripted(lambda *_: NO) as server:
        send(ledger, run, server)
    held = [entry for entry in ledger.history.entries_of(drop.id) if str(entry.state) == "held"]
    ledger.settle(run, [sendings.Settlement(entry.id, sendings.State.READY, "let go") for entry in held])
    with Scripted(lambda *_: NO) as server:
        send(ledger, run, server)
    assert sendings.states(ledger, drop) == ["refused"] * 12
    assert all(problem.code != "L609" for entry in ledger.history.entries_of(drop.id) for problem in entry.problems)


def test_a_mapping_that_was_accepted_before_is_not_tried_and_a_new_one_holds_up_no_other(ledger):
    run = ledger.begin_run()
    orders(ledger, run, 4, file="known.csv")
    with Scripted(lambda *_: accepts) as server:
        send(ledger, run, server)
    new, known = orders(ledger, run, 20, 100, "new.csv"), orders(ledger, run, 20, 200, "known.csv")

    def script(_number, request):
        return (
            NO
            if "A-001" in request.payloads[0]["order_id"] and request.payloads[0]["order_id"] < "A-00200"
            else accepts
        )

    with Scripted(lambda *_: Move(lambda c, r: script(0, r).act(c, r))) as server:
        send(ledger, run, server)
    assert Counter(sendings.states(ledger, new)) == {"refused": 3, "held": 17}
    assert sendings.states(ledger, known) == ["accepted"] * 20


def test_while_the_first_are_unknown_the_rest_waits_for_a_later_run(ledger):
    run = ledger.begin_run()
    drop = orders(ledger, run, 10)
    with Scripted(lambda *_: scripted.applies_and_closes) as server:
        send(ledger, run, server)
    assert Counter(sendings.states(ledger, drop)) == {"unknown": 3, "ready": 7}
    first = next(iter(ledger.history.entries_of(drop.id)))
    ledger.settle(run, [sendings.Settlement(first.id, sendings.State.ACCEPTED, "the listing shows it")])
    with Scripted(lambda *_: accepts) as server:
        send(ledger, run, server)
    assert Counter(sendings.states(ledger, drop)) == {"accepted": 8, "unknown": 2}


def test_what_met_nobody_is_tried_again(ledger):
    run = ledger.begin_run()
    drop = orders(ledger, run, 10)
    busy = says(429, b"", "Retry-After: 1\r\n")
    with Scripted(lambda number, _: busy if number < 4 else accepts) as server:
        send(ledger, run, server, unreachable_max=20)
    assert sendings.states(ledger, drop) == ["accepted"] * 10


@pytest.mark.parametrize("orders_there", [12, 4])
def test_the_first_events_travel_in_a_call_of_their_own_and_no_lane_is_overtaken(ledger, orders_there):
    run = ledger.begin_run()
    known = sendings.events(ledger, run, 6)
    with Scripted(lambda *_: accepts) as server:
        sendings.send_all(ledger, run, server.url)
    payloads = [{"order_id": f"A-{n % orders_there:05}", "status_location": f"new {n}"} for n in range(24)]
    new = sendings.plan(ledger, run, "order.status", payloads, file="new.csv")
    payloads = [{"order_id": f"A-{n % orders_there:05}", "status_location": f"late {n}"} for n in range(24)]
    late = sendings.plan(ledger, run, "order.status", payloads, file="events.csv")
    with Scripted(lambda *_: accepts) as server:
        send(ledger, run, server)
    assert set(sendings.states(ledger, known, new, late)) == {"accepted"}
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


def test_off_means_off(ledger):
    run = ledger.begin_run()
    drop = orders(ledger, run, 8)
    with Scripted(lambda *_: NO) as server:
        sendings.send_all(ledger, run, server.url, sendings.settings(canary=0))
    assert sendings.states(ledger, drop) == ["refused"] * 8


def test_an_answer_that_refuses_the_first_for_different_reasons_says_both(ledger):
    run = ledger.begin_run()
    drop = orders(ledger, run, 9)

    def refuses(number, _request):
        text = "is odd" if number == 0 else "is dear"
        return Move(lambda c, _r: c.sendall(answer(400, refusal(CREATE, [Fault("currency", text)]))) or True)

    with Scripted(refuses) as server:
        send(ledger, run, server, connections=1)
    told = list(ledger.history.entries_of(drop.id))[-1].problems[0].text
    assert "currency: is odd; currency: is dear" in told


def test_a_known_mapping_from_a_folder_that_is_new_is_tried_as_well(ledger):
    run = ledger.begin_run()
    orders(ledger, run, 5, file="acme/orders.csv")
    with Scripted(lambda *_: accepts) as server:
        send(ledger, run, server)
    known = orders(ledger, run, 30, first=100, file="acme/orders.csv")
    new = planned_from(ledger, run, "newcomer/orders.csv", like="acme/orders.csv", first=200)
    with Scripted(lambda *_: NO) as server:
        report = send(ledger, run, server)
    assert (
        sendings.states(ledger, known) == ["refused"] * 30
    )  # its folder and mapping are known: nothing of it is held back
    assert sendings.states(ledger, new) == ["refused"] * 3 + ["held"] * 27
    assert report.held == 27


def test_a_folder_whose_records_were_accepted_once_is_not_tried_again(ledger):
    run = ledger.begin_run()
    orders(ledger, run, 5, file="acme/orders.csv")
    planned_from(ledger, run, "newcomer/orders.csv", like="acme/orders.csv", first=200)
    with Scripted(lambda *_: accepts) as server:
        send(ledger, run, server)
    again = planned_from(ledger, run, "newcomer/orders.csv", like="acme/orders.csv", first=300)
    with Scripted(lambda *_: NO) as server:
        send(ledger, run, server)
    assert sendings.states(ledger, again) == ["refused"] * 30


@pytest.mark.parametrize(("known", "new"), [("orders.csv", "acme/orders.csv"), ("a_me/orders.csv", "acme/orders.csv")])
def test_the_inbox_itself_and_a_folder_of_a_like_name_are_no_shipper_of_that_folder(ledger, known, new):
    run = ledger.begin_run()
    orders(ledger, run, 5, file=known)
    with Scripted(lambda *_: accepts) as server:
        send(ledger, run, server)
    drop = planned_from(ledger, run, new, like=known, first=200)
    with Scripted(lambda *_: NO) as server:
        send(ledger, run, server)
    assert sendings.states(ledger, drop) == ["refused"] * 3 + ["held"] * 27


def planned_from(ledger, run, file, *, like, first, count=30):
    """A drop of a file that the mapping of another one read."""
    drop = sendings.ledgers.drop_of(("orders", file), mapping=f"order.create of {like}", operation="order.create")
    documents = [
        sendings.ledgers.document(
            "order.create", sendings.ledgers.order(number), [("orders", row, ("x", "y", "01067", "12", "9"))]
        )
        for row, number in enumerate(range(first, first + count), start=2)
    ]
    return sendings.ledgers.plan(ledger, run, drop, documents)

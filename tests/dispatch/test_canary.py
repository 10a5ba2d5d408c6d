"""A mapping that was never accepted before: a few of its records go first and alone."""

from collections import Counter

import pytest
import ready_entries
import scripted_exchange
from ready_entries import decide, entries, new_orders, states
from scripted_exchange import Move, accepts, accepts_when, in_turn, says

from loadsheet.contract import BY_NAME, Fault, refusal_body
from loadsheet.ledger import State
from loadsheet.ledger.queue import CANARY_FAILED

CREATE = BY_NAME["order.create"]


def refuses(path, text):
    return says(400, refusal_body(CREATE, [Fault(path, text)]))


NO = refuses("transport_mode", "is not served")


def orders(ledger, run, numbers, file, mapping=None):
    """A drop of a file, read by a mapping of its own or by one that others are read by too."""
    drop = ready_entries.ledgers.drop_of(("orders", file), mapping=mapping or file)
    cells = ("x", "y", "01067", "12", "9")
    documents = [
        ready_entries.ledgers.document("order.create", ready_entries.ledgers.order(number), [("orders", row, cells)])
        for row, number in enumerate(numbers, start=2)
    ]
    return ready_entries.ledgers.plan(ledger, run, drop, documents)


def send(script, ledger, run, **more):
    return ready_entries.send_to(script, ledger, run, **{"canary": 3, **more})


def test_the_rest_follows_only_when_one_of_the_first_is_accepted(ledger):
    run, drop = new_orders(ledger, 30)
    before = {}  # how many were accepted when a request was answered, by its number: threads answer in any order
    script = accepts_when(lambda one: before.setdefault(one.number, states(ledger, drop).count("accepted")))
    report, _ = send(script, ledger, run)
    assert states(ledger, drop) == ["accepted"] * 30
    assert min(before[number] for number in range(3)) == 0
    assert min(before[number] for number in range(3, 30)) >= 1
    assert (report.held, report.stopped) == (0, None)


def test_if_all_of_the_first_are_refused_the_rest_is_held_for_a_person_and_then_gets_no_second_trial(ledger):
    run, drop = new_orders(ledger, 30)
    moves = in_turn(refuses("currency", "is odd"), refuses("currency", "is dear"), refuses("currency", "is dear"))
    report, server = send(moves, ledger, run, connections=1)
    assert states(ledger, drop) == ["refused"] * 3 + ["held"] * 27
    assert len(server.requests) == 3
    assert (report.refused, report.held, report.stopped) == (3, 27, None)
    last = entries(ledger, drop)[-1]
    (problem,) = last.problems
    assert (problem.code, problem.where.row, last.reason) == ("L609", 31, CANARY_FAILED)
    assert "first 3 records" in problem.text
    assert "currency: is odd; currency: is dear" in problem.text
    decide(ledger, run, State.READY, *entries(ledger, drop)[3:])
    send(NO, ledger, run)
    assert states(ledger, drop) == ["refused"] * 30
    assert all(problem.code != "L609" for entry in entries(ledger, drop) for problem in entry.problems)


def test_a_mapping_that_was_accepted_before_is_not_tried_and_a_new_one_holds_up_no_other(ledger):
    run = ledger.begin_run()
    orders(ledger, run, range(4), "known.csv")
    send(accepts, ledger, run)
    new, known = orders(ledger, run, range(100, 120), "new.csv"), orders(ledger, run, range(200, 220), "known.csv")

    def refuses_new(connection, request):
        is_new = "A-00100" <= request.payloads[0]["order_id"] < "A-00200"
        return (NO if is_new else accepts).act(connection, request)

    send(Move(refuses_new), ledger, run)
    assert Counter(states(ledger, new)) == {"refused": 3, "held": 17}
    assert states(ledger, known) == ["accepted"] * 20


def test_while_the_first_are_unknown_the_rest_waits_for_a_later_run(ledger):
    run, drop = new_orders(ledger, 10)
    send(scripted_exchange.applies_and_closes, ledger, run)
    assert Counter(states(ledger, drop)) == {"unknown": 3, "ready": 7}
    decide(ledger, run, State.ACCEPTED, entries(ledger, drop)[0])
    send(accepts, ledger, run)
    assert Counter(states(ledger, drop)) == {"accepted": 8, "unknown": 2}


def test_first_records_that_were_not_sent_are_sent_again(ledger):
    run, drop = new_orders(ledger, 10)
    busy = says(429, b"", "Retry-After: 1\r\n")
    send(in_turn(busy, busy, busy, busy, accepts), ledger, run, unreachable_max=20)
    assert states(ledger, drop) == ["accepted"] * 10


@pytest.mark.parametrize("orders_there", [12, 4])
def test_the_first_events_travel_in_a_call_of_their_own_and_no_lane_is_overtaken(ledger, orders_there):
    run = ledger.begin_run()
    known = ready_entries.events(ledger, run, 6)
    ready_entries.send_to(accepts, ledger, run)
    new, late = (
        ready_entries.plan(
            ledger,
            run,
            "order.status",
            [{"order_id": f"A-{n % orders_there:05}", "status_location": f"{kind} {n}"} for n in range(24)],
            file=file,
        )
        for kind, file in (("new", "new.csv"), ("late", "events.csv"))
    )
    _, server = send(accepts, ledger, run)
    assert set(states(ledger, known, new, late)) == {"accepted"}
    met, alone = {}, []
    for request in sorted(server.requests, key=lambda one: one.number):
        kinds = [payload["status_location"].split()[0] for payload in request.payloads]
        alone.append(set(kinds) == {"new"} and len(kinds) <= 3)
        for payload, kind in zip(request.payloads, kinds, strict=True):
            met.setdefault(payload["order_id"], []).append(kind)
    assert any(alone)
    for kinds in met.values():
        assert kinds == sorted(kinds, key=["new", "late"].index), "what came later on a lane waits for what is on trial"


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
    run = ledger.begin_run()
    for place, file in enumerate(accepted):
        orders(ledger, run, range(100 * place, 100 * place + 10), file, "orders")
    send(accepts, ledger, run)
    drop = orders(ledger, run, range(900, 910), then, "orders")
    report, _ = send(NO, ledger, run, canary=canary)
    found = states(ledger, drop)
    assert found == (["refused"] * 3 + ["held"] * 7 if tried else ["refused"] * 10)
    assert report.held == found.count("held")


@pytest.mark.parametrize("canary", [3, 0])
def test_decisions_leave_after_all_quotes_and_those_without_a_quote_hold_up_no_other(ledger, canary):
    run, quoted = ledger.begin_run(), range(20)
    numbers = [100, 0, 101, 1, 102, *range(2, 20)]  # of the decisions: those from 100 on are on tenders without a quote
    tenders, quotes, decisions = (
        ready_entries.plan(
            ledger, run, operation, [ready_entries.payload_of(operation, one) for one in some], file=file
        )
        for operation, some, file in (
            ("tender.create", [*range(100, 103), *quoted], "tenders.csv"),
            ("tender.quote", quoted, "quotes.csv"),
            ("tender.confirm", numbers, "awards.csv"),
        )
    )
    arrived = []

    def decides(connection, request):
        (record,) = request.payloads
        arrived.append((request.operation.name, record["tender_id"]))
        is_known = request.operation.name != "tender.confirm" or ("tender.quote", record["tender_id"]) in arrived
        return (accepts if is_known else NO).act(connection, request)

    send(Move(decides), ledger, run, canary=canary)
    assert Counter(states(ledger, tenders, quotes)) == {"accepted": 43}
    assert states(ledger, decisions) == ["refused" if number >= 100 else "accepted" for number in numbers]
    assert [operation for operation, _ in arrived[-23:]] == ["tender.confirm"] * 23

from decimal import Decimal

import pytest
from ledgers import (
    accepted,
    document,
    drop_of,
    ledger_in,
    listing,
    order,
    plan,
    refused,
    send,
    tender,
    unknown,
    weight_problem,
)

from loadsheet.ledger import State
from loadsheet.reconcile import AGREES, MEANINGS, NEEDS_SOMEONE, Verdict, settle
from loadsheet.settings import Settings


@pytest.fixture
def night(tmp_path):
    with ledger_in(tmp_path) as ledger:
        yield Night(ledger)


class Night:
    """One run; each `drop` is a file with one document a row."""

    def __init__(self, ledger):
        self.ledger, self.files = ledger, 0
        self.run = ledger.begin_run()

    def drop(self, *documents):
        self.files += 1
        made = [
            document(operation, payload, [("orders", row, (f"k{row}", "", "", "", ""))], *problems)
            for row, (operation, payload, *problems) in enumerate(documents, start=2)
        ]
        plan(self.ledger, self.run, drop_of(("orders", f"{self.files}.csv")), made)

    def send(self, **answers):
        def decide(submission):
            return answers.get(submission.key.replace("-", "_"), accepted)(submission)

        send(self.ledger, self.run, decide)

    def next(self):
        self.ledger.end_run(self.run, exit_code=0, summary={})
        self.run = self.ledger.begin_run()

    def settle(self, orders=None, tenders=None, **more):
        listings = {"order": orders, "tender": tenders}
        return settle(self.ledger.queries, listings, self.run, Settings(**more))

    def verdicts(self, orders=None, tenders=None, **more):
        return [match.verdict for match in self.settle(orders, tenders, **more).matches.values()]


def test_what_is_listed_as_sent_is_matched(night):
    night.drop(("order.create", order(1)), ("tender.create", tender(1)))
    night.send()
    assert night.verdicts(listing([order(1)]), listing([tender(1)])) == [Verdict.MATCHED, Verdict.MATCHED]


def test_what_was_not_accepted_is_told_by_its_state(night):
    night.drop(
        ("order.create", order(1), weight_problem("1.csv", 2)),
        ("order.create", None, weight_problem("1.csv", 3)),
        ("order.create", order(3)),
        ("order.create", order(4)),
    )
    night.send(A_00003=refused, A_00004=unknown)
    night.drop(("order.create", order(4)), ("order.create", order(5)))
    everything = listing([order(number) for number in range(6)])
    assert night.verdicts(everything) == [
        Verdict.INVALID,
        Verdict.INVALID,
        Verdict.REFUSED,
        Verdict.UNKNOWN,
        Verdict.HELD,
        Verdict.WAITING,
    ]


def test_other_values_at_the_exchange_are_named_field_by_field(night):
    night.drop(("order.create", order(1)))
    night.send()
    found = night.settle(listing([order(1, delivery_city="Leipzig", total_weight=Decimal("9.5"))]))
    (match,) = found.matches.values()
    assert match.verdict is Verdict.VALUE_DIFFERENCE
    assert {(d.path, d.sent, d.held) for d in match.differences} == {
        ("delivery_city", "Dresden", "Leipzig"),
        ("total_weight", "413.5", "9.5"),
    }
    assert found.needs_someone == 1


def test_other_spellings_of_the_same_value_are_no_difference(night):
    night.drop(("order.create", order(1, total_weight=Decimal("413.50"), dedicated_vehicle="yes")))
    night.send()
    held = order(1, total_weight="413.5", dedicated_vehicle="true", order_status="")
    assert night.verdicts(listing([held])) == [Verdict.MATCHED]


def test_amounts_within_the_tolerance_are_matched_and_listed(night):
    night.drop(("order.create", order(1)))
    night.send()
    held = listing([order(1, goods_value=Decimal("1002.00"))])
    (match,) = night.settle(held).matches.values()
    assert match.verdict is Verdict.WITHIN_TOLERANCE
    assert [found.path for found in match.tolerated] == ["goods_value"]
    assert night.verdicts(held, money_tolerance=0) == [Verdict.VALUE_DIFFERENCE]


def test_absent_from_a_complete_listing_is_missing(night):
    night.drop(("order.create", order(1)), ("order.create", order(2)))
    night.send()
    assert night.verdicts(listing([order(1)])) == [Verdict.MATCHED, Verdict.MISSING]
    assert night.verdicts(listing([])) == [Verdict.MISSING, Verdict.MISSING]


def test_absent_from_a_partial_listing_is_not_verifiable(night):
    night.drop(("order.create", order(1)), ("order.create", order(2)))
    night.send()
    assert night.verdicts(listing([order(1)], total=2)) == [Verdict.MATCHED, Verdict.NOT_VERIFIABLE]


def test_without_a_listing_nothing_is_verifiable(night):
    night.drop(("order.create", order(1)), ("order.delete", {"order_id": "A-00002"}))
    night.send()
    found = night.settle(None)
    assert [match.verdict for match in found.matches.values()] == [Verdict.NOT_VERIFIABLE] * 2
    assert [str(leg) for leg in found.legs] == ["orders were not listed: nothing at the exchange is verifiable"]


def test_a_listing_of_the_other_kind_proves_nothing(night):
    night.drop(("order.create", order(1)))
    night.send()
    assert night.verdicts(listing([tender(1, order_id="A-00001")])) == [Verdict.NOT_VERIFIABLE]


def test_a_key_listed_twice_comes_before_its_differences(night):
    night.drop(("order.create", order(1)))
    night.send()
    assert night.verdicts(listing([order(1, delivery_city="Leipzig"), order(1)])) == [Verdict.LISTED_TWICE]


def test_a_later_call_takes_the_place_of_an_earlier_one(night):
    update = {"order_id": "A-00001", "sender_id": "ACME", "receiver_id": "CARGO", "delivery_city": "Leipzig"}
    night.drop(("order.create", order(1)), ("order.update", update))
    night.send()
    assert night.verdicts(listing([order(1, delivery_city="Leipzig")])) == [Verdict.REPLACED, Verdict.MATCHED]
    assert night.verdicts(listing([order(1)])) == [Verdict.REPLACED, Verdict.VALUE_DIFFERENCE]
    assert night.verdicts(listing([])) == [Verdict.REPLACED, Verdict.MISSING]


def test_a_deleted_record_is_expected_to_be_absent(night):
    night.drop(("order.create", order(1)), ("order.delete", {"order_id": "A-00001"}))
    night.send()
    assert night.verdicts(listing([order(9)])) == [Verdict.REPLACED, Verdict.MATCHED]
    assert night.verdicts(listing([order(1)])) == [Verdict.REPLACED, Verdict.STILL_LISTED]
    assert night.verdicts(listing([order(9)], total=5)) == [Verdict.REPLACED, Verdict.NOT_VERIFIABLE]


def test_a_later_run_on_the_same_record_replaces_an_entry_of_an_earlier_drop(night):
    night.drop(("order.create", order(1)), ("order.create", order(2)))
    night.send(A_00002=unknown)
    night.next()
    update = {"order_id": "A-00001", "sender_id": "ACME", "receiver_id": "CARGO", "delivery_city": "Leipzig"}
    night.drop(("order.update", update))
    night.send()
    night.next()
    (stuck,) = night.ledger.queries.entries_in(State.UNKNOWN)
    night.ledger.settle(night.run, [accepted(stuck)])
    held = listing([order(1, delivery_city="Leipzig"), order(2)])
    assert night.verdicts(held) == [Verdict.REPLACED, Verdict.MATCHED]


def test_status_events_are_acknowledged_as_nothing_lists_them(night):
    night.drop(("order.status", {"order_id": "A-00001", "status_code": "DEP"}))
    night.send()
    found = night.settle(None)
    assert [match.verdict for match in found.matches.values()] == [Verdict.ACKNOWLEDGED]
    assert not found.legs
    assert not found.needs_someone


def test_an_unchanged_order_is_compared_all_the_same(night):
    night.drop(("order.create", order(1)))
    night.send()
    night.next()
    night.drop(("order.create", order(1)))
    assert night.verdicts(listing([order(1)])) == [Verdict.UNCHANGED]
    assert night.verdicts(listing([order(1, delivery_city="Leipzig")])) == [Verdict.VALUE_DIFFERENCE]
    assert night.verdicts(listing([])) == [Verdict.MISSING]
    assert night.verdicts(None) == [Verdict.NOT_VERIFIABLE]


def test_an_unchanged_order_whose_twin_still_waits_waits_as_well(night):
    night.drop(("order.create", order(1)), ("order.create", order(1)))
    assert night.verdicts(listing([])) == [Verdict.WAITING, Verdict.WAITING]


def test_records_that_were_not_accepted_from_here_are_only_at_the_exchange(night):
    night.drop(
        ("order.create", order(1)),
        ("order.create", order(2)),
        ("order.create", order(3), weight_problem("1.csv", 4)),
        ("order.create", order(4)),
    )
    night.send(A_00002=refused, A_00004=unknown)
    found = night.settle(listing([order(number) for number in (1, 2, 3, 4, 77)]), listing([tender(8)]))
    assert [(one.subject, one.key, one.note) for one in found.only_listed] == [
        ("order", "A-00002", "the document for it was refused"),
        ("order", "A-00003", "the document for it is invalid"),
        ("order", "A-00077", "no document for it came through here"),
        ("tender", "T-0008", "no document for it came through here"),
    ]


def test_what_was_deleted_from_here_and_is_there_again_is_only_at_the_exchange(night):
    night.drop(("order.create", order(1)), ("order.delete", {"order_id": "A-00001"}))
    night.send()
    assert not night.settle(listing([order(1)])).only_listed  # told as still at exchange
    night.next()
    (again,) = night.settle(listing([order(1)])).only_listed
    assert again.note == "it was deleted from here and is there again"


def test_legs_say_how_much_was_seen(night):
    found = night.settle(listing([order(1), order(2)]), listing([tender(1)], total=4812))
    assert [str(leg) for leg in found.legs] == [
        "2 of 2 orders listed (complete)",
        '1 of 4,812 tenders listed (partial: missing ones are "not verifiable")',
    ]


def test_every_verdict_has_a_meaning_and_a_side():
    assert set(MEANINGS) == set(Verdict)
    assert not AGREES & NEEDS_SOMEONE
    assert set(Verdict) - AGREES - NEEDS_SOMEONE == {Verdict.WAITING, Verdict.NOT_VERIFIABLE, Verdict.ONLY_LISTED}

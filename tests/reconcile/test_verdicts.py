"""The verdict on each document: what the exchange lists of it, or how far it came."""

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
from loadsheet.reconcile import Verdict, reconcile_run
from loadsheet.settings import Settings


class OneRun:
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
        send(self.ledger, self.run, lambda one: answers.get(one.key.replace("-", "_"), accepted)(one))

    def sent(self, *documents, **answers):
        self.drop(*documents)
        self.send(**answers)

    def next(self):
        self.ledger.end_run(self.run, exit_code=0, summary={})
        self.run = self.ledger.begin_run()

    def settle(self, orders=None, tenders=None, **more):
        return reconcile_run(self.ledger.queries, {"order": orders, "tender": tenders}, self.run, Settings(**more))

    def verdicts(self, orders=None, tenders=None, **more):
        return [match.verdict for match in self.settle(orders, tenders, **more).matches.values()]


@pytest.fixture
def one_run(tmp_path):
    with ledger_in(tmp_path) as ledger:
        yield OneRun(ledger)


MATCHED, MISSING, REPLACED, UNSEEN = Verdict.MATCHED, Verdict.MISSING, Verdict.REPLACED, Verdict.NOT_VERIFIABLE
DIFFERENT = Verdict.VALUE_DIFFERENCE
CREATE, SECOND, TENDER = ("order.create", order(1)), ("order.create", order(2)), ("tender.create", tender(1))
DELETE, STATUS = (
    ("order.delete", {"order_id": "A-00001"}),
    ("order.status", {"order_id": "A-00001", "status_code": "DEP"}),
)
PARTIES = {"order_id": "A-00001", "sender_id": "ACME", "receiver_id": "CARGO"}
UPDATE = ("order.update", {**PARTIES, "delivery_city": "Leipzig"})
WHOLE = ("order.update", order(1, delivery_city="Leipzig"))
MOVED, OTHER = order(1, delivery_city="Leipzig"), order(9)
SPELLED = ("order.create", order(1, total_weight=Decimal("413.50"), dedicated_vehicle="yes"))


@pytest.mark.parametrize(
    ("sent", "listed", "more", "verdicts"),
    [
        ([CREATE, SECOND], [order(1)], {}, [MATCHED, MISSING]),
        ([CREATE, SECOND], [], {}, [MISSING, MISSING]),
        ([CREATE, SECOND], [order(1)], {"total": 2}, [MATCHED, UNSEEN]),
        ([SPELLED], [order(1, total_weight="413.5", dedicated_vehicle="true", order_status="")], {}, [MATCHED]),
        ([CREATE], [tender(1, order_id="A-00001")], {}, [UNSEEN]),  # a listing of the other kind proves nothing
        ([CREATE], [MOVED, order(1)], {}, [Verdict.LISTED_TWICE]),  # that comes before its differences
        ([CREATE, UPDATE], [MOVED], {}, [REPLACED, MATCHED]),
        ([CREATE, UPDATE], [order(1)], {}, [REPLACED, DIFFERENT]),
        ([CREATE, UPDATE], [order(1, delivery_city="Leipzig", total_weight=9)], {}, [DIFFERENT, MATCHED]),
        ([CREATE, WHOLE], [order(1, total_weight=9)], {}, [REPLACED, DIFFERENT]),
        ([CREATE, UPDATE], [], {}, [REPLACED, MISSING]),
        ([CREATE, DELETE], [OTHER], {}, [REPLACED, MATCHED]),
        ([CREATE, DELETE], [order(1)], {}, [REPLACED, Verdict.STILL_LISTED]),
        ([CREATE, UPDATE, DELETE], [order(1, total_weight=9)], {}, [REPLACED, REPLACED, Verdict.STILL_LISTED]),
        ([CREATE, DELETE], [OTHER], {"total": 5}, [REPLACED, UNSEEN]),
    ],
)
def test_the_listing_decides_on_what_was_accepted(one_run, sent, listed, more, verdicts):
    one_run.sent(*sent)
    assert one_run.verdicts(listing(listed, **more)) == verdicts


def test_each_kind_is_looked_up_in_its_own_listing_and_events_in_none(one_run):
    one_run.sent(CREATE, STATUS, TENDER)
    verdicts = [MATCHED, Verdict.ACKNOWLEDGED, MATCHED]
    assert one_run.verdicts(listing([order(1)]), listing([tender(1)])) == verdicts
    found = one_run.settle(None)
    assert [match.verdict for match in found.matches.values()] == [UNSEEN, Verdict.ACKNOWLEDGED, UNSEEN]
    legs = [str(leg) for leg in found.coverage]
    assert legs == [f"{kind}s were not listed: nothing at the exchange is verifiable" for kind in ("order", "tender")]
    assert not found.needs_someone


def test_the_state_decides_on_what_was_not_accepted(one_run):
    invalid = [("order.create", payload, weight_problem("1.csv", 2)) for payload in (order(1), None)]
    fourth = ("order.create", order(4))
    one_run.sent(*invalid, ("order.create", order(3)), fourth, A_00003=refused, A_00004=unknown)
    fifth = ("order.create", order(5))
    one_run.drop(fourth, fifth, fifth)  # the last is unchanged, but its twin still waits
    states = [Verdict.INVALID, Verdict.INVALID, Verdict.REFUSED, Verdict.UNKNOWN, Verdict.HELD]
    everything = listing([order(number) for number in range(6)])
    assert one_run.verdicts(everything) == [*states, Verdict.WAITING, Verdict.WAITING]


def test_other_values_at_the_exchange_are_named_field_by_field(one_run):
    one_run.sent(CREATE)
    found = one_run.settle(listing([order(1, delivery_city="Leipzig", total_weight=Decimal("9.5"))]))
    (match,) = found.matches.values()
    assert match.verdict is Verdict.VALUE_DIFFERENCE
    assert {(d.path, d.sent, d.held) for d in match.differences} == {
        ("delivery_city", "Dresden", "Leipzig"),
        ("total_weight", "413.5", "9.5"),
    }
    assert found.needs_someone == 1


def test_amounts_within_the_tolerance_are_matched_and_listed(one_run):
    one_run.sent(CREATE)
    listed = listing([order(1, goods_value=Decimal("1002.00"))])
    (match,) = one_run.settle(listed).matches.values()
    assert match.verdict is Verdict.WITHIN_TOLERANCE
    assert [found.path for found in match.tolerated] == ["goods_value"]
    assert one_run.verdicts(listed, money_tolerance=0) == [Verdict.VALUE_DIFFERENCE]


def test_a_later_run_on_the_same_record_replaces_an_entry_of_an_earlier_drop(one_run):
    one_run.sent(CREATE, SECOND, A_00002=unknown)
    one_run.next()
    one_run.sent(UPDATE)
    one_run.next()
    (stuck,) = one_run.ledger.queries.entries_in(State.UNKNOWN)
    one_run.ledger.settle(one_run.run, [accepted(stuck)])
    listed = listing([order(1, delivery_city="Leipzig"), order(2)])
    assert one_run.verdicts(listed) == [Verdict.REPLACED, Verdict.MATCHED]


def test_an_unchanged_order_is_compared_all_the_same(one_run):
    one_run.sent(CREATE)
    one_run.next()
    one_run.drop(CREATE)
    assert one_run.verdicts(listing([order(1)])) == [Verdict.UNCHANGED]
    assert one_run.verdicts(listing([order(1, delivery_city="Leipzig")])) == [Verdict.VALUE_DIFFERENCE]
    assert one_run.verdicts(listing([])) == [Verdict.MISSING]
    assert one_run.verdicts(None) == [Verdict.NOT_VERIFIABLE]


def test_compared_fields_are_counted_by_their_path(one_run):
    one_run.sent(CREATE, SECOND)
    compared = {one.path: one.compared for one in one_run.settle(listing([order(1), order(2)])).fields}
    assert [compared[path] for path in ("total_weight", "packages[].weight")] == [2, 4]
    assert not [path for path in compared if path.startswith("[]") or path == "weight"]


def test_records_that_were_not_accepted_from_here_are_only_at_the_exchange(one_run):
    wrong, fourth = ("order.create", order(3), weight_problem("1.csv", 4)), ("order.create", order(4))
    one_run.sent(CREATE, SECOND, wrong, fourth, A_00002=refused, A_00004=unknown)
    found = one_run.settle(listing([order(number) for number in (1, 2, 3, 4, 77)]), listing([tender(8)]))
    assert [(one.subject, one.key, one.note) for one in found.only_listed] == [
        ("order", "A-00002", "the document for it was refused"),
        ("order", "A-00003", "the document for it is invalid"),
        ("order", "A-00077", "loadsheet has no document for it"),
        ("tender", "T-0008", "loadsheet has no document for it"),
    ]


def test_what_was_deleted_from_here_and_is_there_again_is_only_at_the_exchange(one_run):
    one_run.sent(CREATE, DELETE)
    assert not one_run.settle(listing([order(1)])).only_listed  # but still at the exchange
    one_run.next()
    (again,) = one_run.settle(listing([order(1)])).only_listed
    assert again.note == "it was deleted from here and exists again"

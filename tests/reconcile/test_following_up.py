"""Exceptions roll forward from run to run until something closes them."""

from dataclasses import replace

import pytest
from ledgers import (
    Ticking,
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

from loadsheet.ledger import Remark, Settlement, State
from loadsheet.mapping.documents import RowLinks
from loadsheet.operations.retention import remove_payloads
from loadsheet.reconcile import reconcile_run
from loadsheet.settings import Settings

INVALID, DIFFERENT, LATER = "not sent: invalid", "value difference", "a later document was accepted"
FIRST, SECOND, THIRD = (f"2026-03-0{day}-01" for day in (5, 6, 7))


class Runs:
    """Runs in one ledger, a day apart; each step returns the exceptions: entry, first run, verdict and why it is closed."""

    def __init__(self, ledger, clock):
        self.ledger, self.clock, self.run = ledger, clock, None

    def next(self, *items, answers=lambda _: None, listed=None, file="in.csv", fixes=None, **mapping):
        """A run with one file; `fixes` is the drop whose fix file it is. `listed` as in `settle_again`."""
        self.clock.pass_time(86_400)
        self.run = self.ledger.begin_run()
        if items:
            plan(self.ledger, self.run, replace(drop_of(("orders", file), **mapping), fixes=fixes), items)
            send(self.ledger, self.run, answers)
        return self.settle_again(listed)

    def settle_entry(self, entry, why):
        """A run in which an entry turns out to be accepted."""
        self.clock.pass_time(86_400)
        self.run = self.ledger.begin_run()
        self.ledger.settle(self.run, [Settlement(entry, State.ACCEPTED, why, outcome="accepted")])

    def settle_again(self, listed=None):
        """Settle the last run; `listed` are the records that the exchange lists (None: it is not asked)."""
        shown = {} if listed is None else {"order": listing(listed)}
        found = reconcile_run(self.ledger.queries, shown, self.run, Settings()).exceptions
        self.ledger.record_exceptions(self.run, found.statuses)
        return [(one.entry, one.run, one.verdict, one.closed) for one in found.statuses]

    def remark(self, entry, value, name="status", at=None):
        return self.ledger.record_remarks([Remark(entry, name, value, "Ada", at or self.ledger.now())], {})


@pytest.fixture
def runs(tmp_path):
    clock = Ticking()
    with ledger_in(tmp_path, clock) as ledger:
        yield Runs(ledger, clock)


def create(number, *problems, row=2, **changes):
    return document("order.create", order(number, **changes), [("orders", row, (f"A-{number:05}",))], *problems)


def invalid(number, row=2):
    return create(number, weight_problem("in.csv", row), row=row)


def test_an_exception_is_rolled_forward_with_its_first_run(runs):
    assert runs.next(invalid(1)) == [(1, FIRST, INVALID, "")]
    assert runs.next() == [(1, FIRST, INVALID, "")]
    assert runs.next(invalid(2), file="b.csv") == [(1, FIRST, INVALID, ""), (2, THIRD, INVALID, "")]


def test_a_later_document_that_is_accepted_closes_it(runs):
    runs.next(invalid(1))
    assert runs.next(create(1), listed=[order(1)]) == [(1, FIRST, INVALID, LATER)]
    assert runs.settle_again(listed=[order(1)]) == [(1, FIRST, INVALID, LATER)]
    assert runs.next() == []


def test_a_document_that_was_accepted_before_does_not_but_a_later_one_that_is_unchanged_does(runs):
    runs.next(create(1), listed=[order(1)])
    assert runs.next(invalid(1), listed=[order(1)], file="b.csv") == [(2, SECOND, INVALID, "")]
    assert runs.next(create(1), listed=[order(1)], file="c.csv") == [(2, SECOND, INVALID, LATER)]


@pytest.mark.parametrize("fixes", [None, 1], ids=["a file", "a fix file"])
@pytest.mark.parametrize(("wrong", "closed"), [("c.csv", ""), ("in.csv", LATER)], ids=["newer", "older"])
def test_a_file_that_comes_again_closes_only_what_is_older_than_its_first_copy(runs, fixes, wrong, closed):
    runs.next(invalid(1))
    runs.next(create(1), file="b.csv", fixes=fixes)
    *_, opened = runs.next(invalid(1, row=3), file=wrong)
    assert opened[-1] == ""
    *_, last = runs.next(create(1), file="b.csv", fixes=fixes)
    assert last[-1] == closed


def test_another_document_of_the_same_drop_does_not_close_it(runs):
    runs.next(create(1), listed=[order(1)])
    update = replace(create(1), operation="order.update")
    listed = [order(1)]
    assert runs.next(invalid(1), update, listed=listed, file="b.csv") == [(2, SECOND, INVALID, "")]
    assert runs.next(invalid(1), file="b.csv") == [(2, SECOND, INVALID, "")]
    assert runs.next(update, listed=listed, file="c.csv") == [(2, SECOND, INVALID, LATER)]


def test_a_difference_stays_open_until_a_call_carries_its_value_or_the_exchange_shows_it(runs):
    moved = order(1, delivery_city="Köln")
    assert runs.next(create(1), listed=[moved]) == [(1, FIRST, DIFFERENT, "")]
    key = {name: order(1)[name] for name in ("order_id", "sender_id", "receiver_id")}
    update = document("order.update", {**key, "total_weight": 9}, [("orders", 2, ("A-00001",))])
    heavy = {**moved, "total_weight": 9}
    assert runs.next(update, listed=[heavy]) == [(1, FIRST, DIFFERENT, "")]
    assert runs.next() == [(1, FIRST, DIFFERENT, "")]
    assert runs.next(listed=[{**heavy, "delivery_city": "Dresden"}]) == [(1, FIRST, DIFFERENT, "replaced later")]


def test_later_calls_keep_their_contents_while_a_difference_of_the_record_is_open(runs):
    listed = [order(1, delivery_city="Köln", total_weight=9)]
    runs.next(create(1, total_weight=9), listed=listed)
    key = {name: order(1)[name] for name in ("order_id", "sender_id", "receiver_id")}
    runs.next(document("order.update", {**key, "total_weight": 9}, [("orders", 2, ("A-00001",))]), listed=listed)
    runs.next()
    runs.next()
    assert remove_payloads(Settings(retention={"payload_days": 1}), runs.ledger, runs.clock()) == 0
    assert runs.next(listed=listed) == [(1, FIRST, DIFFERENT, "")]


@pytest.mark.parametrize(("set_by", "closed"), [({"delivery_city": "Ulm"}, ""), ({}, LATER)], ids=["in part", "whole"])
def test_a_wrong_order_stays_open_behind_an_update_of_some_fields_also_once_contents_are_removed(runs, set_by, closed):
    runs.next(create(1))
    runs.next()
    runs.next()
    assert remove_payloads(Settings(retention={"payload_days": 1}), runs.ledger, runs.clock()) == 1
    runs.next(invalid(1), file="b.csv")
    key = {name: order(1)[name] for name in ("order_id", "sender_id", "receiver_id")}
    update = document("order.update", {**key, **set_by} if set_by else order(1), [("orders", 2, ("A-00001",))])
    mapping = {"mapping": "updates", "operation": "order.update"} if set_by else {}
    *_, (_, _, _, last) = runs.next(update, file="u.csv", **mapping)
    assert last == closed


def test_a_wrong_update_whose_fix_file_comes_back_as_it_was_is_settled_by_what_settled_it(runs):
    wrong = replace(invalid(1), operation="order.update")
    runs.next(wrong, replace(create(2), operation="order.update"), file="u.csv", mapping="updates")
    runs.next(replace(create(1), operation="order.update"), mapping="updates")
    *_, last = runs.next(fixing(1, wrong), file="u.fix.xlsx", fixes=1, mapping="updates")
    assert last == (4, THIRD, INVALID, LATER)


def test_a_create_closes_no_wrong_update_or_delete_because_they_may_have_waited_for_it(runs):
    wrong, surplus = replace(invalid(1), operation="order.update"), replace(invalid(2), operation="order.delete")
    runs.next(wrong, surplus, file="u.csv")
    assert runs.next(create(1), create(2)) == [(1, FIRST, INVALID, ""), (2, FIRST, INVALID, "")]


@pytest.mark.parametrize(("sender", "closed"), [("ACME", LATER), ("OTHER", "")])
def test_a_record_through_another_mapping_closes_one_only_if_it_is_of_the_same_sender(runs, sender, closed):
    runs.next(invalid(1), create(2))
    assert runs.next(create(1, sender_id=sender), file="b.csv", mapping="other") == [(1, FIRST, INVALID, closed)]


@pytest.mark.parametrize(("smaller", "closed"), [(0, ""), (1, LATER)], ids=["the first", "the second"])
def test_of_a_record_that_was_made_twice_the_second_create_says_what_is_the_whole(runs, smaller, closed):
    """An update carries the whole of it if it sets all that the last create had."""
    key = {name: order(1)[name] for name in ("order_id", "sender_id", "receiver_id")}
    small = document("order.create", key | {"total_weight": 5}, [("orders", 2, ("A-00001",))])
    both = [create(1), create(1)]
    both[smaller] = small
    runs.next(both[0], file="a.csv")
    runs.next(replace(create(1), operation="order.delete"), file="d.csv", operation="order.delete")
    runs.next(both[1], file="b.csv")
    runs.next(invalid(1), file="c.csv")
    update = document("order.update", key | {"total_weight": 9}, [("orders", 2, ("A-00001",))])
    *_, (_, _, _, found) = runs.next(update, file="u.csv", mapping="updates", operation="order.update")
    assert found == closed


def fixing(entry, made):
    """A document made from the rows of an entry, returned in a fix file."""
    return replace(made, links=RowLinks(fix_of=(entry,)))


def test_a_record_that_comes_back_wrong_again_and_again_is_one_exception_with_the_age_of_the_first(runs):
    runs.next(invalid(1), invalid(2))
    assert runs.next(fixing(1, invalid(1)), fixing(2, create(2)), fixes=1) == [
        (1, FIRST, INVALID, ""),
        (2, FIRST, INVALID, LATER),
    ]
    assert runs.next(fixing(3, invalid(7)), fixes=2) == [(1, FIRST, INVALID, "")]  # the key was wrong as well
    assert runs.next() == [(1, FIRST, INVALID, "")]
    (open_one,) = runs.ledger.queries.exceptions_at(runs.run)
    assert (open_one.entry, open_one.latest) == (1, 5)
    assert runs.next(fixing(5, create(7)), fixes=3) == [(1, FIRST, INVALID, LATER)]
    assert runs.next() == []


def test_a_record_that_comes_back_shows_what_is_wrong_with_it_now(runs):
    runs.next(create(1), answers=refused)
    assert runs.next(fixing(1, invalid(1)), fixes=1) == [(1, FIRST, INVALID, "")]
    runs.remark(1, "explained")
    assert runs.settle_again() == [(1, FIRST, INVALID, "explained")]


def test_of_a_record_that_comes_back_as_two_none_is_lost(runs):
    runs.next(invalid(1))
    assert runs.next(fixing(1, invalid(2)), fixing(1, create(3)), fixes=1) == [
        (1, FIRST, INVALID, LATER),
        (2, SECOND, INVALID, ""),
    ]


def event(code, row, *problems):
    payload = {"order_id": "A-00001", "status_code": code}
    weight = problems[0].found if problems else "12"
    return document("order.status", payload, [("orders", row, ("A-00001", code, "", weight, ""))], *problems)


@pytest.mark.parametrize(("code", "fixes", "closed"), [("DELIVERED", None, ""), ("PICKED_UP", 1, LATER)])
def test_a_status_event_from_a_fix_of_its_drop_closes_one_and_another_event_does_not(runs, code, fixes, closed):
    runs.next(event("PICKED_UP", 2, weight_problem("in.csv", 2)), event("LOADED", 3))
    assert runs.next(event(code, 2), file="b.csv", fixes=fixes) == [(1, FIRST, INVALID, closed)]


def test_an_event_in_the_same_file_again_is_one_exception_until_its_row_is_corrected(runs):
    wrong, other = event("PICKED_UP", 2, weight_problem("in.csv", 2)), event("LOADED", 3)
    assert [line[0] for line in runs.next(wrong, other)] == [1]
    shuffled = [event("LOADED", 2), event("PICKED_UP", 3, weight_problem("in.csv", 3))]
    assert [line[0] for line in runs.next(*shuffled)] == [1]
    (open_one,) = runs.ledger.queries.exceptions_at(runs.run)
    assert open_one.versions == (1, 4)
    assert runs.next(event("DELIVERED", 2), file="other.csv") == [(1, FIRST, INVALID, "")]
    assert runs.next(event("LOADED", 2), event("PICKED_UP", 3)) == [(1, FIRST, INVALID, LATER)]


@pytest.mark.parametrize(("listed", "closed"), [([order(1)], "matched"), (None, "accepted since")])
def test_an_unknown_outcome_closes_when_it_is_accepted_by_what_is_known_of_it(runs, listed, closed):
    assert runs.next(create(1), answers=unknown) == [(1, FIRST, "outcome unknown", "")]
    runs.settle_entry(1, "a listing shows it")
    assert runs.settle_again(listed=listed) == [(1, FIRST, "outcome unknown", closed)]


def test_a_difference_stays_until_a_listing_shows_it_anew(runs):
    other = order(1, delivery_city="Köln")
    assert runs.next(create(1), listed=[order(9)]) == [(1, FIRST, "missing at exchange", "")]
    assert runs.next(listed=[other]) == [(1, FIRST, DIFFERENT, "")]
    assert runs.next() == [(1, FIRST, DIFFERENT, "")]  # nobody asked the exchange
    assert runs.next(listed=[other]) == [(1, FIRST, DIFFERENT, "")]
    assert runs.next(listed=[order(1)]) == [(1, FIRST, DIFFERENT, "matched")]
    assert runs.next() == []


@pytest.mark.parametrize("word", ["explained", "accepted difference"])
def test_the_analyst_closes_an_exception_until_something_else_is_wrong(runs, word):
    other, third = order(1, delivery_city="Köln"), order(1, delivery_city="Bonn")
    runs.next(create(1), listed=[other])
    assert runs.remark(1, word) == 1
    assert runs.next(listed=[third]) == [(1, FIRST, DIFFERENT, "")]
    assert runs.next(listed=[third]) == [(1, FIRST, DIFFERENT, "")]
    remark = runs.ledger.queries.remarks_on([1])[1]["status"]
    assert (remark.value, remark.who) == ("open", "loadsheet")
    assert runs.remark(1, word) == 1
    assert runs.next(listed=[third]) == [(1, FIRST, DIFFERENT, word)]
    assert runs.next(listed=[third]) == []


def test_an_exception_that_the_analyst_takes_up_again_is_open_again(runs):
    runs.next(invalid(1))
    runs.remark(1, "explained")
    assert runs.next() == [(1, FIRST, INVALID, "explained")]
    runs.remark(1, "open")
    assert runs.next() == [(1, FIRST, INVALID, "")]


def test_fixed_is_believed_when_it_is_seen(runs):
    runs.next(invalid(1))
    runs.remark(1, "fixed")
    assert runs.next() == [(1, FIRST, INVALID, "")]
    assert runs.next(create(1), listed=[order(1)], file="b.csv") == [(1, FIRST, INVALID, LATER)]


def test_of_two_words_the_later_one_counts_however_late_it_is_read(runs):
    runs.next(invalid(1))
    words = [("Berta", 9, 1), ("Carl", 8, 0), ("Berta", 10, 0), ("", 11, 1)]
    for owner, day, count in words:
        assert runs.remark(1, owner, name="owner", at=f"2026-03-{day:02}T10:00:00.000Z") == count
    assert runs.ledger.queries.remarks_on([1])[1]["owner"].value == ""
    assert runs.ledger.queries.owners() == ["Berta"]


def test_words_on_what_is_no_exception_are_not_kept(runs):
    runs.next(create(1), listed=[order(1)])
    assert [runs.remark(entry, "explained") for entry in (1, 99)] == [0, 0]


def test_figures_are_counted_by_verdict(runs):
    runs.run = runs.ledger.begin_run()
    items = [create(1), invalid(2, row=3), create(3, row=4)]
    items.append(document("tender.create", tender(1), [("orders", 5, ("T",))]))
    plan(runs.ledger, runs.run, drop_of(("orders", "in.csv")), items)
    send(runs.ledger, runs.run, lambda one: refused(one) if one.key == "A-00003" else None)
    found = reconcile_run(runs.ledger.queries, {"order": listing([order(1)])}, runs.run, Settings())
    weights = {share.verdict: str(share.amount) for share in found.shares if share.figure == "weight"}
    assert weights == {"matched": "413.5", INVALID: "414.5", "refused": "415.5", "not verifiable": "612.5"}

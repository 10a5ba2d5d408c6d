"""Exceptions roll forward from run to run until something closes them."""

from dataclasses import replace
from decimal import Decimal

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
from loadsheet.mapping.documents import FIX_OF
from loadsheet.reconcile import settle
from loadsheet.settings import Settings

SETTINGS = Settings()


class House:
    """A ledger and its nights, one after the other."""

    def __init__(self, ledger, clock):
        self.ledger, self.clock, self.run = ledger, clock, None

    def night(self, items=(), *, answers=lambda _: None, held=None, file="in.csv"):
        """Play a night; `held` are the records that the exchange lists (None: it is not asked). Returns its exceptions."""
        self.clock.pass_time(86_400)
        self.run = self.ledger.begin_run()
        if items:
            plan(self.ledger, self.run, drop_of(("orders", file)), items)
            send(self.ledger, self.run, answers)
        return self.again(held)

    def fix(self, of, *items):
        """Play a night in which a fix file of the drop `of` comes back. Returns its exceptions."""
        self.clock.pass_time(86_400)
        self.run = self.ledger.begin_run()
        plan(self.ledger, self.run, replace(drop_of(("orders", f"{of}.fix.xlsx")), fixes=of), items)
        send(self.ledger, self.run)
        return self.again()

    def again(self, held=None):
        shown = {} if held is None else {"order": listing(held)}
        found = settle(self.ledger.queries, shown, self.run, SETTINGS).exceptions
        self.ledger.record_exceptions(self.run, found.standings)
        return [(one.entry, one.run, one.verdict, one.closed) for one in found.standings]

    def says(self, entry, value, name="status", at=None):
        return self.ledger.record_remarks([Remark(entry, name, value, "Ada", at or self.ledger.now())], {})


@pytest.fixture
def house(tmp_path):
    clock = Ticking()
    with ledger_in(tmp_path, clock) as ledger:
        yield House(ledger, clock)


def create(number, *problems, row=2, **changes):
    return document("order.create", order(number, **changes), [("orders", row, (f"A-{number:05}",))], *problems)


def invalid(number, row=2):
    return create(number, weight_problem("in.csv", row), row=row)


FIRST, SECOND, THIRD = (f"2026-03-0{day}-01" for day in (5, 6, 7))


def test_what_needs_someone_is_rolled_forward_with_the_run_that_first_said_so(house):
    assert house.night([invalid(1)]) == [(1, FIRST, "not sent: invalid", "")]
    assert house.night() == [(1, FIRST, "not sent: invalid", "")]
    assert house.night([invalid(2)], file="b.csv") == [
        (1, FIRST, "not sent: invalid", ""),
        (2, THIRD, "not sent: invalid", ""),
    ]


def test_a_later_document_that_is_accepted_closes_it(house):
    house.night([invalid(1)])
    assert house.night([create(1)], held=[order(1)]) == [
        (1, FIRST, "not sent: invalid", "a later document was accepted")
    ]
    assert house.again(held=[order(1)]) == [(1, FIRST, "not sent: invalid", "a later document was accepted")]
    assert house.night() == []


def test_a_document_that_was_accepted_before_does_not(house):
    house.night([create(1)], held=[order(1)])
    assert house.night([invalid(1)], held=[order(1)], file="b.csv") == [(2, SECOND, "not sent: invalid", "")]


def test_a_later_document_that_is_unchanged_closes_it_too(house):
    house.night([create(1)], held=[order(1)])
    house.night([invalid(1)], held=[order(1)], file="b.csv")
    assert house.night([create(1)], held=[order(1)], file="c.csv") == [
        (2, SECOND, "not sent: invalid", "a later document was accepted")
    ]


def fixing(entry, made):
    """A document made from the rows of an entry, returned in a fix file."""
    return replace(made, items={FIX_OF: (entry,)})


def test_a_record_that_comes_back_wrong_again_and_again_is_one_exception_with_the_age_of_the_first(house):
    house.night([invalid(1), invalid(2)])
    assert house.fix(1, fixing(1, invalid(1)), fixing(2, create(2))) == [
        (1, FIRST, "not sent: invalid", ""),
        (2, FIRST, "not sent: invalid", "a later document was accepted"),
    ]
    assert house.fix(2, fixing(3, invalid(7))) == [(1, FIRST, "not sent: invalid", "")]  # the key was wrong as well
    assert house.night() == [(1, FIRST, "not sent: invalid", "")]
    (open_one,) = house.ledger.queries.exceptions_at(house.run)
    assert (open_one.entry, open_one.latest) == (1, 5)
    assert house.fix(3, fixing(5, create(7))) == [(1, FIRST, "not sent: invalid", "a later document was accepted")]
    assert house.night() == []


def test_a_record_that_comes_back_shows_what_is_wrong_with_it_now(house):
    house.night([create(1)], answers=refused)
    assert house.fix(1, fixing(1, invalid(1))) == [(1, FIRST, "not sent: invalid", "")]
    house.says(1, "explained")
    assert house.again() == [(1, FIRST, "not sent: invalid", "explained")]


def test_of_a_record_that_comes_back_as_two_none_is_lost(house):
    house.night([invalid(1)])
    assert house.fix(1, fixing(1, invalid(2)), fixing(1, create(3))) == [
        (1, FIRST, "not sent: invalid", "a later document was accepted"),
        (2, SECOND, "not sent: invalid", ""),
    ]


def event(code, row, *problems):
    payload = {"order_id": "A-00001", "status_code": code}
    weight = problems[0].found if problems else "12"
    return document("order.status", payload, [("orders", row, ("A-00001", code, "", weight, ""))], *problems)


def test_another_status_event_closes_nothing(house):
    house.night([event("PICKED_UP", 2, weight_problem("in.csv", 2)), event("LOADED", 3)])
    assert [line[3] for line in house.night([event("DELIVERED", 2)], file="b.csv")] == [""]


def test_a_status_event_from_a_fix_of_its_drop_closes_one(house):
    house.night([event("PICKED_UP", 2, weight_problem("in.csv", 2))])
    house.run = house.ledger.begin_run()
    plan(house.ledger, house.run, replace(drop_of(("orders", "in.fix.csv")), fixes=1), [event("PICKED_UP", 2)])
    send(house.ledger, house.run)
    assert [line[3] for line in house.again()] == ["a later document was accepted"]


def test_an_event_in_the_same_file_again_is_one_exception_until_its_row_is_corrected(house):
    wrong, other = event("PICKED_UP", 2, weight_problem("in.csv", 2)), event("LOADED", 3)
    assert [line[0] for line in house.night([wrong, other])] == [1]
    shuffled = [event("LOADED", 2), event("PICKED_UP", 3, weight_problem("in.csv", 3))]
    assert [line[0] for line in house.night(shuffled)] == [1]
    (open_one,) = house.ledger.queries.exceptions_at(house.run)
    assert open_one.versions == (1, 4)
    assert house.night([event("DELIVERED", 2)], file="other.csv") == [(1, FIRST, "not sent: invalid", "")]
    right = [event("LOADED", 2), event("PICKED_UP", 3)]
    assert house.night(right) == [(1, FIRST, "not sent: invalid", "a later document was accepted")]


def test_an_unknown_outcome_that_a_listing_settles_closes_itself(house):
    assert house.night([create(1)], answers=unknown) == [(1, FIRST, "outcome unknown", "")]
    house.clock.pass_time(86_400)
    house.run = house.ledger.begin_run()
    house.ledger.settle(house.run, [Settlement(1, State.ACCEPTED, "a listing shows it", outcome="accepted")])
    assert house.again(held=[order(1)]) == [(1, FIRST, "outcome unknown", "matched")]


def test_what_is_accepted_by_now_and_no_listing_shows_is_closed_as_far_as_can_be_known(house):
    house.night([create(1)], answers=unknown)
    house.run = house.ledger.begin_run()
    house.ledger.settle(house.run, [Settlement(1, State.ACCEPTED, "decided", outcome="accepted")])
    assert [line[3] for line in house.again()] == ["accepted since"]


def test_a_difference_stays_said_until_a_listing_shows_it_anew(house):
    other = order(1, delivery_city="Köln")
    said = (1, FIRST, "value difference", "")
    assert house.night([create(1)], held=[other]) == [said]
    assert house.night() == [said]  # nobody asked the exchange
    assert house.night(held=[other]) == [said]
    assert house.night(held=[order(1)]) == [(1, FIRST, "value difference", "matched")]
    assert house.night() == []


def test_what_was_missing_and_is_listed_otherwise_is_said_anew(house):
    assert house.night([create(1)], held=[order(9)]) == [(1, FIRST, "missing at exchange", "")]
    assert house.night(held=[order(1, delivery_city="Köln")]) == [(1, FIRST, "value difference", "")]


@pytest.mark.parametrize("word", ["explained", "accepted difference"])
def test_the_analyst_closes_what_is_as_it_was_when_it_was_looked_at(house, word):
    other = order(1, delivery_city="Köln")
    house.night([create(1)], held=[other])
    assert house.says(1, word) == 1
    assert house.night(held=[other]) == [(1, FIRST, "value difference", word)]
    assert house.night(held=[other]) == []


def test_what_is_not_as_it_was_is_open_again_and_so_is_its_status(house):
    house.night([create(1)], held=[order(1, delivery_city="Köln")])
    house.says(1, "accepted difference")
    third = order(1, delivery_city="Bonn")
    assert house.night(held=[third]) == [(1, FIRST, "value difference", "")]
    assert house.night(held=[third]) == [(1, FIRST, "value difference", "")]
    remark = house.ledger.queries.remarks_on([1])[1]["status"]
    assert (remark.value, remark.who) == ("open", "loadsheet")


def test_an_exception_that_the_analyst_takes_up_again_is_open_again(house):
    house.night([invalid(1)])
    house.says(1, "explained")
    assert [line[3] for line in house.night()] == ["explained"]
    house.says(1, "open")
    assert house.night() == [(1, FIRST, "not sent: invalid", "")]


def test_fixed_is_believed_when_it_is_seen(house):
    house.night([invalid(1)])
    house.says(1, "fixed")
    assert [line[3] for line in house.night()] == [""]
    assert [line[3] for line in house.night([create(1)], held=[order(1)], file="b.csv")] == [
        "a later document was accepted"
    ]


def test_of_two_words_the_later_one_counts_however_late_it_is_read(house):
    house.night([invalid(1)])
    assert house.says(1, "Berta", name="owner", at="2026-03-09T10:00:00.000Z") == 1
    assert house.says(1, "Carl", name="owner", at="2026-03-08T10:00:00.000Z") == 0
    assert house.says(1, "Berta", name="owner", at="2026-03-10T10:00:00.000Z") == 0
    assert house.says(1, "", name="owner", at="2026-03-11T10:00:00.000Z") == 1
    assert house.ledger.queries.remarks_on([1])[1]["owner"].value == ""
    assert house.ledger.queries.owners() == ["Berta"]


def test_words_on_what_is_no_exception_are_not_kept(house):
    house.night([create(1)], held=[order(1)])
    assert house.says(1, "explained") == 0
    assert house.says(99, "explained") == 0


def test_figures_are_told_by_verdict(house):
    house.run = house.ledger.begin_run()
    items = [create(1), invalid(2, row=3), create(3, row=4)]
    items.append(document("tender.create", tender(1), [("orders", 5, ("T",))]))
    plan(house.ledger, house.run, drop_of(("orders", "in.csv")), items)
    send(house.ledger, house.run, lambda one: refused(one) if one.key == "A-00003" else None)
    found = settle(house.ledger.queries, {"order": listing([order(1)])}, house.run, SETTINGS)
    weights = {share.verdict: share.amount for share in found.shares if share.figure == "weight"}
    assert weights == {
        "matched": Decimal("413.5"),
        "not sent: invalid": Decimal("414.5"),
        "refused": Decimal("415.5"),
        "not verifiable": Decimal("612.5"),
    }

"""Children wait for their order or tender, later work for an earlier outcome: who waits, until when, and what comes then."""

from dataclasses import replace

import databases
import ledgers
import pytest
import ready_entries
from ready_entries import Settlement, decide, states

from loadsheet.ledger import State, Waits

KEY = {"order_id": "A-00000"}
PARTIES = {"sender_id": "ACME", "receiver_id": "CARGO"}
ACCEPTED, REFUSED, UNKNOWN, READY, HELD = State.ACCEPTED, State.REFUSED, State.UNKNOWN, State.READY, State.HELD
UNCHANGED, INVALID = State.UNCHANGED, State.INVALID


class Lane:
    """An order at the exchange, as files about it come into a ledger one after the other; each verb returns its drop."""

    def __init__(self, ledger):
        self.ledger, self.run = ledger, ledger.begin_run()

    def plan(self, operation, payload, file, **more):
        return ready_entries.plan(self.ledger, self.run, operation, [payload], file=file, **more)

    def create(self, city="Dresden", file="orders.csv", **more):
        return self.plan("order.create", ledgers.order(0, delivery_city=city), file, **more)

    def status(self, place="dock", order="A-00000"):
        payload = {"order_id": order, "status_code": "PU", "status_location": place}
        return self.plan("order.status", payload, f"s{place}.csv", seen=False)

    def update(self, city="Essen"):
        return self.plan("order.update", {**KEY, **PARTIES, "delivery_city": city}, f"u{city}.csv", seen=False)

    def delete(self, file="d.csv"):
        return self.plan("order.delete", KEY, file, seen=False)

    def upsert(self, city):
        """A record to be created or, where it exists, updated, as a mapping with `operation: order.upsert` makes it."""
        document = ledgers.upsert(
            ledgers.order(0, delivery_city=city), [("orders", 2, (city,))], {**KEY, **PARTIES, "delivery_city": city}
        )
        drop = ledgers.drop_of(("orders", f"{city}.csv"), mapping="upserts", operation="order.create")
        return ledgers.plan(self.ledger, self.run, drop, [document], seen=False)

    def wrong(self, row=2, **changes):
        """An order that is invalid, in this row."""
        bad = ledgers.document(
            "order.create", ledgers.order(0, **changes), [("orders", row, ("x",))], ledgers.weight_problem("o.csv", row)
        )
        return ledgers.plan(self.ledger, self.run, ledgers.drop_of(("orders", "o.csv")), [bad])

    def send(self, state=ACCEPTED):
        """Send what is ready, and all that becomes ready then; everything ends in one state. Returns the operations."""
        sent = []
        while ready := self.ledger.ready(50):
            sent.append(ready[0].operation)
            self.send_first(state)
        return sent

    def send_first(self, state):
        (one,) = ready_entries.mark(self.ledger, self.run, 1)
        self.ledger.settle(self.run, [Settlement(one.id, state, "answered", outcome=str(state))])

    def decide(self, drop, state):
        decide(self.ledger, self.run, state, self.only(drop))

    def release(self, **more):
        return self.ledger.release(self.run, **more)

    def hold(self):
        return self.ledger.hold_waiting(self.run)

    def next_run(self):
        self.run = self.ledger.begin_run()

    def only(self, drop):
        (entry,) = ready_entries.entries(self.ledger, drop)
        return entry

    def stands(self, drop):
        """State, reason to wait, and codes of the problems."""
        entry = self.only(drop)
        return entry.state, entry.waits, [problem.code for problem in entry.problems]

    def goes_as(self, drop):
        entry = self.only(drop)
        return entry.operation, str(entry.state)


@pytest.fixture
def lane(ledger):
    return Lane(ledger)


# for the order or tender


def test_a_child_is_sent_after_its_create_is_accepted_whichever_came_first(lane):
    early = lane.status()
    assert lane.only(early).waits is Waits.PARENT
    assert lane.ledger.ready(10) == []
    lane.create()
    late = lane.status("gate")
    assert [one.operation for one in lane.ledger.ready(10)] == ["order.create"], "a child does not block its create"
    assert lane.send() == ["order.create", "order.status", "order.status"]
    assert states(lane.ledger, early, late) == ["accepted", "accepted"]


@pytest.mark.parametrize(
    ("fate", "why"),
    [
        (None, "it has not been sent yet"),
        (REFUSED, "the exchange refused it"),
        (UNKNOWN, "its outcome is unknown"),
        (INVALID, "the sender must fix it first"),
    ],
)
def test_what_still_waits_at_the_end_is_held_and_says_why(lane, fate, why):
    if fate:
        lane.wrong() if fate is INVALID else lane.create()
    drop = lane.status()
    lane.send(fate)
    assert lane.hold() == 1
    assert lane.stands(drop) == (HELD, Waits.PARENT, ["L607"])
    (problem,) = lane.only(drop).problems
    assert problem.text == f"waits for order A-00000: {why}"
    assert "loadsheet retry A-00000" in problem.hint
    because = (problem.because.code, problem.because.where.row, problem.because.found) if problem.because else None
    assert because == (("C302", 2, "zwölf") if fate is INVALID else None), "it follows from the error of its order"
    assert lane.hold() == 0


@databases.ON_BOTH
def test_what_waits_for_an_order_that_only_looks_like_another_says_so(lane):
    lane.plan("order.create", ledgers.order(0, order_id="A-0000O"), "o.csv")
    drop = lane.status()
    lane.hold()
    (problem,) = lane.only(drop).problems
    assert (problem.hint, problem.because) == ("did you mean A-0000O?", None)


@databases.ON_BOTH
def test_a_held_child_is_ready_again_when_its_create_is_planned_and_goes_when_it_is_accepted(lane):
    drop = lane.status()
    lane.hold()
    lane.next_run()
    again = lane.status()
    assert states(lane.ledger, drop, again) == ["held", "unchanged"], "and comes no second time"
    assert lane.release() == 0
    lane.create()
    assert lane.release() == 1
    assert lane.stands(drop) == (READY, Waits.PARENT, [])
    assert lane.send() == ["order.create", "order.status"]


def test_a_listing_that_shows_the_order_lets_its_children_go_for_good(lane):
    drop = lane.status()
    assert lane.ledger.queries.waiting_lanes() == ["order:A-00000"]
    for _ in range(2):
        lane.ledger.record_seen(lane.run, {"order:A-00000"})
    assert lane.release() == 1
    assert lane.ledger.queries.waiting_lanes() == []
    assert lane.send() == ["order.status"]
    assert lane.only(lane.status("gate")).waits is Waits.DECISION
    assert states(lane.ledger, drop) == ["accepted"]


@databases.ON_BOTH
def test_orphans_go_where_the_setting_says_so(lane):
    held = lane.status()
    lane.hold()
    ready = lane.status(order="A-00001")
    assert lane.release(orphans=True) == 2
    assert lane.send() == ["order.status", "order.status"]
    assert states(lane.ledger, held, ready) == ["accepted", "accepted"]


@databases.ON_BOTH
def test_what_comes_behind_a_delete_waits_once_that_is_accepted(lane):
    lane.create()
    lane.delete()
    before = lane.update()
    assert lane.send() == ["order.create", "order.delete"], "a delete goes after its create"
    after = lane.status()
    lane.hold()
    assert all("it was deleted" in lane.only(drop).problems[0].text for drop in (before, after))


@pytest.mark.parametrize("orphans", [True, False])
@pytest.mark.parametrize("held_before", [True, False])
def test_a_delete_that_came_before_the_create_does_not_take_away_what_was_created_after_it(lane, orphans, held_before):
    early = lane.delete()
    if held_before:
        lane.hold()
    lane.create()
    lane.release()
    assert lane.send() == ["order.create"]
    lane.ledger.record_seen(lane.run, ["order:A-00000"])  # also if a listing shows it
    lane.release(orphans=orphans)
    assert lane.send() == []
    assert lane.only(early).state is (HELD if held_before else READY)
    lane.hold()
    assert lane.only(early).state is HELD
    assert held_before or "it was created after this" in lane.only(early).problems[0].text
    lane.delete()
    assert lane.send() == [], "the same file again is as old"
    lane.delete("later.csv")
    assert lane.send() == ["order.delete"], "a delete that comes after it does"


@databases.ON_BOTH
@pytest.mark.parametrize("held_before", [True, False])
def test_an_update_that_came_before_the_create_does_not_undo_its_values(lane, held_before):
    early, same = lane.update("Essen"), lane.update("Bonn")
    if held_before:
        lane.hold()
        lane.next_run()
    lane.create("Bonn")
    lane.release()
    assert lane.send() == ["order.create", "order.update"], "one with the values of the newer file does no harm"
    assert lane.release() == 0
    lane.hold()
    assert lane.stands(early) == (HELD, Waits.PARENT, ["L607"])
    assert "because it would undo values of the newer record" in lane.only(early).problems[0].hint
    assert states(lane.ledger, same) == ["accepted"]
    lane.update("Kiel")
    assert lane.send() == ["order.update"], "one that comes after it is sent"


def test_an_update_follows_a_create_that_has_the_same_packages_in_another_order(lane):
    pump, valve = ({**ledgers.order(0)["packages"][0], "item_name": name} for name in ("Pump", "Valve"))
    lane.plan("order.update", {**KEY, **PARTIES, "packages": [valve, pump]}, "u.csv", seen=False)
    lane.plan("order.create", ledgers.order(0, packages=[pump, valve]), "orders.csv")
    lane.release()
    assert lane.send() == ["order.create", "order.update"]


@databases.ON_BOTH
def test_an_update_follows_a_create_whose_corrected_rows_come_after_it(lane):
    wrong = lane.wrong()
    early = lane.update("Essen")
    lane.hold()
    lane.next_run()
    fix = ledgers.document("order.create", ledgers.order(0, delivery_city="Bonn"), [("orders", 2, ("x",))])
    returned = replace(ledgers.drop_of(("orders", "o.fix.xlsx")), fixes=wrong.id)
    ledgers.plan(lane.ledger, lane.run, returned, [fix])
    lane.release()
    assert lane.send() == ["order.create", "order.update"]
    assert states(lane.ledger, early) == ["accepted"]


@pytest.mark.parametrize(
    ("make", "then", "why", "hint"),
    [
        (Lane.delete, ACCEPTED, "it was created after this", "because it would delete the newer record"),
        (Lane.update, ACCEPTED, "it was created after this", "because it would undo values of the newer record"),
        (Lane.status, INVALID, "the sender must fix it first", "sent automatically once the other is at the exchange"),
    ],
)
@databases.ON_BOTH
def test_the_reason_of_what_is_still_held_is_that_of_today(lane, make, then, why, hint):
    drop = make(lane)
    lane.hold()
    assert "it has not been sent yet" in lane.only(drop).problems[0].text
    lane.next_run()
    lane.wrong() if then is INVALID else lane.create()
    lane.release()
    lane.send()
    for _ in range(2):  # the second time, nothing changes
        assert lane.hold() == 0
        assert lane.stands(drop) == (HELD, Waits.PARENT, ["L607"])
        (problem,) = lane.only(drop).problems
        assert problem.text == f"waits for order A-00000: {why}"
        assert hint in problem.hint
        reasons = [event.reason for event in lane.ledger.queries.events_of(lane.only(drop).id)]
        assert [reason.rpartition(": ")[2] for reason in reasons][-2:] == ["it has not been sent yet", why]


@databases.ON_BOTH
def test_what_waits_for_a_wrong_order_names_the_first_of_its_errors(lane):
    problems = [replace(ledgers.weight_problem("o.csv", 2), code=code) for code in ("C302", "C306", "C301")]
    problems[0] = replace(problems[0], level="warning")
    wrong = ledgers.document("order.create", ledgers.order(0), [("orders", 2, ("x",))], *problems)
    ledgers.plan(lane.ledger, lane.run, ledgers.drop_of(("orders", "o.csv")), [wrong])
    drop = lane.status()
    lane.hold()
    assert lane.only(drop).problems[0].because.code == "C306"


@databases.ON_BOTH
def test_another_wrong_version_of_the_order_changes_nothing_that_waits_for_it(lane):
    drop = lane.status()
    lane.wrong()
    lane.hold()
    before = lane.only(drop)
    assert "the sender must fix it first" in before.problems[0].text
    lane.next_run()
    lane.wrong(row=7, pickup_city="Essen")
    lane.hold()
    assert lane.only(drop) == before


# for an earlier outcome


def lost_create(lane):
    drop = lane.create()
    lane.send(UNKNOWN)
    return drop


@pytest.mark.parametrize(
    ("fate", "city", "becomes"),
    [
        (ACCEPTED, "Dresden", (UNCHANGED, [])),
        (ACCEPTED, "Essen", (HELD, ["L601"])),
        (REFUSED, "Dresden", (REFUSED, ["L604"])),
        (REFUSED, "Essen", (READY, [])),
        (READY, "Dresden", (UNCHANGED, ["L603"])),
        (READY, "Essen", (HELD, ["L605"])),
    ],
)
def test_what_waited_for_an_earlier_outcome_is_judged_by_what_came_out(lane, fate, city, becomes):
    lost = lost_create(lane)
    lane.next_run()
    drop = lane.create(city, "again.csv")
    assert lane.only(drop).waits is Waits.EARLIER
    assert lane.release() == 0
    lane.decide(lost, fate)
    assert lane.release() == 1
    assert lane.stands(drop) == (becomes[0], Waits.DECISION, becomes[1])
    assert lane.release() == 0


def test_a_second_version_says_how_to_send_it_as_nothing_else_will(lane):
    lane.create("Dresden", "one.csv")
    second = lane.create("Essen", "two.csv")
    lane.send()
    assert lane.release() == 0
    (problem,) = lane.only(second).problems
    assert problem.text.startswith("another version of A-00000 came first and had not been sent yet: delivery_city")
    assert problem.hint.endswith("loadsheet retry A-00000")


@pytest.mark.parametrize(("city", "ends"), [("Dresden", "unchanged"), ("Essen", "held")])
@pytest.mark.parametrize("before", [True, False])
def test_what_was_given_up_is_sent_by_no_later_drop_until_a_person_decides(lane, city, ends, before):
    """Whether its copies came before that or after it, however many there are; and then it is sent once."""
    lost = lost_create(lane)
    if not before:
        lane.decide(lost, HELD)
    copies = [lane.create(city, f"{number}.csv") for number in range(3)]
    if before:
        lane.decide(lost, HELD)
    for _ in range(2):  # as often as it is looked at
        lane.release()
        assert lane.stands(copies[0]) == (HELD, Waits.EARLIER, ["L602"])
        assert states(lane.ledger, *copies[1:]) == ["unchanged"] * 2
    events = len(lane.ledger.queries.events_of(lane.only(copies[0]).id))
    lane.next_run()
    lane.release()
    assert len(lane.ledger.queries.events_of(lane.only(copies[0]).id)) == events, "nothing happened to it"
    lane.decide(lost, READY)
    assert lane.send() == ["order.create"]
    lane.release()
    assert states(lane.ledger, *copies) == [ends, "unchanged", "unchanged"]
    assert lane.only(copies[0]).waits is Waits.DECISION


@pytest.mark.parametrize("make", [Lane.update, Lane.delete, Lane.status])
def test_what_was_given_up_of_an_order_that_is_there_is_sent_by_no_copy(lane, make):
    lane.create()
    lane.send()
    lost = make(lane)
    lane.send(UNKNOWN)
    lane.decide(lost, HELD)
    copy = make(lane)
    assert lane.stands(copy) == (HELD, Waits.EARLIER, ["L602"])
    assert "it was abandoned" in lane.only(copy).problems[0].hint
    assert lane.ledger.ready(10) == []


@pytest.mark.parametrize(("city", "state"), [("Dresden", UNCHANGED), ("Essen", HELD)])
def test_what_was_given_up_and_is_there_after_all_counts_as_accepted(lane, city, state):
    lost = lost_create(lane)
    lane.decide(lost, HELD)
    lane.status()
    again = lane.create(city, "again.csv")
    lane.decide(lost, ACCEPTED)
    lane.release()
    assert lane.stands(again)[:2] == (state, Waits.DECISION)
    assert lane.only(lost).problems == ()
    assert lane.send() == ["order.status"]


@databases.ON_BOTH
def test_work_behind_an_unknown_outcome_is_held_at_the_end_and_goes_in_its_order(lane):
    lane.create()
    lane.send()
    lost = lane.update()
    lane.send(UNKNOWN)
    behind = [lane.update(city) for city in ("Bonn", "Kiel")]
    assert lane.ledger.ready(10) == []
    assert lane.hold() == 2
    assert [lane.stands(drop)[2] for drop in behind] == [["L602"], ["L602"]]
    lane.decide(lost, ACCEPTED)
    assert lane.release() == 2
    assert [b"Bonn" in one.payload for one in lane.ledger.ready(10)] == [True, False]


# as an update


@databases.ON_BOTH
def test_a_changed_create_is_an_update_where_the_mapping_says_so(lane):
    lane.create()
    lane.send()
    for number, (city, operation, state) in enumerate(
        (
            ("Dresden", "order.create", "unchanged"),
            ("Essen", "order.update", "ready"),
            ("Essen", "order.update", "unchanged"),
            ("Dresden", "order.update", "ready"),
        )
    ):
        drop = lane.create(city, f"{number}.csv", changed="update")
        assert lane.goes_as(drop) == (operation, state)
        assert lane.only(drop).waits is Waits.DECISION
        lane.send()


@pytest.mark.parametrize(
    ("city", "updating", "becomes"),
    [
        ("Dresden", (), ("order.create", "unchanged", [])),
        ("Essen", (), ("order.create", "held", ["L601"])),
        ("Essen", ("order.create of new.csv",), ("order.update", "ready", [])),
    ],
)
def test_a_create_behind_a_delete_that_is_refused_is_judged_anew(lane, city, updating, becomes):
    lane.create()
    assert lane.send() == ["order.create"]
    gone, new = lane.delete(), lane.create(city, "new.csv")
    assert lane.only(new).state is READY
    lane.send_first(REFUSED)
    assert lane.only(gone).state is REFUSED
    assert lane.only(new).waits is Waits.EARLIER
    assert lane.ledger.ready(10) == [], "what stands is not created again"
    lane.release(updating=updating)
    assert (*lane.goes_as(new), lane.stands(new)[2]) == becomes


@databases.ON_BOTH
@pytest.mark.parametrize("file", ["new.csv", "new.csv + events"], ids=["alone", "with another mapping of its file"])
def test_what_waited_for_an_earlier_outcome_is_an_update_where_its_mapping_says_so(lane, file):
    lost = lost_create(lane)
    new, other = lane.create("Bonn", file), lane.create("Kiel", "other.csv")
    lane.decide(lost, ACCEPTED)
    lane.release(updating=("order.create of new.csv",))
    assert (lane.goes_as(new), lane.goes_as(other)) == (("order.update", "ready"), ("order.create", "held"))


# upserts

IS_CREATED = ("order.create", "ready", Waits.DECISION, True)
IS_UPDATED = ("order.update", "ready", Waits.DECISION, False)
WAITS = ("order.update", "ready", Waits.PARENT, False)


def stood(lane, drop):
    """As what it goes, its state, why it waits, and whether it is the whole record."""
    entry = lane.only(drop)
    return *lane.goes_as(drop), entry.waits, b"total_packages" in entry.payload


@databases.ON_BOTH
def test_an_upsert_behind_a_create_that_is_refused_creates_in_the_same_run(lane):
    first, second, third = (lane.upsert(city) for city in ("Essen", "Bonn", "Kiel"))
    assert stood(lane, second) == WAITS
    lane.send_first(REFUSED)
    assert lane.ledger.ready(10) == [], "nothing counts on what was refused"
    lane.release()
    assert lane.goes_as(first) == ("order.create", "refused")
    assert (stood(lane, second), stood(lane, third)) == (IS_CREATED, WAITS)
    assert lane.send() == ["order.create", "order.update"]
    assert lane.ledger.check() == []


def test_an_upsert_behind_an_update_that_waits_for_its_order_creates_it(lane):
    waits = lane.update()
    new = lane.upsert("Bonn")
    assert (stood(lane, waits), stood(lane, new)) == (WAITS, IS_CREATED)
    assert lane.send() == ["order.create"], "the newer file counts"
    lane.upsert("Kiel")
    assert lane.send() == ["order.update"]


@pytest.mark.parametrize(("fate", "becomes"), [(ACCEPTED, IS_UPDATED), (REFUSED, IS_CREATED), (READY, WAITS)])
@pytest.mark.parametrize("held_before", [False, True])
def test_an_upsert_behind_an_unknown_create_is_what_came_out(lane, fate, becomes, held_before):
    lost = lane.upsert("Essen")
    lane.send(UNKNOWN)
    second = lane.upsert("Bonn")
    if held_before:
        lane.hold()
        lane.next_run()
        assert lane.release() == 0, "nobody knows yet"
    lane.decide(lost, fate)
    lane.release()
    assert stood(lane, second) == becomes


@pytest.mark.parametrize(("fate", "becomes"), [(ACCEPTED, IS_CREATED), (REFUSED, IS_UPDATED)])
def test_an_upsert_behind_an_unknown_delete_is_what_came_out(lane, fate, becomes):
    lane.upsert("Essen")
    lane.send()
    gone = lane.delete()
    lane.send(UNKNOWN)
    again = lane.upsert("Bonn")
    lane.hold()
    lane.decide(gone, fate)
    lane.release()
    assert stood(lane, again) == becomes


@databases.ON_BOTH
@pytest.mark.parametrize("later", ["a create", "the same again"])
def test_an_upsert_that_waits_creates_nothing_beside_a_later_create_and_goes_once(lane, later):
    lost = lane.upsert("Essen")
    lane.send(UNKNOWN)
    waits = lane.upsert("Bonn")
    lane.hold()
    again = lane.upsert("Bonn") if later == "the same again" else None
    lane.decide(lost, REFUSED)
    again = again or lane.create("Kiel", "plain.csv")
    lane.release()
    if later == "a create":
        assert stood(lane, waits) == WAITS
        assert lane.send() == ["order.create"], "the newer file counts"
        lane.hold()
        assert stood(lane, waits)[1:3] == ("held", Waits.PARENT), "a person decides"
        assert lane.release() == 0
        assert lane.only(again).state is ACCEPTED
    else:
        assert states(lane.ledger, waits, again) == ["ready", "unchanged"]
        assert lane.send() == ["order.create"]


@pytest.mark.parametrize("changed", ["update", "hold"])
@pytest.mark.parametrize("sent", [True, False])
def test_no_sender_overwrites_the_order_of_another_one_with_the_same_number(lane, sent, changed):
    lane.create()
    if sent:
        lane.send()
        lane.next_run()
    theirs = ledgers.order(0, sender_id="OTHER", delivery_city="Essen")
    drop = lane.plan("order.create", theirs, "other.csv", changed=changed)
    assert lane.stands(drop) == (HELD, Waits.DECISION, ["L622"])
    (problem,) = lane.only(drop).problems
    for_its_sender = problem.text_for_its_sender
    assert ("ACME" in problem.text, "ACME" in for_its_sender) == (True, False), "a sender reads nothing of others"
    own = lane.create("Hamburg", "own.csv", changed="update")
    assert lane.goes_as(own) == ("order.update", "ready")


def test_another_party_may_update_an_order_and_its_own_sender_afterwards(lane):
    lane.create()
    lane.send()
    theirs = ledgers.order(0, sender_id="OTHER", delivery_city="Essen")
    update = lane.plan("order.update", theirs, "other.csv")
    assert lane.goes_as(update) == ("order.update", "ready")
    own = lane.create("Hamburg", "own.csv", changed="update")
    assert lane.goes_as(own) == ("order.update", "ready")

"""Children wait for their order or tender, later work for an earlier outcome: who waits, until when, and what comes then."""

import databases
import ledgers
import pytest
import ready_entries
from ready_entries import Settlement

from loadsheet.ledger import State, Waits

PARTIES = {"sender_id": "ACME", "receiver_id": "CARGO"}


def status(ledger, run, number=0, place="dock", **more):
    payload = {"order_id": f"A-{number:05}", "status_code": "PU", "status_location": place}
    return ready_entries.plan(ledger, run, "order.status", [payload], file=f"s{place}.csv", seen=False, **more)


def update(ledger, run, city, number=0):
    payload = {"order_id": f"A-{number:05}", **PARTIES, "delivery_city": city}
    return ready_entries.plan(ledger, run, "order.update", [payload], file=f"u{city}.csv", seen=False)


def create(ledger, run, city="Dresden", file="again.csv", **more):
    return ready_entries.plan(ledger, run, "order.create", [ledgers.order(0, delivery_city=city)], file=file, **more)


def delete(ledger, run, number=0):
    return ready_entries.plan(ledger, run, "order.delete", [{"order_id": f"A-{number:05}"}], file="d.csv", seen=False)


def only(ledger, drop):
    (entry,) = ledger.queries.entries_of(drop.id)
    return entry


def code(entry):
    return [problem.code for problem in entry.problems]


def send(ledger, run, state=State.ACCEPTED):
    """Send what is ready; everything ends in one state."""
    sent = []
    while ready := ledger.ready(50):
        one = ready[0]
        sent.append(one.operation)
        ledger.mark_sending(run, [([one], one.payload)])
        ledger.settle(run, [Settlement(one.id, state, "drawn", outcome=str(state))])
    return sent


def test_a_child_leaves_after_its_create_is_accepted_whichever_came_first(ledger, run):
    early = status(ledger, run)
    assert only(ledger, early).waits is Waits.PARENT
    assert ledger.ready(10) == []
    ready_entries.orders(ledger, run, 1)
    late = status(ledger, run, place="gate")
    assert [one.operation for one in ledger.ready(10)] == ["order.create"], "a child does not block its create"
    assert send(ledger, run) == ["order.create", "order.status", "order.status"]
    assert ready_entries.states(ledger, early, late) == ["accepted", "accepted"]


@pytest.mark.parametrize(
    ("fate", "why"),
    [
        (None, "it has not been sent yet"),
        (State.REFUSED, "the exchange refused it"),
        (State.UNKNOWN, "its outcome is unknown"),
        (State.INVALID, "the sender must fix it first"),
    ],
)
def test_what_still_waits_at_the_end_is_held_and_says_why(ledger, run, fate, why):
    if fate is State.INVALID:
        wrong = ledgers.weight_problem("o.csv", 2)
        bad = ledgers.document("order.create", ledgers.order(0), [("orders", 2, ("x",))], wrong)
        ledgers.plan(ledger, run, ledgers.drop_of(("orders", "o.csv")), [bad])
    elif fate:
        ready_entries.orders(ledger, run, 1)
    drop = status(ledger, run)
    send(ledger, run, fate)
    assert ledger.hold_waiting(run) == 1
    entry = only(ledger, drop)
    assert (entry.state, entry.waits, code(entry)) == (State.HELD, Waits.PARENT, ["L607"])
    assert entry.problems[0].text == f"waits for order A-00000: {why}"
    assert "loadsheet retry A-00000" in entry.problems[0].hint
    assert ledger.hold_waiting(run) == 0


def test_what_waits_for_an_invalid_order_follows_from_its_error(ledger, run):
    wrong = ledgers.weight_problem("o.csv", 2)
    bad = ledgers.document("order.create", ledgers.order(0), [("orders", 2, ("x",))], wrong)
    ledgers.plan(ledger, run, ledgers.drop_of(("orders", "o.csv")), [bad])
    drop = status(ledger, run)
    ledger.hold_waiting(run)
    because = only(ledger, drop).problems[0].because
    assert (because.code, because.where, because.found) == (wrong.code, wrong.where, wrong.found)


@databases.ON_BOTH
def test_what_waits_for_an_order_that_only_looks_like_another_says_so(ledger):
    run = ledger.begin_run()
    bad = ledgers.document("order.create", ledgers.order(0) | {"order_id": "A-0000O"}, [("orders", 2, ("x",))])
    ledgers.plan(ledger, run, ledgers.drop_of(("orders", "o.csv")), [bad])
    drop = status(ledger, run)
    ledger.hold_waiting(run)
    problem = only(ledger, drop).problems[0]
    assert problem.hint == "did you mean A-0000O?"
    assert problem.because is None


@databases.ON_BOTH
def test_a_held_child_is_ready_again_when_its_create_is_planned_and_goes_when_it_is_accepted(ledger):
    first = ledger.begin_run()
    drop = status(ledger, first)
    ledger.hold_waiting(first)
    second = ledger.begin_run()
    assert ledger.release(second) == 0
    ready_entries.orders(ledger, second, 1)
    assert ledger.release(second) == 1
    entry = only(ledger, drop)
    assert (entry.state, entry.waits, code(entry)) == (State.READY, Waits.PARENT, [])
    assert send(ledger, second) == ["order.create", "order.status"]


def test_a_listing_that_shows_the_order_lets_its_children_go_for_good(ledger, run):
    drop = status(ledger, run)
    assert ledger.queries.waiting_lanes() == ["order:A-00000"]
    ledger.record_seen(run, {"order:A-00000"})
    ledger.record_seen(run, {"order:A-00000"})
    assert ledger.release(run) == 1
    assert ledger.queries.waiting_lanes() == []
    assert send(ledger, run) == ["order.status"]
    assert only(ledger, status(ledger, run, place="gate")).waits is Waits.DECISION
    assert ready_entries.states(ledger, drop) == ["accepted"]


@databases.ON_BOTH
def test_orphans_go_where_the_setting_says_so(ledger, run):
    held = status(ledger, run)
    ledger.hold_waiting(run)
    ready = status(ledger, run, 1)
    assert ledger.release(run, orphans=True) == 2
    assert send(ledger, run) == ["order.status", "order.status"]
    assert ready_entries.states(ledger, held, ready) == ["accepted", "accepted"]


@databases.ON_BOTH
def test_what_comes_behind_a_delete_waits_once_that_is_accepted(ledger, run):
    ready_entries.orders(ledger, run, 1)
    delete(ledger, run)
    before = update(ledger, run, "Essen")
    assert send(ledger, run) == ["order.create", "order.delete"], "a delete goes after its create"
    after = status(ledger, run)
    ledger.hold_waiting(run)
    assert all("it was deleted" in only(ledger, drop).problems[0].text for drop in (before, after))


def test_a_delete_that_came_before_the_create_does_not_take_away_what_was_created_after_it(ledger, run):
    early = delete(ledger, run)
    ledger.hold_waiting(run)
    ready_entries.orders(ledger, run, 1)
    ledger.release(run)
    assert send(ledger, run) == ["order.create"]
    ledger.release(run)
    assert send(ledger, run) == []
    assert only(ledger, early).state is State.HELD
    delete(ledger, run)
    assert send(ledger, run) == ["order.delete"], "a delete that comes after it does"


@pytest.mark.parametrize("orphans", [True, False])
def test_a_listing_that_shows_what_was_created_since_lets_no_earlier_delete_go(ledger, run, orphans):
    early = delete(ledger, run)
    ready_entries.orders(ledger, run, 1)
    assert send(ledger, run) == ["order.create"]
    ledger.record_seen(run, ["order:A-00000"])
    ledger.release(run, orphans=orphans)
    assert ledger.ready(10) == []
    ledger.hold_waiting(run)
    assert "it was created after this" in only(ledger, early).problems[0].text


def test_a_waiting_child_that_comes_again_is_not_sent_twice(ledger, run):
    first = status(ledger, run)
    ledger.hold_waiting(run)
    again = status(ledger, ledger.begin_run())
    assert ready_entries.states(ledger, first, again) == ["held", "unchanged"]
    ledger.record_seen(run, {"order:A-00000"})
    ledger.release(run)
    assert send(ledger, run) == ["order.status"]


def lost_create(ledger, run, **changes):
    drop = ready_entries.plan(ledger, run, "order.create", [ledgers.order(0, **changes)], file=f"{changes}.csv")
    send(ledger, run, State.UNKNOWN)
    return drop


@pytest.mark.parametrize(
    ("fate", "city", "state", "codes"),
    [
        (State.ACCEPTED, "Dresden", "unchanged", []),
        (State.ACCEPTED, "Essen", "held", ["L601"]),
        (State.REFUSED, "Dresden", "refused", ["L604"]),
        (State.REFUSED, "Essen", "ready", []),
        (State.READY, "Dresden", "unchanged", ["L603"]),
        (State.READY, "Essen", "held", ["L605"]),
    ],
)
def test_what_waited_for_an_earlier_outcome_is_judged_by_what_came_out(ledger, fate, city, state, codes):
    first = ledger.begin_run()
    lost = lost_create(ledger, first)
    second = ledger.begin_run()
    drop = create(ledger, second, city)
    assert only(ledger, drop).waits is Waits.EARLIER
    assert ledger.release(second) == 0
    ledger.settle(second, [Settlement(only(ledger, lost).id, fate, "looked up")])
    assert ledger.release(second) == 1
    entry = only(ledger, drop)
    assert (str(entry.state), code(entry), entry.waits) == (state, codes, Waits.DECISION)
    assert ledger.release(second) == 0


def given_up(ledger, run, drop):
    """A person decides not to send again what nobody knows the outcome of."""
    ledger.settle(run, [Settlement(only(ledger, drop).id, State.HELD, "given up")])


@pytest.mark.parametrize("city", ["Dresden", "Essen"])
@pytest.mark.parametrize("before", [True, False])
def test_what_was_given_up_is_sent_by_no_later_drop_until_a_person_decides(ledger, run, city, before):
    lost = lost_create(ledger, run)
    if before:
        again = create(ledger, run, city)
    given_up(ledger, run, lost)
    if not before:
        again = create(ledger, run, city)
    for _ in range(2):  # as often as it is looked at
        assert ledger.release(run) == 0
        entry = only(ledger, again)
        assert (entry.state, code(entry), entry.waits) == (State.HELD, ["L602"], Waits.EARLIER)
    events = len(ledger.queries.events_of(only(ledger, again).id))
    ledger.release(ledger.begin_run())
    assert len(ledger.queries.events_of(only(ledger, again).id)) == events, "nothing happened to it"
    ledger.settle(run, [Settlement(only(ledger, lost).id, State.READY, "sent again by decision")])
    assert send(ledger, run) == ["order.create"]
    assert ledger.release(run) == 1
    assert only(ledger, again).state is (State.UNCHANGED if city == "Dresden" else State.HELD)
    assert only(ledger, again).waits is Waits.DECISION


@pytest.mark.parametrize("operation", ["order.update", "order.delete", "order.status"])
def test_what_was_given_up_of_an_order_that_is_there_is_sent_by_no_copy(ledger, run, operation):
    ready_entries.orders(ledger, run, 1)
    send(ledger, run)
    make = {"order.update": lambda: update(ledger, run, "Essen"), "order.delete": lambda: delete(ledger, run)}
    make |= {"order.status": lambda: status(ledger, run)}
    lost = make[operation]()
    send(ledger, run, State.UNKNOWN)
    given_up(ledger, run, lost)
    copy = make[operation]()
    assert (only(ledger, copy).state, code(only(ledger, copy))) == (State.HELD, ["L602"])
    assert "it was abandoned" in only(ledger, copy).problems[0].hint
    assert ledger.ready(10) == []


@pytest.mark.parametrize(("city", "state"), [("Dresden", State.UNCHANGED), ("Essen", State.HELD)])
def test_what_was_given_up_and_is_there_after_all_counts_as_accepted(ledger, run, city, state):
    lost = lost_create(ledger, run)
    given_up(ledger, run, lost)
    status(ledger, run)
    again = create(ledger, run, city)
    ledger.settle(run, [Settlement(only(ledger, lost).id, State.ACCEPTED, "found at the exchange")])
    ledger.release(run)
    assert (only(ledger, again).state, only(ledger, again).waits) == (state, Waits.DECISION)
    assert only(ledger, lost).problems == ()
    assert send(ledger, run) == ["order.status"]


def test_copies_that_waited_together_are_sent_once(ledger, run):
    lost = lost_create(ledger, run)
    drops = [create(ledger, run, file=f"{number}.csv") for number in range(3)]
    given_up(ledger, run, lost)
    ledger.release(run)
    assert ready_entries.states(ledger, *drops) == ["held", "unchanged", "unchanged"]
    ledger.settle(run, [Settlement(only(ledger, lost).id, State.READY, "sent again by decision")])
    ledger.release(run)
    assert ready_entries.states(ledger, *drops) == ["unchanged", "unchanged", "unchanged"]
    assert send(ledger, run) == ["order.create"]


@databases.ON_BOTH
def test_work_behind_an_unknown_outcome_is_held_at_the_end_and_goes_in_its_order(ledger, run):
    ready_entries.orders(ledger, run, 1)
    send(ledger, run)
    lost = update(ledger, run, "Essen")
    send(ledger, run, State.UNKNOWN)
    behind = [update(ledger, run, city) for city in ("Bonn", "Kiel")]
    assert ledger.ready(10) == []
    assert ledger.hold_waiting(run) == 2
    assert [code(only(ledger, drop)) for drop in behind] == [["L602"], ["L602"]]
    ledger.settle(run, [Settlement(only(ledger, lost).id, State.ACCEPTED, "looked up")])
    assert ledger.release(run) == 2
    assert [b"Bonn" in one.payload for one in ledger.ready(10)] == [True, False]


@databases.ON_BOTH
def test_a_changed_create_is_an_update_where_the_mapping_says_so(ledger, run):
    ready_entries.orders(ledger, run, 1)
    send(ledger, run)

    def again(city):
        return only(ledger, create(ledger, run, city, f"{city}.csv", changed="update"))

    first = again("Dresden")
    assert (first.operation, first.state) == ("order.create", State.UNCHANGED)
    changed = again("Essen")
    assert (changed.operation, changed.state, changed.waits) == ("order.update", State.READY, Waits.DECISION)
    assert send(ledger, run) == ["order.update"]
    same = again("Essen")
    assert (same.operation, same.state) == ("order.update", State.UNCHANGED)
    back = again("Dresden")
    assert (back.operation, back.state) == ("order.update", State.READY)


@pytest.mark.parametrize(
    ("same", "updating", "becomes"),
    [
        (True, (), ("order.create", "unchanged", [])),
        (False, (), ("order.create", "held", ["L601"])),
        (False, ("order.create of new.csv",), ("order.update", "ready", [])),
    ],
)
def test_a_create_behind_a_delete_that_is_refused_is_judged_anew(ledger, run, same, updating, becomes):
    ready_entries.orders(ledger, run, 1)
    assert send(ledger, run) == ["order.create"]
    gone = delete(ledger, run)
    record = ledgers.order(0) if same else ledgers.order(0, currency="CHF")
    new = ready_entries.plan(ledger, run, "order.create", [record], file="new.csv")
    assert only(ledger, new).state is State.READY
    (first,) = ledger.ready(1)
    ledger.mark_sending(run, [([first], first.payload)])
    ledger.settle(run, [Settlement(first.id, State.REFUSED, "it is under way", outcome="refused")])
    assert only(ledger, gone).state is State.REFUSED
    assert only(ledger, new).waits is Waits.EARLIER
    assert ledger.ready(10) == [], "what stands is not created again"
    ledger.release(run, updating=updating)
    entry = only(ledger, new)
    assert (entry.operation, str(entry.state), code(entry)) == becomes


@databases.ON_BOTH
@pytest.mark.parametrize("file", ["new.csv", "new.csv + events"], ids=["alone", "with another mapping of its file"])
def test_what_waited_for_an_earlier_outcome_is_an_update_where_its_mapping_says_so(ledger, run, file):
    ready_entries.orders(ledger, run, 1)
    send(ledger, run, State.UNKNOWN)
    new = ready_entries.plan(ledger, run, "order.create", [ledgers.order(0, currency="CHF")], file=file)
    other = ready_entries.plan(ledger, run, "order.create", [ledgers.order(0, currency="SEK")], file="other.csv")
    (lost,) = ledger.queries.entries_in(State.UNKNOWN)
    ledger.settle(run, [Settlement(lost.id, State.ACCEPTED, "shown by the listing")])
    ledger.release(run, updating=("order.create of new.csv",))
    assert (only(ledger, new).operation, only(ledger, new).state) == ("order.update", State.READY)
    assert (only(ledger, other).operation, only(ledger, other).state) == ("order.create", State.HELD)


def upsert(ledger, run, city):
    """A record to be created or, where it exists, updated, as a mapping with `operation: order.upsert` makes it."""
    change = {"order_id": "A-00000", **PARTIES, "delivery_city": city}
    document = ledgers.upsert(ledgers.order(0, delivery_city=city), [("orders", 2, (city,))], change)
    drop = ledgers.drop_of(("orders", f"{city}.csv"), mapping="upserts", operation="order.create")
    return ledgers.plan(ledger, run, drop, [document], seen=False)


def stood(ledger, drop):
    entry = only(ledger, drop)
    return entry.operation, str(entry.state), entry.waits, b"total_packages" in entry.payload


@databases.ON_BOTH
def test_an_upsert_behind_a_create_that_is_refused_creates_in_the_same_run(ledger, run):
    first, second, third = (upsert(ledger, run, city) for city in ("Essen", "Bonn", "Kiel"))
    assert stood(ledger, second) == ("order.update", "ready", Waits.PARENT, False)
    (one,) = ledger.ready(10)
    ledger.mark_sending(run, [([one], one.payload)])
    ledger.settle(run, [Settlement(one.id, State.REFUSED, "no such town", outcome="refused")])
    assert ledger.ready(10) == [], "nothing counts on what was refused"
    ledger.release(run)
    assert stood(ledger, first)[:2] == ("order.create", "refused")
    assert stood(ledger, second) == ("order.create", "ready", Waits.DECISION, True)
    assert stood(ledger, third) == ("order.update", "ready", Waits.PARENT, False)
    assert send(ledger, run) == ["order.create", "order.update"]
    assert ledger.check() == []


@pytest.mark.parametrize(
    ("fate", "becomes"),
    [
        (State.ACCEPTED, ("order.update", "ready", Waits.DECISION, False)),
        (State.REFUSED, ("order.create", "ready", Waits.DECISION, True)),
        (State.READY, ("order.update", "ready", Waits.PARENT, False)),
    ],
)
@pytest.mark.parametrize("held_before", [False, True])
def test_an_upsert_behind_an_unknown_create_is_what_came_out(ledger, run, fate, becomes, held_before):
    lost = upsert(ledger, run, "Essen")
    send(ledger, run, State.UNKNOWN)
    second = upsert(ledger, run, "Bonn")
    if held_before:
        ledger.hold_waiting(run)
        run = ledger.begin_run()
        assert ledger.release(run) == 0, "nobody knows yet"
    ledger.settle(run, [Settlement(only(ledger, lost).id, fate, "looked up")])
    ledger.release(run)
    assert stood(ledger, second) == becomes


@pytest.mark.parametrize(
    ("fate", "becomes"),
    [
        (State.ACCEPTED, ("order.create", "ready", Waits.DECISION, True)),
        (State.REFUSED, ("order.update", "ready", Waits.DECISION, False)),
    ],
)
def test_an_upsert_behind_an_unknown_delete_is_what_came_out(ledger, run, fate, becomes):
    upsert(ledger, run, "Essen")
    send(ledger, run)
    gone = delete(ledger, run)
    send(ledger, run, State.UNKNOWN)
    again = upsert(ledger, run, "Bonn")
    ledger.hold_waiting(run)
    ledger.settle(run, [Settlement(only(ledger, gone).id, fate, "looked up")])
    ledger.release(run)
    assert stood(ledger, again) == becomes


def test_an_upsert_that_waits_creates_nothing_beside_a_later_create(ledger, run):
    lost = upsert(ledger, run, "Essen")
    send(ledger, run, State.UNKNOWN)
    waits = upsert(ledger, run, "Bonn")
    ledger.hold_waiting(run)
    ledger.settle(run, [Settlement(only(ledger, lost).id, State.REFUSED, "looked up")])
    plain = create(ledger, run, "Kiel", "plain.csv")
    ledger.release(run)
    assert stood(ledger, waits) == ("order.update", "ready", Waits.PARENT, False)
    assert send(ledger, run) == ["order.create", "order.update"]
    assert only(ledger, plain).state is State.ACCEPTED


@databases.ON_BOTH
def test_an_upsert_that_waits_is_unchanged_when_it_comes_again_and_goes_once(ledger, run):
    lost = upsert(ledger, run, "Essen")
    send(ledger, run, State.UNKNOWN)
    waits = upsert(ledger, run, "Bonn")
    ledger.hold_waiting(run)
    again = upsert(ledger, ledger.begin_run(), "Bonn")
    ledger.settle(run, [Settlement(only(ledger, lost).id, State.REFUSED, "looked up")])
    ledger.release(run)
    assert [str(only(ledger, drop).state) for drop in (waits, again)] == ["ready", "unchanged"]
    assert send(ledger, run) == ["order.create"]

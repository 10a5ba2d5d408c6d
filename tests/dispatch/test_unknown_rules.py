"""Unknown outcomes: what a listing shows of an entry, when absence counts, and what follows for each operation and setting."""

from datetime import datetime, timedelta

import ledgers
import msgspec
import pytest
import ready_entries
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import BY_NAME, Listing
from loadsheet.dispatch.unknown_rules import (
    NO_LISTING,
    Case,
    ListingEvidence,
    Observation,
    Presence,
    UnknownTimer,
    Witness,
    conclude,
    content_before,
    said_no,
    sends_that_may_have_worked,
)
from loadsheet.ledger import Attempt, Entry, Finding, State

BEFORE, SINCE, AFTER = "2026-03-04T01:00:00.000Z", "2026-03-04T02:00:00.000Z", "2026-03-04T03:00:00.000Z"
encode = msgspec.json.Encoder(decimal_format="number").encode


def entry(operation, payload, state=State.UNKNOWN, identity=1):
    contract = BY_NAME[operation]
    return Entry(
        id=identity, drop=1, operation=operation, key=contract.key_of(payload), lane=contract.lane_of(payload), state=state,
        reason="", payload=encode(payload), content_hash="", rows=(), items={}, problems=(), receipt="", attempts=1,
        created_at=SINCE, changed_at=SINCE,
    )  # fmt: skip


KNOWN = (Witness("A-00009", BEFORE),)


def seen(what, records, *, witnesses=KNOWN, was=None, total=None, pages=1, **settings):
    found = ledgers.listing(records, total=total)
    listing = Listing(found.results, 1000, found.total_count, pages)
    operation = BY_NAME[f"{what.operation.partition('.')[0]}.list"]
    return ListingEvidence(operation, listing, [what.key], witnesses, ready_entries.settings(**settings)).of(what, was)


CREATE = entry("order.create", ledgers.order(0))
UPDATE = entry("order.update", {"order_id": "A-00000", "delivery_city": "Essen", "currency": "EUR"})
DELETE = entry("order.delete", {"order_id": "A-00000"})
WITNESS = ledgers.order(9)


@pytest.mark.parametrize(
    ("records", "more", "why"),
    [
        ([WITNESS], {}, ""),
        ([WITNESS], {"total": 2}, "1 of 2"),
        ([WITNESS], {"pages": 2}, "2 pages"),
        ([], {}, "no order that is known to exist"),
        ([ledgers.order(8)], {}, "witness"),
        ([WITNESS], {"witnesses": ()}, "witness"),
        ([{"tender_id": "T-1", **WITNESS}], {}, "witness"),
        ([WITNESS], {"fresh_witness": "required"}, "fresh_witness"),
        ([WITNESS], {"fresh_witness": "required", "witnesses": (Witness("A-00009", AFTER),)}, ""),
        ([WITNESS], {"fresh_witness": "off"}, ""),
    ],
)
def test_absence_counts_only_in_a_whole_listing_of_the_right_kind_with_a_witness(records, more, why):
    observation = seen(CREATE, records, **more)
    assert (observation.shown, observation.counts) == (Presence.ABSENT, not why)
    assert why in observation.why


@pytest.mark.parametrize(
    ("listed", "shown"),
    [
        ([ledgers.order(0)], Presence.AS_SENT),
        ([ledgers.order(0, total_weight="412.50", pickup_startdatetime="2026-03-05T08:00:00")], Presence.AS_SENT),
        ([ledgers.order(0, order_status="NEW")], Presence.AS_SENT),
        ([{"order_id": "A-00000"}], Presence.OTHERWISE),
        ([{"tender_id": "T-1", **ledgers.order(0)}], Presence.ABSENT),
        ([ledgers.order(0, delivery_city="Essen")], Presence.OTHERWISE),
        ([ledgers.order(0), ledgers.order(0)], Presence.TWICE),
        ([ledgers.order(0, order_id="a-00000")], Presence.ALIKE),
        ([ledgers.order(0, order_id=" A-00000 ")], Presence.ALIKE),
        ([ledgers.order(1)], Presence.ABSENT),
    ],
)
def test_a_create_is_there_only_as_it_was_sent(listed, shown):
    assert seen(CREATE, [WITNESS, *listed]).shown is shown


def test_another_spelling_of_a_yes_is_the_same_record():
    lost = entry("order.create", ledgers.order(0, dedicated_vehicle="yes"))
    assert seen(lost, [WITNESS, ledgers.order(0, dedicated_vehicle="true")]).shown is Presence.AS_SENT


def test_zeros_in_front_of_digits_make_a_key_alike():
    lost = entry("order.create", ledgers.order(0, order_id="00123"))
    assert seen(lost, [WITNESS, ledgers.order(0, order_id="123")]).shown is Presence.ALIKE
    assert seen(lost, [WITNESS, ledgers.order(0, order_id="1230")]).shown is Presence.ABSENT


@pytest.mark.parametrize(
    ("city", "was", "shown"),
    [
        ("Essen", ledgers.order(0), Presence.AS_SENT),
        ("Dresden", ledgers.order(0), Presence.AS_BEFORE),
        ("Bonn", ledgers.order(0), Presence.OTHERWISE),
        ("Dresden", None, Presence.OTHERWISE),
    ],
)
def test_an_update_is_done_or_not_done_or_somebody_else_was_there(city, was, shown):
    observation = seen(UPDATE, [WITNESS, ledgers.order(0, delivery_city=city)], was=was)
    assert observation.shown is shown
    assert (shown is Presence.OTHERWISE) == ("delivery_city" in observation.detail)


def test_an_update_of_a_field_that_was_not_there_is_not_done_while_it_is_still_missing():
    lost = entry("order.update", {"order_id": "A-00000", "goods_description": "Kabel"})
    assert seen(lost, [WITNESS, ledgers.order(0)], was=ledgers.order(0)).shown is Presence.AS_BEFORE


@pytest.mark.parametrize(
    ("records", "was", "shown"),
    [
        ([ledgers.order(0)], ledgers.order(0), Presence.AS_BEFORE),
        ([ledgers.order(0, currency="USD")], ledgers.order(0), Presence.OTHERWISE),
        ([ledgers.order(0)], None, Presence.OTHERWISE),
        ([], ledgers.order(0), Presence.ABSENT),
    ],
)
def test_a_delete_is_not_done_while_its_record_is_as_it_was(records, was, shown):
    assert seen(DELETE, [WITNESS, *records], was=was).shown is shown


def test_what_a_record_was_is_made_of_what_was_accepted_in_its_order():
    made = entry("order.create", ledgers.order(0), State.ACCEPTED)
    changed = entry("order.update", {"order_id": "A-00000", "currency": "USD"}, State.ACCEPTED)
    gone = entry("order.delete", {"order_id": "A-00000"}, State.ACCEPTED)
    told = entry("order.status", {"order_id": "A-00000", "status_code": "PU"}, State.ACCEPTED)
    assert content_before([]) is None
    assert content_before([changed]) is None, "nobody here knows what it was"
    assert content_before([made, told, changed])["currency"] == "USD"
    assert "status_code" not in content_before([made, told])
    assert content_before([made, gone]) is None
    assert content_before([made, changed, gone, made])["currency"] == "EUR"


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 8), st.sampled_from(["preferred", "required", "off"]))
def test_absence_never_counts_where_the_record_is_shown(numbers, missing, freshness):
    listed = [ledgers.order(number) for number in numbers]
    witnesses = [Witness(f"A-{number:05}", AFTER) for number in range(1, 6)]
    observation = seen(CREATE, listed, witnesses=witnesses, total=len(listed) + missing, fresh_witness=freshness)
    assert (observation.shown is Presence.ABSENT) == (0 not in numbers)
    assert observation.counts == (missing == 0 and any(numbers))


# what follows

CREATES, UPDATES, DELETES = (
    [f"{subject}.{what}" for subject in ("order", "tender")] for what in ("create", "update", "delete")
)
GATED = {"create_after_absent": "resend", "assumptions": {"create_existing": "reject"}}
QUOTED = {"quote_on_unknown": "resend_once", "assumptions": {"quote_existing": "replace"}}
DAY = 86_400.0


def at(seconds):
    return (
        (datetime.fromisoformat(SINCE) + timedelta(seconds=seconds))
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def look(seconds, shown=Presence.ABSENT, *, counts=True):
    return Finding(1, "run", at(seconds), shown, counts, "")


def case(operation, shown, *, waited=DAY, counts=True, sends=1, looks=(), detail="city a / b"):
    observation = (
        NO_LISTING
        if shown is Presence.NO_LISTING
        else Observation(shown, counts, "" if counts else "no witness", detail)
    )
    lost = CREATE._replace(operation=operation, key="K-1")
    return Case(lost, observation, at(waited), waited, sends, looks)


def concluded(*words, settings=None, **more):
    return conclude(case(*words, **more), ready_entries.settings(**(settings or {})))


SEEN_TWICE = {"looks": (look(1000),)}


@pytest.mark.parametrize("operation", [*CREATES, *UPDATES])
def test_presence_is_proof_at_once(operation):
    assert concluded(operation, Presence.AS_SENT, waited=0.1, counts=False).state is State.ACCEPTED


@pytest.mark.parametrize("operation", [*CREATES, *UPDATES, *DELETES])
@pytest.mark.parametrize("shown", [Presence.OTHERWISE, Presence.TWICE, Presence.ALIKE, Presence.NO_LISTING])
def test_what_is_not_clear_stays_unknown_whatever_is_set(operation, shown):
    found = concluded(operation, shown, settings=GATED, **SEEN_TWICE)
    assert (found.state, found.counts) == (None, False)
    assert "loadsheet resolve K-1" in found.text


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"counts": False, **SEEN_TWICE}, "no witness"),
        ({"waited": 899.0, **SEEN_TWICE}, "quiesce_s"),
        ({}, "second listing"),
        ({"looks": (look(DAY - 59),)}, "confirm_gap_s"),
        ({"looks": (look(1000, counts=False),)}, "second listing"),
        ({"looks": (look(1000, Presence.OTHERWISE),)}, "second listing"),
        ({"looks": (look(-5),)}, "second listing"),
    ],
)
@pytest.mark.parametrize("operation", [*CREATES, *DELETES])
def test_absence_is_proved_only_by_every_rule(operation, more, rule):
    found = concluded(operation, Presence.ABSENT, settings=GATED, **more)
    assert found.state is None
    assert rule in found.text


@pytest.mark.parametrize("operation", CREATES)
def test_a_create_proved_absent_waits_for_a_person_or_is_sent_again(operation):
    review = concluded(operation, Presence.ABSENT, **SEEN_TWICE)
    assert (review.state, review.counts) == (None, True)
    assert "proved absent" in review.text
    assert concluded(operation, Presence.ABSENT, settings=GATED, **SEEN_TWICE).state is State.READY
    vouched = {"create_after_absent": "resend", "trust_quiesce": True}
    assert concluded(operation, Presence.ABSENT, settings=vouched, **SEEN_TWICE).state is State.READY
    spent = concluded(operation, Presence.ABSENT, settings=GATED, sends=2, **SEEN_TWICE)
    assert spent.state is None
    assert "create_sends_max" in spent.text


@pytest.mark.parametrize("operation", DELETES)
def test_a_delete_whose_record_is_proved_gone_is_accepted(operation):
    assert concluded(operation, Presence.ABSENT, **SEEN_TWICE).state is State.ACCEPTED
    assert concluded(operation, Presence.ABSENT, sends=9, **SEEN_TWICE).state is State.ACCEPTED


@pytest.mark.parametrize("operation", [*UPDATES, *DELETES])
def test_a_record_that_is_as_it_was_before_is_sent_again_after_the_pause(operation):
    assert concluded(operation, Presence.AS_BEFORE).state is State.READY
    assert "quiesce_s" in concluded(operation, Presence.AS_BEFORE, waited=800).text
    assert "sends_max" in concluded(operation, Presence.AS_BEFORE, sends=3).text
    setting = f"{BY_NAME[operation].action}_resend"
    assert setting in concluded(operation, Presence.AS_BEFORE, settings={setting: False}).text


@pytest.mark.parametrize("operation", UPDATES)
def test_an_update_whose_record_is_not_listed_stays_unknown(operation):
    assert concluded(operation, Presence.ABSENT, **SEEN_TWICE).state is None


def test_a_status_update_is_sent_once_more_and_named():
    found = concluded("order.status", Presence.NO_LISTING)
    assert (found.state, found.problem.code, found.problem.level) == (State.READY, "L608", "warning")
    assert "2 times" in found.problem.text
    assert "status_quiesce_s" in concluded("order.status", Presence.NO_LISTING, waited=119).text
    assert concluded("order.status", Presence.NO_LISTING, sends=2).state is None
    assert concluded("order.status", Presence.NO_LISTING, settings={"status_on_unknown": "review"}).state is None


def test_a_quote_is_sent_once_more_only_where_a_second_replaces_the_first():
    assert concluded("tender.quote", Presence.NO_LISTING).state is None
    found = concluded("tender.quote", Presence.NO_LISTING, settings=QUOTED)
    assert (found.state, found.problem.code) == (State.READY, "L608")
    assert concluded("tender.quote", Presence.NO_LISTING, settings=QUOTED, waited=800).state is None
    assert concluded("tender.quote", Presence.NO_LISTING, settings=QUOTED, sends=2).state is None


def test_a_decision_on_a_quote_is_never_sent_again_by_itself():
    for settings in ({}, GATED, QUOTED):
        assert concluded("tender.confirm", Presence.NO_LISTING, settings=settings).state is None


def test_what_stays_says_what_to_do():
    for operation in (one.name for one in BY_NAME.values() if one.is_write):
        for shown in Presence:
            found = concluded(operation, shown)
            assert found.text
            assert found.state or "loadsheet resolve K-1" in found.text


def test_only_attempts_that_may_have_worked_count():
    outcomes = ["unknown", "not sent", "", "refused", "accepted", "not authorised"]
    attempts = [Attempt(place, "run", at(0), "", outcome, None, "", None) for place, outcome in enumerate(outcomes)]
    assert sends_that_may_have_worked(attempts) == 2


class Clocks:
    """A wall clock and a monotonic one that a test moves."""

    def __init__(self):
        self.wall, self.steady = 0.0, 500.0

    def now(self):
        return at(self.wall)

    def monotonic(self):
        return self.steady

    def move(self, wall, steady):
        self.wall, self.steady = self.wall + wall, self.steady + steady


def test_a_wall_clock_put_forward_shortens_no_pause():
    clocks = Clocks()
    timer = UnknownTimer(clocks.now, clocks.monotonic)
    clocks.move(10, 10)
    since = clocks.now()
    clocks.move(3600, 5)
    assert timer.waited_s(since) == 5
    clocks.move(100, 100)
    assert timer.waited_s(since) == 105


def test_a_wall_clock_put_back_lengthens_a_pause():
    clocks = Clocks()
    timer = UnknownTimer(clocks.now, clocks.monotonic)
    since = clocks.now()
    clocks.move(-3600, 60)
    assert timer.waited_s(since) == -3600


def test_what_became_unknown_in_an_earlier_process_is_measured_by_the_wall_clock():
    clocks = Clocks()
    assert UnknownTimer(clocks.now, clocks.monotonic).waited_s(at(-7200)) == 7200


SAID = "a success that says no: status is False, not true"


@pytest.mark.parametrize("operation", [*CREATES, *UPDATES, *DELETES])
def test_a_success_that_says_no_is_refused_once_it_is_proved_absent(operation):
    """Whatever the settings allow to be sent again: it was answered, and with no."""
    shown = Presence.ABSENT if operation in CREATES else Presence.AS_BEFORE
    told = case(operation, shown, **SEEN_TWICE)._replace(said_no=SAID)
    for changes in ({}, GATED):
        found = conclude(told, ready_entries.settings(**changes))
        assert (found.state, found.problem.code, found.problem.values["text"]) == (State.REFUSED, "X701", SAID)
    early = case(operation, shown, waited=899.0, **SEEN_TWICE)._replace(said_no=SAID)
    assert conclude(early, ready_entries.settings(**GATED)).state is None, "it may still be applied"


def test_a_no_counts_only_if_every_attempt_that_may_have_worked_got_it():
    def attempt(number, outcome, detail):
        return Attempt(number, "run", at(0), "", outcome, 200, detail, 1)

    no, lost = attempt(1, "unknown", f'{SAID}; it began ""'), attempt(2, "unknown", "no answer")
    busy = attempt(3, "not sent", "the exchange is busy")
    assert said_no([no, busy]).startswith(SAID)
    assert (said_no([no, lost]), said_no([lost]), said_no([busy]), said_no([])) == ("", "", "", "")

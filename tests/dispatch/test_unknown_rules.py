"""Unknown outcomes: what a listing shows of an entry, when absence counts, and what follows for each operation and setting."""

from datetime import datetime, timedelta

import pytest
import ready_entries
from exchange_calls import encode
from hypothesis import given
from hypothesis import strategies as st
from ledgers import listing, order

from loadsheet.contract import BY_NAME, Listing
from loadsheet.dispatch.unknown_rules import (
    NO_LISTING,
    Case,
    ListingEvidence,
    Observation,
    Presence,
    UnknownTimer,
    Witness,
    content_before,
    decide_case,
    sends_that_may_have_worked,
    status_false_text,
)
from loadsheet.ledger import Attempt, Entry, ListingFinding, State
from loadsheet.mapping.documents import NO_LINKS

BEFORE, SINCE, AFTER = "2026-03-04T01:00:00.000Z", "2026-03-04T02:00:00.000Z", "2026-03-04T03:00:00.000Z"


def entry(operation, payload, state=State.UNKNOWN):
    contract = BY_NAME[operation]
    return Entry(
        id=1, drop=1, operation=operation, key=contract.key_of(payload), lane=contract.lane_of(payload), state=state,
        reason="", payload=encode(payload), content_hash="", rows=(), links=NO_LINKS, problems=(), service_order="", attempts=1,
        created_at=SINCE, changed_at=SINCE,
    )  # fmt: skip


# what a listing shows

KEY = {"order_id": "A-00000"}
CREATE = entry("order.create", order(0))
UPDATE = entry("order.update", {**KEY, "delivery_city": "Essen", "currency": "EUR"})
DELETE = entry("order.delete", KEY)
WITNESS = order(9)
KNOWN = (Witness("A-00009", BEFORE),)
FRESH = (Witness("A-00009", AFTER),)


def seen(what, records, *, witnesses=KNOWN, was=None, total=None, pages=1, **settings):
    found = listing(records, total=total)
    found = Listing(found.results, 1000, found.total_count, pages)
    operation = BY_NAME[f"{what.operation.partition('.')[0]}.list"]
    return ListingEvidence(operation, found, [what.key], witnesses, ready_entries.settings(**settings)).of(what, was)


@pytest.mark.parametrize(
    ("records", "more", "why"),
    [
        ([WITNESS], {}, ""),
        ([WITNESS], {"total": 2}, "1 of 2"),
        ([WITNESS], {"pages": 2}, "2 pages"),
        ([], {}, "no order that is known to exist"),
        ([order(8)], {}, "witness"),
        ([WITNESS], {"witnesses": ()}, "witness"),
        ([{"tender_id": "T-1", **WITNESS}], {}, "witness"),
        ([WITNESS], {"fresh_witness": "required"}, "fresh_witness"),
        ([WITNESS], {"fresh_witness": "required", "witnesses": FRESH}, ""),
        ([WITNESS], {"fresh_witness": "off"}, ""),
    ],
)
def test_absence_counts_only_in_a_whole_listing_of_the_right_kind_with_a_witness(records, more, why):
    observation = seen(CREATE, records, **more)
    assert (observation.shown, observation.absence_is_proof) == (Presence.ABSENT, not why)
    assert why in observation.why


ZEROS = entry("order.create", order(0, order_id="00123"))
ABSENT, AS_SENT, AS_BEFORE, OTHERWISE = Presence.ABSENT, Presence.AS_SENT, Presence.AS_BEFORE, Presence.OTHERWISE


@pytest.mark.parametrize(
    ("lost", "listed", "shown"),
    [
        (CREATE, [order(0)], AS_SENT),
        (CREATE, [order(0, total_weight="412.50", pickup_startdatetime="2026-03-05T08:00:00")], AS_SENT),
        (CREATE, [order(0, order_status="NEW")], AS_SENT),
        (entry("order.create", order(0, dedicated_vehicle="yes")), [order(0, dedicated_vehicle="true")], AS_SENT),
        (CREATE, [KEY], OTHERWISE),
        (CREATE, [order(0, delivery_city="Essen")], OTHERWISE),
        (CREATE, [order(0), order(0)], Presence.TWICE),
        (CREATE, [order(0, order_id="a-00000")], Presence.ALIKE),
        (CREATE, [order(0, order_id=" A-00000 ")], Presence.ALIKE),
        (ZEROS, [order(0, order_id="123")], Presence.ALIKE),
        (ZEROS, [order(0, order_id="1230")], ABSENT),
        (CREATE, [order(1)], ABSENT),
        (CREATE, [{"tender_id": "T-1", **order(0)}], ABSENT),
    ],
)
def test_a_create_is_there_only_as_it_was_sent(lost, listed, shown):
    assert seen(lost, [WITNESS, *listed]).shown is shown


@pytest.mark.parametrize(
    ("lost", "listed", "was", "shown"),
    [
        (UPDATE, [order(0, delivery_city="Essen")], order(0), AS_SENT),
        (UPDATE, [order(0)], order(0), AS_BEFORE),
        (UPDATE, [order(0, delivery_city="Bonn")], order(0), OTHERWISE),
        (UPDATE, [order(0)], None, OTHERWISE),
        (entry("order.update", {**KEY, "goods_description": "Kabel"}), [order(0)], order(0), AS_BEFORE),
        (DELETE, [order(0)], order(0), AS_BEFORE),
        (DELETE, [order(0, currency="USD")], order(0), OTHERWISE),
        (DELETE, [order(0)], None, OTHERWISE),
        (DELETE, [], order(0), ABSENT),
    ],
)
def test_an_update_or_a_delete_is_done_or_not_done_or_somebody_else_was_there(lost, listed, was, shown):
    observation = seen(lost, [WITNESS, *listed], was=was)
    assert observation.shown is shown
    assert ("delivery_city" in observation.detail) == (lost is UPDATE and shown is OTHERWISE)


def test_what_a_record_was_is_made_of_what_was_accepted_in_its_order():
    made = entry("order.create", order(0), State.ACCEPTED)
    changed = entry("order.update", {**KEY, "currency": "USD"}, State.ACCEPTED)
    gone = entry("order.delete", KEY, State.ACCEPTED)
    told = entry("order.status", {**KEY, "status_code": "PU"}, State.ACCEPTED)
    assert content_before([]) is None
    assert content_before([changed]) is None, "nobody here knows what it was"
    assert content_before([made, told, changed])["currency"] == "USD"
    assert "status_code" not in content_before([made, told])
    assert content_before([made, gone]) is None
    assert content_before([made, changed, gone, made])["currency"] == "EUR"


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 8), st.sampled_from(["preferred", "required", "off"]))
def test_absence_never_counts_where_the_record_is_shown(numbers, missing, freshness):
    listed, witnesses = [order(number) for number in numbers], [Witness(f"A-{n:05}", AFTER) for n in range(1, 6)]
    observation = seen(CREATE, listed, witnesses=witnesses, total=len(listed) + missing, fresh_witness=freshness)
    assert (observation.shown is ABSENT) == (0 not in numbers)
    assert observation.absence_is_proof == (missing == 0 and any(numbers))


# what follows

CREATES, UPDATES, DELETES = (
    [f"{subject}.{what}" for subject in ("order", "tender")] for what in ("create", "update", "delete")
)
GATED = {"create_after_absent": "resend", "assumptions": {"create_existing": "reject"}}
QUOTED = {"quote_on_unknown": "resend_once", "assumptions": {"quote_existing": "replace"}}
DAY = 86_400.0


def at(seconds):
    moment = datetime.fromisoformat(SINCE) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def look(seconds, shown=ABSENT, *, proves=True):
    return ListingFinding(1, "run", at(seconds), shown, proves, "")


SEEN_TWICE = {"earlier": (look(1000),)}
SAID = "an answer 200 that reports a failure: status is false"


def concluded(operation, shown, *, settings=None, waited=DAY, proves=True, sends=1, earlier=(), said=""):
    observation = Observation(shown, proves, "" if proves else "no witness", "city a / b")
    if shown is Presence.NO_LISTING:
        observation = NO_LISTING
    lost = CREATE._replace(operation=operation, key="K-1")
    case = Case(lost, observation, at(waited), waited, sends, earlier)._replace(status_false_text=said)
    return decide_case(case, ready_entries.settings(**(settings or {})))


@pytest.mark.parametrize("operation", [*CREATES, *UPDATES])
def test_presence_is_proof_at_once(operation):
    assert concluded(operation, AS_SENT, waited=0.1, proves=False).state is State.ACCEPTED


@pytest.mark.parametrize("operation", [*CREATES, *UPDATES, *DELETES])
def test_what_is_not_clear_stays_unknown_whatever_is_set(operation):
    for shown in (OTHERWISE, Presence.TWICE, Presence.ALIKE, Presence.NO_LISTING):
        found = concluded(operation, shown, settings=GATED, **SEEN_TWICE)
        assert (found.state, found.proves_absence) == (None, False), shown
        assert "loadsheet resolve K-1" in found.text
    assert operation not in UPDATES or concluded(operation, ABSENT, **SEEN_TWICE).state is None


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"proves": False, **SEEN_TWICE}, "no witness"),
        ({"waited": 899.0, **SEEN_TWICE}, "too early to be sure for another 1 minute (verification.quiesce_s)"),
        ({}, "second listing"),
        ({"earlier": (look(DAY - 59),)}, "confirm_gap_s"),
        ({"earlier": (look(1000, proves=False),)}, "second listing"),
        ({"earlier": (look(1000, OTHERWISE),)}, "second listing"),
        ({"earlier": (look(-5),)}, "second listing"),
    ],
)
@pytest.mark.parametrize("operation", [*CREATES, *DELETES])
def test_absence_is_proved_only_by_every_rule(operation, more, rule):
    found = concluded(operation, ABSENT, settings=GATED, **more)
    assert found.state is None
    assert rule in found.text


@pytest.mark.parametrize("operation", CREATES)
def test_a_create_proved_absent_waits_for_a_person_or_is_sent_again(operation):
    review = concluded(operation, ABSENT, **SEEN_TWICE)
    assert (review.state, review.proves_absence) == (None, True)
    assert "proved absent" in review.text
    for settings in (GATED, {"create_after_absent": "resend", "trust_quiesce": True}):
        assert concluded(operation, ABSENT, settings=settings, **SEEN_TWICE).state is State.READY
        assert concluded(operation, ABSENT, settings=settings, waited=900, earlier=(look(840),)).state is State.READY
    spent = concluded(operation, ABSENT, settings=GATED, sends=2, **SEEN_TWICE)
    assert spent.state is None
    assert "create_sends_max" in spent.text


@pytest.mark.parametrize("operation", DELETES)
def test_a_delete_whose_record_is_proved_gone_is_accepted(operation):
    for sends in (1, 9):
        assert concluded(operation, ABSENT, sends=sends, **SEEN_TWICE).state is State.ACCEPTED


@pytest.mark.parametrize("operation", [*UPDATES, *DELETES])
def test_a_record_that_is_as_it_was_before_is_sent_again_after_the_pause(operation):
    assert concluded(operation, AS_BEFORE).state is State.READY
    assert concluded(operation, AS_BEFORE, waited=900).state is State.READY
    assert "another 2 minutes (verification.quiesce_s)" in concluded(operation, AS_BEFORE, waited=800).text
    assert "sends_max" in concluded(operation, AS_BEFORE, sends=3).text
    setting = f"{BY_NAME[operation].action}_resend"
    assert setting in concluded(operation, AS_BEFORE, settings={setting: False}).text


def test_a_status_update_is_sent_once_more_and_named():
    found = concluded("order.status", Presence.NO_LISTING)
    assert (found.state, found.problem.code, found.problem.level) == (State.READY, "L608", "warning")
    assert "2 times" in found.problem.text
    assert "status_quiesce_s" in concluded("order.status", Presence.NO_LISTING, waited=119).text
    assert concluded("order.status", Presence.NO_LISTING, waited=120).state is State.READY
    assert concluded("order.status", Presence.NO_LISTING, sends=2).state is None
    assert concluded("order.status", Presence.NO_LISTING, settings={"status_on_unknown": "review"}).state is None


def test_a_quote_is_sent_once_more_only_where_a_second_replaces_the_first():
    assert concluded("tender.quote", Presence.NO_LISTING).state is None
    found = concluded("tender.quote", Presence.NO_LISTING, settings=QUOTED)
    assert (found.state, found.problem.code) == (State.READY, "L608")
    for more in ({"waited": 800}, {"sends": 2}):
        assert concluded("tender.quote", Presence.NO_LISTING, settings=QUOTED, **more).state is None


def test_a_decision_on_a_quote_is_never_sent_again_by_itself():
    for settings in ({}, GATED, QUOTED):
        assert concluded("tender.confirm", Presence.NO_LISTING, settings=settings).state is None


def test_what_stays_says_what_to_do():
    for operation in (one.name for one in BY_NAME.values() if one.is_write):
        for shown in Presence:
            found = concluded(operation, shown)
            assert found.text
            assert found.state or "loadsheet resolve K-1" in found.text


@pytest.mark.parametrize("operation", [*CREATES, *UPDATES, *DELETES])
def test_a_success_that_says_no_is_refused_once_it_is_proved_absent(operation):
    """Whatever the settings allow to be sent again: it was answered, and with no."""
    shown = ABSENT if operation in CREATES else AS_BEFORE
    for settings in ({}, GATED):
        found = concluded(operation, shown, settings=settings, said=SAID, **SEEN_TWICE)
        assert (found.state, found.problem.code, found.problem.values["text"]) == (State.REFUSED, "X701", SAID)
    early = concluded(operation, shown, settings=GATED, waited=899.0, said=SAID, **SEEN_TWICE)
    assert early.state is None, "it may still be applied"


def attempt(outcome, detail=""):
    return Attempt(1, "run", at(0), "", outcome, 200, detail, 1)


def test_only_attempts_that_may_have_worked_count():
    outcomes = ["unknown", "not sent", "", "refused", "accepted", "not authorised"]
    assert sends_that_may_have_worked([attempt(outcome) for outcome in outcomes]) == 2
    no, lost = attempt("unknown", f'{SAID}; it began ""'), attempt("unknown", "no answer")
    busy = attempt("not sent", "the exchange is busy")
    assert status_false_text([no, busy]).startswith(SAID)
    old = attempt("unknown", "a success that says no: status is false")
    assert status_false_text([no, old]) == old.detail, "as ledgers of 0.5.0 have it"
    assert (
        status_false_text([no, lost]),
        status_false_text([lost]),
        status_false_text([busy]),
        status_false_text([]),
    ) == ("", "", "", "")


# for how long


class Clocks:
    """A wall clock and a monotonic one that a test moves."""

    def __init__(self):
        self.wall, self.steady = 0.0, 500.0
        self.timer = UnknownTimer(self.now, lambda: self.steady)

    def now(self):
        return at(self.wall)

    def move(self, wall, steady):
        self.wall, self.steady = self.wall + wall, self.steady + steady


def test_a_wall_clock_put_forward_shortens_no_pause():
    clocks = Clocks()
    clocks.move(10, 10)
    since = clocks.now()
    for wall, steady, waited in ((3600, 5, 5), (100, 100, 105)):
        clocks.move(wall, steady)
        assert clocks.timer.waited_s(since) == waited


def test_a_wall_clock_put_back_lengthens_a_pause_and_an_earlier_process_is_measured_by_it():
    clocks = Clocks()
    since = clocks.now()
    assert clocks.timer.waited_s(at(-7200)) == 7200
    clocks.move(-3600, 60)
    assert clocks.timer.waited_s(since) == -3600

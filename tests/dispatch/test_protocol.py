"""What follows from each case, operation by operation and setting by setting."""

from datetime import UTC, datetime, timedelta

import pytest
import ready_entries

from loadsheet.contract import BY_NAME
from loadsheet.dispatch.unknown_rules import (
    NO_LISTING,
    Case,
    Observation,
    Presence,
    UnknownTimer,
    conclude,
    said_no,
    sends_that_may_have_worked,
)
from loadsheet.ledger import Attempt, Entry, Finding, State

START = datetime(2026, 3, 4, 2, 0, tzinfo=UTC)
CREATES, UPDATES, DELETES = (
    [f"{subject}.{what}" for subject in ("order", "tender")] for what in ("create", "update", "delete")
)
GATED = {"create_after_absent": "resend", "assumptions": {"create_existing": "reject"}}
QUOTED = {"quote_on_unknown": "resend_once", "assumptions": {"quote_existing": "replace"}}
DAY = 86_400.0


def at(seconds):
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def entry(operation):
    return Entry(
        id=1, drop=1, operation=operation, key="K-1", lane="order:K-1", state=State.UNKNOWN, reason="no answer",
        payload=b"{}", content_hash="", rows=(), items={}, problems=(), receipt="", attempts=9, created_at=at(0),
        changed_at=at(0),
    )  # fmt: skip


def look(seconds, shown=Presence.ABSENT, *, counts=True):
    return Finding(1, "run", at(seconds), shown, counts, "")


def case(operation, shown, *, waited=DAY, counts=True, sends=1, looks=(), detail="city a / b"):
    observation = (
        NO_LISTING
        if shown is Presence.NO_LISTING
        else Observation(shown, counts, "" if counts else "no witness", detail)
    )
    return Case(entry(operation), observation, at(waited), waited, sends, looks)


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
    for given in ({}, GATED):
        found = conclude(told, ready_entries.settings(**given))
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

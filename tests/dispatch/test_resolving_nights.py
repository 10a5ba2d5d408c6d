"""A lost answer, and the nights after it, on the real exchange with its truth log: every operation under every setting."""

from collections import Counter
from contextlib import contextmanager
from typing import NamedTuple

import ledgers
import pytest
import sendings
from misbehaving import misbehaving
from serving import TOKEN

from loadsheet.dispatch import Patience, resolve_unknown, send
from loadsheet.exchange import FaultClass
from loadsheet.ledger import State

PARTIES = {"sender_id": "ACME", "receiver_id": "CARGO"}
QUOTE = {"tender_id": "T-0000", **PARTIES, "tenderRate": "950.00", "carrier_id": "C-1", "currency": "EUR"}
PAYLOADS = {
    "order.create": ledgers.order(0),
    "order.update": {"order_id": "A-00000", **PARTIES, "delivery_city": "Essen"},
    "order.delete": {"order_id": "A-00000"},
    "order.status": {"order_id": "A-00000", "status_code": "PU", "status_location": "gate"},
    "tender.create": ledgers.tender(0),
    "tender.update": ledgers.tender(0, tender_status="CLOSED"),
    "tender.delete": {"tender_id": "T-0000"},
    "tender.quote": QUOTE,
    "tender.confirm": {**QUOTE, "status": "accept"},
}
BOLD = {
    "create_after_absent": "resend",
    "quote_on_unknown": "resend_once",
    "assumptions": {"create_existing": "reject", "quote_existing": "replace"},
}
CAREFUL = {"update_resend": False, "delete_resend": False, "status_on_unknown": "review"}
PROFILES = {"default": {}, "bold": BOLD, "careful": CAREFUL}
HAPPENED = {"reset_before_effect": 0, "reset_after_effect": 1}


class Ended(NamedTuple):
    """How the lost record stands after all nights, and how often its effect happened."""

    state: str
    reason: str
    codes: list[str]
    hint: str
    effects: int
    findings: int


@contextmanager
def at_work(folder, rule, clock, options, **assumptions):
    """The misbehaving exchange, a ledger and a client of it."""
    with (
        misbehaving(folder, rule, **assumptions) as exchange,
        ledgers.ledger_in(folder, clock) as ledger,
        sendings.client_of(exchange.exchange.url, options, TOKEN) as client,
    ):
        yield exchange, ledger, client


def before(ledger, run, operation):
    """What is at the exchange before the lost call: a witness of each kind, and the parents of the operation."""
    subject, action = operation.split(".")
    first = 1 if action == "create" else 0
    if subject == "order":
        sendings.plan(ledger, run, "order.create", [ledgers.order(n) for n in range(first, 3)], file="o.csv")
    else:
        sendings.plan(ledger, run, "tender.create", [ledgers.tender(n) for n in range(first, 3)], file="t.csv")
    if action == "confirm":
        sendings.plan(ledger, run, "tender.quote", [QUOTE], file="q.csv")


def nights(folder, operation, profile, rule, *, count=5):
    """Parents in peace, the lost call, then nights a day apart until nothing moves any more."""
    clock, options = ledgers.Ticking(), sendings.settings(**profile)
    with at_work(folder, rule, clock, options, **profile.get("assumptions", {})) as (exchange, ledger, client):
        for night in range(count):
            run = ledger.begin_run()
            resolve_unknown(ledger, client, run, options, patience=Patience(ledger.now))
            ledger.release(run)
            if night == 0:
                before(ledger, run, operation)
            if night == 1:
                drop = sendings.plan(ledger, run, operation, [PAYLOADS[operation]], file="lost.csv", seen=False)
            naps = sendings.Naps()
            send(ledger, client, run, options, sleep=naps.sleep, clock=naps.clock)
            clock.pass_time(86_400)
        (entry,) = ledger.history.entries_of(drop.id)
        effects = effects_of(exchange, operation, entry.key)
        hint = "; ".join(problem.hint for problem in entry.problems)
        codes = [problem.code for problem in entry.problems]
        looks = ledger.history.findings_of(entry.id)
        return Ended(str(entry.state), entry.reason, codes, hint, effects, len(looks))


def effects_of(exchange, operation, key):
    return Counter((line["operation"], line["key"]) for line in exchange.happened())[operation, key]


RESOLVED = {  # what becomes of a call that was lost before its effect
    "default": {
        "order.create": "unknown",
        "order.update": "accepted",
        "order.delete": "accepted",
        "order.status": "accepted",
        "tender.create": "unknown",
        "tender.update": "accepted",
        "tender.delete": "accepted",
        "tender.quote": "unknown",
        "tender.confirm": "unknown",
    },
    "bold": {**dict.fromkeys(PAYLOADS, "accepted"), "tender.confirm": "unknown"},
    "careful": dict.fromkeys(PAYLOADS, "unknown"),
}
SHOWN = {name for name in PAYLOADS if name.split(".")[1] in ("create", "update", "delete")}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("operation", PAYLOADS)
@pytest.mark.parametrize("fault", HAPPENED)
def test_a_lost_answer_ends_as_the_protocol_says(tmp_path, operation, profile, fault):
    place = {"order.create": 3, "tender.create": 3}.get(operation, 1)
    ended = nights(
        tmp_path, operation, PROFILES[profile], {"fault": FaultClass(fault), "operation": operation, "at": (place,)}
    )
    happened = HAPPENED[fault]
    wanted = "accepted" if happened and operation in SHOWN else RESOLVED[profile][operation]
    assert ended.state == wanted, ended
    if ended.state == State.ACCEPTED:
        assert ended.effects >= 1
    named = "L608" in ended.codes
    assert ended.effects <= (2 if named else 1)
    if operation in ("order.create", "tender.create"):
        assert ended.effects <= 1
    if ended.state == State.UNKNOWN:
        assert f"loadsheet resolve {'A' if operation.startswith('order') else 'T'}-" in ended.hint
        assert ended.findings >= 3


@pytest.mark.parametrize("existing", ["reject", "replace"])
def test_a_create_that_is_applied_late_is_there_once_even_where_it_was_sent_again(tmp_path, existing):
    """It breaks the assumption that nothing comes after quiesce: the exchange's own rule still keeps it single."""
    profile = {**BOLD, "assumptions": {"create_existing": existing, "quote_existing": "replace"}}
    rule = {"fault": FaultClass("late_effect"), "operation": "order.create", "at": (3,), "seconds": 0.2}
    clock, options = ledgers.Ticking(), sendings.settings(**profile)
    with (
        misbehaving(tmp_path, rule, create_existing=existing) as exchange,
        ledgers.ledger_in(tmp_path, clock) as ledger,
        sendings.client_of(exchange.exchange.url, options, TOKEN) as client,
    ):
        for night in range(6):
            run = ledger.begin_run()
            resolve_unknown(ledger, client, run, options, patience=Patience(ledger.now))
            if night == 0:
                before(ledger, run, "order.create")
            if night == 1:
                drop = sendings.plan(ledger, run, "order.create", [PAYLOADS["order.create"]], file="lost.csv")
            naps = sendings.Naps()
            send(ledger, client, run, options, sleep=naps.sleep, clock=naps.clock)
            clock.pass_time(86_400)
        (entry,) = ledger.history.entries_of(drop.id)
        created = [line for line in exchange.happened() if line["key"] == "A-00000" and line["effect"] == "created"]
    assert (str(entry.state), len(created)) == ("accepted", 1)


def test_what_was_lost_in_doubt_keeps_its_lane_shut_until_then(tmp_path):
    clock, options = ledgers.Ticking(), sendings.settings()
    rule = {"fault": FaultClass("reset_after_effect"), "operation": "order.create", "at": (1,)}
    with at_work(tmp_path, rule, clock, options) as (exchange, ledger, client):
        run = ledger.begin_run()
        lost = sendings.orders(ledger, run, 1)
        child = sendings.plan(ledger, run, "order.status", [PAYLOADS["order.status"]], file="s.csv", seen=False)
        naps = sendings.Naps()
        assert send(ledger, client, run, options, sleep=naps.sleep, clock=naps.clock).calls == 1
        resolve_unknown(ledger, client, run, options)
        assert send(ledger, client, run, options, sleep=naps.sleep, clock=naps.clock).calls == 1
        assert sendings.states(ledger, lost, child) == ["accepted", "accepted"]
        assert [line["operation"] for line in exchange.happened()] == ["order.create", "order.status"]


def test_a_listing_made_of_another_view_proves_no_absence(tmp_path):
    """The shared path may answer with the other kind: then every order is absent, and nothing follows from it."""
    clock, options = ledgers.Ticking(), sendings.settings(**BOLD)
    rule = {"fault": FaultClass("reset_after_effect"), "operation": "order.create", "at": (3,)}
    with at_work(tmp_path, rule, clock, options, plain_listing="tenders") as (exchange, ledger, client):
        run = ledger.begin_run()
        drop = sendings.orders(ledger, run, 3)
        for _ in range(4):
            naps = sendings.Naps()
            send(ledger, client, run, options, sleep=naps.sleep, clock=naps.clock)
            clock.pass_time(86_400)
            run = ledger.begin_run()
            resolve_unknown(ledger, client, run, options, patience=Patience(ledger.now))
        assert sorted(sendings.states(ledger, drop)) == ["accepted", "accepted", "unknown"]
        assert max(Counter(line["key"] for line in exchange.happened()).values()) == 1

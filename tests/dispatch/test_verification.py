"""What listings prove about unknown outcomes, on the real exchange with its truth log and on scripted listings: every operation under every setting."""

from collections import Counter
from contextlib import contextmanager

import ledgers
import pytest
import ready_entries
import scripted_exchange
from exchange_process import TOKEN
from fault_rules import FaultClass
from faulty_exchange import misbehaving
from scripted_exchange import Scripted, accepts, lists

from loadsheet.contract import UNAUTHORISED, UNKNOWN_METHOD, Assumptions
from loadsheet.dispatch import SendOptions, send
from loadsheet.exchange import serve_embedded
from loadsheet.problems import ExchangeUnreachable, TokenRefused

SETTINGS = ready_entries.settings()


def resolve(ledger, run, url, token=ready_entries.TOKEN, settings=SETTINGS):
    with ready_entries.client_of(url, settings, token) as client:
        return ready_entries.verify(ledger, run, client, settings)


def lose(ledger, run, move=scripted_exchange.closes_without_answer):
    """Send what is ready to an exchange that does not answer."""
    ready_entries.send_to(move, ledger, run, unknown_max=1000)


def listed(ledger, run, records, settings=SETTINGS, **more):
    with Scripted(lists(records, **more)) as server:
        report = resolve(ledger, run, server.url, settings=settings)
    assert all(request.method == "GET" for request in server.requests)
    return report


def test_what_the_exchange_has_is_accepted_and_the_rest_stays_unknown(ledger, tmp_path):
    run, drop = ready_entries.new_orders(ledger, 6)
    tenders = ready_entries.plan(
        ledger, run, "tender.create", [ledgers.tender(number) for number in range(2)], file="t.csv"
    )
    lose(ledger, run)
    with serve_embedded(f"sqlite:///{tmp_path / 'exchange.db'}", TOKEN, Assumptions()) as url:
        with ready_entries.client_of(url, SETTINGS, TOKEN) as client:
            entries = [*ledger.queries.entries_of(drop.id)][:4] + [*ledger.queries.entries_of(tenders.id)][1:]
            for entry in entries:
                assert client.ask(ready_entries.BY_NAME[entry.operation], entry.payload).status == 200
        report = resolve(ledger, run, url, TOKEN)
    assert (report.unknown, report.accepted, report.left) == (8, 5, 3)
    assert ready_entries.states(ledger, drop) == ["accepted"] * 4 + ["unknown"] * 2
    assert ready_entries.states(ledger, tenders) == ["unknown", "accepted"]
    first = next(ledger.queries.entries_of(drop.id))
    assert (first.reason, first.problems, first.receipt) == ("shown by the listing", (), "")
    (attempt,) = ledger.queries.attempts_of(first.id)
    assert attempt.outcome == "unknown"


def deleted(ledger, run):
    """Two orders that were accepted, and a delete of the first whose answer was lost."""
    ready_entries.orders(ledger, run, 2)
    ready_entries.send_to(accepts, ledger, run)
    drop = ready_entries.plan(ledger, run, "order.delete", [{"order_id": "A-00000"}], file="d.csv")
    lose(ledger, run)
    return drop


def test_a_delete_is_shown_by_two_absences_from_a_complete_listing_with_a_witness(tmp_path):
    clock = ledgers.Ticking()
    patient = ready_entries.settings(quiesce_s=30, confirm_gap_s=10)
    with ledgers.ledger_in(tmp_path, clock) as ledger:
        run = ledger.begin_run()
        drop = deleted(ledger, run)
        for state in ("unknown", "unknown", "accepted"):  # too early, the first look, the second
            listed(ledger, run, [ledgers.order(1)], settings=patient)
            assert ready_entries.states(ledger, drop) == [state]
            clock.pass_time(40)
        early, first, _ = ledger.queries.findings_of(3)
    assert (early.counts, first.counts) == (False, True)
    assert ("quiesce_s" in early.text, "second listing" in first.text) == (True, True)


def test_without_unknown_entries_that_a_listing_shows_nobody_is_asked(ledger):
    run = ledger.begin_run()
    ready_entries.events(ledger, run, 3)
    lose(ledger, run)
    ready_entries.orders(ledger, run, 3)
    report = resolve(ledger, run, "http://127.0.0.1:9")
    assert (report.unknown, report.accepted) == (3, 0)


def test_a_listing_that_cannot_be_had_changes_nothing(ledger):
    run, drop = ready_entries.new_orders(ledger, 1)
    lose(ledger, run)
    for move, error in (
        (scripted_exchange.says(401, UNAUTHORISED), TokenRefused),
        (scripted_exchange.says(500), ExchangeUnreachable),
    ):
        with Scripted(move) as server, pytest.raises(error):
            resolve(ledger, run, server.url)
    assert ready_entries.states(ledger, drop) == ["unknown"]


def test_where_no_listing_is_served_nothing_is_proved_and_the_rest_goes_on(ledger):
    run, drop = ready_entries.new_orders(ledger, 1)
    lose(ledger, run)
    with Scripted(scripted_exchange.says(405, UNKNOWN_METHOD)) as server:
        assert resolve(ledger, run, server.url).left == 1
    assert ready_entries.states(ledger, drop) == ["unknown"]
    (found,) = ledger.queries.findings_of(1)
    assert "the listing could not be read" in found.text


LOST = {  # the number of its record, each of another order or tender, and the call of its operation that is lost
    "order.create": (0, 6),
    "order.update": (3, 1),
    "order.delete": (4, 1),
    "order.status": (5, 1),
    "tender.create": (0, 7),
    "tender.update": (3, 1),
    "tender.delete": (4, 1),
    "tender.quote": (5, 2),
    "tender.confirm": (6, 1),
}
PLENTY = {"unknown_max": 1000, "outstanding_unknown_max": 1000}
BOLD = {
    "create_after_absent": "resend",
    "quote_on_unknown": "resend_once",
    "assumptions": {"create_existing": "reject", "quote_existing": "replace"},
}
CAREFUL = {"update_resend": False, "delete_resend": False, "status_on_unknown": "review"}
PROFILES = {"default": {}, "bold": BOLD, "careful": CAREFUL}
RESOLVED = {  # what becomes of calls that were lost before their effect
    "default": {
        **dict.fromkeys(LOST, "accepted"),
        **dict.fromkeys(("order.create", "tender.create", "tender.quote", "tender.confirm"), "unknown"),
    },
    "bold": {**dict.fromkeys(LOST, "accepted"), "tender.confirm": "unknown"},
    "careful": dict.fromkeys(LOST, "unknown"),
}
SHOWN = {name for name in LOST if name.split(".")[1] in ("create", "update", "delete")}


@contextmanager
def at_work(folder, *rules, options, **assumptions):
    """The misbehaving exchange, a ledger, and what makes a night: it looks up what is unknown, plans more, and sends what is ready."""
    clock = ledgers.Ticking()
    with (
        misbehaving(folder, *rules, **assumptions) as exchange,
        ledgers.ledger_in(folder, clock) as ledger,
        ready_entries.client_of(exchange.exchange.url, options, TOKEN) as client,
    ):

        def night(plan=lambda _run: None):
            run, naps = ledger.begin_run(), ready_entries.Naps()
            ready_entries.verify(ledger, run, client, options)
            ledger.release(run)
            planned = plan(run)
            report = send(ledger, client, run, options, SendOptions(sleep=naps.sleep, clock=naps.clock))
            clock.pass_time(86_400)
            return report, planned

        yield exchange, ledger, night


def lost(fault, operation, place, **more):
    return {"fault": FaultClass(fault), "operation": operation, "at": (place,), **more}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("fault", ["reset_before_effect", "reset_after_effect"])
def test_a_lost_answer_ends_as_the_protocol_says(tmp_path, profile, fault):
    """Witnesses and parents in peace, then a lost call of each operation, then nights until nothing moves any more."""
    rules = [lost(fault, operation, place) for operation, (_, place) in LOST.items()]
    given = PROFILES[profile]
    options = ready_entries.settings(**given, **PLENTY)
    with at_work(tmp_path, *rules, options=options, **given.get("assumptions", {})) as (exchange, ledger, night):

        def before(run):
            ready_entries.plan(ledger, run, "order.create", [ledgers.order(n) for n in range(1, 6)], file="o.csv")
            ready_entries.plan(ledger, run, "tender.create", [ledgers.tender(n) for n in range(1, 7)], file="t.csv")
            ready_entries.plan(ledger, run, "tender.quote", [ready_entries.payload_of("tender.quote", 6)], file="q.csv")

        def losing(run):
            return {
                name: ready_entries.plan(
                    ledger, run, name, [ready_entries.payload_of(name, number)], file=f"{name}.csv", seen=False
                )
                for name, (number, _) in LOST.items()
            }

        night(before)
        _, drops = night(losing)
        for _ in range(3):
            night()
        ended = {name: next(iter(ledger.queries.entries_of(drop.id))) for name, drop in drops.items()}
        first = {name: ledger.queries.attempts_of(entry.id)[0].outcome for name, entry in ended.items()}
        looks = {name: len(ledger.queries.findings_of(entry.id)) for name, entry in ended.items()}
        effects = Counter((line["operation"], line["key"]) for line in exchange.happened())
    assert first == dict.fromkeys(LOST, "unknown")
    happened = SHOWN if fault == "reset_after_effect" else set()
    wanted = {name: "accepted" if name in happened else RESOLVED[profile][name] for name in LOST}
    assert {name: str(entry.state) for name, entry in ended.items()} == wanted
    for name, entry in ended.items():
        times = effects[name, entry.key]
        is_named = "L608" in {problem.code for problem in entry.problems}
        assert times <= (2 if is_named and not name.endswith("create") else 1), name
        if wanted[name] == "accepted":
            assert times >= 1, name
        else:
            hints = "; ".join(problem.hint for problem in entry.problems)
            assert f"loadsheet resolve {'A' if name.startswith('order') else 'T'}-" in hints
            assert looks[name] >= 3, name


@pytest.mark.parametrize("existing", ["reject", "replace"])
def test_a_create_that_is_applied_late_is_there_once_even_where_it_was_sent_again(tmp_path, existing):
    """It breaks the assumption that nothing comes after quiesce: the exchange's own rule still keeps it single."""
    options = ready_entries.settings(**{**BOLD, "assumptions": {**BOLD["assumptions"], "create_existing": existing}})
    rule = lost("late_effect", "order.create", 3, seconds=0.2)
    with at_work(tmp_path, rule, options=options, create_existing=existing) as (exchange, ledger, night):
        witnesses = [ledgers.order(1), ledgers.order(2)]
        night(lambda run: ready_entries.plan(ledger, run, "order.create", witnesses, file="o.csv"))
        _, drop = night(lambda run: ready_entries.orders(ledger, run, 1))
        for _ in range(4):
            night()
        created = [line for line in exchange.happened() if line["key"] == "A-00000" and line["effect"] == "created"]
        assert (ready_entries.states(ledger, drop), len(created)) == (["accepted"], 1)


def test_what_was_lost_in_doubt_keeps_its_lane_shut_until_then(tmp_path):
    rule = lost("reset_after_effect", "order.create", 1)
    with at_work(tmp_path, rule, options=ready_entries.settings()) as (exchange, ledger, night):

        def losing(run):
            made = ready_entries.orders(ledger, run, 1)
            event = {"order_id": "A-00000", "status_code": "PU", "status_location": "limiter"}
            return made, ready_entries.plan(ledger, run, "order.status", [event], file="s.csv", seen=False)

        report, drops = night(losing)
        assert report.calls == 1
        assert night()[0].calls == 1
        assert ready_entries.states(ledger, *drops) == ["accepted", "accepted"]
        assert [line["operation"] for line in exchange.happened()] == ["order.create", "order.status"]


def test_a_listing_made_of_another_view_proves_no_absence(tmp_path):
    """The shared path may answer with the other kind: then every order is absent, and nothing follows from it."""
    rule = lost("reset_after_effect", "order.create", 3)
    with at_work(tmp_path, rule, options=ready_entries.settings(**BOLD), plain_listing="tenders") as found:
        exchange, ledger, night = found
        _, drop = night(lambda run: ready_entries.orders(ledger, run, 3))
        for _ in range(4):
            night()
        assert sorted(ready_entries.states(ledger, drop)) == ["accepted", "accepted", "unknown"]
        assert max(Counter(line["key"] for line in exchange.happened()).values()) == 1

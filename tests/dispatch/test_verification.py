"""What listings prove about unknown outcomes, on the real exchange with its truth log and on scripted listings: every operation under every setting."""

from collections import Counter
from contextlib import contextmanager

import ledgers
import pytest
import ready_entries
import scripted_exchange
from exchange_process import TOKEN
from faulty_exchange import misbehaving
from ready_entries import entries, new_orders, payload_of, plan, states
from scripted_exchange import Scripted, accepts, lists, says

from loadsheet.contract import UNAUTHORISED, UNKNOWN_METHOD, Assumptions
from loadsheet.dispatch import SendOptions, send
from loadsheet.errors import ExchangeUnreachable, TokenRefused
from loadsheet.exchange import serve_embedded

SETTINGS = ready_entries.settings()


def resolve(ledger, run, url, token=ready_entries.TOKEN, settings=SETTINGS):
    with ready_entries.client_of(url, settings, token) as client:
        return ready_entries.verify(ledger, run, client, settings)


def lose(ledger, run):
    """Send what is ready to an exchange that does not answer."""
    ready_entries.send_to(scripted_exchange.closes_without_answer, ledger, run, unknown_max=1000)


def test_what_the_exchange_has_is_accepted_and_the_rest_stays_unknown(ledger, tmp_path):
    run, drop = new_orders(ledger, 6)
    tenders = plan(ledger, run, "tender.create", [ledgers.tender(number) for number in range(2)], file="t.csv")
    lose(ledger, run)
    with serve_embedded(f"sqlite:///{tmp_path / 'exchange.db'}", TOKEN, Assumptions()) as url:
        with ready_entries.client_of(url, SETTINGS, TOKEN) as client:
            for entry in (*entries(ledger, drop)[:4], entries(ledger, tenders)[1]):
                assert client.ask(ready_entries.BY_NAME[entry.operation], entry.payload).status == 200
        report = resolve(ledger, run, url, TOKEN)
    assert (report.unknown, report.accepted, report.still_unknown) == (8, 5, 3)
    assert states(ledger, drop, tenders) == ["accepted"] * 4 + ["unknown"] * 3 + ["accepted"]
    first = entries(ledger, drop)[0]
    assert (first.reason, first.problems, first.service_order) == ("shown by the listing", (), "")
    assert [attempt.outcome for attempt in ledger.queries.attempts_of(first.id)] == ["unknown"]


def test_a_delete_is_shown_by_two_absences_from_a_complete_listing_with_a_witness(tmp_path):
    clock = ledgers.Ticking()
    patient = ready_entries.settings(quiesce_s=30, confirm_gap_s=10)
    with ledgers.ledger_in(tmp_path, clock) as ledger, Scripted(lists([ledgers.order(1)])) as server:
        run, _ = new_orders(ledger, 2)
        ready_entries.send_to(accepts, ledger, run)
        drop = plan(ledger, run, "order.delete", [{"order_id": "A-00000"}], file="d.csv")
        lose(ledger, run)
        for state in ("unknown", "unknown", "accepted"):  # too early, the first look, the second
            resolve(ledger, run, server.url, settings=patient)
            assert states(ledger, drop) == [state]
            clock.pass_time(40)
        early, first, _ = ledger.queries.findings_of(3)
    assert {request.method for request in server.requests} == {"GET"}
    assert (early.proves_absence, first.proves_absence) == (False, True)
    assert ("quiesce_s" in early.text, "second listing" in first.text) == (True, True)


def test_without_unknown_entries_that_a_listing_shows_nobody_is_asked(ledger):
    run = ledger.begin_run()
    ready_entries.events(ledger, run, 3)
    lose(ledger, run)
    ready_entries.orders(ledger, run, 3)
    report = resolve(ledger, run, "http://127.0.0.1:9")
    assert (report.unknown, report.accepted) == (3, 0)


def test_a_listing_that_cannot_be_had_changes_nothing(ledger):
    run, drop = new_orders(ledger, 1)
    lose(ledger, run)
    for move, error in ((says(401, UNAUTHORISED), TokenRefused), (says(500), ExchangeUnreachable)):
        with Scripted(move) as server, pytest.raises(error):
            resolve(ledger, run, server.url)
    assert states(ledger, drop) == ["unknown"]


def test_where_no_listing_is_served_nothing_is_proved_and_the_rest_goes_on(ledger):
    run, drop = new_orders(ledger, 1)
    lose(ledger, run)
    with Scripted(says(405, UNKNOWN_METHOD)) as server:
        assert resolve(ledger, run, server.url).still_unknown == 1
    assert states(ledger, drop) == ["unknown"]
    (found,) = ledger.queries.findings_of(1)
    assert "the listing could not be read" in found.text


# runs against the real exchange, which loses calls

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
STAY = {  # which of the calls that were lost before their effect stay unknown
    "default": {"order.create", "tender.create", "tender.quote", "tender.confirm"},
    "bold": {"tender.confirm"},
    "careful": set(LOST),
}
PROFILES = {"default": {}, "bold": BOLD, "careful": CAREFUL}
LISTED = {name for name in LOST if name.split(".")[1] in ("create", "update", "delete")}


@contextmanager
def at_work(folder, *rules, options=SETTINGS, **assumptions):
    """The misbehaving exchange, a ledger, and what makes a run: it looks up what is unknown, plans more, and sends what is ready; a day passes."""
    clock = ledgers.Ticking()
    with (
        misbehaving(folder, *rules, **assumptions) as exchange,
        ledgers.ledger_in(folder, clock) as ledger,
        ready_entries.client_of(exchange.url, options, TOKEN) as client,
    ):

        def run_with(plan=lambda _run: None):
            run, naps = ledger.begin_run(), ready_entries.Naps()
            ready_entries.verify(ledger, run, client, options)
            ledger.release(run)
            planned = plan(run)
            report = send(ledger, client, run, options, SendOptions(sleep=naps.sleep, clock=naps.clock))
            clock.pass_time(86_400)
            return report, planned

        yield exchange, ledger, run_with


def lost(fault, operation, place, **more):
    return {"fault": fault, "operation": operation, "at": (place,), **more}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("fault", ["reset_before_effect", "reset_after_effect"])
def test_a_lost_answer_ends_as_the_protocol_says(tmp_path, profile, fault):
    """Witnesses and parents in peace, then a lost call of each operation, then runs until nothing moves any more."""
    rules = [lost(fault, operation, place) for operation, (_, place) in LOST.items()]
    given = PROFILES[profile]
    options = ready_entries.settings(**given, **PLENTY)
    with at_work(tmp_path, *rules, options=options, **given.get("assumptions", {})) as (exchange, ledger, run_with):

        def before(run):
            plan(ledger, run, "order.create", [ledgers.order(number) for number in range(1, 6)], file="o.csv")
            plan(ledger, run, "tender.create", [ledgers.tender(number) for number in range(1, 7)], file="t.csv")
            plan(ledger, run, "tender.quote", [payload_of("tender.quote", 6)], file="q.csv")

        def losing(run):
            return {
                name: plan(ledger, run, name, [payload_of(name, number)], file=f"{name}.csv", seen=False)
                for name, (number, _) in LOST.items()
            }

        run_with(before)
        _, drops = run_with(losing)
        for _ in range(3):
            run_with()
        ended = {name: entries(ledger, drop)[0] for name, drop in drops.items()}
        first = {name: ledger.queries.attempts_of(entry.id)[0].outcome for name, entry in ended.items()}
        looks = {name: len(ledger.queries.findings_of(entry.id)) for name, entry in ended.items()}
        effects = Counter((line["operation"], line["key"]) for line in exchange.happened())
    assert first == dict.fromkeys(LOST, "unknown")
    stay = STAY[profile] - (LISTED if fault == "reset_after_effect" else set())
    assert {name: str(one.state) for name, one in ended.items()} == {
        name: "unknown" if name in stay else "accepted" for name in LOST
    }
    for name, entry in ended.items():
        times = effects[name, entry.key]
        is_named = "L608" in {problem.code for problem in entry.problems}
        assert times <= (2 if is_named and not name.endswith("create") else 1), name
        assert times or name in stay, name
        if name in stay:
            hints = "; ".join(problem.hint for problem in entry.problems)
            assert f"loadsheet resolve {'A' if name.startswith('order') else 'T'}-" in hints
            assert looks[name] >= 3, name


@pytest.mark.parametrize("existing", ["reject", "replace"])
def test_a_create_that_is_applied_late_is_there_once_even_where_it_was_sent_again(tmp_path, existing):
    """It breaks the assumption that nothing comes after quiesce: the exchange's own rule still keeps it single."""
    options = ready_entries.settings(**{**BOLD, "assumptions": {**BOLD["assumptions"], "create_existing": existing}})
    rule = lost("late_effect", "order.create", 3, seconds=0.2)
    with at_work(tmp_path, rule, options=options, create_existing=existing) as (exchange, ledger, run_with):
        witnesses = [ledgers.order(1), ledgers.order(2)]
        run_with(lambda run: plan(ledger, run, "order.create", witnesses, file="o.csv"))
        _, drop = run_with(lambda run: ready_entries.orders(ledger, run, 1))
        for _ in range(4):
            run_with()
        created = [line for line in exchange.happened() if line["key"] == "A-00000" and line["effect"] == "created"]
        assert (states(ledger, drop), len(created)) == (["accepted"], 1)


def test_a_listing_made_of_another_view_proves_no_absence(tmp_path):
    """The shared path may answer with the other kind: then every order is absent, and nothing follows from it."""
    rule, options = lost("reset_after_effect", "order.create", 3), ready_entries.settings(**BOLD)
    with at_work(tmp_path, rule, options=options, plain_listing="tenders") as (exchange, ledger, run_with):
        _, drop = run_with(lambda run: ready_entries.orders(ledger, run, 3))
        for _ in range(4):
            run_with()
        assert sorted(states(ledger, drop)) == ["accepted", "accepted", "unknown"]
        assert max(Counter(line["key"] for line in exchange.happened()).values()) == 1

"""What a listing proves about entries of unknown outcome, on the real exchange and on scripted listings."""

import ledgers
import pytest
import ready_entries
import scripted_exchange
from exchange_calls import TOKEN as EXCHANGE_TOKEN
from scripted_exchange import Scripted, accepts, lists

from loadsheet.contract import UNAUTHORISED, UNKNOWN_METHOD, Assumptions
from loadsheet.dispatch import verify_unknown
from loadsheet.exchange import Embedded
from loadsheet.problems import ExchangeUnreachable, TokenRefused

SETTINGS = ready_entries.settings()


def resolve(ledger, run, url, token=ready_entries.TOKEN, settings=SETTINGS):
    with ready_entries.client_of(url, settings, token) as client:
        return verify_unknown(ledger, client, run, settings)


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
    with Embedded(f"sqlite:///{tmp_path / 'exchange.db'}", EXCHANGE_TOKEN, Assumptions()) as exchange:
        with ready_entries.client_of(exchange.url, SETTINGS, EXCHANGE_TOKEN) as client:
            entries = [*ledger.queries.entries_of(drop.id)][:4] + [*ledger.queries.entries_of(tenders.id)][1:]
            for entry in entries:
                assert client.call(ready_entries.BY_NAME[entry.operation], entry.payload).status == 200
        report = resolve(ledger, run, exchange.url, EXCHANGE_TOKEN)
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

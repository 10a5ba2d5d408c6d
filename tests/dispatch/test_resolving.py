"""What a listing proves about entries of unknown outcome, on the real exchange and on scripted listings."""

import ledgers
import pytest
import scripted
import sendings
from calling import TOKEN as EXCHANGE_TOKEN
from scripted import Scripted, accepts, lists

from loadsheet.contract import UNAUTHORISED, UNKNOWN_METHOD, Assumptions
from loadsheet.dispatch import resolve_unknown
from loadsheet.exchange import Embedded
from loadsheet.problems import ExchangeUnreachable, TokenRefused

SETTINGS = sendings.settings()


def resolve(ledger, run, url, token=sendings.TOKEN, settings=SETTINGS):
    with sendings.client_of(url, settings, token) as client:
        return resolve_unknown(ledger, client, run, settings)


def lose(ledger, run, move=scripted.closes_without_answer):
    """Send what is ready to an exchange that does not answer."""
    with Scripted(lambda *_: move) as server:
        sendings.send_all(ledger, run, server.url, sendings.settings(unknown_max=1000))


def listed(ledger, run, records, settings=SETTINGS, **more):
    with Scripted(lambda *_: lists(records, **more)) as server:
        report = resolve(ledger, run, server.url, settings=settings)
    assert all(request.method == "GET" for request in server.requests)
    return report


def test_what_the_exchange_has_is_accepted_and_the_rest_stays_unknown(ledger, tmp_path):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 6)
    tenders = sendings.plan(ledger, run, "tender.create", [ledgers.tender(number) for number in range(2)], file="t.csv")
    lose(ledger, run)
    with Embedded(f"sqlite:///{tmp_path / 'exchange.db'}", EXCHANGE_TOKEN, Assumptions()) as exchange:
        with sendings.client_of(exchange.url, SETTINGS, EXCHANGE_TOKEN) as client:
            entries = [*ledger.history.entries_of(drop.id)][:4] + [*ledger.history.entries_of(tenders.id)][1:]
            for entry in entries:
                assert client.call(sendings.BY_NAME[entry.operation], entry.payload).status == 200
        report = resolve(ledger, run, exchange.url, EXCHANGE_TOKEN)
    assert (report.unknown, report.accepted, report.left) == (8, 5, 3)
    assert sendings.states(ledger, drop) == ["accepted"] * 4 + ["unknown"] * 2
    assert sendings.states(ledger, tenders) == ["unknown", "accepted"]
    first = next(ledger.history.entries_of(drop.id))
    assert (first.reason, first.problems, first.receipt) == ("shown by the listing", (), "")
    (attempt,) = ledger.history.attempts_of(first.id)
    assert attempt.outcome == "unknown"


def test_another_spelling_of_the_same_values_is_the_same_record(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 1, dedicated_vehicle="yes")
    lose(ledger, run)
    changes = {"total_weight": "412.50", "dedicated_vehicle": "true", "pickup_startdatetime": "2026-03-05T08:00:00"}
    listed(ledger, run, [ledgers.order(0, **changes, order_status="NEW")])
    assert sendings.states(ledger, drop) == ["accepted"]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [ledgers.order(1)],
        [ledgers.order(0, pickup_city="Leipzig")],
        [{"order_id": "A-00000"}],
        [ledgers.order(0), ledgers.order(0)],
        [{"tender_id": "T-1", **ledgers.order(0)}],
        [ledgers.order(0, order_id="a-00000")],
    ],
    ids=["nothing", "another", "other content", "less", "twice", "a tender with its key", "another case"],
)
def test_a_listing_that_does_not_show_exactly_it_proves_nothing(ledger, records):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 1)
    lose(ledger, run)
    listed(ledger, run, records)
    assert sendings.states(ledger, drop) == ["unknown"]


def test_an_update_is_shown_by_the_fields_it_sent(ledger):
    run = ledger.begin_run()
    update = {"order_id": "A-00000", "sender_id": "ACME", "receiver_id": "CARGO", "currency": "USD"}
    drop = sendings.plan(ledger, run, "order.update", [update])
    lose(ledger, run)
    listed(ledger, run, [ledgers.order(0, currency="EUR")])
    assert sendings.states(ledger, drop) == ["unknown"]
    listed(ledger, run, [ledgers.order(0, currency="USD")])
    assert sendings.states(ledger, drop) == ["accepted"]


def deleted(ledger, run):
    """Two orders that were accepted, and a delete of the first whose answer was lost."""
    sendings.orders(ledger, run, 2)
    with Scripted(lambda *_: accepts) as server:
        sendings.send_all(ledger, run, server.url)
    drop = sendings.plan(ledger, run, "order.delete", [{"order_id": "A-00000"}], file="d.csv")
    lose(ledger, run)
    return drop


def test_a_delete_is_shown_by_two_absences_from_a_complete_listing_with_a_witness(tmp_path):
    clock = ledgers.Ticking()
    patient = sendings.settings(quiesce_s=30, confirm_gap_s=10)
    with ledgers.ledger_in(tmp_path, clock) as ledger:
        run = ledger.begin_run()
        drop = deleted(ledger, run)
        for state in ("unknown", "unknown", "accepted"):  # too early, the first look, the second
            listed(ledger, run, [ledgers.order(1)], settings=patient)
            assert sendings.states(ledger, drop) == [state]
            clock.pass_time(40)
        early, first, _ = ledger.history.findings_of(3)
    assert (early.counts, first.counts) == (False, True)
    assert ("quiesce_s" in early.text, "second look" in first.text) == (True, True)


@pytest.mark.parametrize(
    ("records", "total"),
    [([ledgers.order(0), ledgers.order(1)], None), ([ledgers.order(1)], 2), ([ledgers.order(7)], None), ([], None)],
    ids=["still there", "incomplete", "no witness", "empty"],
)
def test_a_delete_is_not_shown_by_a_weaker_listing(ledger, records, total):
    run = ledger.begin_run()
    drop = deleted(ledger, run)
    listed(ledger, run, records, total=total)
    assert sendings.states(ledger, drop) == ["unknown"]


def test_what_no_listing_shows_is_left_alone(ledger):
    run = ledger.begin_run()
    sendings.events(ledger, run, 3)
    lose(ledger, run)
    report = resolve(ledger, run, "http://127.0.0.1:9")
    assert (report.unknown, report.accepted) == (3, 0)


def test_without_unknown_entries_nobody_is_asked(ledger):
    run = ledger.begin_run()
    sendings.orders(ledger, run, 3)
    assert resolve(ledger, run, "http://127.0.0.1:9").unknown == 0


def test_a_listing_that_cannot_be_had_changes_nothing(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 1)
    lose(ledger, run)
    for move, error in ((scripted.says(401, UNAUTHORISED), TokenRefused), (scripted.says(500), ExchangeUnreachable)):
        with Scripted(lambda *_, move=move: move) as server, pytest.raises(error):
            resolve(ledger, run, server.url)
    assert sendings.states(ledger, drop) == ["unknown"]


def test_a_proven_lane_is_open_again(ledger):
    run = ledger.begin_run()
    sendings.orders(ledger, run, 1)
    lose(ledger, run)
    told = sendings.events(ledger, run, 1)
    with Scripted(lambda *_: accepts) as server:
        assert sendings.send_all(ledger, run, server.url).calls == 0
        listed(ledger, run, [ledgers.order(0)])
        assert sendings.send_all(ledger, run, server.url).calls == 1
    assert sendings.states(ledger, told) == ["accepted"]


def test_where_no_listing_is_served_nothing_is_proved_and_the_rest_goes_on(ledger):
    run = ledger.begin_run()
    drop = sendings.orders(ledger, run, 1)
    lose(ledger, run)
    with Scripted(lambda *_: scripted.says(405, UNKNOWN_METHOD)) as server:
        assert resolve(ledger, run, server.url).left == 1
    assert sendings.states(ledger, drop) == ["unknown"]
    (found,) = ledger.history.findings_of(1)
    assert "the listing could not be read" in found.text

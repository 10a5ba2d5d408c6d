"""What a run saw at the exchange is kept in a few bytes, and says the same again; of what changed since it says nothing."""

import zlib
from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest
from ledgers import accepted, document, drop_of, ledger_in, listing, order, plan, refused, send, tender

from loadsheet.ledger import Settlement, State
from loadsheet.reconcile import RecordedListings, RunNotes, Verdict, listings, settle
from loadsheet.reconcile.listings import ListingSnapshot
from loadsheet.settings import Settings

USUAL = Settings()


def ended(ledger, run):
    return replace(run, finished_at=ledger.now())


def told(found):
    """All that a reconciliation says, but for how a sum is written (12.50 is 12.5)."""
    names = ("only_listed", "legs", "balance", "totals", "fields", "shares", "exceptions")
    return dict(found.matches), [getattr(found, name) for name in names]


def seen(ledger, run, held, total=None):
    return settle(ledger.queries, {"order": listing(held, total=total), "tender": listing([])}, run, USUAL)


def verdicts(found):
    return [match.verdict for match in found.matches.values()]


def planned(ledger, run, *numbers):
    rows = [document("order.create", order(number), [("orders", number + 1, ("x",))]) for number in numbers]
    plan(ledger, run, drop_of(("orders", "a.csv")), rows)


@pytest.fixture
def ledger(tmp_path):
    with ledger_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def run(ledger):
    """A run that sent the orders 1 to 3."""
    run = ledger.begin_run()
    planned(ledger, run, 1, 2, 3)
    send(ledger, run)
    return run


def test_values_that_differ_are_told_with_what_the_exchange_showed(ledger, run):
    packages = [{**package, "weight": Decimal("1.5")} for package in order(3)["packages"]]
    held = [order(1), order(2, delivery_city="Köln", total_weight=Decimal("7.125")), order(3, packages=packages)]
    first = seen(ledger, run, held)
    again = settle(ledger.queries, RecordedListings([(ended(ledger, run), first.pack_snapshot())]), run, USUAL)
    assert told(again) == told(first)
    differences = [one.path for match in again.matches.values() for one in match.differences]
    assert sorted(differences) == [
        "delivery_city",
        "packages[0].weight",
        "packages[1].weight",
        "total_weight",
    ]


def test_figures_that_the_exchange_adds_are_in_the_totals_again(ledger):
    run = ledger.begin_run()
    plan(
        ledger,
        run,
        drop_of(("t", "t.csv"), operation="tender.create"),
        [
            document(
                "tender.create",
                tender(1, packages=[{"package_type": "Box", "item_name": "x", "weight": "5"}]),
                [("t", 2, ("a",))],
            )
        ],
    )
    send(ledger, run)
    shown = tender(1, packages=[{"package_type": "Box", "item_name": "x", "weight": "5", "weight_uom": "KG"}])
    first = settle(ledger.queries, {"tender": listing([shown])}, run, USUAL)
    assert {(one.figure, one.unit) for one in first.totals if one.listed} == {("documents", ""), ("weight", "KG")}
    again = settle(ledger.queries, RecordedListings([(ended(ledger, run), first.pack_snapshot())]), run, USUAL)
    assert told(again) == told(first)


def test_an_entry_that_changed_since_is_not_verifiable(ledger):
    run = ledger.begin_run()
    planned(ledger, run, 1, 2)
    send(ledger, run, lambda one: accepted(one) if one.key == "A-00001" else refused(one))
    first = seen(ledger, run, [order(1)])
    assert verdicts(first) == [Verdict.MATCHED, Verdict.REFUSED]
    shown = first.pack_snapshot()
    over = ended(ledger, run)
    later = ledger.begin_run()
    wrong = next(ledger.queries.entries_in(State.REFUSED))
    ledger.settle(later, [Settlement(wrong.id, State.READY, "brought back")])
    send(ledger, later)
    again = settle(ledger.queries, RecordedListings([(over, shown)]), run, USUAL)
    assert verdicts(again) == [Verdict.MATCHED, Verdict.NOT_VERIFIABLE]
    looked = seen(ledger, later, [order(1), order(2)])
    both = settle(
        ledger.queries,
        RecordedListings([(over, shown), (ended(ledger, later), looked.pack_snapshot())]),
        later,
        USUAL,
        drops=ledger.queries.drops_of(over, later),
    )
    assert verdicts(both) == [Verdict.MATCHED, Verdict.MATCHED]


def test_absence_proves_only_what_it_proved_then(ledger, run):
    partial = seen(ledger, run, [order(1), order(3)], total=9)
    whole = seen(ledger, run, [order(1), order(3), order(8)])
    over = ended(ledger, run)
    assert verdicts(partial) == [Verdict.MATCHED, Verdict.NOT_VERIFIABLE, Verdict.MATCHED]
    assert verdicts(whole) == [Verdict.MATCHED, Verdict.MISSING, Verdict.MATCHED]
    for found in (partial, whole):
        again = settle(ledger.queries, RecordedListings([(over, found.pack_snapshot())]), run, USUAL)
        assert told(again) == told(found)
    assert [one.key for one in again.only_listed] == ["A-00008"]


def test_what_nobody_can_read_is_as_if_it_had_not_been_kept(ledger, run):
    newer = zlib.compress(msgspec.msgpack.encode([2, "whatever"]))
    for shown in (
        b"",
        b"rubbish",
        newer,
        zlib.compress(b"\xc1"),
        zlib.compress(msgspec.msgpack.encode({"a": 1})),
        zlib.compress(b"\x05"),
    ):
        again = settle(ledger.queries, RecordedListings([(ended(ledger, run), shown)]), run, USUAL)
        assert verdicts(again) == [Verdict.NOT_VERIFIABLE] * 3
        assert [leg.read for leg in again.legs] == [False]


def test_contents_are_kept_up_to_a_limit_and_nothing_is_said_beyond_it(ledger, run, monkeypatch):
    monkeypatch.setattr(listings, "CONTENTS_BYTES_MAX", 1_000)
    long = "x" * 900
    first = seen(ledger, run, [order(1, delivery_city=long), order(2, delivery_city=long), order(3)])
    shown = first.pack_snapshot()
    again = settle(ledger.queries, RecordedListings([(ended(ledger, run), shown)]), run, USUAL)
    assert verdicts(again) == [Verdict.VALUE_DIFFERENCE, Verdict.NOT_VERIFIABLE, Verdict.MATCHED]


def test_what_agrees_costs_next_to_nothing(tmp_path):
    with ledger_in(tmp_path) as ledger:
        run = ledger.begin_run()
        planned(ledger, run, 1)
        entry = next(ledger.queries.entries_in(State.READY))
    snapshot = ListingSnapshot()
    for number in range(50_000):
        snapshot.add(entry._replace(id=number + 1), 1, (), {})
    assert len(snapshot.pack((), (), RunNotes())) < 2_000

"""The listings that a run saw are kept in a few bytes and give the same verdicts again, but none on what changed since."""

import zlib
from dataclasses import replace
from decimal import Decimal

import msgspec
import pytest
from ledgers import accepted, document, drop_of, ledger_in, listing, order, plan, refused, send, tender

from loadsheet.ledger import Settlement, State
from loadsheet.reconcile import RecordedListings, RunNotes, Verdict, listings, reconcile_run
from loadsheet.reconcile.listings import ListingSnapshot
from loadsheet.settings import Settings

USUAL = Settings()


def everything(found):
    """All that a reconciliation says, but for how a sum is written (12.50 is 12.5)."""
    names = ("only_listed", "coverage", "balance", "totals", "fields", "shares", "exceptions")
    return dict(found.matches), [getattr(found, name) for name in names]


def seen(ledger, run, orders, total=None):
    return reconcile_run(ledger.queries, {"order": listing(orders, total=total), "tender": listing([])}, run, USUAL)


def recalled(ledger, run, snapshot):
    """The run settled again with the listings that it saw."""
    shown = RecordedListings([(replace(run, finished_at=ledger.now()), snapshot)])
    return reconcile_run(ledger.queries, shown, run, USUAL)


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


def test_values_that_differ_are_shown_as_the_exchange_showed_them(ledger, run):
    packages = [{**package, "weight": Decimal("1.5")} for package in order(3)["packages"]]
    shown = [order(1), order(2, delivery_city="Köln", total_weight=Decimal("7.125")), order(3, packages=packages)]
    first = seen(ledger, run, shown)
    again = recalled(ledger, run, first.pack_snapshot())
    assert everything(again) == everything(first)
    differences = [one.path for match in again.matches.values() for one in match.differences]
    assert sorted(differences) == ["delivery_city", "packages[0].weight", "packages[1].weight", "total_weight"]


def test_figures_that_the_exchange_adds_are_in_the_totals_again(ledger):
    run, package = ledger.begin_run(), {"package_type": "Box", "item_name": "x", "weight": "5"}
    made = document("tender.create", tender(1, packages=[package]), [("t", 2, ("a",))])
    plan(ledger, run, drop_of(("t", "t.csv"), operation="tender.create"), [made])
    send(ledger, run)
    shown = tender(1, packages=[{**package, "weight_uom": "KG"}])
    first = reconcile_run(ledger.queries, {"tender": listing([shown])}, run, USUAL)
    assert {(one.figure, one.unit) for one in first.totals if one.listed} == {("documents", ""), ("weight", "KG")}
    assert everything(recalled(ledger, run, first.pack_snapshot())) == everything(first)


@pytest.mark.parametrize(
    "differs", [{}, {"delivery_city": "Köln"}, {"total_weight": Decimal(7)}, {"gross_weight_uom": "Ton"}]
)
def test_an_update_without_unit_or_currency_counts_in_those_of_its_record_again(ledger, differs):
    run = ledger.begin_run()
    key = {name: order(1)[name] for name in ("order_id", "sender_id", "receiver_id")}
    changed = {**key, "total_weight": Decimal(500), "goods_value": Decimal(9), "delivery_city": "Bonn"}
    made = [
        document(operation, payload, [("orders", row, ("x",))])
        for row, (operation, payload) in enumerate([("order.create", order(1)), ("order.update", changed)], 2)
    ]
    plan(ledger, run, drop_of(("orders", "a.csv")), made)
    send(ledger, run)
    first = seen(ledger, run, [{**order(1), **changed, **differs}])
    assert everything(recalled(ledger, run, first.pack_snapshot())) == everything(first)


def test_an_entry_that_changed_since_is_not_verifiable(ledger):
    run = ledger.begin_run()
    planned(ledger, run, 1, 2)
    send(ledger, run, lambda one: accepted(one) if one.key == "A-00001" else refused(one))
    first = seen(ledger, run, [order(1)])
    assert verdicts(first) == [Verdict.MATCHED, Verdict.REFUSED]
    shown, over = first.pack_snapshot(), replace(run, finished_at=ledger.now())
    later = ledger.begin_run()
    wrong = next(ledger.queries.entries_in(State.REFUSED))
    ledger.settle(later, [Settlement(wrong.id, State.READY, "brought back")])
    send(ledger, later)
    again = recalled(ledger, run, shown)
    assert verdicts(again) == [Verdict.MATCHED, Verdict.NOT_VERIFIABLE]
    assert {one.result for one in again.totals} == {"not verifiable"}
    looked = seen(ledger, later, [order(1), order(2)])
    both = RecordedListings([(over, shown), (replace(later, finished_at=ledger.now()), looked.pack_snapshot())])
    both = reconcile_run(ledger.queries, both, later, USUAL, drops=ledger.queries.drops_of(over, later))
    assert verdicts(both) == [Verdict.MATCHED, Verdict.MATCHED]


def test_absence_proves_only_what_it_proved_then(ledger, run):
    partial = seen(ledger, run, [order(1), order(3)], total=9)
    whole = seen(ledger, run, [order(1), order(3), order(8)])
    assert verdicts(partial) == [Verdict.MATCHED, Verdict.NOT_VERIFIABLE, Verdict.MATCHED]
    assert verdicts(whole) == [Verdict.MATCHED, Verdict.MISSING, Verdict.MATCHED]
    for found in (partial, whole):
        again = recalled(ledger, run, found.pack_snapshot())
        assert everything(again) == everything(found)
    assert [one.key for one in again.only_listed] == ["A-00008"]


def test_what_only_the_exchange_has_is_known_again_by_its_kind(ledger, run):
    found = reconcile_run(ledger.queries, {"order": listing([order(8)]), "tender": listing([tender(8)])}, run, USUAL)
    again = recalled(ledger, run, found.pack_snapshot())
    assert [(one.subject, one.key) for one in again.only_listed] == [("order", "A-00008"), ("tender", "T-0008")]


@pytest.mark.parametrize(
    "snapshot",
    [
        b"",
        b"rubbish",
        zlib.compress(msgspec.msgpack.encode([2, "of a newer version"])),
        zlib.compress(b"\xc1"),
        zlib.compress(msgspec.msgpack.encode({"a": 1})),
        zlib.compress(b"\x05"),
    ],
)
def test_a_snapshot_that_cannot_be_read_counts_as_none(ledger, run, snapshot):
    again = recalled(ledger, run, snapshot)
    assert verdicts(again) == [Verdict.NOT_VERIFIABLE] * 3
    assert [leg.read for leg in again.coverage] == [False]


def test_contents_are_kept_up_to_a_limit_and_nothing_is_said_beyond_it(ledger, run, monkeypatch):
    monkeypatch.setattr(listings, "CONTENTS_BYTES_MAX", 1_000)
    long = "x" * 900
    first = seen(ledger, run, [order(1, delivery_city=long), order(2, delivery_city=long), order(3)])
    again = recalled(ledger, run, first.pack_snapshot())
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

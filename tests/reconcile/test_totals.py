"""Control totals: weights, volumes, values and counts from the source to the exchange, apart by unit and currency."""

from decimal import Decimal

import pytest
from ledgers import document, drop_of, listing, order, plan, refused, send, tender, weight_problem
from reported_runs import run_begun

from loadsheet.contract import BY_NAME, MEASURES, amounts
from loadsheet.contract.summaries import scale_of
from loadsheet.reconcile import reconcile_run
from loadsheet.reconcile.balance import NOT_LISTED


def totals(tmp_path, *documents, answers=(), **listed):
    """The legs of each total of a run of one file: source, not sent, sent, acknowledged, listed."""
    made = [
        document(operation, payload, [("orders", row, (f"k{row}",))], *problems)
        for row, (operation, payload, *problems) in enumerate(documents, start=2)
    ]
    with run_begun(tmp_path) as (ledger, run, settings):
        plan(ledger, run, drop_of(("orders", "in.csv")), made)
        send(ledger, run, lambda submission: dict(answers).get(submission.key, lambda _: None)(submission))
        found = reconcile_run(ledger.queries, {"order": None, "tender": None, **listed}, run, settings)
        return {(total.subject, total.figure, total.unit): total for total in found.totals}


def legs(found, subject, figure, unit=""):
    return found[subject, figure, unit].legs


def test_figures_are_followed_through_all_legs(tmp_path):
    documents = [
        ("order.create", order(1, total_weight=Decimal("100.5"))),
        ("order.create", order(2, total_weight=Decimal("200.25"))),
        ("order.create", order(3, total_weight=Decimal(7)), weight_problem("in.csv", 4)),
        ("order.create", None, weight_problem("in.csv", 5)),
    ]
    listed = listing([order(1, total_weight=Decimal("99.5")), order(2)])
    found = totals(tmp_path, *documents, answers={"A-00002": refused}, order=listed)
    weight = tuple(Decimal(text) for text in ("307.75", "7", "300.75", "100.5", "99.5"))
    assert legs(found, "order", "weight", "KG") == weight
    assert legs(found, "order", "documents") == (4, 2, 2, 1, 1)
    assert legs(found, "order", "packages") == (6, 2, 4, 2, 2)


def test_totals_of_what_was_not_listed_say_so(tmp_path):
    found = totals(tmp_path, ("order.create", order(1)))
    assert {total.result for total in found.values()} == {NOT_LISTED}


def test_currencies_and_units_are_never_added_across(tmp_path):
    documents = [
        ("order.create", order(1, goods_value=Decimal("10.10"), currency="EUR")),
        ("order.create", order(2, goods_value=Decimal("20.20"), currency="CHF", gross_weight_uom="Ton")),
    ]
    found = totals(tmp_path, *documents)
    assert legs(found, "order", "goods value", "EUR")[0] == Decimal("10.10")
    assert legs(found, "order", "goods value", "CHF")[0] == Decimal("20.20")
    assert {unit for _, figure, unit in found if figure == "weight"} == {"KG", "Ton"}


def test_tenders_are_added_up_from_their_packages(tmp_path):
    package = {"package_type": "Box", "item_name": "x", "quantity": "2", "weight": "1.5", "weight_uom": "KG"}
    made = tender(1, packages=[package, package, {"package_type": "Box", "item_name": "y"}])
    found = totals(tmp_path, ("tender.create", made), tender=listing([]))
    assert legs(found, "tender", "weight", "KG") == (3, 0, 3, 3, 0)
    assert legs(found, "tender", "packages") == (4, 0, 4, 4, 0)


PARTIES = {"order_id": "A-00001", "sender_id": "ACME", "receiver_id": "CARGO"}


def test_an_update_is_compared_in_the_figures_it_carries(tmp_path):
    update = ("order.update", {**PARTIES, "total_packages": 5})
    found = totals(tmp_path, ("order.create", order(1)), update, order=listing([order(1, total_packages=5)]))
    weight = order(1)["total_weight"]
    assert legs(found, "order", "packages") == (7, 0, 7, 5, 5)
    assert legs(found, "order", "weight", "KG") == (weight, 0, weight, 0, 0)


@pytest.mark.parametrize("made_here", [True, False])
def test_an_update_without_unit_or_currency_counts_in_those_of_its_record(tmp_path, made_here):
    changed = {"total_weight": Decimal(500), "goods_value": Decimal(9)}
    documents = [("order.create", order(1, currency="CHF"))] * made_here + [("order.update", {**PARTIES, **changed})]
    found = totals(tmp_path, *documents, order=listing([order(1, currency="CHF", **changed)]))
    assert legs(found, "order", "weight", "KG")[-2:] == (500, 500)
    assert legs(found, "order", "goods value", "CHF")[-2:] == (9, 9)
    assert {unit for _, figure, unit in found if figure in ("weight", "goods value")} == {"KG", "CHF"}


def test_a_record_in_another_unit_than_it_was_made_in_differs(tmp_path):
    update = ("order.update", {**PARTIES, "total_weight": Decimal(500)})
    listed = listing([order(1, total_weight=Decimal(500), gross_weight_uom="Ton")])
    found = totals(tmp_path, ("order.create", order(1)), update, order=listed)
    differ = {(figure, unit) for (_, figure, unit), total in found.items() if total.result == "differs"}
    assert differ == {("weight", "KG"), ("weight", "Ton")}


@pytest.mark.parametrize("subject", MEASURES)
def test_measures_name_fields_of_the_interface(subject):
    record = BY_NAME[f"{subject}.list"].record
    for measure in MEASURES[subject]:
        holder = record.field(measure.items).record if measure.items else record
        assert holder.field(measure.field)
        assert not measure.unit or holder.field(measure.unit)
        assert scale_of(measure.field) in (None, measure.scale)


def test_figures_that_are_not_numbers_do_not_count():
    record = {"total_weight": "heavy", "total_volume": True, "goods_value": "1e3", "total_packages": None}
    assert [(measure.name, unit, amount) for measure, unit, amount in amounts(MEASURES["order"], record)] == [
        ("goods value", "", 1000)
    ]
    assert not list(amounts(MEASURES["tender"], {"packages": "none"}))

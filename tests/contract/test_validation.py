from decimal import Decimal

import pytest

from loadsheet.contract import (
    BY_NAME,
    OPERATIONS,
    WRITES,
    Assumptions,
    Fault,
    Kind,
    When,
    body_checker,
    checker,
    components,
)
from loadsheet.contract.validation import model

STRICT = Assumptions()


def faults(operation, payload, **assumed):
    return {fault.path: fault.text for fault in checker(BY_NAME[operation], Assumptions(**assumed))(payload)}


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_an_empty_record_is_told_every_required_field(operation):
    required = {field.name for field in operation.record.fields if field.is_required(creates=operation.creates)}
    assert faults(operation.name, {}) == dict.fromkeys(required, "is required")


def test_an_order_requires_33_fields_on_create_and_three_on_update():
    assert len(faults("order.create", {})) == 33
    assert len(faults("order.update", {})) == 3


def test_all_wrong_fields_are_told_at_once_with_their_place():
    order = {
        "order_id": 1,
        "sender_id": "a",
        "receiver_id": True,
        "packages": [{"package_type": "Box"}, 3],
        "colour": "red",
    }
    assert faults("order.update", order) == {
        "receiver_id": "must be a text or a number",
        "packages[0].item_name": "is required",
        "packages[1]": "must be a JSON object",
        "colour": "is not a field of this record",
    }


@pytest.mark.parametrize("body", [None, 1, "x", [], True])
def test_what_is_no_object_is_one_fault_of_the_whole_body(body):
    assert checker(BY_NAME["order.create"], STRICT)(body) == (Fault("", "must be a JSON object"),)


IDS = {"order_id": "1", "sender_id": "a", "receiver_id": "b"}
TENDER = {"tender_id": "1", "sender_id": "a", "receiver_id": "b", "tender_status": "OPEN"}


PACKAGE = {"package_type": "Box", "item_name": "x"}
EVENT = {"order_id": "1", "totalWeight": "12.50", "statusHistory": [{"quantity": "4"}]}


@pytest.mark.parametrize(
    ("operation", "sampled", "other", "field"),
    [
        ("order.update", IDS | {"total_weight": Decimal("1.50")}, IDS | {"total_weight": "1.50"}, "total_weight"),
        (
            "tender.create",
            TENDER | {"packages": [PACKAGE | {"weight": "1.50"}]},
            TENDER | {"packages": [PACKAGE | {"weight": Decimal("1.50")}]},
            "packages[0].weight",
        ),
        ("order.status", EVENT, EVENT | {"totalWeight": Decimal("12.50")}, "totalWeight"),
        ("order.status", EVENT, EVENT | {"statusHistory": [{"quantity": 4}]}, "statusHistory[0].quantity"),
    ],
)
def test_a_number_is_taken_in_both_forms_unless_only_that_of_the_samples_is(operation, sampled, other, field):
    assert not faults(operation, sampled)
    assert not faults(operation, other)
    assert not faults(operation, sampled, number_forms="declared")
    assert set(faults(operation, other, number_forms="declared")) == {field}


@pytest.mark.parametrize("wrong", ["NaN", "Infinity"])
def test_numbers_are_finite(wrong):
    assert "total_weight" in faults("order.update", IDS | {"total_weight": Decimal(wrong)})


def test_each_assumption_about_values_changes_the_verdict():
    assert not faults("order.update", IDS | {"gross_weight_uom": "stone"})
    assert "gross_weight_uom" in faults("order.update", IDS | {"gross_weight_uom": "stone"}, known_values="closed")
    assert "timezone" in faults("order.update", IDS | {"timezone": "Mars/Olympus"})
    assert not faults("order.update", IDS | {"timezone": "Mars/Olympus"}, timezones="any")
    assert not faults("order.update", IDS | {"order_id": ""})
    assert "order_id" in faults("order.update", IDS | {"order_id": ""}, empty_required="reject")
    assert "currency" in faults("order.update", IDS | {"currency": None})
    assert not faults("order.update", IDS | {"currency": None}, null_fields="absent")
    assert "colour" in faults("order.update", IDS | {"colour": "red"})
    assert not faults("order.update", IDS | {"colour": "red"}, unknown_fields="ignore")
    assert "goods_value" in faults("tender.create", TENDER | {"goods_value": "1"})
    assert not faults("tender.create", TENDER | {"goods_value": "1"}, listing_only_fields="accept")
    assert "pickup_city" in faults("order.update", IDS | {"pickup_city": "xxx"}, text_length_max=2)
    assert "packages" in faults("order.update", IDS | {"packages": [{}, {}]}, array_length_max=1)


def test_both_spellings_of_the_history_description_are_taken():
    for name in ("status_description", "status-description"):
        assert not faults("order.status", {"order_id": "1", "statusHistory": [{name: "x"}]})


def test_a_status_update_names_the_records_by_index():
    operation = BY_NAME["order.status"]
    assert body_checker(operation, STRICT)({"data": [{"order_id": 1}, {}]}) == (Fault("order_id", "is required", 1),)
    assert [fault.path for fault in body_checker(operation, STRICT)({"data": []})] == ["data"]
    assert [fault.path for fault in body_checker(operation, STRICT)({"data": "x"})] == ["data"]
    assert [fault.path for fault in body_checker(operation, STRICT)([])] == ["data"]
    few = Assumptions(status_records_max=1)
    assert [fault.path for fault in body_checker(operation, few)({"data": [{"order_id": 1}] * 2})] == ["data"]


def test_every_record_publishes_a_json_schema_with_the_meaning_of_each_field():
    for operation in WRITES:
        properties = model(operation, STRICT).model_json_schema()["properties"]
        for field in operation.record.fields:
            if field.when is not When.LISTED and field.kind not in (Kind.OBJECT, Kind.ARRAY):
                assert properties[field.name]["description"] == field.meaning


def lengths(found):
    """The least lengths of all texts in a schema."""
    if isinstance(found, dict):
        if "minLength" in found:
            yield found["minLength"]
        found = list(found.values())
    for inner in found if isinstance(found, list) else ():
        yield from lengths(inner)


@pytest.mark.parametrize(("assumed", "least"), [("reject", {1}), ("accept", set())])
def test_a_required_text_has_a_character_where_an_empty_one_is_refused(assumed, least):
    assert set(lengths(components(OPERATIONS, Assumptions(empty_required=assumed)))) == least

"""How values are spelled, and what a record may hold."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import (
    BY_NAME,
    DATE_SHAPES,
    KIND_DESCRIPTIONS,
    OPERATIONS,
    WRITES,
    Assumptions,
    Fault,
    FieldKind,
    FlagForm,
    NumberForm,
    When,
    body_checker,
    checker,
    components,
    plain_digits,
    wire_form,
)
from loadsheet.contract.kinds import NUMBER_TEXT, is_valid_date_text
from loadsheet.contract.validation import model

STRICT = Assumptions()


def faults(operation, payload, **assumed):
    return {fault.path: fault.text for fault in checker(BY_NAME[operation], Assumptions(**assumed))(payload)}


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_an_empty_record_is_refused_with_every_required_field(operation):
    required = {field.name for field in operation.record.fields if field.is_required(creates=operation.creates)}
    assert faults(operation.name, {}) == dict.fromkeys(required, "is required")
    counts = {"order.create": 33, "order.update": 3}
    assert len(required) == counts.get(operation.name, len(required))


def test_all_wrong_fields_are_named_at_once_with_their_place():
    order = {
        "order_id": 1,
        "sender_id": "a",
        "receiver_id": True,
        "pickup_startdatetime": "01.03.2026",
        "dedicated_vehicle": "maybe",
        "packages": [{"package_type": "Box"}, 3, {**PACKAGE, "inner_cargos": [{"quantity": "four"}]}],
        "colour": "red",
    }
    assert faults("order.update", order) == {
        "receiver_id": "must be a text or a number",
        "pickup_startdatetime": "must be a value such as 2026-03-01 08:00:00",
        "dedicated_vehicle": "must be yes or no (true or false)",
        "packages[0].item_name": "is required",
        "packages[1]": "must be a JSON object",
        "packages[2].inner_cargos[0].quantity": "must be a number or a number in a text, such as 12.5",
        "colour": "is not a field of this record",
    }
    for body in (None, 1, "x", [], True):
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


@pytest.mark.parametrize(
    ("operation", "of", "quantity", "fault"),
    [
        ("order.update", IDS, "1.50", "must be a number without quotes, such as 12.5"),
        ("order.update", IDS, "much", "must be a number without quotes, such as 12.5"),
        ("order.update", IDS, True, "must be a number"),
        ("tender.create", TENDER, 1, 'must be a number in quotes, such as "12.5"'),
        ("tender.create", TENDER, "much", "must be a number in a text, such as 12.5"),
        ("tender.create", TENDER, True, "must be a text"),
    ],
)
def test_a_number_in_the_other_form_is_refused_with_the_form_that_is_wanted(operation, of, quantity, fault):
    record = of | {"packages": [PACKAGE | {"weight": quantity}]}
    assert faults(operation, record, number_forms="declared") == {"packages[0].weight": fault}


@pytest.mark.parametrize("wrong", ["NaN", "Infinity"])
def test_numbers_are_finite(wrong):
    assert "total_weight" in faults("order.update", IDS | {"total_weight": Decimal(wrong)})


def test_a_status_update_names_the_records_by_index():
    check = body_checker(BY_NAME["order.status"], Assumptions(status_records_max=2))
    good, no_array, number = {"order_id": 1}, "must be an array of records", "must hold 1 to 2 records, found {}"
    for body, expected in (
        ({"data": [good, good]}, []),
        ({"data": [good, {}]}, [Fault("order_id", "is required", 1)]),
        ({"data": ["x", good]}, [Fault("", "must be a JSON object", 0)]),
        ({"data": []}, [Fault("data", number.format(0))]),
        ({"data": [good] * 3}, [Fault("data", number.format(3))]),
        *((body, [Fault("data", no_array)]) for body in ({"data": {}}, {"data": "x"}, {}, [])),
        ({"data": [good], "more": 1}, [Fault("more", "is not a field of this record")]),
        *(
            ({"data": [{**good, "statusHistory": [{name: "x"}]}]}, [])
            for name in ("status_description", "status-description")
        ),
    ):
        assert list(check(body)) == expected, body


def test_every_record_publishes_a_json_schema_with_the_meaning_of_each_field():
    for operation in WRITES:
        properties = model(operation, STRICT).model_json_schema()["properties"]
        for field in operation.record.fields:
            if field.when is not When.LISTED and field.kind not in (FieldKind.OBJECT, FieldKind.ARRAY):
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


def spelled(kind, value, numbers=NumberForm.JSON_NUMBER, flags=FlagForm.YES_NO):
    return wire_form(kind, value, numbers=numbers, flags=flags)


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2999, 12, 31)))
def test_every_datetime_is_spelled_in_the_shape_of_its_field(moment):
    for kind in (FieldKind.DATETIME, FieldKind.DATETIME_T, FieldKind.DATETIME_ISO):
        text = spelled(kind, moment)
        assert is_valid_date_text(kind, text)
        assert datetime.strptime(text, DATE_SHAPES[kind][0]) == moment.replace(microsecond=0)


def test_dates_and_times_are_spelled_in_utc_where_the_shape_says_so_and_a_wrong_one_is_refused():
    moment = datetime(2026, 3, 1, 8, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    for kind, value, text in (
        (FieldKind.DATETIME_ISO, moment, "2026-03-01T02:30:00Z"),
        (FieldKind.DATETIME, moment, "2026-03-01 08:00:00"),
        (FieldKind.DATETIME_ISO, datetime(2026, 3, 1, tzinfo=UTC), "2026-03-01T00:00:00Z"),
        (FieldKind.DATE, date(2026, 3, 1), "2026-03-01"),
        (FieldKind.TIME, time(8, 5), "08:05:00"),
        (FieldKind.DATE, "2026-03-01", "2026-03-01"),
    ):
        assert spelled(kind, value) == text
    for wrong in ("01.03.2026", "2026-02-30", time(8), 5):
        with pytest.raises(ValueError, match="expected"):
            spelled(FieldKind.DATE, wrong)
    for text in ("2026-02-29 00:00:00", "2026-03-01 24:00:00", "2026-03-01T08:00:00", "٢026-03-01 08:00:00"):
        assert not is_valid_date_text(FieldKind.DATETIME, text)


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_numbers_are_spelled_exactly_and_never_with_an_exponent(number):
    text = plain_digits(number)
    assert "E" not in text.upper()
    assert Decimal(text) == number
    assert spelled(FieldKind.NUMERIC, number) == number
    assert spelled(FieldKind.NUMERIC, number, NumberForm.JSON_STRING) == text
    assert plain_digits(Decimal("12.50")) == "12.50"


@pytest.mark.parametrize("wrong", ["12,5", "", " 1", "1.", "01", "NaN", "0x1", True])
def test_what_json_would_not_call_a_number_is_none(wrong):
    with pytest.raises(ValueError, match="a number"):
        spelled(FieldKind.NUMERIC, wrong)
    assert NUMBER_TEXT.fullmatch(str(wrong)) is None


def test_flags_take_the_settable_form_and_identifiers_keep_their_zeros():
    for form, yes, no in ((FlagForm.YES_NO, "yes", "no"), (FlagForm.TRUE_FALSE, "true", "false")):
        assert [spelled(FieldKind.FLAG, value, flags=form) for value in (True, False, "YES", "false")] == [
            yes,
            no,
            yes,
            no,
        ]
        with pytest.raises(ValueError, match="yes or no"):
            spelled(FieldKind.FLAG, "maybe", flags=form)
    assert [spelled(FieldKind.STRING_OR_NUMERIC, value) for value in ("00012", 12)] == ["00012", "12"]
    assert KIND_DESCRIPTIONS.keys() == set(FieldKind)

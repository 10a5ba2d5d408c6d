from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from payload_examples import ORDER, TENDER

from loadsheet.contract import BY_NAME, Difference, Tolerances, different_fields, same_content

ORDERS = BY_NAME["order.create"].record
TENDERS = BY_NAME["tender.create"].record
STATUS = BY_NAME["order.status"].record


def differences(record, sent, held, **tolerances):
    exact = {name: Decimal(value) for name, value in tolerances.items()}
    return [tuple(found) for found in different_fields(record, sent, held, Tolerances(**exact))]


@pytest.mark.parametrize(("record", "payload"), [(ORDERS, ORDER), (TENDERS, TENDER)])
def test_a_record_is_as_it_was_sent(record, payload):
    raw = msgspec.json.Encoder(decimal_format="number").encode(payload)
    held = msgspec.json.Decoder(float_hook=Decimal).decode(raw)
    assert different_fields(record, payload, {**held, "order_status": "NEW"}) == []


@pytest.mark.parametrize(
    ("record", "field", "sent", "held"),
    [
        (ORDERS, "total_weight", Decimal("12.50"), Decimal("12.5")),
        (ORDERS, "total_weight", Decimal("12.50"), "12.5"),
        (ORDERS, "total_weight", 12, "12.000"),
        (ORDERS, "total_weight", Decimal("1E+2"), 100),
        (ORDERS, "order_id", "1067", 1067),
        (ORDERS, "dedicated_vehicle", "yes", "TRUE"),
        (ORDERS, "dedicated_vehicle", "no", "false"),
        (ORDERS, "dedicated_vehicle", "yes", True),
        (ORDERS, "pickup_startdatetime", "2026-03-01 08:00:00", "2026-03-01T08:00:00"),
        (ORDERS, "timeoffset", "5.5", "+05:30"),
        (ORDERS, "timeoffset", "-3", "-03:00"),
        (ORDERS, "vehicle_type", "", None),
        (ORDERS, "packages", [], None),
        (ORDERS, "vehicle_type", "7", 7),
        (STATUS, "pickupDate", "2026-03-01", "2026-03-01"),
        (STATUS, "pickupTime", "08:00:00", "08:00"),
        (STATUS, "totalWeight", "12.50", "12.5"),
    ],
)
def test_spellings_of_one_value_are_equal(record, field, sent, held):
    assert differences(record, {field: sent}, {field: held}) == []


@pytest.mark.parametrize(
    ("field", "sent", "held", "told"),
    [
        ("pickup_pincode", "01067", "1067", ("01067", "1067")),
        ("pickup_pincode", "01067", 1067, ("01067", "1067")),
        ("pickup_city", "Köln", "köln", ("Köln", "köln")),
        ("total_weight", Decimal("12.50"), Decimal("12.51"), ("12.50", "12.51")),
        ("total_weight", 12, "twelve", ("12", "twelve")),
        ("total_weight", 1, True, ("1", "true")),
        ("dedicated_vehicle", "yes", "no", ("yes", "no")),
        ("dedicated_vehicle", "yes", "maybe", ("yes", "maybe")),
        ("pickup_startdatetime", "2026-03-01 08:00:00", "2026-03-01 09:00:00", None),
        ("pickup_startdatetime", "2026-03-01 08:00:00", "2026-03-01T08:00:00Z", None),
        ("timeoffset", "5.5", "5", ("5.5", "5")),
        ("vehicle_type", "Van", None, ("Van", "")),
        ("vehicle_type", "", "Van", ("", "Van")),
        ("packages", [{"item_name": "a"}], [], ("1 item", "")),
        ("packages", [{"item_name": "a"}], [{"item_name": "a"}] * 2, ("1 item", "2 items")),
        ("packages", [{"item_name": "a"}], {"item_name": "a"}, ("1 item", "an object")),
    ],
)
def test_different_values_are_reported(field, sent, held, told):
    ((path, mine, theirs),) = differences(ORDERS, {field: sent}, {field: held})
    assert path == field
    assert told is None or (mine, theirs) == told


def test_a_field_that_was_not_sent_is_not_compared_and_one_that_is_missing_is():
    assert differences(ORDERS, {}, ORDER) == []
    assert differences(ORDERS, {"currency": "EUR"}, {}) == [("currency", "EUR", "")]
    assert differences(ORDERS, {"nobody": "x"}, {}) == [("nobody", "x", "")]
    one, other = ({"statusHistory": [{f"status{sign}description": "late"}]} for sign in "-_")
    assert differences(STATUS, one, other) == differences(STATUS, other, one) == []  # two spellings of one field


def test_nested_fields_are_named_by_their_path():
    sent = {"packages": [{"weight": 1}, {"weight": Decimal("2.0"), "inner_cargos": [{"quantity": 4}]}]}
    held = {"packages": [{"weight": 1}, {"weight": Decimal(3), "inner_cargos": [{"quantity": 5, "x": 1}]}]}
    assert different_fields(ORDERS, sent, held) == [
        Difference("packages[1].weight", "2.0", "3"),
        Difference("packages[1].inner_cargos[0].quantity", "4", "5"),
    ]
    window = {"estimatedPickup": {"startDate": "2026-03-01"}}
    assert differences(STATUS, window, {"estimatedPickup": {"startDate": "2026-03-02"}}) == [
        ("estimatedPickup.startDate", "2026-03-01", "2026-03-02")
    ]


def test_weights_and_money_agree_within_their_tolerances_and_counts_do_not():
    sent = {"total_weight": Decimal(10), "goods_value": Decimal("5.00"), "total_packages": 2}
    held = {"total_weight": Decimal("10.001"), "goods_value": Decimal("5.01"), "total_packages": 2}
    assert len(differences(ORDERS, sent, held)) == 2
    assert differences(ORDERS, sent, held, weight="0.001", money="0.01") == []
    assert len(differences(ORDERS, sent, held, weight="0.0009", money="0.009")) == 2
    assert len(differences(ORDERS, {"total_packages": 2}, {"total_packages": 3}, weight="9", money="9")) == 1


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["weight", "item_name"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([field.name for field in ORDERS.fields]), values, max_size=6), values)
def test_any_record_equals_itself_and_any_two_can_be_compared(sent, other):
    assert different_fields(ORDERS, sent, sent) == []
    for name in sent:
        assert {
            found.path.split("[")[0].split(".")[0] for found in different_fields(ORDERS, sent, {**sent, name: other})
        } <= {name}


LINES = [{"item_name": "Rug", "weight": 22}, {"item_name": "Lamp", "weight": "1.50"}, {"item_name": "Rug", "weight": 3}]


def test_lines_in_another_order_are_the_same_unless_order_counts_and_the_one_that_differs_is_reported():
    sent, held = {"packages": LINES}, {"packages": [{**LINES[2], "weight": "3.0"}, LINES[1], LINES[0]]}
    assert different_fields(ORDERS, sent, held) == []
    assert different_fields(ORDERS, sent, held, ordered=["packages"]) != []
    assert different_fields(ORDERS, sent, held, ordered=None) != []
    held = {"packages": [LINES[2], {"item_name": "Rug", "weight": 23}, LINES[1]]}
    assert different_fields(ORDERS, sent, held) == [Difference("packages[0].weight", "22", "23")]


@pytest.mark.parametrize(
    ("one", "other", "ordered", "same"),
    [
        # whatever the order of keys and lines
        ('{"a":[{"x":1},{"y":1,"x":2}],"b":1}', '{"b":1,"a":[{"x":2,"y":1},{"x":1}]}', (), True),
        ('{"a":[{"x":1},{"y":1,"x":2}],"b":1}', '{"b":1,"a":[{"x":2,"y":1},{"x":1}]}', ("a",), False),
        ('{"a":[{"x":1},{"y":1,"x":2}],"b":1}', '{"b":1,"a":[{"x":2,"y":1},{"x":2}]}', (), False),
        ('{"a":[{"x":1},{"y":1,"x":2}],"b":1}', '{"a":[{"x":2,"y":1},{"x":1}],"b":1}', ("c",), True),
        # and whatever ends the lines of a text
        (r'{"a":"x\r\ny"}', r'{"a":"x\ny"}', (), True),
        (r'{"a":[{"b":"x\ry"}]}', r'{"a":[{"b":"x\ny"}]}', (), True),
        (r'{"a":"\\r\r\n"}', r'{"a":"\\r\n"}', (), True),
        (r'{"a":"x\\ry"}', r'{"a":"x\\ny"}', (), False),
        (r'{"a":"x\r\n\r\ny"}', r'{"a":"x\ny"}', (), False),
    ],
)
def test_content_is_the_same_whatever_the_order_of_keys_and_lines_and_the_ends_of_lines(one, other, ordered, same):
    assert same_content(one.encode(), other.encode(), ordered) is same
    assert same_content(other.encode(), one.encode(), ordered) is same

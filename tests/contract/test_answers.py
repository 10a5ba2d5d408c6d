from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadsheet.contract import (
    BY_NAME,
    WRITES,
    Assumptions,
    Fault,
    UndocumentedAnswer,
    listing,
    read_listing,
    read_refusal,
    read_success,
    refusal,
    success,
)
from loadsheet.contract.operations import Answer, ErrorShape

ASSUMED = Assumptions()
PAYLOAD = {
    "tender_id": "T1",
    "order_id": "O1",
    "sender_id": "S",
    "receiver_id": "R",
    "carrier_id": "C",
    "status": "accept",
}


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_what_the_exchange_says_is_what_the_client_reads(operation):
    receipt = read_success(operation, success(operation, PAYLOAD, ASSUMED, service_order=7), ASSUMED)
    assert receipt.echoed in ("", operation.key_of(PAYLOAD))
    assert receipt.service_order == ("7" if operation.answer is Answer.ORDER else "")
    index = 1 if operation.error is ErrorShape.INDEXED else None
    faults = (Fault("order_id", "is required", index), Fault("currency", "must be a text", index))
    read = read_refusal(operation, refusal(operation, faults))
    if operation.error is ErrorShape.DETAILS:
        assert read == (Fault("", "order_id: is required; currency: must be a text"),)
    else:
        assert read == faults


def test_the_keys_of_the_order_numbers_and_the_first_index_are_settable():
    named = Assumptions(customer_order_key="XYZ_ORDER", service_order_key="TMS_ORDER")
    body = success(BY_NAME["order.create"], PAYLOAD, named, service_order=7)
    assert body["data"]["order_id"]["orders_data"] == [{"XYZ_ORDER": "O1", "TMS_ORDER": 7}]
    assert read_success(BY_NAME["order.create"], body, named).service_order == "7"
    indexed = refusal(BY_NAME["order.status"], (Fault("order_id", "is required", 0),), index_base=1)
    assert indexed["errors"] == {"data[1]": {"order_id": "is required"}}


def test_the_four_shapes_of_a_400_have_the_documented_keys():
    keys = {operation.name: tuple(refusal(operation, (Fault("order_id", "is required", 0),))) for operation in WRITES}
    assert keys.pop("tender.delete") == ("status", "message", "errors")
    assert keys.pop("order.delete") == ("results", "error")
    assert set(keys.values()) == {("results", "status", "message", "errors")}


def test_a_listing_says_how_many_pages_there_are_and_whether_it_is_complete():
    body = listing([{"order_id": "1"}], page_size=1, total_count=3)
    assert body == {"page_size": 1, "results": [{"order_id": "1"}], "total_count": 3, "total_pages": 3}
    assert not read_listing(body).complete
    assert read_listing(listing([], page_size=10, total_count=0)).complete


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["results", "status", "data", "order_id", "errors", "error", "message"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
@given(body=json_values)
def test_any_other_json_is_undocumented_and_never_a_crash(operation, body):
    with suppress(UndocumentedAnswer):
        read_success(operation, body, ASSUMED)
    with suppress(UndocumentedAnswer):
        read_refusal(operation, body)
    with suppress(UndocumentedAnswer):
        read_listing(body)


@pytest.mark.parametrize("said", ["true", 1, None, False])
def test_a_200_whose_status_is_not_true_is_no_success(said):
    with pytest.raises(UndocumentedAnswer):
        read_success(BY_NAME["order.delete"], {"status": said, "message": "Order deleted"}, ASSUMED)

"""Answers of the exchange, and whole listings read block by block: what one side says is what the other reads, and all else is undocumented."""

import io
import json
from contextlib import suppress
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadsheet.contract import (
    BY_NAME,
    WRITES,
    Assumptions,
    Fault,
    StatusFalse,
    UndocumentedAnswer,
    listing_body,
    read_listing,
    read_refusal,
    read_success,
    refusal_body,
    scan_listing,
    success_body,
)
from loadsheet.contract.operations import AnswerShape, ErrorShape

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
    read = read_success(operation, success_body(operation, PAYLOAD, ASSUMED, service_order=7), ASSUMED)
    assert read.echoed in ("", operation.key_of(PAYLOAD))
    assert read.service_order == ("7" if operation.answer is AnswerShape.ORDER else "")
    index = 1 if operation.error is ErrorShape.INDEXED else None
    faults = (Fault("order_id", "is required", index), Fault("currency", "must be a text", index))
    read = read_refusal(operation, refusal_body(operation, faults))
    if operation.error is ErrorShape.DETAILS:
        assert read == (Fault("", "order_id: is required; currency: must be a text"),)
    else:
        assert read == faults


def test_the_keys_of_the_order_numbers_and_the_first_index_are_settable():
    named = Assumptions(customer_order_key="XYZ_ORDER", service_order_key="TMS_ORDER")
    body = success_body(BY_NAME["order.create"], PAYLOAD, named, service_order=7)
    assert body["data"]["order_id"]["orders_data"] == [{"XYZ_ORDER": "O1", "TMS_ORDER": 7}]
    assert read_success(BY_NAME["order.create"], body, named).service_order == "7"
    indexed = refusal_body(BY_NAME["order.status"], (Fault("order_id", "is required", 0),), index_base=1)
    assert indexed["errors"] == {"data[1]": {"order_id": "is required"}}


@pytest.mark.parametrize("setting", ["customer_order_key", "service_order_key"])
def test_an_order_number_under_another_key_names_the_setting(setting):
    body = success_body(BY_NAME["order.update"], PAYLOAD, Assumptions(**{setting: "OTHER"}), service_order=7)
    with pytest.raises(
        UndocumentedAnswer, match=rf"^orders_data\[0\] has no {setting[:-4].upper()} \(assumptions\.{setting}\)$"
    ):
        read_success(BY_NAME["order.update"], body, ASSUMED)


def test_the_four_shapes_of_a_400_have_the_documented_keys():
    keys = {
        operation.name: tuple(refusal_body(operation, (Fault("order_id", "is required", 0),))) for operation in WRITES
    }
    assert keys.pop("tender.delete") == ("status", "message", "errors")
    assert keys.pop("order.delete") == ("results", "error")
    assert set(keys.values()) == {("results", "status", "message", "errors")}


def test_a_listing_says_how_many_pages_there_are_and_whether_it_is_complete():
    body = listing_body([{"order_id": "1"}], page_size=1, total_count=3)
    assert body == {"page_size": 1, "results": [{"order_id": "1"}], "total_count": 3, "total_pages": 3}
    assert not read_listing(body).complete
    assert read_listing(listing_body([], page_size=10, total_count=0)).complete


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


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("true", "status is not true"),
        (1, "status is not true"),
        (None, "status is not true"),
        (False, "status is false"),
    ],
)
def test_a_200_whose_status_is_not_true_is_no_success(said, words):
    with pytest.raises(UndocumentedAnswer, match=f"^{words}$"):
        read_success(BY_NAME["order.delete"], {"status": said, "message": "Order deleted"}, ASSUMED)


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_a_200_with_the_body_of_a_400_says_no(operation):
    body = refusal_body(operation, (Fault("order_id", "is required"),))
    wrong = UndocumentedAnswer if operation.error is ErrorShape.DETAILS else StatusFalse
    with pytest.raises(UndocumentedAnswer) as raised:
        read_success(operation, body, ASSUMED)
    assert raised.type is wrong


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (["is wrong", "is too long"], {"currency": "is wrong; is too long"}),
        ({"code": ["is wrong"]}, {"currency.code": "is wrong"}),
        ([{}, {"weight": "is not a number", "item": [{"name": None}]}],
         {"currency[0]": "", "currency[1].weight": "is not a number", "currency[1].item[0].name": ""}),
        ([], {"currency": ""}),
        ([[[[[5]]]]], {"currency[0][0][0][0]": "[5]"}),
        (5, {"currency": "5"}),
    ],
)  # fmt: skip
def test_errors_with_lists_and_objects_are_read_field_by_field(said, named):
    body = {"results": [], "status": False, "message": "Invalid.", "errors": {"currency": said}}
    assert read_refusal(BY_NAME["order.create"], body) == tuple(Fault(*pair) for pair in named.items())
    body["errors"] = {"data[3]": body["errors"]}
    assert read_refusal(BY_NAME["order.status"], body) == tuple(Fault(*pair, 3) for pair in named.items())


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.sampled_from(
    ['},{"order_id"', ']}"', '"results":[', "\\", "],[{"]
)
values = st.recursive(
    texts | st.integers(-(2**53), 2**53) | st.booleans() | st.none() | st.decimals(0, 1000, places=2).map(float),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
records = st.lists(
    st.dictionaries(st.sampled_from(["order_id", "packages"]) | texts, values, max_size=4), min_size=0, max_size=9
)


def whole(body):
    return read_listing(msgspec.json.Decoder(float_hook=Decimal).decode(body))


@given(records, st.booleans(), st.sampled_from([None, 1]), st.integers(1, 200), st.permutations(range(4)))
@settings(max_examples=200, deadline=None)
def test_records_are_found_wherever_a_block_ends(found, ascii_only, indent, block_bytes, order):
    members = [("page_size", 9), ("results", found), ("total_count", len(found)), ("total_pages", 1)]
    body = json.dumps(dict(members[place] for place in order), ensure_ascii=ascii_only, indent=indent).encode()
    scanned, expected = scan_listing(io.BytesIO(body), block_bytes=block_bytes), whole(body)
    assert list(scanned.results) == expected.results
    assert (scanned.page_size, scanned.total_count, scanned.total_pages, scanned.complete) == (9, len(found), 1, True)
    assert [scanned.results[-1 - place] for place in range(len(found))] == expected.results[::-1]


@given(records)
@settings(max_examples=100, deadline=None)
def test_the_heads_of_records_are_those_of_their_fields_that_were_asked_for(found):
    members = {"page_size": 9, "results": found, "total_count": len(found), "total_pages": 1}
    scanned = scan_listing(io.BytesIO(json.dumps(members).encode()))
    names = ("packages", "order_id")
    heads = [{name: record[name] for name in names if name in record} for record in scanned.results]
    assert list(scanned.heads(names)) == heads
    as_they_are = whole(json.dumps(members).encode())
    assert [{name: head[name] for name in names if name in head} for head in as_they_are.heads(names)] == heads


@pytest.mark.parametrize("block_bytes", [1, 7, 40, 1_000_000])
@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"results":{},"page_size":1,"total_count":0,"total_pages":0}',
        b'{"results":[1],"page_size":1,"total_count":1,"total_pages":1}',
        b'{"results":[{"order_id":"1"},[]],"page_size":1,"total_count":1,"total_pages":1}',
        b'{"results":[{"order_id":"1"}],"page_size":1,"total_pages":1}',
        b'{"results":[{"order_id":"1"}],"page_size":1,"total_count":true,"total_pages":1}',
        b'{"data":{"results":[{"order_id":"1"},{"order_id":"2"}],"page_size":1,"total_count":2,"total_pages":1}}',
    ],
)
def test_what_is_no_listing_is_undocumented(body, block_bytes):
    with pytest.raises(UndocumentedAnswer):
        scan_listing(io.BytesIO(body), block_bytes=block_bytes)


@pytest.mark.parametrize("block_bytes", [1, 7, 40, 1_000_000])
@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"nothing",
        b'{"results":[{"order_id":"1"},{"order_id":"2"}',
        b'{"results":[{"order_id":"1"},{"order_id":"2"}],"page_size":1',
        b'{"results":[{"order_id":"1"},{"order_id":"\xff"}],"page_size":1,"total_count":2,"total_pages":1}',
        b'{"results":[{"order_id":"1"},{"order_id":"\\ud800"}],"page_size":1,"total_count":2,"total_pages":1}',
        b'{"results":[{"order_id":"1"} {"order_id":"2"}],"page_size":1,"total_count":2,"total_pages":1}',
    ],
)
def test_what_is_no_json_fails_at_once_and_not_at_a_later_look(cut, block_bytes):
    with pytest.raises(ValueError):  # noqa: PT011 (its kinds say where, and that is not of interest here)
        scan_listing(io.BytesIO(cut), block_bytes=block_bytes)


def test_the_body_is_closed_when_nobody_looks_any_more():
    body = io.BytesIO(b'{"results":[{"order_id":"1"}],"page_size":1,"total_count":1,"total_pages":1}')
    listing = scan_listing(body)
    assert not body.closed
    del listing
    assert body.closed

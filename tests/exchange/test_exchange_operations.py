"""What every operation says to strangers and on wrong paths, and what the listings show. The transcript has good and bad calls to the letter."""

import pytest
from exchange_calls import AUTHORISED
from payload_examples import CONFIRMATION, ORDER, QUOTE, TENDER

from loadsheet.contract import BY_NAME, OPERATIONS, UNAUTHORISED, When

UNKNOWN = {"results": [], "error": {"status": False, "error": "Unknown method."}}
TENDER_LISTED = [field.name for field in BY_NAME["tender.list"].record.fields if field.when is When.LISTED]
BEARER = AUTHORISED["Authorization"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": BEARER + "x"},
        {"Authorization": BEARER.lower()},
        {"Authorization": BEARER.removeprefix("Bearer ")},
        {"Authorization": BEARER.replace("Bearer", "Basic")},
        {"Authorization": f"{BEARER}, {BEARER}"},
        {"X-Authorization": BEARER},
        {"Cookie": BEARER},
    ],
)
def test_an_unauthorised_call_is_answered_401_to_the_letter(app, headers):
    for operation in OPERATIONS:
        answer = app.send(operation.method, operation.path, b"{not even json", headers)
        assert (answer.status, answer.body) == (401, UNAUTHORISED), operation.name
        assert answer.headers["www-authenticate"] == "Bearer"


def test_the_token_stands_in_its_header_alone_maybe_between_spaces(app):
    token = BEARER.removeprefix("Bearer ")
    assert app.send("GET", f"/tmsapi/getOrders?access_token={token}", b"", {}).status == 401
    assert app.send("GET", "/tmsapi/getOrders", b"", {"Authorization": f"  {BEARER}  "}).status == 200


def test_an_unknown_path_is_answered_405_after_the_token(app):
    for path in ("/", "/tmsapi/", "/tmsapi/unknown", "/tmsapi/createOrder/", "/TMSAPI/createOrder"):
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            assert app.send(method, path, b"", {}).status == 401, (method, path)
            answer = app.send(method, path)
            assert (answer.status, answer.body) == (405, UNKNOWN), (method, path)
    assert app.send("OPTIONS", "*").status == 405


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_another_method_is_answered_405_and_told_the_right_one(accepting, method):
    for operation in OPERATIONS:
        if method != operation.method:
            answer = accepting.send(method, operation.path, b"{}")
            assert (answer.status, answer.headers["allow"]) == (405, operation.method), operation.name
            assert method == "HEAD" or answer.body == UNKNOWN


def test_each_carrier_quotes_for_itself_and_a_deleted_tender_takes_its_quotes_with_it(app):
    app.done("tender.create", TENDER)
    for carrier, decision, message in (("C-1", "accept", "Quote accepted"), ("C-2", "reject", "Quote rejected")):
        app.done("tender.quote", {**QUOTE, "carrier_id": carrier})
        decided = app.done("tender.confirm", {**CONFIRMATION, "carrier_id": carrier, "status": decision})
        assert decided["results"] == {"status": True, "message": message, "tender_id": "T-1", "carrier_id": carrier}
    app.done("tender.delete", {"tender_id": "T-1"})
    assert app.errors("tender.quote", QUOTE) == {"tender_id": "is not known"}
    app.done("tender.create", TENDER)
    assert app.errors("tender.confirm", CONFIRMATION) == {"carrier_id": "has not quoted for this tender"}


def test_identifiers_that_look_alike_are_not_taken_for_each_other(app):
    for number in ("007", "7"):
        app.done("order.create", {**ORDER, "order_id": number})
    assert [order["order_id"] for order in app.orders()] == ["007", "7"]
    for tender in ("a", "a/b"):
        app.done("tender.create", {**TENDER, "tender_id": tender})
    app.done("tender.quote", {**QUOTE, "tender_id": "a/b", "carrier_id": "c"})
    other = {**CONFIRMATION, "tender_id": "a", "carrier_id": "b/c"}
    assert app.errors("tender.confirm", other) == {"carrier_id": "has not quoted for this tender"}


def test_the_tender_listing_shows_the_listing_only_fields_as_texts(app):
    app.done("tender.create", TENDER)
    app.done("tender.create", {**TENDER, "tender_id": "T-2", "packages": []})
    first, second = app.tenders()
    assert list(first) == [*TENDER, *TENDER_LISTED]
    assert first == {**TENDER, **dict.fromkeys(TENDER_LISTED, ""), "package_count": "1"}
    assert second["package_count"] == "0"


def test_the_page_size_is_read_from_query_or_body_and_cut(app):
    for query, body, shown in (
        ("", b"", 100),
        ("?page_size=7", b"", 7),
        ("?page_size=007", b"", 7),
        ("", b'{"page_size": 7}', 7),
        ("", b'{"page_size": "7"}', 7),
        ("", b"{}", 100),
        ("?page_size=8", b'{"page_size": 7}', 8),
        ("?page_size=100001", b"", 100_001),
        ("?page_size=" + "9" * 5000, b"", 999_999_999_999_999_999),
    ):
        assert app.send("GET", f"/tmsapi/getOrders{query}", body).body["page_size"] == shown, (query, body)


def test_a_page_size_that_is_no_count_is_refused(app):
    refused = {"page_size": "must be a whole number of 1 or more"}
    for size in ("0", "00", "-1", "abc", "", "1.5", "1e2", "+5", "%20", "%ff", "٣"):
        for listing in ("", "record=tender&"):
            answer = app.send("GET", f"/tmsapi/getOrders?{listing}page_size={size}")
            assert (answer.status, answer.body["errors"]) == (400, refused), (listing, size)
    sizes = [(b'{"page_size": %b}' % value, "page_size") for value in (b"0", b"true", b"null", b"[1]", b"1.0")]
    for body, field in (*sizes, (b"[1]", "body"), (b"{", "body")):
        answer = app.send("GET", "/tmsapi/getOrders", body)
        assert (answer.status, list(answer.body["errors"])) == (400, [field]), body

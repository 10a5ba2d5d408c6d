"""What becomes of records over time: created, updated in part, deleted, created anew; and what the listings show of it.

What any sequence of calls leaves, updates in part and restarts among them, stands in test_exchange_machine.
"""

from exchange_calls import encode
from payload_examples import CONFIRMATION, ORDER, QUOTE, TENDER

from loadsheet.contract import BY_NAME, When

TENDER_LISTED = [field.name for field in BY_NAME["tender.list"].record.fields if field.when is When.LISTED]


def test_an_order_comes_back_digit_for_digit(app):
    app.done("order.create", ORDER)
    assert encode(app.orders()) == encode([ORDER])
    assert b'"total_weight":12.50,' in app.call("order.list", {}).raw


def test_a_deleted_tender_takes_its_quotes_with_it(app):
    app.done("tender.create", TENDER)
    app.done("tender.quote", QUOTE)
    app.done("tender.confirm", CONFIRMATION)
    app.done("tender.delete", {"tender_id": "T-1"})
    assert app.errors("tender.quote", QUOTE) == {"tender_id": "is not known"}
    assert app.errors("tender.confirm", CONFIRMATION) == {"tender_id": "is not known"}
    app.done("tender.create", TENDER)
    assert app.errors("tender.confirm", CONFIRMATION) == {"carrier_id": "has not quoted for this tender"}


def test_several_carriers_quote_and_each_can_be_answered(app):
    app.done("tender.create", TENDER)
    for carrier in ("C-1", "C-2"):
        app.done("tender.quote", {**QUOTE, "carrier_id": carrier})
    accepted = app.done("tender.confirm", CONFIRMATION)["results"]
    rejected = app.done("tender.confirm", {**CONFIRMATION, "carrier_id": "C-2", "status": "reject"})["results"]
    assert (accepted["message"], rejected["message"]) == ("Quote accepted", "Quote rejected")
    assert (rejected["tender_id"], rejected["carrier_id"]) == ("T-1", "C-2")


def test_leading_zeros_make_another_identifier(app):
    app.done("order.create", {**ORDER, "order_id": "007"})
    app.done("order.create", {**ORDER, "order_id": "7"})
    assert [order["order_id"] for order in app.orders()] == ["007", "7"]


def test_a_slash_in_an_identifier_confuses_nobody(app):
    app.done("tender.create", {**TENDER, "tender_id": "a"})
    app.done("tender.create", {**TENDER, "tender_id": "a/b"})
    app.done("tender.quote", {**QUOTE, "tender_id": "a/b", "carrier_id": "c"})
    other = {**CONFIRMATION, "tender_id": "a", "carrier_id": "b/c"}
    assert app.errors("tender.confirm", other) == {"carrier_id": "has not quoted for this tender"}


def test_the_tender_listing_shows_the_listing_only_fields_as_texts(app):
    app.done("tender.create", TENDER)
    app.done("tender.create", {**TENDER, "tender_id": "T-2", "packages": []})
    first, second = app.tenders()
    assert list(first) == [*TENDER, *TENDER_LISTED]
    assert {name: first[name] for name in TENDER} == TENDER
    assert {first[name] for name in TENDER_LISTED} == {"", "1"}
    assert (first["package_count"], second["package_count"]) == ("1", "0")


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
    for value in ("0", "true", "null", "[1]", "1.0"):
        answer = app.send("GET", "/tmsapi/getOrders", b'{"page_size": %b}' % value.encode())
        assert (answer.status, list(answer.body["errors"])) == (400, ["page_size"]), value
    for body in (b"[1]", b"{"):
        answer = app.send("GET", "/tmsapi/getOrders", body)
        assert (answer.status, list(answer.body["errors"])) == (400, ["body"]), body

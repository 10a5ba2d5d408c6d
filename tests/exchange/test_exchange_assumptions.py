"""Every setting of the register that changes the exchange, in all its settings; quote_by and confirm_by stand in test_exchange_tokens."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from exchange_calls import embedded, encode, inside
from payload_examples import CONFIRMATION, EVENT, GOOD, ORDER, PARTIES, QUOTE, TENDER

from loadsheet.contract import OPERATIONS, UNKNOWN_METHOD, Assumptions, register
from loadsheet.contract.operations import ErrorShape

UPDATE = GOOD["order.update"]
WEIGHT_IN_TEXT = {**ORDER, "total_weight": "12.50"}
WEIGHT_AS_NUMBER = {**TENDER, "packages": [{**TENDER["packages"][0], "weight": 1}]}


@pytest.fixture
def under(tmp_path):
    """An exchange with these assumptions, at which these calls have been made."""

    @contextmanager
    def start(*calls, **assumptions):
        with inside(tmp_path / "exchange.db", **assumptions) as app:
            for name in calls:
                app.done(name, GOOD[name])
            yield app

    return start


def number(answer):
    return answer["data"]["order_id"]["orders_data"][0]["SERVICE_ORDER"]


def test_this_file_covers_every_setting_that_affects_the_exchange():
    settable = {entry.setting.removeprefix("assumptions."): entry for entry in register() if entry.setting}
    affecting = {name for name, entry in settable.items() if entry.affects != "translator"}
    named = set(re.findall(r"\w+", Path(__file__).read_text(encoding="utf-8")))
    assert affecting & set(Assumptions.model_fields) - named == set()


FIRST_CALLS = {  # setting, value: the status of calls at an exchange that holds nothing
    ("number_forms", "declared"): {"order.create": (WEIGHT_IN_TEXT, 400), "tender.create": (WEIGHT_AS_NUMBER, 400)},
    ("number_forms", "both"): {"order.create": (WEIGHT_IN_TEXT, 200), "tender.create": (WEIGHT_AS_NUMBER, 200)},
    ("known_values", "open"): {"order.create": ({**ORDER, "transport_mode": "CAMEL"}, 200)},
    ("known_values", "closed"): {"order.create": ({**ORDER, "transport_mode": "CAMEL"}, 400)},
    ("timezones", "iana"): {"order.create": ({**ORDER, "timezone": "Mars/One"}, 400)},
    ("timezones", "any"): {"order.create": ({**ORDER, "timezone": "Mars/One"}, 200)},
    ("empty_required", "accept"): {"order.create": (ORDER, 200), "tender.create": (TENDER, 200)},
    ("empty_required", "reject"): {"order.create": (ORDER, 400), "tender.create": (TENDER, 200)},
    ("delete_unknown", "reject"): {f"{one}.delete": (GOOD[f"{one}.delete"], 400) for one in ("order", "tender")},
    ("delete_unknown", "accept"): {f"{one}.delete": (GOOD[f"{one}.delete"], 200) for one in ("order", "tender")},
    ("quote_unknown", "reject"): {"tender.quote": (QUOTE, 400), "tender.confirm": (CONFIRMATION, 400)},
    ("quote_unknown", "accept"): {"tender.quote": (QUOTE, 200), "tender.confirm": (CONFIRMATION, 200)},  # it is kept
    ("status_unknown", "reject"): {"order.status": ({"data": [EVENT]}, 400)},
    ("status_unknown", "accept"): {"order.status": ({"data": [EVENT]}, 200)},
}


@pytest.mark.parametrize(("setting", "value"), FIRST_CALLS)
def test_a_setting_decides_what_an_exchange_that_holds_nothing_takes(under, setting, value):
    with under(**{setting: value}, status_sets_order_status="code") as app:
        for name, (payload, status) in FIRST_CALLS[setting, value].items():
            assert app.call(name, payload).status == status, name


def test_numbers_in_either_form_come_back_in_the_form_they_came(under):
    with under(number_forms="both") as app:
        app.done("order.create", {**ORDER, "total_weight": "012.50".lstrip("0")})
        assert app.orders()[0]["total_weight"] == "12.50"


def test_text_length_max(under):
    with under(text_length_max=5) as app:
        assert app.call("order.delete", {"order_id": "12345"}).body["error"]["details"] == "order_id: is not known"
        assert "at most 5" in app.call("order.delete", {"order_id": "123456"}).body["error"]["details"]


def test_null_fields_are_refused_or_absent(under):
    nulls = {**UPDATE, "vehicle_type": None, "packages": [{"package_type": "Box", "item_name": "x", "weight": None}]}
    with under("order.create", null_fields="reject") as app:
        assert set(app.errors("order.update", nulls)) == {"vehicle_type", "packages[0].weight"}
        assert app.errors("order.update", {**UPDATE, "sender_id": None}) == {"sender_id": "must be a text or a number"}


def test_a_null_that_means_absent_changes_nothing(under):
    nulls = {
        **UPDATE,
        "order_references": None,
        "packages": [{"package_type": "Box", "item_name": "x", "weight": None}],
    }
    with under("order.create", null_fields="absent") as app:
        app.done("order.update", nulls)
        packages = [{"package_type": "Box", "item_name": "x"}]
        assert app.orders() == [{**ORDER, "currency": "USD", "packages": packages}]
        assert set(app.errors("order.update", {**UPDATE, "sender_id": None})) == {"sender_id"}
        assert app.send("GET", "/tmsapi/getOrders", b'{"page_size": null}').body["page_size"] == 100


def test_unknown_fields_are_refused_or_left_out(under, tmp_path):
    more = {**ORDER, "colour": "red", "packages": [{**ORDER["packages"][0], "smell": {"deep": []}}]}
    with under(unknown_fields="reject") as app:
        assert set(app.errors("order.create", more)) == {"colour", "packages[0].smell"}
    with under(unknown_fields="ignore") as app:
        app.done("order.create", more)
        assert app.orders() == [{**ORDER, "packages": [ORDER["packages"][0]]}]
        assert app.call("order.status", {"data": [{**EVENT, "x": None}], "y": 1}).status == 200


def test_listing_only_fields(under):
    more = {**TENDER, "goods_value": "5.00", "package_count": "9"}
    with under(listing_only_fields="reject") as app:
        assert set(app.errors("tender.create", more)) == {"goods_value", "package_count"}
    with under(listing_only_fields="accept") as app:
        app.done("tender.create", more)
        (tender,) = app.tenders()
        assert (tender["goods_value"], tender["package_count"], tender["freight_cost"]) == ("5.00", "9", "")


def test_listing_only_fields_that_are_ignored_are_not_kept(under):
    with under(unknown_fields="ignore") as app:
        app.done("tender.create", {**TENDER, "goods_value": "5.00"})
        assert app.tenders()[0]["goods_value"] == ""


@pytest.mark.parametrize(("setting", "status"), [("off", "OPEN"), ("code", "PU"), ("name", "Picked up")])
def test_status_sets_order_status(under, setting, status):
    with under(status_sets_order_status=setting) as app:
        app.done("order.create", {**ORDER, "order_status": "OPEN"})
        app.done("order.status", {"data": [EVENT, {"order_id": "SO-1001"}]})
        assert app.orders() == [{**ORDER, "order_status": status}]


@pytest.mark.parametrize(("setting", "status"), [("", "OPEN"), ("ACCEPTED", "ACCEPTED")])
def test_accept_sets_tender_status(under, setting, status):
    with under("tender.create", "tender.quote", accept_sets_tender_status=setting) as app:
        app.done("tender.confirm", {**CONFIRMATION, "status": "reject"})
        assert app.tenders()[0]["tender_status"] == "OPEN"
        app.done("tender.quote", QUOTE)  # a rejected quote is decided; a new one is not
        app.done("tender.confirm", CONFIRMATION)
        assert app.tenders()[0]["tender_status"] == status


@pytest.mark.parametrize(
    ("asks", "plain", "query", "shown"),
    [
        ("record=tender", "orders", "", "order_id"),
        ("record=tender", "orders", "?record=order", "order_id"),
        ("record=tender", "orders", "?record=tender", "tender_id"),
        ("record=tender", "orders", "?page_size=5&record=tender", "tender_id"),
        ("kind=t&all=", "orders", "?all=&kind=t", "tender_id"),
        ("kind=t&all=", "orders", "?kind=t", "order_id"),
        ("record=tender", "tenders", "", "tender_id"),
        ("", "orders", "?record=tender", "order_id"),
        ("", "tenders", "", "tender_id"),
    ],
)
def test_tender_listing_query_and_plain_listing(under, asks, plain, query, shown):
    with under("order.create", "tender.create", tender_listing_query=asks, plain_listing=plain) as app:
        (record,) = app.orders(query)
        assert shown in record
        assert ("packages" in record, "tender_status" in record) == (True, shown == "tender_id")


def test_page_size_default_and_max(under):
    with under(page_size_default=3, page_size_max=5) as app:
        assert app.send("GET", "/tmsapi/getOrders").body["page_size"] == 3
        assert app.send("GET", "/tmsapi/getOrders?page_size=9").body["page_size"] == 5


def test_the_key_names_of_an_order_answer(under):
    with under(customer_order_key="MINE", service_order_key="YOURS") as app:
        (entry,) = app.done("order.create", ORDER)["data"]["order_id"]["orders_data"]
        assert entry == {"MINE": "SO-1001", "YOURS": 1}


@pytest.mark.parametrize("subject", ["order", "tender"])
@pytest.mark.parametrize(("setting", "status", "kept"), [("reject", 400, 0), ("replace", 200, 1), ("accept", 200, 0)])
def test_create_existing(under, subject, setting, status, kept):
    first = {**GOOD[f"{subject}.create"], "vehicle_type": "Truck"}
    second = {**GOOD[f"{subject}.create"], "transport_mode": "SEA"}
    with under(create_existing=setting) as app:
        created = app.done(f"{subject}.create", first)
        answer = app.call(f"{subject}.create", second)
        assert answer.status == status
        if status == 200:
            assert answer.body == created  # the number of an order stays too
        else:
            assert answer.body["errors"] == {f"{subject}_id": "already exists"}
        (held,) = app.orders() if subject == "order" else app.tenders()
        expected = (first, second)[kept]
        assert {name: held.get(name) for name in ("vehicle_type", "transport_mode")} == {
            name: expected.get(name) for name in ("vehicle_type", "transport_mode")
        }


@pytest.mark.parametrize("subject", ["order", "tender"])
@pytest.mark.parametrize(("setting", "status", "held"), [("reject", 400, 0), ("replace", 200, 1), ("accept", 200, 0)])
def test_update_unknown(under, subject, setting, status, held):
    with under(update_unknown=setting) as app:
        answer = app.call(f"{subject}.update", GOOD[f"{subject}.update"])
        assert answer.status == status
        if status == 400:
            assert answer.body["errors"] == {f"{subject}_id": "is not known"}
        elif subject == "order":
            assert number(answer.body) == str(held)
        assert len(app.orders() if subject == "order" else app.tenders()) == held


@pytest.mark.parametrize(("setting", "status"), [("replace", 200), ("reject", 400)])
def test_quote_existing(under, setting, status):
    with under("tender.create", "tender.quote", quote_existing=setting) as app:
        answer = app.call("tender.quote", {**QUOTE, "tenderRate": "1"})
        assert answer.status == status
        if status == 400:
            assert answer.body["errors"] == {"carrier_id": "has already quoted for this tender"}
        app.done("tender.quote", {**QUOTE, "carrier_id": "C-2"})


@pytest.mark.parametrize(("setting", "status"), [("reject", 400), ("accept", 200)])
def test_confirm_unknown(under, setting, status):
    with under(confirm_unknown=setting) as app:
        assert app.call("tender.confirm", CONFIRMATION).status == status
        app.done("tender.create", TENDER)
        assert app.call("tender.confirm", CONFIRMATION).status == status


@pytest.mark.parametrize(
    ("setting", "statuses"),
    [("same", [200, 400, 200]), ("reject", [400, 400, 400]), ("replace", [200, 200, 200])],
)
@pytest.mark.parametrize("first", ["accept", "reject"])
def test_confirm_decided(under, setting, statuses, first):
    other = {"accept": "reject", "reject": "accept"}[first]
    with under("tender.create", "tender.quote", confirm_decided=setting) as app:
        app.done("tender.confirm", {**CONFIRMATION, "status": first})
        again = [app.call("tender.confirm", {**CONFIRMATION, "status": word}) for word in (first, other, first)]
        assert [answer.status for answer in again] == statuses
        if statuses[1] == 400:
            assert set(again[1].body["errors"]) == {"carrier_id"}
        app.done("tender.quote", {**QUOTE, "carrier_id": "C-2"})
        app.done("tender.confirm", {**CONFIRMATION, "carrier_id": "C-2", "status": other})  # each is decided for itself


def test_a_quote_that_was_rejected_may_be_given_anew_and_is_undecided_then(under):
    with under("tender.create") as app:
        for rate in ("950.00", "900.00"):
            app.done("tender.quote", {**QUOTE, "tenderRate": rate})
            app.done("tender.confirm", {**CONFIRMATION, "status": "reject"})
        app.done("tender.quote", {**QUOTE, "tenderRate": "850.00"})
        app.done("tender.confirm", CONFIRMATION)


@pytest.mark.parametrize(("setting", "status"), [("reject", 400), ("replace", 200)])
def test_quote_accepted(under, setting, status):
    with under("tender.create", "tender.quote", "tender.confirm", quote_accepted=setting) as app:
        assert app.call("tender.quote", {**QUOTE, "tenderRate": "1"}).status == status
        undecided = {**CONFIRMATION, "status": "reject"}
        assert app.call("tender.confirm", undecided).status == status
        app.done("tender.delete", {"tender_id": TENDER["tender_id"]})
        app.done("tender.create", TENDER)
        app.done("tender.quote", QUOTE)
        app.done("tender.confirm", undecided)


@pytest.mark.parametrize("word", ["maybe", "Accept", "", "accepted"])
@pytest.mark.parametrize(("setting", "status"), [("closed", 400), ("open", 200)])
def test_decision_words(under, setting, status, word):
    with under("tender.create", "tender.quote", decision_words=setting) as app:
        answer = app.call("tender.confirm", {**CONFIRMATION, "status": word})
        assert answer.status == status
        if status == 400:
            assert answer.body["errors"] == {"status": "must be one of accept, reject"}


@pytest.mark.parametrize(("setting", "statuses"), [("atomic", [None, None]), ("partial", ["PU", "LATE"])])
def test_status_on_400(under, setting, statuses):
    with under(status_on_400=setting, status_sets_order_status="code") as app:
        for name in ("SO-1", "SO-2"):
            app.done("order.create", {**ORDER, "order_id": name})
        records = [
            {**EVENT, "order_id": "SO-1"},
            {**EVENT, "order_id": "SO-1", "status_datetime": "yesterday"},
            {**EVENT, "order_id": "SO-0"},
            {**EVENT, "order_id": "SO-2", "status_code": "LATE"},
        ]
        errors = {"data[1]": {"status_datetime": "must be a value such as 2026-03-01T08:00:00"}}
        errors["data[2]"] = {"order_id": "is not known"}
        assert app.errors("order.status", {"data": records}) == errors
        assert [order.get("order_status") for order in app.orders()] == statuses


@pytest.mark.parametrize(("setting", "name"), [(0, "data[1]"), (1, "data[2]")])
def test_status_index_base(under, setting, name):
    with under("order.create", status_index_base=setting) as app:
        assert list(app.errors("order.status", {"data": [EVENT, {}]})) == [name]


@pytest.mark.parametrize("setting", [405, 404])
def test_unknown_path(under, setting):
    with under(unknown_path=setting) as app:
        answer = app.send("GET", "/tmsapi/getTenders")
        assert (answer.status, answer.body) == (setting, UNKNOWN_METHOD)
        assert app.send("GET", "/tmsapi/createOrder").status == 405


def test_body_bytes_max_is_kept_while_reading(tmp_path):
    with embedded(tmp_path / "exchange.db", body_bytes_max=2000) as exchange:
        fits = encode(TENDER).ljust(2000)
        assert exchange.send_body("tender.create", fits).status == 200
        for operation in OPERATIONS:
            answer = exchange.send(operation.method, operation.path, fits + b" ")
            assert answer.status == 400, operation.name
            said = (
                answer.body["error"]["details"]
                if operation.error is ErrorShape.DETAILS
                else answer.body["errors"]["body"]
            )
            assert said == "is larger than 2000 bytes"
        assert exchange.send_body("tender.create", b"x" * 3_000_000).status == 400
        assert len(exchange.tenders()) == 1  # the connection is still good


def test_array_length_max(under):
    with under("order.create", array_length_max=2) as app:
        many = {**UPDATE, "packages": ORDER["packages"] * 2}
        assert list(app.errors("order.update", many)) == ["packages"]


def test_status_records_max(under):
    with under("order.create", status_records_max=2) as app:
        assert app.call("order.status", {"data": [EVENT] * 2}).status == 200
        assert app.errors("order.status", {"data": [EVENT] * 3}) == {"data": "must hold 1 to 2 records, found 3"}


def test_a_record_with_all_parties_absent_is_refused_whatever_is_assumed(under):
    with under(null_fields="absent", unknown_fields="ignore", update_unknown="accept") as app:
        assert set(app.errors("order.update", dict.fromkeys(PARTIES))) == {"order_id", "sender_id", "receiver_id"}

"""Every setting of the register that changes the exchange, in all its settings; quote_by and confirm_by stand in test_exchange_tokens."""

import itertools
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from exchange_calls import embedded, encode, inside
from payload_examples import CONFIRMATION, EVENT, GOOD, ORDER, PARTIES, QUOTE, TENDER

from loadsheet.contract import BY_NAME, OPERATIONS, UNKNOWN_METHOD, Assumptions, read_refusal, register

UPDATE = GOOD["order.update"]
REJECTION = {**CONFIRMATION, "status": "reject"}
QUOTED = ("tender.create", "tender.quote")
DECIDED = (*QUOTED, "tender.confirm")
BOX = {"package_type": "Box", "item_name": "x"}
UNKNOWN, EXISTS, NO_FIELD = "is not known", "already exists", "is not a field of this record"


@pytest.fixture
def under(tmp_path):
    """An exchange with these assumptions, at which these calls have been made."""
    numbers = itertools.count()

    @contextmanager
    def start(*calls, **assumptions):
        with inside(tmp_path / f"exchange {next(numbers)}.db", **assumptions) as app:
            for name in calls:
                app.done(name, GOOD[name])
            yield app

    return start


def test_this_file_covers_every_setting_that_affects_the_exchange():
    settable = {entry.setting.removeprefix("assumptions."): entry for entry in register() if entry.setting}
    affecting = {name for name, entry in settable.items() if entry.affects != "translator"}
    named = set(re.findall(r"\w+", Path(__file__).read_text(encoding="utf-8")))
    assert affecting & set(Assumptions.model_fields) - named == set()


REFUSED = [  # setting, the value that refuses, those that take; what came before, the call, and what its refusal says
    ("create_existing", "reject", ("replace", "accept"), ["order.create"], "order.create", ORDER, {"order_id": EXISTS}),
    ("create_existing", "reject", ("replace", "accept"), QUOTED, "tender.create", TENDER, {"tender_id": EXISTS}),
    ("update_unknown", "reject", ("replace", "accept"), [], "order.update", UPDATE, {"order_id": UNKNOWN}),
    ("update_unknown", "reject", ("replace", "accept"), [], "tender.update", TENDER, {"tender_id": UNKNOWN}),
    ("delete_unknown", "reject", ("accept",), [], "tender.delete", GOOD["tender.delete"], {"tender_id": UNKNOWN}),
    ("delete_unknown", "reject", ("accept",), [], "order.delete", {"order_id": "1"}, {"": "order_id: is not known"}),
    ("quote_unknown", "reject", ("accept",), [], "tender.quote", QUOTE, {"tender_id": UNKNOWN}),
    ("quote_existing", "reject", ("replace",), QUOTED, "tender.quote", QUOTE,
     {"carrier_id": "has already quoted for this tender"}),
    ("quote_accepted", "reject", ("replace",), DECIDED, "tender.quote", QUOTE,
     {"carrier_id": "already has an accepted quote for this tender"}),
    ("confirm_unknown", "reject", ("accept",), [], "tender.confirm", CONFIRMATION, {"tender_id": UNKNOWN}),
    ("confirm_unknown", "reject", ("accept",), ["tender.create"], "tender.confirm", CONFIRMATION,
     {"carrier_id": "has not quoted for this tender"}),
    ("confirm_decided", "reject", ("same", "replace"), DECIDED, "tender.confirm", CONFIRMATION,
     {"carrier_id": "has a quote that was already accepted"}),
    ("confirm_decided", "same", ("replace",), DECIDED, "tender.confirm", REJECTION,
     {"carrier_id": "has a quote that was already accepted"}),
    *(("decision_words", "closed", ("open",), QUOTED, "tender.confirm", {**CONFIRMATION, "status": word},
       {"status": "must be one of accept, reject"}) for word in ("maybe", "Accept", "", "accepted")),
    ("status_unknown", "reject", ("accept",), [], "order.status", {"data": [EVENT]}, {"order_id": UNKNOWN}),
    ("number_forms", "declared", ("both",), [], "order.create", {**ORDER, "total_weight": "12.50"},
     {"total_weight": "must be a number without quotes, such as 12.5"}),
    ("number_forms", "declared", ("both",), [], "tender.create", {**TENDER, "packages": [{**BOX, "weight": 1}]},
     {"packages[0].weight": 'must be a number in quotes, such as "12.5"'}),
    ("known_values", "closed", ("open",), [], "order.create", {**ORDER, "transport_mode": "CAMEL"},
     {"transport_mode": "must be one of ROAD, AIR, SEA, RAIL"}),
    ("timezones", "iana", ("any",), [], "order.create", {**ORDER, "timezone": "Mars/One"},
     {"timezone": "must be the name of a time zone such as Europe/Berlin"}),
    ("empty_required", "reject", ("accept",), [], "order.create", ORDER,
     dict.fromkeys(("pickup_address2", "delivery_address2"), "must be a value, not an empty text")),
    ("text_length_max", 8, (9,), [], "tender.create", TENDER,
     {"receiver_id": "must be a text of at most 8 characters or a number",
      "packages[0].item_name": "must be a text of at most 8 characters"}),
    ("array_length_max", 1, (2,), [], "order.create", ORDER, {"packages": "must be an array of length 1 or less"}),
    ("status_records_max", 2, (3,), ["order.create"], "order.status", {"data": [EVENT] * 3},
     {"data": "must hold 1 to 2 records, found 3"}),
    ("null_fields", "reject", ("absent",), ["order.create"], "order.update",
     {**UPDATE, "vehicle_type": None, "packages": [{**BOX, "weight": None}]},
     {"vehicle_type": "must be a text", "packages[0].weight": "must be a number or a text"}),
    ("unknown_fields", "reject", ("ignore",), [], "order.create",
     {**ORDER, "colour": "red", "packages": [{**BOX, "smell": {"deep": []}}]},
     {"colour": NO_FIELD, "packages[0].smell": NO_FIELD}),
    ("listing_only_fields", "reject", ("accept",), [], "tender.create", {**TENDER, "goods_value": "5", "package_count": "9"},
     {"goods_value": NO_FIELD, "package_count": NO_FIELD}),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=[f"{row[0]}-{place}" for place, row in enumerate(REFUSED)])
def test_one_value_of_a_setting_refuses_a_call_with_the_reason_and_the_others_take_it(under, case):
    setting, refuses, takes, before, name, payload, errors = case
    with under(*before, **{setting: refuses}) as app:
        answer = app.call(name, payload)
        assert answer.status == 400
        assert {fault.path: fault.text for fault in read_refusal(BY_NAME[name], answer.body)} == errors
    for value in takes:
        with under(*before, **{setting: value}) as app:
            app.done(name, payload)


OPEN = {"order_status": "OPEN"}
KEPT = [  # setting and value; what came before, calls, and what the listings show of the one record there is
    ({"create_existing": "replace"}, [], [("order.create", {**ORDER, **OPEN}), ("order.create", ORDER)], ORDER),
    ({"create_existing": "accept"}, [], [("order.create", {**ORDER, **OPEN}), ("order.create", ORDER)], {**ORDER, **OPEN}),
    ({"update_unknown": "replace"}, [], [("order.update", UPDATE)], UPDATE),
    ({"update_unknown": "accept"}, [], [("order.update", UPDATE)], None),
    ({"number_forms": "both"}, [], [("order.create", {**ORDER, "total_weight": "12.50"})], {**ORDER, "total_weight": "12.50"}),
    ({"null_fields": "absent"}, ["order.create"],
     [("order.update", {**UPDATE, "order_references": None, "packages": [{**BOX, "weight": None}]})],
     {**ORDER, "currency": "USD", "packages": [BOX]}),
    ({"unknown_fields": "ignore"}, [], [("order.create", {**ORDER, "colour": "red", "packages": [{**BOX, "smell": []}]})],
     {**ORDER, "packages": [BOX]}),
    *(({"status_sets_order_status": value}, [],
       [("order.create", {**ORDER, **OPEN}), ("order.status", {"data": [EVENT, {"order_id": "SO-1001"}]})],
       {**ORDER, "order_status": status}) for value, status in (("off", "OPEN"), ("code", "PU"), ("name", "Picked up"))),
]  # fmt: skip


@pytest.mark.parametrize(("assumed", "before", "calls", "kept"), KEPT)
def test_a_setting_decides_what_stays_of_an_order(under, assumed, before, calls, kept):
    with under(*before, **assumed) as app:
        answers = [app.done(name, payload) for name, payload in calls]
        assert app.orders() == ([kept] if kept else [])
        (number,) = {
            int(one["data"]["order_id"]["orders_data"][0]["SERVICE_ORDER"]) for one in answers if "data" in one
        } or {1}
        assert number == (1 if kept else 0)  # an order that is created again has the number it had


def test_fields_of_listings_alone_are_kept_or_left_out(under):
    more = {**TENDER, "goods_value": "5.00", "package_count": "9"}
    for assumed, shown in (
        ({"listing_only_fields": "accept"}, ("5.00", "9", "")),
        ({"unknown_fields": "ignore"}, ("", "1", "")),
    ):
        with under(**assumed) as app:
            app.done("tender.create", more)
            (tender,) = app.tenders()
            assert (tender["goods_value"], tender["package_count"], tender["freight_cost"]) == shown


def test_an_empty_text_where_none_is_required_and_parties_that_are_absent(under):
    with under(empty_required="reject") as app:
        app.done("tender.create", {**TENDER, "pickup_city": ""})
    with under(null_fields="absent", unknown_fields="ignore", update_unknown="accept") as app:
        assert set(app.errors("order.update", dict.fromkeys(PARTIES))) == {"order_id", "sender_id", "receiver_id"}
        assert app.send("GET", "/tmsapi/getOrders", b'{"page_size": null}').body["page_size"] == 100


@pytest.mark.parametrize(("setting", "status"), [("", "OPEN"), ("ACCEPTED", "ACCEPTED")])
def test_accept_sets_tender_status_and_a_rejected_quote_may_be_given_anew(under, setting, status):
    with under(*QUOTED, accept_sets_tender_status=setting) as app:
        app.done("tender.confirm", REJECTION)
        assert app.tenders()[0]["tender_status"] == "OPEN"
        app.done("tender.quote", QUOTE)  # it is undecided then
        app.done("tender.confirm", CONFIRMATION)
        assert app.tenders()[0]["tender_status"] == status


@pytest.mark.parametrize(("setting", "first"), [("reject", 400), ("same", 200), ("replace", 200)])
def test_confirm_decided_holds_for_a_rejection_and_for_each_quote_by_itself(under, setting, first):
    with under(*QUOTED, confirm_decided=setting) as app:
        app.done("tender.confirm", REJECTION)
        assert app.call("tender.confirm", REJECTION).status == first
        assert app.call("tender.confirm", CONFIRMATION).status == (200 if setting == "replace" else 400)
        assert app.call("tender.quote", QUOTE).status == (400 if setting == "replace" else 200), (
            "the last decision counts"
        )
        app.done("tender.quote", {**QUOTE, "carrier_id": "C-2"})
        app.done("tender.confirm", {**CONFIRMATION, "carrier_id": "C-2"})


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


def test_page_size_default_and_max_and_the_key_names_of_an_order_answer(under):
    names = {"customer_order_key": "MINE", "service_order_key": "YOURS"}
    with under(page_size_default=3, page_size_max=5, **names) as app:
        assert app.send("GET", "/tmsapi/getOrders").body["page_size"] == 3
        assert app.send("GET", "/tmsapi/getOrders?page_size=9").body["page_size"] == 5
        (entry,) = app.done("order.create", ORDER)["data"]["order_id"]["orders_data"]
        assert entry == {"MINE": "SO-1001", "YOURS": 1}


@pytest.mark.parametrize(("setting", "statuses"), [("atomic", [None, None]), ("partial", ["PU", "LATE"])])
def test_status_on_400_and_status_index_base(under, setting, statuses):
    for base in (0, 1):
        with under(status_on_400=setting, status_index_base=base, status_sets_order_status="code") as app:
            for name in ("SO-1", "SO-2"):
                app.done("order.create", {**ORDER, "order_id": name})
            records = [
                {**EVENT, "order_id": "SO-1"},
                {**EVENT, "order_id": "SO-1", "status_datetime": "yesterday"},
                {**EVENT, "order_id": "SO-0"},
                {**EVENT, "order_id": "SO-2", "status_code": "LATE"},
            ]
            errors = {f"data[{1 + base}]": {"status_datetime": "must be a value such as 2026-03-01T08:00:00"}}
            errors[f"data[{2 + base}]"] = {"order_id": UNKNOWN}
            assert app.errors("order.status", {"data": records}) == errors
            assert [order.get("order_status") for order in app.orders()] == statuses


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
            (fault,) = read_refusal(operation, answer.body)
            assert fault.text.removeprefix("body: ") == "is larger than 2000 bytes"
        assert exchange.send_body("tender.create", b"x" * 3_000_000).status == 400
        assert len(exchange.tenders()) == 1  # the connection is still good

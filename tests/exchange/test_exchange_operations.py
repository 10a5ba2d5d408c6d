"""Every operation: bad and unauthorised, each body to the letter. The transcript has good calls as well."""

import pytest
from exchange_calls import AUTHORISED
from payload_examples import GOOD, ORDER, TENDER

from loadsheet.contract import OPERATIONS, UNAUTHORISED, Assumptions

UNKNOWN = {"results": [], "error": {"status": False, "error": "Unknown method."}}
INVALID = "A body parameter is invalid or missing."
REQUIRED = "is required"
NO_OBJECT = "must be a JSON object"
A_NUMBER = "must be a number or a number in a text, such as 12.5"
RECORDS_MAX = Assumptions().status_records_max
BAD = {  # what the transcript of curl does not show
    "tender.update": (
        {**TENDER, "pickup_startdatetime": "01.03.2026", "dedicated_vehicle": "maybe"},
        {
            "pickup_startdatetime": "must be a value such as 2026-03-01 08:00:00",
            "dedicated_vehicle": "must be yes or no (true or false)",
        },
    ),
    "tender.confirm": (
        {"tender_id": 7, "sender_id": "ACME", "tenderRate": [], "carrier_id": "C-1", "note": ""},
        {
            "receiver_id": REQUIRED,
            "status": REQUIRED,
            "tenderRate": "must be a text or a number",
            "note": "is not a field of this record",
        },
    ),
    "order.update": (
        {"order_id": "SO-1001", "packages": [{"inner_cargos": [{"quantity": "four"}]}]},
        {
            "sender_id": REQUIRED,
            "receiver_id": REQUIRED,
            "packages[0].package_type": REQUIRED,
            "packages[0].item_name": REQUIRED,
            "packages[0].inner_cargos[0].quantity": A_NUMBER,
        },
    ),
}


def test_a_bad_call_names_every_wrong_field_to_the_letter(app):
    for name, (payload, errors) in BAD.items():
        answer = app.call(name, payload)
        assert answer.status == 400, name
        assert answer.body == {"results": [], "status": False, "message": INVALID, "errors": errors}


def test_a_bad_delete_of_an_order_is_told_in_details(app):
    answer = app.call("order.delete", {"id": "SO-1"})
    details = "order_id: is required; id: is not a field of this record"
    assert (answer.status, answer.body) == (400, {"results": [], "error": {"message": INVALID, "details": details}})


def test_a_bad_status_update_names_records_by_index(app):
    app.done("order.create", ORDER)
    good = GOOD["order.status"]["data"][0]
    records = [good, {"status_code": 5}, {**good, "pickupTime": "noon"}, {**good, "order_id": "SO-9"}]
    answer = app.call("order.status", {"data": records})
    errors = {
        "data[1]": {"order_id": REQUIRED, "status_code": "must be a text"},
        "data[2]": {"pickupTime": "must be a value such as 08:00:00"},
        "data[3]": {"order_id": "is not known"},
    }
    assert answer.status == 400
    assert answer.body == {"results": [], "status": False, "message": INVALID, "errors": errors}


def test_a_body_of_another_shape_is_refused(app):
    for body, errors in (
        ({}, {"data": "must be an array of records"}),
        ([], {"data": "must be an array of records"}),
        ({"data": {}}, {"data": "must be an array of records"}),
        ({"data": []}, {"data": f"must hold 1 to {RECORDS_MAX} records, found 0"}),
        ({"data": [GOOD["order.status"]], "more": 1}, {"more": "is not a field of this record"}),
        ({"data": ["x", None]}, {"data[0]": {"body": NO_OBJECT}, "data[1]": {"body": NO_OBJECT}}),
    ):
        assert app.errors("order.status", body) == errors, body
    for body in ("[]", "7", "null", '"order"', "true"):
        assert app.send_body("order.create", body.encode()).body["errors"] == {"body": NO_OBJECT}, body


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


def test_options_for_the_whole_server_is_no_operation(accepting):
    assert accepting.send("OPTIONS", "*").status == 405


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_another_method_is_answered_405_and_told_the_right_one(accepting, method):
    for operation in OPERATIONS:
        if method != operation.method:
            answer = accepting.send(method, operation.path, b"{}")
            assert (answer.status, answer.headers["allow"]) == (405, operation.method), operation.name
            assert method == "HEAD" or answer.body == UNKNOWN

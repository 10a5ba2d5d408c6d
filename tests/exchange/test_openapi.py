"""The OpenAPI document and the exchange say the same: fields, examples, links and answers, and whatever schemathesis sends."""

import json
import random
import time
from collections import Counter
from functools import cache

import pytest
import requests
import schemathesis
from exchange_calls import AUTHORISED, FORGIVING, decode, encode, inside
from exchange_process import exchange
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from schemathesis import GenerationMode
from schemathesis.checks import negative_data_rejection, positive_data_acceptance
from schemathesis.specs.openapi.checks import ignored_auth
from strategies import payloads

from loadsheet.contract import (
    BY_NAME,
    OPERATIONS,
    WRITES,
    Assumptions,
    body_checker,
    checker,
    example_answer,
    example_body,
    example_fault,
    example_refusal,
    example_steps,
)
from loadsheet.exchange.api_description import document

SETTINGS = [
    {},
    {"number_forms": "declared", "known_values": "closed", "empty_required": "accept"}
    | {"customer_order_key": "THEIRS", "service_order_key": "OURS", "status_records_max": 3},
    {"null_fields": "absent", "unknown_fields": "ignore", "timezones": "any"}
    | {"listing_only_fields": "accept", "tender_listing_query": "", "status_index_base": 1},
]
every_setting = pytest.mark.parametrize("given_settings", SETTINGS, ids=["default", "closed", "open"])


def served(**assumptions):
    """The document as it goes over the wire."""
    return json.loads(encode(document(Assumptions(**assumptions), "0")))


def validator(whole, schema):
    return Draft202012Validator({**schema, "components": whole["components"]})


@cache
def schema_of(operation):
    """The validator of a request of an operation, under the defaults."""
    whole = served()
    body = whole["paths"][operation.path]["post"]["requestBody"]
    return validator(whole, body["content"]["application/json"]["schema"])


def contents(value, where=""):
    """Every schema of the document that has examples beside it, with each of them."""
    if isinstance(value, dict):
        if "schema" in value and ("example" in value or "examples" in value):
            examples = [one["value"] for one in value.get("examples", {}).values()] or [value["example"]]
            yield from ((where, value["schema"], example) for example in examples)
        for name, inner in value.items():
            yield from contents(inner, f"{where}/{name}")


@every_setting
def test_the_document_is_valid_openapi_and_every_example_is_valid_against_its_schema(given_settings):
    whole = served(**given_settings)
    validate(whole)
    found = list(contents(whole["paths"])) + list(contents(whole["components"]["responses"]))
    assert len(found) == 3 * len(WRITES) + 3 + 2
    for where, schema, example in found:
        assert not list(validator(whole, schema).iter_errors(example)), where


def test_every_operation_every_field_and_every_known_value_stands_in_the_document():
    whole = served()
    assert {(path, method.upper()) for path, ends in whole["paths"].items() for method in ends} == {
        (operation.path, operation.method) for operation in OPERATIONS
    }
    schemas = json.dumps(whole["components"]["schemas"])
    for operation in OPERATIONS:
        end = whole["paths"][operation.path][operation.method.lower()]
        assert set(end["responses"]) == {"200", "400", "401", "405", "429", "503"}
        for _, field in operation.record.walk():
            assert all(json.dumps(word) in schemas for word in (field.name, *field.spellings, *field.known))


def test_every_field_of_the_interface_that_is_sent_stands_in_a_worked_example():
    """Only estimatedPickup (the twin of estimatedDelivery) and what an example would say twice may be left out."""
    for operation in WRITES:
        if operation.name.endswith("update"):
            continue
        missing = {field.name for field in operation.record.fields if field.when != "listing only"}
        missing -= set(example_body(operation)["data"][0] if operation.batched else example_body(operation))
        assert missing <= {"estimatedPickup", "deliveryDate", "deliveryTime"}, operation.name


@every_setting
def test_the_exchange_answers_the_worked_examples_as_the_document_says(tmp_path, given_settings):
    assumptions = Assumptions(**given_settings)
    with inside(tmp_path / "exchange.db", **given_settings) as app:
        for name in example_steps():
            operation = BY_NAME[name]
            done = app.done(name, example_body(operation))
            shown = decode(encode(example_answer(operation, assumptions)))
            assert without_number(done, assumptions) == without_number(shown, assumptions)
            refused = app.call(name, example_fault(operation))
            assert (refused.status, refused.body) == (400, example_refusal(operation, assumptions))


def without_number(answer, assumptions):
    for order in answer.get("data", {}).get("order_id", {}).get("orders_data", ()):
        order[assumptions.service_order_key] = type(order[assumptions.service_order_key])
    return answer


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
@given(data=st.data())
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_meets_the_contract_meets_its_schema(operation, data):
    payload = data.draw(payloads(operation))
    assert checker(operation, Assumptions())(payload) == ()
    assert not list(schema_of(operation).iter_errors({"data": [payload]} if operation.batched else payload))


PACKAGE = {"package_type": "Box", "item_name": "x"}
VALUES = {  # operation and field: values that schema and check refuse, and those that both take
    ("order.update", "pickup_startdatetime"): (
        ("2026-02-30 08:00:00", "2025-02-29 08:00:00", "2026-03-01 08:00:00\n", "0000-03-01 08:00:00", "2026-03-01 24:00:00"),
        ("2024-02-29 08:00:00", "2000-02-29 23:59:59"),
    ),
    ("order.update", "total_weight"): (("12,5",), (12.5, "12.5")),
    ("order.update", "timezone"): (("Europe/Nowhere",), ("Europe/Berlin",)),
    ("order.update", "dedicated_vehicle"): (("maybe",), ("TRUE",)),
    ("order.update", "currency"): ((None,), ("EUR",)),
    ("order.update", "no_such_field"): (("x",), ()),
    ("order.update", "order_id"): (([],), (7,)),
    ("order.update", "packages"): (([{"package_type": "Box"}],), ([],)),
    ("tender.update", "packages"): (([{**PACKAGE, "weight": "12,5"}],), ([{**PACKAGE, "weight": "12.5"}], [{**PACKAGE, "weight": 12.5}])),
    ("tender.update", "total_weight"): (("12.5",), ()),
    ("tender.quote", "response_datetime"): (("2026-03-01",), ("2026-03-01T08:00:00.125+01:00",)),
}  # fmt: skip
HISTORIES = {  # both spellings are allowed, but not at once
    True: ({"status_description": "a"}, {"status-description": "a"}),
    False: ({"status_description": "a", "status-description": "b"},),
}


def test_the_schema_and_the_check_agree():
    cases = [
        (BY_NAME[name], {**example_body(BY_NAME[name]), field: value}, good)
        for (name, field), both in VALUES.items()
        for good, values in zip((False, True), both, strict=True)
        for value in values
    ]
    for good, items in HISTORIES.items():
        bodies = [{"data": [{"order_id": "1", "statusHistory": [item]}]} for item in items]
        cases += [(BY_NAME["order.status"], body, good) for body in bodies]
    for operation, value, good in cases:
        body = decode(encode(value))
        assert (body_checker(operation, Assumptions())(body) == ()) is good, value
        assert schema_of(operation).is_valid(body) is good, value


TENDERS = {"tender.list", "tender.update", "tender.delete", "tender.quote"}
ORDERS = {"order.list", "order.update", "order.delete", "order.status"}
NEXT = {
    **dict.fromkeys(("tender.create", "tender.update"), TENDERS),
    **dict.fromkeys(("tender.quote", "tender.confirm"), TENDERS | {"tender.confirm"}),
    **dict.fromkeys(("order.create", "order.update"), ORDERS),
    **dict.fromkeys(("tender.delete", "order.delete", "order.status"), frozenset()),
}


def linked(value, body):
    """What a link sends after this body."""
    if isinstance(value, dict):
        return {name: linked(inner, body) for name, inner in value.items()}
    if isinstance(value, list):
        return [linked(inner, body) for inner in value]
    return body[value.removeprefix("$request.body#/")]


def test_what_can_follow_a_call_is_linked_by_its_identifiers_and_is_answered_200(tmp_path):
    paths = served()["paths"]
    made = {name: paths[BY_NAME[name].path]["post"]["responses"]["200"].get("links", {}) for name in NEXT}
    assert {name: set(found) for name, found in made.items()} == NEXT
    with inside(tmp_path / "exchange.db", **FORGIVING) as app:
        for name, following, link in ((name, *one) for name, links in made.items() for one in links.items()):
            operation, after = BY_NAME[name], BY_NAME[following]
            body = {**example_body(operation), **{key: f"its {key}" for key in operation.record.key}}
            app.done(name, body)
            if not after.is_write:
                assert link.get("parameters", {}) == ({"record": "tender"} if after.subject == "tender" else {})
                continue
            given = linked(link["requestBody"], body)
            (record,) = given["data"] if after.batched else [given]
            names = set(after.record.key) | {"sender_id", "receiver_id"}
            assert record == {name: body[name] for name in names & body.keys() if after.record.field(name)}
            app.done(following, given if after.batched else {**example_body(after), **given})


STATES = (
    "is not known",
    "already exists",
    "has not quoted for this tender",
    "has already quoted for this tender",
    "already has an accepted quote for this tender",
    "has a quote that was already",
)
BY_PATH = {operation.path: operation for operation in WRITES}
BEYOND_SCHEMA = ("holds a number with too many digits",)
KEYS = {name for operation in OPERATIONS for name in operation.record.key} | {"sender_id", "receiver_id"}
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
BATCH, CASES, SECONDS = 10, 5_000, 800  # of one operation in a row; of all at least; at most
WANTED = {(operation.path, status) for operation in OPERATIONS for status in (200, 400)}
# Both ask only whether an answer is 2xx: they know neither states nor that our token is always there. What they are for, the
# judge below does.
LEFT_OUT = [positive_data_acceptance, negative_data_rejection]
# Headers that say how the body is sent, which hypothesis invents from the words of our source: with one of them, the body that arrives is another.
OF_HTTP = {
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
WITH_WRONG_TOKENS = 2  # batches of each operation whose cases are asked again twice: without a token, with a wrong one
GENERATED = {
    "deadline": None,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


class Asked:
    """Asks a running exchange batch after batch, and counts what it answered."""

    def __init__(self, url, *, strict):
        self.schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        self.operations = [found.ok() for found in self.schema.get_all_operations()]
        self.strict = strict
        self.statuses = Counter()
        self._dice = random.Random(1)
        self._session = requests.Session()  # one connection for all cases

    @property
    def cases(self):
        return sum(self.statuses.values())

    def batch(self, operation, mode, number):
        left_out = LEFT_OUT if number <= WITH_WRONG_TOKENS else [*LEFT_OUT, ignored_auth]

        @seed(number)
        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=BATCH, **GENERATED)
        def ask(case):
            case.headers = {name: value for name, value in case.headers.items() if name.lower() not in OF_HTTP}
            if self.strict:
                case.body = self._known(case.body)
            answer = case.call_and_validate(session=self._session, headers=AUTHORISED, excluded_checks=left_out)
            self.statuses[operation.path, answer.status_code] += 1
            if answer.status_code == 401:  # some cases are about the header, and send none or another
                assert answer.request.headers.get("Authorization") != AUTHORISED["Authorization"]
            elif operation.method == "post":
                self._judge(operation, answer)

        ask()

    def _known(self, body):
        """The body with identifiers out of a small pool."""
        if isinstance(body, list):
            return [self._known(one) for one in body]
        if not isinstance(body, dict):
            return body
        return {name: self._dice.choice("ABC") if name in KEYS else self._known(value) for name, value in body.items()}

    def _judge(self, operation, answer):
        """Whether the answer is what the document promises for the body as it was really sent."""
        sent = read_json(answer.request.body or b"")
        good = sent is not None and schema_of(BY_PATH[operation.path]).is_valid(sent)
        if answer.status_code == 200:
            assert good, (operation.path, sent)
        else:
            allowed = (*BEYOND_SCHEMA, *(STATES if self.strict else ()))
            assert not good or any(text in answer.text for text in allowed), (operation.path, sent, answer.text)


def read_json(body):
    """The value of a body of strict JSON, or None."""
    try:
        text = body if isinstance(body, str) else body.decode()
        value = json.loads(text, parse_constant=int)  # NaN is no number of JSON
        json.dumps(value, ensure_ascii=False).encode()  # nor is half a surrogate pair a text
    except ValueError:
        return None
    return value


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strict", [False, True], ids=["forgiving", "strict"])
def test_ten_thousand_cases_are_answered_as_the_document_says(tmp_path, strict):
    """Half of them at each exchange, and more until every operation was answered 200 and 400."""
    # Cases are asked again with wrong tokens: at the pace of someone who guesses them, that would take hours.
    with exchange(tmp_path / "exchange.db", wrong_tokens=0, **({} if strict else FORGIVING)) as serving:
        asked = Asked(serving.url, strict=strict)
        until, number, dice = time.monotonic() + SECONDS, 0, random.Random(1)
        turns = [(operation, mode) for operation in asked.operations for mode in MODES]
        while asked.cases < CASES or WANTED - asked.statuses.keys():
            assert time.monotonic() < until, (asked.cases, WANTED - asked.statuses.keys())
            number += 1
            dice.shuffle(turns)
            missing = {path for path, _ in WANTED - asked.statuses.keys()}
            for operation, mode in turns:
                if asked.cases < CASES or operation.path in missing:
                    asked.batch(operation, mode, number)
    assert {status for _, status in asked.statuses} <= {200, 400, 401}

"""schemathesis against the served document: whatever is sent, the exchange answers as the document says, and never fails.

Two exchanges are asked. A forgiving one takes every record in any state, so there the document itself is the judge: a body that
meets its schema is answered 200, any other 400. A strict one gets few identifiers again and again, so that calls meet records in
every state: created, changed, quoted, deleted.
"""

import json
import random
import time
from collections import Counter

import pytest
import requests
import schemathesis
from exchange_calls import AUTHORISED, FORGIVING
from exchange_process import exchange
from hypothesis import HealthCheck, Phase, given, seed, settings
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.checks import negative_data_rejection, positive_data_acceptance
from schemathesis.specs.openapi.checks import ignored_auth

from loadsheet.contract import BY_NAME, OPERATIONS

STATES = (
    "is not known",
    "already exists",
    "has not quoted for this tender",
    "has already quoted for this tender",
    "already has an accepted quote for this tender",
    "has a quote that was already",
)
BEYOND_SCHEMA = ("holds a number with too many digits",)
KEYS = {name for operation in OPERATIONS for name in operation.record.key} | {"sender_id", "receiver_id"}
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
BATCH = 10  # of one operation in a row
# Both ask only whether an answer is 2xx: they know neither states nor that our token is always there. What they are for, the
# judge below does.
LEFT_OUT = [positive_data_acceptance, negative_data_rejection]
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
        self._judges = {}
        self._session = requests.Session()  # one connection for all cases

    @property
    def cases(self):
        return sum(self.statuses.values())

    def batch(self, operation, mode, number, examples):
        left_out = LEFT_OUT if number <= WITH_WRONG_TOKENS else [*LEFT_OUT, ignored_auth]

        @seed(number)
        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=examples, **GENERATED)
        def ask(case):
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
        good = sent is not None and self._validator(operation).is_valid(sent)
        if answer.status_code == 200:
            assert good, (operation.path, sent)
        else:
            allowed = (*BEYOND_SCHEMA, *(STATES if self.strict else ()))
            assert not good or any(text in answer.text for text in allowed), (operation.path, sent, answer.text)

    def _validator(self, operation):
        if operation.path not in self._judges:
            raw = self.schema.raw_schema
            body = raw["paths"][operation.path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            self._judges[operation.path] = Draft202012Validator({**body, "components": raw["components"]})
        return self._judges[operation.path]


def read_json(body):
    """The value of a body of strict JSON, or None."""
    try:
        text = body if isinstance(body, str) else body.decode()
        value = json.loads(text, parse_constant=int)  # NaN is no number of JSON
        json.dumps(value, ensure_ascii=False).encode()  # nor is half a surrogate pair a text
    except ValueError:
        return None
    return value


def ask_all(asked, cases, seconds, wanted):
    """Ask so many cases, and more until there were all that are wanted: paths with statuses. Returns the statuses."""
    began, number, dice = time.monotonic(), 0, random.Random(1)
    turns = [(operation, mode) for operation in asked.operations for mode in MODES]
    while (asked.cases < cases or wanted - asked.statuses.keys()) and time.monotonic() - began < seconds:
        number += 1
        dice.shuffle(turns)
        missing = {path for path, _ in wanted - asked.statuses.keys()}
        for operation, mode in turns:
            if asked.cases < cases or operation.path in missing:
                asked.batch(operation, mode, number, min(BATCH, cases // 25))
    assert asked.cases >= cases, f"{asked.cases} cases in {seconds} s"
    assert {path for path, _ in asked.statuses} == {operation.path for operation in BY_NAME.values()}
    return {status for _, status in asked.statuses}


def run(database, cases, seconds, *, strict):
    # Cases are asked again with wrong tokens: at the pace of someone who guesses them, that would take hours.
    with exchange(database, wrong_tokens=0, **({} if strict else FORGIVING)) as serving:
        asked = Asked(serving.url, strict=strict)
        good = {(operation.path, 200) for operation in OPERATIONS} if not strict or cases > 1000 else set()
        wanted = {(operation.path, 400) for operation in OPERATIONS} | good
        assert ask_all(asked, cases, seconds, wanted) <= {200, 400, 401}
        assert wanted <= asked.statuses.keys()


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strict", [False, True], ids=["forgiving", "strict"])
def test_ten_thousand_cases_are_answered_as_the_document_says(tmp_path, strict):
    run(tmp_path / "exchange.db", 5_000, 800, strict=strict)

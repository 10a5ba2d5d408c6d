"""schemathesis' own stateful mode: it follows the links of the document from call to call, with the identifiers that it made."""

from collections import Counter

import pytest
import schemathesis
from exchange_calls import AUTHORISED, encode
from exchange_process import TOKEN
from faulty_exchange import Misbehaving
from hypothesis import HealthCheck, Phase, settings
from msgspec.json import decode
from schemathesis import GenerationMode
from schemathesis.checks import negative_data_rejection, positive_data_acceptance
from schemathesis.specs.openapi.checks import ignored_auth

from loadsheet.contract import BY_NAME, OPERATIONS, Assumptions
from loadsheet.exchange import Embedded, Rehearsal
from loadsheet.exchange.api_description import document

# It takes every record in any state: hypothesis needs answers that depend on the call alone. Whether a link led to a record
# that was there, the truth log says.
FORGIVING = Assumptions(
    create_existing="replace",
    update_unknown="replace",
    delete_unknown="accept",
    quote_unknown="accept",
    confirm_unknown="accept",
    confirm_decided="replace",
    quote_accepted="replace",
    status_unknown="accept",
)
LEFT_OUT = [
    positive_data_acceptance,
    negative_data_rejection,  # both know no states: a quote twice, an update after a delete
    ignored_auth,  # wrong tokens are tried in test_openapi_conformance
]
REACHED = {
    ("order.update", "updated"),
    ("order.delete", "deleted"),
    ("order.status", "reported"),
    ("tender.update", "updated"),
    ("tender.delete", "deleted"),
    ("tender.quote", "quoted"),
    ("tender.confirm", "confirmed"),
}
NEXT = {
    "tender.create": {"tender.list", "tender.update", "tender.delete", "tender.quote"},
    "tender.update": {"tender.list", "tender.update", "tender.delete", "tender.quote"},
    "tender.delete": set(),
    "tender.quote": {"tender.list", "tender.update", "tender.delete", "tender.quote", "tender.confirm"},
    "tender.confirm": {"tender.list", "tender.update", "tender.delete", "tender.quote", "tender.confirm"},
    "order.create": {"order.list", "order.update", "order.delete", "order.status"},
    "order.update": {"order.list", "order.update", "order.delete", "order.status"},
    "order.delete": set(),
    "order.status": set(),
}


def links():
    """The links of the document by operation."""
    paths = document(Assumptions(), "0")["paths"]
    return {name: paths[BY_NAME[name].path]["post"]["responses"]["200"].get("links", {}) for name in NEXT}


def test_what_can_follow_a_call_is_linked_by_its_identifiers():
    sides = {side: f"$request.body#/{side}" for side in ("sender_id", "receiver_id")}
    made = links()
    assert made["order.create"]["order.update"]["requestBody"] == {"order_id": "$request.body#/order_id", **sides}
    assert made["order.create"]["order.status"]["requestBody"] == {"data": [{"order_id": "$request.body#/order_id"}]}
    assert made["tender.quote"]["tender.confirm"]["requestBody"]["carrier_id"] == "$request.body#/carrier_id"
    assert made["tender.create"]["tender.list"]["parameters"] == {"record": "tender"}
    assert {name: set(found) for name, found in links().items()} == NEXT


def machine(url, steps):
    """A state machine over the document that counts, by the link it followed, what was answered."""
    schema = schemathesis.openapi.from_dict(decode(encode(document(FORGIVING, "0"))))
    schema.config.update(base_url=url)
    schema.config.generation.update(
        modes=[GenerationMode.POSITIVE]
    )  # what is wrong is sent elsewhere: it leads nowhere
    schema.config.phases.stateful.inference.algorithms = []  # our links alone, none that it guesses

    class Following(schema.as_state_machine()):
        def get_call_kwargs(self, case):
            return {"headers": AUTHORISED}

        def validate_response(self, response, case, additional_checks=None, **_):
            case.validate_response(response, excluded_checks=LEFT_OUT)

        def step(self, input):  # noqa: A002 (its name in schemathesis)
            output = super().step(input)
            followed = input.transition.id if input.transition and input.is_applied else ""
            steps[followed, input.case.operation.path, output.response.status_code] += 1
            return output

    return Following


def follow(folder, examples):
    """What was answered along the links, and the effects that really happened."""
    steps, truth = Counter(), folder / "truth.jsonl"
    with Embedded(f"sqlite:///{folder / 'exchange.db'}", TOKEN, FORGIVING, rehearsal=Rehearsal(truth)) as exchange:
        machine(exchange.url, steps).run(
            settings=settings(
                max_examples=examples,
                stateful_step_count=8,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
        )
        happened = Counter((line["operation"], line["effect"]) for line in Misbehaving(exchange, truth).happened())
    assert {status for _, _, status in steps} <= {200, 400}
    reached = {path for link, path, status in steps if link and status == 200}
    return steps, {operation.name for operation in OPERATIONS if operation.path in reached}, happened


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_a_thousand_steps_along_all_links_are_answered_as_the_document_says(tmp_path):
    steps, reached, happened = follow(tmp_path, 200)
    assert reached >= set().union(*NEXT.values())
    assert set(happened) >= REACHED
    assert sum(steps.values()) > 1000

"""Properties over every record of the contract: valid ones are taken and come back equal, one wrong field is named."""

from decimal import Decimal

import pytest
from exchange_calls import encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import payloads, texts

from loadsheet.contract import BY_NAME, DATE_SHAPES, WRITES, Kind, NumberForm, Record, When

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
odd_identifiers = (
    st.text(max_size=30)
    | st.integers(-(10**30), 10**30)
    | st.decimals(min_value=-1000, max_value=1000, places=2)
    | st.sampled_from(["", " ", "/", "\x00", "0", "'; drop table orders; --", "ü" * 4000, "\u202e", "😀"])
)


def body_of(operation, payload):
    return {"data": [payload]} if operation.batched else payload


NO_TEXT = (5, Decimal("1.5"), True, [], {}, None)
WRONG = {
    Kind.STRING: NO_TEXT,
    Kind.STRING_OR_NUMERIC: (True, [], {}, None),
    Kind.FLAG: (*NO_TEXT, "", "maybe", "1"),
    Kind.TIMEZONE: (*NO_TEXT, "", "GMT+25", "Mars/One"),
    Kind.OFFSET_HOURS: NO_TEXT,
    Kind.OFFSET_MINUTES: (True, [], {}, None),
    Kind.OBJECT: ("x", 5, True, None, ["x"]),
    Kind.ARRAY: ("x", 5, True, None, {}),
    **dict.fromkeys(DATE_SHAPES, (*NO_TEXT, "", "tomorrow", "2026-02-30 08:00:00")),
}
NO_NUMBER = ("", "12,5", "x", True, [], {}, None)
WRONG_NUMBERS = {NumberForm.JSON_NUMBER: (*NO_NUMBER, "1.5"), NumberForm.JSON_STRING: (*NO_NUMBER, Decimal("1.5"))}


def wrong_values(field, numbers):
    """Values that a field cannot hold, by its kind."""
    return st.sampled_from(WRONG_NUMBERS[numbers] if field.kind is Kind.NUMERIC else WRONG[field.kind])


def places(record: Record, payload, path=""):
    """Every field that a payload fills: its path, what holds it, and the field."""
    for name, value in payload.items():
        field = record.field(name)
        here = f"{path}.{name}" if path else name
        yield here, payload, field, record.numbers
        if field.kind is Kind.OBJECT:
            yield from places(field.record, value, here)
        elif field.record is not None:
            for index, item in enumerate(value):
                yield from places(field.record, item, f"{here}[{index}]")


@pytest.mark.parametrize("operation", WRITES, ids=lambda operation: operation.name)
def test_every_valid_record_is_accepted_and_what_is_wrong_in_one_is_refused_and_named(accepting, operation):
    needed = [field.name for field in operation.record.fields if field.when is When.ALWAYS]

    def refused(payload):
        answer = accepting.call(operation.name, body_of(operation, payload))
        assert answer.status == 400
        return answer.body

    @QUICK
    @given(payloads(operation), st.data())
    def holds(payload, data):
        accepting.done(operation.name, body_of(operation, payload))

        path, holder, field, numbers = data.draw(st.sampled_from(list(places(operation.record, payload))))
        good, holder[field.name] = holder[field.name], data.draw(wrong_values(field, numbers))
        assert faults(operation, refused(payload)) == [path]
        holder[field.name] = good

        lost = data.draw(st.sampled_from(needed))
        more = data.draw(texts.filter(lambda name: operation.record.field(name) is None))
        body = refused({**{name: payload[name] for name in payload if name != lost}, more: "x"})
        if operation.name != "order.delete":  # its details are prose, which any name may make ambiguous
            assert set(faults(operation, body)) == {lost, more}

    holds()


def faults(operation, body):
    if "error" in body:
        return [part.partition(": ")[0] for part in body["error"]["details"].split("; ")]
    return list(body["errors"]["data[0]"] if operation.batched else body["errors"])


@pytest.mark.parametrize("name", ["order.create", "order.update", "tender.create", "tender.update"])
def test_every_valid_record_comes_back_equal_from_its_listing(accepting, name):
    operation = BY_NAME[name]
    key = operation.record.key[0]
    listed = {field.name for field in operation.record.fields if field.when is When.LISTED}

    @QUICK
    @given(payloads(operation), odd_identifiers)
    def comes_back(payload, identifier):
        payload[key] = identifier
        accepting.done(name, payload)
        (record,) = accepting.tenders() if operation.subject == "tender" else accepting.orders()
        accepting.done(f"{operation.subject}.delete", {key: identifier})
        assert encode({field: value for field, value in record.items() if field not in listed}) == encode(payload)

    for subject, held in (("order", accepting.orders()), ("tender", accepting.tenders())):
        for record in held:
            accepting.done(f"{subject}.delete", {f"{subject}_id": record[f"{subject}_id"]})
    comes_back()

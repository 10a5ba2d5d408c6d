"""What may come over the wire: strict JSON, exact numbers, valid records; and no body that is ever answered with a server error."""

import json
import re
from decimal import Decimal

import pytest
from exchange_calls import encode
from exchange_process import TOKEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from payload_examples import GOOD, ORDER
from strategies import payloads, texts

from loadsheet.contract import (
    BY_NAME,
    DATE_SHAPES,
    OPERATIONS,
    WRITES,
    Assumptions,
    FieldKind,
    NumberForm,
    Record,
    When,
    read_refusal,
    register,
)
from loadsheet.contract.operations import ErrorShape
from loadsheet.dispatch.outcomes import STATUSES
from loadsheet.exchange.api_description import open_points
from loadsheet.exchange.wire import DEPTH_MAX, BadBody, decode_stored, parse_body
from loadsheet.exchange.wire import encode as write
from loadsheet.settings import every_field

ODDITIES = {
    "empty": (b"", "is empty"),
    "blank": (b"  \n", "is not JSON (Expecting value at character 3)"),
    "byte order mark": (b"\xef\xbb\xbf{}", "is not JSON"),
    "UTF-16": ("{}".encode("utf-16"), "is not valid UTF-8 text (invalid start byte)"),
    "bad UTF-8": (b'{"a":"\xff"}', "is not valid UTF-8 text (invalid start byte)"),
    "half a surrogate pair": (b'{"a":"\\ud800"}', "is not valid UTF-8 text (surrogates not allowed)"),
    "half a surrogate pair as a name": (b'{"\\udc00":1}', "is not valid UTF-8 text (surrogates not allowed)"),
    "NaN": (b'{"a":NaN}', "is not JSON (NaN is not a number)"),
    "Infinity": (b"[-Infinity]", "is not JSON (-Infinity is not a number)"),
    "a name twice": (b'{"a":1,"b":{"c":1,"c":1}}', "holds the name 'c' twice in one object"),
    "a name twice, escaped": (b'{"a":1,"\\u0061":2}', "holds the name 'a' twice in one object"),
    "an exponent beyond measure": (b"[0e99999999999999999999999]", "holds a number with too many digits"),
    "deep arrays": (b"[" * 100_000, f"is nested deeper than {DEPTH_MAX} levels"),
    "deep objects": (b'{"a":' * 100_000, f"is nested deeper than {DEPTH_MAX} levels"),
    "two values": (b"{}{}", "is not JSON (Extra data at character 2)"),
    "a trailing comma": (b'{"a":1,}', "is not JSON"),
    "a leading zero": (b"[01]", "is not JSON"),
    "a comment": (b"{} // done", "is not JSON"),
    "single quotes": (b"{'a':1}", "is not JSON"),
    "a control character": (b'{"a":"\n"}', "is not JSON"),
    "a form": (b"order_id=1&sender_id=2", "is not JSON"),
    "XML": (b"<order/>", "is not JSON"),
    "gzip": (b"\x1f\x8b\x08\x00", "is not valid UTF-8 text (invalid start byte)"),
}


@pytest.mark.parametrize("name", ODDITIES)
def test_a_body_that_is_no_strict_json_is_refused_in_the_shape_of_every_operation(accepting, name):
    body, said = ODDITIES[name]
    for operation in OPERATIONS:
        if operation.name in ("order.list", "tender.list") and not body:
            continue  # a listing needs no body
        answer = accepting.send(operation.method, operation.path, body)
        assert answer.status == 400, operation.name
        (fault,) = read_refusal(operation, answer.body)
        assert fault.text.startswith(said), operation.name
        assert fault.path == ("" if operation.error is ErrorShape.DETAILS else "body")


def test_numbers_and_texts_are_read_as_they_are_written():
    for text in ("12.50", "-0.0", "1E+5", "1e99", "0." + "1" * 100):
        assert repr(parse_body(text.encode())) == repr(Decimal(text)), text
    assert parse_body(b'["\\ud83d\\ude00", "\\u0000"]') == ["😀", "\x00"]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(), values))
def test_what_is_written_is_read_back_equal(record):
    assert write(decode_stored(write(record).decode())) == write(parse_body(write(record))) == write(record)


members = st.recursive(
    st.text(st.sampled_from('ab:"\\ é'), max_size=3) | st.integers() | st.decimals(-9, 9, places=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(st.text(st.sampled_from('ab:"\\ '), max_size=2), inner), max_size=4).map(tuple)
    ),
    max_leaves=8,
)


def as_json(value, space):
    """JSON of a value in which a tuple is an object, given as its members: names may come twice."""
    if isinstance(value, tuple):
        inner = f",{space}".join(f"{json.dumps(name)}{space}:{space}{as_json(each, space)}" for name, each in value)
        return f"{{{space}{inner}}}"
    if isinstance(value, list):
        return f"[{f'{space},'.join(as_json(each, space) for each in value)}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def names_twice(value):
    names = [name for name, _ in value] if isinstance(value, tuple) else []
    inner = [each for _, each in value] if isinstance(value, tuple) else value if isinstance(value, list) else []
    return len(set(names)) < len(names) or any(map(names_twice, inner))


@settings(max_examples=500, deadline=None)
@given(members, st.sampled_from(["", " ", "\n\t "]))
def test_a_name_twice_is_found_wherever_colons_stand_and_nothing_else_is_taken_for_it(value, space):
    body = as_json(value, space).encode()
    if names_twice(value):
        with pytest.raises(BadBody, match="twice in one object"):
            parse_body(body)
    else:
        assert parse_body(body) == json.loads(body, parse_float=Decimal)


junk = (
    st.binary(max_size=300)
    | values.map(lambda value: json.dumps(value, default=str).encode())
    | st.tuples(
        st.sampled_from([encode(good) for good in GOOD.values()]), st.integers(0, 400), st.binary(max_size=3)
    ).map(lambda damage: damage[0][: damage[1]] + damage[2] + damage[0][damage[1] + len(damage[2]) :])
)


@settings(max_examples=300, deadline=None)
@given(operation=st.sampled_from(OPERATIONS), body=junk)
def test_no_bytes_as_a_body_bring_a_server_error(accepting, operation, body):
    answer = accepting.send(operation.method, operation.path, body)
    assert answer.status in (200, 400)
    if answer.status == 400:
        assert read_refusal(operation, answer.body)


def test_a_body_of_the_wrong_json_type_is_refused_as_a_whole(app):
    for operation in WRITES:
        field, text = (
            ("data", "must be an array of records") if operation.batched else ("body", "must be a JSON object")
        )
        for value in (None, [], 1, "x", True, Decimal("1.5")):
            answer = app.call(operation.name, value)
            (fault,) = read_refusal(operation, answer.body)
            assert (answer.status, fault.text.removeprefix("body: ")) == (400, text)
            assert operation.error is ErrorShape.DETAILS or fault.path == field


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
    FieldKind.STRING: NO_TEXT,
    FieldKind.STRING_OR_NUMERIC: (True, [], {}, None),
    FieldKind.FLAG: (*NO_TEXT, "", "maybe", "1"),
    FieldKind.TIMEZONE: (*NO_TEXT, "", "GMT+25", "Mars/One"),
    FieldKind.OFFSET_HOURS: NO_TEXT,
    FieldKind.OFFSET_MINUTES: (True, [], {}, None),
    FieldKind.OBJECT: ("x", 5, True, None, ["x"]),
    FieldKind.ARRAY: ("x", 5, True, None, {}),
    **dict.fromkeys(DATE_SHAPES, (*NO_TEXT, "", "tomorrow", "2026-02-30 08:00:00")),
}
NO_NUMBER = ("", "12,5", "x", True, [], {}, None)
WRONG_NUMBERS = {NumberForm.JSON_NUMBER: (*NO_NUMBER, "1.5"), NumberForm.JSON_STRING: (*NO_NUMBER, Decimal("1.5"))}


def wrong_values(field, numbers):
    """Values that a field cannot hold, by its kind."""
    return st.sampled_from(WRONG_NUMBERS[numbers] if field.kind is FieldKind.NUMERIC else WRONG[field.kind])


def places(record: Record, payload, path=""):
    """Every field that a payload fills: its path, what holds it, and the field."""
    for name, value in payload.items():
        field = record.field(name)
        here = f"{path}.{name}" if path else name
        yield here, payload, field, record.numbers
        if field.kind is FieldKind.OBJECT:
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


SETTLED = {entry.question: entry for entry in register() if not entry.choices}
SIZES = SETTLED["How large a number and how deep a nesting of JSON may be, and how many values a body may hold"]
UPDATES = SETTLED["What two updates of one record at the same time leave"]
BUSY = SETTLED["What 425 and 429 mean"]
FORM = r"(\d+) digits.* ends at (\d+) .* (\d+) of a whole .* (\d+) levels, (\d+) values"
DIGITS, EXPONENT, WHOLE, LEVELS, VALUES = map(int, re.search(FORM, SIZES.default).groups())


def with_value(text):
    """An order whose goods_value is written so."""
    return encode({**ORDER, "goods_value": 0}).replace(b'"goods_value":0', b'"goods_value":' + text.encode())


def test_numbers_have_the_size_that_the_register_says(app):
    good = ["0." + "1" * DIGITS, f"1e{EXPONENT}", f"-1E-{EXPONENT}", "9" * WHOLE, "1" * (DIGITS - 3) + ".123"]
    for number, value in enumerate(good):
        body = with_value(value).replace(b"SO-1001", b"N-%d" % number)
        assert app.send_body("order.create", body).status == 200, value
    for value in ("0." + "1" * (DIGITS + 1), f"1e{EXPONENT + 1}", f"1E-{EXPONENT + 1}", "9" * (WHOLE + 1)):
        answer = app.send_body("order.create", with_value(value))
        assert (answer.status, "too many digits" in answer.raw.decode()) == (400, True), value
    assert len(app.orders()) == len(good)


def test_a_body_has_the_depth_and_as_many_values_as_the_register_says():
    deep = b"[" * (LEVELS - 1) + b"]" * (LEVELS - 1)
    for good, bad, why in (
        (b"[" + b"1," * (VALUES - 1) + b"1]", b"[" + b"1," * VALUES + b"1]", f"more than {VALUES} values"),
        (b"[%b,%b]" % (deep, deep), b"[[%b]]" % deep, f"deeper than {LEVELS} levels"),
    ):
        assert parse_body(good)
        with pytest.raises(BadBody, match=why):
            parse_body(bad)


SAME_KEY = SETTLED["Whether the number 7 and the text 7 are one identifier"]
ENCODING = SETTLED["How a body is encoded"]
ISO_FORMS = SETTLED["Which forms of ISO 8601 response_datetime has"]
PAGES = SETTLED["What answers a page_size that is not a whole number of 1 or more"]
LISTED_ONLY = SETTLED["What the fields shown only in the tender listing hold"]


def test_the_register_says_of_identifiers_updates_haste_and_listings_what_other_tests_prove():
    assert SAME_KEY.default == "yes; 07 is another"
    assert "of different fields both stay, of one field (an array is one) the later" in UPDATES.default
    assert PAGES.default == "400 in the shape of a create, and it names page_size"
    assert LISTED_ONLY.default.endswith("otherwise empty texts, and in package_count the number of packages")
    assert "nothing happened: the same call is sent again" in BUSY.default
    assert STATUSES[425] is STATUSES[429]
    assert STATUSES[429].kind.value == "not sent"


def test_a_body_is_encoded_as_the_register_says(app):
    assert "UTF-8 without a byte order mark, and each name once" in ENCODING.default  # the oddities above are refused
    assert "Content-Type and Content-Encoding are not examined" in ENCODING.default
    odd = {
        "authorization": f"Bearer {TOKEN}",
        "content-type": "text/plain; charset=latin-1",
        "content-encoding": "gzip",
    }
    assert app.send("POST", "/tmsapi/createOrder", encode({**ORDER, "pickup_city": "Köln"}), odd).status == 200
    assert app.orders()[0]["pickup_city"] == "Köln"


def test_the_forms_of_a_response_datetime_are_those_that_the_register_says(app):
    assert "fractions of a second, no seconds, an offset such as +01:00, and no zone" in ISO_FORMS.default
    app.done("tender.create", GOOD["tender.create"])
    day = "2026-03-01T08:00"
    for text in (f"{day}:00Z", f"{day}:00.25Z", f"{day}Z", f"{day}:00+01:00", f"{day}:00"):
        app.done("tender.quote", {**GOOD["tender.quote"], "response_datetime": text})
    for text in ("2026-03-01", "2026-03-01 08:00:00Z", "20260301T080000Z", "2026-W10-1T08:00:00Z", f"{day}:00z"):
        assert list(app.errors("tender.quote", {**GOOD["tender.quote"], "response_datetime": text})) == [
            "response_datetime"
        ], text


def test_every_setting_of_the_register_exists_and_the_manual_shows_its_value():
    names = {".".join(path) for path, _ in every_field()} | {f"assumptions.{name}" for name in Assumptions.model_fields}
    for entry in register():
        assert {*filter(None, entry.setting.split(", "))} <= names, entry
    points = {point.question: point for point in open_points(Assumptions(create_existing="replace"))}
    (created,) = [point for point in points.values() if point.setting == "assumptions.create_existing"]
    assert created.answer == "replace"
    assert points[UPDATES.question].answer == UPDATES.default
    assert not [entry for entry in register() if entry.affects == "translator" and entry.question in points]

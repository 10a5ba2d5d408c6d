"""What may come over the wire: strict JSON, exact numbers, and no body that is ever answered with a server error."""

import json
from decimal import Decimal

import pytest
from exchange_calls import encode
from exchange_process import TOKEN
from hypothesis import given, settings
from hypothesis import strategies as st
from payload_examples import GOOD, ORDER

from loadsheet.contract import OPERATIONS, WRITES, read_refusal
from loadsheet.contract.operations import ErrorShape
from loadsheet.exchange.wire import DEPTH_MAX, BadBody, parse, stored
from loadsheet.exchange.wire import encode as write

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
        assert repr(parse(text.encode())) == repr(Decimal(text)), text
    assert parse(b'["\\ud83d\\ude00", "\\u0000"]') == ["😀", "\x00"]


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
    assert write(stored(write(record).decode())) == write(parse(write(record))) == write(record)


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
            parse(body)
    else:
        assert parse(body) == json.loads(body, parse_float=Decimal)


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


def test_the_content_type_is_not_asked(accepting):
    # the interface says that bodies are JSON and shows no header for it
    for content_type in ("text/plain", "application/xml", "application/json; charset=latin-1", "/", ""):
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
        assert accepting.send("POST", "/tmsapi/createOrder", encode(ORDER), headers).status == 200


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

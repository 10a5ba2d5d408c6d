"""What the register says without a setting is what the exchange does: each such line that a call can show, with its own numbers."""

import re

import pytest
from exchange_calls import encode
from payload_examples import ORDER

from loadsheet.contract import Assumptions, register
from loadsheet.dispatch.outcomes import STATUSES
from loadsheet.exchange.api_description import open_points
from loadsheet.exchange.wire import BadBody, parse
from loadsheet.settings import every_field

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
    for good, bad, why in (
        (b"[" + b"1," * (VALUES - 2) + b"1]", b"[" + b"1," * VALUES + b"1]", f"more than {VALUES} values"),
        (b"[" * LEVELS + b"]" * LEVELS, b"[" * (LEVELS + 1) + b"]" * (LEVELS + 1), f"deeper than {LEVELS} levels"),
    ):
        assert parse(good)
        with pytest.raises(BadBody, match=why):
            parse(bad)


def test_of_two_updates_the_register_says_what_stays(app):
    """One after the other here; at once in test_concurrent_updates."""
    assert "of different fields both stay, of one field (an array is one) the later" in UPDATES.default
    app.done("order.create", ORDER)
    sides = {name: ORDER[name] for name in ("order_id", "sender_id", "receiver_id")}
    one = {"pickup_city": "Basel", "currency": "CHF", "packages": ORDER["packages"]}
    other = {"vehicle_type": "VAN", "currency": "EUR", "packages": ORDER["packages"][:1]}
    app.done("order.update", {**sides, **one})
    app.done("order.update", {**sides, **other})
    assert app.orders() == [{**ORDER, **one, **other}]


def test_both_statuses_of_haste_mean_the_same_to_the_translator():
    assert "nothing happened: the same call is sent again" in BUSY.default
    assert STATUSES[425] is STATUSES[429]
    assert STATUSES[429].kind.value == "not sent"


def test_every_setting_of_the_register_exists_and_the_manual_shows_its_value():
    names = {".".join(path) for path, _ in every_field()} | {f"assumptions.{name}" for name in Assumptions.model_fields}
    for entry in register():
        assert {*filter(None, entry.setting.split(", "))} <= names, entry
    points = {point.question: point for point in open_points(Assumptions(create_existing="replace"))}
    (created,) = [point for point in points.values() if point.setting == "assumptions.create_existing"]
    assert created.answer == "replace"
    assert points[UPDATES.question].answer == UPDATES.default
    assert not [entry for entry in register() if entry.affects == "translator" and entry.question in points]

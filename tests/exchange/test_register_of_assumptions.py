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

FIELDS = {".".join(path): field for path, field in every_field()}


def sizes():
    return map(
        int,
        re.search(
            r"(\d+) digits.* ends at (\d+) .* (\d+) of a whole .* (\d+) levels, (\d+) values", SIZES.default
        ).groups(),
    )


def with_value(text):
    """An order whose goods_value is written so."""
    return encode({**ORDER, "goods_value": 0}).replace(b'"goods_value":0', b'"goods_value":' + text.encode())


def test_numbers_have_the_size_that_the_register_says(app):
    digits, exponent, whole, *_ = sizes()
    good = ["0." + "1" * digits, f"1e{exponent}", f"-1E-{exponent}", "9" * whole, "1" * (digits - 3) + ".123"]
    for number, value in enumerate(good):
        body = with_value(value).replace(b"SO-1001", b"N-%d" % number)
        assert app.send_body("order.create", body).status == 200, value
    for value in ("0." + "1" * (digits + 1), f"1e{exponent + 1}", f"1E-{exponent + 1}", "9" * (whole + 1)):
        answer = app.send_body("order.create", with_value(value))
        assert (answer.status, "too many digits" in answer.raw.decode()) == (400, True), value
    assert len(app.orders()) == len(good)


def test_a_body_holds_as_many_values_as_the_register_says():
    *_, values = sizes()
    assert parse(b"[" + b"1," * (values - 2) + b"1]")
    with pytest.raises(BadBody, match=f"more than {values} values"):
        parse(b"[" + b"1," * values + b"1]")


def test_nesting_has_the_depth_that_the_register_says():
    *_, levels, _ = sizes()
    assert parse(b"[" * levels + b"]" * levels)
    with pytest.raises(BadBody, match=f"deeper than {levels} levels"):
        parse(b"[" * (levels + 1) + b"]" * (levels + 1))


def test_of_two_updates_the_register_says_what_stays(app):
    """One after the other here; at once in test_concurrent_updates."""
    assert "of different fields both stay, of one field (an array is one) the later" in UPDATES.default
    app.done("order.create", ORDER)
    sides = {name: ORDER[name] for name in ("order_id", "sender_id", "receiver_id")}
    app.done("order.update", {**sides, "pickup_city": "Basel", "currency": "CHF", "packages": ORDER["packages"]})
    app.done("order.update", {**sides, "vehicle_type": "VAN", "currency": "EUR", "packages": ORDER["packages"][:1]})
    (order,) = app.orders()
    assert (order["pickup_city"], order["vehicle_type"], order["currency"]) == ("Basel", "VAN", "EUR")
    assert order["packages"] == ORDER["packages"][:1]


def test_both_statuses_of_haste_mean_the_same_to_the_translator():
    assert "nothing happened: the same call is sent again" in BUSY.default
    assert STATUSES[425] is STATUSES[429]
    assert STATUSES[429].kind.value == "not sent"


def test_every_line_that_names_a_setting_names_one_that_there_is():
    for entry in register():
        for setting in filter(None, entry.setting.split(", ")):
            name = setting.removeprefix("assumptions.")
            assert name in (Assumptions.model_fields if name != setting else FIELDS), entry


def test_the_manual_shows_what_is_set_here():
    points = {point.question: point for point in open_points(Assumptions(create_existing="replace"))}
    (created,) = [point for point in points.values() if point.setting == "assumptions.create_existing"]
    assert created.answer == "replace"
    assert points[UPDATES.question].answer == UPDATES.default
    assert not [entry for entry in register() if entry.affects == "translator" and entry.question in points]

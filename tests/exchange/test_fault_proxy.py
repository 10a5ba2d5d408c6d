"""Every class of misbehaviour over a real socket: what the client sees is that class, and the truth log knows what happened."""

import contextlib
import gzip
import socket
import time

import faulty_exchange as faulty
import pytest
from exchange_calls import OverSocket, encode
from exchange_process import TOKEN
from fault_rules import FaultClass, FaultRule, Faults, Happens
from payload_examples import EVENT, ORDER

from loadsheet.contract import UNAUTHORISED, Assumptions
from loadsheet.exchange import serve_embedded

SECOND = {**ORDER, "order_id": "SO-2"}


def good(met):
    return met.status == 200 and met.json["status"] is True


def nothing(end):
    return lambda met: met.raw == b"" and met.end == end


def half_of_body(met):
    size = int(met.head.split("content-length: ")[1].split("\r\n")[0])
    return met.end in ("closed", "reset") and 0 < len(met.body) < size


def refused(status):
    return lambda met: met.status == status and met.body != b""


def bomb(met):
    return gzip.decompress(met.body) == bytes(20_000_001) and len(met.body) < 100_000


def other_id(met):
    return met.status == 200 and b'"wrong_id-OTHER"' in met.body and b'"wrong_id"' not in met.body


SEEN = {
    # class: (options of the rule, what the client must see)
    "reset_before_body": ({}, nothing("reset")),
    "reset_in_body": ({}, nothing("reset")),
    "reset_before_effect": ({}, nothing("reset")),
    "closed_before_effect": ({}, nothing("closed")),
    "reset_after_effect": ({}, nothing("reset")),
    "closed_after_effect": ({}, nothing("closed")),
    "reset_in_answer": ({}, lambda met: half_of_body(met) and met.end == "reset"),
    "status_before_effect": ({"status": 503, "retry_after": "7"}, lambda met: refused(503)(met) and "retry-after: 7" in met.head),
    "status_after_effect": ({"status": 500}, refused(500)),
    "unauthorised": ({}, lambda met: met.status == 401 and met.json == UNAUTHORISED),
    "no_answer": ({"seconds": 0.2}, nothing("closed")),
    "slow_answer": ({"seconds": 0.3}, good),
    "slow_effect": ({"seconds": 0.3}, good),
    "late_effect": ({"seconds": 0.5, "status": 504}, refused(504)),
    "dripping_headers": ({"seconds": 0.001}, good),
    "dripping_answer": ({"seconds": 0.001}, good),
    "cut_answer": ({}, lambda met: half_of_body(met) and met.end == "closed"),
    "cut_chunk": ({}, lambda met: "chunked" in met.head and met.end == "closed" and not met.body.endswith(b"0\r\n\r\n")),
    "cut_old_protocol": ({}, lambda met: met.raw.startswith(b"HTTP/1.0 200") and met.end == "closed" and b"}}" not in met.body),
    "truncated_json": ({}, lambda met: met.status == 200 and not met.body.endswith(b"}") and met.end == "open"),
    "length_too_short": ({}, lambda met: met.body.endswith(b"}") and f"content-length: {len(met.body) // 2}" in met.head),
    "two_lengths": ({}, lambda met: met.head.count("content-length:") == 2),
    "garbage": ({"bytes": 99}, lambda met: met.status == 200 and len(met.body) == 99),
    "not_http": ({"bytes": 77}, lambda met: len(met.raw) == 77 and met.end == "closed"),
    "html": ({}, lambda met: met.status == 200 and "text/html" in met.head and met.body.startswith(b"<!DOCTYPE")),
    "wrong_shape": ({}, lambda met: met.status == 200 and isinstance(met.json, list)),
    "status_false": ({}, lambda met: met.status == 200 and met.json["status"] is False and "data" in met.json),
    "wrong_id": ({}, other_id),
    "redirect": ({"status": 308}, lambda met: met.status == 308 and "location: http://127.0.0.1:9/" in met.head),
    "gzip_bomb": ({"bytes": 20_000_001}, bomb),
    "endless_answer": ({"bytes": 3_000_000}, lambda met: met.status == 200 and len(met.body) == 3_000_000),
    "two_answers": ({}, lambda met: good_first_of_two(met.body)),
    "closed_under_pipelined": ({}, good),
}  # fmt: skip
APART = {"closed_at_accept", "reset_at_accept", "refused"}  # tested below


def good_first_of_two(body):
    return body.count(b"HTTP/1.1 200") == 1 and b"a second answer" in body


def test_every_class_is_tested():
    assert set(SEEN) | APART == set(FaultClass)
    assert [kind for kind in FaultClass if kind.happens is Happens.LATER] == ["late_effect"]


def test_the_client_sees_exactly_this_and_the_truth_log_knows_the_effect(tmp_path):
    kinds = {name: FaultClass._value2member_map_[name] for name in SEEN}
    rules = [
        {"fault": kinds[name], "operation": "order.create", "at": (2 * place,), **options}
        for place, (name, (options, _)) in enumerate(SEEN.items(), 1)
    ]
    with faulty.misbehaving(tmp_path, *rules) as exchange:
        for name, (options, seen) in SEEN.items():
            assert good(exchange.meets("order.create", {**ORDER, "order_id": f"before {name}"})), name
            started = time.monotonic()
            met = exchange.meets("order.create", {**ORDER, "order_id": name})
            took = time.monotonic() - started
            assert seen(met), (name, met)
            if name in ("no_answer", "slow_answer", "slow_effect"):
                assert took >= options["seconds"]
            happened = {line["key"] for line in exchange.happened()}
            assert (name in happened) == (kinds[name].happens is Happens.BEFORE), name
        assert good(exchange.meets("order.create", {**ORDER, "order_id": "after all"}))
        until = time.monotonic() + 20
        while "late_effect" not in happened and time.monotonic() < until:
            time.sleep(0.05)
            happened = {line["key"] for line in exchange.happened()}
        assert [fired.fault for fired in exchange.exchange.fired] == list(kinds.values())
        keys = {line["key"] for line in exchange.happened()}
    effects = {name for name, kind in kinds.items() if kind.happens is not Happens.NEVER}
    assert keys == {"after all", *(f"before {name}" for name in SEEN)} | effects
    assert faulty.held(tmp_path) == keys


@pytest.mark.parametrize(("name", "end"), [("closed_at_accept", "closed"), ("reset_at_accept", "reset")])
def test_a_connection_can_be_turned_away_when_it_stands(tmp_path, name, end):
    rule = {"fault": FaultClass._value2member_map_[name], "operation": "connect", "at": (2,)}
    with faulty.misbehaving(tmp_path, rule) as exchange:
        assert good(exchange.meets("order.create", ORDER))
        assert exchange.meets_saying() == (b"", end)
        assert good(exchange.meets("order.create", SECOND))


def test_for_a_time_connections_are_refused(tmp_path):
    rule = {"fault": FaultClass.REFUSED, "at": (1,), "seconds": 1.0}
    with faulty.misbehaving(tmp_path, rule) as exchange:
        assert exchange.meets("order.create", ORDER) == (b"", "reset")
        with pytest.raises(ConnectionRefusedError):
            exchange.connect()
        until, stands = time.monotonic() + 20, False
        while not stands and time.monotonic() < until:
            time.sleep(0.05)
            with contextlib.suppress(ConnectionRefusedError):
                exchange.connect().close()
                stands = True
        assert good(exchange.meets("order.create", SECOND))
        assert [line["key"] for line in exchange.happened()] == ["SO-2"]


def test_a_request_behind_a_kept_alive_answer_is_reset_without_effect(tmp_path):
    rule = {"fault": FaultClass.CLOSED_UNDER_PIPELINED, "at": (1,)}
    with faulty.misbehaving(tmp_path, rule) as exchange, exchange.connect() as connection:
        first = faulty.met(connection, faulty.request("order.create", ORDER))
        assert good(first)
        assert "connection: close" not in first.head
        assert faulty.met(connection, faulty.request("order.create", SECOND)) == (b"", "reset")
        assert [line["key"] for line in exchange.happened()] == ["SO-1001"]


def test_a_rule_counts_the_requests_of_its_key_alone_and_the_first_rule_that_holds_wins(tmp_path):
    rule = {"fault": FaultClass.RESET_AFTER_EFFECT, "operation": "order.status", "key": "SO-2", "at": (2,)}
    with faulty.misbehaving(tmp_path, rule) as exchange:
        for order in (ORDER, SECOND):
            assert good(exchange.meets("order.create", order))
        ends = [
            exchange.meets("order.status", {"data": [{**EVENT, "order_id": key}]}).end
            for key in ("SO-2", "SO-1001", "SO-1001", "SO-2", "SO-2")
        ]
        assert ends == ["open", "open", "open", "reset", "open"]
        assert [fired[1:] for fired in exchange.exchange.fired] == [("order.status", 4, "SO-2")]
    keyed, plain = FaultRule(FaultClass.HTML, key="A"), FaultRule(FaultClass.GARBAGE, at=(2,))
    for rules, expected in (((keyed, plain), ["html", "html"]), ((plain, keyed), ["html", "garbage"])):
        faults = Faults(rules)
        for _ in range(2):
            faults.fire(faults.at_body(faults.at_headers("order.create"), ["A"]))
        assert [fired.fault for fired in faults.fired] == expected


def test_without_a_fault_the_front_changes_nothing(tmp_path):
    with (
        faulty.misbehaving(tmp_path) as exchange,
        serve_embedded(f"sqlite:///{tmp_path / 'plain.db'}", TOKEN, Assumptions()) as plain,
    ):
        callers = [OverSocket(exchange.exchange.url), OverSocket(plain)]
        for method, path, body in (
            ("POST", "/tmsapi/createOrder", encode(ORDER)),
            ("POST", "/tmsapi/createOrder", encode(ORDER)),
            ("POST", "/tmsapi/updateOrder", b'{"x":1}'),
            ("GET", "/tmsapi/getOrders?page_size=1", b""),
            ("GET", "/tmsapi/getOrders?record=tender", b""),
            ("GET", "/nowhere", b""),
        ):
            one, other = (caller.send(method, path, body) for caller in callers)
            assert (one.status, one.raw, set(one.headers)) == (other.status, other.raw, set(other.headers))


def test_an_effect_still_to_come_does_not_happen_once_the_exchange_has_stopped(tmp_path):
    with faulty.misbehaving(tmp_path, {"fault": FaultClass.LATE_EFFECT, "seconds": 60.0}) as exchange:
        assert exchange.meets("order.create", ORDER) == (b"", "closed")
    assert exchange.happened() == []
    assert faulty.held(tmp_path) == set()
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(exchange.address):
        pytest.fail("somebody still listens")

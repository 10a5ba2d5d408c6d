"""The front that misbehaves, over a real socket: each fault is met by its request alone, and the truth log knows what happened."""

import contextlib
import time

import msgspec
import pytest
from exchange_calls import AUTHORISED, Met, OverSocket, encode, inside, met, request
from exchange_process import TOKEN
from faulty_exchange import AT_ACCEPT, BEFORE, FAULTS, LATER, NEVER, happens, misbehaving
from payload_examples import EVENT, ORDER
from scripted_exchange import until

from loadsheet.contract import Assumptions
from loadsheet.exchange import serve_embedded

SECOND = {**ORDER, "order_id": "SO-2"}
SILENT = {"reset_before_body", "reset_before_effect", "closed_before_effect", "no_answer"}
SILENT |= {"reset_after_effect", "closed_after_effect"}
GOOD = {"slow_answer", "slow_effect", "dripping_headers", "dripping_answer", "closed_under_pipelined"}


@contextlib.contextmanager
def connected(served):
    with contextlib.closing(OverSocket(served.url)._connection) as connection:
        connection.connect()
        yield connection.sock


def meets(served, name, payload):
    """One call on a connection of its own, and what came of it."""
    try:
        with connected(served) as connection:
            return met(connection, request(name, payload))
    except ConnectionResetError:
        return Met(b"", "reset")


def is_good(answer):
    with contextlib.suppress(ValueError, IndexError, TypeError, KeyError, msgspec.DecodeError):
        return answer.status == 200 and answer.json["status"] is True and b"-OTHER" not in answer.body
    return False


def keys_of(served):
    return {line["key"] for line in served.happened()}


def test_each_fault_is_met_by_its_request_alone_and_the_truth_log_knows_the_effect(tmp_path):
    names = [name for name in FAULTS if name not in (*AT_ACCEPT, "refused", "endless_answer")]
    common = {"operation": "order.create", "status": 504, "retry_after": "7"}
    rules = [
        {**common, "fault": name, "at": (2 * place,), "seconds": 0.001 if "drip" in name else 0.2}
        for place, name in enumerate(names, 1)
    ]
    with misbehaving(tmp_path, *rules) as served:
        for name in names:
            assert is_good(meets(served, "order.create", {**ORDER, "order_id": f"before {name}"})), name
            began = time.monotonic()
            answer = meets(served, "order.create", {**ORDER, "order_id": name})
            assert is_good(answer) or name not in GOOD, (name, answer)
            assert not is_good(answer) or name in (*GOOD, "length_too_short", "two_lengths"), (name, answer)
            assert (answer.raw == b"") == (name in SILENT), (name, answer)
            assert time.monotonic() - began >= 0.2 or name not in ("no_answer", "slow_answer", "slow_effect")
            assert (name in keys_of(served)) == (happens(name) == BEFORE), name
            assert ("status" in name and "effect" in name) <= ("retry-after: 7" in answer.head and answer.status == 504)
        until(lambda: "late_effect" in keys_of(served))
        assert [fired[0] for fired in served.front.fired] == names
        keys = keys_of(served)
    assert keys == {f"before {name}" for name in names} | {name for name in names if happens(name) != NEVER}
    assert [name for name in FAULTS if happens(name) == LATER] == ["late_effect"]
    with inside(tmp_path / "exchange.db") as app:
        assert {order["order_id"] for order in app.orders("?page_size=1000")} == keys


@pytest.mark.parametrize(("fault", "end"), [("closed_at_accept", "closed"), ("reset_at_accept", "reset")])
def test_a_connection_can_be_turned_away_when_it_stands(tmp_path, fault, end):
    with misbehaving(tmp_path, {"fault": fault, "operation": "connect", "at": (2,)}) as served:
        assert is_good(meets(served, "order.create", ORDER))
        assert meets(served, "order.list", None).end in (end, "reset")  # what was not read makes a close a reset
        assert is_good(meets(served, "order.create", SECOND))


def test_for_a_time_connections_are_refused(tmp_path):
    with misbehaving(tmp_path, {"fault": "refused", "at": (1,), "seconds": 1.0}) as served:
        assert meets(served, "order.create", ORDER) == (b"", "reset")
        with pytest.raises(ConnectionRefusedError), connected(served):
            pass

        def listens():
            with contextlib.suppress(ConnectionRefusedError), connected(served):
                return True

        until(listens)
        assert is_good(meets(served, "order.create", SECOND))
        assert keys_of(served) == {"SO-2"}


def test_a_request_behind_a_kept_alive_answer_is_reset_without_effect(tmp_path):
    rule = {"fault": "closed_under_pipelined", "at": (1,)}
    with misbehaving(tmp_path, rule) as served, connected(served) as connection:
        first = met(connection, request("order.create", ORDER))
        assert (is_good(first), "connection: close" in first.head) == (True, False)
        assert met(connection, request("order.create", SECOND)) == (b"", "reset")
        assert keys_of(served) == {"SO-1001"}


def test_a_rule_counts_the_requests_of_its_key_alone(tmp_path):
    rule = {"fault": "reset_after_effect", "operation": "order.status", "key": "SO-2", "at": (2,)}
    with misbehaving(tmp_path, rule) as served:
        for order in (ORDER, SECOND):
            assert is_good(meets(served, "order.create", order))
        events = [{"data": [{**EVENT, "order_id": key}]} for key in ("SO-2", "SO-1001", "SO-1001", "SO-2", "SO-2")]
        ends = [meets(served, "order.status", body).end for body in events]
        assert ends == ["open", "open", "open", "reset", "open"]
        assert served.front.fired == [("reset_after_effect", "order.status", "SO-2")]


def test_without_a_fault_the_front_changes_nothing_and_a_late_effect_does_not_outlive_it(tmp_path):
    rule = {"fault": "late_effect", "operation": "order.status", "seconds": 60.0}
    with (
        misbehaving(tmp_path, rule) as served,
        serve_embedded(f"sqlite:///{tmp_path / 'plain.db'}", TOKEN, Assumptions()) as plain,
    ):
        callers = [OverSocket(served.url), OverSocket(plain)]
        for method, path, body in (
            *[("POST", "/tmsapi/createOrder", encode(ORDER))] * 2,
            ("POST", "/tmsapi/updateOrder", b'{"x":1}'),
            ("GET", "/tmsapi/getOrders?record=tender&page_size=1", b""),
            ("GET", "/nowhere", b""),
        ):
            one, other = (caller.send(method, path, body, AUTHORISED) for caller in callers)
            assert (one.status, one.raw, set(one.headers)) == (other.status, other.raw, set(other.headers))
        assert meets(served, "order.status", {"data": [EVENT]}) == (b"", "closed")
    assert [line["operation"] for line in served.happened()] == ["order.create"]

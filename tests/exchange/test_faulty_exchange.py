"""The front that misbehaves, over a real socket: each fault is met by its request alone, and the truth log knows what happened."""

import contextlib
import time

import msgspec
from exchange_calls import Met, OverSocket, inside, met, request
from faulty_exchange import AT_ACCEPT, BEFORE, FAULTS, LATER, NEVER, happens, misbehaving
from payload_examples import ORDER
from scripted_exchange import until

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

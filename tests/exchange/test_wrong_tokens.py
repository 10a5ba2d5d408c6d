"""A flood of wrong tokens is slowed for its address, in bounded memory, and good tokens of the same address never wait for it."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from exchange_calls import AUTHORISED, OverSocket
from exchange_process import TOKEN
from payload_examples import ORDER

from loadsheet.contract import BY_NAME, UNAUTHORISED, Assumptions, read_refusal
from loadsheet.exchange import serve_embedded
from loadsheet.exchange.auth import KEYS_MAX, WAIT_MAX_S, WrongTokenLimit
from loadsheet.settings.sections import ServerSettings

WRONG = {"Authorization": "Bearer lsx_guessed"}
LISTING = "/tmsapi/getOrders"


def serving(folder, per_second):
    settings = ServerSettings(wrong_tokens_per_second=per_second)
    return serve_embedded(f"sqlite:///{folder / 'exchange.db'}", TOKEN, Assumptions(), settings)


def ticking(per_second):
    now = [1000.0]
    return now, WrongTokenLimit(per_second, lambda: now[0])


def test_the_first_cost_nothing_the_next_more_and_more_and_then_there_is_a_429():
    now, limit = ticking(10.0)
    waits = [limit.wait("192.0.2.1") for _ in range(40)]
    assert waits[:10] == [0.0] * 10
    assert waits[10:30] == pytest.approx([number / 10 for number in range(1, 21)])  # so ten a second come through
    assert max(wait for wait in waits if wait) <= WAIT_MAX_S
    assert waits[30:] == [None] * 10  # and these did not make it longer
    now[0] += 3.0
    assert limit.wait("192.0.2.1") == pytest.approx(0.0, abs=0.11)


@pytest.mark.parametrize("per_second", [0.2, 1.0, 300.0])
def test_no_more_401s_come_through_than_the_pace_allows(per_second):
    now, limit = ticking(per_second)
    answered = []
    for tick in range(20_000):
        now[0] = 1000 + tick / 1000
        if (wait := limit.wait("192.0.2.1")) is not None:
            answered.append(now[0] + wait)
    assert sum(moment < 1020 for moment in answered) <= 20 * per_second + max(per_second, 1) + 1
    assert len(answered) >= 20 * per_second - 1


def test_each_address_has_its_own_count_and_a_network_of_ipv6_one():
    _, limit = ticking(1.0)
    assert limit.wait("192.0.2.1") == 0
    assert limit.wait("192.0.2.1") > 0
    assert [limit.wait(other) for other in ("192.0.2.2", "::ffff:192.0.2.3", "2001:db8::1", "/run/socket")] == [0] * 4
    assert limit.wait("2001:db8::ffff:1") > 0  # whoever has one of these addresses has the others
    assert limit.wait("::ffff:192.0.2.2") > 0
    assert limit.wait("2001:db8:0:1::1") == 0


def test_one_wrong_token_has_a_count_of_its_own_wherever_it_comes_from():
    _, limit = ticking(1.0)
    assert [limit.wait(f"192.0.2.{number}", "lsx_leaked") for number in range(3)] == [0.0, 1.0, 2.0]
    assert limit.wait("192.0.2.9", "lsx_leaked") is None
    assert limit.wait("192.0.2.10", "lsx_other") == 0.0


def test_addresses_without_number_take_bounded_memory():
    _, limit = ticking(1.0)
    for number in range(3 * KEYS_MAX):
        limit.wait(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"token-{number}")
    assert (len(limit._addresses), len(limit._tokens)) == (KEYS_MAX, KEYS_MAX)


def test_a_flood_is_slowed_and_good_tokens_of_its_address_are_served_at_once(tmp_path):
    with serving(tmp_path, 2.0) as url, ThreadPoolExecutor(11) as threads:
        until = time.monotonic() + 0.5
        began = time.monotonic()

        def flood(_):
            caller, statuses = OverSocket(url), []
            while time.monotonic() < until:
                answer = caller.send("GET", LISTING, b"", WRONG)
                statuses.append(answer.status)
                if answer.status == 429:
                    assert answer.headers["retry-after"] == "2"
                    assert "not authorised" in read_refusal(BY_NAME["tender.list"], answer.body)[0].text
                else:
                    assert answer.body == UNAUTHORISED
            return statuses

        floods = [threads.submit(flood, number) for number in range(10)]
        good, times, number = OverSocket(url), [], 0
        while time.monotonic() < until:
            asked = time.monotonic()
            good.done("order.create", {**ORDER, "order_id": f"G-{number}"})
            times.append(time.monotonic() - asked)
            number += 1
        statuses = [status for lane in floods for status in lane.result()]
        took = time.monotonic() - began
    assert set(statuses) == {401, 429}
    assert statuses.count(401) <= 2 * (took + 1) + 1
    assert sorted(times)[len(times) * 9 // 10] < WAIT_MAX_S  # they do not stand in the line of the wrong ones


def test_without_a_limit_every_wrong_token_is_a_401_at_once(tmp_path):
    with serving(tmp_path, 0.0) as url:
        caller = OverSocket(url)
        assert {caller.send("GET", LISTING, b"", WRONG).status for _ in range(200)} == {401}
        assert caller.send("GET", LISTING, b"", AUTHORISED).status == 200

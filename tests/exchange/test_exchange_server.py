"""The exchange on its socket: embedded and alone, starting and stopping without a trace of the token."""

import http.client
import logging
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from exchange_calls import OverSocket, embedded, inside
from exchange_process import TOKEN, served
from payload_examples import ORDER

from loadsheet.contract import Assumptions
from loadsheet.exchange import Address, ExchangeSetup, TokenAdmin, serve, serve_embedded
from loadsheet.problems import SettingsError


def test_an_embedded_exchange_answers_at_its_url_and_is_gone_afterwards(tmp_path):
    threads = set(threading.enumerate())
    with serve_embedded(f"sqlite:///{tmp_path / 'exchange.db'}", TOKEN, Assumptions()) as url:
        caller = OverSocket(url)
        assert url.startswith("http://127.0.0.1:")
        assert caller.orders() == []
    assert set(threading.enumerate()) == threads
    address = url.removeprefix("http://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address[0], int(address[1])))


def test_two_embedded_exchanges_do_not_meet(tmp_path):
    with embedded(tmp_path / "one.db") as one, embedded(tmp_path / "two.db") as two:
        one.done("order.create", ORDER)
        assert (len(one.orders()), len(two.orders())) == (1, 0)


def test_an_embedded_exchange_stops_although_a_client_stays_connected(tmp_path):
    started = time.monotonic()
    with embedded(tmp_path / "exchange.db") as caller:
        assert caller.orders() == []
        idle = socket.create_connection(("127.0.0.1", int(caller.address.split(":")[1])))
    idle.close()
    assert time.monotonic() - started < 20


def test_an_error_inside_the_block_stops_the_exchange_too(tmp_path):
    threads = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), embedded(tmp_path / "exchange.db"):
        raise ZeroDivisionError
    assert set(threading.enumerate()) == threads


def test_a_token_that_no_header_can_carry_is_refused(tmp_path):
    threads = set(threading.enumerate())
    for token in ("", " ", "two words", "ümlaut", "line\nbreak"):
        exchange = serve_embedded(f"sqlite:///{tmp_path / 'x.db'}", token, Assumptions())
        with pytest.raises(SettingsError, match=r"^token: "), exchange:
            pass
    assert set(threading.enumerate()) == threads


def test_an_address_that_is_taken_is_said_at_once(tmp_path):
    setup = ExchangeSetup(f"sqlite:///{tmp_path / 'x.db'}", TOKEN, Assumptions())
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError) as wrong:
        serve(setup, Address(port=taken.getsockname()[1]), print)
    assert "cannot listen on 127.0.0.1 port" in str(wrong.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_exchange_cleanly(tmp_path, number):
    with served(tmp_path / "exchange.db") as (url, process):
        caller = OverSocket(url)
        caller.done("order.create", ORDER)
        process.send(number)
        assert process.wait() == 0
    assert process.said == f"exchange listening on {url}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exchange.db"]  # the journal is folded in


def test_a_stopped_exchange_finishes_running_calls(tmp_path):
    with served(tmp_path / "exchange.db") as (url, process):
        callers = [OverSocket(url) for _ in range(4)]
        start = threading.Barrier(5)

        def create(number):
            caller, done = callers[number], 0
            start.wait()
            try:
                while caller.call("order.create", {**ORDER, "order_id": f"{number}-{done}"}).status == 200:
                    done += 1
            except (OSError, http.client.HTTPException):  # stopped between two calls
                return done

        with ThreadPoolExecutor(4) as threads:
            counts = [threads.submit(create, number) for number in range(4)]
            start.wait()
            time.sleep(0.2)
            process.send(signal.SIGTERM)
            done = sum(count.result() for count in counts)
        assert process.wait() == 0
    with inside(tmp_path / "exchange.db") as app:
        assert len(app.orders("?page_size=100000")) == done > 0  # no call was carried out without an answer


def test_the_exchange_listens_on_the_other_loopback_too(tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with served(tmp_path / "exchange.db", host="::1") as (url, _):
        assert url.startswith("http://[::1]:")
        caller = OverSocket(url)
        assert caller.orders() == []


def test_no_token_is_kept_or_logged_whatever_happens(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    operators, database = "canary-of-the-token", f"sqlite:///{tmp_path / 'exchange.db'}"
    with TokenAdmin(database) as admin:
        _, partys = admin.add(ORDER["sender_id"])
    with serve_embedded(database, operators, Assumptions()) as url:
        caller = OverSocket(url)
        for secret, status in ((operators, 200), (partys, 200), (operators + "x", 401), (partys + "x", 401)):
            headers = {"Authorization": f"Bearer {secret}"}
            assert caller.send("GET", "/tmsapi/getOrders", b"", headers).status == status
            caller.send("POST", "/tmsapi/createOrder", b"{", headers)
            caller.send("GET", f"/tmsapi/getOrders?token={secret}", b"", headers)
            caller.send("BREW", "/", b"", headers)
    written = "".join(capfd.readouterr()) + caplog.text
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (operators, partys):
        assert secret not in written
        assert secret.encode() not in kept

"""The exchange on its socket: embedded and alone, starting and stopping without a trace of the token."""

import contextlib
import http.client
import logging
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from exchange_calls import OverSocket, embedded, inside, url_of
from exchange_process import TOKEN, served
from payload_examples import ORDER

from loadsheet.contract import Assumptions
from loadsheet.exchange import Address, ExchangeSetup, TokenAdmin, serve, serve_embedded
from loadsheet.problems import SettingsError


def test_an_embedded_exchange_answers_at_its_url_and_stops_with_its_block_whatever_happens(tmp_path):
    threads, started = set(threading.enumerate()), time.monotonic()
    with contextlib.suppress(ZeroDivisionError), embedded(tmp_path / "exchange.db") as caller:
        host, port = caller.address.split(":")
        assert (host, caller.orders()) == ("127.0.0.1", [])
        idle = socket.create_connection((host, int(port)))  # a client that stays connected
        raise ZeroDivisionError
    idle.close()
    assert time.monotonic() - started < 20
    assert set(threading.enumerate()) == threads
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_a_token_that_no_header_can_carry_is_refused(tmp_path):
    threads = set(threading.enumerate())
    for token in ("", " ", "two words", "ümlaut", "line\nbreak"):
        exchange = serve_embedded(url_of(tmp_path / "x.db"), token, Assumptions())
        with pytest.raises(SettingsError, match=r"^token: "), exchange:
            pass
    assert set(threading.enumerate()) == threads


def test_an_address_that_is_taken_is_said_at_once(tmp_path):
    setup = ExchangeSetup(url_of(tmp_path / "x.db"), TOKEN, Assumptions())
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError) as wrong:
        serve(setup, Address(port=taken.getsockname()[1]), print)
    assert "cannot listen on 127.0.0.1 port" in str(wrong.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_exchange_cleanly_after_the_running_calls(tmp_path, number):
    with served(tmp_path / "exchange.db") as (url, process):
        callers = [OverSocket(url) for _ in range(4)]
        start = threading.Barrier(5)

        def create(lane):
            caller, done = callers[lane], 0
            start.wait()
            try:
                while caller.call("order.create", {**ORDER, "order_id": f"{lane}-{done}"}).status == 200:
                    done += 1
            except (OSError, http.client.HTTPException):  # stopped between two calls
                return done

        with ThreadPoolExecutor(4) as threads:
            counts = [threads.submit(create, lane) for lane in range(4)]
            start.wait()
            time.sleep(0.2)
            process.send(number)
            done = sum(count.result() for count in counts)
        assert process.wait() == 0
    assert process.said == f"exchange listening on {url}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exchange.db"]  # the journal is folded in
    with inside(tmp_path / "exchange.db") as app:
        assert len(app.orders("?page_size=100000")) == done > 0  # no call was carried out without an answer


def test_the_exchange_listens_on_the_other_loopback_too(tmp_path):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with served(tmp_path / "exchange.db", host="::1") as (url, _):
        assert url.startswith("http://[::1]:")
        assert OverSocket(url).orders() == []


def test_no_token_is_kept_or_logged_whatever_happens(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    operators, database = "canary-of-the-token", url_of(tmp_path / "exchange.db")
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

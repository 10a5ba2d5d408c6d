"""What only a database server can do to the exchange: go away, come back, fall silent without closing, and serve several processes at once."""

import http.client
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import psycopg
import pytest
from exchange_calls import AUTHORISED, Inside, OverSocket, inside
from exchange_process import TOKEN, served
from payload_examples import EVENT, ORDER
from postgres import Stalling

from loadsheet.contract import BY_NAME, Assumptions, read_refusal
from loadsheet.errors import SettingsError
from loadsheet.exchange import Store, TokenAdmin, create_app


@pytest.fixture
def shared(new_database):
    return new_database("postgresql")


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["immediate", pytest.param("fast", marks=pytest.mark.sweep)])
def test_while_the_database_is_away_calls_are_503_and_afterwards_all_is_there(own_server, mode, caplog):
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(Store(own_server.new_database()))) for _ in range(3)]
        app, never_called, idle = (Inside(create_app(each, TOKEN, Assumptions())) for each in stores)
        for called in (app, idle):
            called.done("order.create", ORDER)
        own_server.stop(mode)
        try:
            for answer in (app.call("order.create", {**ORDER, "order_id": 2}), app.send("GET", "/tmsapi/getOrders")):
                assert (answer.status, answer.headers["retry-after"]) == (503, "5")
            party = app.send("GET", "/tmsapi/getOrders", b"", {"Authorization": "Bearer somebody"})
            assert (party.status, party.headers["retry-after"]) == (503, "5")  # whose token it is cannot be told now
            assert never_called.call("order.create", ORDER).status == 503
        finally:
            own_server.start()
        idle.done("order.status", {"data": [EVENT]})  # it was not called meanwhile, so it notices nothing
        assert len(idle.orders()) == len(app.orders()) == 1
        app.done("order.create", {**ORDER, "order_id": 2})
        assert len(app.orders()) == 2
        never_called.done("order.create", ORDER)
    assert ORDER["sender_id"] not in caplog.text


def test_a_crash_of_the_database_under_load_loses_nothing_that_was_answered(own_server):
    url, answered = own_server.new_database(), []
    with ExitStack() as opened:
        address, _ = opened.enter_context(served(url))
        threads, stop = opened.enter_context(ThreadPoolExecutor(4)), threading.Event()
        opened.callback(stop.set)  # whatever fails below: the pool waits for its lanes

        def create(lane):
            caller, number = OverSocket(address), 0
            while not stop.is_set():
                number += 1
                answer = caller.call("order.create", {**ORDER, "order_id": f"{lane}-{number}"})
                assert answer.status in (200, 503), answer.raw
                if answer.status == 200:
                    answered.append(f"{lane}-{number}")
                else:
                    time.sleep(0.05)

        lanes = [threads.submit(create, lane) for lane in range(4)]
        time.sleep(0.3)
        own_server.stop("immediate")
        own_server.start()
        before = len(answered)
        deadline = time.monotonic() + 20
        while len(answered) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        stop.set()
        for lane in lanes:
            lane.result()
    assert len(answered) > before > 0  # it went on by itself
    with inside(url) as app:
        assert set(answered) <= {order["order_id"] for order in app.orders("?page_size=100000")}


def test_a_killed_process_loses_nothing_answered_and_holds_up_the_others_no_longer(shared):
    answered = []
    with served(shared) as (first, process), served(shared) as (second, _):
        one, other = OverSocket(first), OverSocket(second)

        def create():
            for number in range(10_000):
                one.done("order.create", {**ORDER, "order_id": f"SO-{number}"})
                answered.append(f"SO-{number}")

        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(create)
            time.sleep(0.2 + random.random() * 0.1)
            process.kill()
            with pytest.raises((OSError, http.client.HTTPException)):  # however a killed server looks to its client
                running.result()
        other.done("order.create", {**ORDER, "order_id": "after"})
        listed = [order["order_id"] for order in other.orders("?page_size=100000")]
    assert answered
    assert listed[: len(answered)] == answered
    assert len(set(listed)) == len(listed) <= len(answered) + 2  # the one under way may have happened


def test_identifiers_that_postgresql_could_not_index_work_all_the_same(stored):
    for identifier in ("\0", "a\0b", "sha256:", "ü" * 4000, "x" * 126, "😀" * 2000):
        order = {**ORDER, "order_id": identifier, "sender_id": identifier}
        stored.done("order.create", order)
        assert "order_id" in stored.errors("order.create", order)
        parties = {"sender_id": "x", "receiver_id": identifier}
        stored.done("order.update", {"order_id": identifier, **parties, "currency": "CHF"})
        stored.done("order.status", {"data": [{**EVENT, "order_id": identifier}]})
        (listed,) = stored.orders()
        assert (listed["order_id"], listed["currency"]) == (identifier, "CHF")
        stored.done("order.delete", {"order_id": identifier})
        assert stored.orders() == []


def test_every_connection_waits_for_the_disk(postgres):
    url = postgres.new_database()
    name = url.split("@/")[1].split("?")[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"alter database {name} set synchronous_commit = off")
        connection.execute(f"alter database {name} set default_transaction_isolation = serializable")
    with closing(Store(url)) as store, store._engine.connect() as connection:
        shown = [
            connection.exec_driver_sql(f"show {of}").scalar() for of in ("synchronous_commit", "transaction_isolation")
        ]
    assert shown == ["on", "read committed"]


def test_a_database_that_cannot_hold_every_text_is_refused(postgres):
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("create database latin encoding 'LATIN1' template template0")
    with pytest.raises(SettingsError, match="Create it with the encoding UTF8"):
        Store(postgres.url("latin"))


@pytest.mark.sweep
def test_a_server_that_does_not_answer_is_given_up(postgres):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://someone:secret@127.0.0.1:{silent.getsockname()[1]}/db"
        with pytest.raises(SettingsError, match="cannot be used") as wrong:
            Store(url, busy_timeout_s=0.5)
    assert "secret" not in str(wrong.value)


WAITS_S = 0.5  # for a lock; twice that for an answer, and libpq takes two seconds at least for a connection
LISTING = "/tmsapi/getOrders"


@pytest.fixture
def wire(postgres):
    with Stalling(postgres.new_database()) as stalling:
        yield stalling


@pytest.mark.sweep
@pytest.mark.parametrize("callers", [1, pytest.param(20, marks=pytest.mark.sweep)])
def test_calls_are_503_in_the_interfaces_shape_and_service_resumes_by_itself(wire, caplog, callers):
    """Forty that ask a silent server at once are told together: one after the other they would wait for minutes."""
    with TokenAdmin(wire.url) as admin:
        _, secret = admin.add(ORDER["sender_id"])
    party = {"Authorization": f"Bearer {secret}"}
    with closing(Store(wire.url, busy_timeout_s=WAITS_S)) as store, ThreadPoolExecutor(40) as threads:
        app = Inside(create_app(store, TOKEN, Assumptions()))
        app.done("order.create", ORDER)
        assert len(app.orders()) == 1
        wire.stall()
        began = time.monotonic()
        creates = [threads.submit(app.call, "order.create", {**ORDER, "order_id": f"S-{n}"}) for n in range(callers)]
        listings = [threads.submit(app.send, "GET", LISTING, b"", AUTHORISED) for _ in range(callers)]
        listings.append(threads.submit(app.send, "GET", LISTING, b"", party))  # whose token it is cannot be told now
        for calls, name in ((creates, "order.create"), (listings, "tender.list")):
            for each in calls:
                answer = each.result()
                assert (answer.status, answer.headers["retry-after"]) == (503, "5")
                assert "the store is not available" in read_refusal(BY_NAME[name], answer.body)[0].text
        took = time.monotonic() - began
        wire.resume()
        assert len(app.orders()) >= 1  # whether a hanging create got through, only a listing can tell
        app.done("order.create", {**ORDER, "order_id": 3})
        assert app.send("GET", LISTING, b"", party).status == 200
        assert {order["order_id"] for order in app.orders()} >= {ORDER["order_id"], 3}
    assert took < 60
    assert "the exchange's store failed: " in caplog.text
    assert ORDER["sender_id"] not in caplog.text


def test_a_server_that_falls_silent_within_a_transaction_frees_its_locks_for_others(wire, postgres):
    """The silent connection keeps the row locks of its transaction at the server, until the server itself ends it."""
    direct = postgres.url(wire.url.rpartition("/")[2].partition("?")[0])
    with closing(Store(wire.url, busy_timeout_s=WAITS_S)) as hanging, closing(Store(direct)) as other:
        one, two = (Inside(create_app(store, TOKEN, Assumptions())) for store in (hanging, other))
        one.done("order.create", ORDER)
        connection = hanging._engine.connect()
        transaction = connection.begin()
        connection.exec_driver_sql("select * from counters for update")
        wire.stall()
        two.done("order.create", {**ORDER, "order_id": 2})  # waits until the server has ended the silent one
        connection.invalidate()
        transaction.rollback()
        connection.close()
        wire.resume()
        assert len(one.orders()) == 2


def test_the_server_gives_up_a_statement_that_takes_too_long(postgres):
    with closing(Store(postgres.new_database(), busy_timeout_s=0.2)) as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("show statement_timeout").scalar() == "300ms"
        assert connection.exec_driver_sql("show lock_timeout").scalar() == "200ms"
        driver = connection.connection.driver_connection
        with pytest.raises(psycopg.errors.QueryCanceled):
            driver.execute("select pg_sleep(30)")
        driver.rollback()

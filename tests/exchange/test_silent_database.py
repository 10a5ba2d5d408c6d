"""A PostgreSQL that falls silent without closing: callers are told in time, and service goes on by itself."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from exchange_calls import AUTHORISED, Inside
from exchange_process import TOKEN
from payload_examples import ORDER
from postgres import Stalling

from loadsheet.contract import BY_NAME, Assumptions, read_refusal
from loadsheet.exchange import Store, TokenAdmin, create_app

WAITS_S = 0.5  # for a lock; twice that for an answer, and libpq takes two seconds at least for a connection
LISTING = "/tmsapi/getOrders"


@pytest.fixture
def wire(postgres):
    with Stalling(postgres.new_database()) as stalling:
        yield stalling


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

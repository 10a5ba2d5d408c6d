"""The store's promises: 200 means durable, one winner for each identifier, one failure harms no other call."""

import asyncio
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from exchange_calls import Inside, first_page
from exchange_process import TOKEN
from payload_examples import EVENT, GOOD, ORDER, TENDER
from sqlalchemy import create_engine, text

from loadsheet.contract import BY_NAME, Assumptions
from loadsheet.exchange import Store, StoreFailed, create_app
from loadsheet.exchange.effects import Call
from loadsheet.exchange.wire import stored
from loadsheet.problems import SettingsError

STRICT = Assumptions()


def call(name, payload):
    operation = BY_NAME[name]
    records = tuple(operation.records(payload))
    return Call(operation, records, tuple(range(len(records))))


def effects(store, calls, assumptions=STRICT):
    """All calls handed in at once, so that they share transactions; their effects in order."""

    async def at_once():
        return await asyncio.gather(*(store.apply(each, assumptions) for each in calls), return_exceptions=True)

    return asyncio.run(at_once())


def held(store, subject):
    return first_page(store, subject, 10_000)


@pytest.fixture
def store(database):
    with closing(Store(database)) as opened:
        yield opened


def rows(database, table):
    engine = create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            return connection.execute(text(f"select * from {table} order by number")).all()
    finally:
        engine.dispose()


def test_calls_in_one_group_see_each_other_in_order(store, database):
    story = [
        call("order.create", ORDER),
        call("order.create", ORDER),
        call("order.update", GOOD["order.update"]),
        call("order.status", GOOD["order.status"]),
        call("order.delete", {"order_id": "SO-1001"}),
        call("order.update", GOOD["order.update"]),
        call("order.create", {**ORDER, "currency": "CHF"}),
        call("order.status", GOOD["order.status"]),
    ]
    done = effects(store, story)
    assert [bool(effect.faults) for effect in done] == [False, True, False, False, False, True, False, False]
    assert [effect.number for effect in done if effect.number] == [1, 1, 2]
    contents, total = held(store, "order")
    assert total == 1
    assert '"currency":"CHF"' in contents[0]
    assert [row[1] for row in rows(database, "status_events")] == ["SO-1001"]


def test_groups_of_any_size_are_written_as_they_came(store, database):
    orders, tenders = [], []
    for size in (1, 8, 9, 65, 130):
        new = [{**ORDER, "order_id": f"SO-{size}-{place}", "currency": f"{place}"} for place in range(size)]
        asked = [{**TENDER, "tender_id": f"T-{size}-{place}"} for place in range(size)]
        calls = [call("order.create", order) for order in new] + [call("tender.create", tender) for tender in asked]
        numbers = [*range(len(orders) + 1, len(orders) + size + 1)]
        assert [effect.number for effect in effects(store, calls)] == numbers * 2, size
        events = [call("order.status", {"data": [{**EVENT, "order_id": order["order_id"]}]}) for order in new]
        assert not any(effect.faults for effect in effects(store, events))
        orders, tenders = orders + new, tenders + asked
    assert [row[:2] for row in rows(database, "tenders")] == [
        (number, tender["tender_id"]) for number, tender in enumerate(tenders, 1)
    ]
    contents, total = held(store, "order")
    assert total == len(orders)
    assert [stored(content) for content in contents] == orders
    assert [row[1] for row in rows(database, "status_events")] == [order["order_id"] for order in orders]


def test_more_keys_than_one_question_takes_are_all_found(store):
    orders = [{**ORDER, "order_id": f"SO-{number}"} for number in range(1200)]
    effects(store, [call("order.create", order) for order in orders])
    batch = {"data": [{**EVENT, "order_id": order["order_id"]} for order in orders]}
    (effect,) = effects(store, [call("order.status", batch)])
    assert effect.faults == ()
    assert held(store, "order")[1] == 1200


def test_two_stores_on_one_database_share_numbers_and_records(database):
    with closing(Store(database)) as one, closing(Store(database)) as other, ThreadPoolExecutor(2) as threads:
        names = [f"SO-{number}" for number in range(200)]
        calls = [call("order.create", {**ORDER, "order_id": name}) for name in names]
        done = list(threads.map(lambda store: effects(store, calls), (one, other)))
        won = [effect.number for side in done for effect in side if effect.number]
        assert sorted(won) == list(range(1, 201))
        assert held(one, "order") == held(other, "order")


@contextmanager
def locked(tmp_path):
    """Another program that writes to the same file and does not finish."""
    with closing(sqlite3.connect(tmp_path / "exchange.db", isolation_level=None)) as database:
        database.execute("begin immediate")
        yield


def test_a_file_that_stays_locked_is_503_and_nothing_is_kept(tmp_path, caplog):
    with closing(Store(f"sqlite:///{tmp_path / 'exchange.db'}", busy_timeout_s=0.05)) as store:
        app = Inside(create_app(store, TOKEN, STRICT))
        with locked(tmp_path):
            answer = app.call("order.create", ORDER)
            assert (answer.status, answer.headers["retry-after"]) == (503, "5")
            assert app.orders() == []  # reading goes on
            started = time.monotonic()
            done = effects(store, [call("order.create", {**ORDER, "order_id": number}) for number in range(400)])
            assert all(isinstance(effect, StoreFailed) for effect in done)
            assert time.monotonic() - started < 12  # one after the other they would wait for 20 s
        assert "database is locked" in caplog.text
        assert ORDER["sender_id"] not in caplog.text
        app.done("order.create", ORDER)


REFUSALS = {
    "sqlite": (
        "create trigger refuse before insert on orders when new.order_ref = 'SO-3' begin select raise(abort, 'no'); end",
    ),
    "postgresql": ("alter table orders add constraint refuse check (order_ref <> 'SO-3')",),
}


def test_one_call_that_the_database_refuses_does_not_fail_its_group(store, database, caplog):
    engine = create_engine(database.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for statement in REFUSALS[engine.dialect.name]:
            connection.execute(text(statement))
    engine.dispose()
    calls = [call("order.create", {**ORDER, "order_id": f"SO-{number}"}) for number in range(6)]
    done = effects(store, calls)
    assert [isinstance(effect, StoreFailed) for effect in done] == [False, False, False, True, False, False]
    assert held(store, "order")[1] == 5
    assert ORDER["sender_id"] not in caplog.text


def test_closing_finishes_what_was_handed_in_and_refuses_what_comes_later(database):
    store = Store(database)

    async def hand_in_and_close():
        orders = [{**ORDER, "order_id": number} for number in range(50)]
        waiting = [asyncio.ensure_future(store.apply(call("order.create", order), STRICT)) for order in orders]
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, store.close)
        return await asyncio.gather(*waiting)

    assert len(asyncio.run(hand_in_and_close())) == 50
    (effect,) = effects(store, [call("order.create", ORDER)])
    assert isinstance(effect, StoreFailed)
    with closing(Store(database)) as reopened:
        assert held(reopened, "order")[1] == 50


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("exchange.db", "is not a database URL. Use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"),
        ("mysql://someone:secret@host/db", "mysql://someone:***@host/db is not a supported database"),
        ("sqlite://", "Use sqlite:///FILE"),
        ("sqlite:///:memory:", "Use sqlite:///FILE"),
        ("postgresql://someone:secret@127.0.0.1:1/db", "postgresql://someone:***@127.0.0.1:1/db cannot be used"),
        ("sqlite:///{folder}/missing/exchange.db", "does not exist. Create it, or name another file"),
        ("sqlite:///{folder}", "cannot be used as the exchange's database (unable to open database file)"),
        ("sqlite:///{folder}/notes.txt", "cannot be used as the exchange's database (file is not a database)"),
        ("sqlite:///{folder}/notes.txt/exchange.db", "does not exist. Create it, or name another file"),
    ],
)
def test_a_database_that_cannot_be_used_is_said_at_once(tmp_path, url, said):
    (tmp_path / "notes.txt").write_text("not a database " * 1000)
    with pytest.raises(SettingsError) as wrong:
        Store(url.format(folder=tmp_path))
    assert said in str(wrong.value)
    assert str(wrong.value).startswith("database: ")
    assert "secret" not in str(wrong.value)

"""The store's promises: 200 means durable, one winner for each identifier, one failure harms no other call, of two updates at once neither is lost."""

import asyncio
import hashlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import pytest
from exchange_calls import Inside, encode, first_page
from exchange_process import TOKEN
from invariants import read_truth
from payload_examples import EVENT, GOOD, ORDER, TENDER
from sqlalchemy import create_engine, text

from loadsheet.contract import BY_NAME, Assumptions
from loadsheet.errors import SettingsError
from loadsheet.exchange import Store, StoreFailed, create_app
from loadsheet.exchange.effects import Call
from loadsheet.exchange.wire import decode_stored

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
    names = ("tender.create", "tender.quote", "tender.delete", "tender.create", "tender.confirm")
    quoted = effects(store, [call(name, GOOD[name]) for name in names])
    assert [bool(effect.faults) for effect in quoted] == [False] * 4 + [True]  # the quote went with its tender


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
    assert [decode_stored(content) for content in contents] == orders
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
def test_a_database_that_cannot_be_used_is_reported_at_once(tmp_path, url, said):
    (tmp_path / "notes.txt").write_text("not a database " * 1000)
    with pytest.raises(SettingsError) as wrong:
        Store(url.format(folder=tmp_path))
    assert said in str(wrong.value)
    assert str(wrong.value).startswith("database: ")
    assert "secret" not in str(wrong.value)


CLIENTS = 4
OWN = ["pickup_city", "delivery_city", "vehicle_type", "pickup_company"]  # fields that one client alone sends
SHARED = "transport_mode"


@pytest.fixture
def clients(database, tmp_path):
    """Callers of two exchanges on one database, each twice; what happens at the first stands in `truth.jsonl`."""
    with ExitStack() as opened:
        logs = (tmp_path / "truth.jsonl", None)
        stores = [opened.enter_context(closing(Store(database, truth=log))) for log in logs]
        settings = Assumptions(status_sets_order_status="code")
        yield [Inside(create_app(store, TOKEN, settings)) for store in stores] * (CLIENTS // 2)


def base(subject):
    """What every update has to carry."""
    always = {field.name for field in BY_NAME[f"{subject}.update"].record.fields if field.when == "always"}
    return {name: value for name, value in GOOD[f"{subject}.create"].items() if name in always}


def update(**fields):
    return "order.update", {**base("order"), **fields}


def at_once(clients, calls):
    """Every client's call, let off together; their statuses."""
    start = threading.Barrier(len(calls))

    def one(client, call):
        start.wait()
        return client.call(*call).status

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, clients, calls))


@pytest.mark.parametrize(
    ("database", "subject"), [("sqlite", "tender"), ("postgresql", "order")], indirect=["database"]
)
def test_updates_of_different_fields_all_survive_and_of_one_field_one_whole_value_stays(clients, subject):
    created, package = GOOD[f"{subject}.create"], GOOD[f"{subject}.create"]["packages"][0]
    clients[0].done(f"{subject}.create", created)
    for turn in range(8):
        sent = [
            {
                field: f"{field} {turn}",
                SHARED: f"{turn} {place}",
                "packages": [{**package, "item_name": field}] * (place + 1),
            }
            for place, field in enumerate(OWN)
        ]
        updates = [(f"{subject}.update", {**base(subject), **fields}) for fields in sent]
        assert at_once(clients, updates) == [200] * CLIENTS
        (record,) = clients[turn % CLIENTS].tenders() if subject == "tender" else clients[turn % CLIENTS].orders()
        assert {field: record[field] for field in OWN} == {field: f"{field} {turn}" for field in OWN}
        assert record[SHARED] in [fields[SHARED] for fields in sent]
        assert record["packages"] in [fields["packages"] for fields in sent]  # an array is one field and is never mixed
        unchanged = created.keys() - {*OWN, SHARED, "packages"}
        assert {name: record[name] for name in unchanged} == {name: created[name] for name in unchanged}


def test_an_update_beside_a_status_that_changes_the_order_loses_neither(clients):
    clients[0].done("order.create", ORDER)
    for turn in range(8):
        status = ("order.status", {"data": [{**EVENT, "status_code": f"S{turn}"}]})
        assert at_once(clients, [status, update(vehicle_type=f"V{turn}")]) == [200, 200]
        (record,) = clients[0].orders()
        assert (record["order_status"], record["vehicle_type"]) == (f"S{turn}", f"V{turn}")


def test_a_delete_beside_an_update_leaves_nothing_half_there(clients):
    for turn in range(8):
        clients[0].done("order.create", ORDER)
        deleted, updated = at_once(
            clients, [("order.delete", {"order_id": ORDER["order_id"]}), update(vehicle_type="x")]
        )
        assert (deleted, updated in (200, 400)) == (200, True), turn  # before the delete, or after it
        assert clients[0].orders() == clients[1].orders() == []


def test_what_stays_is_what_the_truth_log_says_came_last(clients, tmp_path):
    clients[0].done("order.create", ORDER)
    updates = [update(**{SHARED: f"M{number}"}) for number in range(12)]
    assert at_once(clients[:1] * len(updates), updates) == [200] * len(updates)
    (record,) = clients[0].orders()
    (last,) = (payload for _, payload in updates if payload[SHARED] == record[SHARED])
    lines = [line for line in read_truth(tmp_path / "truth.jsonl") if line["effect"] == "updated"]
    assert len(lines) == len(updates)
    assert lines[-1]["sha256"] == hashlib.sha256(encode(last)).hexdigest()

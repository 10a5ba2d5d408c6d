"""Databases of earlier schemas are upgraded with all that is in them, also when the upgrade is killed at any statement; those of later ones are left alone."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from databases import shape_of
from exchange_calls import first_page, inside
from killed_steps import dies_at
from payload_examples import CONFIRMATION, EVENT, ORDER, QUOTE, TENDER
from sqlalchemy import Pool, create_engine, inspect, text

from loadsheet.errors import SettingsError
from loadsheet.exchange import Store
from loadsheet.exchange.database import METADATA, VERSION, VERSION_TABLE, upgrade

FIRST_SCHEMA = """
CREATE TABLE tenders (number {number} NOT NULL, tender TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (tender));
CREATE TABLE orders (number {number} NOT NULL, order_ref TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (order_ref));
CREATE TABLE quotes (number {number} NOT NULL, tender TEXT NOT NULL, carrier TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number), UNIQUE (tender, carrier));
CREATE TABLE confirmations (number {number} NOT NULL, tender TEXT NOT NULL, carrier TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number));
CREATE INDEX ix_confirmations_tender ON confirmations (tender);
CREATE TABLE status_events (number {number} NOT NULL, order_ref TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (number));
CREATE INDEX ix_status_events_order_ref ON status_events (order_ref);
CREATE TABLE counters (name TEXT NOT NULL, last {number} NOT NULL, PRIMARY KEY (name))
"""
LONG = "SO-" + "9" * 2000  # was a key as it stands; PostgreSQL indexes no such key if its digits were random


def as_text(record):
    return json.dumps(record, default=float)


def first_rows(orders):
    made = [{**ORDER, "order_id": f"SO-{number}"} for number in range(orders)] + [{**ORDER, "order_id": LONG}]
    made[7] |= {"sender_id": 4711, "receiver_id": "Jemand"}
    yield "tenders", [{"number": 3, "tender": "T-1", "content": as_text(TENDER)}]
    yield (
        "orders",
        [{"number": at, "order_ref": row["order_id"], "content": as_text(row)} for at, row in enumerate(made, 5)],
    )
    yield "quotes", [{"number": 1, "tender": "T-1", "carrier": "C-1", "content": as_text(QUOTE)}]
    yield "confirmations", [{"number": 1, "tender": "T-1", "carrier": "C-1", "content": as_text(CONFIRMATION)}]
    yield "status_events", [{"number": 9, "order_ref": LONG, "content": as_text({**EVENT, "order_id": LONG})}]
    last = {"tenders": 3, "orders": 2600, "quotes": 1, "confirmations": 1, "status_events": 9}
    yield "counters", [{"name": name, "last": number} for name, number in last.items()]


@contextmanager
def opened(url):
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def make_first(url, orders):
    """Fill an empty database as the first version would have: a tender with all that belongs to it, and orders, one more than said."""
    with opened(url) as connection:
        number = "INTEGER" if connection.dialect.name == "sqlite" else "BIGINT"
        for statement in FIRST_SCHEMA.format(number=number).split(";"):
            connection.execute(text(statement))
        for table, rows in first_rows(orders):
            names = list(rows[0])
            values = ", ".join(f":{name}" for name in names)
            connection.execute(text(f"insert into {table} ({', '.join(names)}) values ({values})"), rows)


@pytest.fixture
def first(database):
    """A database as the first version made it, with records in it."""
    make_first(database, ORDERS)
    return database


def test_the_first_schema_is_upgraded_with_all_that_is_in_it(first):
    with inside(first) as app:
        listed = app.orders("?page_size=100000")
        assert len(listed) == ORDERS + 1
        assert listed[-1] == {**ORDER, "order_id": LONG}
        assert listed[7]["sender_id"] == 4711
        assert len(app.tenders()) == 1
        assert "exists" in app.errors("order.create", {**ORDER, "order_id": LONG})["order_id"]
        app.done("order.status", {"data": [{**EVENT, "order_id": LONG}]})
        app.done("tender.confirm", CONFIRMATION)
        made = app.done("order.create", {**ORDER, "order_id": "new"})
        assert made["data"]["order_id"]["orders_data"][0]["SERVICE_ORDER"] == 2601  # numbers go on where they were
    with closing(Store(first)) as store:
        contents, total = first_page(store, "order", 10, "4711")
        assert (len(contents), total) == (1, 1)
        assert first_page(store, "order", 10, "ACME")[1] == ORDERS + 1
        assert first_page(store, "order", 10)[1] == ORDERS + 2
    with opened(first) as connection:
        assert connection.scalar(text(f"select version_num from {VERSION_TABLE}")) == VERSION
        events = connection.execute(text("select distinct order_ref from status_events")).all()
        assert len(events) == 1  # the old and the new event of one order stand under one key


def test_several_that_open_a_database_at_once_make_or_upgrade_it_once(first, new_database):
    for url in (first, new_database(first.partition(":")[0], "new")):
        with ThreadPoolExecutor(4) as threads:
            stores = list(threads.map(Store, [url] * 4))
        for store in stores:
            assert first_page(store, "order", 1)[1] == (ORDERS + 1 if url == first else 0)
            store.close()


def test_upgraded_or_new_or_made_by_the_migrations_alone_the_schema_is_the_same(first, new_database):
    kind = first.partition(":")[0]
    new, migrated = (new_database(kind, name) for name in ("new", "migrated"))
    with opened(migrated) as connection:
        upgrade(connection, "")
    shapes = []
    for url in (first, new, migrated):
        Store(url).close()
        with opened(url) as connection:
            options = {"version_table": VERSION_TABLE, "compare_type": True}
            context = MigrationContext.configure(connection, opts=options)
            assert compare_metadata(context, METADATA) == []
            assert context.get_current_revision() == VERSION
            shapes.append(shape_of(connection))
    assert shapes[0] == shapes[1] == shapes[2]


def test_a_database_of_a_newer_loadsheet_is_left_alone(database):
    Store(database).close()
    with opened(database) as connection:
        connection.execute(text(f"update {VERSION_TABLE} set version_num = '0999'"))
    why = r"newer loadsheet \(0999; this one knows .*Use the newer loadsheet, or another database"
    with pytest.raises(SettingsError, match=why):
        Store(database)


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(tmp_path):
    file = tmp_path / "exchange.db"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(FIRST_SCHEMA.format(number="INTEGER"))
        database.execute("insert into orders values (1, 'SO-1', 'no JSON')")
        database.commit()
        before = database.execute("select sql from sqlite_master order by name").fetchall()
        with pytest.raises(ValueError, match="JSON"):
            Store(f"sqlite:///{file}")
        assert database.execute("select sql from sqlite_master order by name").fetchall() == before


ORDERS = 1200  # more than one group of the migration
NEAR_THE_END = 29  # steps of an upgrade; its commit comes later


def killed_at(database, step):
    """Whether a process that opened the database was killed at this step: a statement, the commit, or the connection's way back after it."""

    def opens(begin):
        begin()
        Store(database).close()

    return dies_at(step, opens, more=[(Pool, "checkin")])


def state(database):
    """The version that the database says it has, its tables, and how many orders they hold."""
    with opened(database) as connection:
        tables = set(inspect(connection).get_table_names())
        version = connection.scalar(text(f"select version_num from {VERSION_TABLE}")) if VERSION_TABLE in tables else ""
        orders = connection.scalar(text("select count(*) from orders")) if "orders" in tables else 0
    return version, tables, orders


every_step = pytest.mark.parametrize(
    ("kind", "stride"),
    [
        ("sqlite", 14),
        pytest.param("sqlite", 1, marks=pytest.mark.sweep),
        pytest.param("postgresql", 1, marks=pytest.mark.sweep),
    ],
)


@every_step
def test_a_kill_at_any_step_of_an_upgrade_leaves_the_old_database_or_the_new_one(new_database, kind, stride):
    database = new_database(kind)
    make_first(database, ORDERS)
    before, seen, step = state(database), [], 1
    while killed_at(database, step):  # each start finds what the killed one left
        seen.append(state(database))
        assert seen[-1][2] == ORDERS + 1
        if seen[-1][0] != VERSION:
            assert seen[-1] == before  # nothing half there
        step += stride if step < NEAR_THE_END else 1
    assert step > 40
    assert seen[0] == before
    assert seen.count(before) > 24 // stride  # killed again and again before it could finish
    assert seen[-1][0] == VERSION  # and after it had
    assert_whole(database)


def assert_whole(database):
    with inside(database) as app:
        listed = app.orders("?page_size=100000")
        assert [order["order_id"] for order in listed[:ORDERS]] == [f"SO-{number}" for number in range(ORDERS)]
        assert listed[0] == {**ORDER, "order_id": "SO-0"}
        assert len(app.tenders()) == 1
        app.done("order.create", {**ORDER, "order_id": "new"})
    with closing(Store(database)) as store:
        assert first_page(store, "order", 1, "ACME")[1] == ORDERS + 1  # all but one, and the new one
    assert state(database)[0] == VERSION


@every_step
def test_a_kill_at_any_step_of_making_a_new_database_leaves_none_or_all_of_it(new_database, kind, stride):
    database, step = new_database(kind), 1
    while killed_at(database, step):
        assert state(database)[1] in (set(), {*METADATA.tables, VERSION_TABLE})
        step += stride
    assert step > 20
    with inside(database) as app:
        app.done("order.create", ORDER)

"""Databases of earlier schemas are upgraded with all that is in them; those of later ones are left alone."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from exchange_calls import first_page, inside
from old_databases import FIRST_SCHEMA, LONG, make_first, opened
from payload_examples import CONFIRMATION, EVENT, ORDER
from sqlalchemy import inspect, text

from loadsheet.exchange import Store
from loadsheet.exchange.database import METADATA, VERSION, VERSION_TABLE
from loadsheet.exchange.migrations import upgrade
from loadsheet.problems import SettingsError

ORDERS = 1100  # more than one group of the migration


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


def shape(connection):
    """Tables, columns, indexes and constraints, whatever order they were made in."""
    about = inspect(connection)
    return {
        table: (
            {column["name"]: (str(column["type"]), column["nullable"], bool(column["default"])) for column in about.get_columns(table)},
            {(index["name"], tuple(index["column_names"])) for index in about.get_indexes(table)},
            {tuple(unique["column_names"]) for unique in about.get_unique_constraints(table)},
            about.get_pk_constraint(table)["constrained_columns"],
        )
        for table in about.get_table_names()
    }  # fmt: skip


def test_upgraded_or_new_or_made_by_the_migrations_alone_the_schema_is_the_same(first, new_database):
    kind = first.partition(":")[0]
    new, migrated = (new_database(kind, name) for name in ("new", "migrated"))
    with opened(migrated) as connection:
        upgrade(connection, stamped=True)
    shapes = []
    for url in (first, new, migrated):
        Store(url).close()
        with opened(url) as connection:
            options = {"version_table": VERSION_TABLE, "compare_type": True}
            context = MigrationContext.configure(connection, opts=options)
            assert compare_metadata(context, METADATA) == []
            assert context.get_current_revision() == VERSION
            shapes.append(shape(connection))
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

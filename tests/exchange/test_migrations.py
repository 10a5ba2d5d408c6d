"""Databases of earlier schemas are upgraded with all that is in them, also when the upgrade is killed at any statement; those of later ones are left alone."""

import sqlite3
import subprocess
import sys
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
        upgrade(connection, "")
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


ORDERS = 1200  # more than one group of the migration
NEAR_THE_END = 42  # steps of an upgrade; its commit comes later

# Imports all once, then opens a store in a child of its own for every line, which kills itself before the step of that number:
# a statement, the commit, or the connection's way back after it. Says whether the child was killed.
OPENING = """
import itertools, os, signal, sys
from sqlalchemy import Engine, Pool, event
from loadsheet.exchange import Store
import loadsheet.exchange.migrations, sqlalchemy.dialects.postgresql.psycopg, psycopg

def die_before(step):
    steps = itertools.count()
    def one_more(*_):
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)
    event.listen(Engine, "before_cursor_execute", one_more)
    event.listen(Engine, "commit", one_more)
    event.listen(Pool, "checkin", one_more)

for line in sys.stdin:
    step, database = line.split()
    if not (child := os.fork()):
        die_before(int(step))
        Store(database).close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print({0: "finished", signal.SIGKILL: "killed"}.get(status, status), flush=True)
"""


@pytest.fixture(scope="module")
def killed_at():
    """A function that opens a database and is killed before a step; whether it was."""
    words = [sys.executable, "-c", OPENING]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def killed(database, step):
            print(step, database, file=process.stdin, flush=True)
            said = process.stdout.readline().strip()
            assert said in ("killed", "finished")
            return said == "killed"

        yield killed
        process.stdin.close()


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
def test_a_kill_at_any_step_of_an_upgrade_leaves_the_old_database_or_the_new_one(killed_at, new_database, kind, stride):
    database = new_database(kind)
    make_first(database, ORDERS)
    before, seen, step = state(database), [], 0
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
def test_a_kill_at_any_step_of_making_a_new_database_leaves_none_or_all_of_it(killed_at, new_database, kind, stride):
    database, step = new_database(kind), 0
    while killed_at(database, step):
        assert state(database)[1] in (set(), {*METADATA.tables, VERSION_TABLE})
        step += stride
    assert step > 20
    with inside(database) as app:
        app.done("order.create", ORDER)

"""kill -9 at every statement of an upgrade, and of the making of a new database: the next start finishes it and nothing is lost."""

import subprocess
import sys
from contextlib import closing

import pytest
from exchange_calls import first_page, inside
from old_databases import make_first, opened
from payload_examples import ORDER
from sqlalchemy import inspect, text

from loadsheet.exchange import Store
from loadsheet.exchange.database import METADATA, VERSION, VERSION_TABLE

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

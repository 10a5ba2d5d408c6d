"""Both kinds of database for a test: a SQLite file, or a schema of its own on the one PostgreSQL of this test process.

The server starts when a test first wants it, and ends with the process. What all ledgers share lies in one schema for all tests: that
they share it is the point of it.
"""

import atexit
import itertools
from contextlib import ExitStack
from functools import lru_cache

import psycopg
import pytest
from postgres import running_server
from sqlalchemy import inspect

from loadsheet.ledger import ledger_opening

KINDS = ("sqlite", "postgresql")
ON_BOTH = pytest.mark.parametrize("kind", KINDS)
"""A test that runs on both kinds, where its fixtures take the kind of database from `kind`."""
_numbers = itertools.count(1)


def forget_engines():
    """Close the connections to servers that nobody uses."""
    for engine in ledger_opening._engines.values():
        engine.dispose()
    ledger_opening._engines.clear()


@lru_cache(maxsize=1)
def server():
    """The server; a skip where none can be had."""
    return _started()


@lru_cache(maxsize=1)
def stoppable_server():
    """Another one, which a test may stop, crash and set up if it leaves it running and as it was."""
    return _started()


def _started():
    stack = ExitStack()
    found = stack.enter_context(running_server())
    atexit.register(stack.close)
    atexit.register(forget_engines)
    return found


@lru_cache(maxsize=1)
def database():
    """The URL of the one database."""
    return server().new_database()


def new_url(kind, folder, shipper="acme"):
    """The URL of a ledger that is not there yet; a folder has one SQLite file."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'ledger.db'}"
    return f"{database()}&schema={new_name()}&shared=fleet&shipper={shipper}"


def new_name():
    """The name of a schema that is not there yet."""
    return f"t{next(_numbers)}"


def ask(statement, *values, url=None):
    """What the server says, asked beside the ledger, as an administrator would; no rows for what has none."""
    with psycopg.connect((url or database()).partition("&")[0], autocommit=True) as connection:
        done = connection.execute(statement, values)
        return done.fetchall() if done.description else []


def shape_of(connection):
    """Tables, columns, indexes and constraints, whatever order they were made in."""
    about = inspect(connection)
    return {
        table: (
            {column["name"]: (str(column["type"]), column["nullable"], bool(column["default"])) for column in about.get_columns(table)},
            {(index["name"], tuple(index["column_names"])) for index in about.get_indexes(table)},
            {tuple(unique["column_names"]) for unique in about.get_unique_constraints(table)},
            {(tuple(key["constrained_columns"]), key["referred_table"]) for key in about.get_foreign_keys(table)},
            {" ".join(check["sqltext"].split()) for check in about.get_check_constraints(table)},
            about.get_pk_constraint(table)["constrained_columns"],
        )
        for table in about.get_table_names()
    }  # fmt: skip

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

from loadsheet.ledger.ledger_opening import forget_engines

KINDS = ("sqlite", "postgresql")
ON_BOTH = pytest.mark.parametrize("kind", KINDS)
"""A test that runs on both kinds, where its fixtures take the kind of database from `kind`."""
_numbers = itertools.count(1)


@lru_cache(maxsize=1)
def server():
    """The server; a skip where none can be had."""
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

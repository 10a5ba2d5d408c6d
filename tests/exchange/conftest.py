"""Exchanges and their databases. What comes before storage is tried on SQLite alone; what is stored, on each kind of database."""

import contextlib

import databases
import psycopg
import pytest
from exchange_calls import FORGIVING, inside


@pytest.fixture(scope="session")
def postgres():
    """The PostgreSQL for all tests of a process, each with a database of its own."""
    return databases.server()


@pytest.fixture(scope="session")
def emptied():
    """Databases on it that earlier tests have left and that are empty again: to make one costs 300 files."""
    return []


@pytest.fixture
def new_database(request, tmp_path, emptied):
    """Makes empty databases of one kind; asked for by `kind`."""
    taken = []

    def make(kind, name="exchange"):
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / name}.db"
        server = request.getfixturevalue("postgres")
        taken.append(emptied.pop() if emptied else server.new_database())
        return taken[-1]

    yield make
    for url in taken:
        with contextlib.suppress(psycopg.Error), psycopg.connect(url, options="-c lock_timeout=2s") as connection:
            connection.execute("drop schema public cascade")
            connection.execute("create schema public")
            connection.commit()
            emptied.append(url)


@pytest.fixture(params=databases.KINDS)
def database(request, new_database):
    """The URL of an empty database, of each kind in turn."""
    return new_database(request.param)


@pytest.fixture
def app(tmp_path):
    """The application on a SQLite file of this test."""
    with inside(tmp_path / "exchange.db") as caller:
        yield caller


@pytest.fixture
def stored(database):
    """The application on an empty database of each kind in turn."""
    with inside(database) as caller:
        yield caller


@pytest.fixture(scope="module")
def accepting(tmp_path_factory):
    """An exchange that takes every record that meets the contract, in whatever order records come."""
    database = tmp_path_factory.mktemp("accepting") / "exchange.db"
    with inside(database, **FORGIVING, number_forms="declared") as caller:
        yield caller

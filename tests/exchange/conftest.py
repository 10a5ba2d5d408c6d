import pytest
from calling import embedded, inside
from postgres import running_server

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres():
    """One PostgreSQL for all tests of a process, each with a database of its own."""
    with running_server() as server:
        yield server


@pytest.fixture
def new_database(request, tmp_path):
    """Makes empty databases of one kind; asked for by `kind`."""

    def make(kind, name="exchange"):
        if kind == "sqlite":
            return f"sqlite:///{tmp_path / name}.db"
        return request.getfixturevalue("postgres").new_database()

    return make


@pytest.fixture(params=DATABASES)
def database(request, new_database):
    """The URL of an empty database, of each kind in turn."""
    return new_database(request.param)


@pytest.fixture
def exchange(database):
    with embedded(database) as caller:
        yield caller


@pytest.fixture
def app(database):
    with inside(database) as caller:
        yield caller


@pytest.fixture(scope="module", params=DATABASES)
def accepting(request, tmp_path_factory):
    """An exchange that takes every record that meets the contract, in whatever order records come."""
    forgiving = {"create_existing": "replace", "update_unknown": "replace", "delete_unknown": "accept"}
    forgiving |= {"quote_unknown": "accept", "confirm_unknown": "accept", "status_unknown": "accept"}
    if request.param == "sqlite":
        database = f"sqlite:///{tmp_path_factory.mktemp('accepting') / 'exchange.db'}"
    else:
        database = request.getfixturevalue("postgres").new_database()
    with embedded(database, **forgiving) as caller:
        yield caller

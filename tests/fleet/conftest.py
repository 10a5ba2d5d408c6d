import databases
import pytest
from laboring import asking, house


@pytest.fixture
def database_url():
    """A database of its own: what its fleets share is nobody else's."""
    return databases.server().new_database()


@pytest.fixture
def acme(tmp_path, database_url):
    """The settings of the one shipper of a fleet whose settings file is in `tmp_path`."""
    return house(tmp_path, database_url, "acme")["acme"]


@pytest.fixture
def ask(database_url):
    """Ask the tables that the fleet shares, beside it."""
    return asking(database_url)

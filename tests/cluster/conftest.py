import databases
import pytest
from worker_processes import asking, house

from loadsheet.cluster import job_queue
from loadsheet.ledger.postgres import address_of, shared_engine


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    """Workers in this process look into the queue every half second."""
    monkeypatch.setattr(job_queue, "QUEUE_POLL_S", 0.5)


@pytest.fixture(scope="session")
def made_before(tmp_path_factory):
    """A database with the tables of a fleet of two shippers, which those of the tests are copies of."""
    url = databases.server().new_database()
    house(tmp_path_factory.mktemp("template"), url, "acme", "zeta")
    databases.forget_engines()
    return url


@pytest.fixture
def database_url(made_before):
    """A database of its own: what its fleets share is nobody else's."""
    return databases.server().new_database(like=made_before)


@pytest.fixture
def acme(tmp_path, database_url):
    """The settings of the one shipper of a fleet whose settings file is in `tmp_path`."""
    return house(tmp_path, database_url, "acme")["acme"]


@pytest.fixture
def engine(acme):
    """An engine for the tables that the fleet shares."""
    found = shared_engine(address_of(acme.database_url))
    yield found
    found.dispose()


@pytest.fixture
def ask(database_url):
    """Ask the tables that the fleet shares, beside it."""
    return asking(database_url)

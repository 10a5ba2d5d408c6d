import databases
import pytest
from ledgers import ledger_at


@pytest.fixture
def kind():
    """The kind of database: a file, unless a test is marked `databases.ON_BOTH`."""
    return "sqlite"


@pytest.fixture
def ledger_url(kind, tmp_path):
    """Where a ledger may be made that is not there yet."""
    return databases.new_url(kind, tmp_path)


@pytest.fixture
def ledger(ledger_url):
    with ledger_at(ledger_url) as opened:
        yield opened


@pytest.fixture
def run(ledger):
    """A run that has begun in it."""
    return ledger.begin_run()

import pytest
from certificates import Authority, serving
from ledgers import ledger_in


@pytest.fixture
def ledger(tmp_path):
    with ledger_in(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """An authority with a certificate for a server and one for a client."""
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.issue("server", hosts="DNS:exchange.test,DNS:localhost")
    made.issue("client")
    return made


@pytest.fixture(scope="session")
def certificate(authority):
    """An authority's file, and the context of a server at localhost that shows a certificate of that authority."""
    return authority.file, serving(authority.issued["server"])

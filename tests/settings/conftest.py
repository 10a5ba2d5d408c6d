import pytest
from ledgers import ledger_in


@pytest.fixture
def ledger(tmp_path):
    with ledger_in(tmp_path) as opened:
        yield opened

"""What several tests of reports share."""

import pytest
from ledgers import Ticking, ledger_in
from reported_runs import ReportedRuns


@pytest.fixture
def runs(tmp_path):
    """Runs in one ledger, each reported in a folder."""
    clock = Ticking()
    with ledger_in(tmp_path, clock) as ledger:
        yield ReportedRuns(tmp_path, ledger, clock)

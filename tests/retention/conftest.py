import pytest
from retention_runs import house_in


@pytest.fixture
def kind():
    """The kind of database: a file, unless a test is marked `databases.ON_BOTH`."""
    return "sqlite"


@pytest.fixture
def house(tmp_path, kind):
    """A house whose nights end without reports."""
    with house_in(tmp_path, kind=kind, reports=False) as opened:
        yield opened


@pytest.fixture
def reporting(tmp_path, kind):
    """A house whose nights end with reports."""
    with house_in(tmp_path, kind=kind) as opened:
        yield opened

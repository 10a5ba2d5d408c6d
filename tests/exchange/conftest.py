import pytest
from calling import embedded, inside


@pytest.fixture
def exchange(tmp_path):
    with embedded(tmp_path / "exchange.db") as caller:
        yield caller


@pytest.fixture
def app(tmp_path):
    with inside(tmp_path / "exchange.db") as caller:
        yield caller


@pytest.fixture(scope="module")
def accepting(tmp_path_factory):
    """An exchange that takes every record that meets the contract, in whatever order records come."""
    forgiving = {"create_existing": "replace", "update_unknown": "replace", "delete_unknown": "accept"}
    forgiving |= {"quote_unknown": "accept", "confirm_unknown": "accept", "status_unknown": "accept"}
    with embedded(tmp_path_factory.mktemp("accepting") / "exchange.db", **forgiving) as caller:
        yield caller

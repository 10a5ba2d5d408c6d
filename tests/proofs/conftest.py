import pytest
from effects import Workshop, preload


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The compiled library that watches the effects of a process."""
    return preload(tmp_path_factory.mktemp("effects"))


@pytest.fixture(scope="session")
def shop(library):
    """A process that forks a worker for each command."""
    with Workshop(library, "forked_command") as found:
        yield found

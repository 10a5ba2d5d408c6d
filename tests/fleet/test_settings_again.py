"""What a worker keeps from batch to batch goes by the settings as they were read last."""

import pytest
from pydantic import SecretStr
from shared_ledger import joined, shared_settings

from loadsheet.fleet.clients import Clients
from loadsheet.fleet.pacing import Paces
from loadsheet.ledger.shared.opening import shared
from loadsheet.ledger.shared.paces import told


def settings_of(shipper, base, *, calls_per_second, connections, token="token-of-all"):
    """Settings of a shipper with these figures, beside others."""
    assumptions = base.assumptions.model_copy(update={"calls_per_second": calls_per_second})
    given = {"shipper": shipper, "exchange": "https://x.example", "token": SecretStr(token), "connections": connections}
    return base.model_copy(update={**given, "assumptions": assumptions})


@pytest.fixture
def base():
    return shared_settings()


@pytest.fixture
def said():
    return []


@pytest.fixture
def paces(base, said):
    with shared(base.database_url, makes=True) as engine:
        made = Paces(engine, "w", said.append)
        yield made
        made.close()


def figures(base):
    """Rate and connections of each pace."""
    with joined(base) as connection:
        return [(one.per_second, one.connections) for one in told(connection)]


def test_a_pace_follows_its_settings(base, paces, said):
    before = settings_of("acme", base, calls_per_second=50, connections=8)
    after = settings_of("acme", base, calls_per_second=5, connections=2)
    assert paces.of(before) is paces.of(after)
    assert figures(base) == [(5, 2)]
    assert said == []


def test_shippers_that_want_different_figures_of_one_pace_are_named_once(base, paces, said):
    acme = settings_of("acme", base, calls_per_second=50, connections=8)
    bolt = settings_of("bolt", base, calls_per_second=20, connections=8)
    for one in (acme, bolt, acme, bolt):
        paces.of(one)
    assert figures(base) == [(20, 8)]
    (text,) = said
    assert text == (
        "bolt and acme send to one exchange with one token, so they have one pace, but not the same settings:"
        " calls_per_second and connections of bolt hold for both, as it came last"
    )


def test_a_client_is_used_again_until_settings_are_read_again(base):
    before = settings_of("acme", base, calls_per_second=50, connections=8)
    after = settings_of("acme", base, calls_per_second=50, connections=8, token="another-token")
    clients = Clients()
    found = []
    for one in (before, before, after, after):
        with clients.borrowed(one) as client:
            found.append(client)
    clients.close()
    assert found[0] is found[1]
    assert found[2] is found[3]
    assert found[0] is not found[2]

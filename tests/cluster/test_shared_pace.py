"""The pace of a run goes by the settings that it was begun with."""

import pytest
from pydantic import SecretStr
from shared_ledger import joined, shared_settings

from loadsheet.cluster.rate import shared_pace
from loadsheet.ledger.shared import open_shared
from loadsheet.ledger.shared.leases import read_paces


@pytest.fixture(scope="module")
def base():
    settings = shared_settings()
    with open_shared(settings.database_url, makes=True):
        return settings


@pytest.mark.parametrize(
    ("rate", "says"), [(50, []), (20, ["50 calls a second over 8 connections, and is 20 calls a second"])]
)
def test_the_pace_has_the_figures_of_who_began_last_and_a_change_is_said(base, rate, says):
    said = []
    for shipper, per_second in (("acme", 50), ("bolt", rate)):
        assumptions = base.assumptions.model_copy(update={"calls_per_second": per_second})
        given = {
            "shipper": shipper,
            "exchange": f"https://{rate}.example",
            "token": SecretStr("token-of-all"),
            "connections": 8,
        }
        with shared_pace(base.model_copy(update={**given, "assumptions": assumptions}), said.append):
            pass
    with joined(base) as connection:
        figures = {one.exchange: (one.per_second, one.connections) for one in read_paces(connection)}
    assert figures[f"https://{rate}.example"] == (rate, 8)
    assert len(said) == len(says)
    assert all(expected in text for expected, text in zip(says, said, strict=True))

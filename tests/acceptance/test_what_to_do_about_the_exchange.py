"""What a run says about an exchange that does not do what it should: where the fault may lie, and what to do."""

import shutil

import pytest
from misbehaving import misbehaving
from orders import MAPPINGS, write_orders
from warm import loadsheet


@pytest.fixture
def house(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    write_orders(tmp_path / "inbox", 2, first=1)
    return tmp_path


def run(house, exchange, **more):
    return loadsheet(house, "run", "--settle", "0", "--exchange", exchange, **more)


def test_a_refused_token_and_a_wrong_path_are_told_with_what_to_do(house):
    with misbehaving(house) as served:
        url = served.exchange.url
        refused = run(house, url, LOADSHEET_TOKEN="another-token-than-theirs")
        astray = run(house, f"{url}/tmsapi/")
        doctor = loadsheet(house, "doctor", "--exchange", f"{url}/tmsapi/")
    assert refused.returncode == 77
    assert "replace the token (from LOADSHEET_TOKEN or the settings file), and run again" in refused.stderr
    assert astray.returncode == 75
    assert f"check `exchange` ({url}/tmsapi/), to which calls add /tmsapi/" in astray.stderr
    assert "check `exchange`, to which calls add /tmsapi/" in doctor.stdout

"""What a run says while it waits for an exchange, and of one that speaks no TLS."""

import re
import shutil

import pytest
from misbehaving import misbehaving
from orders import MAPPINGS, write_orders
from warm import loadsheet

from loadsheet.exchange import FaultClass


@pytest.fixture
def house(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    write_orders(tmp_path / "inbox", 2, first=1)
    return tmp_path


def run(house, exchange, **more):
    return loadsheet(house, "run", "--settle", "0", "--exchange", exchange, **more)


def test_an_exchange_in_the_clear_that_is_called_by_https_is_asked_about(house):
    with misbehaving(house) as served:
        done = run(house, served.exchange.url.replace("http:", "https:"))
    assert done.returncode == 75
    assert "(is it http://?)" in done.stderr


def test_a_long_pause_that_the_exchange_asks_for_is_told_once(house):
    busy = {"fault": FaultClass("status_before_effect"), "status": 429, "retry_after": "3600"}
    with misbehaving(house, {**busy, "operation": "order.create"}) as served:
        done = run(house, served.exchange.url, LOADSHEET_UNREACHABLE_MAX="1")
    assert done.returncode == 75
    assert len(re.findall(r"^the exchange asks for a pause until \d\d:\d\d$", done.stderr, re.MULTILINE)) == 1

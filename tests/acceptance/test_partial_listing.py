"""An exchange that does not list all records: the run says how many orders cannot be verified, why, and what to do."""

import json
import shutil

import pytest
from command_in_process import loadsheet
from exchange_process import TOKEN, exchange
from faulty_exchange import misbehaving
from orders import MAPPINGS, write_orders


@pytest.fixture
def capped(tmp_path):
    """An exchange that lists two records at most."""
    with exchange(tmp_path / "exchange.db", page_size_max="2") as serving:
        yield serving


def run(folder, url, **more):
    shutil.copytree(MAPPINGS, folder / "mappings", dirs_exist_ok=True)
    done = loadsheet(folder, "run", "--settle", "0", "--exchange", url, LOADSHEET_TOKEN=TOKEN, **more)
    (report,) = (folder / "outbox").glob("*/run.json")
    return done, json.loads(report.read_text(encoding="utf-8"))


def test_orders_that_cannot_be_verified_are_counted_with_the_reason_and_end_the_run_with_1(capped, tmp_path):
    write_orders(tmp_path / "inbox", 6, first=1)
    done, told = run(tmp_path, capped.url)
    assert (done.returncode, told["exit_code"]) == (1, 1), done.stderr
    (leg,) = told["legs"]
    assert (leg["listed"], leg["total"], leg["complete"]) == (2, 6, False)
    assert leg["reason"] == "the exchange lists at most 2 records"
    assert leg["todo"] == "ask the operator of the exchange to raise its maximum page_size"
    assert leg["reason"] in leg["says"]
    (remark,) = told["remarks"]
    assert "4 of 6 orders cannot be verified: the listing shows 2 of 6 records" in remark
    assert leg["reason"] in remark
    assert leg["todo"] in remark
    assert "4 of 6 orders cannot be verified" in done.stderr
    assert "2 of 6 orders agree; 4 cannot be verified" in done.stdout


def test_what_cannot_be_verified_needs_nobody_up_to_the_share_that_is_set(capped, tmp_path):
    write_orders(tmp_path / "inbox", 6, first=100)
    done, told = run(tmp_path, capped.url, LOADSHEET_RECONCILE__UNVERIFIED_SHARE_MAX="1")
    assert (done.returncode, told["exit_code"]) == (0, 0)
    assert "cannot be verified" in done.stderr


def test_a_limit_of_our_own_setting_is_named(tmp_path):
    write_orders(tmp_path / "inbox", 6, first=1)
    with misbehaving(tmp_path) as served:
        done, told = run(tmp_path, served.exchange.url, LOADSHEET_ASSUMPTIONS__PAGE_SIZE_MAX="3")
    assert done.returncode == 1
    assert told["legs"][0]["reason"] == "assumptions.page_size_max is 3"
    assert "raise assumptions.page_size_max" in done.stderr

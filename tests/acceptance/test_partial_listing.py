"""An exchange that does not list all records: the run says how many orders cannot be verified, why, and what to do."""

from exchange_process import exchange
from faulty_exchange import misbehaving


def test_orders_that_cannot_be_verified_are_counted_with_the_reason_and_need_someone_beyond_the_share_that_is_set(
    workspace, tmp_path
):
    with exchange(tmp_path / "exchange.db", page_size_max="2") as capped:
        workspace.write_orders(6, first=1)
        done = workspace.run("--exchange", capped.url)
        told = workspace.run_json()
        workspace.write_orders(6, first=100)
        more = workspace.run("--exchange", capped.url, LOADSHEET_RECONCILE__UNVERIFIED_SHARE_MAX="1")
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
    assert "2 of 6 orders agree; 4 documents cannot be verified" in done.stdout
    assert (more.returncode, workspace.run_json()["exit_code"], "cannot be verified" in more.stderr) == (0, 0, True)


def test_a_limit_of_our_own_setting_is_named(workspace, tmp_path):
    workspace.write_orders(6, first=1)
    with misbehaving(tmp_path) as served:
        done = workspace.run("--exchange", served.exchange.url, LOADSHEET_ASSUMPTIONS__PAGE_SIZE_MAX="3")
    assert done.returncode == 1
    assert workspace.run_json()["legs"][0]["reason"] == "assumptions.page_size_max is 3"
    assert "raise assumptions.page_size_max" in done.stderr

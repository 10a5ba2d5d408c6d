"""What is missing, at the exchange or in a new version of a file, is said with its keys, the reason and what to do."""

import json
from contextlib import closing

import openpyxl
import pytest
from exchange_calls import OverSocket
from exchange_process import exchange
from faulty_exchange import misbehaving
from monitored_runs import house
from msgspec import Raw
from orders import order_id, write_orders
from outcome_check import check_outcome
from scripted_exchange import Move, Scripted, accepts, lists

from loadsheet.cli import invoke


def test_orders_that_cannot_be_verified_are_counted_with_the_reason_and_need_someone_beyond_the_share_that_is_set(
    workspace, tmp_path
):
    with exchange(tmp_path / "exchange.db", page_size_max="2") as capped:
        workspace.write_orders(6, first=1)
        done = workspace.run("--exchange", capped.url)
        said = workspace.run_json()
        workspace.write_orders(6, first=100)
        more = workspace.run("--exchange", capped.url, LOADSHEET_RECONCILE__UNVERIFIED_SHARE_MAX="1")
    assert (done.returncode, said["exit_code"]) == (1, 1), done.stderr
    (leg,) = said["legs"]
    assert (leg["listed"], leg["total"], leg["complete"]) == (2, 6, False)
    assert leg["reason"] == "the exchange lists at most 2 records"
    assert leg["todo"] == "ask the operator of the exchange to raise its maximum page_size"
    (remark,) = said["remarks"]
    for text in ("4 of 6 orders cannot be verified: the listing shows 2 of 6 records", leg["reason"], leg["todo"]):
        assert text in remark
    assert leg["reason"] in leg["says"]
    assert "4 of 6 orders cannot be verified" in done.stderr
    assert "All 6 documents were accepted · 4 documents cannot be verified" in done.stdout
    assert (more.returncode, workspace.run_json()["exit_code"], "cannot be verified" in more.stderr) == (0, 0, True)


def test_a_limit_of_our_own_setting_is_named(workspace, tmp_path):
    workspace.write_orders(6, first=1)
    with misbehaving(tmp_path) as served:
        done = workspace.run("--exchange", served.url, LOADSHEET_ASSUMPTIONS__PAGE_SIZE_MAX="3")
    assert done.returncode == 1
    assert workspace.run_json()["legs"][0]["reason"] == "assumptions.page_size_max is 3"
    assert "raise assumptions.page_size_max" in done.stderr


def test_run_and_show_tell_what_is_missing_and_what_to_do(workspace, tmp_path):
    with misbehaving(tmp_path) as served:
        workspace.write_orders(3, first=1)
        assert workspace.run("--exchange", served.url).returncode == 0
        with closing(OverSocket(served.url)) as caller:
            caller.done("order.delete", {"order_id": order_id(2)})
        workspace.write_orders(3, first=1)
        done = workspace.run("--exchange", served.url)
    assert done.returncode == 1
    assert "  1 missing at the exchange\n" in done.stdout
    assert f"→ Look into: loadsheet show {order_id(2)}\n" in done.stdout
    shown = workspace.command("show", order_id(2))
    assert "listed   missing at exchange since run " in shown.stdout
    assert "ask the exchange who removed it" in shown.stdout
    entries = json.loads(workspace.command("show", order_id(2), "--json").stdout)
    assert [one["exception"] and one["exception"]["verdict"] for one in entries] == [None, "missing at exchange"]
    published = {
        "entry",
        "run",
        "opened_at",
        "verdict",
        "found",
        "closed",
        "closed_run",
        "versions",
        "settled",
        "current",
    }
    assert {*entries[1]["exception"]} == published


def version(home, count, *, first=1):
    """A run with a version of the files that has these orders, and what it says is missing."""
    home.clock.go_on(days=1)
    write_orders(home.settings.inbox, count, first=first)
    result = home.night()
    outcome = check_outcome(result.reports.folder)
    (drop,) = (drop for drop in outcome["drops"] if drop["run"] == outcome["run"])
    return result, drop["missing_records"]


def said(result):
    return [line.strip() for line in result.reports.lines() if "missing from the new file" in line]


def missing_in_workbook(result):
    sheet = openpyxl.load_workbook(result.reports.folder / "reconciliation.xlsx")["Missing records"]
    return [tuple(cell.value for cell in line) for line in sheet.iter_rows(min_row=2)]


def test_records_missing_from_the_new_version_are_listed_in_every_report_and_nothing_else_comes_of_it(tmp_path):
    with house(tmp_path) as home:
        first, none = version(home, 6)
        calls = len(home.server.requests)
        second, missing = version(home, 3)
        run = first.reports.summary.run
        assert none == {"run": "", "count": 0, "keys": []}
        assert missing == {"run": run, "count": 3, "keys": [order_id(4), order_id(5), order_id(6)]}
        assert (second.exit_code, [call for call in home.server.requests[calls:] if call.method == "POST"]) == (0, [])
        assert said(first) == []
        names, keys = "orders.csv + packages.csv", f"{order_id(4)}, {order_id(5)}, {order_id(6)}"
        sentence = f"3 records of the previous {names} (run {run}) are missing from the new file: {keys}"
        assert said(second) == [sentence]
        assert sentence in (second.reports.folder / "run.html").read_text(encoding="utf-8")
        assert missing_in_workbook(second) == [(names, order_id(number), run) for number in (4, 5, 6)]
        assert version(home, 3)[1]["count"] == 0, "only the latest version is compared"
        assert_made_again_as_it_was(home, second)


def assert_made_again_as_it_was(home, result):
    """A report that is made again says what was missing then."""
    path = result.reports.folder / "run.json"
    before = json.loads(path.read_bytes())
    path.unlink()
    places = ["--state", str(home.settings.state), "--outbox", str(home.settings.outbox)]
    words = ["report", "--run", result.reports.summary.run, *places, "--exchange", home.settings.exchange]
    assert invoke(words) == min(before["exit_code"], 1)
    assert json.loads(path.read_bytes())["drops"] == before["drops"]


def test_a_file_that_shares_less_than_half_with_the_last_is_another_file(tmp_path):
    with house(tmp_path) as home:
        version(home, 4)
        assert version(home, 4, first=3)[1]["keys"] == [order_id(1), order_id(2)]
        assert version(home, 5, first=5)[1]["count"] == 0


def test_many_missing_records_are_counted_and_the_first_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("loadsheet.ledger.run_queries.KEYS_MAX", 2)
    with house(tmp_path) as home:
        version(home, 9)
        result, missing = version(home, 2)
        assert (missing["count"], missing["keys"]) == (7, [order_id(3), order_id(4)])
        assert said(result)[0].endswith(f": {order_id(3)}, {order_id(4)} and 5 more")
        assert missing_in_workbook(result)[2][1] == "and 5 more"
        assert "1 record of the previous" in said(version(home, 1)[0])[0]


@pytest.mark.parametrize("number", [b"1E+999999999999", b"-1E+400000", b"1E-999999999999"])
def test_a_number_of_the_exchange_that_no_memory_holds_is_a_difference_like_any_other(workspace, number):
    sent = []

    def kept(connection, request):
        sent.extend(request.payloads)
        return accepts.act(connection, request)

    def answers(_, request):
        if request.method == "POST":
            return Move(kept)
        wild = {"goods_value": Raw(number), "timeoffset": Raw(number), "pickup_pincode": Raw(number)}
        return lists([order | wild | {"packages": [{"weight": Raw(number)}] * 2} for order in sent])

    workspace.write_orders(2, first=1)
    with Scripted(answers) as served:
        done = workspace.run("--exchange", served.url)
    assert done.returncode == 1, done.stderr
    assert "2 of 2 documents need attention" in done.stdout
    shown = workspace.command("show", order_id(1)).stdout
    assert number.decode() in shown

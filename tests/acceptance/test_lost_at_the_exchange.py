"""An order that was accepted and that somebody else removed at the exchange: said with its key and what to do, wherever one looks."""

import json

import requests
from command import TOKEN
from faulty_exchange import misbehaving
from orders import order_id


def removed(served, key):
    answer = requests.post(
        f"{served.exchange.url}/tmsapi/deleteOrder",
        json={"order_id": key},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text


def test_run_and_show_tell_what_is_missing_and_what_to_do(workspace, tmp_path):
    with misbehaving(tmp_path) as served:
        workspace.write_orders(3, first=1)
        assert workspace.run("--exchange", served.exchange.url).returncode == 0
        removed(served, order_id(2))
        workspace.write_orders(3, first=1)
        done = workspace.run("--exchange", served.exchange.url)
    assert done.returncode == 1
    assert f"1 x missing at exchange, first {order_id(2)}: ask the exchange who removed it" in done.stdout
    shown = workspace.command("show", order_id(2))
    assert "listed   missing at exchange since run " in shown.stdout
    assert "ask the exchange who removed it" in shown.stdout
    told = json.loads(workspace.command("show", order_id(2), "--json").stdout)
    assert [one["exception"] and one["exception"]["verdict"] for one in told] == [None, "missing at exchange"]

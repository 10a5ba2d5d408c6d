"""An order that was accepted and that somebody else removed at the exchange: said with its key and what to do, wherever one looks."""

import json
import shutil

import requests
from command import TOKEN
from command_in_process import loadsheet
from faulty_exchange import misbehaving
from orders import MAPPINGS, order_id, write_orders


def removed(served, key):
    answer = requests.post(
        f"{served.exchange.url}/tmsapi/deleteOrder",
        json={"order_id": key},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text


def test_run_and_show_tell_what_is_missing_and_what_to_do(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    with misbehaving(tmp_path) as served:
        words = ("run", "--settle", "0", "--exchange", served.exchange.url)
        write_orders(tmp_path / "inbox", 3, first=1)
        assert loadsheet(tmp_path, *words).returncode == 0
        removed(served, order_id(2))
        write_orders(tmp_path / "inbox", 3, first=1)
        done = loadsheet(tmp_path, *words)
    assert done.returncode == 1
    assert f"1 x missing at exchange, first {order_id(2)}: ask the exchange who removed it" in done.stdout
    shown = loadsheet(tmp_path, "show", order_id(2))
    assert "listed   missing at exchange since run " in shown.stdout
    assert "ask the exchange who removed it" in shown.stdout
    told = json.loads(loadsheet(tmp_path, "show", order_id(2), "--json").stdout)
    assert [one["exception"] and one["exception"]["verdict"] for one in told] == [None, "missing at exchange"]

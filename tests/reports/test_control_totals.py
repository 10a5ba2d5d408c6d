"""A control total that differs is in the first sentence and in the exit code, even if every record agrees."""

import shutil

from command_in_process import loadsheet
from faulty_exchange import misbehaving
from orders import MAPPINGS, order_id, write_orders

CHANGES = """
mapping: changes
version: 1
target: order.update
source: {files: ["changes.csv"], delimiter: [","], locale: en_US}
columns:
  order: {label: Order, type: text, required: true, key: true}
  weight: {label: Weight, type: decimal, required: true}
payload:
  order_id: {col: order}
  sender_id: {value: BENCH}
  receiver_id: {value: CARRIER1}
  total_weight: {col: weight}
"""


def test_weights_listed_in_another_unit_need_someone_although_each_field_sent_agrees(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "mappings" / "changes.yaml").write_text(CHANGES, encoding="utf-8")
    write_orders(tmp_path / "inbox", 3, first=1)
    with misbehaving(tmp_path) as served:
        words = ("run", "--settle", "0", "--exchange", served.exchange.url)
        assert loadsheet(tmp_path, *words).returncode == 0
        tons = {"order_id": order_id(2), "sender_id": "BENCH", "receiver_id": "CARRIER1", "gross_weight_uom": "Ton"}
        assert served.meets("order.update", tons).status == 200
        (tmp_path / "inbox" / "changes.csv").write_text(f"Order,Weight\n{order_id(2)},500\n", encoding="utf-8")
        done = loadsheet(tmp_path, *words)
    assert done.returncode == 1, done.stdout
    assert "The only order agrees; 2 control totals differ" in done.stdout

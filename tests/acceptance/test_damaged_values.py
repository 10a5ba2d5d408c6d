"""What a spreadsheet program did to values reaches the people who must know: on the terminal, in run.json and in the workbook."""

import json
import shutil

import openpyxl
from command_in_process import loadsheet
from orders import MAPPINGS, order_id, write_orders


def test_damaged_values_are_pointed_out_and_sent_all_the_same(tmp_path):
    write_orders(tmp_path / "inbox", 12)
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    orders = tmp_path / "inbox" / "orders.csv"
    text = orders.read_text(encoding="utf-8")
    orders.write_text(text.replace("Empfänger 7", "EmpfÃ¤nger 7"), encoding="utf-8")
    done = loadsheet(tmp_path, "run", "--settle", "0")
    assert done.returncode == 0, done.stderr  # a suspicion needs nobody
    assert "12 orders" in done.stdout or "accepted" in done.stdout
    (folder,) = [path for path in (tmp_path / "outbox").iterdir() if path.is_dir()]
    told = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    suspicions = [problem for problem in told["problems"] if problem["code"].startswith("R22")]
    assert [problem["level"] for problem in suspicions] == ["warning"]
    (drop,) = told["drops"]
    found = {file["name"]: table["found"] for file in drop["files"] for table in file["tables"]}
    assert found["orders.csv"]["encoding"]
    sheet = openpyxl.load_workbook(folder / "reconciliation.xlsx")["Problems"]
    said = [row for row in sheet.iter_rows(values_only=True) if row[8] == suspicions[0]["code"]]
    assert said
    assert said[0][1] == "orders.csv"
    assert order_id(7) not in done.stderr


def test_check_points_them_out_before_anything_is_sent(tmp_path):
    write_orders(tmp_path / "inbox", 12)
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    orders = tmp_path / "inbox" / "orders.csv"
    orders.write_text(orders.read_text(encoding="utf-8").replace("Köln", "KÃ¶ln"), encoding="utf-8")
    done = loadsheet(tmp_path, "check", orders, tmp_path / "inbox" / "packages.csv")
    assert done.returncode == 0, done.stderr
    assert "R22" in done.stderr
    assert "1 warning" in done.stderr

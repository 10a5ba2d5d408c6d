"""What a spreadsheet program did to values reaches the people who must know: on the terminal, in run.json and in the workbook."""

import openpyxl
from orders import order_id


def test_damaged_values_are_pointed_out_before_anything_is_sent_and_sent_all_the_same(workspace):
    workspace.write_orders(12)
    workspace.edit("inbox/orders.csv", "Empfänger 7", "EmpfÃ¤nger 7")
    checked = workspace.command("check", "inbox/orders.csv", "inbox/packages.csv")
    assert checked.returncode == 0, checked.stderr
    assert "R22" in checked.stdout
    assert "1 warning" in checked.stdout
    done = workspace.run()
    assert done.returncode == 0, done.stderr  # a suspicion needs nobody
    assert order_id(7) not in done.stderr
    told = workspace.run_json()
    assert told["entries"] == {"accepted": 12}
    (suspicion,) = [problem for problem in told["problems"] if problem["code"].startswith("R22")]
    assert suspicion["level"] == "warning"
    (drop,) = told["drops"]
    found = {file["name"]: table["found"] for file in drop["files"] for table in file["tables"]}
    assert found["orders.csv"]["encoding"]
    sheet = openpyxl.load_workbook(workspace.reports()[0] / "reconciliation.xlsx")["Problems"]
    said = [row for row in sheet.iter_rows(values_only=True) if row[8] == suspicion["code"]]
    assert said
    assert said[0][1] == "orders.csv"

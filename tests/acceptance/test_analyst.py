"""What an analyst sees from night to night: the work list rolls forward, their words come back, and what is fixed goes by itself."""

import os
import shutil
from pathlib import Path

import openpyxl
import pytest
from command_in_process import loadsheet
from orders import MAPPINGS, write_orders


@pytest.fixture
def night(tmp_path):
    shutil.copytree(MAPPINGS, tmp_path / "mappings")
    (tmp_path / "inbox").mkdir()

    def night():
        done = loadsheet(tmp_path, "run", "--settle", "0", "--exit-zero")
        assert done.returncode == 0, done.stderr
        return max(Path(tmp_path / "outbox").glob("*-*-*-*/reconciliation.xlsx"))

    night.folder = tmp_path
    return night


def lines(path, title="Exceptions"):
    head, *rows = ([cell.value for cell in line] for line in openpyxl.load_workbook(path)[title].iter_rows())
    return [dict(zip(head, line, strict=True)) for line in rows if line[1]]


def test_a_wrong_order_is_remarked_on_rolled_forward_and_gone_when_it_is_fixed(night):
    inbox = night.folder / "inbox"
    write_orders(inbox, 3, first=1, wrong_every=2)
    first = night()
    (exception,) = lines(first)
    assert exception["Status"] == "open"

    book = openpyxl.load_workbook(first)
    heads = [cell.value for cell in book["Exceptions"][1]]
    for head, value in (("Owner", "Ada"), ("Reason", "shipper data"), ("Comment", "they send it anew")):
        book["Exceptions"].cell(2, heads.index(head) + 1).value = value
    book.save(first)
    later = first.stat().st_mtime + 60
    os.utime(first, (later, later))

    (rolled,) = lines(night())  # with an empty inbox
    assert rolled["Exception"] == exception["Exception"]
    assert [rolled[head] for head in ("Owner", "Reason", "Comment")] == ["Ada", "shipper data", "they send it anew"]
    assert rolled["In run"] == exception["In run"]

    write_orders(inbox, 3, first=1)
    last = night()
    assert lines(last) == []
    (closed,) = lines(last, "Closed")
    assert (closed["Exception"], closed["Owner"]) == (exception["Exception"], "Ada")
    assert closed["Closed because"] == "a later document was accepted"

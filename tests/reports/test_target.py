import gc
import sys

import openpyxl
import pytest
from small_disk import small_disk

from loadsheet.problems import FolderError
from loadsheet.reports.sheets import Column, TableSheet, open_book


def write_book(path, rows):
    with open_book(path, title="Some", footer="some") as book:
        sheet = TableSheet(book, "Some", [Column("a")], overflow=path.with_suffix(".csv"))
        for number in range(rows):
            sheet.add([f"{number} {number * 7919 % 104_729}"])
        sheet.finish("nothing")


@pytest.mark.parametrize(("left", "rows"), [(16 * 1024, 4_000), (4096, 10)])
def test_a_workbook_on_a_full_disk_fails_once_and_says_nothing_more(tmp_path, monkeypatch, left, rows):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with small_disk(tmp_path / "disk", mb=1) as disk:
        disk.fill(left=left)
        with pytest.raises(FolderError, match="No space left on device"):
            write_book(disk.folder / "book.xlsx", rows)
        gc.collect()
        assert [path.name for path in disk.folder.iterdir()] == ["filler"]
        disk.free()
        write_book(disk.folder / "book.xlsx", 10)
        assert openpyxl.load_workbook(disk.folder / "book.xlsx")["Some"].max_row == 11
    assert [one.exc_value for one in said] == []

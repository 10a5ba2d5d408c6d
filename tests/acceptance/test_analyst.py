"""What an analyst sees from night to night: the work list rolls forward, their words come back, and what is fixed goes by itself."""

import os
from urllib.parse import unquote

import openpyxl
import pytest
from workspace import SAMPLES


def lines(workspace, title="Exceptions"):
    book = openpyxl.load_workbook(workspace.reports()[-1] / "reconciliation.xlsx")
    head, *rows = ([cell.value for cell in line] for line in book[title].iter_rows())
    return [dict(zip(head, line, strict=True)) for line in rows if line[1]]


def test_a_wrong_order_is_remarked_on_rolled_forward_and_gone_when_it_is_fixed(workspace):
    workspace.write_orders(3, first=1, wrong_every=2)
    assert workspace.run().returncode == 1
    (exception,) = lines(workspace)
    assert exception["Status"] == "open"

    first = workspace.reports()[-1] / "reconciliation.xlsx"
    book = openpyxl.load_workbook(first)
    heads = [cell.value for cell in book["Exceptions"][1]]
    for head, value in (("Owner", "Ada"), ("Reason", "shipper data"), ("Comment", "they send it anew")):
        book["Exceptions"].cell(2, heads.index(head) + 1).value = value
    book.save(first)
    later = first.stat().st_mtime + 60
    os.utime(first, (later, later))

    workspace.run()  # with an empty inbox
    (rolled,) = lines(workspace)
    assert rolled["Exception"] == exception["Exception"]
    assert [rolled[head] for head in ("Owner", "Reason", "Comment")] == ["Ada", "shipper data", "they send it anew"]
    assert rolled["In run"] == exception["In run"]

    workspace.write_orders(3, first=1)
    assert workspace.run().returncode == 0
    assert lines(workspace) == []
    (closed,) = lines(workspace, "Closed")
    assert (closed["Exception"], closed["Owner"]) == (exception["Exception"], "Ada")
    assert closed["Closed because"] == "a later document was accepted"
    first_line, *_ = workspace.command("show", closed["Key"]).stdout.splitlines()
    assert first_line.startswith(f"order.create {closed['Key']}: accepted"), "how it stands now comes first"


@pytest.mark.parametrize("archive_path", ["{yyyy}/{mm}/{dd}/{run}/{name}", "{yyyy}-{mm}/of {run}/{name}", "{name}"])
def test_a_source_cell_opens_the_kept_original_at_the_cell(workspace, archive_path):
    """Wherever the archive keeps originals. The second of the same name is numbered there."""
    workspace.use_shipped("acme-flat")
    workspace.variables["LOADSHEET_ARCHIVE_PATH"] = archive_path
    for _ in range(1 + (archive_path == "{name}")):
        workspace.drop("acme_orders_50% [a]#1.xlsx", SAMPLES / "acme_orders_2026-03.xlsx")
        assert workspace.run().returncode == 1
    folder = workspace.reports()[-1]
    book = openpyxl.load_workbook(folder / "reconciliation.xlsx")
    followed, originals = [], {}
    for title, column, found in (("Exceptions", "Source cell", "Source value"), ("Problems", "Cell", "Value")):
        heads = [cell.value for cell in book[title][1]]
        for line in book[title].iter_rows(min_row=2):
            link, value = line[heads.index(column)].hyperlink, line[heads.index(found)].value
            path = folder / unquote(link.target.replace("\\", "/"))
            original = originals.get(path) or openpyxl.load_workbook(path, data_only=True)
            originals[path] = original
            sheet, _, cell = link.location.rpartition("!")
            followed.append((value, str(original[sheet.strip("'")][cell].value)))
    assert len(followed) > 8
    assert [pair for pair in followed if pair[0] != pair[1] and not pair[1].startswith(pair[0][:3])] == []
    assert ("zwölf", "zwölf") in followed

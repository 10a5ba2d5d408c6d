"""What the exchange refuses stands on the cell that the value came from: a whole run over the wire, against our own exchange."""

import shutil
from pathlib import Path

import openpyxl
import pytest
from command_in_process import loadsheet
from exchange_process import TOKEN, exchange

ROOT = Path(__file__).parents[2]
LONGEST = 7  # characters of a text that this exchange takes; the translator does not know
SAMPLES = (
    "tender_updates.csv",
    "tender_withdrawals.csv",
    "order_deletes.csv",
    "status_rotterdam_2026-03-05.csv",
    "nordic",
)
SHAPES = {
    "results, status, message, errors": ("tender_updates", "tender_updates", "Tender", "LSC-SP26-001"),
    "status, message, errors": ("tender_withdrawals", "tender_withdrawals", "Tender", "LSC-SP26-020"),
    "results, error": ("order_deletes", "order_deletes", "Order", "HLT-26-0149"),
    "errors by data[<index>]": ("status_rotterdam_2026-03-05", "status_rotterdam_2026-03-05", "Location", None),
    "nested in a list": ("nordic__2026-03-04__orders", "packages", "Goods", None),
}
"""One file for each shape of a refusal: its name, sheet, a column whose texts are too long, and its first value if that is known."""


@pytest.fixture(scope="module")
def outbox(tmp_path_factory):
    """The reports of a run in which the exchange finds nearly every text too long."""
    base = tmp_path_factory.mktemp("refusals")
    (base / "inbox").mkdir()
    for name in SAMPLES:
        source, target = ROOT / "inbox_samples" / name, base / "inbox" / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    words = ["run", "--inbox", "inbox", "--mappings", ROOT / "mappings", "--settle", "0", "--exit-zero"]
    with exchange(base / "exchange.db", text_length_max=str(LONGEST)) as served:
        variables = {"VERIFICATION__PARENTS": "send", "DISPATCH__CANARY": "0", "TOKEN": TOKEN}
        variables = {f"LOADSHEET_{name}": value for name, value in variables.items()}
        done = loadsheet(base, *words, "--exchange", served.url, **variables)
    assert done.returncode == 0, done.stderr
    (folder,) = (path for path in (base / "outbox").iterdir() if path.is_dir())
    return folder


@pytest.mark.parametrize("shape", SHAPES)
def test_a_refusal_stands_on_the_cell_that_the_value_came_from(outbox, shape):
    name, title, column, first = SHAPES[shape]
    sheet = openpyxl.load_workbook(outbox / f"{name}.fix.xlsx")[title]
    position = [cell.value for cell in sheet[1]].index(column) + 1
    cells = [cell for (cell,) in sheet.iter_rows(min_row=2, min_col=position, max_col=position)]
    blamed = [cell for cell in cells if cell.comment and "[X701]" in cell.comment.text]
    assert blamed
    for cell in blamed:
        assert "at most 7 characters" in cell.comment.text
        assert len(str(cell.value)) > LONGEST
        assert cell.border.left.style == "medium"
        said = sheet.cell(cell.row, 1).value
        lines = [line.split(": The exchange refused it: ")[0] for line in said.split("\n")]
        assert any(column in columns.split(", ") for columns in lines)
    assert first is None or blamed[0].value == first


def test_a_value_that_is_in_no_cell_is_noted_at_the_row_and_is_not_for_the_sender(outbox):
    sheet = openpyxl.load_workbook(outbox / "tender_updates.fix.xlsx")["tender_updates"]
    (line,) = (line for line in sheet["A2"].value.split("\n") if "receiver_id" in line)
    assert line.endswith("This value is not in your file: contact the people who run loadsheet")
    assert sheet["A2"].border.left.style == "medium"

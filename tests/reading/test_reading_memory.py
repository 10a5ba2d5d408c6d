"""Files of any length are read in the same memory: ours and that of the process that reads, together."""

import sys

import pytest
import xlsxwriter
from hostile_cost import cost_of

HEADER = ("Order", "City", "Weight", "Date", "Note", "Price")


def cells(number):
    return (f"A{number:08}", "Köln", number % 977, 45_000 + number % 400, f"note {number % 5_003}", number / 8)


def write_csv(path, rows):
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(HEADER) + "\n")
        for number in range(rows):
            file.write('%s,"%s",%s,%s,%s,%s\n' % cells(number))  # noqa: UP031 (a row, and twice as fast)


def write_xlsx(path, rows):
    """A workbook with its texts in its cells, as programs write what they stream."""
    with xlsxwriter.Workbook(path, {"constant_memory": True, "tmpdir": str(path.parent)}) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, HEADER)
        for number in range(rows):
            for place, cell in enumerate(cells(number)):
                (sheet.write_string if isinstance(cell, str) else sheet.write_number)(number + 1, place, cell)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is counted in other units")
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("write", "rows"),
    [
        (write_csv, 60_000),
        pytest.param(write_csv, 1_000_000, marks=[pytest.mark.sweep, pytest.mark.alone]),
        pytest.param(write_xlsx, 150_000, marks=[pytest.mark.sweep, pytest.mark.alone]),
    ],
)
def test_ten_times_the_rows_take_no_more_memory(tmp_path, write, rows):
    costs = []
    for count in (rows // 10, rows):
        write(tmp_path / f"{count}", count)
        costs.append(cost_of([tmp_path / f"{count}"]))
    assert [cost.codes for cost in costs] == [[rows // 10], [rows]]
    few, many = (cost.peak_mb + cost.own_mb for cost in costs)
    assert many < few + 15, costs

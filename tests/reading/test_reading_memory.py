"""Files of any length are read in the same memory: ours and that of the process that reads, together."""

import subprocess
import sys
import time

import pytest
import xlsxwriter
from family import memory_mb

HEADER = ("Order", "City", "Weight", "Date", "Note", "Price")
READ = """
import sys
from pathlib import Path
from loadsheet.reading import Layout, WantedColumn, open_tables
from loadsheet.settings import Settings
path = Path(sys.argv[1])
table = open_tables(path, path.name, [Layout("rows", (WantedColumn("Order", ("Order",)),))], Settings())["rows"]
print(sum(row.problem is None for row in table.rows()))
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="the memory of other processes is read from /proc")


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


def peak_mb(path, rows):
    """The highest memory of a process that reads the file and of all it starts, looked at every 20 ms or so."""
    with subprocess.Popen([sys.executable, "-c", READ, str(path)], stdout=subprocess.PIPE, text=True) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, memory_mb(process.pid))
            time.sleep(0.02)
        assert int(process.stdout.read()) == rows
    return peak


@linux
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("write", "rows"),
    [
        (write_csv, 100_000),
        (write_xlsx, 10_000),
        pytest.param(write_csv, 2_000_000, marks=[pytest.mark.sweep, pytest.mark.alone]),
        pytest.param(write_xlsx, 300_000, marks=[pytest.mark.sweep, pytest.mark.alone]),
    ],
)
def test_ten_times_the_rows_take_no_more_memory(tmp_path, write, rows):
    peaks = []
    for count, times in ((rows // 10, 3), (rows, 1)):  # who is soon over is not always looked at when he is at his peak
        write(tmp_path / "table", count)
        peaks.append(max(peak_mb(tmp_path / "table", count) for _ in range(times)))
    assert peaks[1] < peaks[0] + 30, peaks

"""Reading beside other readers: `python -m tests.benchmarks.reading [--rows N]` writes one table as CSV and XLSX and has each read it.

Every reader is a process of its own and hands over rows of cells; a reader that is not installed is left out with a word. "kept"
says what is left of a cell: its place, its own digits, its type, errors. Peak memory is that of the process and its children together, looked
at ten times a second (Linux); CPU time is theirs, imports included.
"""

# ruff: noqa: ICN001 (each reader is imported by the process that measures it)

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import xlsxwriter
from process_memory import memory_mb

COLUMNS = 40
BATCH = 20_000
SHEET_ROWS = 1_048_575


def loadsheet(path, process):
    from loadsheet.reading import Layout, WantedColumn, open_tables
    from loadsheet.settings import Settings

    asked = Layout("rows", (WantedColumn("order", ("c0",)),))
    table = open_tables(path, path.name, [asked], Settings(reading_process=process))["rows"]
    return sum(1 for row in table.rows() if row.problem is None)


def csv_module(path):
    import csv

    with path.open(encoding="utf-8", newline="") as file:
        return sum(1 for _ in csv.reader(file)) - 1


def pandas_c(path):
    import pandas

    return len(pandas.read_csv(path, dtype=str, keep_default_na=False, na_filter=False, engine="c"))


def pandas_pyarrow(path):
    import pandas

    return len(pandas.read_csv(path, dtype=str, keep_default_na=False, engine="pyarrow"))


def polars_csv(path):
    import polars

    return polars.read_csv(path, infer_schema=False).height


def duckdb_csv(path):
    import duckdb

    found = duckdb.connect().execute("select * from read_csv(?, all_varchar = true)", [str(path)])
    count = 0
    while rows := found.fetchmany(BATCH):
        count += len(rows)
    return count


def openpyxl_rows(path):
    import openpyxl

    sheet = openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0]
    return sum(1 for _ in sheet.iter_rows(values_only=True)) - 1


def calamine(path):
    import python_calamine

    return len(python_calamine.CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()) - 1


def fastexcel_rows(path):
    import fastexcel

    return fastexcel.read_excel(path).load_sheet(0).height


READERS = {  # name: file, library, what is kept, function
    "loadsheet": ("csv", "loadsheet", "place, text", lambda path: loadsheet(path, "child")),
    "loadsheet, no process of its own": ("csv", "loadsheet", "place, text", lambda path: loadsheet(path, "none")),
    "csv module": ("csv", "csv", "text", csv_module),
    "pandas, C engine": ("csv", "pandas", "text", pandas_c),
    "pandas, pyarrow engine": ("csv", "pyarrow", "text", pandas_pyarrow),
    "polars": ("csv", "polars", "text", polars_csv),
    "duckdb, rows to Python": ("csv", "duckdb", "text", duckdb_csv),
    "loadsheet ": ("xlsx", "loadsheet", "place, digits, type, format, errors", lambda path: loadsheet(path, "child")),
    "loadsheet, no process of its own ": (
        "xlsx", "loadsheet", "place, digits, type, format, errors", lambda path: loadsheet(path, "none"),
    ),
    "openpyxl, read-only": ("xlsx", "openpyxl", "place, type, errors", openpyxl_rows),
    "python-calamine": ("xlsx", "python_calamine", "value", calamine),
    "fastexcel": ("xlsx", "fastexcel", "value, by column", fastexcel_rows),
}  # fmt: skip


def write(folder, rows):
    """The same table as CSV and, as far as a sheet reaches, as XLSX: an id, two texts, a number, a price, a date and so on."""
    chance = random.Random(5)
    cities = ["Ulm", "Bonn", "Köln", "Lyon", "Graz", "Gent", "Brno", "Pisa"]
    paths = folder / "table.csv", folder / "table.xlsx"
    book = xlsxwriter.Workbook(paths[1], {"constant_memory": rows > BATCH * 10, "tmpdir": str(folder)})
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    sheet = book.add_worksheet()
    with paths[0].open("w", encoding="utf-8") as file:
        for number in range(rows + 1):
            cells = [f"c{place}" for place in range(COLUMNS)]
            if number:
                made = (
                    f"ORD-{number:08}",
                    chance.choice(cities),
                    number % 30,
                    chance.randrange(90_000) / 100,
                    45_000 + number % 400,
                )
                cells = [made[place % 5] for place in range(COLUMNS)]
            file.write(",".join(map(str, cells)) + "\n")
            if number <= SHEET_ROWS:
                for place, cell in enumerate(cells):
                    if isinstance(cell, str):
                        sheet.write_string(number, place, cell)
                    else:
                        sheet.write_number(number, place, cell, day if place % 5 == 4 else None)
    book.close()
    return dict(zip(("csv", "xlsx"), paths, strict=True))


def measure(name, path):
    """The line of one reader, measured in a process that does nothing else."""
    kind, _, kept, _ = READERS[name]
    command = [sys.executable, "-m", "tests.benchmarks.reading", "--reader", name, "--path", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak, ended = 0, 0
    while not ended:
        peak = max(peak, memory_mb(process.pid))
        time.sleep(0.1)
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    said, wrong = process.communicate()
    if process.returncode:
        return f"{kind:5} {name.strip():34} failed: {wrong.strip().splitlines()[-1:]}"
    rows, wall = said.split()
    rate, cpu = int(rows) / float(wall), used.ru_utime + used.ru_stime
    return f"{kind:5} {name.strip():34} {rate:>10,.0f} {float(wall):>8.2f} {cpu:>8.2f} {peak:>8,.0f} MB   {kept}"


def read_once(name, path):
    """Rows and wall time of one reading, the reader's import included."""
    begun = time.perf_counter()
    print(READERS[name][3](path), time.perf_counter() - begun)


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=50_000)
    words.add_argument("--reader", help=argparse.SUPPRESS)
    words.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.reader:
        read_once(given.reader, given.path)
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), given.rows)
        sizes = ", ".join(f"{kind} {path.stat().st_size / 1e6:,.0f} MB" for kind, path in paths.items())
        print(f"{given.rows:,} rows of {COLUMNS} columns: {sizes}; {os.cpu_count()} cores")
        print(f"{'':5} {'reader':34} {'rows/s':>10} {'wall s':>8} {'CPU s':>8} {'peak':>11}   kept of a cell")
        for name, (kind, library, _, _) in READERS.items():
            if importlib.util.find_spec(library) is None:
                print(f"{kind:5} {name.strip():34} {library} is not installed")
            else:
                print(measure(name, paths[kind]), flush=True)


if __name__ == "__main__":
    main()

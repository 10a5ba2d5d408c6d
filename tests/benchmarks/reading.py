"""`make bench`: reading a workbook beside python-calamine, which gives the same values without displayed texts, errors and places.

Also beside an XML parser that calls Python for each element and does nothing there, which no reader in Python can beat, and openpyxl.

Each reader is a process of its own and makes rows of cells; imports are included.
"""

import argparse
import random
import sys
import zipfile
from datetime import date, timedelta
from pathlib import Path

import xlsxwriter
from tests.benchmarks.measuring import Contender, compare, head, scratch

COLUMNS = 40
CITIES = ["Ulm", "Bonn", "Köln", "Lyon", "Graz", "Gent", "Brno", "Pisa"]


def loadsheet(path):
    from loadsheet.reading import Layout, WantedColumn, open_tables
    from loadsheet.settings import Settings

    asked = Layout("rows", (WantedColumn("order", ("c0",)),))
    table = open_tables(path, path.name, [asked], Settings(reading_process="none"))["rows"]
    return sum(row.problem is None for row in table.rows())


def calamine(path):
    import python_calamine

    return len(python_calamine.CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()) - 1


def callbacks(path):
    from pyexpat import ParserCreate

    parser, rows = ParserCreate(), []
    parser.StartElementHandler = lambda name, _: rows.append(name) if name == "row" else None
    parser.EndElementHandler = parser.CharacterDataHandler = lambda _: None
    parser.buffer_text = True
    with zipfile.ZipFile(path) as package, package.open("xl/worksheets/sheet1.xml") as sheet:
        parser.ParseFile(sheet)
    return len(rows) - 1


def openpyxl(path):
    from openpyxl import load_workbook

    return sum(1 for _ in load_workbook(path, read_only=True).active.iter_rows(values_only=True)) - 1


READERS = {  # and the aim
    "python-calamine": (calamine, ""),
    "expat, empty callbacks": (callbacks, ""),
    "loadsheet": (loadsheet, "aim: at most 1.5"),
    "openpyxl, values only": (openpyxl, ""),
}


def write(path, rows):
    """A sheet of ids, texts, numbers, prices and dates by turns."""
    chance = random.Random(5)
    with xlsxwriter.Workbook(path, {"constant_memory": True, "default_date_format": "yyyy-mm-dd"}) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, [f"c{place}" for place in range(COLUMNS)])
        for number in range(1, rows + 1):
            day, price = date(2026, 3, 1) + timedelta(number % 400), chance.randrange(90_000) / 100
            cells = [f"ORD-{number:08}", chance.choice(CITIES), number % 30, price, day]
            sheet.write_row(number, 0, [cells[place % 5] for place in range(COLUMNS)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reader", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.reader:
        name, path = given.reader
        assert READERS[name][0](Path(path)) == given.rows
        return
    with scratch() as folder:
        path = folder / "table.xlsx"
        write(path, given.rows)
        print(f"{given.rows:,} rows of {COLUMNS} columns, {path.stat().st_size / 1e6:,.0f} MB")
        head("row")
        command = [sys.executable, "-m", "tests.benchmarks.reading", "--rows", given.rows, "--reader"]
        readers = [Contender(name, [*command, name, path], aim=aim) for name, (_, aim) in READERS.items()]
        compare(readers, given.rows, rounds=given.rounds)


if __name__ == "__main__":
    main()

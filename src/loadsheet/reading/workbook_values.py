"""The values of workbooks, whatever their format: sheets, rows of cells, and what a sheet holds beside its cells.

A format (`xlsx`, `xlsb`, `xls`, `ods`) makes a `Book`; `workbook` finds the tables in it. Neither knows the other.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from loadsheet.problems import FileRefused, Problem, Where, column_letters


class Dense(tuple[str, ...]):
    """The cells of a row from the first column on, blanks between."""

    __slots__ = ()


Cells = list[tuple[int, str]]
"""The cells of a row that hold anything: position from 0, value."""

Rows = Generator[tuple[int, Cells | Dense], None, None]
"""The rows of a sheet that hold anything: number from 1, cells, or the whole row where that is cheaper."""

ROWS_MAX, COLUMNS_MAX = 1_048_576, 16_384
"""The last row and column that a spreadsheet program of today has; a cell that claims to stand further out is damage."""


class Sheet(NamedTuple):
    """A worksheet: its name, what the format finds it by, and whether it is hidden."""

    title: str
    key: str
    hidden: bool


class Spans:
    """Row numbers that mostly follow each other, kept as the first and last of each stretch."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, first: int, last: int) -> None:
        """Rows from the first to the last; they come in ascending order."""
        if self._lasts and first == self._lasts[-1] + 1:
            self._lasts[-1] = last
        else:
            self._firsts.append(first)
            self._lasts.append(last)

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._firsts, number) - 1
        return place >= 0 and number <= self._lasts[place]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in zip(self._firsts, self._lasts, strict=True))


NO_ROWS = Spans()

_ONE_OF_THEM = "open the file in the program it comes from, check the values, save it and send it again"


_SILENT = "if they should show something, open the file in Excel, save it and send it again"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a sheet holds beside its cells. `hidden_rows` are numbers from 1, `hidden_columns` positions from 0, `filtered` is the
    range of a filter, `silent` the number of formulas whose saved value is an empty text, where a format cannot tell that from none.
    """

    merged: int = 0
    hidden_rows: Spans = NO_ROWS
    hidden_columns: tuple[int, ...] = ()
    filtered: str = ""
    silent: int = 0

    def describe(self, rows: str, columns_are: str) -> dict[str, str]:
        """In words, for `Table.found`, with what is done with hidden rows and columns; what there is not is not told."""
        columns = self.hidden_columns
        letters = ", ".join(column_letters(position) for position in columns[:20]) + (", ..." if columns[20:] else "")
        return {
            **({"merged cells": f"{self.merged:,} (the value stands in the first cell only)"} if self.merged else {}),
            **({"hidden rows": f"{len(self.hidden_rows):,} ({rows})"} if self.hidden_rows else {}),
            **({"hidden columns": f"{len(columns):,} ({columns_are}): {letters}"} if columns else {}),
            **({"filter": f"{self.filtered} (all rows are read)"} if self.filtered else {}),
            **({"formulas that show nothing": f"{self.silent:,} ({_SILENT})"} if self.silent else {}),
        }


@dataclass(frozen=True, slots=True)
class Book:
    """A workbook that is open for reading. `name` is the file's name for problems, `kind` what it is, `notes` what the reports
    say of it.

    `rows(key)` reads a sheet, anew each time and streaming where the format lets it; `prove(key)` reads it to its end once, so
    that damage is found before a row is used. Both raise FileRefused.
    """

    name: str
    kind: str
    sheets: tuple[Sheet, ...]
    notes: dict[str, str]
    rows: Callable[[str], Rows]
    verify: Callable[[str], Traits]

    def rows_of(self, sheet: Sheet) -> Rows:
        """The rows of a sheet as they come. Raises FileRefused, also at the first row number or cell that holds values a second time."""
        seen, disordered, last = Spans(), set[int](), 0
        with closing(self.rows(sheet.key)) as rows:
            for number, cells in rows:
                if number > last:
                    seen.add(number, number)
                    last = number
                elif number in seen or number in disordered:
                    raise self._repeated(sheet, number, f"row {number}")
                else:
                    disordered.add(number)
                if not isinstance(cells, Dense) and len(cells) > len(dict(cells)):
                    times = Counter(position for position, _ in cells)
                    cell = f"{column_letters(times.most_common(1)[0][0])}{number}"
                    raise self._repeated(sheet, number, f"the cell {cell}", cell)
                yield number, cells

    def _repeated(self, sheet: Sheet, number: int, what: str, cell: str = "") -> FileRefused:
        where = Where(self.name, sheet.title, number, cell=cell)
        return FileRefused(Problem("R240", where, "", {"what": what, "sheet": sheet.title}, _ONE_OF_THEM))

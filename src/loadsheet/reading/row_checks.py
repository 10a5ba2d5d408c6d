"""Whether a row is sound: of the right length, without control characters, without endless cells.

Pure, and the same for every kind of file. A row that is not sound keeps what could be read of it and says what is wrong.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loadsheet.problems import Problem, Where
from loadsheet.reading.tables import Row, place

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Control characters; tab and line breaks are text."""

OF_ONE_CELL = frozenset({"R209", "R212"})
"""Problems of one cell of a row; the other cells can be read all the same."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the rows of a table are held against: its file, sheet and header, and the longest cell that is read."""

    file: str
    sheet: str
    header: tuple[str, ...]
    cell_length_max: int

    def where(self, row: int, column: int | None = None) -> Where:
        """The place of a row or a cell."""
        return place(self.file, self.sheet, self.header, row, column)

    def fit(self, cells: Sequence[str]) -> tuple[str, ...]:
        """The cells, cut or filled with blanks to as many as the header has."""
        width = len(self.header)
        return (*cells[:width], *("",) * (width - len(cells)))

    def ragged(self, number: int, cells: Sequence[str]) -> Row:
        """A row with too few or too many cells. In a text nobody knows which value is in the wrong column, so all of them take part."""
        width = len(self.header)
        beyond = [place for place in range(width, len(cells)) if cells[place].strip()]
        surplus = ", ".join(cells[place] for place in beyond)[:100]
        if len(cells) < width:
            hint = "a cell is missing, so it is not clear which column each value belongs to"
        elif self.sheet:
            hint = "a value stands beyond the last column of the header; delete it, or give its column a label"
        else:
            hint = (
                "a value stands beyond the last column of the header; a delimiter inside a value needs quotes around it"
            )
        where = self.where(number, beyond[0] if self.sheet and beyond else None)
        values = {"cells": len(cells), "columns": width}
        also = () if self.sheet else self.every_cell(number)
        return Row(number, self.fit(cells), Problem("R205", where, surplus, values, hint, also=also))

    def every_cell(self, number: int) -> tuple[Where, ...]:
        """The places of all cells of a row."""
        return tuple(self.where(number, column) for column in range(len(self.header)))

    def doubt(self, number: int, cells: Sequence[str]) -> Problem | None:
        """What is wrong inside the cells: the first control character, else the first cell that is too long."""
        damaged = [column for column, cell in enumerate(cells) if CONTROL.search(cell)]
        long = [column for column, cell in enumerate(cells) if len(cell) > self.cell_length_max]
        if not damaged and not long:
            return None
        first, *others = [self.where(number, column) for column in damaged or long]
        cell, also = cells[(damaged or long)[0]], tuple(others)
        if found := CONTROL.search(cell):
            shown = CONTROL.sub("\N{REPLACEMENT CHARACTER}", cell)[:100]
            hint = "the file may be damaged; remove the character and send it again"
            return Problem("R209", first, shown, {"character": ord(found[0])}, hint, also=also)
        values = {"length": len(cell), "limit": self.cell_length_max}
        return Problem("R212", first, cell[:100], values, "shorten it", also=also)


def with_line_feeds(cells: Sequence[str]) -> list[str]:
    """The cells with every line end within them as one line feed: whether it is CR LF, CR or LF is up to who saved the file."""
    return [cell.replace("\r\n", "\n").replace("\r", "\n") if "\r" in cell else cell for cell in cells]


def is_blank(cells: Sequence[str]) -> bool:
    """Whether there is nothing but white space in the cells."""
    return not any(cells) or not "".join(cells).strip()

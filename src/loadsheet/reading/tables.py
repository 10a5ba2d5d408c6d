"""The values of reading: cells, rows and tables.

A cell is text. What a workbook holds as a number, date or flag is still text here (`Native`), in one canonical form, with
its kind beside it, so that a converter need not guess: a text cell "1.234" is read by the mapping's locale, a number cell
1.234 is exact already.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

from loadsheet.problems import Problem, Where

NativeKind = Literal["number", "datetime", "date", "time", "flag", "error", "formula"]


class Native(str):
    """A typed workbook cell as canonical text: number `12.5` (no exponent, no trailing `.0`), datetime `2026-03-01 08:00:00`,
    date `2026-03-01`, time `08:00:00`, flag `true`/`false`, error `#N/A`; `formula` is a formula without a saved value.

    `shown` is the cell as its sender sees it where the number format says more than the value: `01067` for 1067 in `00000`.
    """

    __slots__ = ("kind", "shown")
    kind: NativeKind
    shown: str

    def __new__(cls, text: str, kind: NativeKind, shown: str | None = None) -> Self:
        """A cell of this kind; `shown` is `text` unless given."""
        cell = super().__new__(cls, text)
        cell.kind = kind
        cell.shown = text if shown is None else shown
        return cell


class Row(NamedTuple):
    """One row: its number from 1 as the sender's program counts lines or rows, its cells (exactly as many as the table has
    columns), and the problem that makes it unusable, if any (then `cells` hold what could be read).
    """

    number: int
    cells: tuple[str, ...]
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The rows under one header. `rows()` reads them anew each time, streaming; blank rows are left out of it and counted.

    `name` is the table's name in the mapping; `file` the name it was dropped under; `sheet` is empty for text files;
    `columns` maps the mapping's column names to positions in `header`; `found` says how the file was read, for the reports:
    encoding, delimiter, header row, rows skipped above it, hidden sheets.
    """

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    rows: Callable[[], Iterator[Row]]
    found: dict[str, str]

    def where(self, row: int, column: int | None = None, path: str = "") -> Where:
        """The place of a row or, with a column position, of a cell."""
        if column is None:
            return Where(self.file, self.sheet, row, path=path)
        label = self.header[column] if column < len(self.header) else ""
        address = f"{column_letters(column)}{row}" if self.sheet else ""
        return Where(self.file, self.sheet, row, label, address, path)


def column_letters(position: int) -> str:
    """The letters of a column position counted from 0, as spreadsheets show them: 0 is A, 26 is AA."""
    letters = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        letters = chr(65 + rest) + letters
    return letters

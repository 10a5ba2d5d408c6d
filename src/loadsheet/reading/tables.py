"""The values of reading: what a mapping asks of a table (`Layout`), the table with its rows and cells, and the checks of a row.

A cell is text. A number, date or flag of a workbook is text here too (`Native`), in one canonical form, with its kind. So a
converter need not guess: a text cell "1.234" is read by the mapping's locale, a number cell 1.234 is exact already.

The mapping builds the layouts; reading never sees a mapping file.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from loadsheet.problems import Problem, Where, column_letters

if TYPE_CHECKING:
    from loadsheet.settings import (
        Settings,  # a reader's process never loads it: it takes longer than all that reads CSV
    )

# ---- what a mapping asks ----


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column of the mapping: its name there, the labels it may stand under (label, then aliases), and whether the header
    must hold it. Labels are compared folded (see `header.fold`).
    """

    name: str
    labels: tuple[str, ...]
    required: bool = True


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """How a column is read: as text, number or moment; the width that shorter values are padded to (0: they are not); and its date
    formats in words, each with what reads a text of this format (None: the text is not of it).
    """

    kind: Literal["text", "number", "moment"] = "text"
    pads_to: int = 0
    formats: tuple[tuple[str, Callable[[str], object | None]], ...] = ()


@dataclass(frozen=True, slots=True)
class RowFilters:
    """Which rows around and between those of a table are not part of it. Rows that match a rule are ignored, never lost.

    `units_row`: the first row under the header holds units (True), holds none (False), or is looked at ("auto"). `comment` is
    what the first cell of a comment begins with. `totals` are words that the first text of a total row begins with, wherever
    it stands; at the first row that begins with one of `footer` the table ends. `stop_at_blank`: it ends at a blank row.
    `hidden_rows` and `hidden_columns` say whether what a workbook hides is read like the rest.
    """

    units_row: Literal["auto"] | bool = "auto"
    comment: str = ""
    totals: tuple[str, ...] = ()
    footer: tuple[str, ...] = ()
    stop_at_blank: bool = False
    hidden_rows: Literal["read", "ignore"] = "read"
    hidden_columns: Literal["read", "ignore"] = "read"


@dataclass(frozen=True, slots=True)
class Layout:
    """One table as a mapping wants it; `name` is the mapping's name for it.

    `sheets` are names of which the first that exists is read; empty: the visible sheet with the header. `header_row`
    is a row number from 1, or "auto": the first row of a file's top with every required label; `header_rows` is over how many
    rows the labels are spread ("auto": one, or two or three if only together they hold every label). `encodings` and `delimiters`
    are for text files: tried strictly in this order; a byte order mark wins over the encodings, a `sep=` line over the delimiters.
    `quote` is what values of text files are quoted with, doubled inside them (empty: nothing is); `escape` is what makes the
    character after it an ordinary one (empty: nothing does). `row_filters` says which rows are none of the table's.
    """

    name: str
    columns: tuple[WantedColumn, ...]
    sheets: tuple[str, ...] = ()
    header_row: int | Literal["auto"] = "auto"
    encodings: tuple[str, ...] = ("utf-8-sig",)
    delimiters: tuple[str, ...] = (",", ";", "\t", "|")
    quote: str = '"'
    escape: str = ""
    header_rows: int | Literal["auto"] = "auto"
    row_filters: RowFilters = RowFilters()

    def __post_init__(self) -> None:
        """Raises ValueError for what can never be read: no column, no encoding, a delimiter that is not one character, or one
        character with two meanings.
        """
        if not self.columns or not self.encodings or not self.delimiters:
            raise ValueError(f"table {self.name} needs a column, an encoding and a delimiter at least")
        for delimiter in self.delimiters:
            if len(delimiter) != 1 or delimiter in "\r\n" or delimiter in (self.quote, self.escape):
                raise ValueError(f"table {self.name}: {delimiter!r} cannot be a delimiter")
        for mark in filter(None, (self.quote, self.escape)):
            if len(mark) > 1 or mark in "\r\n " or self.quote == self.escape:
                raise ValueError(f"table {self.name}: {mark!r} cannot be a quote or an escape")


class Bounds(NamedTuple):
    """Settings of the same names: rows, characters, columns, unpacked bytes, and lines of one record."""

    blank_rows_max: int
    cell_length_max: int
    columns_max: int
    inflated_bytes_max: int
    record_lines_max: int


def bounds_of(settings: "Settings") -> Bounds:
    """The bounds in the settings."""
    return Bounds(*(getattr(settings.reading, name) for name in Bounds._fields))


# ---- what a file holds ----

NativeKind = Literal["number", "datetime", "date", "time", "flag", "error", "formula"]

_VALUELESS = frozenset({"error", "formula"})


class Native(str):
    """A typed workbook cell as canonical text: number `12.5` (no exponent, no trailing `.0`), datetime `2026-03-01 08:00:00`,
    date `2026-03-01`, time `08:00:00`, flag `true`/`false`, error `#N/A`; `formula` is a formula without a saved value (its text is `=`).

    `shown` is the cell as its sender sees it where the number format says more than the value: `01067` for 1067 in `00000`,
    `27 lb` for 27 in `0.0" lb"`, `1.5 t` for 1500 in `0.0," t"`.
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
    columns), the problem that makes it unusable, if any (then `cells` hold what could be read), and the rule by which it is no
    row of the table but a unit, a total or a note, in words (then it is ignored, and has no problem).
    """

    number: int
    cells: tuple[str, ...]
    problem: Problem | None = None
    ignored: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """The cells as plain texts, as their sender sees them. The ledger keeps these, and reports show them."""
        return tuple([cell.shown if isinstance(cell, Native) else cell for cell in self.cells])

    @property
    def natives(self) -> tuple[tuple[int, NativeKind, str], ...]:
        """The cells that hold a value and not a text, as position from 0, kind and canonical text; neither errors nor formulas."""
        return tuple(
            [
                (position, cell.kind, str(cell))
                for position, cell in enumerate(self.cells)
                if isinstance(cell, Native) and cell.kind not in _VALUELESS
            ]
        )


@dataclass(frozen=True, slots=True)
class Table:
    """The rows under one header. `rows()` reads them anew each time, streaming; blank rows are left out of it.

    `name` is the table's name in the mapping; `file` the name it was dropped under; `sheet` is empty for text files;
    `columns` maps the mapping's column names to positions in `header`; `found` says how the file was read, for the reports:
    encoding, delimiter, header row, rows skipped above it, hidden sheets.

    A table of a fix file is given as the table that it was made from (see `fix_file_tables`): then `at` says where in the file its
    columns stand (-1: nowhere), and `first_name` is the name that the original was dropped under.
    """

    name: str
    file: str
    sheet: str
    header: tuple[str, ...]
    header_row: int
    columns: dict[str, int]
    rows: Callable[[], Iterator[Row]]
    found: dict[str, str]
    at: tuple[int, ...] = ()
    first_name: str = ""

    def where(self, row: int, column: int | None = None, path: str = "") -> Where:
        """The place of a row or, with a column position, of a cell."""
        found = place(self.file, self.sheet, self.header, row, column)
        if self.at and column is not None and self.sheet:
            stands = self.at[column]
            found = replace(found, cell=f"{column_letters(stands)}{row}" if stands >= 0 else "")
        return replace(found, path=path) if path else found


class Top(NamedTuple):
    """The first rows of a sheet, or of a text file (then `sheet` is empty), as number and cells; blank rows are left out.
    `encoding` and `delimiter` are those under which a text file makes most sense.
    """

    sheet: str
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    encoding: str = ""
    delimiter: str = ""


def place(file: str, sheet: str, header: tuple[str, ...], row: int, column: int | None = None) -> Where:
    """The place of a row or, with a column position, of a cell under this header."""
    if column is None:
        return Where(file, sheet, row)
    label = header[column] if column < len(header) else ""
    address = f"{column_letters(column)}{row}" if sheet else ""
    return Where(file, sheet, row, label, address)


CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Control characters; tab and line breaks are text."""

OF_ONE_CELL = frozenset({"R209", "R212"})
"""Problems of one cell of a row; the other cells can be read all the same."""


@dataclass(frozen=True, slots=True)
class RowChecks:
    """Checks that the rows of a table are as wide as its header and their cells sound. Knows file, sheet, header and the longest cell read."""

    file: str
    sheet: str
    header: tuple[str, ...]
    cell_length_max: int

    def where(self, row: int, column: int | None = None) -> Where:
        """The place of a row or a cell."""
        return place(self.file, self.sheet, self.header, row, column)

    def fit_width(self, cells: Sequence[str]) -> tuple[str, ...]:
        """The cells, cut or filled with blanks to as many as the header has."""
        width = len(self.header)
        return (*cells[:width], *("",) * (width - len(cells)))

    def ragged(self, number: int, cells: Sequence[str]) -> Row:
        """A row with too few or too many cells. In a text file any value may be in the wrong column, so the problem names all cells."""
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
        return Row(number, self.fit_width(cells), Problem("R205", where, surplus, values, hint, also=also))

    def every_cell(self, number: int) -> tuple[Where, ...]:
        """The places of all cells of a row."""
        return tuple(self.where(number, column) for column in range(len(self.header)))

    def find_damage(self, number: int, cells: Sequence[str]) -> Problem | None:
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
